//! Blocking access to any device: layers are formatted and recovered through it.

use bytes::Bytes;
use units::{IoOp, Nanos};

use crate::{BlockDevice, Command, Completion, Data, Failure, Limits};

/// Commands that a long read or write keeps outstanding at once.
const OUTSTANDING: u32 = 16;

/// Bytes on a device, or on layers above one, while nothing else uses it. Each call returns when it
/// is done, as making or opening a volume may take time.
pub struct Store<'a> {
    device: &'a mut dyn BlockDevice,
    completed: Vec<Completion>,
    /// Message of the failure after which the device replies no more.
    gone: Option<String>,
}

impl<'a> Store<'a> {
    /// Access to a device that [holds data](crate::DeviceInfo::holds_data).
    ///
    /// # Panics
    /// If it holds none, or has commands outstanding.
    #[must_use]
    pub fn new(device: &'a mut dyn BlockDevice) -> Self {
        assert!(
            device.info().holds_data,
            "{}: what is stored there can be read again",
            device.info().name
        );
        assert!(device.outstanding() == 0, "{}: nothing else goes on there", device.info().name);
        Self { device, completed: Vec::new(), gone: None }
    }

    /// Limits of the device. Reads and writes here may be longer than `most_bytes`: they are split
    /// into several commands.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.device.info().limits
    }

    /// Reads whole sectors.
    ///
    /// # Errors
    /// [`Failure`] if they cannot be read.
    pub fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<(), Failure> {
        let most = self.limits().most_bytes as usize;
        let command = |number: usize| {
            let (start, length) = (number * most, most.min(to.len() - number * most));
            Command::new(number as u32, IoOp::Read, offset + start as u64, length as u32)
        };
        let mut brought = Vec::new();
        self.run(to.len().div_ceil(most), command, |number, data| brought.push((number, data)))?;
        for (number, data) in brought {
            let start = number as usize * most;
            data.copy_to(&mut to[start..start + data.len()]);
        }
        Ok(())
    }

    /// Writes whole sectors; durable after [`Store::flush`].
    ///
    /// # Errors
    /// [`Failure`] if they cannot be written.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Failure> {
        let (most, bytes) = (self.limits().most_bytes as usize, Bytes::copy_from_slice(from));
        let command = |number: usize| {
            let part = number * most..bytes.len().min((number + 1) * most);
            Command::write(
                number as u32,
                offset + part.start as u64,
                Data::Whole(bytes.slice(part)),
            )
        };
        self.run(from.len().div_ceil(most), command, |_, _| ())
    }

    /// Makes all writes so far durable.
    ///
    /// # Errors
    /// [`Failure`] if that fails: it is then unknown what is durable.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.run(1, |_| Command::new(0, IoOp::Flush, 0, 0), |_, _| ())
    }

    /// Trims whole sectors.
    ///
    /// # Errors
    /// [`Failure`] if the device cannot.
    pub fn trim(&mut self, offset: u64, length: u32) -> Result<(), Failure> {
        self.run(1, |_| Command::new(0, IoOp::Trim, offset, length), |_, _| ())
    }

    /// Carries out commands in any order and waits for all of them, even if one fails: none is left
    /// under way.
    fn run(
        &mut self,
        count: usize,
        command: impl Fn(usize) -> Command,
        mut ended: impl FnMut(u32, Data),
    ) -> Result<(), Failure> {
        if let Some(gone) = &self.gone {
            return Err(command(0).failed(gone.clone()));
        }
        let most = OUTSTANDING.min(self.device.info().queue_depth);
        let (mut next, mut failure) = (0, None);
        while next < count || self.device.outstanding() > 0 {
            while failure.is_none() && next < count && self.device.outstanding() < most {
                self.device.submit(command(next));
                next += 1;
            }
            if self.device.outstanding() == 0 {
                break;
            }
            let waited = self.device.wait(Nanos::MAX, &mut self.completed);
            for Completion { reply, .. } in self.completed.drain(..) {
                match reply.outcome {
                    Ok(data) => ended(reply.id, data),
                    Err(other) => failure = failure.or(Some(other)),
                }
            }
            // A device that is gone replies to nothing more.
            if let Err(error) = waited {
                // The next caller must not wait for it.
                let gone = self.gone.insert(error.to_string()).clone();
                return Err(command(next.saturating_sub(1)).failed(gone));
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Immediate, Serve, Sparse};

    const LIMITS: Limits = Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 1024 };

    #[test]
    fn long_reads_and_writes_become_several_commands() {
        let mut device = Immediate::sparse(LIMITS);
        let mut store = Store::new(&mut device);
        let bytes: Vec<u8> = (0..40_960_u32).map(|n| (n / 512) as u8).collect();
        store.write(512, &bytes).unwrap();
        store.flush().unwrap();
        let mut read = vec![1; 40_960 + 512];
        store.read(0, &mut read).unwrap();
        assert_eq!((&read[..512], &read[512..]), (&[0; 512][..], &bytes[..]));
        store.trim(512, 1024).unwrap();
        store.read(512, &mut read[..1536]).unwrap();
        assert_eq!((&read[..1024], &read[1024..1536]), (&[0; 1024][..], &bytes[1024..1536]));
    }

    /// A device that fails every command on one sector.
    struct Scratched(Sparse);

    impl Serve for Scratched {
        fn limits(&self) -> Limits {
            LIMITS
        }

        fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
            let touches = command.offset <= 5120 && command.end() > 5120;
            if touches { Err(command.failed("scratched")) } else { self.0.serve(command) }
        }
    }

    #[test]
    fn a_failure_is_told_and_nothing_is_left_under_way() {
        let mut device = Immediate::new(Scratched(Sparse::new(LIMITS)));
        let failure = Store::new(&mut device).write(0, &[7; 8192]).unwrap_err();
        assert_eq!(failure.to_string(), "write of 1024 bytes at byte 5120 failed: scratched");
        assert_eq!(device.outstanding(), 0);
        Store::new(&mut device).read(0, &mut [0; 4096]).unwrap();
        assert!(Store::new(&mut device).read(4096, &mut [0; 2048]).is_err());
    }
}
