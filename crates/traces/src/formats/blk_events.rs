//! Events of Linux' block layer, as `blktrace` records and `blkparse` prints them, made into
//! requests.

use std::collections::{HashMap, VecDeque};

use registry::{Args, Param, ParamKind};
use units::{IoOp, IoRequest, Nanos};

use crate::error::Bad;
use crate::fields::{SECTOR_BYTES, whole};
use crate::reader::{Facts, Tally, checked, count, sectors};

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

/// Step of a request on its way.
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
    /// A write whose place in its zone the device chooses: only the completion has it.
    pub(super) is_append: bool,
}

/// Kind of an event, as the block layer has it; not every kind is an operation of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request.
    Request { op: IoOp, flush_first: bool, is_fua: bool, is_append: bool },
    /// Zeros without data: the range is given up.
    WriteZeroes,
    /// Not an operation of a trace; the reason.
    Other(&'static str),
}

/// Reads the kind from RWBS (`blk_fill_rwbs` of Linux): F in front is a flush before it, F behind a
/// write FUA.
pub(super) fn kind_of(rwbs: &[u8], bytes: u64) -> Option<Kind> {
    let (flush_first, rest) = match rwbs {
        [b'F', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let request =
        |op, is_fua, is_append| Some(Kind::Request { op, flush_first, is_fua, is_append });
    if flush_first && bytes == 0 {
        return Some(Kind::Request {
            op: IoOp::Flush,
            flush_first: false,
            is_fua: false,
            is_append: false,
        });
    }
    match rest {
        [b'W', b'Z', ..] => Some(Kind::WriteZeroes),
        [b'Z', b'A', rest @ ..] => request(IoOp::Write, rest.starts_with(b"F"), true),
        [b'Z', b'R', ..] => Some(Kind::Other(ZONE_RESETS)),
        [b'Z', b'F' | b'O' | b'C', ..] => Some(Kind::Other(ZONE_STATES)),
        [b'W', rest @ ..] => request(IoOp::Write, rest.starts_with(b"F"), false),
        [b'D', ..] => request(IoOp::Trim, false, false),
        [b'R', ..] => request(IoOp::Read, false, false),
        [b'N', ..] => Some(Kind::Other(PASSTHROUGH)),
        _ => None,
    }
}

/// Commands of a drive that carry no address of a trace.
pub(super) const PASSTHROUGH: &str = "passthrough commands";
pub(super) const ZONE_RESETS: &str = "zone resets (the zone's size is not in the trace)";
pub(super) const ZONE_STATES: &str = "zones opened, closed or finished";
const WRITE_ZEROES: &str = "write-zeroes commands, which carry no data: taken as trims";
const ELSEWHERE: &str = "requests of other devices";
const NO_PLACE: &str = "zone appends that never completed: put at the start of their zone";

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
    /// Zone appends that wait, in order, and the sector of each.
    appends: VecDeque<(u64, u64)>,
    tally: Tally,
    zeroed_bytes: u64,
    /// Events queued, issued, completed.
    seen: [u64; 3],
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
            appends: VecDeque::new(),
            tally: Tally::new(),
            zeroed_bytes: 0,
            seen: [0; 3],
        })
    }

    pub(super) fn streams_are_volumes(&self) -> bool {
        self.stream == StreamIs::Device
    }

    /// Adds what was counted to the facts.
    pub(super) fn tell(&self, facts: &mut Facts) {
        for (reason, records) in &self.tally {
            *facts.left_out.entry(reason.clone()).or_default() += records;
        }
        const LETTERS: [&str; 3] = ["Q", "D", "C"];
        let [queued, issued, completed] = self.seen;
        let asked = match self.action {
            Action::Queued => 0,
            Action::Completed => 2,
            _ => 1,
        };
        if self.seen[asked] == 0 && queued + issued + completed > 0 {
            let most = (0..3).max_by_key(|index| self.seen[*index]).unwrap_or(0);
            facts.warnings.push(format!(
                "it has no events {}, of which requests are made, but {} events {}: take those \
                 with action={} behind the name of the format, as in --format 'blkparse(action={})'",
                LETTERS[asked], self.seen[most], LETTERS[most], LETTERS[most], LETTERS[most]
            ));
        }
        if self.zeroed_bytes > 0 {
            facts.warnings.push(format!(
                "{} bytes were zeroed without sending them (write-zeroes): they count as trims",
                self.zeroed_bytes
            ));
        }
    }

    /// Counts what is no request, once: at the action that the requests are taken at.
    pub(super) fn leave_out(&mut self, action: Action, reason: &'static str) {
        if action == self.action {
            count(&mut self.tally, reason);
        }
    }

    /// Takes the next event, whatever it is about, and adds the requests that are complete by it.
    pub(super) fn take_kind(
        &mut self,
        kind: Kind,
        event: Event,
        out: &mut Vec<IoRequest>,
    ) -> Result<(), Bad> {
        match event.action {
            Action::Queued => self.seen[0] += 1,
            Action::Issued => self.seen[1] += 1,
            Action::Completed => self.seen[2] += 1,
            Action::Requeued => {}
        }
        match kind {
            Kind::Other(reason) => {
                self.leave_out(event.action, reason);
                Ok(())
            }
            Kind::WriteZeroes => {
                self.take(&Event { op: IoOp::Trim, ..event }, out)?;
                let is_ours = self.only_device.is_none_or(|only| only == event.device);
                if event.action == self.action && is_ours {
                    count(&mut self.tally, WRITE_ZEROES);
                    self.zeroed_bytes = self.zeroed_bytes.saturating_add(event.bytes);
                }
                Ok(())
            }
            Kind::Request { op, flush_first, is_fua, is_append } => {
                self.take(&Event { op, flush_first, is_fua, is_append, ..event }, out)
            }
        }
    }

    /// Takes the next event and adds the requests that are complete by it.
    fn take(&mut self, event: &Event, out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        if self.only_device.is_some_and(|only| only != event.device) {
            self.leave_out(event.action, ELSEWHERE);
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
            Action::Queued if self.action == Action::Queued => {
                self.emit(event, None, out)?;
                if event.is_append {
                    count(&mut self.tally, NO_PLACE);
                }
            }
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
        let number = self.first + self.waiting.len() as u64;
        if event.is_append {
            self.appends.push_back((number, event.sector));
        } else {
            self.by_key.insert(key, number);
        }
        self.waiting.push_back(Waiting { request, key, state: State::Waiting });
        if self.waiting.len() > MOST_WAITING {
            self.release(self.waiting.len() - MOST_WAITING, out);
        }
    }

    /// Ends the wait of the request that the event is about, and says how long it was.
    fn end(&mut self, event: &Event, state: State) -> Option<Nanos> {
        let number = if event.is_append {
            self.end_append(event, state)?
        } else {
            self.by_key.remove(&(event.device, event.sector, event.op))?
        };
        let waiting = &mut self.waiting[(number - self.first) as usize];
        waiting.state = state;
        if state == State::Done && u64::from(waiting.request.length) == event.bytes {
            waiting.request.latency_ns = event.time_ns.checked_sub(waiting.request.time_ns);
        }
        waiting.request.latency_ns
    }

    /// The append that a completion is of: the first that waits for as many bytes in the zone that
    /// begins next before the place where it landed. It gets that place.
    fn end_append(&mut self, event: &Event, state: State) -> Option<u64> {
        let fits = |(number, sector): &(u64, u64)| {
            let waiting = &self.waiting[(number - self.first) as usize];
            let same =
                waiting.key.0 == event.device && u64::from(waiting.request.length) == event.bytes;
            let placed = if state == State::Done {
                *sector <= event.sector
            } else {
                *sector == event.sector
            };
            same && placed
        };
        let zone = self.appends.iter().filter(|one| fits(one)).map(|(_, sector)| *sector).max()?;
        let at = self.appends.iter().position(|one| one.1 == zone && fits(one))?;
        let (number, _) = self.appends.remove(at)?;
        if state == State::Done {
            let moved = (event.sector - zone).checked_mul(SECTOR_BYTES)?;
            let request = &mut self.waiting[(number - self.first) as usize].request;
            request.offset = request.offset.checked_add(moved)?;
        }
        Some(number)
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
                if self.appends.front().is_some_and(|(number, _)| *number == self.first) {
                    self.appends.pop_front();
                    count(&mut self.tally, NO_PLACE);
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
