//! A placement policy in Python: the questions of `placement::Placement`, batched.

use std::sync::{Arc, Mutex};

use numpy::{IntoPyArray as _, PyArray1, PyArrayLike1, PyArrayMethods as _};
use placement::{
    BuildError, Death, Device, Features, Placement, Previous, Pull, Survivors, victims,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ssd::counting::{CountingSettings, Outcome, RunError, simulate_policy};
use units::{EraseBlockId, Lpn, PageSource, StreamId};

use crate::errors;
use crate::values::Array;

/// Stands for "none" in arrays of streams and erase blocks.
pub const NONE: u32 = u32::MAX;
/// Streams are kept in 16 bits.
const MOST_STREAMS: usize = u16::MAX as usize;
const MOST_AHEAD: usize = 1 << 16;

/// State of the flash that a policy may look at: erase blocks, streams and the logical clock, as
/// they are when it is asked. Arrays are copies.
#[pyclass(frozen, module = "flashwright._core")]
pub struct FlashState(Mutex<Device>);

impl FlashState {
    fn look<T>(&self, at: impl FnOnce(&Device) -> T) -> T {
        at(&self.0.lock().expect("nothing that holds the lock can panic"))
    }
}

#[pymethods]
impl FlashState {
    /// Host page writes so far.
    #[getter]
    fn clock(&self) -> u64 {
        self.look(|device| device.clock)
    }

    /// Bytes of a page.
    #[getter]
    fn page_bytes(&self) -> u32 {
        self.look(|device| device.geometry.page_bytes)
    }

    /// Pages that are erased together.
    #[getter]
    fn pages_per_erase_block(&self) -> u32 {
        self.look(|device| device.geometry.pages_per_erase_block)
    }

    /// Pages that the host addresses.
    #[getter]
    fn logical_pages(&self) -> u32 {
        self.look(|device| device.geometry.logical_pages)
    }

    /// Erase blocks, spare ones included.
    #[getter]
    fn erase_blocks(&self) -> u32 {
        self.look(|device| device.geometry.erase_blocks)
    }

    /// By erase block: pages that hold the newest version of a logical page.
    fn valid_pages(&self) -> Array<u32> {
        self.look(|device| device.blocks.iter().map(|block| block.valid).collect())
    }

    /// By erase block: the stream that it was opened for.
    fn streams(&self) -> Array<u32> {
        self.look(|device| device.blocks.iter().map(|block| block.stream.into()).collect())
    }

    /// By erase block: the clock, modulo 2^32, when it was opened.
    fn opened_at(&self) -> Array<u32> {
        self.look(|device| Array(device.opened_at.clone()))
    }

    /// By stream: valid pages in its erase blocks. Kept only where the policy is `per_stream`.
    fn stream_valid_pages(&self) -> Array<u32> {
        self.look(|device| device.streams.iter().map(|stream| stream.valid_pages).collect())
    }

    /// By stream: erase blocks, the open one included.
    fn stream_erase_blocks(&self) -> Array<u32> {
        self.look(|device| device.streams.iter().map(|stream| stream.erase_blocks).collect())
    }
}

/// Error of a policy, kept for the caller of the run; the run is asked to stop.
pub struct Failure {
    error: Mutex<Option<PyErr>>,
    progress: Arc<units::Progress>,
}

impl Failure {
    /// None yet.
    pub fn new(progress: Arc<units::Progress>) -> Arc<Self> {
        Arc::new(Self { error: Mutex::new(None), progress })
    }

    /// Takes the exception that was raised, if one was.
    pub fn take(&self) -> Option<PyErr> {
        self.error.lock().expect("nothing that holds the lock can panic").take()
    }

    fn set(&self, error: PyErr) {
        *self.error.lock().expect("nothing that holds the lock can panic") = Some(error);
        self.progress.cancel();
    }
}

/// Questions that a policy answers beyond the two that all do.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Answers {
    donor: bool,
    pulls: bool,
    pages_died: bool,
    stream_to_close: bool,
    choose_victim: bool,
    stream_label: bool,
}

/// Deaths that the policy has not been told of yet.
#[derive(Default)]
struct Deaths {
    lpns: Vec<u32>,
    blocks: Vec<u32>,
    offsets: Vec<u32>,
    streams: Vec<u32>,
    are_trimmed: Vec<bool>,
}

