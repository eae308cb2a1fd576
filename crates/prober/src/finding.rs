//! Findings of an experiment: values with their confidence, and curves.

use serde::{Deserialize, Serialize};

/// Confidence in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The statistics leave little doubt: at most one in twenty such values is wrong.
    Sure,
    /// The best guess; something else fits nearly as well.
    Unsure,
    /// The measurements show nothing of the kind, or contradict the model. There is no value.
    NotFound,
}

/// One thing that was found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// Its name, with the unit last: `chunk_bytes`, `domains`, `write_buffer_bytes`.
    pub key: String,
    /// The value, if it is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<f64>,
    /// The value, if it is a word (`write_order`, `fifo`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
    /// Lower and upper end of the 95 % interval of a number, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The least and the greatest of all that a number stands for, if it is one of many: the
    /// fastest and the slowest request of a belt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
    /// True if it was not found, but set as a condition of the measurement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_setting: bool,
    /// Confidence in it.
    pub verdict: Verdict,
    /// The reason, in one sentence for people: what was seen, and how clearly.
    pub why: String,
}

impl Value {
    /// A number that is sure.
    #[must_use]
    pub fn number(key: &str, number: f64, why: impl Into<String>) -> Self {
        Self { number: Some(number), ..Self::new(key, Verdict::Sure, why.into()) }
    }

    /// A number that was set, not found.
    #[must_use]
    pub fn setting(key: &str, number: f64, why: impl Into<String>) -> Self {
        Self { is_setting: true, ..Self::number(key, number, why) }
    }

    /// A word that is sure.
    #[must_use]
    pub fn word(key: &str, word: &str, why: impl Into<String>) -> Self {
        Self { word: Some(word.to_owned()), ..Self::new(key, Verdict::Sure, why.into()) }
    }

    /// Something that was not found.
    #[must_use]
    pub fn not_found(key: &str, why: impl Into<String>) -> Self {
        Self::new(key, Verdict::NotFound, why.into())
    }

    fn new(key: &str, verdict: Verdict, why: String) -> Self {
        Self {
            key: key.to_owned(),
            number: None,
            word: None,
            interval: None,
            range: None,
            is_setting: false,
            verdict,
            why,
        }
    }

    /// The same with a 95 % interval.
    #[must_use]
    pub fn within(mut self, low: f64, high: f64) -> Self {
        self.interval = Some([low, high]);
        self
    }

    /// The same with the least and the greatest of all that the number stands for.
    #[must_use]
    pub fn among(mut self, least: f64, most: f64) -> Self {
        self.range = Some([least, most]);
        self
    }

    /// The same, but sure only if `is_sure`.
    #[must_use]
    pub fn sure_if(mut self, is_sure: bool) -> Self {
        if !is_sure && self.verdict == Verdict::Sure {
            self.verdict = Verdict::Unsure;
        }
        self
    }
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Short name for files and for laying two drives' charts over each other: lower case, words
    /// joined by `_`.
    pub name: String,
    /// Title: it says what the chart shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
    /// Marks: a knee, a dip, a threshold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Name of the quantity, without the unit.
    pub label: String,
    /// `bytes`, `us`, `ms`, `s`, `MB/s`, `requests/s`, `requests`, `chunks`, `share`, or empty.
    pub unit: String,
    /// Logarithmic.
    #[serde(default)]
    pub is_log: bool,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn linear(label: &str, unit: &str) -> Self {
        Self { label: label.to_owned(), unit: unit.to_owned(), is_log: false }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn log(label: &str, unit: &str) -> Self {
        Self { label: label.to_owned(), unit: unit.to_owned(), is_log: true }
    }
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Drawn as points without lines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_scatter: bool,
    /// Its points, in order of x.
    pub points: Vec<Point>,
}

impl Series {
    /// A curve without points.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_scatter: false, points: Vec::new() }
    }

    /// Adds a point without an interval.
    pub fn push(&mut self, x: f64, y: f64) {
        self.points.push(Point { x, y, interval: None, requests: None });
    }

    /// Adds a point with its 95 % interval.
    pub fn push_within(&mut self, x: f64, y: f64, low: f64, high: f64) {
        self.points.push(Point { x, y, interval: Some([low, high]), requests: None });
    }
}

/// A point of a curve, in the units of the chart's axes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its place on the horizontal axis.
    pub x: f64,
    /// The mean.
    pub y: f64,
    /// Its 95 % interval, if it was estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Requests that it is the mean of, where whoever measures again needs to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// Something to mark, in the units of the chart's axes: a vertical line at `x`, a horizontal one at
/// `y`, or a point at both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Its text.
    pub label: String,
    /// Its place on the horizontal axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Its place on the vertical axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
}

/// Findings of an experiment, and the run that produced them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The experiment with all its parameters, as a spec.
    pub experiment: String,
    /// Values that were found.
    pub values: Vec<Value>,
    /// The figures.
    pub charts: Vec<Chart>,
    /// Notes that a reader needs: parts that were left out and why, limits of the result.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Device time that it took, in seconds.
    #[serde(default)]
    pub device_seconds: f64,
    /// Requests completed.
    #[serde(default)]
    pub requests: u64,
    /// Bytes read.
    #[serde(default)]
    pub read_bytes: u64,
    /// Bytes written.
    #[serde(default)]
    pub written_bytes: u64,
    /// Seed.
    #[serde(default)]
    pub seed: u64,
}
