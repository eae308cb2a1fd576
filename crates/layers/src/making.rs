//! Arguments of making a layer.

use registry::Args;

use crate::Facts;

/// Arguments of making a layer.
#[derive(Clone, Copy, Debug)]
pub struct Making<'a> {
    /// Its parameters, checked.
    pub args: &'a Args,
    /// Facts of the device.
    pub facts: &'a Facts,
    /// Seed of all random draws of its policies.
    pub seed: u64,
}
