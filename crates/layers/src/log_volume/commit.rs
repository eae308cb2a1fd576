//! Changes since the last checkpoint, and the commits that make them durable.
//!
//! Each change is an entry of the log. Entries go into summaries, which are written when a commit
//! needs them, or when there are many. A commit makes all entries durable that were made before it
//! began: it waits until their pages and summaries are written, and flushes what is below. Pages
//! and summaries are written at once, in any order: a page that a summary names and that was not
//! written in time fails its checksum.

use std::collections::VecDeque;

use placement::Placement;
use units::{EraseBlockId, IoOp, StreamId};

use super::below::Op;
use super::disk::{Entry, Root, SummaryHead, encode_summary};
use super::in_segments::Whose;
use super::layout::{COPIES, VolumeLayout};
use super::volume::LogVolume;
use crate::{Actions, Data};

/// Summaries that are written at once when no commit asks for them earlier.
const AT_ONCE: usize = 16;
/// Entries after which a commit comes of itself, so that recovery never has more pages to check.
pub(super) const MOST_VOLATILE: u64 = 1 << 16;
/// Summaries for which there is always room: those of commits that only tell what is durable.
const SPARE_SUMMARIES: usize = 2;

/// Entries of the log.
#[derive(Debug)]
pub(super) struct Log {
    /// Entries that are in no summary yet.
    entries: Vec<Entry>,
    /// Number of the next entry.
    pub next: u64,
    /// Number behind the last entry that the host caused.
    of_host: u64,
    /// Number behind the last entry that a flush makes durable: not those of pages that cleaning
    /// moved, which still lie in their old places, too.
    to_flush: u64,
    /// Number of an entry: all before it are durable.
    pub durable: u64,
    /// Number of an entry: all before it are known to be durable whatever happens, as a summary or
    /// root that says so is durable itself. A segment that they emptied may be written to again;
    /// recovery will not look for its old content.
    pub known_durable: u64,
    /// Value of `durable` in the last summary.
    said: u64,
    next_summary: u64,
    /// Number of a summary whose place can be read, before it is written.
    clear: u64,
    /// Number of the first summary that is still needed.
    oldest_summary: u64,
    epoch: u64,
    per_summary: usize,
    ring: usize,
    /// Summaries for entries of pages that are being read: room is kept for them.
    promised: usize,
    /// Segments of the summaries that are needed, where they lie in segments.
    in_segments: VecDeque<u32>,
}

