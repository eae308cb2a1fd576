//! Two devices joined into one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashMap;
use units::{IoOp, Nanos};

use crate::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, Extent, Failure, Reply,
    SharedBytes, Signal, Telemetry, Waker,
};

/// Shortest and longest time to wait for one device while the other has commands, too.
const SLICE: (Nanos, Nanos) = (10_000, 500_000);

/// A command with a part on each device.
#[derive(Clone, Debug)]
struct Shared {
    op: IoOp,
    /// Parts that have not ended.
    left: u8,
    /// Data that a read returned, from the first and from the second device.
    data: [Data; 2],
    failure: Option<Failure>,
    submitted_at: Nanos,
}

/// A device, optionally followed by a second: the second's bytes follow the first's.
///
/// A command that touches both is sent to both in parts. A FLUSH goes to both, and is replied to
/// when both have replied; so does [`Signal`]. While a FLUSH that failed on one device has not been
/// replied to, later FLUSHes fail, too, as no later one covers the writes that this one should have
/// covered. A command fails if any part of it does, and says on which device. If one device is
/// gone, the run ends, as with a single device. The sector size is the larger of both. Figures of
/// flash are those of the first.
///
/// Each device keeps its clock: times of the second are converted to the first's. Both clocks must
/// run by themselves or take no time. Two simulated drives, whose clocks advance while somebody
/// waits for each, would not be kept in step.
#[derive(Clone)]
pub struct Spanned<D> {
    first: D,
    second: Option<D>,
    /// First byte of the second device.
    boundary: u64,
    info: DeviceInfo,
    /// Lead of the first device's clock over the second's, in nanoseconds.
    ahead: i64,
    outstanding: u32,
    shared: FxHashMap<u32, Shared>,
    done: Vec<Completion>,
    ended: Vec<Completion>,
    is_woken: Arc<AtomicBool>,
}

impl<D: BlockDevice> Spanned<D> {
    /// Joins a device and perhaps a second. Without a second, commands pass through to the first
    /// unchanged.
    ///
    /// # Panics
    /// If one of the two is virtual or holds data and the other is or does not, or the first does
    /// not end at a sector of the second.
    #[must_use]
    pub fn new(mut first: D, mut second: Option<D>) -> Self {
        let mut info = first.info().clone();
        let (boundary, mut ahead) = (info.limits.capacity_bytes, 0);
        if let Some(second) = &mut second {
            let other = second.info().clone();
            assert!(
                (info.is_virtual, info.holds_data) == (other.is_virtual, other.holds_data),
                "{} and {} are of different kinds",
                info.name,
                other.name
            );
            let sector_bytes = info.limits.sector_bytes.max(other.limits.sector_bytes);
            let sector = u64::from(sector_bytes);
            assert!(
                boundary.is_multiple_of(sector)
                    && other.limits.capacity_bytes.is_multiple_of(sector),
                "{} and {} are not of whole sectors of {sector} bytes",
                info.name,
                other.name
            );
            let most_bytes = info.limits.most_bytes.min(other.limits.most_bytes);
            info.name = format!("{} and {}", info.name, other.name);
            info.limits.capacity_bytes += other.limits.capacity_bytes;
            info.limits.sector_bytes = sector_bytes;
            info.limits.most_bytes = (most_bytes / sector_bytes * sector_bytes).max(sector_bytes);
            info.queue_depth = info.queue_depth.min(other.queue_depth);
            info.is_read_only |= other.is_read_only;
            info.has_trim |= other.has_trim;
            let both = info.zeroing_bytes.zip(other.zeroing_bytes);
            info.zeroing_bytes = both.map(|(one, other)| one.max(other));
            ahead = first.now().cast_signed() - second.now().cast_signed();
        }
        Self {
            first,
            second,
            boundary,
            info,
            ahead,
            outstanding: 0,
            shared: FxHashMap::default(),
            done: Vec::new(),
            ended: Vec::new(),
            is_woken: Arc::default(),
        }
    }

    /// Both devices.
    pub const fn parts_mut(&mut self) -> (&mut D, Option<&mut D>) {
        (&mut self.first, self.second.as_mut())
    }

