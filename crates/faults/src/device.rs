//! A device in memory that loses, reorders and tears whatever it may at a power cut, and fails when
//! it is told to.

use std::ops::Range;
use std::sync::Arc;

use block::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, DeviceKind, Limits, Reply,
};
use bytes::{Bytes, BytesMut};
use units::{IoOp, Nanos};

use crate::{Dice, Loss, Media};

/// Time of a reply that never came.
const NEVER: u64 = u64::MAX;

/// A version of a sector in the device's volatile cache.
#[derive(Clone, Debug)]
struct Version {
    /// Number of the command.
    command: u64,
    data: Bytes,
    /// Time of the reply to the command.
    replied: u64,
}

/// A command that was sent and not replied to. It takes effect in two parts, so that those that
/// overlap are mixed by sectors.
#[derive(Clone, Debug)]
struct Pending {
    command: Command,
    number: u64,
    sent: u64,
    /// Times that others go before it when its turn comes.
    patience: usize,
    /// Parts that took effect: 0, 1 or 2.
    parts_done: u8,
    /// Sectors in the first part.
    split: usize,
    /// True if the first part is at the front of the command's sectors.
    is_front_first: bool,
    read: BytesMut,
    failure: Option<Arc<str>>,
}

impl Pending {
    /// Gives the sectors of the command, counted from its first, that belong to a part.
    fn part(&self, part: u8, sectors: usize) -> Range<usize> {
        if (part == 0) == self.is_front_first { 0..self.split } else { self.split..sectors }
    }
}

/// Plan of a failing command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorPlan {
    /// The number of the command among those sent since the plan was made, from 0 on.
    pub at: u64,
    /// Only commands of this kind are counted.
    pub op: Option<IoOp>,
    /// True if all commands after it fail, too, except reads.
    pub is_lasting: bool,
    /// Place of the failure: 0 for the device, else above so many layers, counted from the bottom.
    pub level: usize,
}

/// Behaviour of a device that not all devices have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manners {
    /// True if replies come in the order of the commands, and commands take effect one by one.
    pub is_orderly: bool,
    /// True if a trimmed sector gives its old data or zeros anew at every read.
    pub is_trim_unstable: bool,
    /// True for a bug on purpose: a flush is replied to and makes nothing durable.
    pub is_flush_a_lie: bool,
}

/// A block device in memory with a volatile cache and the semantics of dm-log-writes: a flush makes
/// durable what was replied to before the flush was sent, and a write with FUA is durable when it
/// is replied to; of the rest a power cut leaves what [`Loss`] says. Commands are replied to at
/// random times. It is the very [`BlockDevice`] that layers run on elsewhere.
#[derive(Clone, Debug)]
pub struct CrashDevice {
    info: DeviceInfo,
    limits: Limits,
    now: Nanos,
    manners: Manners,
    media: Media,
    /// Versions of each sector that are newer than the media, in the order in which they took
    /// effect.
    cache: Vec<Vec<Version>>,
    /// Sectors that have or had such versions; each once.
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    /// Marks of trimmed sectors whose content may change at every read.
    is_loose: Vec<bool>,
    pending: Vec<Pending>,
    clock: u64,
    commands: u64,
    dice: Dice,
    plan: Option<ErrorPlan>,
    has_failed: bool,
    /// Writes, trims and flushes until the power goes; none if it does not go.
    writes_left: Option<u64>,
    is_off: bool,
    zeros: Bytes,
    /// Bytes that were read since the device was made.
    pub bytes_read: u64,
    /// Writes that were sent since the device was made.
    pub writes: u64,
}

