//! The flash: dies, channels, and the time that commands take on them.
//!
//! Each die has a queue and carries out one command at a time (one on each plane at once if
//! multi-plane commands are on). A channel is a server, first come first served: since every
//! command asks for it at the moment at which it could begin its transfer, it is enough to keep the
//! time from which it is free, and it needs no events. So a read takes two events, a program or an
//! erase one.

mod causes;
mod command;
mod die;
mod engine;
mod event_hash;
mod events;
mod idle;
mod occupied;
mod owners;
#[cfg(test)]
mod owners_tests;
mod retries;
mod slc;
mod slots;
mod timeline;
mod timing;
#[cfg(test)]
mod together_tests;
mod witness;

use units::{EraseBlockId, Ppn};

pub use causes::{Cause, Class};
pub use command::{Command, Delays, Done, FlashOp, Tag};
pub use die::DieState;
pub use event_hash::EventHash;
pub(crate) use events::{Events, NEVER};
pub use owners::{CommandId, Loser, Stage};
pub use timeline::Timeline;
pub use witness::{Carried, Content, INITIAL, NOTHING, TRANSLATION, Witness};

pub use crate::drive::layout::Layout;

use die::{Array, Die};
use idle::Observed;
use slots::Slots;
use timing::{Noise, Timing};

use crate::drive::profile::{CommandOrder, MediaConfig, Profile};
use crate::drive::time::Picos;

/// Counters of operations of the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaCounters {
    /// By operation and cause, in the order of [`FlashOp::ALL`] and [`Cause::ALL`].
    pub operations: [[u64; Cause::ALL.len()]; FlashOp::ALL.len()],
    /// Bytes sent over channels.
    pub bytes_transferred: u64,
    /// Commands that shared their time with another one on a second plane.
    pub multi_plane_commands: u64,
    /// Interruptions of programs or erases.
    pub suspensions: u64,
    /// Repeated reads of pages that could not be decoded.
    pub read_retries: u64,
    /// Operations whose owner gave them up while they ran.
    pub in_vain: [[u64; Cause::ALL.len()]; FlashOp::ALL.len()],
    /// Commands that were given up before they began: these are not operations.
    pub vanished: u64,
}

impl MediaCounters {
    /// Number of operations of one kind, for all causes. A copy-back is a read and a program.
    #[must_use]
    pub fn of(&self, op: FlashOp) -> u64 {
        self.operations[op as usize].iter().sum()
    }

    /// The increase since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        for (now, before) in
            [(&mut since.operations, &before.operations), (&mut since.in_vain, &before.in_vain)]
        {
            now.iter_mut()
                .flatten()
                .zip(before.iter().flatten())
                .for_each(|(now, before)| *now -= before);
        }
        since.vanished -= before.vanished;
        since.bytes_transferred -= before.bytes_transferred;
        since.multi_plane_commands -= before.multi_plane_commands;
        since.suspensions -= before.suspensions;
        since.read_retries -= before.read_retries;
        since
    }

    /// Number of all flash operations, where a copy-back counts as two.
    #[must_use]
    pub fn total(&self) -> u64 {
        FlashOp::ALL.iter().map(|&op| self.of(op)).sum::<u64>() + self.of(FlashOp::CopyBack)
    }
}

/// A channel, which is free from a time on.
#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    free_at: Picos,
    busy: Picos,
}

/// Features of the media.
#[derive(Clone, Copy, Debug)]
struct Features {
    multi_plane: bool,
    cache_mode: bool,
    suspend: bool,
    suspend_at_points: bool,
    reads_first: bool,
    /// Pages of a plane that are sensed together; then of those that are programmed together.
    pages_per_read: u32,
    pages_per_program: u32,
    /// For each operation: true if several commands can be carried out as one.
    gathers: [bool; FlashOp::ALL.len()],
    most_suspensions: u8,
}

impl Features {
    /// Returns true if a command overtakes those that are not reads for the host.
    #[inline]
    const fn overtakes(&self, command: &Command) -> bool {
        self.reads_first
            && matches!(command.op, FlashOp::Read)
            && matches!(command.cause, Cause::Host | Cause::Reconstruction)
    }

    /// Pages of a plane that one command of this kind covers; 1 if each is alone.
    #[inline]
    const fn pages_together(&self, op: FlashOp) -> u32 {
        match op {
            FlashOp::Read => self.pages_per_read,
            FlashOp::Program => self.pages_per_program,
            FlashOp::Erase | FlashOp::CopyBack => 1,
        }
    }
}

