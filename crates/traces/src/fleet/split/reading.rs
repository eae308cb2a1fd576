//! Reading the inputs of a split, one after the other, as one trace.

use std::path::PathBuf;

use units::{IoRequest, Progress};

use crate::error::TraceError;
use crate::fleet::manifest::{Reached, Told};
use crate::open::{OpenOptions, Trace, open};
use crate::reader::Facts;

/// Requests that are handed on at once, unless checkpoints are nearer.
const BATCH_REQUESTS: usize = 32 << 10;

/// Some requests of the trace, and what is known behind them.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) requests: Vec<IoRequest>,
    /// Known from the first batch on.
    pub(super) format: &'static str,
    /// Time of the trace's first request on its own clock.
    pub(super) start_ns: Option<u64>,
    /// What a checkpoint notes, where one is due.
    pub(super) due: Option<(Reached, Told)>,
    /// True for the last one.
    pub(super) is_last: bool,
}

/// What is read.
pub(super) struct Inputs<'a> {
    pub(super) paths: &'a [PathBuf],
    pub(super) options: &'a OpenOptions,
    pub(super) by_stream: bool,
    pub(super) checkpoint_requests: u64,
    /// Format and start that a store says, which goes on.
    pub(super) known: (Option<String>, Option<u64>),
    pub(super) from: Reached,
    /// Facts of the inputs before the one that it goes on with.
    pub(super) told: Told,
}

impl Inputs<'_> {
    /// Reads all inputs; `hand_on` takes a batch and gives one whose memory is used again.
    pub(super) fn read(
        mut self,
        progress: &Progress,
        mut hand_on: impl FnMut(Batch) -> Result<Batch, TraceError>,
    ) -> Result<(), TraceError> {
        let (mut batch, mut since) = (Batch::default(), 0);
        let most = usize::try_from(self.checkpoint_requests).unwrap_or(usize::MAX);
        let most = most.min(BATCH_REQUESTS);
        for number in self.from.input..self.paths.len() {
            let mut trace = self.open(number, progress)?;
            let mut reached = Reached { input: number, ..Reached::default() };
            if number == self.from.input {
                self.go_to(&mut trace, progress)?;
                reached.requests = self.from.requests;
            }
            // How far the input's clock is ahead of that of the whole trace.
            let mut ahead = None;
            loop {
                batch.requests.clear();
                let count = trace.read_batch(&mut batch.requests, most)?;
                trace.report(progress)?;
                if count == 0 {
                    break;
                }
                let ahead = match ahead {
                    Some(known) => known,
                    None => *ahead.insert(self.ahead(&trace)?),
                };
                self.told.clamped_times += set_ahead(&mut batch.requests, ahead);
                reached.requests += count as u64;
                since += count as u64;
                batch.format = trace.format().info.name;
                batch.start_ns = self.known.1;
                batch.due = None;
                if since >= self.checkpoint_requests {
                    since = 0;
                    reached.mark = trace.mark();
                    batch.due = Some((reached.clone(), self.told.clone()));
                }
                batch = hand_on(batch)?;
            }
            self.told.add(&trace.facts());
        }
        batch.requests.clear();
        let reached = Reached { input: self.paths.len(), ..Reached::default() };
        batch.due = Some((reached, self.told));
        batch.start_ns = self.known.1;
        batch.is_last = true;
        hand_on(batch).map(drop)
    }

    /// Opens an input and checks that it goes with those before it.
    fn open(&mut self, number: usize, progress: &Progress) -> Result<Trace, TraceError> {
        progress.advance(0)?;
        let path = &self.paths[number];
        let trace = open(path, self.options)?;
        let unusable =
            |reason: String, right| Err(TraceError::Unusable { path: path.clone(), reason, right });
        let (facts, format) = (trace.facts(), trace.format().info.name);
        if !facts.streams_are_volumes && !self.by_stream {
            return unusable(
                format!("it is of the format {format}, whose streams are not told to be volumes"),
                "a trace of many volumes, such as alibaba or tencent; or to say that its streams \
                 are volumes (by_stream)",
            );
        }
        if facts.timeless {
            return unusable("it tells no times".to_owned(), "a trace with times");
        }
        match &self.known.0 {
            Some(known) if known != format => {
                return unusable(
                    format!("it is of the format {format}, the inputs before it of {known}"),
                    "inputs of one format",
                );
            }
            Some(_) => {}
            None => self.known.0 = Some(format.to_owned()),
        }
        Ok(trace)
    }

    /// Passes over what is in the store.
    fn go_to(&self, trace: &mut Trace, progress: &Progress) -> Result<(), TraceError> {
        if let Some(mark) = &self.from.mark {
            return trace.go_to(mark);
        }
        let (mut left, mut passed) = (self.from.requests, Vec::new());
        while left > 0 {
            passed.clear();
            let most =
                usize::try_from(left).map_or(BATCH_REQUESTS, |left| left.min(BATCH_REQUESTS));
            let count = trace.read_batch(&mut passed, most)?;
            trace.report(progress)?;
            if count == 0 {
                break;
            }
            left -= count as u64;
        }
        Ok(())
    }

    fn ahead(&mut self, trace: &Trace) -> Result<i128, TraceError> {
        let Facts { start_ns, .. } = trace.facts();
        match (start_ns, self.known.1) {
            (None, _) if self.paths.len() > 1 => Err(TraceError::Unusable {
                path: trace.path().to_owned(),
                reason: "its times are on no clock of their own, so what came first of several \
                         files is not known"
                    .to_owned(),
                right: "one file",
            }),
            (None, _) => Ok(0),
            (Some(start), None) => {
                self.known.1 = Some(start);
                Ok(0)
            }
            (Some(start), Some(of_trace)) => Ok(i128::from(start) - i128::from(of_trace)),
        }
    }
}

/// Sets times to the clock of the whole trace. Returns how many lie before its first request: those
/// are 0.
fn set_ahead(requests: &mut [IoRequest], ahead: i128) -> u64 {
    if let Ok(ahead) = u64::try_from(ahead) {
        for one in requests {
            one.time_ns = one.time_ns.saturating_add(ahead);
        }
        return 0;
    }
    let behind = u64::try_from(-ahead).unwrap_or(u64::MAX);
    let mut clamped = 0;
    for one in requests {
        clamped += u64::from(one.time_ns < behind);
        one.time_ns = one.time_ns.saturating_sub(behind);
    }
    clamped
}
