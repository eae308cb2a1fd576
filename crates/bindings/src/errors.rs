//! The exception tree of the package: the command line turns each branch into an exit code.

use std::ffi::CString;
use std::fmt::Display;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyUserWarning};
use pyo3::prelude::*;

macro_rules! exceptions {
    ($($name:ident($base:ty): $about:literal,)+) => {
        $(create_exception!(flashwright, $name, $base, $about);)+
    };
}

exceptions! {
    FlashwrightError(PyException): "Anything that Flashwright reports as wrong.",
    InputError(FlashwrightError): "Wrong use or wrong input: the command line exits with 2.",
    RunError(FlashwrightError):
        "A run that failed although its input was right: the command line exits with 1.",
    ImpossibleError(RunError):
        "An experiment that this device, region or budget does not allow: the others of a set go \
         on without it.",
    Cancelled(FlashwrightError): "The work was asked to stop before its end.",
    InputWarning(PyUserWarning):
        "An input that can be read, and is not whole, or probably not what it was taken for.",
}

/// Warns of what to know about a trace before its figures are believed.
pub fn warn_of(py: Python<'_>, name: &str, warnings: &[String]) -> PyResult<()> {
    for warning in warnings {
        let text = CString::new(format!("{name}: {warning}")).map_err(run_error)?;
        PyErr::warn(py, &py.get_type::<InputWarning>(), &text, 2)?;
    }
    Ok(())
}

/// Wrong use or input, told by an error of one of the crates.
pub fn input_error(error: impl Display) -> PyErr {
    InputError::new_err(error.to_string())
}

/// A run that failed, told by an error of one of the crates.
pub fn run_error(error: impl Display) -> PyErr {
    RunError::new_err(error.to_string())
}

/// The work stopped because [`crate::progress::Progress::cancel`] was called.
pub fn cancelled(cancelled: units::Cancelled) -> PyErr {
    Cancelled::new_err(cancelled.to_string())
}
