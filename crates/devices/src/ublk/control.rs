//! The control device of ublk: block devices come and go by it.

#![allow(unsafe_code, reason = "the kernel reads and writes the memory of commands")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use super::abi::{self, Added, Attributes, Control as Command, Numbering};

const PATH: &str = "/dev/ublk-control";
/// `ENOTSUPP` of the kernel, which no header of users has.
const ENOTSUPP: i32 = 524;

/// The control device, opened.
pub(super) struct Control {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    numbering: Numbering,
}

impl Control {
    /// Fails with one line that says what is missing.
    pub fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(PATH);
        let file = file.map_err(|error| explained(&error))?;
        let ring = IoUring::builder().dontfork().build(4).map_err(|error| {
            io::Error::new(error.kind(), format!("setting up io_uring for {PATH}: {error}"))
        })?;
        Ok(Self { file, ring, numbering: Numbering::Ioctl })
    }

    /// Gives the kernel's numbering of commands, as far as it was found.
    pub const fn numbering(&self) -> Numbering {
        self.numbering
    }

    /// A new device, which has no disk so far.
    pub fn add(&mut self, depth: u16, most_bytes: u32) -> io::Result<Added> {
        let ask = |this: &mut Self| {
            let mut info = abi::device_info(depth, most_bytes, this.numbering);
            this.ask(Command::Add, abi::ANY_NUMBER, &mut info, 0)?;
            Ok(Added::decode(&info))
        };
        match ask(self) {
            Err(error) if is_unknown(&error) => {
                self.numbering = Numbering::Plain;
                ask(self)
            }
            other => other,
        }
    }

    /// Says what the device is.
    pub fn set(&mut self, number: u32, attributes: &Attributes) -> io::Result<()> {
        self.ask(Command::SetParameters, number, &mut attributes.encode(), 0)
    }

    /// Makes the disk. Each tag of the queue has to be fetched by then.
    pub fn start(&mut self, number: u32) -> io::Result<()> {
        self.ask(Command::Start, number, &mut [], u64::from(std::process::id()))
    }

    /// Takes the disk away, after what was written to it went to the server.
    pub fn stop(&mut self, number: u32) -> io::Result<()> {
        self.ask(Command::Stop, number, &mut [], 0)
    }

    /// Takes the device away. It waits until nobody has its queue open.
    pub fn delete(&mut self, number: u32) -> io::Result<()> {
        self.ask(Command::Delete, number, &mut [], 0)
    }

    /// Reads the device that has this number.
    pub fn info(&mut self, number: u32) -> io::Result<Added> {
        let ask = |this: &mut Self| {
            let mut info = [0; abi::DEVICE_INFO_BYTES];
            this.ask(Command::DeviceInfo, number, &mut info, 0)?;
            Ok(Added::decode(&info))
        };
        match ask(self) {
            Err(error) if is_unknown(&error) && self.numbering == Numbering::Ioctl => {
                self.numbering = Numbering::Plain;
                ask(self)
            }
            other => other,
        }
    }

    fn ask(
        &mut self,
        command: Command,
        number: u32,
        buffer: &mut [u8],
        value: u64,
    ) -> io::Result<()> {
        let mut held: Box<[u8]> = (&*buffer).into();
        let address = if held.is_empty() { 0 } else { held.as_mut_ptr() as u64 };
        let named = abi::control(number, address, held.len() as u16, value);
        let mut whole = [0; 80];
        whole[..named.len()].copy_from_slice(&named);
        let file = types::Fd(self.file.as_raw_fd());
        let entry =
            opcode::UringCmd80::new(file, self.numbering.control(command)).cmd(whole).build();
        // SAFETY: what is held outlives the command: its end is waited for, or it is leaked.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "one command at a time");
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.raw_os_error() != Some(libc::EINTR) => {
                    // Nobody knows whether the kernel has the command.
                    std::mem::forget(held);
                    return Err(error);
                }
                _ => {}
            }
            if let Some(ended) = self.ring.completion().next() {
                buffer.copy_from_slice(&held);
                return match ended.result() {
                    0.. => Ok(()),
                    result => Err(io::Error::from_raw_os_error(-result)),
                };
            }
        }
    }
}

/// Returns true if the kernel may not know commands by these numbers.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | ENOTSUPP))
}

/// Explains what is missing where the control device cannot be opened, and what would be right.
fn explained(error: &io::Error) -> io::Error {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => format!(
            "{PATH} is not there: this kernel has no ublk (CONFIG_BLK_DEV_UBLK, Linux 6.0 or \
             newer; modprobe ublk_drv); use --nbd or --fuse"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("{PATH} may be opened by root alone: use sudo, or --nbd")
        }
        _ => format!("opening {PATH}: {error}"),
    };
    io::Error::new(error.kind(), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_ublk_is_told_what_is_missing() {
        let told = explained(&io::Error::from_raw_os_error(libc::ENOENT)).to_string();
        assert!(told.starts_with("/dev/ublk-control is not there: "), "{told}");
        assert!(told.contains("modprobe ublk_drv") && told.ends_with("use --nbd or --fuse"));
        let told = explained(&io::Error::from_raw_os_error(libc::EACCES)).to_string();
        assert!(told.contains("root"), "{told}");
        let told = explained(&io::Error::from_raw_os_error(libc::EBUSY)).to_string();
        assert!(told.starts_with("opening /dev/ublk-control: "), "{told}");
    }

    /// Old kernels do not know the numbers of `ioctl`, in words of their own.
    #[test]
    fn a_command_by_unknown_numbers_is_known_again() {
        for number in [libc::EOPNOTSUPP, libc::EINVAL, ENOTSUPP] {
            assert!(is_unknown(&io::Error::from_raw_os_error(number)));
        }
        assert!(!is_unknown(&io::Error::from_raw_os_error(libc::ENOMEM)));
    }
}
