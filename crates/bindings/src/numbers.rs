//! Whole numbers from Python, for `from_py_with`: one that is negative or too large is wrong input,
//! said in a line with its name, not an `OverflowError`.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::errors;

fn within(value: &Bound<'_, PyAny>, name: &str, most: u64) -> PyResult<u64> {
    match value.extract::<u64>() {
        Ok(number) if number <= most => Ok(number),
        Err(error) if !error.is_instance_of::<PyOverflowError>(value.py()) => Err(error),
        _ => Err(errors::input_error(format!(
            "{name} {value}: it must be a whole number from 0 to {most}"
        ))),
    }
}

macro_rules! numbers {
    ($($function:ident: $kind:ty = $name:literal),+ $(,)?) => {
        $(pub fn $function(value: &Bound<'_, PyAny>) -> PyResult<$kind> {
            within(value, $name, u64::from(<$kind>::MAX)).map(|number| number as $kind)
        })+
    };
}

numbers! {
    offset: u64 = "offset",
    length: u64 = "length",
    short_length: u32 = "length",
    bytes: u64 = "bytes",
    seed: u64 = "seed",
    memory: u64 = "memory",
    queue_depth: u32 = "queue_depth",
    scrub_every_s: u64 = "scrub_every_s",
    device_number: u32 = "number",
}

/// A limit of memory, or none.
pub fn optional_memory(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if value.is_none() { Ok(None) } else { memory(value).map(Some) }
}

/// A size, or none.
pub fn optional_size(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if value.is_none() { Ok(None) } else { within(value, "size", u64::MAX).map(Some) }
}
