//! Rust values as dicts of Python.

use pyo3::prelude::*;
use serde::Serialize;

use crate::errors;

/// A dict of these values by name, in this order; gives up with an exception of Python.
macro_rules! dict {
    ($py:expr, $($name:literal: $value:expr),+ $(,)?) => {{
        let dict = pyo3::types::PyDict::new($py);
        $(dict.set_item($name, $value)?;)+
        dict
    }};
}

/// Whatever serde makes of a value; a number that is not finite is None.
pub fn object<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_string(value).map_err(errors::run_error)?;
    py.import("json")?.call_method1("loads", (json,))
}
