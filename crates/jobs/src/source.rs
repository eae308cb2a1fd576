//! The requests that are played: of a trace, a synthetic workload, or a pattern.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use registry::{Args, Info, Spec};
use replay::{ReplayError, ReplayTrace, Selection};
use serde::{Deserialize, Serialize};
use traces::requests::{Folded, Repeated};
use traces::synth::patterns::{Pattern, SECTOR_BYTES};
use traces::synth::{self, Workload};
use traces::{OpenOptions, TraceError};
use units::{IoOp, IoRequest, Progress, RequestSource, SourceError};

use crate::JobError;
use crate::values::{Count, Seconds};
use crate::written::Written;

/// A source, and which part of it is played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// A trace file, `synth:...`, or a pattern such as `io:random(reads=1)`.
    #[serde(alias = "")]
    pub of: String,
    /// Begin at this time of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Seconds>,
    /// End this much later.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Seconds>,
    /// Most requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Count>,
    /// Operations, joined by `+`: `read`, `write+trim`; left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<Ops>,
    /// Placement of the addresses; left out, `dense` on a simulated drive, else `as_is`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<FitName>,
    /// Play it over this many times.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeat: Count,
    /// Priority, 0 to 255: of requests that wait for room, those of the highest go first.
    #[serde(default, skip_serializing_if = "is_lowest")]
    pub priority: u8,
    /// Placement handle of its writes, 0 to 127; left out, that of each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<u8>,
    /// Format of the trace, if its content does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Malformed lines that are left out and counted.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub skip_bad: Count,
    /// One page in so many, for those who count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Count>,
}

const fn once() -> Count {
    Count(1)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_once(count: &Count) -> bool {
    count.0 == 1
}

const fn none() -> Count {
    Count(0)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_none(count: &Count) -> bool {
    count.0 == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_lowest(priority: &u8) -> bool {
    *priority == 0
}

/// Operations that are taken, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ops([bool; IoOp::ALL.len()]);

impl TryFrom<String> for Ops {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut taken = [false; IoOp::ALL.len()];
        for name in text.split('+').map(str::trim) {
            let known = IoOp::ALL.into_iter().find(|op| op.name() == name);
            let op =
                known.ok_or_else(|| format!("`{name}` is none of read, write, trim and flush"))?;
            taken[op as usize] = true;
        }
        Ok(Self(taken))
    }
}

impl From<Ops> for String {
    fn from(ops: Ops) -> Self {
        let taken = IoOp::ALL.into_iter().filter(|op| ops.0[*op as usize]);
        taken.map(IoOp::name).collect::<Vec<_>>().join("+")
    }
}

/// Placement of the addresses of a trace on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FitName {
    /// They stay, and one that the device does not have is an error.
    AsIs,
    /// The extents of 1 MiB that are touched are moved together.
    Dense,
    /// They are taken modulo the device's size; on a simulated drive moved together before.
    Fold,
    /// They are shrunk, or stretched, onto the device.
    Scale,
}

impl Written for Part {
    const NAME: &str = "source";

    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("it is empty: name a trace file, synth:... or io:...".to_owned());
        }
        if !text.starts_with("part(") {
            return Ok(Self::whole(text));
        }
        let part: Self = registry::read(text).map_err(|error| error.to_string())?;
        checked_handle(part.handle)?;
        if part.sample == Some(Count(0)) {
            return Err("sample is 0: it must be 1 at least".to_owned());
        }
        Ok(part)
    }
}

/// Refuses a placement handle that there is not.
pub(crate) fn checked_handle(handle: Option<u8>) -> Result<(), String> {
    match handle {
        Some(handle) if handle >= units::PLACEMENT_HANDLES => {
            Err(format!("handle is {handle}: it must be from 0 to 127"))
        }
        _ => Ok(()),
    }
}

impl Part {
    /// All of a source.
    #[must_use]
    pub fn whole(of: &str) -> Self {
        Self {
            of: of.to_owned(),
            skip: None,
            duration: None,
            limit: None,
            ops: None,
            fit: None,
            repeat: once(),
            priority: 0,
            handle: None,
            format: None,
            skip_bad: none(),
            sample: None,
        }
    }

