//! Progress of long work, shared between the thread that works and the one that draws.

use std::sync::Arc;

use pyo3::prelude::*;

/// Progress of long work, and the way to stop it. Pass one to a function that takes `progress`, and
/// ask it from another thread.
#[pyclass(frozen, module = "flashwright._core")]
#[derive(Default)]
pub struct Progress(Arc<units::Progress>);

impl Progress {
    /// The shared counter, for work that runs without the GIL.
    #[must_use]
    pub fn shared(&self) -> Arc<units::Progress> {
        Arc::clone(&self.0)
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
        self.0.state()
    }

    /// Prepared so far and the total, before the first unit is done; a total of 0 means that there
    /// is nothing to prepare.
    fn preparation(&self) -> (u64, u64) {
        self.0.preparation()
    }

    /// Asks the work to stop at its next clean point: it then raises `Cancelled`.
    fn cancel(&self) {
        self.0.cancel();
    }
}

/// Adds the class to the module.
///
/// # Errors
/// Whatever Python raises.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Progress>()
}
