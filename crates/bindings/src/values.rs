//! Rust values as objects of Python: dicts, arrays of numpy, whatever serde knows.

use std::convert::Infallible;

use numpy::{Element, IntoPyArray, PyArray1};
use pyo3::inspect::PyStaticExpr;
use pyo3::prelude::*;
use pyo3::{type_hint_identifier, type_hint_subscript};
use serde::Serialize;

use crate::errors;

/// A dict of these values by name, in this order, or with `in` one that has others before them;
/// gives up with an exception of Python.
macro_rules! dict {
    (in $dict:expr, $($name:literal: $value:expr),+) => {{
        let dict = $dict;
        $(dict.set_item($name, $value)?;)+
        dict
    }};
    ($py:expr, $($name:literal: $value:expr),+) => {
        dict!(in pyo3::types::PyDict::new($py), $($name: $value),+)
    };
}

/// Whatever serde makes of a value; a number that is not finite is None.
pub fn object<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_string(value).map_err(errors::run_error)?;
    py.import("json")?.call_method1("loads", (json,))
}

/// Numbers that Python gets as an array of numpy.
pub struct Array<T>(pub Vec<T>);

impl<T> FromIterator<T> for Array<T> {
    fn from_iter<I: IntoIterator<Item = T>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

/// A number of an array, and what the stub of the module calls it.
pub trait Number: Element + Copy {
    /// Its type in numpy.
    const NAME: PyStaticExpr;
}

macro_rules! numbers {
    ($($number:ty = $name:literal),+) => {
        $(impl Number for $number {
            const NAME: PyStaticExpr = type_hint_identifier!("numpy", $name);
        })+
    };
}

numbers!(u32 = "uint32", u64 = "uint64", f64 = "float64");

impl<'py, T: Number> IntoPyObject<'py> for Array<T> {
    type Target = PyArray1<T>;
    type Output = Bound<'py, PyArray1<T>>;
    type Error = Infallible;
    const OUTPUT_TYPE: PyStaticExpr =
        type_hint_subscript!(type_hint_identifier!("numpy.typing", "NDArray"), T::NAME);

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(self.0.into_pyarray(py))
    }
}

impl<'py, T: Number> IntoPyObject<'py> for &Array<T> {
    type Target = PyArray1<T>;
    type Output = Bound<'py, PyArray1<T>>;
    type Error = Infallible;
    const OUTPUT_TYPE: PyStaticExpr = Array::<T>::OUTPUT_TYPE;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(PyArray1::from_slice(py, &self.0))
    }
}