/// A policy whose answers a Python object gives. After its first error nothing more is asked, and
/// everything goes to stream 0 until the run has stopped.
pub struct PythonPolicy {
    per_stream: bool,
    policy: Py<PyAny>,
    flash: Py<FlashState>,
    answers: Answers,
    streams: usize,
    targets: usize,
    most_ahead: usize,
    labels: Vec<String>,
    ahead: std::vec::IntoIter<u32>,
    deaths: Deaths,
    /// By domain: erase blocks that may be chosen, in the order in which they were closed.
    candidates: Vec<Vec<u32>>,
    /// Streams that were named to be closed since the clock stood there.
    closing: (u64, Vec<u32>),
    has_failed: bool,
    failure: Arc<Failure>,
}

/// A whole number of the policy's within its range.
fn number(policy: &Bound<'_, PyAny>, name: &str, most: usize) -> PyResult<usize> {
    let value = policy.getattr(name)?;
    match value.extract::<usize>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(errors::input_error(format!(
            "{}: {name} is {value}: it must be a whole number from 1 to {most}",
            name_of(policy)?
        ))),
    }
}

/// Gives the `name` of the policy.
pub fn name_of(policy: &Bound<'_, PyAny>) -> PyResult<String> {
    policy.getattr("name")?.extract()
}

impl PythonPolicy {
    /// Begins the policy on this device.
    ///
    /// # Errors
    /// Any exception from Python; `InputError` for a number out of its range, or if the policy is
    /// to choose victims and cannot.
    pub fn begin(
        policy: &Bound<'_, PyAny>,
        settings: &CountingSettings,
        failure: Arc<Failure>,
    ) -> PyResult<Self> {
        let py = policy.py();
        let answers: Answers = policy.call_method0("_answers")?.extract()?;
        if settings.victim.name == victims::own::NAME && !answers.choose_victim {
            return Err(errors::input_error(BuildError::NoOwnVictims(name_of(policy)?)));
        }
        let (geometry, seed) = (settings.geometry, settings.seed);
        let flash = Py::new(py, FlashState(Mutex::new(Device::new(geometry, 0))))?;
        policy.call_method1("begin", (&flash, seed))?;
        let streams = number(policy, "streams", MOST_STREAMS)?;
        let labels = (0..streams)
            .map(|stream| match answers.stream_label {
                true => policy.call_method1("stream_label", (stream,))?.extract(),
                false => Ok(format!("stream {stream}")),
            })
            .collect::<PyResult<_>>()?;
        let per_stream = policy.getattr("per_stream")?.extract()?;
        Ok(Self {
            per_stream,
            answers,
            streams,
            targets: number(policy, "relocation_targets", streams)?,
            most_ahead: number(policy, "batch", MOST_AHEAD)?,
            labels,
            ahead: Vec::new().into_iter(),
            deaths: Deaths::default(),
            candidates: vec![Vec::new(); if per_stream { streams } else { 1 }],
            closing: (0, Vec::new()),
            has_failed: false,
            failure,
            policy: policy.clone().unbind(),
            flash,
        })
    }

