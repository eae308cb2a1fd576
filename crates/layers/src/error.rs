//! What can go wrong when layers are made or opened.

use block::{BlockError, Failure};
use registry::SpecError;
use thiserror::Error;

/// Why a stack could not be made or opened.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LayerError {
    /// The name of a layer or a parameter is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A command failed meanwhile.
    #[error(transparent)]
    Device(#[from] Failure),
    /// The device went meanwhile.
    #[error(transparent)]
    Gone(BlockError),
    /// A layer's own area does not fit.
    #[error("`{layer}` needs {needed} bytes and there are {there}: {remedy}")]
    TooSmall {
        /// Which layer.
        layer: &'static str,
        /// Least bytes of the device.
        needed: u64,
        /// Its bytes.
        there: u64,
        /// What would be right.
        remedy: &'static str,
    },
    /// A parameter is not given, and the device's profile does not tell it.
    #[error(
        "`{layer}` has to know {what}, which the device's profile does not tell: give \
         {parameter}=..., or probe the device"
    )]
    Unknown {
        /// Which layer.
        layer: &'static str,
        /// What it has to know.
        what: &'static str,
        /// What would tell it.
        parameter: &'static str,
    },
    /// Parameters that exclude each other, or do not fit the device.
    #[error("`{layer}`: {reason}")]
    Refused {
        /// Which layer.
        layer: &'static str,
        /// Why, and what would be right.
        reason: String,
    },
    /// There is no such layer on the device.
    #[error(
        "at byte {offset} begins no `{layer}`: {reason}; format it, or open the stack with which \
         it was formatted"
    )]
    NotFormatted {
        /// Which layer was looked for.
        layer: &'static str,
        /// Where its superblock should be.
        offset: u64,
        /// What is there.
        reason: String,
    },
    /// What is on the device cannot have been written by the layer.
    #[error("`{layer}`, byte {offset}: {reason}")]
    Corrupt {
        /// Which layer.
        layer: &'static str,
        /// Where.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
}

impl LayerError {
    /// Why a form of an earlier version is not opened.
    pub(crate) fn older(layer: &'static str, version: u16) -> Self {
        let reason = format!(
            "it was made by an earlier version of Flashwright (format {version}), which this one \
             does not know: copy its contents with that version to a new volume"
        );
        Self::Refused { layer, reason }
    }
}
