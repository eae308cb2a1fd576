//! Stacks of layers over the device of a job.

use std::fmt::Display;

use block::{Immediate, Limits};
use layers::{Facts, LayerError, Stack};

use crate::JobError;

/// The stack without layers.
pub const DIRECT: &str = "direct";

/// A device that failed in a run.
pub(crate) fn failed(error: impl Display) -> JobError {
    JobError::Run(error.to_string())
}

/// A stack that cannot be made is a wrong setting, a device that fails meanwhile a failed run.
pub(crate) fn stack_error(error: LayerError) -> JobError {
    match error {
        LayerError::Device(_) | LayerError::Gone(_) => failed(error),
        other => JobError::at("stack", other),
    }
}

/// A stack as it is when it has just been formatted. Requests carry no data, so that the device
/// itself need not be written for that.
pub(crate) fn open_blank(
    text: &str,
    facts: &Facts,
    seed: u64,
    below: Limits,
) -> Result<Stack, JobError> {
    let mut blank = Immediate::sparse(below);
    layers::format(text, facts, seed, &mut blank).map_err(stack_error)?;
    layers::open(text, facts, seed, &mut blank).map_err(stack_error)
}

/// Bytes that a stack offers over `bytes` of a device with sectors of `sector_bytes`.
///
/// # Errors
/// [`JobError::Settings`] of `stack` if it cannot be made.
pub fn offered_bytes(
    text: &str,
    facts: &Facts,
    seed: u64,
    bytes: u64,
    sector_bytes: u32,
) -> Result<u64, JobError> {
    let limits = Limits { capacity_bytes: bytes, sector_bytes, most_bytes: 1 << 20 };
    Ok(open_blank(text, facts, seed, limits)?.limits().capacity_bytes)
}
