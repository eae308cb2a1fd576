//! Progress of long work, and its cancellation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The work was asked to stop before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the end, as asked")]
pub struct Cancelled;

/// Progress, shared between the thread that works and the one that shows it. Work reports every few
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
    /// Sets the total amount of work, in any unit; 0 if unknown.
    pub fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Sets the total amount of preparation before the work itself, such as page writes that age a
    /// drive.
    pub fn set_to_prepare(&self, total: u64) {
        self.to_prepare.store(total, Ordering::Relaxed);
    }

    /// Adds to the total amount of preparation.
    pub fn add_to_prepare(&self, units: u64) {
        self.to_prepare.fetch_add(units, Ordering::Relaxed);
    }

    /// Adds to the preparation done.
    ///
    /// # Errors
    /// As [`Progress::advance`].
    pub fn prepare(&self, units: u64) -> Result<(), Cancelled> {
        self.prepared.fetch_add(units, Ordering::Relaxed);
        self.advance(0)
    }

    /// The preparation done so far, and its total (0 if unknown).
    #[must_use]
    pub fn preparation(&self) -> (u64, u64) {
        (self.prepared.load(Ordering::Relaxed), self.to_prepare.load(Ordering::Relaxed))
    }

    /// Adds to the work done.
    ///
    /// # Errors
    /// [`Cancelled`] if the work was asked to stop: return as soon as the state is consistent.
    pub fn advance(&self, units: u64) -> Result<(), Cancelled> {
        self.done.fetch_add(units, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
    }

    /// Asks the work to stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// The work done so far, and its total (0 if unknown).
    #[must_use]
    pub fn state(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}
