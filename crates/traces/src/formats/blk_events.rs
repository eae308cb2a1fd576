//! Events of Linux' block layer, as `blktrace` records and `blkparse` prints them, made into
//! requests.

use std::collections::{HashMap, VecDeque};

use registry::{Args, Param, ParamKind};
use units::{IoOp, IoRequest, Nanos};

use crate::error::Bad;
use crate::fields::{SECTOR_BYTES, whole};
use crate::reader::{checked, sectors};

/// Parameters that the binary and the text form share.
pub(super) const PARAMS: &[Param] = &[
    Param {
        name: "action",
        kind: ParamKind::Choice(&["D", "Q", "C"]),
        default: "D",
        help: "which events are the requests: D issued to the device, Q queued (before merging), C \
               completed",
    },
    Param {
        name: "stream",
        kind: ParamKind::Choice(&["pid", "cpu", "device"]),
        default: "pid",
        help: "what tells streams apart",
    },
    Param {
        name: "device",
        kind: ParamKind::Text,
        default: "all",
        help: "which device, as major:minor; `all` is for traces of one device, or with \
               stream=device",
    },
    Param {
        name: "start",
        kind: ParamKind::Bytes { min: 0, max: u64::MAX },
        default: "0",
        help: "bytes of the disk before the partition that was traced, whose offsets then count \
               from its own begin",
    },
];

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Queued,
    Issued,
    Requeued,
    Completed,
}

/// One event of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) action: Action,
    pub(super) time_ns: Nanos,
    /// Major x 2^20 + minor, as the kernel has it.
    pub(super) device: u32,
    pub(super) cpu: u32,
    pub(super) pid: u32,
    pub(super) sector: u64,
    pub(super) bytes: u64,
    pub(super) op: IoOp,
    /// A flush goes before the data (REQ_PREFLUSH).
    pub(super) flush_first: bool,
    /// A write that is done only when it is durable (REQ_FUA).
    pub(super) is_fua: bool,
}

/// Bits of a minor number in a device number of the kernel.
pub(super) const MINOR_BITS: u32 = 20;

/// Requests that may wait for their completion before the first of them is given out without a
/// latency: it bounds memory.
const MOST_WAITING: usize = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamIs {
    Pid,
    Cpu,
    Device,
}

type Key = (u32, u64, IoOp);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Done,
    TakenBack,
}

struct Waiting {
    request: IoRequest,
    key: Key,
    state: State,
}

/// Picks the events that are requests, and finds how long each took from issue to completion.
///
/// A completion belongs to the issue of the same device, sector, operation and size. A request that
/// completes in parts, or that shares its range with another one outstanding, may stay without a
/// latency. An issued request that goes back to the queue (requeued) was not taken by the device:
/// it counts when it is issued again.
pub(super) struct Matcher {
    action: Action,
    stream: StreamIs,
    only_device: Option<u32>,
    start_bytes: u64,
    seen_device: Option<u32>,
    /// Issued requests in order; the first has number `first`.
    waiting: VecDeque<Waiting>,
    first: u64,
    by_key: HashMap<Key, u64>,
}

impl Matcher {
    pub(super) fn new(args: &Args) -> Result<Self, registry::SpecError> {
        let action = match args.text("action") {
            "Q" => Action::Queued,
            "C" => Action::Completed,
            _ => Action::Issued,
        };
        let stream = match args.text("stream") {
            "cpu" => StreamIs::Cpu,
            "device" => StreamIs::Device,
            _ => StreamIs::Pid,
        };
        let only_device = match args.text("device") {
            "all" => None,
            text => Some(device(text.as_bytes()).ok_or_else(|| registry::SpecError::BadValue {
                name: "blktrace",
                key: "device".to_owned(),
                value: text.to_owned(),
                right: "`all` or major:minor, such as 8:0".to_owned(),
            })?),
        };
        let (waiting, by_key) = (VecDeque::new(), HashMap::new());
        let start_bytes = args.integer("start");
        Ok(Self {
            action,
            stream,
            only_device,
            start_bytes,
            seen_device: None,
            waiting,
            first: 0,
            by_key,
        })
    }

    pub(super) fn streams_are_volumes(&self) -> bool {
        self.stream == StreamIs::Device
    }

    /// Takes the next event and adds the requests that are complete by it.
    pub(super) fn take(&mut self, event: &Event, out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        if self.only_device.is_some_and(|only| only != event.device) {
            return Ok(());
        }
        // A write that only carried a flush is answered with 0 bytes after the flush itself, which
        // has its own completion.
        if event.action == Action::Completed && event.bytes == 0 && event.op != IoOp::Flush {
            return Ok(());
        }
        if event.action == self.action {
            self.check_device(event.device)?;
        }
        match event.action {
            Action::Queued if self.action == Action::Queued => self.emit(event, None, out)?,
            Action::Queued => {}
            Action::Issued if self.action != Action::Queued => {
                let request = self.request(event)?;
                self.wait(request, event, out);
            }
            Action::Requeued if self.action != Action::Queued => {
                self.end(event, State::TakenBack);
            }
            Action::Completed if self.action != Action::Queued => {
                let latency_ns = self.end(event, State::Done);
                if self.action == Action::Completed {
                    self.emit(event, latency_ns, out)?;
                }
            }
            _ => {}
        }
        self.release(0, out);
        Ok(())
    }