    /// Both devices, by shared reference.
    pub const fn parts(&self) -> (&D, Option<&D>) {
        (&self.first, self.second.as_ref())
    }

    /// Takes the joined device apart.
    pub fn into_parts(self) -> (D, Option<D>) {
        (self.first, self.second)
    }

    /// Splits a command into the part for the first device and that for the second.
    fn split(&self, command: Command) -> (Option<Command>, Option<Command>) {
        let boundary = self.boundary;
        let moved = |mut command: Command| {
            command.offset -= boundary;
            command
        };
        if command.op == IoOp::Flush {
            (Some(command.clone()), Some(command))
        } else if command.end() <= boundary {
            (Some(command), None)
        } else if command.offset >= boundary {
            (None, Some(moved(command)))
        } else {
            let head = (boundary - command.offset) as usize;
            let (mut first, mut second) = (command.clone(), command);
            second.offset = boundary;
            second.length = first.length - head as u32;
            first.length = head as u32;
            if !first.data.is_absent() {
                first.data = second.data.slice(0..head);
                second.data = second.data.slice(head..second.data.len());
            }
            (Some(first), Some(moved(second)))
        }
    }

    /// Sends a part to a device. If the device has no trim, a trim succeeds without doing anything.
    fn send(&mut self, is_second: bool, command: Command) {
        let device = match &mut self.second {
            Some(second) if is_second => second,
            _ => &mut self.first,
        };
        if command.op != IoOp::Trim || device.info().has_trim || device.info().is_read_only {
            return device.submit(command);
        }
        let now = device.now();
        let reply = Reply { id: command.id, outcome: Ok(Data::Absent) };
        let completion = Completion { reply, submitted_at: now, completed_at: now };
        if let Some(whole) = self.take(is_second, completion) {
            self.done.push(whole);
        }
    }

    /// Records the end of a part. Gives the command's completion if no other part is under way.
    fn take(&mut self, is_second: bool, mut completion: Completion) -> Option<Completion> {
        let device = if is_second { self.second.as_ref()? } else { &self.first };
        if let Err(Failure::Io { offset, reason, .. }) = &mut completion.reply.outcome {
            *offset += if is_second { self.boundary } else { 0 };
            *reason = format!("on {}: {reason}", device.info().name).into();
        }
        if is_second {
            for time in [&mut completion.submitted_at, &mut completion.completed_at] {
                *time = time.saturating_add_signed(self.ahead);
            }
        }
        let id = completion.reply.id;
        let Some(shared) = self.shared.get_mut(&id) else { return Some(completion) };
        match completion.reply.outcome {
            Ok(data) => shared.data[usize::from(is_second)] = data,
            Err(failure) => shared.failure = Some(failure),
        }
        shared.left -= 1;
        if shared.left > 0 {
            return None;
        }
        let Shared { data: [mut data, second], failure, submitted_at, .. } =
            self.shared.remove(&id).expect("it was found");
        data.append(second);
        let outcome = failure.map_or(Ok(data), Err);
        let completed_at = completion.completed_at;
        Some(Completion { reply: Reply { id, outcome }, submitted_at, completed_at })
    }

    /// The failure of a flush on one device that no reply has reported yet.
    fn flush_failure(&self) -> Option<Failure> {
        let flushes = self.shared.values().filter(|shared| shared.op == IoOp::Flush);
        flushes.filter_map(|shared| shared.failure.clone()).next()
    }

    /// Waits for one device until the given time of the first's clock.
    fn hear(
        &mut self,
        is_second: bool,
        until: Nanos,
        completed: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        let mut ended = std::mem::take(&mut self.ended);
        let waited = match &mut self.second {
            Some(second) if is_second => {
                let own = if until == Nanos::MAX {
                    until
                } else {
                    until.saturating_add_signed(-self.ahead)
                };
                second.wait(own, &mut ended)
            }
            _ => self.first.wait(until, &mut ended),
        };
        completed.extend(ended.drain(..).filter_map(|one| self.take(is_second, one)));
        self.ended = ended;
        waited
    }

    /// Takes the completed commands of a device, and lets it send what it holds back, without
    /// waiting.
    fn look(&mut self, is_second: bool, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        let device = if is_second { self.second.as_ref() } else { Some(&self.first) };
        if device.is_none_or(|device| device.outstanding() == 0) {
            return Ok(());
        }
        let now = self.now();
        self.hear(is_second, now, completed)
    }

