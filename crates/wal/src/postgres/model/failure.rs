//! Reasons why a log is not replayed to its end.

use thiserror::Error;
use units::Cancelled;

use super::super::log::WalError;

/// Reasons why a log is not replayed to its end.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Log(#[from] WalError),
    /// Asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// Says what is wrong, and what would be right.
    #[error("{0}")]
    Other(String),
}
