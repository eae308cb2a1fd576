//! The volume in use: its parts, and its commands, replies and signals.

use ftl::PageMapped;
use placement::{AnyVictim, Placement};
use units::{IoOp, Nanos, StreamId};

use super::NAME;
use super::below::{Below, Op};
use super::checkpoint::Checkpoint;
use super::checks::Checks;
use super::cleaning::Cleaner;
use super::commit::{Commit, Log};
use super::counts::{COUNTERS, Counts};
use super::disk::{Root, Segment};
use super::footer::{Footers, entries_of_mapped};
use super::gathered::Gathered;
use super::intake::Host;
use super::layout::VolumeLayout;
use super::recovery::Recovered;
use super::scrub::Scrub;
use super::segments::Segments;
use super::settings::VolumeSettings;
use crate::{
    Actions, Command, Counter, Data, Extent, Failure, Layer, Limits, Reply, ScrubState, Signal,
};

/// Times of activity, and the idle work that follows from them.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Time of the last event, from above or below.
    last_heard: Nanos,
    is_resting: bool,
    is_draining: bool,
}

impl Activity {
    /// Returns true while all is to be made durable that the host wrote before its next write.
    pub const fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Returns true if nothing has come from above for so long that it cleans ahead.
    pub const fn is_resting(&self) -> bool {
        self.is_resting
    }
}

/// Makes the footers of the segments in which the streams go on.
fn footers_of_open<P: Placement>(
    layout: &VolumeLayout,
    root: &Root,
    map: &[u32],
    checks: &Checks,
    segments: &[Segment],
    ftl: &PageMapped<P, AnyVictim>,
) -> Footers {
    if layout.form.in_segments {
        return Footers::default();
    }
    let streams = ftl.device().streams.len();
    let mut footers = Footers::new(streams, layout.pages_per_segment, root.epoch, root.durable);
    let frontier =
        |stream| ftl.frontier(stream, 0).map(|(ppn, _)| (stream, layout.segment_of(ppn.0)));
    let open: Vec<(StreamId, u32)> =
        (0..streams as u32).map(StreamId).filter_map(frontier).collect();
    let which: Vec<u32> = open.iter().map(|&(_, segment)| segment).collect();
    let number = root.durable.saturating_sub(1);
    let entries = entries_of_mapped(layout, &which, map, |lpn| checks.of(lpn), number);
    for ((stream, segment), entries) in open.into_iter().zip(entries) {
        footers.goes_on(stream, segment, segments[segment as usize].opened, entries);
    }
    footers
}

/// A log-structured volume with a placement policy: its parts, each of which has its own state.
pub(super) struct LogVolume<P> {
    pub layout: VolumeLayout,
    /// Identity, which is the seed of all checksums.
    pub volume: u64,
    pub settings: VolumeSettings,
    pub ftl: PageMapped<P, AnyVictim>,
    pub segments: Segments,
    pub checks: Checks,
    pub host: Host,
    pub gathered: Gathered,
    pub below: Below,
    pub log: Log,
    pub footers: Footers,
    pub commit: Commit,
    pub checkpoint: Checkpoint,
    pub cleaner: Cleaner,
    pub scrub: Scrub,
    pub activity: Activity,
    /// True if a trace without bytes is played.
    pub is_absent: bool,
    pub poison: Option<Failure>,
    pub counts: Counts,
}

impl<P: Placement> LogVolume<P> {
    pub fn new(
        recovered: Recovered,
        settings: VolumeSettings,
        below: Limits,
        ftl: PageMapped<P, AnyVictim>,
    ) -> Self {
        let Recovered { layout, volume, root, map, checks, segments, lost_pages, .. } = recovered;
        let streams = ftl.device().streams.len();
        let footers = footers_of_open(&layout, &root, &map, &checks, &segments, &ftl);
        Self {
            segments: Segments::new(segments),
            checks,
            host: Host::new(&map),
            gathered: Gathered::new(streams, settings.align_bytes, below.most_bytes),
            below: Below::new(below, settings.outstanding),
            log: Log::new(&layout, &root),
            footers,
            checkpoint: Checkpoint::new(&layout, &settings, root),
            cleaner: Cleaner::new(&layout, &settings, &ftl, below),
            commit: Commit::default(),
            scrub: Scrub::default(),
            activity: Activity::default(),
            is_absent: false,
            poison: None,
            counts: Counts { lost_pages, ..Counts::default() },
            layout,
            volume,
            settings,
            ftl,
        }
    }