    fn selection(&self) -> Selection {
        let nanos = |seconds: Seconds| (seconds.0 * 1e9).round() as u64;
        Selection {
            skip: self.skip.map_or(0, nanos),
            span: self.duration.map_or(u64::MAX, nanos),
            limit: self.limit.map_or(u64::MAX, |limit| limit.0),
            ops: self.ops.map_or([true; IoOp::ALL.len()], |ops| ops.0),
        }
    }

    /// Raises what says how a trace is read or selected, of what is none.
    fn check_made_up(&self) -> Result<(), String> {
        let given = [
            ("skip", self.skip.is_some()),
            ("for", self.duration.is_some()),
            ("limit", self.limit.is_some()),
            ("ops", self.ops.is_some()),
            ("format", self.format.is_some()),
            ("fit", self.fit.is_some_and(|fit| fit != FitName::Fold)),
            ("skip_bad", self.skip_bad.0 > 0),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => {
                Err(format!("`{key}` is of a trace, and {} is none; leave it out", self.of))
            }
            None => Ok(()),
        }
    }
}

/// Settings that a source is loaded with, beside its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loading {
    /// Seed of what is made up.
    pub seed: u64,
    /// Bytes in a page of `synth:`.
    pub page_bytes: u32,
    /// True if the addresses of a trace are moved together when its `fit` is left out or `fold`.
    pub is_dense: bool,
}

/// Requests by address, that can be played any number of times and by several threads at once.
#[derive(Debug)]
pub struct Source {
    /// Its settings.
    pub part: Part,
    loading: Loading,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Trace(Box<ReplayTrace>),
    Synthetic(Workload),
    Pattern(Pattern),
}

/// Sources that somebody still holds: who runs many jobs on one reads it once.
static HELD: Mutex<Vec<Weak<Source>>> = Mutex::new(Vec::new());