impl CrashDevice {
    /// Makes a device with these bytes on its media and an empty cache.
    #[must_use]
    pub fn new(limits: Limits, manners: Manners, media: Media, seed: u64) -> Self {
        let sectors = media.sectors();
        Self {
            info: DeviceInfo {
                name: "crash".to_owned(),
                model: String::new(),
                kind: DeviceKind::Memory,
                limits,
                queue_depth: 1 << 16,
                is_read_only: false,
                has_trim: true,
                zeroing_bytes: None,
                is_virtual: true,
                holds_data: true,
            },
            limits,
            now: 0,
            manners,
            media,
            cache: vec![Vec::new(); sectors],
            dirty: Vec::new(),
            is_dirty: vec![false; sectors],
            is_loose: vec![false; sectors],
            pending: Vec::new(),
            clock: 0,
            commands: 0,
            dice: Dice::new(seed),
            plan: None,
            has_failed: false,
            writes_left: None,
            is_off: false,
            zeros: vec![0; limits.sector_bytes as usize].into(),
            bytes_read: 0,
            writes: 0,
        }
    }

    /// Makes a device of no bytes, as a placeholder for another.
    #[must_use]
    pub fn nothing() -> Self {
        Self::new(
            Limits { capacity_bytes: 0, sector_bytes: 512, most_bytes: 512 },
            Manners::default(),
            Media::new(512, 0),
            0,
        )
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Nanos) {
        self.now += time;
    }

    /// Gives the command that was sent last and is still under way.
    #[must_use]
    pub fn newest(&self) -> Option<&Command> {
        self.pending.last().map(|pending| &pending.command)
    }

    /// Sets the plan of a command that will fail, counted from now on; or none.
    pub fn fail(&mut self, plan: Option<ErrorPlan>) {
        self.plan = plan;
        self.has_failed = false;
    }

    /// Returns true if a command failed.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Lets the power go at the write, trim or flush after so many, which is under way then; never
    /// with none.
    pub fn stop_after(&mut self, writes: Option<u64>) {
        self.writes_left = writes;
    }

