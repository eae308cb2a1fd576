//! Jobs: settings as data, what came of them as data, and how to run them.
//!
//! The struct of a job's settings declares each option once: name, type, range, default, help (its
//! doc comment), group. [`schema`] hands all that to whoever makes a command line or a function of
//! it. A job's settings, outcome and errors are JSON, its tables Arrow.

mod device;
mod error;
mod facts;
mod figures;
pub mod fleet;
mod flow;
mod job;
mod pace;
pub mod play;
pub mod postgres_what_if;
mod source;
pub mod sqlite_what_if;
mod stacks;
mod tables;
pub mod transactions;
mod values;
mod written;

use units::Progress;

pub use device::{Device, SimulatedArray, SimulatedDrive, State, Use};
pub use error::JobError;
pub use facts::{Facts, Known};
pub use flow::Flow;
pub use job::{Found, Job, read};
pub use pace::Pace;
pub use source::{Loading, Part, Source};
pub use stacks::{DIRECT, offered_bytes};
pub use values::{Count, CountOrShare, Micros, Region, Seconds, Share, Size};
pub use written::{Text, Written};

/// Declares all jobs: the only list of them. One that is declared `as python` is no command.
macro_rules! jobs {
    (@command) => { true };
    (@command python) => { false };
    ($($name:literal => $job:ty $(as $python:ident)?,)+) => {
        /// Names of all jobs.
        pub const NAMES: &[&str] = &[$($name),+];

        /// True if a job is a command of the command line; one that is for Python alone is none.
        #[must_use]
        pub fn is_command(name: &str) -> bool {
            match name {
                $($name => jobs!(@command $($python)?),)+
                _ => false,
            }
        }

        /// The JSON schemas of a job's settings and of its outcome, and the settings' defaults in
        /// the order in which they are declared.
        #[must_use]
        pub fn schema(name: &str) -> Option<[String; 3]> {
            match name {
                $($name => Some([
                    schemars::schema_for!($job).to_value().to_string(),
                    schemars::schema_for!(<$job as Job>::Outcome).to_value().to_string(),
                    JobError::json(&<$job>::default()).ok()?,
                ]),)+
                _ => None,
            }
        }

        /// Settings with all defaults, values as they are meant: equal work has equal bytes.
        ///
        /// # Errors
        /// [`JobError::Settings`].
        pub fn canonical(name: &str, settings: &[u8]) -> Result<String, JobError> {
            match name {
                $($name => JobError::json(&read::<$job>(settings)?),)+
                _ => Err(JobError::Unknown(name.to_owned())),
            }
        }

        /// Does a job; its outcome is JSON.
        ///
        /// # Errors
        /// [`JobError`].
        pub fn run(
            name: &str,
            settings: &[u8],
            progress: &Progress,
        ) -> Result<Found<String>, JobError> {
            match name {
                $($name => {
                    let Found { outcome, tables, texts } = read::<$job>(settings)?.run(progress)?;
                    Ok(Found { outcome: JobError::json(&outcome)?, tables, texts })
                })+
                _ => Err(JobError::Unknown(name.to_owned())),
            }
        }
    };
}

jobs! {
    "play" => play::Play,
    "transactions" => transactions::Transactions,
    "sqlite_what_if" => sqlite_what_if::SqliteWhatIf as python,
    "postgres_what_if" => postgres_what_if::PostgresWhatIf as python,
    "fleet_synth" => fleet::FleetSynth as python,
    "trace_split" => fleet::TraceSplit as python,
    "volume_study" => fleet::VolumeStudy as python,
    "fleet_merge" => fleet::FleetMerge as python,
}

/// Reads a value of a kind from text, and gives it as JSON: `device`, `source`, `pace`, `flow`,
/// `life`.
///
/// # Errors
/// [`JobError::Settings`] of the kind.
pub fn read_text(kind: &str, text: &str) -> Result<String, JobError> {
    match kind {
        Device::NAME => written::json_of::<Device>(kind, text),
        Part::NAME => written::json_of::<Part>(kind, text),
        Pace::NAME => written::json_of::<Pace>(kind, text),
        Flow::NAME => written::json_of::<Flow>(kind, text),
        play::Life::NAME => written::json_of::<play::Life>(kind, text),
        _ => Err(JobError::Unknown(kind.to_owned())),
    }
}
