//! Defines what a job is.

use arrow_array::RecordBatch;
use garde::Validate;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use units::Progress;

use crate::JobError;

/// A kind of work.
pub trait Job:
    Default + DeserializeOwned + Serialize + JsonSchema + Validate<Context = ()>
{
    /// The job's figures.
    type Outcome: Serialize + JsonSchema;

    /// Does the work. Progress counts requests, and before them what is read.
    ///
    /// # Errors
    /// [`JobError`].
    fn run(&self, progress: &Progress) -> Result<Found<Self::Outcome>, JobError>;
}

/// Outcome of a job.
#[derive(Debug)]
pub struct Found<T> {
    /// Figures.
    pub outcome: T,
    /// Tables by name.
    pub tables: Vec<(&'static str, RecordBatch)>,
    /// Texts that stay files, by name.
    pub texts: Vec<(String, String)>,
}

/// Reads a job's settings from JSON.
///
/// # Errors
/// [`JobError::Settings`].
pub fn read<T: Job>(settings: &[u8]) -> Result<T, JobError> {
    let mut json = serde_json::Deserializer::from_slice(settings);
    let found: T = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| JobError::at(&error.path().to_string(), error.inner()))?;
    found.validate().map_err(|report| {
        let (path, error) = report.iter().next().map_or_else(
            || (String::new(), report.to_string()),
            |(path, error)| (path.to_string(), error.to_string()),
        );
        JobError::at(&path, error)
    })?;
    Ok(found)
}
