//! Commands of the host: reads, writes of any whole sectors, trims.

use std::collections::VecDeque;
use std::ops::Range;

use placement::Placement;
use slab::Slab;
use units::{IoOp, Lifetime, Lpn, StreamId};

use super::below::Op;
use super::checks::{fits, lost, unfit};
use super::commit::Waiter;
use super::disk::{Entry, NOWHERE};
use super::in_segments::Whose;
use super::volume::LogVolume;
use crate::hash::{UNKNOWN, folded};
use crate::{Actions, Command, Data, Failure, Gather};

/// A command that waits for room.
#[derive(Debug)]
enum Task {
    Write(usize),
    Trim { id: u32, offset: u64, length: u32 },
}

/// A write of the host that is not replied to.
#[derive(Debug)]
struct HostWrite {
    id: u32,
    bytes: Range<u64>,
    data: Data,
    is_fua: bool,
    lifetime: Lifetime,
    /// Next page to be placed.
    next: u32,
    /// Number of pages that have no place yet.
    unplaced: u32,
    /// Number of pages that are not on the device yet.
    unwritten: u32,
    failure: Option<Failure>,
}

impl HostWrite {
    fn new(command: Command, page_bytes: u32) -> Self {
        let page = u64::from(page_bytes);
        let bytes = command.offset..command.end();
        let next = (bytes.start / page) as u32;
        let pages = bytes.end.div_ceil(page) as u32 - next;
        Self {
            id: command.id,
            bytes,
            data: command.data,
            is_fua: command.is_fua,
            lifetime: command.lifetime,
            next,
            unplaced: pages,
            unwritten: pages,
            failure: None,
        }
    }

    fn end(&self, page_bytes: u32) -> u32 {
        self.bytes.end.div_ceil(u64::from(page_bytes)) as u32
    }
}

/// A page of which a part will be written, as it was read.
#[derive(Debug)]
struct Fill {
    write: usize,
    lpn: u32,
    /// Physical page from which it was read.
    ppn: u32,
    data: Data,
}

/// Commands of the host that were not replied to, except flushes, which wait for commits.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// Commands that wait for room, in the order in which they came.
    tasks: VecDeque<Task>,
    writes: Slab<HostWrite>,
    /// Pages whose rest was read, so that a part of them can be written.
    fills: VecDeque<Fill>,
    pub reads: Gather,
    /// Stream that was chosen for the page that waits for room.
    chosen: Option<(Lpn, StreamId)>,
    last_stream: StreamId,
    /// Number of logical pages that hold something.
    mapped: u32,
}

impl Host {
    pub fn new(map: &[u32]) -> Self {
        Self { mapped: map.iter().filter(|&&ppn| ppn != NOWHERE).count() as u32, ..Self::default() }
    }

    pub fn write(&mut self, command: Command, page_bytes: u32) {
        let slot = self.writes.insert(HostWrite::new(command, page_bytes));
        self.tasks.push_back(Task::Write(slot));
    }

    pub fn trim(&mut self, command: &Command) {
        self.tasks.push_back(Task::Trim {
            id: command.id,
            offset: command.offset,
            length: command.length,
        });
    }

    /// Returns true if commands wait for room.
    pub fn waits_for_room(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Returns true if all writes and trims were replied to.
    pub fn is_quiet(&self) -> bool {
        self.writes.is_empty() && self.tasks.is_empty()
    }

    /// Gives the number of logical pages that hold something.
    pub const fn mapped(&self) -> u32 {
        self.mapped
    }

    /// Gives the stream that the host wrote to last.
    pub const fn last_stream(&self) -> StreamId {
        self.last_stream
    }

    /// Notes that so many logical pages hold nothing any more.
    pub fn unmapped(&mut self, pages: u32) {
        self.mapped -= pages;
    }

    /// Fails all writes and trims. Reads under way go on.
    pub fn fail(&mut self, failure: &Failure, actions: &mut Actions) {
        for (_, write) in std::mem::take(&mut self.writes) {
            actions.reply(write.id, Err(failure.clone()));
        }
        for task in self.tasks.drain(..) {
            if let Task::Trim { id, .. } = task {
                actions.reply(id, Err(failure.clone()));
            }
        }
        self.fills.clear();
    }
}

/// Rest of a page beside the part that the host writes.
enum Rest {
    Here(Data),
    /// At a physical page.
    Below(u32),
    Lost,
}

impl<P: Placement> LogVolume<P> {
    /// Gives zeros, or no bytes where a trace without bytes is played.
    pub fn zeros(&self, length: u64) -> Data {
        if self.is_absent { Data::Absent } else { Data::zeros(length as usize) }
    }

