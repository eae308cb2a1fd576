//! How long work tells how far it is, and is told to stop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The work was asked to stop before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the end, as asked")]
pub struct Cancelled;

/// Shared between the thread that works and the one that shows progress. Work reports every few
/// milliseconds, never per page.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    prepared: AtomicU64,
    to_prepare: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Sets how much there is to do, in whatever unit the work counts; 0 if unknown.
    pub fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Sets how much there is to prepare before the first unit is done, such as page writes that
    /// age a drive.
    pub fn set_to_prepare(&self, total: u64) {
        self.to_prepare.store(total, Ordering::Relaxed);
    }

    /// Adds to what is to be prepared.
    pub fn add_to_prepare(&self, units: u64) {
        self.to_prepare.fetch_add(units, Ordering::Relaxed);
    }

    /// Adds what was prepared since the last call.
    ///
    /// # Errors
    /// As [`Progress::advance`].
    pub fn prepare(&self, units: u64) -> Result<(), Cancelled> {
        self.prepared.fetch_add(units, Ordering::Relaxed);
        self.advance(0)
    }

    /// Prepared so far, and all that there is to prepare (0 if unknown).
    #[must_use]
    pub fn preparation(&self) -> (u64, u64) {
        (self.prepared.load(Ordering::Relaxed), self.to_prepare.load(Ordering::Relaxed))
    }

    /// Adds what was done since the last call.
    ///
    /// # Errors
    /// [`Cancelled`] if the work was asked to stop: return at the next clean point.
    pub fn advance(&self, units: u64) -> Result<(), Cancelled> {
        self.done.fetch_add(units, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
    }

    /// Asks the work to stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Done so far, and the total (0 if unknown).
    #[must_use]
    pub fn state(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}
