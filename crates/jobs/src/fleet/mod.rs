//! Jobs on traces of many volumes: a fleet is made, split into a store, studied a volume at a time,
//! and what was found of the volumes is merged.

mod merge;
mod sketches;
mod split;
mod study;
mod synth;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;
use traces::TraceError;
use traces::fleet::study::Values;

use crate::JobError;

pub use merge::{FleetMerge, FleetMerged};
pub use split::{TraceSplit, TraceStore};
pub use study::{VolumeStudied, VolumeStudy};
pub use synth::{FleetSynth, SyntheticFleet};

/// Shares of all values at which quantiles are told.
const SHARES: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999];

/// Values of a kind.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Spread {
    /// Values; of a sample, what they stand for.
    pub count: u64,
    /// Their mean; none without values.
    pub mean: Option<f64>,
    /// The values of which the outcome's `shares` are at or below, at most 0.1 % too high; none
    /// without values.
    pub quantiles: Vec<u64>,
    /// The same exactly, where all values were kept.
    pub exact_quantiles: Option<Vec<u64>>,
}

impl Spread {
    fn of(values: &Values) -> Self {
        Self {
            count: values.sketch.count(),
            mean: values.sketch.mean(),
            quantiles: values.sketch.quantiles(&SHARES),
            exact_quantiles: values.exact.as_ref().map(|exact| exact.quantiles(&SHARES)),
        }
    }

    /// Of two kinds together.
    fn of_both(one: &Values, other: &Values) -> Self {
        let mut both = one.clone();
        both.merge(other);
        Self::of(&both)
    }
}

/// The error of a setting, or that the job was stopped.
fn failed(at: &'static str) -> impl Fn(TraceError) -> JobError {
    move |error| match error {
        TraceError::Cancelled(stopped) => stopped.into(),
        other => JobError::at(at, other),
    }
}
