//! A part of a device, taken for a device.

use layers::Signal;
use units::{IoOp, Nanos};

use crate::{BlockDevice, Completion, DeviceError, DeviceInfo, FlashWork, Request};

/// Bytes of a device from an offset on, as a device that begins at byte 0: what layers are put on,
/// where they may not have all of it.
pub struct Part<'a> {
    device: &'a mut dyn BlockDevice,
    offset: u64,
    info: DeviceInfo,
}

impl<'a> Part<'a> {
    /// So many bytes of a device from an offset on.
    ///
    /// # Panics
    /// If they are not of whole sectors, none, or not all on the device.
    #[must_use]
    pub fn new(device: &'a mut dyn BlockDevice, offset: u64, length: u64) -> Self {
        let mut info = device.info().clone();
        let sector = u64::from(info.sector_bytes);
        let end = offset.checked_add(length).expect("an end of 64 bits");
        assert!(
            length > 0
                && end <= info.capacity_bytes
                && offset.is_multiple_of(sector)
                && length.is_multiple_of(sector),
            "{length} bytes from {offset} on are no whole sectors of a device of {} bytes",
            info.capacity_bytes
        );
        info.capacity_bytes = length;
        Self { device, offset, info }
    }
}

impl BlockDevice for Part<'_> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn outstanding(&self) -> u32 {
        self.device.outstanding()
    }

    fn submit(&mut self, request: &Request) -> Result<(), DeviceError> {
        self.info.check(request)?;
        let offset =
            if request.op == IoOp::Flush { request.offset } else { request.offset + self.offset };
        self.device.submit(&Request { offset, ..*request })
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), DeviceError> {
        self.device.wait(until, completed)
    }

    fn flash_work(&self) -> Option<FlashWork> {
        self.device.flash_work()
    }

    fn signal(&mut self, signal: Signal) -> Result<(), DeviceError> {
        self.device.signal(signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Opening, open};

    /// Tells what it is sent, and completes all of it.
    struct Noting(Vec<Request>, Box<dyn BlockDevice>);

    impl BlockDevice for Noting {
        fn info(&self) -> &DeviceInfo {
            self.1.info()
        }

        fn now(&mut self) -> Nanos {
            self.1.now()
        }

        fn outstanding(&self) -> u32 {
            self.1.outstanding()
        }

        fn submit(&mut self, request: &Request) -> Result<(), DeviceError> {
            self.0.push(*request);
            self.1.submit(request)
        }

        fn wait(
            &mut self,
            until: Nanos,
            completed: &mut Vec<Completion>,
        ) -> Result<(), DeviceError> {
            self.1.wait(until, completed)
        }
    }

    fn memory() -> Noting {
        Noting(Vec::new(), open(&Opening::new("memory(bytes=32Ki)", Access::Write)).unwrap())
    }

    #[test]
    fn requests_are_moved_to_where_the_part_is() {
        let mut memory = memory();
        let mut part = Part::new(&mut memory, 8192, 4096);
        assert_eq!(part.info().capacity_bytes, 4096);
        for (handle, op, offset, length) in
            [(1, IoOp::Write, 3584, 512), (2, IoOp::Read, 0, 4096), (3, IoOp::Flush, 0, 0)]
        {
            part.submit(&Request { op, offset, length, is_fua: false, handle }).unwrap();
        }
        let mut done = Vec::new();
        while part.outstanding() > 0 {
            part.wait(Nanos::MAX, &mut done).unwrap();
        }
        assert_eq!(done.len(), 3);
        let got: Vec<(IoOp, u64, u32)> =
            memory.0.iter().map(|one| (one.op, one.offset, one.length)).collect();
        assert_eq!(
            got,
            [(IoOp::Write, 11_776, 512), (IoOp::Read, 8192, 4096), (IoOp::Flush, 0, 0)]
        );
    }

    #[test]
    #[should_panic(expected = "not within the device's 4096 bytes")]
    fn nothing_behind_it_is_reached() {
        let mut memory = memory();
        let _ = Part::new(&mut memory, 8192, 4096).submit(&Request {
            op: IoOp::Write,
            offset: 3584,
            length: 1024,
            is_fua: false,
            handle: 1,
        });
    }
}
