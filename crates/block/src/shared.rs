//! Bytes that any thread reads and writes by itself.

use std::sync::Arc;

use crate::Failure;

/// A device's bytes, for any number of threads at a time: each call does what it is asked and
/// returns when that is done. What holds for commands by the [contract](crate) holds for calls, but
/// that any bytes may be asked for, not only whole sectors.
///
/// It has what the device has while the device itself gets no writes and trims.
pub trait SharedBytes: Send + Sync {
    /// Reads bytes from an offset on.
    ///
    /// # Errors
    /// [`Failure`].
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure>;

    /// Writes bytes; with FUA they are durable when it returns.
    ///
    /// # Errors
    /// [`Failure`]; of a write with FUA [`Failure::Poisoned`], if it is not known what is durable.
    fn write(&self, offset: u64, bytes: &[u8], is_fua: bool) -> Result<(), Failure>;

    /// Tells that bytes are not needed any more. Does nothing where the device has no trim.
    ///
    /// # Errors
    /// [`Failure`].
    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure>;

    /// Makes durable what was written by calls that have returned.
    ///
    /// # Errors
    /// [`Failure::Poisoned`]: what was written before may be lost, and no later flush would report it.
    fn flush(&self) -> Result<(), Failure>;
}

/// Those of a part of a device, which begins at an offset.
pub(crate) struct SharedPart {
    pub whole: Arc<dyn SharedBytes>,
    pub offset: u64,
}

impl SharedBytes for SharedPart {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        self.whole.read(self.offset + offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8], is_fua: bool) -> Result<(), Failure> {
        self.whole.write(self.offset + offset, bytes, is_fua)
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.whole.trim(self.offset + offset, length)
    }

    fn flush(&self) -> Result<(), Failure> {
        self.whole.flush()
    }
}
