//! Facts that layers know of a device.

use std::borrow::Cow;

use layers::{EquationPiece, PatternTimes, Thresholds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::JobError;

/// The facts, or the place where they are found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Facts {
    /// The folder of a probe, `measure`, or `none`.
    From(String),
    /// The facts themselves.
    Known(Known),
}

impl JsonSchema for Facts {
    fn schema_name() -> Cow<'static, str> {
        "Facts".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "facts"})
    }
}

/// Facts about a device's writes; every key may be left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Known {
    /// As [`layers::Facts::write_bytes`].
    pub write_bytes: Option<u32>,
    /// As [`layers::Facts::erase_block_bytes`].
    pub erase_block_bytes: Option<u64>,
    /// As [`layers::Facts::focused_area_bytes`].
    pub focused_area_bytes: Option<u64>,
    /// As [`layers::Facts::times`].
    pub times: Option<Times>,
    /// As [`layers::Facts::thresholds`].
    pub thresholds: Option<Pages>,
    /// Pieces of [`layers::Facts::sequential_write`]: up to how many bytes, intercept and slope in
    /// nanoseconds.
    pub sequential_write: Option<Vec<(u64, f64, f64)>>,
    /// The same of [`layers::Facts::random_write`].
    pub random_write: Option<Vec<(u64, f64, f64)>>,
}

/// As [`PatternTimes`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "those of the layers")]
pub struct Times {
    pub sequential_ns: f64,
    pub partitioned_ns: f64,
    pub focused_ns: f64,
}

/// As [`Thresholds`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "those of the layers")]
pub struct Pages {
    pub sequential_pages: f64,
    pub partitioned_pages: f64,
    pub focused_pages: f64,
}

impl From<&Known> for layers::Facts {
    fn from(known: &Known) -> Self {
        let pieces = |pieces: &Option<Vec<(u64, f64, f64)>>| {
            let pieces = pieces.iter().flatten();
            let piece = |&(to_bytes, intercept_ns, slope_ns): &_| EquationPiece {
                to_bytes,
                intercept_ns,
                slope_ns,
            };
            pieces.map(piece).collect()
        };
        Self {
            write_bytes: known.write_bytes,
            erase_block_bytes: known.erase_block_bytes,
            focused_area_bytes: known.focused_area_bytes,
            times: known.times.map(|Times { sequential_ns, partitioned_ns, focused_ns }| {
                PatternTimes { sequential_ns, partitioned_ns, focused_ns }
            }),
            thresholds: known.thresholds.map(
                |Pages { sequential_pages, partitioned_pages, focused_pages }| Thresholds {
                    sequential_pages,
                    partitioned_pages,
                    focused_pages,
                },
            ),
            sequential_write: pieces(&known.sequential_write),
            random_write: pieces(&known.random_write),
            staging_offset: None,
        }
    }
}

impl Facts {
    /// The facts, where they are known.
    ///
    /// # Errors
    /// [`JobError::Settings`] of `facts` if they are still to be found, which is not done here.
    pub fn known(given: Option<&Self>) -> Result<layers::Facts, JobError> {
        match given {
            None => Ok(layers::Facts::default()),
            Some(Self::From(text)) if text == "none" => Ok(layers::Facts::default()),
            Some(Self::From(text)) => {
                Err(JobError::at("facts", format!("{text}: facts are to be found before a run")))
            }
            Some(Self::Known(known)) => Ok(known.into()),
        }
    }
}
