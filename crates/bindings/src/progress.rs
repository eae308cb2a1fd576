//! Progress of long work, shared between the thread that works and the one that draws.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::errors;

/// Progress of long work, and the way to stop it. Pass one to a function that takes `progress`, and
/// ask it from another thread.
#[pyclass(frozen, module = "flashwright._core")]
#[derive(Default)]
pub struct Progress {
    counter: Arc<units::Progress>,
    said: Mutex<String>,
}

impl Progress {
    /// The shared counter, for work that runs without the GIL.
    #[must_use]
    pub fn shared(&self) -> Arc<units::Progress> {
        Arc::clone(&self.counter)
    }
}

/// The counter of an optional `progress` argument; one that nobody looks at if it was left out.
#[must_use]
pub fn shared(progress: Option<&Bound<'_, Progress>>) -> Arc<units::Progress> {
    progress.map_or_else(Arc::default, |progress| progress.get().shared())
}

#[pymethods]
impl Progress {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Done so far and the total, in whatever unit the work counts; a total of 0 means that it is
    /// not known.
    fn state(&self) -> (u64, u64) {
        self.counter.state()
    }

    /// Prepared so far and the total, before the first unit is done; a total of 0 means that there
    /// is nothing to prepare.
    fn preparation(&self) -> (u64, u64) {
        self.counter.preparation()
    }

    /// Asks the work to stop at its next clean point: it then raises `Cancelled`.
    fn cancel(&self) {
        self.counter.cancel();
    }

    /// Raises Cancelled if the work was asked to stop: for work in Python, at a clean point.
    fn check(&self) -> PyResult<()> {
        self.counter.advance(0).map_err(errors::cancelled)
    }

    /// Says in words what is being done, for work that has no number of it.
    fn say(&self, what: String) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// What was said last; empty before.
    fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
