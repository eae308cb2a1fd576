//! Block devices and files of the kernel, through io_uring, past the page cache (`O_DIRECT`), and
//! NVMe namespaces past the block layer, too. What they are asked is a matter of their
//! [`CommandSet`].
//!
//! Each request is sent by a system call of its own; one that is alone by that which waits for it,
//! or with the next. Files and buffers are registered, so that the kernel looks neither up. A time
//! is taken when a request is submitted, and when ends are found, once for all of them.

#![allow(unsafe_code, reason = "the kernel reads and writes the memory of requests")]

use std::fs::File;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use block::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, DeviceKind, Extent, Failure,
    Reply, SharedBytes, Waker,
};
use io_uring::squeue::EntryMarker;
use units::{IoOp, Lifetime, Nanos};

use crate::DeviceError;
use crate::buffers::{Place, Pool};
use crate::cached::Cached;
use crate::clock::{AWAKE, Clock};
use crate::command_set::{CommandSet, Next};
use crate::control;
use crate::health::Health;
use crate::hints::Hints;
use crate::ring::{EventFd, Ring};

/// Interval between checks that the device is still there. A file that was truncated would take
/// writes as if nothing had happened.
const CHECK_EVERY: Nanos = 10_000_000;
/// Longest sleep in the kernel: after it, the device is checked again.
const LONGEST_SLEEP: Nanos = 1_000_000_000;
/// A device that completes nothing for so long is taken for dead: the kernel gives up a request of
/// most drivers after 30 s, and tries again.
const DEAD_AFTER: Nanos = 300_000_000_000;
/// Longest wait for requests under way when the device is closed.
const CLOSE_WITHIN: Nanos = 10_000_000_000;
/// Number of retries of a command whose failure may pass: that of the kernel for its own commands
/// to an NVMe drive (`nvme_core.max_retries`).
const MOST_RETRIES: u8 = 5;

/// A device that was opened and may be used.
pub(crate) struct Opened {
    /// Description of the device.
    pub info: DeviceInfo,
    /// Opened so that no request stays in the page cache.
    pub file: File,
    /// The block device of the same bytes, which is held so that nobody else uses it.
    pub claim: Option<File>,
    /// True if it is a loop device.
    pub is_loop: bool,
    /// True if completions are polled for.
    pub is_polled: bool,
    /// Hints to the kernel on the lifetimes of writes.
    pub hints: Hints,
}

#[derive(Clone, Debug)]
struct InFlight {
    command: Command,
    submitted_at: Nanos,
    retries: u8,
}

/// A block device, a file, or an NVMe namespace.
pub(crate) struct Real<K: CommandSet> {
    info: DeviceInfo,
    commands: K,
    file: File,
    /// See [`Opened::claim`].
    claim: Option<File>,
    is_polled: bool,
    health: Health,
    clock: Clock,
    /// Ring of the thread that uses it.
    ring: Ring<K::Entry, K::Completion>,
    /// Raised by others to wake the thread that waits.
    wakes: Option<Arc<EventFd>>,
    thread: ThreadId,
    /// None only while it is dropped. It must not go before the ring.
    pool: Option<Pool>,
    slots: Vec<InFlight>,
    free: Vec<u32>,
    /// Done by calls that block, or refused.
    done: Vec<Completion>,
    /// The reason why it cannot be used any more.
    gone: Option<BlockError>,
    /// A flush failed, on which data depends: the kernel reports once what it could not write back,
    /// so that a later flush would succeed without it.
    poisoned: Option<Failure>,
    /// In the ring, sent or not.
    in_ring: u32,
    hints: Hints,
    next_check: Nanos,
    last_completion: Nanos,
}