    /// Does what can be done, until nothing more can.
    pub fn pump(&mut self, actions: &mut Actions) {
        loop {
            let went_on = self.take_in(actions)
                | self.clean(actions)
                | self.go_on_with_checkpoint(actions)
                | self.go_on_with_commit(actions)
                | self.scrub_on(actions);
            if !went_on || self.poison.is_some() {
                return;
            }
        }
    }

    /// Gives the time when it begins to clean ahead, if nothing comes until then.
    fn rests_at(&self) -> Option<Nanos> {
        let idle_after = self.settings.idle_after?;
        let may_rest = !self.activity.is_resting && self.is_quiet() && self.should_clean_ahead();
        may_rest.then(|| self.activity.last_heard.saturating_add(idle_after))
    }

    /// Returns true if nothing is under way, above or below.
    fn is_quiet(&self) -> bool {
        self.below.is_quiet() && self.host.is_quiet()
    }

    /// Poisons the volume, as something acknowledged may be lost: nothing more is written, and all
    /// commands that wait for writes fail.
    pub fn poison(&mut self, cause: &str, actions: &mut Actions) {
        let failure = Failure::Poisoned { layer: NAME, cause: cause.into() };
        self.host.fail(&failure, actions);
        for id in self.commit.flushes() {
            actions.reply(id, Err(failure.clone()));
        }
        self.below.give_up_waiting();
        self.commit = Commit::default();
        self.poison = Some(failure);
    }

    /// Handles the end of a command.
    fn end(&mut self, op: Op, outcome: Result<Data, Failure>, actions: &mut Actions) {
        match (op, outcome) {
            (Op::Read(read), outcome) => self.read_ended(&read, outcome, actions),
            (op, Err(_)) if self.poison.is_some() => self.below.keep_unwritten(op),
            (_, Ok(_)) if self.poison.is_some() => {}
            (Op::Scrub(read), outcome) => self.scrubbed(read, &outcome, actions),
            (Op::Fill { write, lpn, ppn, expected }, outcome) => {
                self.fill_ended((write, lpn, ppn, expected), outcome, actions);
            }
            (Op::Move { number, pages, tries }, Ok(data)) => {
                self.moved(number, pages, tries, &data, actions);
            }
            (Op::Move { number, pages, tries }, Err(_)) => {
                self.not_moved(number, pages, tries, actions);
            }
            (Op::Trim { segment }, outcome) => self.trimmed(segment, outcome.is_ok()),
            (op, Err(failure)) => {
                self.below.keep_unwritten(op);
                self.poison(&failure.to_string(), actions);
            }
            (Op::Pages { run, turn }, Ok(_)) => {
                self.commit.ended(turn);
                self.segments.arrived(self.layout.segment_of(run.first()));
                if let Some((write, pages)) = run.of_host() {
                    self.written(write, pages, actions);
                }
            }
            (Op::Own { turn, is_table }, Ok(_)) => {
                self.commit.ended(turn);
                if is_table {
                    self.checkpoint.table_ended();
                }
            }
            (Op::Footer { turn, segment }, Ok(_)) => self.footer_ended(turn, segment, actions),
            (Op::Flush, Ok(_)) => self.commit_ended(actions),
            (Op::Root, Ok(_)) => self.checkpoint.root_ended(),
            (Op::RootFlush, Ok(_)) => self.checkpoint_ended(),
        }
    }
}