    /// Takes in commands for which there is room. Returns true if there were any.
    pub fn take_in(&mut self, actions: &mut Actions) -> bool {
        let mut went_on = false;
        while !self.host.fills.is_empty() && self.fill(actions) {
            went_on = true;
        }
        self.send_touched(actions);
        while let Some(task) = self.host.tasks.front() {
            let is_done = match *task {
                Task::Write(slot) => self.take_write(slot, actions),
                Task::Trim { id, offset, length } => {
                    self.take_trim(id, offset..offset + u64::from(length), actions)
                }
            };
            if !is_done {
                break;
            }
            self.host.tasks.pop_front();
            went_on = true;
        }
        went_on
    }

    /// Returns true if there is room for a page of a write, and chooses the stream that it goes to.
    /// The choice for a page that had to wait stays.
    fn room_for(&mut self, lpn: Lpn, write: usize, actions: &mut Actions) -> bool {
        // Cheap checks come first; policies count how often they are asked.
        if !self.below.can_write()
            || !self.can_log(2)
            || self.ftl.free_blocks(0) < self.ftl.reserve()
            || !self.make_way(Whose::Hosts, actions)
        {
            return false;
        }
        let stream = match self.host.chosen {
            Some((chosen, stream)) if chosen == lpn => stream,
            _ => {
                if self.ftl.placement().features().has_handles {
                    self.ftl.set_handle(self.host.writes[write].lifetime.handle());
                }
                self.ftl.host_stream(lpn)
            }
        };
        self.host.chosen = Some((lpn, stream));
        self.host.last_stream = stream;
        self.ftl.make_room(stream, 0)
    }

    /// Places a page at the frontier of the stream that was chosen for it.
    fn place(&mut self, lpn: Lpn, data: Data, write: usize, actions: &mut Actions) {
        let (_, stream) = self.host.chosen.take().expect("a stream was chosen");
        self.host.mapped += u32::from(self.ftl.lookup(lpn).is_none());
        let ppn = self.ftl.place_for_host(lpn, stream, 0).0;
        self.outdate_fills(lpn);
        self.counts.host_pages += 1;
        let is_hinted = self.host.writes[write].lifetime != Lifetime::NotSet;
        self.counts.hinted_pages += u64::from(is_hinted);
        self.cleaner.paid();
        let check = self.checksum_of(&data);
        self.note(lpn, ppn, check, false, actions);
        let waits = self.settings.align_bytes.is_none() && !self.host.writes[write].is_fua;
        // A run has pages of one write of the host at most, which hears when they are written.
        self.gather(ppn, data, waits.then_some(write), actions);
        let kept = &mut self.host.writes[write];
        kept.unplaced -= 1;
        if kept.unplaced > 0 {
            return;
        }
        if kept.is_fua {
            self.commit.wait_for(self.log.next, Waiter::Write(write));
        } else if !waits {
            self.reply_to(write, actions);
        }
    }

    /// Marks reads of this page that were to complete it as outdated, even if its next version
    /// comes to lie in the same place.
    pub fn outdate_fills(&mut self, lpn: Lpn) {
        for fill in self.host.fills.iter_mut().filter(|fill| fill.lpn == lpn.0) {
            fill.ppn = u32::MAX;
        }
    }