/// The dies and channels of a drive, and the commands under way.
#[derive(Debug)]
pub struct Media {
    layout: Layout,
    timing: Timing,
    /// `None` unless some erase blocks have one bit per cell at times.
    slc: Option<Box<slc::SlcMode>>,
    noise: Option<Box<Noise>>,
    /// `None` if reads never fail.
    retries: Option<Box<retries::Retries>>,
    features: Features,
    now: Picos,
    events: Events,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    slots: Slots,
    /// Number of pages of each erase block that are programmed or skipped.
    programmed: Vec<u16>,
    under_way: u32,
    /// Dies whose new commands wait for [`Media::release`]; `None` unless commands are held.
    held: Option<Vec<u32>>,
    /// Commands that were given up, or race.
    apart: Vec<owners::Apart>,
    /// Number of races so far.
    races: u32,
    counters: MediaCounters,
    hash: EventHash,
    /// `None` unless the dies' activity is recorded.
    observed: Option<Box<Observed>>,
    witness: Option<Box<Witness>>,
}

impl Media {
    /// Erased media.
    #[must_use]
    pub fn new(config: &MediaConfig) -> Self {
        let layout = Layout::new(
            config.channels,
            config.packages_per_channel * config.dies_per_package,
            config.planes_per_die,
            config.erase_blocks_per_plane,
            config.pages_per_erase_block,
            config.page_bytes,
        );
        let dies = layout.dies();
        let multi_plane = config.multi_plane && config.planes_per_die > 1;
        let gathers = FlashOp::ALL.map(|op| match op {
            FlashOp::Read => multi_plane || config.pages_per_read > 1,
            FlashOp::Program => multi_plane || config.pages_per_program > 1,
            FlashOp::Erase => multi_plane,
            FlashOp::CopyBack => false,
        });
        Self {
            timing: Timing::new(config),
            slc: None,
            noise: Noise::new(config.time_noise),
            retries: retries::Retries::new(config, layout.erase_blocks()),
            features: Features {
                multi_plane,
                gathers,
                cache_mode: config.cache_mode,
                suspend: config.suspend,
                suspend_at_points: config.suspend && config.suspend_at_points,
                // A read that interrupts must come first.
                reads_first: config.order == CommandOrder::ReadsFirst || config.suspend,
                pages_per_read: config.pages_per_read,
                pages_per_program: config.pages_per_program,
                most_suspensions: config.most_suspensions as u8,
            },
            now: 0,
            // Only in cache mode do the array and the register of a die have an event each.
            events: Events::new(dies as usize * if config.cache_mode { 2 } else { 1 }),
            dies: (0..dies).map(|die| Die::new(layout.channel_of_die(die))).collect(),
            channels: vec![Channel::default(); layout.channels as usize],
            slots: Slots::new(),
            programmed: vec![0; layout.erase_blocks() as usize],
            under_way: 0,
            held: None,
            apart: Vec::new(),
            races: 0,
            counters: MediaCounters::default(),
            hash: EventHash::default(),
            observed: None,
            witness: None,
            layout,
        }
    }

