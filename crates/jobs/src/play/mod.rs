//! `play`: a source on any devices, under any stacks, side by side.

mod layered;
mod measured;
mod outcome;
mod request_table;
mod settings;
mod simulated;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::sync::Arc;

use player::{Flow as PlayedFlow, LatencyMap, Shifted};
use units::{Progress, RequestSource};

use crate::device::Device;
use crate::flow::Flow;
use crate::pace::Pace;
use crate::source::{Loading, Source};
use crate::stacks::DIRECT;
use crate::tables::{RowsOf, Tables, column};
use crate::values::CountOrShare;
use crate::{Found, Job, JobError};
use outcome::FlowOf;

pub use outcome::{Played, Run};
pub use settings::{Checkpoints, Life, Play};

/// Requests that are played of a source without end if no limit is given.
const ENDLESS_REQUESTS: u64 = 1_000_000;

impl Job for Play {
    type Outcome = Played;

    fn run(&self, progress: &Progress) -> Result<Found<Played>, JobError> {
        self.check()?;
        let (tables, texts) = (RefCell::default(), RefCell::default());
        let mut runs = Vec::new();
        let mut content_hash = String::new();
        let mut written = Vec::new();
        for (number, device) in self.on.iter().enumerate() {
            let at = format!("on[{number}]");
            let source = self.load(device, progress)?;
            let beside = self.load_flows(device, progress)?;
            content_hash = source.content_hash();
            for stack in self.stacks() {
                for pace in self.paces() {
                    let asked = Asked {
                        play: self,
                        at: &at,
                        device: &device.label(),
                        source: Arc::clone(&source),
                        beside: &beside,
                        pace,
                        stack: stack.unwrap_or(DIRECT),
                        tables: &tables,
                        texts: &texts,
                        was_written: device.place().is_some_and(|place| written.contains(&place)),
                    };
                    runs.push(match (&device.0, stack) {
                        // What it is sent can be recorded only of a block device.
                        (Device::Profile(drive), None) if self.record.is_none() => {
                            simulated::play(&asked, drive, progress)?
                        }
                        (device, stack) => measured::play(&asked, device, stack, progress)?,
                    });
                    written.extend(device.place().filter(|_| self.write));
                }
            }
        }
        let outcome = Played { content_hash, runs };
        Ok(Found { outcome, tables: tables.into_inner().finish()?, texts: texts.into_inner() })
    }
}

/// Stacks that a job has; none is the device itself.
type Beside = Vec<(Flow, Arc<Source>)>;

impl Play {
    fn check(&self) -> Result<(), JobError> {
        if self.stack.iter().any(|stack| stack == "auto") {
            return Err(JobError::at("stack", "auto: stacks are to be chosen before a run"));
        }
        if let Some(number) = self.on.iter().position(|device| device.has_size()) {
            let said = "capacity, fill and slices are to be settled before a run";
            return Err(JobError::at(&format!("on[{number}]"), said));
        }
        Ok(())
    }

    fn stacks(&self) -> Vec<Option<&str>> {
        if self.stack.is_empty() {
            return vec![None];
        }
        self.stack.iter().map(|stack| Some(stack.as_str())).collect()
    }

    fn paces(&self) -> Vec<Pace> {
        if self.pace.is_empty() {
            return vec![Pace::closed(if self.stack.is_empty() { 32 } else { 1 })];
        }
        self.pace.iter().map(|pace| pace.0).collect()
    }

    /// Gives the settings with which the sources are loaded for a device.
    fn loading(&self, device: &Device, number: u64) -> Loading {
        Loading {
            seed: self.seed.wrapping_add(number),
            page_bytes: u32::try_from(self.page_size.0).unwrap_or(u32::MAX),
            is_dense: matches!(device, Device::Profile(_) | Device::Array(_)),
        }
    }

    /// The source as it is played on a device.
    ///
    /// # Errors
    /// [`JobError::Settings`] of `source`, [`JobError::Cancelled`].
    pub fn load(&self, device: &Device, progress: &Progress) -> Result<Arc<Source>, JobError> {
        self.check_page_size()?;
        Source::load("source", &self.source, self.loading(device, 0), progress)
    }

    fn check_page_size(&self) -> Result<(), JobError> {
        let (least, most, given) = (512, 16 << 20, self.page_size);
        if !(least..=most).contains(&given.0) {
            let said = format!("{} is not the size of a page: 512 bytes to 16 MiB", given.0);
            return Err(JobError::at("page_size", said));
        }
        let mut sources =
            self.flow.iter().map(|flow| flow.source.of.as_str()).chain([&*self.source.of]);
        if given != Self::default().page_size && !sources.any(|of| of.starts_with("synth:")) {
            let said = format!("it is of `synth:`, and {} is none; leave it out", self.source.of);
            return Err(JobError::at("page_size", said));
        }
        Ok(())
    }

    fn load_flows(&self, device: &Device, progress: &Progress) -> Result<Beside, JobError> {
        let numbered = self.flow.iter().enumerate();
        let loaded = numbered
            .map(|(number, flow)| Ok((flow.0.clone(), self.load_flow(number, device, progress)?)));
        loaded.collect()
    }