impl<P: Placement + 'static> Layer for LogVolume<P> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn limits(&self) -> Limits {
        let capacity_bytes =
            u64::from(self.layout.logical_pages) * u64::from(self.layout.page_bytes);
        Limits { capacity_bytes, ..self.below.limits() }
    }

    fn submit(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        command.check(self.limits());
        (self.activity.last_heard, self.activity.is_resting) = (now, false);
        // A read is safe by its checksum, whatever happened to writes.
        let is_safe = command.op == IoOp::Read && self.checks.are_kept();
        if let Some(failure) = self.poison.as_ref().filter(|_| !is_safe) {
            actions.reply(command.id, Err(failure.clone()));
            return;
        }
        match command.op {
            IoOp::Read => self.read(&command, actions),
            IoOp::Write => {
                self.is_absent |= command.data.is_absent();
                self.activity.is_draining = false;
                self.host.write(command, self.layout.page_bytes);
                self.pump(actions);
            }
            IoOp::Trim => {
                self.host.trim(&command);
                self.pump(actions);
            }
            IoOp::Flush => {
                // Where a commit takes a page of the log, a host that flushes again and again must
                // not use up the pages that cleaning needs.
                let is_flushed = self.layout.form.in_segments && self.log.is_flushed();
                if is_flushed || self.log.is_durable() {
                    actions.reply(command.id, Ok(Data::Absent));
                } else {
                    self.commit.wait_for(self.log.next, super::commit::Waiter::Flush(command.id));
                    self.pump(actions);
                }
            }
        }
    }

    fn replied(&mut self, reply: Reply, now: Nanos, actions: &mut Actions) {
        self.activity.last_heard = now;
        let op = self.below.ended(reply.id);
        self.end(op, reply.outcome, actions);
        if self.poison.is_some() {
            return;
        }
        self.below.send_waiting(actions);
        self.pump(actions);
    }

    fn signal(&mut self, signal: Signal, now: Nanos, actions: &mut Actions) {
        if self.poison.is_some() {
            return;
        }
        match signal {
            Signal::Drain => {
                (self.activity.is_draining, self.activity.is_resting) = (true, false);
                self.scrub.give_up();
                self.pump(actions);
            }
            Signal::Scrub => {
                self.scrub.begin(now);
                self.pump(actions);
            }
            Signal::ScrubEnds => self.scrub.give_up(),
            Signal::CheckpointBegins | Signal::CheckpointEnds => {}
        }
    }

    fn wakes_at(&self) -> Option<Nanos> {
        if self.poison.is_some() {
            return None;
        }
        self.rests_at().into_iter().chain(self.scrub.wakes_at()).min()
    }

    fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        if self.poison.is_some() {
            return;
        }
        self.scrub_at(now, actions);
        if self.rests_at().is_some_and(|at| at <= now) {
            self.activity.is_resting = true;
            self.pump(actions);
        }
    }

    fn scrub(&self) -> Option<ScrubState> {
        self.checks.are_kept().then(|| self.scrub_state())
    }

    fn bad_places(&self, most: usize) -> Vec<(u64, u64)> {
        self.bad_places_of_scrub(most)
    }

    fn is_idle(&self) -> bool {
        // Pages that cleaning moved after the host's last page may be lost: they still lie in their
        // old places.
        self.is_quiet() && (self.poison.is_some() || self.log.is_known_of_the_host())
    }

    fn zeroing_bytes(&self) -> Option<u32> {
        Some(self.layout.page_bytes)
    }

    fn extent(&self, offset: u64, length: u64) -> Extent {
        let page = u64::from(self.layout.page_bytes);
        let is_hole = |lpn: u64| {
            self.ftl.lookup(units::Lpn(lpn as u32)).is_none() && !self.checks.is_lost(lpn as u32)
        };
        let (first, end) = (offset / page, (offset + length).div_ceil(page));
        let is_first = is_hole(first);
        let behind = (first + 1..end).find(|&lpn| is_hole(lpn) != is_first).unwrap_or(end);
        Extent { length: (behind * page).min(offset + length) - offset, is_hole: is_first }
    }

    fn counters(&self) -> &'static [Counter] {
        COUNTERS
    }

    fn count(&self, into: &mut Vec<u64>) {
        let scrub = self.scrub_state();
        let levels = Counts {
            segments_free: self.ftl.free_blocks(0) as u64,
            segments_held: self.cleaner.held() as u64,
            gathered_pages: self.gathered.pages(),
            bad_pages: self.checks.lost(),
            scrub_pages_left: scrub.pages_left,
            unread_pages: scrub.unread_pages,
            ..self.counts
        };
        levels.list(into);
    }
}