impl Source {
    /// Reads a trace once, or makes what is to be played; one that is held is not read again.
    /// Progress counts bytes of the trace.
    ///
    /// # Errors
    /// [`JobError::Settings`] of `at`; [`JobError::Cancelled`].
    pub fn load(
        at: &str,
        part: &Part,
        loading: Loading,
        progress: &Progress,
    ) -> Result<Arc<Self>, JobError> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|source| source.strong_count() > 0);
        let mut known = held.iter().filter_map(Weak::upgrade);
        if let Some(found) = known.find(|one| one.part == *part && one.loading == loading) {
            return Ok(found);
        }
        let found = Arc::new(Self::read(at, part, loading, progress)?);
        held.push(Arc::downgrade(&found));
        Ok(found)
    }

    fn read(
        at: &str,
        part: &Part,
        loading: Loading,
        progress: &Progress,
    ) -> Result<Self, JobError> {
        let wrong = |error: String| JobError::at(at, error);
        if part.repeat.0 == 0 || part.repeat.0 > u64::from(u32::MAX) {
            return Err(wrong(format!("repeat is {}: it must be from 1 to 2^32-1", part.repeat.0)));
        }
        if part.sample.is_some() {
            let said = "`sample` leaves most pages out, which only counting takes (`compare`)";
            return Err(wrong(format!("{said}; leave it out")));
        }
        let spec = |error: registry::SpecError| wrong(error.to_string());
        let kind = if part.of.starts_with("synth:") {
            part.check_made_up().map_err(wrong)?;
            Kind::Synthetic(Workload::parse(&part.of, loading.seed).map_err(spec)?)
        } else if part.of.starts_with("io:") {
            part.check_made_up().map_err(wrong)?;
            Kind::Pattern(Pattern::parse(&part.of, loading.seed).map_err(spec)?)
        } else {
            let format = part.format.as_deref().map(Spec::parse).transpose().map_err(spec)?;
            let how = OpenOptions { format, skip_bad: part.skip_bad.0 };
            let is_dense = match part.fit {
                Some(FitName::Dense) => true,
                Some(FitName::Fold) | None => loading.is_dense,
                Some(FitName::AsIs | FitName::Scale) => false,
            };
            let path = Path::new(&part.of);
            let trace = ReplayTrace::load(path, how, part.selection(), is_dense, progress);
            let trace = trace.map_err(|error| source_error(at, error))?;
            check_selected(part, &trace, is_dense).map_err(wrong)?;
            Kind::Trace(Box::new(trace))
        };
        let found = Self { part: part.clone(), loading, kind };
        if part.repeat.0 > 1 && found.count().is_none() {
            return Err(wrong(format!(
                "{} has no end, so that it cannot be repeated; give it `requests`, or no repeat",
                part.of
            )));
        }
        Ok(found)
    }

    /// The trace, if it is one.
    #[must_use]
    pub fn trace(&self) -> Option<&ReplayTrace> {
        match &self.kind {
            Kind::Trace(trace) => Some(trace),
            Kind::Synthetic(_) | Kind::Pattern(_) => None,
        }
    }

    fn once_on(&self, capacity_bytes: u64) -> Result<Box<dyn RequestSource>, String> {
        Ok(match &self.kind {
            Kind::Trace(trace) => trace.source().map_err(|error| error.to_string())?,
            Kind::Pattern(pattern) => {
                pattern.source(capacity_bytes, SECTOR_BYTES).map_err(|error| error.to_string())?
            }
            Kind::Synthetic(workload) => {
                Box::new(synth::Requests::new(workload.synthetic(), self.loading.page_bytes))
            }
        })
    }

    /// The requests from the first on, at the addresses that they have in the source; a pattern
    /// goes by a device of `capacity_bytes`.
    ///
    /// # Errors
    /// A message that says what is wrong, and what would be right.
    pub fn requests(&self, capacity_bytes: u64) -> Result<Box<dyn RequestSource>, String> {
        Ok(self.repeated(self.once_on(capacity_bytes)?))
    }

    /// The requests from the first on, at addresses of a device of `capacity_bytes`; what is beyond
    /// is folded onto it, or an error.
    ///
    /// # Errors
    /// A message that says what is wrong, and what would be right.
    pub fn on(&self, capacity_bytes: u64, fold: bool) -> Result<Box<dyn RequestSource>, String> {
        let once = self.once_on(capacity_bytes)?;
        let is_folded = fold || self.part.fit == Some(FitName::Fold);
        let placed = match self.beyond(capacity_bytes) {
            Some(_) if is_folded => Box::new(Folded::new(once, capacity_bytes)),
            Some(said) => return Err(said),
            None => once,
        };
        Ok(self.repeated(placed))
    }

    fn repeated(&self, once: Box<dyn RequestSource>) -> Box<dyn RequestSource> {
        if self.part.repeat.0 == 1 {
            return once;
        }
        let requests = self.once().unwrap_or(0);
        let period_ns = Repeated::period_ns(self.duration().unwrap_or(0), requests);
        Box::new(Repeated::new(once, self.part.repeat.0 as u32, period_ns))
    }

    /// Says what is wrong if a device of `capacity_bytes` is too small.
    fn beyond(&self, capacity_bytes: u64) -> Option<String> {
        let needed = self.footprint().filter(|needed| *needed > capacity_bytes)?;
        let right = match &self.kind {
            Kind::Synthetic(_) => {
                let most = capacity_bytes / u64::from(self.loading.page_bytes);
                format!("`pages` of at most {most}, a larger device, or --fold")
            }
            Kind::Trace(_) | Kind::Pattern(_) => {
                "a larger device, --fold, or fit=dense or fit=scale in part(...)".to_owned()
            }
        };
        Some(format!(
            "{} needs {needed} bytes, and the device has {capacity_bytes}; right would be {right}",
            self.part.of
        ))
    }

    /// Returns true if a device of `capacity_bytes` is too small for its addresses.
    #[must_use]
    pub fn is_beyond(&self, capacity_bytes: u64) -> bool {
        self.footprint().is_some_and(|needed| needed > capacity_bytes)
    }

    /// Gives the bytes that a device needs to hold all addresses; none of a pattern, which goes by
    /// the device.
    #[must_use]
    pub fn footprint(&self) -> Option<u64> {
        match &self.kind {
            Kind::Trace(trace) => Some(trace.totals.end_bytes),
            Kind::Synthetic(workload) => {
                Some(u64::from(workload.logical_pages()) * u64::from(self.loading.page_bytes))
            }
            Kind::Pattern(_) => None,
        }
    }

    /// Bytes at the beginning of a device that hold all addresses; all of them if that goes by the
    /// device.
    #[must_use]
    pub fn touched_bytes(&self) -> u64 {
        let of_pattern = match &self.kind {
            Kind::Pattern(pattern) => pattern.footprint_bytes(),
            Kind::Trace(_) | Kind::Synthetic(_) => None,
        };
        self.footprint().or(of_pattern).unwrap_or(u64::MAX)
    }

    /// Returns true if each request has a time at which it is to be sent.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        match &self.kind {
            Kind::Trace(trace) => !trace.facts.timeless,
            Kind::Synthetic(_) => false,
            Kind::Pattern(pattern) => pattern.has_times(),
        }
    }

    /// Returns true if playing it changes the content of a device.
    #[must_use]
    pub fn writes(&self) -> bool {
        match &self.kind {
            Kind::Trace(trace) => trace.totals.changes(),
            Kind::Synthetic(_) => true,
            Kind::Pattern(pattern) => !pattern.only_reads(),
        }
    }

    fn once(&self) -> Option<u64> {
        match &self.kind {
            Kind::Trace(trace) => Some(trace.totals.requests()),
            Kind::Synthetic(workload) => Some(workload.operations()),
            Kind::Pattern(pattern) => pattern.requests(),
        }
    }

    /// Requests of all passes; none if there is no end.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        Some(self.once()?.saturating_mul(self.part.repeat.0))
    }

    /// Time of the last request of a pass after its first, in nanoseconds; none without times.
    #[must_use]
    pub fn duration(&self) -> Option<u64> {
        match &self.kind {
            Kind::Trace(trace) => (!trace.facts.timeless).then_some(trace.totals.duration),
            Kind::Synthetic(_) => None,
            Kind::Pattern(pattern) => pattern.duration_ns(),
        }
    }

    /// Returns true if the update frequency of each page is known: it is not for a pattern.
    #[must_use]
    pub fn has_weights(&self) -> bool {
        !matches!(self.kind, Kind::Pattern(_))
    }

    /// Gives the write frequency of each page of a drive, in any unit: exact probabilities of a
    /// synthetic workload, counts of a trace.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn weights(
        &self,
        page_bytes: u32,
        pages: u32,
        fold: bool,
    ) -> Result<Vec<f64>, SourceError> {
        let page = u64::from(page_bytes);
        let mut weights = vec![0.0; pages as usize];
        let mut add = |offset: u64, length: u32, weight: f64| {
            let last = (offset + u64::from(length) - 1) / page;
            (offset / page..=last)
                .for_each(|number| weights[(number % u64::from(pages)) as usize] += weight);
        };
        if let Kind::Synthetic(workload) = &self.kind {
            let each = self.loading.page_bytes;
            let shares = workload.page_weights().per_page;
            (0_u64..)
                .zip(shares)
                .for_each(|(number, share)| add(number * u64::from(each), each, share));
            return Ok(weights);
        }
        let mut source = self.on(page * u64::from(pages), fold)?;
        let mut buffer = vec![IoRequest::NOTHING; 4096];
        loop {
            let count = source.fill(&mut buffer)?;
            if count == 0 {
                return Ok(weights);
            }
            let writes = buffer[..count].iter().filter(|request| request.op == IoOp::Write);
            writes.for_each(|request| add(request.offset, request.length, 1.0));
        }
    }

    /// Identifies its requests: by the files' hashes and the part that is taken, or by the spec
    /// with all its parameters and the seed.
    #[must_use]
    pub fn content_hash(&self) -> String {
        let spec = |kind: &str, info: &Info, args: &Args, seed: u64| {
            let args = args.iter().map(|(name, value)| format!("{name}={value}"));
            let args: Vec<String> = args.collect();
            format!("{kind}:{}({}) seed {seed}", info.name, args.join(","))
        };
        match &self.kind {
            Kind::Trace(trace) => {
                let files = trace.sources.iter();
                let mut said: Vec<String> =
                    files.map(|file| format!("{}:{}", file.name, file.sha256)).collect();
                let whole = Part::whole(&self.part.of);
                if self.part != whole {
                    let rest = Part { of: String::new(), ..self.part.clone() };
                    said.push(serde_json::to_string(&rest).unwrap_or_default());
                }
                said.join(" ")
            }
            Kind::Synthetic(workload) => format!(
                "{} pages of {} bytes",
                spec("synth", workload.info(), workload.args(), workload.seed()),
                self.loading.page_bytes
            ),
            Kind::Pattern(pattern) => spec("io", pattern.info(), pattern.args(), pattern.seed()),
        }
    }
}