    /// Logs a page, whose bytes have this checksum, and its segment.
    pub fn note(
        &mut self,
        lpn: Lpn,
        ppn: u32,
        check: u64,
        is_relocated: bool,
        actions: &mut Actions,
    ) {
        let pages = self.layout.pages_per_segment;
        let segment = ppn / pages;
        let in_segments = self.layout.form.in_segments;
        // With summaries in segments, the entry was made when the segment before was full.
        if ppn.is_multiple_of(pages) && !in_segments {
            let device = self.ftl.device();
            let stream = device.blocks[segment as usize].stream;
            let opened_at = device.opened_at[segment as usize];
            self.segments.open(segment, self.log.next, opened_at, stream);
            self.begin_footer(segment, self.log.next, actions);
            self.log.push(Entry::Opened { segment, stream, opened_at });
        }
        self.segments.fill(segment, (ppn % pages) as u16 + 1);
        self.checkpoint.segment_changed(&self.layout, segment);
        self.checkpoint.page_changed(&self.layout, lpn.0);
        self.checkpoint.count_bytes(self.layout.page_bytes);
        let kept = if self.is_absent { UNKNOWN } else { folded(check) };
        self.checks.set(lpn.0, kept);
        if !in_segments {
            self.keep_for_footer(lpn.0, ppn, kept);
        }
        self.log.push(Entry::Placed { lpn: lpn.0, ppn, is_relocated, check });
        if !in_segments {
            self.seal_if_long(actions);
        }
    }

    /// Places as many pages of a write as there is room for. Returns true if all are placed, or
    /// read to be completed.
    fn take_write(&mut self, slot: usize, actions: &mut Actions) -> bool {
        let page = u64::from(self.layout.page_bytes);
        let end = self.host.writes[slot].end(self.layout.page_bytes);
        let mut is_done = true;
        while self.host.writes.get(slot).is_some_and(|write| write.next < end) {
            let lpn = Lpn(self.host.writes[slot].next);
            let within = self.layout.within(&self.host.writes[slot].bytes, lpn.0);
            let base =
                if within.end - within.start == page { None } else { Some(self.rest_of(lpn)) };
            match base {
                Some(Rest::Below(ppn)) => {
                    self.host.writes[slot].next += 1;
                    self.read_rest(slot, lpn.0, ppn, actions);
                    continue;
                }
                Some(Rest::Lost) => {
                    self.host.writes[slot].next += 1;
                    self.fail_page(slot, lost(&self.layout, lpn.0), actions);
                    continue;
                }
                Some(Rest::Here(_)) | None => {}
            }
            if !self.room_for(lpn, slot, actions) {
                is_done = false;
                break;
            }
            self.host.writes[slot].next += 1;
            let part = self.part_of(slot, lpn.0, &within);
            let data = match base {
                Some(Rest::Here(base)) => self.patched(&base, within.start, &part),
                _ => part,
            };
            self.place(lpn, data, slot, actions);
        }
        self.send_touched(actions);
        is_done
    }

    /// Gives the bytes of a write for a page.
    fn part_of(&self, slot: usize, lpn: u32, within: &Range<u64>) -> Data {
        let write = &self.host.writes[slot];
        let from = (u64::from(lpn) * u64::from(self.layout.page_bytes) + within.start
            - write.bytes.start) as usize;
        write.data.slice(from..from + (within.end - within.start) as usize)
    }

    fn patched(&mut self, base: &Data, at: u64, part: &Data) -> Data {
        self.counts.patched_pages += 1;
        if self.is_absent { Data::Absent } else { base.patched(at as usize, part) }
    }

    /// Gives the content of a page, if that is in memory; or the place where it has to be read.
    fn rest_of(&self, lpn: Lpn) -> Rest {
        match self.ftl.lookup(lpn) {
            None if self.checks.is_lost(lpn.0) => Rest::Lost,
            None => Rest::Here(self.zeros(u64::from(self.layout.page_bytes))),
            Some(ppn) => self.in_memory(ppn.0).map_or(Rest::Below(ppn.0), Rest::Here),
        }
    }

    fn read_rest(&mut self, write: usize, lpn: u32, ppn: u32, actions: &mut Actions) {
        let segment = self.layout.segment_of(ppn);
        self.segments.pin(segment);
        self.below.send(
            Op::Fill { write, lpn, ppn, expected: self.checks.of(lpn) },
            IoOp::Read,
            self.layout.page(ppn),
            self.layout.page_bytes,
            actions,
        );
    }

