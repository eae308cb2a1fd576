//! Errors of a replay.

use block::BlockError;
use thiserror::Error;
use traces::TraceError;
use units::{Cancelled, SourceError};

/// Reasons why a replay cannot begin, or ended before the trace did.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] BlockError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace cannot be read on.
    #[error("{0}")]
    Source(SourceError),
    /// There is nothing to play, or no place for it.
    #[error("{name}: {reason}; right would be {right}")]
    Unusable {
        /// The trace or the device.
        name: String,
        /// Says what is wrong.
        reason: String,
        /// Says what would be right.
        right: String,
    },
    /// Asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl ReplayError {
    /// Gives the error behind a source of requests: a trace's own stay what they are.
    pub(crate) fn of_source(error: SourceError) -> Self {
        match error.downcast::<TraceError>() {
            Ok(error) => match *error {
                TraceError::Cancelled(cancelled) => Self::Cancelled(cancelled),
                other => Self::Trace(other),
            },
            Err(error) => Self::Source(error),
        }
    }
}
