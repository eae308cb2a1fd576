//! The recorder as a layer: passes every request on, and writes it down.
//!
//! Works above any device, also where no kernel could be asked: a file, memory, a simulated drive.
//! A thread of its own encodes and writes.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

use block::{BlockDevice, BlockError, Command, Completion, DeviceInfo, Signal, Telemetry};
use rustc_hash::FxHashMap;
use traces::store::StoreWriter;
use traces::{Facts, Origin, Output, TraceError, TraceWriter, Written};
use units::{IoRequest, Nanos};

/// Requests handed to the writing thread at a time.
const BATCH: usize = 4096;

/// Batches that may wait for the writing thread: a slow disk then holds back the requests, and
/// nothing is lost.
const WAITING_BATCHES: usize = 256;

const ZSTD_LEVEL: u32 = 1;

/// State of a request that was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    UnderWay,
    Ended,
}

/// A device whose requests are written into a Parquet trace, in the order in which they were sent,
/// with their times and latencies.
///
/// Times count from the first request. One that failed, or whose end was not seen, has no latency.
pub struct Recorded<'a> {
    device: &'a mut dyn BlockDevice,
    /// Sent and not yet handed to the writer, in order; the first one is number `first` of all.
    rows: VecDeque<(IoRequest, State)>,
    first: u64,
    numbers: FxHashMap<u32, u64>,
    start: Option<Nanos>,
    batch: Vec<IoRequest>,
    sender: SyncSender<Vec<IoRequest>>,
    writer: JoinHandle<Result<Box<StoreWriter>, TraceError>>,
}

impl<'a> Recorded<'a> {
    /// Begins a trace at `path`. It has its name after [`Self::finish`].
    ///
    /// # Errors
    /// [`TraceError`] if the file cannot be made.
    pub fn new(device: &'a mut dyn BlockDevice, path: &Path) -> Result<Self, TraceError> {
        let origin = Origin { format: "recorded".to_owned(), ..Origin::default() };
        let mut store = Box::new(StoreWriter::new(Output::create(path)?, ZSTD_LEVEL, &origin)?);
        let (sender, batches) = mpsc::sync_channel::<Vec<IoRequest>>(WAITING_BATCHES);
        let writer = std::thread::spawn(move || {
            for batch in batches {
                store.write(&batch)?;
            }
            Ok(store)
        });
        let (rows, numbers) = (VecDeque::new(), FxHashMap::default());
        Ok(Self {
            device,
            rows,
            first: 0,
            numbers,
            start: None,
            batch: Vec::with_capacity(BATCH),
            sender,
            writer,
        })
    }

    /// Writes what is left, and gives the file its name.
    ///
    /// # Errors
    /// [`TraceError`] if something could not be written, now or before.
    ///
    /// # Panics
    /// If the writing thread did.
    pub fn finish(mut self) -> Result<Written, TraceError> {
        while let Some((row, _)) = self.rows.pop_front() {
            self.batch.push(row);
        }
        self.hand_over();
        let Self { sender, writer, start, .. } = self;
        drop(sender);
        #[allow(clippy::expect_used, reason = "a panic there is a bug, and is told as one")]
        let store = writer.join().expect("the writing thread does not panic")?;
        store.finish(&Facts { start_ns: start, ..Facts::default() })
    }

    fn hand_over(&mut self) {
        if !self.batch.is_empty() {
            let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
            // Its receiver is gone only when writing failed, which `finish` tells.
            let _ = self.sender.send(batch);
        }
    }

    /// Hands over what has ended, up to the first that has not.
    fn advance(&mut self) {
        while let Some(&(row, State::Ended)) = self.rows.front() {
            self.rows.pop_front();
            self.first += 1;
            self.batch.push(row);
            if self.batch.len() == BATCH {
                self.hand_over();
            }
        }
    }

    fn ended(&mut self, completion: &Completion) {
        let Some(number) = self.numbers.remove(&completion.reply.id) else { return };
        let (row, state) = &mut self.rows[(number - self.first) as usize];
        let latency_ns = completion.completed_at.saturating_sub(completion.submitted_at);
        row.latency_ns = completion.reply.outcome.is_ok().then_some(latency_ns);
        *state = State::Ended;
    }
}

impl BlockDevice for Recorded<'_> {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn outstanding(&self) -> u32 {
        self.device.outstanding()
    }

    fn submit(&mut self, command: Command) {
        let sent_at = self.device.now();
        let start = *self.start.get_or_insert(sent_at);
        let Command { id, op, offset, length, .. } = command;
        self.device.submit(command);
        self.numbers.insert(id, self.first + self.rows.len() as u64);
        let row = IoRequest {
            time_ns: sent_at - start,
            op,
            offset,
            length,
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        };
        self.rows.push_back((row, State::UnderWay));
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        let known = completed.len();
        let outcome = self.device.wait(until, completed);
        for completion in &completed[known..] {
            self.ended(completion);
        }
        self.advance();
        outcome
    }

    fn telemetry(&self) -> Telemetry {
        self.device.telemetry()
    }

    fn signal(&mut self, signal: Signal) {
        self.device.signal(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use devices::{Access, Opening};
    use traces::OpenOptions;
    use units::{IoOp, VecRequests};

    use crate::{Pace, Playing, flow, play};

    #[test]
    fn what_was_sent_stands_in_the_trace_in_order_with_latencies() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recorded.parquet");
        let sent: Vec<IoRequest> = (0..10_000u64)
            .map(|number| IoRequest {
                time_ns: number,
                op: if number % 3 == 0 { IoOp::Write } else { IoOp::Read },
                offset: number * 7919 % 1024 * 4096,
                length: 4096,
                stream: 0,
                latency_ns: None,
                handle: 0,
                is_fua: false,
            })
            .collect();
        let mut device = devices::open(&Opening::new("memory(bytes=4Mi)", Access::Write)).unwrap();
        let mut recorded = Recorded::new(&mut *device, &path).unwrap();
        let source = Box::new(VecRequests::new(sent.clone().into()));
        let progress = units::Progress::default();
        let playing = Playing::whole(&progress);
        let played = play(&mut recorded, vec![flow(source, Pace::closed(8))], &playing);
        assert!(played.ended.is_none());
        assert_eq!(recorded.finish().unwrap().requests, 10_000);
        let mut trace = traces::open(&path, &OpenOptions::default()).unwrap();
        let mut found = Vec::new();
        while trace.read_batch(&mut found, 1000).unwrap() > 0 {}
        assert_eq!(found.len(), sent.len());
        for (one, other) in found.iter().zip(&sent) {
            assert_eq!((one.op, one.offset, one.length), (other.op, other.offset, other.length));
            assert!(one.latency_ns.is_some());
        }
        assert!(found.is_sorted_by_key(|one| one.time_ns));
    }
}
