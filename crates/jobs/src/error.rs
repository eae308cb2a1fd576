//! The reasons why a job fails.

use std::fmt::Display;

use serde::Serialize;
use thiserror::Error;
use units::Cancelled;

/// Reasons why a job failed.
#[derive(Debug, Error)]
pub enum JobError {
    /// There is no such job.
    #[error("{0}: no such job")]
    Unknown(String),
    /// A setting is wrong.
    #[error("{message}")]
    Settings {
        /// The setting: `depth`, `on[1]`; empty if no single one is wrong.
        at: String,
        /// Says what is wrong, and what would be right.
        message: String,
    },
    /// The run failed although its settings were right.
    #[error("{0}")]
    Run(String),
    /// Asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl JobError {
    /// A setting that is wrong.
    pub fn at(at: &str, error: impl Display) -> Self {
        // Where JSON stopped is of no use to who wrote an option.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        Self::Settings { at: at.to_owned(), message }
    }

    pub(crate) fn json(value: &impl Serialize) -> Result<String, Self> {
        serde_json::to_string(value).map_err(|error| Self::Run(error.to_string()))
    }
}