    /// Gives out all that still wait.
    pub(super) fn finish(&mut self, out: &mut Vec<IoRequest>) {
        self.release(usize::MAX, out);
    }

    fn check_device(&mut self, device: u32) -> Result<(), Bad> {
        let first = *self.seen_device.get_or_insert(device);
        if first == device || self.stream == StreamIs::Device {
            return Ok(());
        }
        let name =
            |device: u32| format!("{}:{}", device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
        let reason = format!("device {} in a trace of device {}", name(device), name(first));
        Err(Bad::new(
            reason,
            "one device, chosen with device=major:minor, or stream=device to tell them apart",
        ))
    }

    fn request(&self, event: &Event) -> Result<IoRequest, Bad> {
        let stream = match self.stream {
            StreamIs::Pid => event.pid,
            StreamIs::Cpu => event.cpu,
            StreamIs::Device => event.device,
        };
        let on_disk = sectors("sector", event.sector, SECTOR_BYTES)?;
        // A flush has no place.
        let Some(offset) =
            on_disk.checked_sub(self.start_bytes).or((event.op == IoOp::Flush).then_some(0))
        else {
            return Err(Bad::new(
                format!("sector {} lies before byte {}", event.sector, self.start_bytes),
                "a request at `start` or behind it",
            ));
        };
        let request = checked(event.time_ns, event.op, offset, event.bytes, stream)?;
        Ok(IoRequest { is_fua: event.is_fua && event.op == IoOp::Write, ..request })
    }

    fn emit(
        &self,
        event: &Event,
        latency_ns: Option<Nanos>,
        out: &mut Vec<IoRequest>,
    ) -> Result<(), Bad> {
        let mut request = self.request(event)?;
        request.latency_ns = latency_ns;
        if event.flush_first {
            out.push(IoRequest {
                op: IoOp::Flush,
                offset: 0,
                length: 0,
                latency_ns: None,
                is_fua: false,
                ..request
            });
        }
        out.push(request);
        Ok(())
    }

    fn wait(&mut self, request: IoRequest, event: &Event, out: &mut Vec<IoRequest>) {
        if event.flush_first {
            let flush =
                IoRequest { op: IoOp::Flush, offset: 0, length: 0, is_fua: false, ..request };
            let key = (event.device, u64::MAX, IoOp::Flush);
            self.waiting.push_back(Waiting { request: flush, key, state: State::Done });
        }
        let key = (event.device, event.sector, event.op);
        self.by_key.insert(key, self.first + self.waiting.len() as u64);
        self.waiting.push_back(Waiting { request, key, state: State::Waiting });
        if self.waiting.len() > MOST_WAITING {
            self.release(self.waiting.len() - MOST_WAITING, out);
        }
    }

    /// Ends the wait of the request that the event is about, and says how long it was.
    fn end(&mut self, event: &Event, state: State) -> Option<Nanos> {
        let number = self.by_key.remove(&(event.device, event.sector, event.op))?;
        let waiting = &mut self.waiting[(number - self.first) as usize];
        waiting.state = state;
        if state == State::Done && u64::from(waiting.request.length) == event.bytes {
            waiting.request.latency_ns = event.time_ns.checked_sub(waiting.request.time_ns);
        }
        waiting.request.latency_ns
    }

    /// Gives out requests from the front that wait no longer, and `forced` more even if they do.
    fn release(&mut self, mut forced: usize, out: &mut Vec<IoRequest>) {
        while let Some(front) = self.waiting.front() {
            if front.state == State::Waiting {
                if forced == 0 {
                    return;
                }
                if self.by_key.get(&front.key) == Some(&self.first) {
                    self.by_key.remove(&front.key);
                }
            }
            forced = forced.saturating_sub(1);
            if self.action == Action::Issued && front.state != State::TakenBack {
                out.push(front.request);
            }
            self.waiting.pop_front();
            self.first += 1;
        }
    }
}

/// A device number from `major:minor` or `major,minor`.
pub(super) fn device(text: &[u8]) -> Option<u32> {
    let at = text.iter().position(|b| matches!(b, b':' | b','))?;
    let (major, minor) = (whole(&text[..at])?, whole(&text[at + 1..])?);
    let fits = major < 1 << (32 - MINOR_BITS) && minor < 1 << MINOR_BITS;
    fits.then_some((major as u32) << MINOR_BITS | minor as u32)
}
