//! Errors of making or opening layers.

use block::{BlockError, Failure};
use registry::SpecError;
use thiserror::Error;

/// Error of making or opening a stack.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LayerError {
    /// The name of a layer or a parameter is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A command failed meanwhile.
    #[error(transparent)]
    Device(#[from] Failure),
    /// The device became unreachable meanwhile.
    #[error(transparent)]
    Gone(BlockError),
    /// A layer's own area does not fit.
    #[error("`{layer}` needs {needed} bytes and there are {there}: {remedy}")]
    TooSmall {
        /// Name of the layer.
        layer: &'static str,
        /// Least bytes of the device.
        needed: u64,
        /// Bytes that there are.
        there: u64,
        /// Remedy: parameters or sizes that would fit.
        remedy: &'static str,
    },
    /// A parameter is not given, and the device's profile does not tell it.
    #[error(
        "`{layer}` has to know {what}, which the device's profile does not tell: give \
         {parameter}=..., or probe the device"
    )]
    Unknown {
        /// Name of the layer.
        layer: &'static str,
        /// Fact that the layer has to know.
        what: &'static str,
        /// Name of the parameter that gives it.
        parameter: &'static str,
    },
    /// Parameters that exclude each other, or do not fit the device.
    #[error("`{layer}`: {reason}")]
    Refused {
        /// Name of the layer.
        layer: &'static str,
        /// Reason, and the remedy.
        reason: String,
    },
    /// There is no such layer on the device.
    #[error(
        "at byte {offset} begins no `{layer}`: {reason}; format it, or open the stack with which \
         it was formatted"
    )]
    NotFormatted {
        /// Name of the layer that was looked for.
        layer: &'static str,
        /// First byte of its superblock, if it were there.
        offset: u64,
        /// Description of what is there instead.
        reason: String,
    },
    /// The content of the device cannot have been written by the layer.
    #[error("`{layer}`, byte {offset}: {reason}")]
    Corrupt {
        /// Name of the layer.
        layer: &'static str,
        /// Place on the device, in bytes.
        offset: u64,
        /// Description of the damage.
        reason: String,
    },
}

impl LayerError {
    /// Gives the error of opening an earlier version of the format.
    pub(crate) fn older(layer: &'static str, version: u16) -> Self {
        let reason = format!(
            "it was made by an earlier version of Flashwright (format {version}), which this one \
             does not know: copy its contents with that version to a new volume"
        );
        Self::Refused { layer, reason }
    }
}