    /// The source of a flow, from 0, as it is played on a device.
    ///
    /// # Errors
    /// [`JobError::Settings`] of `flow`, [`JobError::Cancelled`].
    pub fn load_flow(
        &self,
        number: usize,
        device: &Device,
        progress: &Progress,
    ) -> Result<Arc<Source>, JobError> {
        let at = format!("flow[{number}]");
        let flow = self.flow.get(number);
        let flow = flow.ok_or_else(|| JobError::at(&at, "there is no such flow"))?;
        Source::load(&at, &flow.source, self.loading(device, number as u64 + 1), progress)
    }
}

/// One run of a job.
struct Asked<'a> {
    play: &'a Play,
    /// The setting that names the device.
    at: &'a str,
    /// The words that tell the device from others.
    device: &'a str,
    stack: &'a str,
    pace: Pace,
    source: Arc<Source>,
    beside: &'a Beside,
    tables: &'a RefCell<Tables>,
    texts: &'a RefCell<Vec<(String, String)>>,
    /// True if the region holds data of an earlier run of this job, which may be overwritten.
    was_written: bool,
}

/// A flow as it is played on a device.
struct Given {
    source: Arc<Source>,
    pace: Pace,
    /// Bytes of its addresses.
    length: u64,
    fold: bool,
    queue: u32,
    is_beside: bool,
    about: FlowOf,
}

impl Given {
    /// Its requests where they lie, of a drive that is simulated.
    fn source(&self) -> Result<Box<dyn RequestSource>, JobError> {
        let source = self.source.on(self.length, self.fold);
        let source = source.map_err(|error| JobError::at(self.at(), error))?;
        Ok(match self.about.offset {
            0 => source,
            offset => Box::new(Shifted::new(source, offset)),
        })
    }

    /// Its requests at the addresses that they have in the source.
    fn as_it_is(&self) -> Result<Box<dyn RequestSource>, JobError> {
        let source = self.source.requests(self.length);
        source.map_err(|error| JobError::at(self.at(), error))
    }

    fn at(&self) -> &'static str {
        if self.is_beside { "flow" } else { "source" }
    }

    /// The flow with all that is not its requests'.
    fn marked<S>(&self, flow: PlayedFlow<S>) -> PlayedFlow<S> {
        let flow = flow.with_priority(self.about.priority).with_queue(self.queue);
        let flow = match self.about.handle {
            Some(handle) => flow.with_handle(handle),
            None => flow,
        };
        if self.is_beside { flow.beside() } else { flow }
    }
}