impl Log {
    pub fn new(layout: &VolumeLayout, root: &Root) -> Self {
        Self {
            entries: Vec::new(),
            next: root.durable,
            of_host: root.durable,
            to_flush: root.durable,
            durable: root.durable,
            known_durable: root.durable,
            said: root.durable,
            next_summary: root.replay_from,
            clear: root.replay_from,
            oldest_summary: root.replay_from,
            epoch: root.epoch,
            per_summary: layout.entries_per_summary(),
            ring: layout.ring_pages as usize,
            promised: 0,
            in_segments: VecDeque::new(),
        }
    }

    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
        self.next += 1;
        let is_moved =
            matches!(entry, Entry::Placed { is_relocated: true, .. } | Entry::Opened { .. });
        if !is_moved {
            self.to_flush = self.next;
        }
        if !is_moved && !matches!(entry, Entry::Lost { .. }) {
            self.of_host = self.next;
        }
    }

    /// Returns true if all entries are durable.
    pub fn is_durable(&self) -> bool {
        self.next == self.durable
    }

    /// Returns true if all entries are durable that a flush has to make so.
    pub fn is_flushed(&self) -> bool {
        self.to_flush <= self.durable
    }

    /// Returns true if all entries that the host caused are durable.
    pub fn holds_nothing_of_the_host(&self) -> bool {
        self.of_host <= self.durable
    }

    /// Returns true if all entries that the host caused are known to be durable: recovery takes
    /// them unseen, so that it never mistakes rot for a write that a power cut took.
    pub fn is_known_of_the_host(&self) -> bool {
        self.of_host <= self.known_durable
    }

    /// Returns true if recovery can read the place behind the last summary.
    pub const fn ends_clear(&self) -> bool {
        self.clear == self.next_summary
    }

    /// Returns true if there are so many entries that they are written.
    #[inline]
    fn is_long(&self) -> bool {
        self.entries.len() >= AT_ONCE.min(self.ring / 8) * self.per_summary
    }

    fn used(&self) -> usize {
        (self.next_summary - self.oldest_summary) as usize
    }

    /// Returns true if a checkpoint should make room.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        self.used() > self.ring / 2
    }

    #[inline]
    fn has_room_for(&self, more: usize) -> bool {
        (self.entries.len() + more).div_ceil(self.per_summary) + self.promised + SPARE_SUMMARIES
            <= self.ring - self.used()
    }

    /// Keeps room for entries that will come. They may be written alone, so they are promised whole
    /// summaries.
    pub fn promise(&mut self, entries: usize) {
        self.promised += entries.div_ceil(self.per_summary);
    }

    pub fn keep_promise(&mut self, entries: usize) {
        self.promised -= entries.div_ceil(self.per_summary);
    }

    /// Gives the place where replaying would begin if all changes so far were in a checkpoint: the
    /// next summary, and the number of its first entry.
    pub fn replay_from(&self) -> (u64, u64) {
        (self.next_summary, self.next - self.entries.len() as u64)
    }

    /// Notes that a checkpoint is durable. Gives the segments of summaries that are not needed any
    /// more, one for each summary.
    pub fn checkpointed(&mut self, root: &Root) -> impl Iterator<Item = u32> + use<'_> {
        let gone = (root.replay_from - self.oldest_summary) as usize;
        self.oldest_summary = root.replay_from;
        self.known_durable = self.known_durable.max(root.durable);
        self.in_segments.drain(..gone.min(self.in_segments.len()))
    }

    /// Returns true if the entries have to be written before there is another one: a summary holds
    /// no more.
    #[inline]
    pub fn fills_summary(&self) -> bool {
        self.entries.len() + 2 > self.per_summary
    }

    /// Takes the entries, for a summary in a segment.
    pub fn take_for_summary(
        &mut self,
        segment: u32,
        next: Option<u32>,
        behind: u16,
    ) -> (SummaryHead, Vec<Entry>) {
        let entries = std::mem::take(&mut self.entries);
        let head = SummaryHead {
            epoch: self.epoch,
            number: self.next_summary,
            first: self.next - entries.len() as u64,
            durable: self.durable,
            next,
            behind,
        };
        self.next_summary += 1;
        self.said = self.durable;
        self.in_segments.push_back(segment);
        (head, entries)
    }

    /// Returns true if there are entries that are in no summary.
    pub fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }
}

/// Command that waits for a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A flush of the host.
    Flush(u32),
    /// A write of the host with FUA.
    Write(usize),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Writing,
    Flushing,
}

/// Commits: one at a time. Those who ask while one goes on wait for the next.
#[derive(Debug, Default)]
pub(super) struct Commit {
    phase: Phase,
    /// Number of an entry: all before it are durable when the commit ends.
    covers: u64,
    /// Value of `durable` in the summaries that it makes durable.
    says: u64,
    /// Number of commits that were begun.
    pub begun: u64,
    waiters: VecDeque<(u64, Waiter)>,
    /// True while it writes to the place of the next summary, which has to wait.
    clears: bool,
    /// Turn of new writes: writes that have not ended are counted by turn, so that those that the
    /// commit waits for are told from later ones.
    turn: u8,
    writes: [u32; 2],
}

impl Commit {
    /// Counts a write that is sent; gives its turn.
    pub fn count_write(&mut self) -> u8 {
        self.writes[usize::from(self.turn)] += 1;
        self.turn
    }

    pub fn ended(&mut self, turn: u8) {
        self.writes[usize::from(turn)] -= 1;
    }

    /// Lets someone wait until all entries before this one are durable.
    pub fn wait_for(&mut self, entry: u64, waiter: Waiter) {
        self.waiters.push_back((entry, waiter));
    }