    /// Takes the rest of a page, if it could be read.
    pub fn fill_ended(
        &mut self,
        (write, lpn, ppn, expected): (usize, u32, u32, u32),
        outcome: Result<Data, Failure>,
        actions: &mut Actions,
    ) {
        self.segments.unpin(self.layout.segment_of(ppn));
        match outcome {
            Ok(data) => {
                let found = self.folded_of(&data, expected);
                if fits(expected, found) {
                    self.host.fills.push_back(Fill { write, lpn, ppn, data });
                } else if self.ftl.lookup(Lpn(lpn)).is_none_or(|now| now.0 != ppn) {
                    // A bad old version does not matter: the present content of the page is wanted.
                    self.counts.bad_reads += 1;
                    let past = Fill { write, lpn, ppn: u32::MAX, data: Data::Absent };
                    self.host.fills.push_back(past);
                } else {
                    self.counts.bad_reads += 1;
                    let failure = unfit(&self.layout, lpn, ppn, expected, found);
                    self.fail_page(write, failure, actions);
                }
            }
            Err(failure) => self.fail_page(write, failure, actions),
        }
    }

    /// Fails a page of a write.
    fn fail_page(&mut self, write: usize, failure: Failure, actions: &mut Actions) {
        let kept = &mut self.host.writes[write];
        kept.failure = Some(failure);
        kept.unplaced -= 1;
        kept.unwritten -= 1;
        self.reply_if_done(write, actions);
    }

    /// Writes a part of a page whose rest was read, if there is room. If the page has changed
    /// meanwhile, it is read again, so that other writes to it are kept.
    fn fill(&mut self, actions: &mut Actions) -> bool {
        let Some(&Fill { write, lpn, ppn, .. }) = self.host.fills.front() else { return false };
        let base = match self.ftl.lookup(Lpn(lpn)) {
            Some(now) if now.0 == ppn => None,
            _ => match self.rest_of(Lpn(lpn)) {
                Rest::Here(base) => Some(base),
                Rest::Below(now) => {
                    self.host.fills.pop_front();
                    self.read_rest(write, lpn, now, actions);
                    return true;
                }
                Rest::Lost => {
                    self.host.fills.pop_front();
                    self.fail_page(write, lost(&self.layout, lpn), actions);
                    return true;
                }
            },
        };
        if !self.room_for(Lpn(lpn), write, actions) {
            return false;
        }
        let Some(fill) = self.host.fills.pop_front() else { return false };
        let within = self.layout.within(&self.host.writes[write].bytes, lpn);
        let part = self.part_of(write, lpn, &within);
        let data = self.patched(&base.unwrap_or(fill.data), within.start, &part);
        self.place(Lpn(lpn), data, write, actions);
        self.send_touched(actions);
        true
    }

    /// Notes that pages of a write are on the device.
    pub fn written(&mut self, write: usize, pages: u32, actions: &mut Actions) {
        self.host.writes[write].unwritten -= pages;
        self.reply_if_done(write, actions);
    }

    fn reply_if_done(&mut self, write: usize, actions: &mut Actions) {
        let kept = &self.host.writes[write];
        if kept.unplaced > 0 {
            return;
        }
        if kept.is_fua && kept.failure.is_none() {
            self.commit.wait_for(self.log.next, Waiter::Write(write));
        } else if kept.unwritten == 0 || kept.is_fua || self.settings.align_bytes.is_some() {
            self.reply_to(write, actions);
        }
    }

    /// Ends a write, with a reply.
    pub fn reply_to(&mut self, write: usize, actions: &mut Actions) {
        let write = self.host.writes.remove(write);
        actions.reply(write.id, write.failure.map_or(Ok(Data::Absent), Err));
    }

    /// Trims whole pages. Parts of pages are left, as the contract of a trim allows.
    fn take_trim(&mut self, id: u32, bytes: Range<u64>, actions: &mut Actions) -> bool {
        let has_room = self.can_log(1)
            && (!self.layout.form.in_segments
                || self.ftl.free_blocks(0) >= self.ftl.reserve() && self.has_way(Whose::Hosts));
        if !has_room || !self.make_way(Whose::Hosts, actions) {
            return false;
        }
        let page = u64::from(self.layout.page_bytes);
        let pages = bytes.start.div_ceil(page) as u32..(bytes.end / page) as u32;
        let (mut forgotten, mut found) = (0, 0);
        for lpn in pages.clone() {
            let was_lost = self.checks.forget(lpn);
            if self.ftl.lookup(Lpn(lpn)).is_some() {
                self.ftl.trim(Lpn(lpn));
                self.outdate_fills(Lpn(lpn));
                forgotten += 1;
            } else if was_lost {
                found += 1;
            } else {
                continue;
            }
            self.checkpoint.page_changed(&self.layout, lpn);
        }
        if forgotten + found > 0 {
            self.host.unmapped(forgotten);
            self.counts.trimmed_pages += u64::from(forgotten);
            self.log.push(Entry::Trimmed {
                lpn: pages.start,
                pages: u64::from(pages.end - pages.start),
            });
            self.seal_if_long(actions);
        }
        actions.reply(id, Ok(Data::Absent));
        true
    }
}

#[cfg(test)]
mod tests {
    use ftl::PageMapped;
    use placement::Context;
    use placement::policies::none::NoPlacement;
    use registry::Spec;
    use units::EraseBlockId;