/// Refuses times of a trace that has none, and volumes whose addresses would be taken for one
/// another's.
fn check_selected(part: &Part, trace: &ReplayTrace, is_dense: bool) -> Result<(), String> {
    if trace.facts.timeless && (part.skip.is_some() || part.duration.is_some()) {
        let of = &part.of;
        return Err(format!("{of} has no times for `skip` and `for`; `limit` takes requests"));
    }
    let volumes = trace.totals.volumes;
    if volumes > 1 && !is_dense {
        return Err(format!(
            "{} is of {volumes} volumes, in which equal addresses are different places; fit=dense \
             in part(...) puts what they touch side by side",
            part.of
        ));
    }
    Ok(())
}

fn source_error(at: &str, error: ReplayError) -> JobError {
    match error {
        ReplayError::Cancelled(cancelled)
        | ReplayError::Trace(TraceError::Cancelled(cancelled)) => cancelled.into(),
        error => JobError::at(at, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_written_in_the_source() {
        let part = Part::read(
            "part(x.parquet, skip=60s, for=2m, ops=write+trim, fit=fold, repeat=3, \
             format=columns(time=0,op=1))",
        )
        .unwrap();
        assert_eq!((part.of.as_str(), part.skip), ("x.parquet", Some(Seconds(60.0))));
        assert_eq!((part.duration, part.repeat), (Some(Seconds(120.0)), Count(3)));
        assert_eq!(
            (part.fit, part.format.as_deref()),
            (Some(FitName::Fold), Some("columns(time=0,op=1)"))
        );
        assert_eq!(String::from(part.ops.unwrap()), "write+trim");
        let json = serde_json::to_string(&part).unwrap();
        assert_eq!(serde_json::from_str::<Part>(&json).unwrap(), part);
        assert_eq!(Part::read("a b.csv").unwrap(), Part::whole("a b.csv"));
        for (text, right) in [
            ("part(x, ops=rite)", "`rite` is none of read, write, trim and flush"),
            ("part(x, fit=fld)", "unknown `fld`; known are: as_is, dense, fold, scale"),
            ("part(x, skp=1)", "there is no parameter `skp`"),
            ("", "it is empty"),
        ] {
            let error = Part::read(text).unwrap_err();
            assert!(error.contains(right), "{text}: {error}");
        }
    }

    #[test]
    fn a_source_that_is_held_is_loaded_once() {
        let loading = Loading { seed: 1, page_bytes: 4096, is_dense: true };
        let load = |text: &str| {
            let part = Part::read(text).unwrap();
            Source::load("source", &part, loading, &Progress::default())
        };
        let first = load("io:random(requests=10)").unwrap();
        assert!(Arc::ptr_eq(&first, &load("io:random(requests=10)").unwrap()));
        assert!(!Arc::ptr_eq(&first, &load("io:random(requests=11)").unwrap()));
        let error = load("part(io:random, skip=1)").unwrap_err().to_string();
        assert!(error.contains("`skip` is of a trace"), "{error}");
        let error = load("part(io:random, repeat=2)").unwrap_err().to_string();
        assert!(error.contains("has no end"), "{error}");
    }
}
