//! The exception tree of the package: the command line turns each branch into an exit code.

use std::ffi::CString;
use std::fmt::Display;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyUserWarning};
use pyo3::prelude::*;

create_exception!(
    flashwright,
    FlashwrightError,
    PyException,
    "Anything that Flashwright reports as wrong."
);
create_exception!(
    flashwright,
    InputError,
    FlashwrightError,
    "Wrong use or wrong input: the command line exits with 2."
);
create_exception!(
    flashwright,
    RunError,
    FlashwrightError,
    "A run that failed although its input was right: the command line exits with 1."
);
create_exception!(
    flashwright,
    ImpossibleError,
    RunError,
    "An experiment that this device, region or budget does not allow: the others of a set go on \
     without it."
);
create_exception!(
    flashwright,
    Cancelled,
    FlashwrightError,
    "The work was asked to stop before its end."
);

create_exception!(
    flashwright,
    InputWarning,
    PyUserWarning,
    "An input that can be read, and is not whole, or probably not what it was taken for."
);

/// Warns of what to know about a trace before its figures are believed.
pub fn warn_of(py: Python<'_>, name: &str, warnings: &[String]) -> PyResult<()> {
    for warning in warnings {
        let text = CString::new(format!("{name}: {warning}")).map_err(run_error)?;
        PyErr::warn(py, &py.get_type::<InputWarning>(), &text, 2)?;
    }
    Ok(())
}

/// Wrong use or input, told by an error of one of the crates.
#[allow(clippy::needless_pass_by_value, reason = "handed to map_err")]
pub fn input_error(error: impl Display) -> PyErr {
    InputError::new_err(error.to_string())
}

/// A run that failed, told by an error of one of the crates.
#[allow(clippy::needless_pass_by_value, reason = "handed to map_err")]
pub fn run_error(error: impl Display) -> PyErr {
    RunError::new_err(error.to_string())
}

/// The work stopped because [`crate::progress::Progress::cancel`] was called.
#[allow(clippy::needless_pass_by_value, reason = "handed to map_err")]
pub fn cancelled(cancelled: units::Cancelled) -> PyErr {
    Cancelled::new_err(cancelled.to_string())
}

/// Adds the exceptions to the module.
///
/// # Errors
/// Whatever Python raises.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("FlashwrightError", py.get_type::<FlashwrightError>())?;
    module.add("InputError", py.get_type::<InputError>())?;
    module.add("RunError", py.get_type::<RunError>())?;
    module.add("ImpossibleError", py.get_type::<ImpossibleError>())?;
    module.add("InputWarning", module.py().get_type::<InputWarning>())?;
    module.add("InputWarning", py.get_type::<InputWarning>())?;
    module.add("Cancelled", py.get_type::<Cancelled>())
}