    /// Structure of the media.
    #[inline]
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sets the seed of the noise of times, if there is any.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        if let Some(noise) = &mut self.noise {
            noise.seed(seed);
        }
        if let Some(retries) = &mut self.retries {
            retries.seed(seed);
        }
        self
    }

    /// Makes media in which some erase blocks have one bit per cell at times.
    #[must_use]
    pub fn with_slc(mut self, profile: &Profile) -> Self {
        let blocks = self.layout.erase_blocks();
        self.slc = slc::SlcMode::new(&profile.slc_cache, profile.media.slices, blocks);
        self
    }

    /// Sets an erased block to one bit per cell, or to all. Does nothing unless there is an SLC
    /// cache.
    pub fn set_slc(&mut self, block: EraseBlockId, is_slc: bool) {
        if let Some(slc) = &mut self.slc {
            slc.set(block, is_slc);
        }
    }

    /// The time of the current event.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Advances the time without an event of the media.
    ///
    /// # Panics
    /// If that would skip an event, or go back.
    #[inline]
    pub fn advance_to(&mut self, time: Picos) {
        assert!(
            time >= self.now && time <= self.events.first().at,
            "time goes from event to event"
        );
        self.now = time;
    }

    /// Time of the next event; [`Picos::MAX`] if there is none.
    #[inline]
    #[must_use]
    pub fn next_time(&self) -> Picos {
        self.events.first().at
    }

    /// Number of commands given and not done.
    #[must_use]
    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Counters of operations so far.
    #[must_use]
    pub fn counters(&self) -> &MediaCounters {
        &self.counters
    }

    /// A hash of all commands that were done, with their times.
    #[must_use]
    pub fn event_hash(&self) -> u64 {
        self.hash.value()
    }

    /// Begins to record the dies' activity.
    pub fn watch(&mut self, timeline: Timeline) {
        self.observed.get_or_insert_default().timeline = Some(timeline);
    }

    /// The recorded activity.
    #[must_use]
    pub fn timeline(&self) -> Option<&Timeline> {
        self.observed.as_ref()?.timeline.as_ref()
    }

    /// Begins to follow the contents of pages, and keeps the first `most_commands`. Call it only
    /// before the first command, and before [`Media::preset`].
    ///
    /// # Panics
    /// If a command was given before.
    pub fn follow(&mut self, most_commands: usize) {
        assert!(
            self.under_way == 0 && self.counters.total() == 0,
            "media are followed from the first command on"
        );
        self.witness = Some(Box::new(Witness::new(&self.layout, most_commands)));
    }

    /// The witness that follows the contents of pages.
    #[must_use]
    pub fn witness(&self) -> Option<&Witness> {
        self.witness.as_deref()
    }

    /// The same, to set the contents of programs.
    pub fn witness_mut(&mut self) -> Option<&mut Witness> {
        self.witness.as_deref_mut()
    }

    /// Returns true if a page has been programmed since its erase block was erased, up to the
    /// current time. A page that the scheme has mapped and that is not programmed yet is still in
    /// the controller's memory.
    #[inline]
    #[must_use]
    pub fn is_programmed(&self, page: Ppn) -> bool {
        let (block, place) = self.layout.split(page);
        u32::from(self.programmed[block.index()]) > place
    }

    /// Sets the number of erases of each erase block before the first command.
    pub fn preset_wear(&mut self, erases: &[u32]) {
        if let Some(retries) = &mut self.retries {
            (0..)
                .zip(erases)
                .for_each(|(block, &erases)| retries.wear(EraseBlockId(block), erases));
        }
    }

    /// Marks the first `pages` pages of an erase block as programmed. Only before the first
    /// command.
    ///
    /// # Panics
    /// If a command was given before.
    pub fn preset(&mut self, block: EraseBlockId, pages: u32) {
        assert!(
            self.under_way == 0 && self.counters.total() == 0,
            "media are preset before the first command"
        );
        self.programmed[block.index()] = pages as u16;
        if let Some(witness) = &mut self.witness {
            witness.preset(block, pages, &self.layout);
        }
    }

    /// Returns true if a die has nothing to do and nothing waits for it.
    #[must_use]
    pub fn is_idle(&self, die: u32) -> bool {
        self.dies[die as usize].is_idle()
    }

    /// Time since which a die has been idle; `None` if it is not.
    #[must_use]
    pub fn idle_since(&self, die: u32) -> Option<Picos> {
        self.dies[die as usize].idle_since()
    }

    /// State of a die: its work, the expected end, and its queue. It is computed only when asked
    /// for.
    #[must_use]
    pub fn die_state(&self, die: u32) -> DieState {
        let at = |part: u32| Some(self.events.time_of(part)).filter(|&at| at != NEVER);
        let transfer =
            if self.features.cache_mode { at(die + self.dies.len() as u32) } else { None };
        self.dies[die as usize].state(at(die).max(transfer), &self.slots)
    }

    /// Time that a die spent on an operation for a cause, up to now.
    #[must_use]
    pub fn time_on(&self, die: u32, op: FlashOp, cause: Cause) -> Picos {
        self.dies[die as usize].time_on(op, cause, self.now)
    }

    /// Time that a die was idle, up to now.
    #[must_use]
    pub fn time_idle(&self, die: u32) -> Picos {
        self.dies[die as usize].time_idle(self.now)
    }

    /// Time that a channel was busy, including transfers that are already scheduled.
    #[must_use]
    pub fn channel_busy(&self, channel: u32) -> Picos {
        self.channels[channel as usize].busy
    }

    /// Gives a command to its die. It begins at once if the die is free, otherwise it waits.
    #[inline]
    pub fn submit(&mut self, command: Command) {
        self.enqueue(command);
    }

    /// Returns true if commands for several pages of a plane can be carried out as one.
    #[inline]
    #[must_use]
    pub fn gathers(&self) -> bool {
        self.features.pages_per_program > 1
    }

    /// Holds commands that are given from now on until [`Media::release`], so that those that
    /// belong together can be joined. Does nothing if none can be joined ([`Media::gathers`]).
    #[inline]
    pub fn hold(&mut self) {
        if self.gathers() && self.held.is_none() {
            self.held = Some(Vec::new());
        }
    }

    /// Lets the commands given since [`Media::hold`] begin.
    #[inline]
    pub fn release(&mut self) {
        if self.held.is_some() {
            self.begin_held();
        }
    }

    #[inline(never)]
    fn begin_held(&mut self) {
        let dies = self.held.take().unwrap_or_default();
        for die in dies {
            self.begin(die);
            if self.features.suspend {
                self.interrupt(die);
            }
        }
    }

    /// As [`Media::submit`], for an owner that may give the command up or let it race. Returns its
    /// name.
    #[must_use]
    pub fn submit_named(&mut self, command: Command) -> CommandId {
        let slot = self.enqueue(command);
        CommandId { slot, issued_at: self.now }
    }

    #[inline(always)]
    fn enqueue(&mut self, command: Command) -> slots::CommandSlot {
        let (block, place) = self.layout.split(command.page);
        let number = self.layout.die_of_block(block);
        self.under_way += 1;
        let slot = self.slots.take(command, place, self.now);
        let die = &mut self.dies[number as usize];
        let overtakes = self.features.overtakes(&command);
        let is_later = die.occupants > 0 && !command.cause.occupies();
        let begins = !is_later && die.can_begin();
        if !begins && command.cause.may_be_waited_for() {
            die.note_time(&mut self.slots.get_mut(slot).waited, self.now);
        }
        if is_later {
            die.later.push(slot, &mut self.slots);
            return slot;
        }
        let queue = if overtakes { &mut die.urgent } else { &mut die.queue };
        queue.push(slot, &mut self.slots);
        if let Some(held) = &mut self.held {
            if held.last() != Some(&number) {
                held.push(number);
            }
            return slot;
        }
        if begins || self.features.cache_mode {
            self.begin(number);
        }
        if overtakes && self.features.suspend {
            self.interrupt(number);
        }
        slot
    }

    /// Carries out the next event and adds the commands that it ends to `done`.
    ///
    /// # Panics
    /// If there is no event; or if a page is programmed out of order, a sign of a faulty scheme.
    #[inline]
    pub fn step(&mut self, done: &mut Vec<Done>) {
        assert!(self.events.first().at != NEVER, "there is an event");
        let event = self.events.take_first();
        self.now = event.at;
        let dies = self.dies.len() as u32;
        if event.part >= dies {
            self.transfer_ended(event.part - dies, done);
        } else if self.dies[event.part as usize].array == Array::Busy {
            self.array_ended(event.part, done);
        } else {
            self.transfer_ended(event.part, done);
        }
        self.events.settle(event.part);
    }

    /// Ends a command, and computes its delays.
    #[inline]
    fn finish(&mut self, slot: slots::CommandSlot, done: &mut Vec<Done>) {
        self.slots.give_back(slot);
        self.under_way -= 1;
        let command = &self.slots.get(slot).command;
        self.counters.operations[command.op as usize][command.cause as usize] += 1;
        self.counters.bytes_transferred += u64::from(command.bytes);
        self.hash.mix(self.now);
        self.hash
            .mix(u64::from(command.page.0) << 8 | (command.op as u64) << 4 | command.cause as u64);
        if !self.apart.is_empty() && self.ends_unheard(slot) {
            return;
        }
        let entry = self.slots.get(slot);
        let command = entry.command;
        if let Some(witness) = &mut self.witness {
            witness.done(&command, &self.layout, entry.issued_at, self.now);
        }
        let delays = if command.cause.may_be_waited_for() {
            let waited: Picos = entry.waited.iter().sum();
            let retry = match &self.retries {
                Some(retries) if command.op == FlashOp::Read => retries.time(slot),
                _ => 0,
            };
            Delays {
                die: entry.waited,
                channel: entry.channel_wait,
                retry,
                service: self.now - entry.issued_at - waited - entry.channel_wait - retry,
            }
        } else {
            Delays::default()
        };
        done.push(Done { command, issued_at: entry.issued_at, delays });
    }
}