impl<K: CommandSet> Real<K> {
    pub fn new(opened: Opened, commands: K) -> Result<Self, DeviceError> {
        let Opened { info, file, claim, is_loop, is_polled, hints } = opened;
        let failed = |action, source| DeviceError::Open { name: info.name.clone(), action, source };
        let ring = Ring::new(&file, info.queue_depth, is_polled)
            .map_err(|error| failed("setting up io_uring", error))?;
        // Content differs from run to run: what the last one wrote must not be there already.
        let seed = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64);
        let mut pool = Pool::new(info.queue_depth, info.limits.most_bytes, seed)
            .map_err(|error| failed("getting memory for its requests", error))?;
        pool.forget_registered(&ring.submitter(), ring.takes_buffers());
        let command = Command::new(0, IoOp::Flush, 0, 0);
        let nothing = InFlight { command, submitted_at: 0, retries: 0 };
        let depth = info.queue_depth as usize;
        Ok(Self {
            health: Health::new(
                claim.as_ref().unwrap_or(&file),
                info.kind == DeviceKind::BlockDevice,
                info.limits.capacity_bytes,
                is_loop,
            ),
            commands,
            file,
            claim,
            is_polled,
            clock: Clock::start(),
            ring,
            wakes: None,
            thread: thread::current().id(),
            pool: Some(pool),
            slots: vec![nothing; depth],
            free: (0..depth as u32).rev().collect(),
            done: Vec::new(),
            gone: None,
            poisoned: None,
            in_ring: 0,
            hints,
            next_check: CHECK_EVERY,
            last_completion: 0,
            info,
        })
    }

    /// A ring belongs to one thread. A device that came to another one gets a new ring.
    fn own(&mut self) -> Result<(), BlockError> {
        let thread = thread::current().id();
        if self.thread == thread {
            return Ok(());
        }
        assert!(self.in_ring == 0, "a device goes to another thread only with nothing outstanding");
        self.ring = Ring::new(&self.file, self.info.queue_depth, self.is_polled)
            .map_err(|error| self.gone(format!("setting up io_uring: {error}")))?;
        if let Some(wakes) = &self.wakes {
            self.ring.wake_by(wakes.clone());
        }
        self.thread = thread;
        let pool = self.pool.as_mut().expect("it is open");
        pool.forget_registered(&self.ring.submitter(), self.ring.takes_buffers());
        Ok(())
    }

    /// Gives the file by which the device is checked.
    fn watched(&self) -> &File {
        self.claim.as_ref().unwrap_or(&self.file)
    }

    /// It cannot be used any more: not an error of opening, after which other experiments might go
    /// on.
    fn gone(&self, reason: String) -> BlockError {
        BlockError::Gone { name: self.info.name.clone(), reason }
    }

    /// Puts a slot's command into the ring's queue.
    fn push(&mut self, number: u32) {
        let command = &self.slots[number as usize].command;
        let pool = self.pool.as_mut().expect("it is open");
        let ring = self.ring.submitter();
        let nowhere = Place { address: std::ptr::null_mut(), registered: None };
        let place = match command.op {
            IoOp::Read => pool.read_place(number, command.length, &ring),
            IoOp::Write => pool.write_place(number, &command.data, command.length, &ring),
            IoOp::Trim => match self.commands.list(command) {
                Data::Absent => nowhere,
                list => pool.write_place(number, &list, list.len() as u32, &ring),
            },
            IoOp::Flush => nowhere,
        };
        let stream = self.hints.stream(command.lifetime);
        let mut entry = self.commands.entry(command, place, stream);
        entry.set_user_data(u64::from(number));
        // SAFETY: the place belongs to this slot until it is completed, and the pool is dropped
        // after the ring, or leaked.
        unsafe { self.ring.push(&entry) };
    }

    /// Tells the kernel how long what is written from now on is expected to live: after what was
    /// asked before, which is looked at when it is sent.
    #[cold]
    fn expect(&mut self, lifetime: Lifetime) {
        if self.ring.has_unsent()
            && let Err(error) = self.enter(None)
        {
            self.gone = Some(error);
        }
        self.hints.tell(&self.file, lifetime);
    }

    fn do_blocking(&mut self, command: &Command) {
        let submitted_at = self.clock.now();
        let done = self.commands.do_by_call(&self.file, command);
        let outcome = done.map(|()| Data::Absent).map_err(|error| {
            let result = -error.raw_os_error().unwrap_or(libc::EIO);
            command.failed(self.health.reason(self.watched(), command.op, command.length, result))
        });
        let outcome = outcome.map_err(|failure| self.poisoning(command.op, failure));
        let reply = Reply { id: command.id, outcome };
        self.done.push(Completion { reply, submitted_at, completed_at: self.clock.now() });
    }

    /// Takes completed commands, waiting up to this time for them, and sends those again that are
    /// to be tried again. Returns true if somebody woke it.
    fn turn(
        &mut self,
        now: Nanos,
        until: Nanos,
        completed: &mut Vec<Completion>,
    ) -> Result<bool, BlockError> {
        let left = until.saturating_sub(now);
        if left > AWAKE {
            self.enter(Some(Duration::from_nanos((left - AWAKE).min(LONGEST_SLEEP))))?;
        } else if self.ring.has_unsent() || self.ring.has_news() {
            self.enter(None)?;
        }
        Ok(self.reap(completed))
    }

    fn enter(&mut self, time: Option<Duration>) -> Result<(), BlockError> {
        self.ring
            .enter(time)
            .map_err(|error| self.gone(format!("sending requests through io_uring: {error}")))
    }

    fn reap(&mut self, completed: &mut Vec<Completion>) -> bool {
        let completed_at = self.clock.now();
        let before = completed.len();
        let Self { slots, free, ring, in_ring, pool, info, commands, .. } = self;
        let mut odd: Vec<(u32, i32)> = Vec::new();
        let is_woken = ring.reap(|number, result| {
            let slot = &slots[number as usize];
            let Command { id, op, length, .. } = slot.command;
            if result != commands.success(&slot.command) {
                odd.push((number as u32, result));
                return;
            }
            *in_ring -= 1;
            free.push(number as u32);
            let brings = info.holds_data && op == IoOp::Read;
            let data = if brings {
                pool.as_mut().expect("it is open").brought(number as u32, length)
            } else {
                Data::Absent
            };
            completed.push(Completion {
                reply: Reply { id, outcome: Ok(data) },
                submitted_at: slot.submitted_at,
                completed_at,
            });
        });
        if completed.len() > before {
            self.last_completion = completed_at;
        }
        odd.into_iter().for_each(|(number, result)| self.odd(number, result));
        is_woken
    }

    /// A command that did not simply succeed: it is sent again, done in another way, or has failed.
    #[cold]
    fn odd(&mut self, number: u32, result: i32) {
        let slot = &mut self.slots[number as usize];
        let next = self.commands.next(&slot.command, result);
        if next == Next::Again || (next == Next::Retry && slot.retries < MOST_RETRIES) {
            // Its time stays that at which it was sent first.
            slot.retries += u8::from(next == Next::Retry);
            return self.push(number);
        }
        let InFlight { command, submitted_at, .. } = slot.clone();
        self.in_ring -= 1;
        self.free.push(number);
        if next == Next::ByCall {
            return self.do_blocking(&command);
        }
        let told = self.commands.status(result);
        let told = told.unwrap_or_else(|| self.health.told(command.op, command.length, result));
        let failure = command.failed(self.health.with_illness(self.watched(), told));
        let failure = self.poisoning(command.op, failure);
        let reply = Reply { id: command.id, outcome: Err(failure) };
        self.done.push(Completion { reply, submitted_at, completed_at: self.clock.now() });
    }

    /// Remembers the failure of a flush, if data depends on it.
    fn poisoning(&mut self, op: IoOp, failure: Failure) -> Failure {
        if op == IoOp::Flush && self.info.holds_data {
            let cause = failure.to_string().into();
            self.poisoned.get_or_insert(Failure::Poisoned { layer: "device", cause });
        }
        failure
    }

    /// Checks now and then that the device is still what it was.
    fn check_health(&mut self, now: Nanos) -> Result<(), BlockError> {
        if now < self.next_check {
            return Ok(());
        }
        self.next_check = now + CHECK_EVERY;
        let silent = now.saturating_sub(self.last_completion);
        let illness = if self.in_ring > 0 && silent > DEAD_AFTER {
            Some(format!(
                "none of the {} outstanding requests was completed for {} s",
                self.in_ring,
                silent / 1_000_000_000
            ))
        } else {
            self.health.illness(self.watched())
        };
        illness.map_or(Ok(()), |reason| Err(self.gone(reason)))
    }
}