    /// Asks the policy, which sees the device as it is now, and has been told of all deaths before.
    /// None if it has failed.
    fn ask<T>(
        &mut self,
        device: &Device,
        question: impl for<'py> FnOnce(&mut Self, &Bound<'py, PyAny>, &Py<FlashState>) -> PyResult<T>,
    ) -> Option<T> {
        if self.has_failed {
            return None;
        }
        let answer = Python::attach(|py| {
            let (policy, flash) =
                (self.policy.clone_ref(py).into_bound(py), self.flash.clone_ref(py));
            let mut shown = flash.get().0.lock().expect("nothing that holds the lock can panic");
            shown.clock = device.clock;
            shown.blocks.clone_from(&device.blocks);
            shown.opened_at.clone_from(&device.opened_at);
            shown.streams.clone_from(&device.streams);
            drop(shown);
            self.announce_deaths(&policy, &flash)?;
            question(self, &policy, &flash)
        });
        answer
            .map_err(|error| {
                self.has_failed = true;
                self.failure.set(error);
            })
            .ok()
    }

    fn announce_deaths(
        &mut self,
        policy: &Bound<'_, PyAny>,
        flash: &Py<FlashState>,
    ) -> PyResult<()> {
        if self.deaths.lpns.is_empty() {
            return Ok(());
        }
        let (py, deaths) = (policy.py(), std::mem::take(&mut self.deaths));
        let arrays = (
            deaths.lpns.into_pyarray(py),
            deaths.blocks.into_pyarray(py),
            deaths.offsets.into_pyarray(py),
            deaths.streams.into_pyarray(py),
            deaths.are_trimmed.into_pyarray(py),
            flash,
        );
        policy.call_method1("pages_died", arrays).map(drop)
    }

    /// The streams that a policy gave, as many as pages and all in range.
    fn streams_of(
        &self,
        question: &str,
        given: &Bound<'_, PyAny>,
        pages: usize,
    ) -> PyResult<Vec<u32>> {
        let wrong = |what: String| {
            let name = name_of(self.policy.bind(given.py()))?;
            Err(errors::input_error(format!("{name}: {question} gave {what}")))
        };
        let Ok(array) = given.extract::<PyArrayLike1<'_, i64, numpy::AllowTypeChange>>() else {
            let kind = given.get_type();
            return wrong(format!("a {kind}: it must be an array of stream numbers"));
        };
        let array = array.to_vec()?;
        if array.len() != pages {
            return wrong(format!("{} streams for {pages} pages", array.len()));
        }
        match array.iter().find(|&&stream| !(0..self.streams as i64).contains(&stream)) {
            Some(stream) => wrong(format!("stream {stream}: there are {}", self.streams)),
            None => Ok(array.into_iter().map(|stream| stream as u32).collect()),
        }
    }

    /// A number that a policy gave, below `limit`.
    fn below(&self, question: &str, given: &Bound<'_, PyAny>, limit: usize) -> PyResult<u32> {
        match given.extract::<usize>() {
            Ok(number) if number < limit => Ok(number as u32),
            _ => Err(errors::input_error(format!(
                "{}: {question} gave {given}: it must be a whole number below {limit}",
                name_of(self.policy.bind(given.py()))?
            ))),
        }
    }
}

impl Placement for PythonPolicy {
    #[inline]
    fn features(&self) -> Features {
        Features {
            per_stream: self.per_stream,
            watches_deaths: true,
            chooses_victims: true,
            closes_early: true,
            pulls: true,
            looks_ahead: true,
            ..Features::NONE
        }
    }

    fn streams(&self) -> usize {
        self.streams
    }

    fn relocation_targets(&self) -> usize {
        self.targets
    }

    fn most_ahead(&self) -> usize {
        self.most_ahead
    }

    fn look_ahead(&mut self, writes: &[(Lpn, Option<Previous>)], device: &Device) {
        if writes.is_empty() {
            return;
        }
        let found = self.ask(device, |own, policy, flash| {
            let py = policy.py();
            let lpns: Vec<u32> = writes.iter().map(|(lpn, _)| lpn.0).collect();
            let blocks: Vec<u32> =
                writes.iter().map(|(_, at)| at.map_or(NONE, |at| at.block.0)).collect();
            let streams: Vec<u32> =
                writes.iter().map(|(_, at)| at.map_or(NONE, |at| at.stream.0)).collect();
            let (lpns, blocks) = (lpns.into_pyarray(py), blocks.into_pyarray(py));
            let asked = (lpns, blocks, streams.into_pyarray(py), flash);
            let given = policy.call_method1("host_streams", asked)?;
            own.streams_of("host_streams", &given, writes.len())
        });
        self.ahead = found.unwrap_or_default().into_iter();
    }

    fn host_stream(&mut self, _lpn: Lpn, _previous: Option<Previous>, _: &Device) -> StreamId {
        StreamId(self.ahead.next().unwrap_or(0))
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        to.fill(StreamId(0));
        if to.is_empty() {
            return;
        }
        let found = self.ask(device, |own, policy, flash| {
            let py = policy.py();
            let asked = (
                survivors.block.0,
                survivors.stream.0,
                PyArray1::from_slice(py, survivors.offsets),
                PyArray1::from_slice(py, survivors.lpns),
                flash,
            );
            let given = policy.call_method1("relocation_streams", asked)?;
            let streams = own.streams_of("relocation_streams", &given, survivors.lpns.len())?;
            let mut different = streams.clone();
            different.sort_unstable();
            different.dedup();
            if different.len() > own.targets {
                return Err(errors::input_error(format!(
                    "{}: relocation_streams gave {} different streams for one victim, and \
                     relocation_targets is {}",
                    name_of(policy)?,
                    different.len(),
                    own.targets
                )));
            }
            Ok(streams)
        });
        for (to, stream) in to.iter_mut().zip(found.unwrap_or_default()) {
            *to = StreamId(stream);
        }
    }