    /// Returns true if the power went at such a command.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.is_off
    }

    /// Gives the number of commands under way.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    fn sectors_of(&self, offset: u64, length: usize) -> Range<usize> {
        let sector = u64::from(self.limits.sector_bytes);
        let first = (offset / sector) as usize;
        first..first + length / sector as usize
    }

    fn current(&self, sector: usize) -> &[u8] {
        self.cache[sector].last().map_or_else(|| self.media.sector(sector), |version| &version.data)
    }

    /// Gives the failure of a command that is sent now, if it is to fail.
    fn failure_of(&mut self, op: IoOp) -> Option<Arc<str>> {
        let plan = self.plan.as_mut()?;
        if self.has_failed {
            return (plan.is_lasting && op != IoOp::Read).then(|| "fault that lasts".into());
        }
        if plan.op.is_some_and(|only| only != op) {
            return None;
        }
        if plan.at > 0 {
            plan.at -= 1;
            return None;
        }
        self.has_failed = true;
        Some("fault that was put there".into())
    }

    /// Goes on with a command that chance takes: part of it takes effect, or it is replied to.
    fn step(&mut self) -> Option<Reply> {
        if self.pending.is_empty() {
            return None;
        }
        let at = if self.manners.is_orderly { 0 } else { self.dice.below(self.pending.len()) };
        if self.pending[at].patience > 0 && !self.manners.is_orderly {
            self.pending[at].patience -= 1;
            return None;
        }
        if self.pending[at].parts_done < 2 {
            self.take_effect(at);
            if !self.manners.is_orderly {
                return None;
            }
            self.take_effect(at);
        }
        Some(self.end(at))
    }

    fn take_effect(&mut self, at: usize) {
        let mut pending = std::mem::replace(&mut self.pending[at], Pending::none());
        let command = &pending.command;
        let all = self.sectors_of(command.offset, command.length as usize);
        let size = self.limits.sector_bytes as usize;
        // A write that fails may have reached any of its sectors.
        let is_partial = pending.failure.is_some();
        for index in pending.part(pending.parts_done, all.len()) {
            let sector = all.start + index;
            match pending.command.op {
                IoOp::Read => {
                    let is_zero = self.is_loose[sector] && self.dice.chance(0.5);
                    let from = if is_zero { &self.zeros[..] } else { self.current(sector) };
                    pending.read[index * size..(index + 1) * size].copy_from_slice(from);
                }
                IoOp::Write if is_partial && self.dice.chance(0.5) => {}
                IoOp::Write => {
                    let data = pending
                        .command
                        .data
                        .slice(index * size..(index + 1) * size)
                        .joined()
                        .unwrap_or_default();
                    self.push(sector, pending.number, data, NEVER);
                }
                IoOp::Trim if is_partial && self.dice.chance(0.5) => {}
                IoOp::Trim if self.manners.is_trim_unstable => self.is_loose[sector] = true,
                // All of a trim, or nothing: old data in a part of it comes of the first part's
                // being done and the cut.
                IoOp::Trim if pending.number.is_multiple_of(2) => {
                    self.push(sector, pending.number, self.zeros.clone(), NEVER);
                }
                IoOp::Trim | IoOp::Flush => {}
            }
        }
        pending.parts_done += 1;
        self.pending[at] = pending;
    }

    fn push(&mut self, sector: usize, command: u64, data: Bytes, replied: u64) {
        if !std::mem::replace(&mut self.is_dirty[sector], true) {
            self.dirty.push(sector as u32);
        }
        self.is_loose[sector] = false;
        self.cache[sector].push(Version { command, data, replied });
    }

    fn end(&mut self, at: usize) -> Reply {
        let pending = if self.manners.is_orderly {
            self.pending.remove(at)
        } else {
            self.pending.swap_remove(at)
        };
        let Pending { command, number, sent, read, failure, .. } = pending;
        self.clock += 1;
        let outcome = match failure {
            Some(reason) => {
                if command.op == IoOp::Flush {
                    self.forget_replies(sent);
                }
                Err(command.failed(reason))
            }
            None => {
                match command.op {
                    IoOp::Read => self.bytes_read += u64::from(command.length),
                    IoOp::Flush if self.manners.is_flush_a_lie => {}
                    IoOp::Flush => self.harden(sent),
                    IoOp::Write | IoOp::Trim => self.replied(&command, number),
                }
                Ok(if command.op == IoOp::Read { Data::Whole(read.freeze()) } else { Data::Absent })
            }
        };
        Reply { id: command.id, outcome }
    }

    fn replied(&mut self, command: &Command, number: u64) {
        for sector in self.sectors_of(command.offset, command.length as usize) {
            let Some(index) =
                self.cache[sector].iter().position(|version| version.command == number)
            else {
                continue;
            };
            self.cache[sector][index].replied = self.clock;
            if command.is_fua {
                self.settle(sector, index);
            }
        }
    }

    /// Makes this version, and none before it, the durable content of the sector.
    fn settle(&mut self, sector: usize, index: usize) {
        let version = self.cache[sector].drain(..=index).next_back().expect("the version itself");
        self.media.write(sector, &version.data);
    }

    /// Makes durable what was replied to before this time.
    fn harden(&mut self, before: u64) {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|&sector| {
            let sector = sector as usize;
            if let Some(index) =
                self.cache[sector].iter().rposition(|version| version.replied < before)
            {
                self.settle(sector, index);
            }
            self.is_dirty[sector] = !self.cache[sector].is_empty();
            self.is_dirty[sector]
        });
        self.dirty = dirty;
    }

    /// Notes that a flush failed: what it should have covered is not covered by a later one either,
    /// only by one that was under way meanwhile.
    fn forget_replies(&mut self, before: u64) {
        let others = self
            .pending
            .iter()
            .filter(|other| other.command.op == IoOp::Flush && other.failure.is_none());
        let covers: Vec<u64> = others.map(|other| other.sent).collect();
        for &sector in &self.dirty {
            for version in &mut self.cache[sector as usize] {
                if version.replied < before && !covers.iter().any(|&sent| version.replied < sent) {
                    version.replied = NEVER;
                }
            }
        }
    }

    /// Gives the sectors of writes under way that have not taken effect.
    fn under_way(&self) -> impl Iterator<Item = (u64, usize, Data)> + '_ {
        let size = self.limits.sector_bytes as usize;
        self.pending.iter().filter(|pending| pending.command.op == IoOp::Write).flat_map(
            move |pending| {
                let Range { start, end } =
                    self.sectors_of(pending.command.offset, pending.command.length as usize);
                (pending.parts_done..2).flat_map(move |part| pending.part(part, end - start)).map(
                    move |index| {
                        (
                            pending.number,
                            start + index,
                            pending.command.data.slice(index * size..(index + 1) * size),
                        )
                    },
                )
            },
        )
    }

    /// Draws what a power cut now would leave.
    pub fn draw_loss(&mut self) -> Loss {
        let mut numbers: Vec<u64> = self
            .pending
            .iter()
            .filter(|pending| pending.command.op == IoOp::Write)
            .map(|p| p.number)
            .collect();
        for _ in 0..8.min(self.dirty.len()) {
            let sector = self.dirty[self.dice.below(self.dirty.len())] as usize;
            numbers.extend(self.cache[sector].iter().map(|version| version.command));
        }
        Loss::draw(&numbers, &mut self.dice)
    }

    /// Writes what survives a power cut to the media.
    fn lay(&self, media: &mut Media, is_loose: &mut [bool], loss: &Loss) {
        for &sector in &self.dirty {
            let sector = sector as usize;
            let left = self.cache[sector]
                .iter()
                .rev()
                .find(|version| loss.survives(version.command, sector, false));
            if let Some(version) = left {
                media.write(sector, &version.data);
                is_loose[sector] = false;
            }
        }
        for (command, sector, data) in self.under_way() {
            if loss.survives(command, sector, true) {
                media.write(sector, &data.joined().unwrap_or_default());
                is_loose[sector] = false;
            }
        }
    }

    /// Cuts the power: commands under way are never replied to, and part of the cache is left.
    pub fn cut(&mut self, loss: &Loss) {
        let (mut media, mut is_loose) =
            (std::mem::take(&mut self.media), std::mem::take(&mut self.is_loose));
        self.lay(&mut media, &mut is_loose, loss);
        (self.media, self.is_loose) = (media, is_loose);
        self.pending.clear();
        for sector in std::mem::take(&mut self.dirty) {
            self.cache[sector as usize].clear();
            self.is_dirty[sector as usize] = false;
        }
        self.is_off = false;
        self.writes_left = None;
        self.plan = None;
        self.has_failed = false;
    }

    /// Kills the process that sent commands; the device keeps its power and its cache. Of the
    /// commands under way some do not arrive any more, some take effect, and some of those end:
    /// nobody hears of it, but what had FUA is durable then.
    ///
    /// # Panics
    /// If a command failed: what a later flush covers is another matter then.
    pub fn kill(&mut self) {
        let (arriving, ending) =
            (self.dice.pick(&[0.0, 0.5, 1.0]), self.dice.pick(&[0.0, 0.5, 1.0]));
        while !self.pending.is_empty() {
            let at = self.dice.below(self.pending.len());
            if self.dice.chance(arriving) {
                while self.pending[at].parts_done < 2 {
                    self.take_effect(at);
                }
                if self.dice.chance(ending) {
                    self.end(at);
                    continue;
                }
            }
            self.pending.swap_remove(at);
        }
        self.use_again();
    }

    /// Gets the device ready for use after a kill: the content of its cache counts as replied to,
    /// as commands have ended though nobody heard of it.
    ///
    /// # Panics
    /// If a command failed: what a later flush covers is another matter then.
    fn use_again(&mut self) {
        assert!(!self.has_failed, "nothing failed");
        for &sector in &self.dirty {
            for version in
                self.cache[sector as usize].iter_mut().filter(|version| version.replied == NEVER)
            {
                version.replied = self.clock;
            }
        }
        self.is_off = false;
        self.writes_left = None;
        self.plan = None;
        self.has_failed = false;
    }

    /// Lends the device as a power cut now would leave it, to be tried: [`CrashDevice::join`] gives
    /// it back as if nothing had happened.
    pub fn fork(&mut self, loss: &Loss, spare: &mut Option<Self>) -> Self {
        let mut media = std::mem::take(&mut self.media);
        media.keep_journal();
        let seed = self.dice.seed();
        let mut fork =
            spare.take().unwrap_or_else(|| Self::new(self.limits, self.manners, media.clone(), 0));
        fork.dice = Dice::new(seed);
        fork.manners = self.manners;
        fork.is_loose.copy_from_slice(&self.is_loose);
        self.lay(&mut media, &mut fork.is_loose, loss);
        fork.media = media;
        fork.cut(&Loss::Nothing);
        fork.bytes_read = 0;
        fork.writes = 0;
        fork
    }

    /// Takes back what was lent by [`CrashDevice::fork`]; keeps the rest to be used again.
    pub fn join(&mut self, mut fork: Self, spare: &mut Option<Self>) {
        fork.cut(&Loss::Nothing);
        self.media = std::mem::take(&mut fork.media);
        self.media.roll_back();
        *spare = Some(fork);
    }

    /// Settles what each trimmed sector holds from now on, its old data or zeros: another volume is
    /// about to be made, which knows of no trim.
    pub fn forget_trims(&mut self) {
        for sector in 0..self.is_loose.len() {
            if std::mem::take(&mut self.is_loose[sector]) && self.dice.chance(0.5) {
                self.media.write(sector, &self.zeros.clone());
            }
        }
    }

    /// Gives the media.
    pub const fn media(&mut self) -> &mut Media {
        &mut self.media
    }
}