impl<K: CommandSet> BlockDevice for Real<K> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Gives the extent that the file system tells, if it is a file.
    fn extent(&mut self, offset: u64, length: u64) -> Extent {
        if self.info.kind == DeviceKind::File {
            control::extent(&self.file, offset, length)
        } else {
            Extent { length, is_hole: false }
        }
    }

    fn now(&mut self) -> Nanos {
        self.clock.now()
    }

    fn outstanding(&self) -> u32 {
        self.in_ring + self.done.len() as u32
    }

    fn submit(&mut self, command: Command) {
        assert!(
            self.outstanding() < self.info.queue_depth,
            "at most {} commands are outstanding",
            self.info.queue_depth
        );
        let refused = match &self.poisoned {
            Some(failure) if command.op != IoOp::Read => Some(failure.clone()),
            _ => self.info.refuses(&command),
        };
        let submitted_at = self.clock.now();
        if let Some(failure) = refused {
            let reply = Reply { id: command.id, outcome: Err(failure) };
            self.done.push(Completion { reply, submitted_at, completed_at: submitted_at });
            return;
        }
        if !self.commands.goes_through_ring(command.op) {
            return self.do_blocking(&command);
        }
        let is_alone = self.in_ring == 0;
        if is_alone {
            self.last_completion = submitted_at;
            if let Err(error) = self.own() {
                self.gone = Some(error);
                return;
            }
        }
        if command.op == IoOp::Write && self.hints.has_to_be_told(command.lifetime) {
            self.expect(command.lifetime);
        }
        let number = self.free.pop().expect("there is a slot for each command");
        self.slots[number as usize] = InFlight { command, submitted_at, retries: 0 };
        self.in_ring += 1;
        self.push(number);
        if is_alone {
            // Most likely nothing follows but to wait: that sends it, and so it is one call of the
            // kernel instead of two. If another follows, that sends both.
            return;
        }
        // At once, though a call for several together takes less time: with a file at depth 32 that
        // reached 0.91 of fio's reads a second and 0.77 of its writes, and this way 1.01 and 1.02
        // (`fio_parity`, Linux 6.18).
        if let Err(error) = self.enter(None) {
            self.gone = Some(error);
        }
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        let before = completed.len();
        completed.append(&mut self.done);
        if let Some(error) = &self.gone {
            return Err(error.clone());
        }
        assert!(
            until < Nanos::MAX || self.in_ring > 0 || completed.len() > before,
            "something is waited for"
        );
        if self.in_ring == 0 {
            match self.wakes {
                Some(_) if completed.len() == before => self.own()?,
                None if completed.len() == before => self.clock.sleep_until(until),
                _ => {}
            }
            if self.wakes.is_none() || completed.len() > before {
                return self.check_health(self.clock.now());
            }
        }
        let was_idle = self.in_ring == 0;
        loop {
            let now = self.clock.now();
            let has_some = completed.len() > before;
            let is_woken = self.turn(now, if has_some { now } else { until }, completed)?;
            completed.append(&mut self.done);
            self.check_health(now)?;
            let is_over = completed.len() > before || now >= until || is_woken;
            if is_over || (self.in_ring == 0 && !was_idle) {
                return Ok(());
            }
        }
    }

    fn waker(&mut self) -> Option<Waker> {
        if self.wakes.is_none() && !self.is_polled {
            let wakes = Arc::new(EventFd::new().ok()?);
            self.ring.wake_by(wakes.clone());
            self.wakes = Some(wakes);
        }
        let wakes = self.wakes.clone()?;
        Some(Arc::new(move || wakes.raise()))
    }

    fn shared(&mut self) -> Option<Arc<dyn SharedBytes>> {
        // Measurements are past the page cache, and write bytes that nobody asks for. What takes
        // NVMe commands has no page cache.
        let is_cached = self.info.holds_data && self.claim.is_none();
        let cached = is_cached.then(|| Cached::beside(&self.file, &self.info, self.health))?;
        Some(Arc::new(cached.ok()?))
    }
}