    /// Waits for the device that has outstanding commands: a thread can sleep on only one. If both
    /// have some, it sleeps on the second in slices of a quarter of the time already waited, so
    /// that an answer of the first is late by no more than that.
    fn sleep(
        &mut self,
        begun: Nanos,
        until: Nanos,
        completed: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        let is_second = self.second.as_ref().is_some_and(|second| second.outstanding() > 0);
        let mut end = until;
        if is_second && self.first.outstanding() > 0 {
            let now = self.now();
            end = end.min(now + ((now - begun) / 4).clamp(SLICE.0, SLICE.1));
        }
        self.hear(is_second, end, completed)
    }
}

impl<D: BlockDevice> BlockDevice for Spanned<D> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        let now = self.first.now();
        let other = self.second.as_mut().map(|second| second.now());
        now.max(other.map_or(0, |other| other.saturating_add_signed(self.ahead)))
    }

    fn outstanding(&self) -> u32 {
        if self.second.is_none() { self.first.outstanding() } else { self.outstanding }
    }

    fn submit(&mut self, command: Command) {
        if self.second.is_none() {
            return self.first.submit(command);
        }
        command.check(self.info.limits);
        assert!(
            self.outstanding < self.info.queue_depth,
            "at most {} commands are outstanding",
            self.info.queue_depth
        );
        self.outstanding += 1;
        let (id, op) = (command.id, command.op);
        if op == IoOp::Flush
            && let Some(failure) = self.flush_failure()
        {
            let now = self.now();
            let reply = Reply { id, outcome: Err(failure) };
            self.done.push(Completion { reply, submitted_at: now, completed_at: now });
            return;
        }
        let (first, second) = self.split(command);
        if first.is_some() && second.is_some() {
            let submitted_at = self.now();
            let data = [Data::Absent, Data::Absent];
            self.shared.insert(id, Shared { op, left: 2, data, failure: None, submitted_at });
        }
        if let Some(first) = first {
            self.send(false, first);
        }
        if let Some(second) = second {
            self.send(true, second);
        }
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        if self.second.is_none() {
            return self.first.wait(until, completed);
        }
        assert!(until < Nanos::MAX || self.outstanding > 0, "something is waited for");
        let (begun, before) = (self.now(), completed.len());
        let mut waited = Ok(());
        loop {
            completed.append(&mut self.done);
            for is_second in [false, true] {
                waited = waited.and(self.look(is_second, completed));
            }
            let is_woken = self.is_woken.swap(false, Ordering::SeqCst);
            let is_over = is_woken || waited.is_err() || completed.len() > before;
            if is_over || self.now() >= until {
                break;
            }
            waited = self.sleep(begun, until, completed);
        }
        self.outstanding -= (completed.len() - before) as u32;
        waited
    }

    fn telemetry(&self) -> Telemetry {
        self.first.telemetry()
    }

    fn extent(&mut self, offset: u64, length: u64) -> Extent {
        let left = self.boundary.saturating_sub(offset);
        match &mut self.second {
            Some(second) if left == 0 => second.extent(offset - self.boundary, length),
            _ if left == 0 => Extent { length, is_hole: false },
            _ => self.first.extent(offset, length.min(left)),
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.first.signal(signal);
        if let Some(second) = &mut self.second {
            second.signal(signal);
        }
    }

    /// The flag is set before either device is woken, so the wait here ends whichever device the
    /// thread sleeps on.
    fn waker(&mut self) -> Option<Waker> {
        let first = self.first.waker()?;
        let Some(second) = &mut self.second else { return Some(first) };
        let (second, is_woken) = (second.waker()?, self.is_woken.clone());
        Some(Arc::new(move || {
            is_woken.store(true, Ordering::SeqCst);
            first();
            second();
        }))
    }

    fn shared(&mut self) -> Option<Arc<dyn SharedBytes>> {
        if self.second.is_none() { self.first.shared() } else { None }
    }
}

#[cfg(test)]
#[path = "spanned_tests.rs"]
mod tests;
