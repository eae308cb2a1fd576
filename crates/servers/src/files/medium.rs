//! Medium of files: the bytes of a volume, written without waiting for each write.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use block::{Data, Failure};
use bytes::Bytes;
use units::Lifetime;

use crate::{Request, Service};

/// The bytes of a volume. Offsets and lengths are multiples of its sector.
pub trait Medium: Send + Sync {
    /// Gives the number of bytes.
    fn capacity_bytes(&self) -> u64;

    /// Gives the bytes of a sector, which a power cut does not tear.
    fn sector_bytes(&self) -> u32;

    /// Gives the owner of the bytes: the UUID of the volume.
    fn owner(&self) -> [u8; 16];

    /// Reads bytes.
    ///
    /// # Errors
    /// [`Failure`] if the bytes cannot be read, or have rotted.
    fn read(&self, offset: u64, length: u32) -> Result<Data, Failure>;

    /// Begins a write with a lifetime hint, which counts among those of `batch` until it has ended.
    /// No byte of it may be read or written until then.
    fn write(&self, offset: u64, data: Bytes, lifetime: Lifetime, batch: &Arc<Batch>);

    /// Waits until all writes of a batch have ended.
    ///
    /// # Errors
    /// The first [`Failure`] among them since the last call.
    fn settle(&self, batch: &Batch) -> Result<(), Failure>;

    /// Makes durable all writes that had ended before.
    ///
    /// # Errors
    /// [`Failure`]: it is unknown then what is durable.
    fn flush(&self) -> Result<(), Failure>;

    /// Trims bytes: they may hold anything then.
    ///
    /// # Errors
    /// [`Failure`] if what is below cannot.
    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure>;
}

/// Writes that are under way together.
#[derive(Debug, Default)]
pub struct Batch {
    state: Mutex<UnderWay>,
    is_over: Condvar,
}

#[derive(Debug, Default)]
struct UnderWay {
    count: usize,
    failure: Option<Failure>,
}

impl Batch {
    fn state(&self) -> MutexGuard<'_, UnderWay> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a write begins.
    pub fn begin(&self) {
        self.state().count += 1;
    }

    /// Notes that a write has ended.
    pub fn end(&self, outcome: Result<(), Failure>) {
        let mut state = self.state();
        state.count -= 1;
        if let Err(failure) = outcome {
            state.failure.get_or_insert(failure);
        }
        if state.count == 0 {
            self.is_over.notify_all();
        }
    }

    /// Returns true if no write is under way.
    pub fn is_over(&self) -> bool {
        self.state().count == 0
    }

    /// Waits until no write is under way; gives their outcome.
    ///
    /// # Errors
    /// The first [`Failure`].
    pub fn wait(&self) -> Result<(), Failure> {
        let mut state = self.state();
        while state.count > 0 {
            state = self.is_over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.failure.take().map_or(Ok(()), Err)
    }
}

impl Medium for Service {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes()
    }

    fn sector_bytes(&self) -> u32 {
        self.header().sector_bytes
    }

    fn owner(&self) -> [u8; 16] {
        *self.header().uuid.as_bytes()
    }

    fn read(&self, offset: u64, length: u32) -> Result<Data, Failure> {
        self.call(Request::Read { offset, length })
    }

    fn write(&self, offset: u64, data: Bytes, lifetime: Lifetime, batch: &Arc<Batch>) {
        batch.begin();
        let batch = batch.clone();
        let done = Box::new(move |outcome: Result<Data, Failure>| batch.end(outcome.map(|_| ())));
        self.submit(Request::Write { offset, data, is_fua: false, lifetime }, done);
    }

    fn settle(&self, batch: &Batch) -> Result<(), Failure> {
        batch.wait()
    }

    fn flush(&self) -> Result<(), Failure> {
        self.call(Request::Flush).map(|_| ())
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.call(Request::Trim { offset, length, is_fua: false }).map(|_| ())
    }
}