impl<K: CommandSet> Drop for Real<K> {
    fn drop(&mut self) {
        // The kernel may still write into the buffers: it must be done with them first. If it does
        // not come to an end, the memory is lost rather than used for something else.
        let end = self.clock.now() + CLOSE_WITHIN;
        let mut dropped = Vec::new();
        let is_own = self.thread == thread::current().id();
        while is_own && self.in_ring > 0 && self.clock.now() < end {
            if self.ring.enter(Some(Duration::from_millis(100))).is_err() {
                break;
            }
            self.reap(&mut dropped);
        }
        if self.in_ring > 0 {
            std::mem::forget(self.pool.take());
        }
        // The kernel takes its time to tear a ring down, and the device would stay in use
        // meanwhile.
        if is_own {
            self.ring.let_go();
        }
        self.hints.forget(&self.file);
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use block::Limits;

    use super::*;
    use crate::command_set::KernelCommands;

    /// A file of 1 MiB of zeros.
    fn file_device() -> Real<KernelCommands> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let info = DeviceInfo {
            name: "alone".to_owned(),
            model: String::new(),
            kind: DeviceKind::File,
            limits: Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 4096 },
            queue_depth: 4,
            is_read_only: true,
            has_trim: false,
            zeroing_bytes: None,
            is_virtual: false,
            holds_data: false,
        };
        let commands = KernelCommands::new(&info, false);
        let (claim, is_loop, is_polled, hints) = (None, false, false, Hints::new(0));
        Real::new(Opened { info, file, claim, is_loop, is_polled, hints }, commands).unwrap()
    }

    /// A wait for ever ends: whoever serves others has to hear of what they ask.
    #[test]
    fn who_waits_is_woken_by_another_thread() {
        let mut device = file_device();
        let waker = device.waker().expect("a file's device can be woken");
        let mut completed = Vec::new();
        for _ in 0..3 {
            let waker = waker.clone();
            let other = thread::spawn(move || {
                thread::sleep(Duration::from_millis(5));
                waker();
            });
            device.wait(Nanos::MAX - 1, &mut completed).unwrap();
            other.join().unwrap();
        }
        waker();
        device.wait(Nanos::MAX - 1, &mut completed).unwrap();
        assert!(completed.is_empty(), "nothing was sent");
        device.submit(Command::new(7, IoOp::Read, 0, 4096));
        while completed.is_empty() {
            device.wait(Nanos::MAX, &mut completed).unwrap();
        }
        assert_eq!(completed[0].reply.id, 7);
    }

    #[test]
    fn a_request_that_is_alone_is_sent_by_the_call_that_waits_for_it() {
        let mut device = file_device();
        let read = |id| Command::new(id, IoOp::Read, 0, 4096);
        let mut completed = Vec::new();
        device.submit(read(0));
        assert!(device.ring.has_unsent(), "one call less than sending it by itself");
        device.wait(Nanos::MAX, &mut completed).unwrap();
        assert_eq!(completed.len(), 1);
        device.submit(read(1));
        device.submit(read(2));
        assert!(!device.ring.has_unsent(), "the next one sends both at once");
        while device.outstanding() > 0 {
            device.wait(Nanos::MAX, &mut completed).unwrap();
        }
        assert_eq!(completed.len(), 3);
    }
}