    use super::super::layout::VolumeLayout;
    use super::super::recovery::Recovered;
    use super::super::settings::VolumeSettings;
    use super::*;
    use crate::{Facts, Layer, Limits, Reply};

    const PAGE: u32 = 1024;

    fn volume() -> LogVolume<NoPlacement> {
        let spec =
            Spec::parse("log_volume(page=1Ki,segment=4Ki,over_provisioning=60%,summary_pages=8)")
                .unwrap();
        let args = super::super::ENTRY.info.accept(&spec).unwrap();
        let settings = VolumeSettings::read(&args, &Facts::default()).unwrap();
        let below = Limits { capacity_bytes: 128 << 10, sector_bytes: 512, most_bytes: 16 << 10 };
        let layout = VolumeLayout::plan(&settings, below).unwrap();
        let context = Context::new(layout.geometry(), 1);
        let victims =
            placement::build_victim(&Spec::parse("greedy").unwrap(), &context, 1).unwrap();
        let ftl = PageMapped::new(context.geometry, "none", NoPlacement, victims).unwrap();
        LogVolume::new(Recovered::empty(layout), settings, below, ftl)
    }

    fn write(volume: &mut LogVolume<NoPlacement>, offset: u64, length: u32, actions: &mut Actions) {
        let data = Data::copy_of(&vec![1; length as usize]);
        volume.submit(Command { data, ..Command::new(1, IoOp::Write, offset, length) }, 0, actions);
    }

    /// Writes page 0 until it comes to lie in this place; segments that hold no more of it are
    /// written to again.
    fn wander_to(volume: &mut LogVolume<NoPlacement>, place: u32) {
        let mut full = None;
        for _ in 0..10_000 {
            assert!(volume.ftl.make_room(StreamId(0), 0));
            let now = volume.ftl.place_for_host(Lpn(0), StreamId(0), 0).0;
            if now == place {
                return;
            }
            if let Some(segment) = full.take() {
                volume.ftl.reclaim(EraseBlockId(segment), 0);
            }
            if (now + 1).is_multiple_of(3) {
                full = Some(now / 3);
            }
        }
        panic!("page 0 does not come to lie at {place} again");
    }

    /// A part of a page waits for room, and the rest of the page was read; meanwhile the page is
    /// trimmed and written, and its newest version comes to lie where the rest was read.
    #[test]
    fn the_rest_of_a_page_is_read_again_if_it_was_written_meanwhile_even_to_the_same_place() {
        let (mut volume, mut actions) = (volume(), Actions::default());
        write(&mut volume, 0, PAGE, &mut actions);
        let id = actions.down.pop().unwrap().id;
        volume.replied(Reply { id, outcome: Ok(Data::Absent) }, 0, &mut actions);
        let place = volume.ftl.lookup(Lpn(0)).unwrap().0;
        write(&mut volume, 0, 512, &mut actions);
        let read = actions.down.pop().unwrap();
        assert_eq!((read.op, read.length), (IoOp::Read, PAGE));
        // There is no room for it.
        volume.log.promise(1 << 20);
        volume.replied(
            Reply { id: read.id, outcome: Ok(Data::zeros(PAGE as usize)) },
            0,
            &mut actions,
        );
        assert_eq!((volume.host.fills.len(), actions.down.len()), (1, 0));
        volume.log.keep_promise(1 << 20);
        assert!(volume.take_trim(2, 0..u64::from(PAGE), &mut actions));
        wander_to(&mut volume, place);
        volume.pump(&mut actions);
        let again = actions.down.pop().unwrap();
        assert_eq!(
            (again.op, again.offset),
            (IoOp::Read, read.offset),
            "what was read before is of the past"
        );
    }
}
