//! The Python module `flashwright._core`: all PyO3 code, nothing else.
//!
//! One file a crate that it opens to Python; each adds itself to the module in `register`.

mod array;
mod array_models;
mod devices;
mod drive;
mod errors;
mod ftrace;
mod jobs;
mod layers;
mod models;
mod numbers;
mod probe;
mod progress;
mod python_policy;
mod registry;
mod simulate;
mod sqlite_log;
mod stats;
mod synth;
mod traces;
mod volumes;
mod workload;

use pyo3::prelude::*;

/// The computing core of Flashwright, behind the Python package.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // Set where a wheel is built; a source tree asks git.
    module.add("__revision__", option_env!("FLASHWRIGHT_REVISION"))?;
    errors::register(module)?;
    progress::register(module)?;
    registry::register(module)?;
    traces::register(module)?;
    ftrace::register(module)?;
    synth::register(module)?;
    stats::register(module)?;
    models::register(module)?;
    workload::register(module)?;
    simulate::register(module)?;
    python_policy::register(module)?;
    jobs::register(module)?;
    sqlite_log::register(module)?;
    drive::register(module)?;
    array::register(module)?;
    array_models::register(module)?;
    devices::register(module)?;
    layers::register(module)?;
    probe::register(module)?;
    volumes::register(module)
}
