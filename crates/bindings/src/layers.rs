//! Stacks of layers: what there is, and what is known of a device.

use ::layers::{Facts, LayerError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// A stack that cannot be made is wrong use, a device that fails meanwhile a failed run.
fn layer_error(error: LayerError) -> PyErr {
    match error {
        LayerError::Device(_) | LayerError::Gone(_) => errors::run_error(error),
        other => errors::input_error(other),
    }
}

/// Reads the facts about a device from Python: every key may be left out.
pub fn facts_of(given: Option<&Bound<'_, PyDict>>) -> PyResult<Facts> {
    let Some(given) = given else { return Ok(Facts::default()) };
    let json: String = given.py().import("json")?.call_method1("dumps", (given,))?.extract()?;
    let known: ::jobs::Known = serde_json::from_str(&json)
        .map_err(|error| errors::input_error(format!("facts: {error}")))?;
    Ok((&known).into())
}

/// The layers of a stack, from the top to the bottom. Raises InputError if one is unknown, or has
/// no such parameter.
#[pyfunction]
pub fn check_stack(stack: &str) -> PyResult<Vec<&'static str>> {
    let parsed = ::layers::parse(stack).map_err(errors::input_error)?;
    Ok(parsed.into_iter().map(|(entry, _)| entry.info.name).collect())
}

/// The text of a stack with the forms that its layers get by what is known of the device, as a
/// volume's header keeps it. Raises InputError if a parameter is wrong.
#[pyfunction]
#[pyo3(signature = (stack, *, facts=None))]
pub fn settled_stack(stack: &str, facts: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
    ::layers::settled(stack, &facts_of(facts)?).map_err(layer_error)
}