    /// Returns true if somebody waits for a commit.
    pub fn is_awaited(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Takes all waiters, and gives the flushes among them.
    pub fn flushes(&mut self) -> Vec<u32> {
        self.waiters
            .drain(..)
            .filter_map(|(_, waiter)| if let Waiter::Flush(id) = waiter { Some(id) } else { None })
            .collect()
    }
}

impl<P: Placement> LogVolume<P> {
    /// Returns true if there is room for so many more entries. If not, a checkpoint is due or under
    /// way.
    #[inline]
    pub fn can_log(&self, entries: usize) -> bool {
        self.log.has_room_for(entries) && self.has_way(Whose::Own)
    }

    /// Writes the entries into summaries; with `even_if_empty`, at least one, which tells what is
    /// durable.
    fn seal_all(&mut self, even_if_empty: bool, actions: &mut Actions) {
        let entries = std::mem::take(&mut self.log.entries);
        let count = entries.len().div_ceil(self.log.per_summary).max(usize::from(even_if_empty));
        let page = self.layout.page_bytes as usize;
        let most = self.below.most_pages(AT_ONCE, self.layout.page_bytes);
        let mut sealed = 0;
        while sealed < count {
            let number = self.log.next_summary;
            let to_end = self.log.ring - (number % self.log.ring as u64) as usize;
            let now = (count - sealed).min(most).min(to_end);
            let data =
                if self.is_absent { Data::Absent } else { self.summaries(&entries, sealed, now) };
            for copy in 0..COPIES {
                let op = Op::Own { turn: self.commit.count_write(), is_table: false };
                let (at, length) = (self.layout.summary(number, copy), (now * page) as u32);
                self.below.write(op, at, length, data.clone(), actions);
            }
            self.counts.summary_pages += COPIES * now as u64;
            self.log.next_summary += now as u64;
            sealed += now;
        }
        if count > 0 {
            self.log.said = self.log.durable;
        }
        // The memory is used again.
        self.log.entries = entries;
        self.log.entries.clear();
        assert!(
            self.log.used() <= self.log.ring,
            "summaries are never written over those that are needed"
        );
    }

    /// Gives the bytes of some summaries.
    fn summaries(&self, entries: &[Entry], sealed: usize, now: usize) -> Data {
        let page = self.layout.page_bytes as usize;
        let (per, first) = (self.log.per_summary, self.log.next - entries.len() as u64);
        let mut bytes = vec![0; now * page];
        for (place, to) in bytes.chunks_mut(page).enumerate() {
            let from = (sealed + place) * per;
            let head = SummaryHead {
                epoch: self.log.epoch,
                number: self.log.next_summary + place as u64,
                first: first + from as u64,
                durable: self.log.durable,
                next: None,
                behind: 0,
            };
            encode_summary(self.volume, head, &entries[from..entries.len().min(from + per)], to);
        }
        Data::Whole(bytes.into())
    }

    /// Writes the entries into summaries if there are many.
    #[inline]
    pub fn seal_if_long(&mut self, actions: &mut Actions) {
        if self.layout.form.in_segments {
            if self.log.fills_summary() {
                self.seal_here(actions);
            }
        } else if self.log.is_long() && !self.commit.clears {
            self.seal_all(false, actions);
        }
    }

    /// Begins a commit that someone waits for, or goes on with the one that is under way. Returns
    /// true if something was done.
    pub fn go_on_with_commit(&mut self, actions: &mut Actions) -> bool {
        match self.commit.phase {
            Phase::Idle => {
                // Before the volume comes to rest, a last summary tells that all is durable, and
                // recovery can read that there is none behind it.
                let is_last_word = self.activity.is_draining()
                    && self.log.holds_nothing_of_the_host()
                    && !(self.log.is_known_of_the_host() && self.is_end_clear());
                let is_for_space = self.wants_segments() || is_last_word;
                let is_asked_for = !self.commit.waiters.is_empty()
                    || self.checkpoint.wants_commit()
                    || self.log.next - self.log.durable > MOST_VOLATILE
                    || self.activity.is_draining()
                        && !self.host.waits_for_room()
                        && !self.log.holds_nothing_of_the_host();
                // Where there is no room for the summary that tells what is durable, the root of a
                // checkpoint tells it.
                let has_room = self.log.has_room_for(0);
                let hurries = is_for_space && !has_room && self.checkpoint.hurry();
                let begins = is_asked_for || is_for_space && has_room;
                if begins {
                    self.begin_commit(is_for_space && has_room, actions);
                }
                begins || hurries
            }
            Phase::Writing if self.commit.writes[usize::from(self.commit.turn ^ 1)] == 0 => {
                self.commit.phase = Phase::Flushing;
                self.counts.flushes += 1;
                self.below.send(Op::Flush, IoOp::Flush, 0, 0, actions);
                true
            }
            Phase::Writing | Phase::Flushing => false,
        }
    }

