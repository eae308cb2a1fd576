//! Direct access to a device without layers: clients read and write it without the volume's thread.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use block::{Data, Failure, SharedBytes};
use bytes::BytesMut;
use units::IoOp;

use super::{ENDED, Outcome, Request};
use crate::Figures;
use crate::Shape;
use crate::metrics::OpFigures;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Bytes of a volume, and counters of its requests.
pub struct Straight {
    bytes: Arc<dyn SharedBytes>,
    capacity_bytes: u64,
    /// Alignment, in bytes, of trims that make zeros.
    zeroing_bytes: Option<u64>,
    requests: [OpCounters; IoOp::ALL.len()],
    under_way: AtomicUsize,
    is_closed: AtomicBool,
    /// First failure by which something may be lost.
    failure: OnceLock<String>,
}

impl Straight {
    pub fn new(bytes: Arc<dyn SharedBytes>, shape: Shape) -> Self {
        Self {
            bytes,
            capacity_bytes: shape.capacity_bytes,
            zeroing_bytes: shape.zeroing_bytes,
            requests: Default::default(),
            under_way: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    pub fn call(&self, request: &Request) -> Outcome {
        let &Request::Read { offset, length } = request else {
            return self.carry_out(request).map(|()| Data::Absent);
        };
        let mut bytes = BytesMut::zeroed(length as usize);
        self.read(offset, &mut bytes)?;
        Ok(Data::Whole(bytes.freeze()))
    }

    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        let request = Request::Read { offset, length: bytes.len() as u32 };
        self.watched(request.op(), request.range(), || self.bytes.read(offset, bytes))
    }

    pub fn write(&self, offset: u64, bytes: &[u8], is_fua: bool) -> Result<(), Failure> {
        let range = (offset, bytes.len() as u64);
        self.watched(IoOp::Write, range, || self.bytes.write(offset, bytes, is_fua))
    }

    fn carry_out(&self, request: &Request) -> Result<(), Failure> {
        let bytes = &self.bytes;
        self.watched(request.op(), request.range(), || match request {
            Request::Read { .. } => Ok(()),
            // The page cache takes no hint.
            Request::Write { offset, data, is_fua, .. } => bytes.write(*offset, data, *is_fua),
            &Request::Zero { offset, length, is_fua, unmaps } => {
                self.zero(offset, offset + length, self.zeroing_bytes.filter(|_| unmaps))?;
                if is_fua { bytes.flush() } else { Ok(()) }
            }
            &Request::Trim { offset, length, is_fua } => {
                bytes.trim(offset, length)?;
                if is_fua { bytes.flush() } else { Ok(()) }
            }
            Request::Flush => bytes.flush(),
        })
    }

    /// Writes zeros up to an end: whole units by a trim, if that makes zeros.
    fn zero(&self, offset: u64, end: u64, unit: Option<u64>) -> Result<(), Failure> {
        let write = |first: u64, end: u64| {
            for at in (first..end).step_by(ZEROS.len()) {
                let part = ZEROS.len().min((end - at) as usize);
                self.bytes.write(at, &ZEROS[..part], false)?;
            }
            Ok(())
        };
        let inner = unit.map(|unit| (offset.next_multiple_of(unit), end / unit * unit));
        match inner.filter(|(from, to)| from < to) {
            None => write(offset, end),
            Some((from, to)) => {
                write(offset, from)?;
                self.bytes.trim(from, to - from)?;
                write(to, end)
            }
        }
    }

    /// Does something that [`Straight::close`] waits for, unless it was closed before; counts it.
    fn watched(
        &self,
        op: IoOp,
        (offset, length): (u64, u64),
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let refused = |reason: String| Failure::Io {
            op,
            offset,
            length: length.min(u64::from(u32::MAX)) as u32,
            reason: reason.into(),
        };
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let begun = Instant::now();
        let is_within = offset.checked_add(length).is_some_and(|end| end <= self.capacity_bytes);
        let outcome = if self.is_closed.load(Ordering::SeqCst) {
            Err(refused(ENDED.to_owned()))
        } else if is_within {
            work().inspect_err(|failure| {
                if !failure.loses_nothing() {
                    self.failure.get_or_init(|| failure.to_string());
                }
            })
        } else {
            Err(refused(format!("the volume ends at byte {}", self.capacity_bytes)))
        };
        self.requests[op as usize].ended(length, begun.elapsed(), outcome.is_err());
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    /// Takes no more requests, and waits for those under way.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        while self.under_way.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_micros(100));
        }
    }

    /// Adds its counters: each request was also a command to the device.
    pub fn add_to(&self, figures: &mut Figures) {
        for (number, counters) in self.requests.iter().enumerate() {
            let done = counters.figures();
            figures.requests[number].add(&done);
            figures.below[number].add(&done);
        }
        figures.outstanding += self.under_way.load(Ordering::SeqCst) as u64;
        if figures.broken.is_none() {
            figures.broken = self.failure.get().cloned();
        }
    }
}

/// [`OpFigures`] that many threads add to.
#[derive(Default)]
struct OpCounters {
    count: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
    latency_ns: AtomicU64,
    by_time: [AtomicU64; OpFigures::BUCKETS],
}

impl OpCounters {
    fn ended(&self, bytes: u64, took: Duration, is_failed: bool) {
        let add = |to: &AtomicU64, much| to.fetch_add(much, Ordering::Relaxed);
        if is_failed {
            add(&self.failed, 1);
        } else {
            add(&self.count, 1);
            add(&self.bytes, bytes);
        }
        let latency_ns = took.as_nanos() as u64;
        add(&self.latency_ns, latency_ns);
        add(&self.by_time[OpFigures::bucket(latency_ns)], 1);
    }

    fn figures(&self) -> OpFigures {
        let read = |from: &AtomicU64| from.load(Ordering::Relaxed);
        OpFigures {
            count: read(&self.count),
            bytes: read(&self.bytes),
            failed: read(&self.failed),
            latency_ns: read(&self.latency_ns),
            by_time: std::array::from_fn(|bucket| read(&self.by_time[bucket])),
        }
    }
}

#[cfg(test)]
#[path = "straight_tests.rs"]
mod tests;