    fn pulls(&mut self, survivors: Survivors<'_>, device: &Device, pulls: &mut Vec<Pull>) {
        if !self.answers.pulls {
            return;
        }
        let found = self.ask(device, |own, policy, flash| {
            let py = policy.py();
            let lpns = PyArray1::from_slice(py, survivors.lpns);
            let asked = (survivors.block.0, survivors.stream.0, lpns, flash);
            let given = policy.call_method1("pulls", asked)?;
            let mut found = Vec::new();
            for one in given.try_iter()? {
                let one = one?;
                let (from, newest, pages, to): (u32, bool, u32, u32) =
                    one.cast::<PyTuple>()?.extract()?;
                let streams = (from.max(to) as usize) < own.streams;
                if !streams || (from == to) {
                    return Err(errors::input_error(format!(
                        "{}: pulls gave {one}: it must be (from, newest, pages, to), of two of {} \
                         streams",
                        name_of(policy)?,
                        own.streams
                    )));
                }
                found.push(Pull { from: StreamId(from), newest, pages, to: StreamId(to) });
            }
            Ok(found)
        });
        pulls.extend(found.unwrap_or_default());
    }

    fn donor(&mut self, needy: StreamId, device: &Device) -> usize {
        if !self.answers.donor {
            return needy.index();
        }
        let found = self.ask(device, |own, policy, flash| {
            let given = policy.call_method1("donor", (needy.0, flash))?;
            own.below("donor", &given, own.streams)
        });
        found.map_or(needy.index(), |donor| donor as usize)
    }

    fn page_died(&mut self, death: Death, _device: &Device) {
        if !self.answers.pages_died || self.has_failed {
            return;
        }
        self.deaths.lpns.push(death.lpn.0);
        self.deaths.blocks.push(death.block.0);
        self.deaths.offsets.push(death.offset);
        self.deaths.streams.push(death.stream.0);
        self.deaths.are_trimmed.push(death.is_trimmed);
    }

    fn stream_to_close(&mut self, device: &Device) -> Option<StreamId> {
        if !self.answers.stream_to_close {
            return None;
        }
        if self.closing.0 != device.clock {
            self.closing = (device.clock, Vec::new());
        }
        let stream = self.ask(device, |own, policy, flash| {
            let given = policy.call_method1("stream_to_close", (flash,))?;
            if given.is_none() {
                return Ok(None);
            }
            let stream = own.below("stream_to_close", &given, own.streams)?;
            if own.closing.1.contains(&stream) {
                return Err(errors::input_error(format!(
                    "{}: stream_to_close gave stream {stream} twice between two writes of the \
                     host; give None when there is no other",
                    name_of(policy)?
                )));
            }
            Ok(Some(stream))
        })??;
        self.closing.1.push(stream);
        Some(StreamId(stream))
    }

    fn block_closed(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        self.candidates[domain].push(block.0);
    }

    fn choose_victim(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        let block = self.ask(device, |own, policy, flash| {
            let candidates = PyArray1::from_slice(policy.py(), &own.candidates[domain]);
            let given = policy.call_method1("choose_victim", (candidates, domain, flash))?;
            if given.is_none() {
                return Ok(None);
            }
            let block = own.below("choose_victim", &given, device.blocks.len())?;
            if !own.candidates[domain].contains(&block) {
                return Err(errors::input_error(format!(
                    "{}: choose_victim gave erase block {block}, which is none of the candidates",
                    name_of(policy)?
                )));
            }
            Ok(Some(block))
        })??;
        self.candidates[domain].retain(|&candidate| candidate != block);
        Some(EraseBlockId(block))
    }

    fn victim_removed(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        self.candidates[domain].retain(|&candidate| candidate != block.0);
    }

    fn stream_label(&self, stream: StreamId) -> String {
        self.labels[stream.index()].clone()
    }
}

/// Plays a source through an FTL with a policy of Python's.
///
/// # Errors
/// The exception that the policy raised, or the error in its answers; whatever else ends a run, by
/// `otherwise`.
pub fn simulate(
    policy: &Bound<'_, PyAny>,
    settings: &CountingSettings,
    source: &mut dyn PageSource,
    progress: &Arc<units::Progress>,
    otherwise: impl FnOnce(RunError) -> PyErr,
) -> PyResult<Outcome> {
    let failure = Failure::new(Arc::clone(progress));
    let begun = PythonPolicy::begin(policy, settings, Arc::clone(&failure))?;
    let outcome = policy.py().detach(|| simulate_policy(settings, begun, source, progress));
    match failure.take() {
        Some(raised) => Err(raised),
        None => outcome.map_err(otherwise),
    }
}