impl Pending {
    fn none() -> Self {
        Self {
            command: Command::new(u32::MAX, IoOp::Flush, 0, 0),
            number: 0,
            sent: 0,
            patience: 0,
            parts_done: 0,
            split: 0,
            is_front_first: true,
            read: BytesMut::new(),
            failure: None,
        }
    }
}

impl BlockDevice for CrashDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn outstanding(&self) -> u32 {
        self.pending.len() as u32
    }

    /// # Panics
    /// If the power is gone, or a command's id is that of another under way.
    fn submit(&mut self, command: Command) {
        let refused = self.info.refuses(&command);
        assert!(refused.is_none(), "it takes all there is");
        assert!(
            self.pending.iter().all(|other| other.command.id != command.id),
            "two commands of one id are under way"
        );
        if command.op != IoOp::Read {
            match &mut self.writes_left {
                Some(0) => self.is_off = true,
                Some(left) => *left -= 1,
                None => {}
            }
        }
        let failure = self.failure_of(command.op);
        let length = if command.op == IoOp::Read { command.length as usize } else { 0 };
        let sectors = self.sectors_of(command.offset, command.length as usize).len();
        self.clock += 1;
        self.commands += 1;
        self.writes += u64::from(command.op == IoOp::Write);
        // A few take very long, so that much else happens meanwhile.
        let patience = if self.dice.chance(0.1) { self.dice.below(100) } else { 0 };
        let split = if self.dice.chance(0.5) { 0 } else { self.dice.below(sectors + 1) };
        self.pending.push(Pending {
            command,
            number: self.commands,
            sent: self.clock,
            patience,
            parts_done: 0,
            split,
            is_front_first: self.dice.chance(0.5),
            read: BytesMut::zeroed(length),
            failure,
        });
    }

    /// Goes on with one command and lets time pass until `until`; without such a time, goes on
    /// until a command ends.
    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        assert!(until < Nanos::MAX || !self.pending.is_empty(), "something is waited for");
        if self.is_off {
            return Err(BlockError::Gone {
                name: self.info.name.clone(),
                reason: "there is no power".to_owned(),
            });
        }
        loop {
            let reply = self.step();
            let has_ended = reply.is_some();
            let now = self.now;
            completed.extend(reply.map(|reply| Completion {
                reply,
                submitted_at: now,
                completed_at: now,
            }));
            if has_ended {
                return Ok(());
            }
            if until < Nanos::MAX {
                self.now = self.now.max(until);
                return Ok(());
            }
        }
    }
}