impl Asked<'_> {
    fn pace_text(&self) -> String {
        self.pace.to_string()
    }

    fn rows_of<'a>(&'a self, pace: &'a str) -> RowsOf<'a> {
        RowsOf { device: self.device, stack: self.stack, pace }
    }

    fn add_text(&self, name: &str, text: String) {
        self.texts.borrow_mut().push((name.to_owned(), text));
    }

    /// All flows on a device of `capacity_bytes`, that of the source first.
    fn flows(&self, capacity_bytes: u64) -> Result<Vec<Given>, JobError> {
        let play = self.play;
        if self.pace.is_timed() && !self.source.is_timed() {
            let said = format!(
                "{} has no times; take a closed pace, or give a pattern `pause_us`",
                self.source.part.of
            );
            return Err(JobError::at("pace", said));
        }
        let mut all = vec![Given {
            source: Arc::clone(&self.source),
            pace: self.pace,
            length: capacity_bytes,
            fold: play.fold,
            queue: 0,
            is_beside: false,
            about: FlowOf {
                source: self.source.part.of.clone(),
                priority: self.source.part.priority,
                handle: self.source.part.handle,
                offset: 0,
                folded: self.source.is_beyond(capacity_bytes),
            },
        }];
        for (number, (flow, source)) in self.beside.iter().enumerate() {
            let at = format!("flow[{number}]");
            if flow.pace.is_timed() && !source.is_timed() {
                let said = format!("{} has no times; give it a closed pace", source.part.of);
                return Err(JobError::at(&at, said));
            }
            let (offset, length) =
                flow.region.map_or((0, capacity_bytes), |region| (region.offset, region.length));
            if offset.checked_add(length).is_none_or(|end| end > capacity_bytes) {
                let said = format!(
                    "a region of {length} bytes from byte {offset} on does not lie within the \
                     device's {capacity_bytes} bytes"
                );
                return Err(JobError::at(&at, said));
            }
            all.push(Given {
                source: Arc::clone(source),
                pace: flow.pace.0,
                length,
                fold: false,
                queue: flow.queue,
                is_beside: true,
                about: FlowOf {
                    source: source.part.of.clone(),
                    priority: flow.priority,
                    handle: flow.handle,
                    offset,
                    folded: source.is_beyond(length),
                },
            });
        }
        Ok(all)
    }

    /// Bytes at the beginning of a device that hold all addresses.
    fn touched_bytes(&self) -> u64 {
        let beside = self.beside.iter().map(|(flow, source)| {
            let offset = flow.region.map_or(0, |region| region.offset);
            offset.saturating_add(source.touched_bytes())
        });
        beside.fold(self.source.touched_bytes(), u64::max)
    }

    /// Requests of the source that are played in no time.
    fn untimed(&self) -> Result<u64, JobError> {
        let count = self.source.count();
        let untimed = match (self.play.untimed, count) {
            (CountOrShare::Count(untimed), _) => untimed,
            (CountOrShare::Share(share), Some(count)) => (share * count as f64) as u64,
            (CountOrShare::Share(share), None) => {
                let said = format!(
                    "{share}: {} has no end to take a share of; write a number of requests, such \
                     as 1M",
                    self.source.part.of
                );
                return Err(JobError::at("untimed", said));
            }
        };
        match count {
            Some(count) if untimed >= count && count > 0 && untimed > 0 => {
                let name = &self.source.part.of;
                let said =
                    format!("{untimed}: nothing is left to play of the {count} requests of {name}");
                Err(JobError::at("untimed", said))
            }
            _ => Ok(untimed),
        }
    }

    /// Most requests that are sent after those in no time; none if there is no limit.
    fn most_requests(&self, untimed: u64) -> Option<u64> {
        let left = self.source.count().map(|count| count - untimed.min(count));
        left.into_iter().chain(self.asked_requests()).min()
    }

    /// Requests after which a run ends before its source does; none if it does not.
    fn asked_requests(&self) -> Option<u64> {
        let endless = self.source.count().is_none() && self.play.duration.is_none();
        let asked = self.play.requests.map(|most| most.0);
        asked.or(endless.then_some(ENDLESS_REQUESTS))
    }

    fn check_warm_up(&self, most: Option<u64>) -> Result<(), JobError> {
        let warm_up = self.play.warm_up.0;
        match most {
            Some(0) if self.play.requests.is_some_and(|count| count.0 == 0) => {
                Err(JobError::at("requests", "0: nothing would be played; write 1 or more"))
            }
            Some(most) if warm_up >= most && most > 0 => {
                let said = format!("{warm_up}: nothing is left to measure of {most} requests");
                Err(JobError::at("warm_up", said))
            }
            _ => Ok(()),
        }
    }

    /// Refuses placement handles, of which only a simulated drive without layers knows.
    fn check_no_handles(&self) -> Result<(), JobError> {
        let said = "only a simulated drive without --stack has placement handles; leave `handle` \
                    out";
        if self.source.part.handle.is_some() {
            return Err(JobError::at("source", said));
        }
        match self.beside.iter().position(|(flow, _)| flow.handle.is_some()) {
            Some(number) => Err(JobError::at(&format!("flow[{number}]"), said)),
            None => Ok(()),
        }
    }

    /// Refuses what would write to a device that may only be read.
    fn check_reads(&self, has_layers: bool) -> Result<(), JobError> {
        let name = self.device;
        let add = "add --write if what is on the device may go";
        if has_layers {
            return Err(JobError::at(self.at, format!("{name}: layers write to it; {add}")));
        }
        if self.source.writes() {
            let of = &self.source.part.of;
            let said = match self.source.trace() {
                Some(trace) => format!(
                    "{} bytes are written to it by {of}; {add}, or play `part({of}, ops=read)`",
                    trace.totals.written_bytes
                ),
                None => format!("{of} writes to it; {add}"),
            };
            return Err(JobError::at(self.at, format!("{name}: {said}")));
        }
        match self.beside.iter().position(|(_, source)| source.writes()) {
            Some(number) => {
                Err(JobError::at(&format!("flow[{number}]"), format!("it writes to {name}; {add}")))
            }
            None => Ok(()),
        }
    }

    /// Requests that a run sends, for its progress; 0 if that is not known.
    fn total(&self) -> u64 {
        let untimed = self.untimed().unwrap_or(0);
        if self.play.duration.is_some() { 0 } else { self.most_requests(untimed).unwrap_or(0) }
    }

    /// Adds latencies over time, in ticks of which so many are a second.
    fn latency_over_time(
        &self,
        tables: &mut Tables,
        map: &LatencyMap,
        elapsed: u64,
        ticks: u64,
    ) -> Result<(), JobError> {
        let cells: Vec<_> = map.cells(elapsed).collect();
        let seconds = |time: u64| time as f64 / ticks as f64;
        let pace = self.pace_text();
        tables.add(
            &self.rows_of(&pace),
            "latency_over_time",
            vec![
                column("start_s", cells.iter().map(|cell| seconds(cell.start))),
                column("seconds", cells.iter().map(|cell| seconds(cell.length))),
                column("op", cells.iter().map(|cell| cell.op.name())),
                column("from_ns", cells.iter().map(|cell| cell.from)),
                column("to_ns", cells.iter().map(|cell| cell.to)),
                column("count", cells.iter().map(|cell| cell.requests)),
            ],
        )
    }
}