    fn begin_commit(&mut self, is_for_space: bool, actions: &mut Actions) {
        let is_for_host = self.activity.is_draining() || !self.commit.waiters.is_empty();
        if self.activity.is_draining() {
            // A closed volume has complete footers in all segments.
            self.write_footers(actions);
        }
        let tells_anew = is_for_space && self.log.durable > self.log.said;
        if self.layout.form.in_segments && (tells_anew || self.log.has_entries()) {
            self.seal_here(actions);
        }
        for stream in (0..self.gathered.streams() as u32).map(StreamId) {
            if is_for_host && self.settings.pads && self.settings.align_bytes.is_some() {
                self.pad(stream, actions);
            }
            self.send_run(stream, actions);
        }
        if !self.layout.form.in_segments {
            self.seal_all(tells_anew, actions);
            if self.activity.is_draining() && self.log.used() < self.log.ring {
                self.clear_end(actions);
            }
        }
        self.commit.covers = self.log.next;
        self.commit.says = self.log.said;
        self.commit.begun += 1;
        self.commit.turn ^= 1;
        self.commit.phase = Phase::Writing;
    }

    /// Returns true if recovery can read where the summaries end.
    fn is_end_clear(&self) -> bool {
        self.layout.form.in_segments || self.log.ends_clear()
    }

    /// Writes zeros to the place behind the last summary. If neither copy of it could be read,
    /// recovery would have to take it for a summary that was lost, and refuse the volume.
    fn clear_end(&mut self, actions: &mut Actions) {
        for at in self.layout.end_of_ring(self.log.next_summary) {
            let op = Op::Own { turn: self.commit.count_write(), is_table: false };
            let page = self.layout.page_bytes;
            self.below.write(op, at, page, self.zeros(u64::from(page)), actions);
        }
        self.log.clear = self.log.next_summary;
        self.commit.clears = true;
    }

    /// Fills a gathered write up to its alignment with empty pages, except where that would take
    /// room that cleaning needs.
    fn pad(&mut self, stream: StreamId, actions: &mut Actions) {
        while self.gathered.holds_any(stream)
            && self.ftl.free_blocks(0) >= self.ftl.reserve()
            && !self.is_at_last_page()
        {
            let ppn = self.ftl.place_dead(stream, 0).0;
            debug_assert_eq!(self.ftl.stream_of(EraseBlockId(self.layout.segment_of(ppn))), stream);
            self.counts.padding_pages += 1;
            self.gather(ppn, self.zeros(u64::from(self.layout.page_bytes)), None, actions);
        }
    }

    /// Ends a commit, as its flush came back.
    pub fn commit_ended(&mut self, actions: &mut Actions) {
        self.commit.phase = Phase::Idle;
        if std::mem::take(&mut self.commit.clears) {
            self.seal_if_long(actions);
        }
        self.log.durable = self.commit.covers;
        self.log.known_durable = self.log.known_durable.max(self.commit.says);
        self.checkpoint.committed(self.commit.begun);
        while let Some(&(entry, waiter)) = self.commit.waiters.front()
            && entry <= self.log.durable
        {
            self.commit.waiters.pop_front();
            match waiter {
                Waiter::Flush(id) => actions.reply(id, Ok(Data::Absent)),
                Waiter::Write(write) => self.reply_to(write, actions),
            }
        }
    }
}
