//! Errors of an experiment.

use block::BlockError;
use devices::DeviceError;
use registry::SpecError;
use thiserror::Error;
use units::{Cancelled, SourceError};

/// Reasons why an experiment ended without a finding.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] BlockError),
    /// A simulated drive cannot be made.
    #[error(transparent)]
    Drive(#[from] DeviceError),
    /// The experiment is unknown, or a parameter is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The device or region does not allow the experiment.
    #[error("experiment `{experiment}`: {reason}")]
    Impossible {
        /// The experiment.
        experiment: &'static str,
        /// The reason, and what would be right.
        reason: String,
    },
    /// A pattern cannot go on.
    #[error("{0}")]
    Source(SourceError),
    /// Asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
