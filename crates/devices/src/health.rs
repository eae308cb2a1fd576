//! Health of a device: changes since it was opened, and the meaning of errors.

use std::fs::File;
use std::io;

use units::IoOp;

use crate::control;

/// State of a device when it was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    is_block_device: bool,
    capacity_bytes: u64,
    /// A loop device that nobody was detaching then.
    is_loop: bool,
}

impl Health {
    pub fn new(file: &File, is_block_device: bool, capacity_bytes: u64, is_loop: bool) -> Self {
        Self {
            is_block_device,
            capacity_bytes,
            is_loop: is_loop && !control::is_being_detached(file),
        }
    }

    /// Says what is wrong with the device as a whole, if anything is. Takes less than a
    /// microsecond.
    pub fn illness(&self, file: &File) -> Option<String> {
        if !self.is_block_device {
            return match file.metadata() {
                Ok(data) if data.len() < self.capacity_bytes => Some(format!(
                    "the file was truncated from {} to {} bytes",
                    self.capacity_bytes,
                    data.len()
                )),
                Ok(_) => None,
                Err(error) => Some(format!("the file is gone ({error})")),
            };
        }
        match control::capacity_bytes(file) {
            Ok(0) => Some("the device is gone: it has no bytes any more".to_owned()),
            Ok(bytes) if bytes < self.capacity_bytes => {
                Some(format!("the device has shrunk from {} to {bytes} bytes", self.capacity_bytes))
            }
            Ok(_) if self.is_loop && control::is_being_detached(file) => {
                Some("the device is gone: its loop device is being detached".to_owned())
            }
            Ok(_) => None,
            Err(error) => Some(format!("the device is gone ({error})")),
        }
    }

    /// Gives the reason why a request failed.
    pub fn reason(&self, file: &File, op: IoOp, length: u32, result: i32) -> String {
        self.with_illness(file, self.told(op, length, result))
    }

    /// Gives the kernel's reason why a request failed, in words.
    pub fn told(&self, op: IoOp, length: u32, result: i32) -> String {
        if result >= 0 {
            return format!("only {result} of {length} bytes were transferred");
        }
        let error = io::Error::from_raw_os_error(-result);
        match self.words(op, -result) {
            Some(words) => format!("{words} ({error})"),
            None => error.to_string(),
        }
    }

    /// Puts what is wrong with the device as a whole, if anything is, before the reason why a
    /// request failed.
    pub fn with_illness(&self, file: &File, told: String) -> String {
        match self.illness(file) {
            Some(illness) => format!("{illness}; {told}"),
            None => told,
        }
    }

    fn words(&self, op: IoOp, errno: i32) -> Option<&'static str> {
        Some(match errno {
            libc::ENODEV | libc::ENXIO => "the device is gone",
            libc::ENOSPC if self.is_block_device => {
                "no space left under the device: it promises more than is behind it"
            }
            libc::ENOSPC => "no space left on the file system under the file",
            libc::EDQUOT => "the user's quota on the file system is used up",
            libc::EFBIG => "the file would become larger than allowed",
            libc::EROFS | libc::EPERM | libc::EACCES => "it is read-only",
            libc::EIO if op == IoOp::Read => "the device cannot read there, or is gone",
            libc::EIO => "the device does not take it, or is gone",
            libc::EREMOTEIO | libc::ENODATA | libc::EILSEQ => "the medium is damaged there",
            libc::ETIMEDOUT => "the device did not answer in time",
            libc::EOPNOTSUPP => "the device does not do this",
            libc::EINVAL => "the kernel does not take such a request for this device",
            libc::ENOMEM => "the kernel has no memory for it",
            _ => return None,
        })
    }
}
