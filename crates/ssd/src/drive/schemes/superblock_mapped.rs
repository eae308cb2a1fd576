//! Page mapping over superblocks, as in modern drives: erase blocks of all planes of all dies are
//! opened, written in step and cleaned together.

use std::collections::VecDeque;

use placement::{AnyVictim, BuildError, Placement};
use registry::{Info, Param, ParamKind};
use units::{Geometry, Lpn, PageOp, Ppn, StreamId};

use super::behind_cache::BehindCache;
use super::lane::{Thresholds, Waiting};
use super::pace::Pace;
use super::page_mapped::{Place, SchemeSettings};
use super::stripes::Stripes;
use super::windows::{Windows, own_work};
use super::{FdpCounts, ReadPath, Scheme, SchemeCounters, WornOut};
use crate::drive::media::{Cause, Command, Done, FlashOp, Media, Tag};
use crate::drive::profile::{Profile, StaticRule};
use crate::drive::time::{Picos, picos_of_micros};
use ftl::PageMapped;

mod cleaning;
mod handles;
mod rebuild;
mod slc;
mod turns;

pub use handles::ByHandle;
pub use slc::SlcSettings;

use cleaning::{Ending, Job, MOST_ENDING};
use handles::Record;
use rebuild::Rebuild;
use slc::Slc;
use turns::Turns;

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "superblock_mapped",
    aliases: &["superblocks"],
    summary: "any logical page anywhere; erase blocks of all planes are written and cleaned \
              together, as superblocks",
    source: "Haas, Lee, Bonnet & Leis (SSD-iq), VLDB 2025; Micheloni et al., Inside Solid State \
             Drives, 2018, chapter 3",
    params: &[
        Param {
            name: "cleaning_stripes",
            kind: ParamKind::Number { min: 0.25, max: 64.0 },
            default: "2",
            help: "stripes (one program on each die) of survivors that cleaning has under way, \
                   read or waiting to be programmed",
        },
        Param {
            name: "pad_us",
            kind: ParamKind::Number { min: 0.0, max: 1e9 },
            default: "500",
            help: "microseconds after which a program that is not full is padded and carried out, \
                   if a page of the host's waits in it and the write buffer is not protected from \
                   power loss",
        },
    ],
};

/// A program unit that is being filled: consecutive pages of one superblock.
#[derive(Debug, Default)]
struct Filling {
    superblock: u32,
    first: Ppn,
    /// For each page, the place that it is relocated from, if it is, and the tag of its program.
    pages: Vec<(Option<Ppn>, Tag)>,
    has_relocated: bool,
    /// Time at which the first page of the host came.
    since: Picos,
}

/// The scheme. Pages wait in the controller until a program unit is full (`Stripes`); a victim is
/// erased when the units with its survivors are programmed, so that none of its data is only in
/// memory then. Meanwhile the next victim is cleaned.
///
/// Simplifications: a superblock is retired as a whole when the first of its erase blocks is worn
/// out; wear is evened out by taking the least worn superblock, and by moving data that has lain
/// for long (`wear_levelling.static_rule = "age"`).
#[derive(Debug)]
pub struct SuperblockMapped<P> {
    ftl: PageMapped<BehindCache<P>, AnyVictim>,
    /// `None` without an SLC cache.
    slc: Option<Box<Slc>>,
    stripes: Stripes,
    filling: Vec<Filling>,
    /// Used fillings, kept for reuse.
    empty: Vec<Filling>,
    job: Job,
    /// The victims that all survivors have left, and the current one.
    ending: [Ending; MOST_ENDING],
    /// Number of relocated pages that are not programmed yet.
    unprogrammed: u32,
    waiting: VecDeque<Waiting>,
    /// One bit per logical page, set if its newest version waits for room.
    waits: Vec<u64>,
    thresholds: Thresholds,
    most_under_way: u32,
    pace: Pace,
    /// Number of pages that the host has written since credits were last given.
    uncredited: u32,
    /// `None` if nothing is padded for the host.
    pad_after: Option<Picos>,
    wake_at: Picos,
    page_bytes: u32,
    padded_pages: u64,
    parity_pages: u64,
    /// Erases of each erase block, which are those of its superblock.
    erased: Vec<u32>,
    /// Number of erase blocks that are bad from the factory.
    bad_blocks: u64,
    worn_out: Option<WornOut>,
    /// Record of placement by the host, if there is any.
    handles: Option<Box<Record>>,
    /// `None` unless dies take turns, or pages are rebuilt.
    turns: Option<Box<Turns>>,
    rebuild: Option<Rebuild>,
    rebuilt_pages: u64,
    windows: Option<Windows>,
}

/// Gives a command; one of the scheme's own waits for the turn of its die.
#[inline]
fn give(command: Command, is_own: bool, turns: &mut Option<Box<Turns>>, media: &mut Media) {
    match turns {
        Some(turns) if is_own => turns.give(command, media),
        _ => media.submit(command),
    }
}

/// Checks that the policy has room beside a static cache, and beside the open superblock of any
/// cache.
fn check_room<P: Placement>(
    geometry: &Geometry,
    slc: Option<&SlcSettings>,
    placement: &BehindCache<P>,
    name: &str,
) -> Result<(), BuildError> {
    let Some(slc) = slc else { return Ok(()) };
    let needed = (placement.streams() + placement.relocation_targets() + 2) as u32 + slc.fixed();
    let spare_blocks = geometry.spare_blocks();
    if spare_blocks >= needed {
        return Ok(());
    }
    let (name, erase_blocks) = (name.to_owned(), geometry.erase_blocks);
    Err(BuildError::TooSmall { name, erase_blocks, spare_blocks, needed })
}

impl<P: Placement> SuperblockMapped<P> {
    /// Makes the scheme over erased media. `victims` has [`Placement::domains`] domains.
    ///
    /// # Errors
    /// [`BuildError::TooSmall`] if there are too few spare superblocks for the policy.
    pub fn new(
        settings: &SchemeSettings<'_>,
        slc: Option<SlcSettings>,
        stripes: Stripes,
        name: &str,
        placement: BehindCache<P>,
        victims: AnyVictim,
    ) -> Result<Self, BuildError> {
        let layout = settings.layout;
        let geometry = stripes.geometry(layout.page_bytes, settings.logical_pages);
        let cache_stream = placement.cache_stream();
        check_room(&geometry, slc.as_ref(), &placement, name)?;
        let mut ftl = PageMapped::new(geometry, name, placement, victims)?;
        ftl.lanes_mut().count_valid_pages();
        ftl.lanes_mut().take_least_worn_first();
        if settings.wear_levelling.static_rule == StaticRule::Age {
            let wear = settings.wear_levelling;
            ftl.move_what_lies_long(wear.age_cycles, wear.age_every);
        }
        if !settings.endurance.is_empty() {
            let of_superblock = |superblock| {
                let blocks = stripes.blocks_of(superblock).iter();
                blocks.map(|block| settings.endurance[block.index()]).min().unwrap_or(0)
            };
            let endurance = (0..stripes.superblocks()).map(of_superblock).collect();
            ftl.lanes_mut().set_endurance(endurance);
        }
        let share = |share: f64| (share * f64::from(stripes.superblocks())).ceil() as usize;
        let asked = settings.args.number("cleaning_stripes") * f64::from(stripes.stripe_pages());
        // Each stream that survivors go to may hold a unit that is not full.
        let streams = ftl.device().streams.len() as u32;
        let least = (streams + 1) * stripes.unit_pages;
        let start_below = share(settings.cleaning.start_below_free);
        let pads = !settings.power_loss_protected;
        let mut scheme = Self {
            slc: None,
            filling: Vec::new(),
            empty: Vec::new(),
            job: Job::default(),
            ending: [Ending::default(); MOST_ENDING],
            unprogrammed: 0,
            waiting: VecDeque::new(),
            waits: vec![0; (settings.logical_pages as usize).div_ceil(64)],
            thresholds: Thresholds {
                start_below,
                background_below: share(settings.cleaning.background_below_free),
                idle: picos_of_micros(settings.cleaning.idle_us),
                occupies_die: false,
            },
            most_under_way: (asked as u32).max(least),
            pace: Pace::new(settings.cleaning, start_below as f64, stripes.stripe_pages()),
            uncredited: 0,
            pad_after: pads.then(|| picos_of_micros(settings.args.number("pad_us"))),
            wake_at: Picos::MAX,
            page_bytes: layout.page_bytes,
            padded_pages: 0,
            parity_pages: 0,
            erased: vec![0; layout.erase_blocks() as usize],
            worn_out: None,
            handles: ftl
                .placement()
                .features()
                .has_handles
                .then(|| Box::new(Record::new(settings.fdp))),
            bad_blocks: settings.endurance.iter().filter(|&&cycles| cycles == 0).count() as u64,
            turns: None,
            rebuild: None,
            rebuilt_pages: 0,
            windows: Windows::new(settings.cleaning),
            ftl,
            stripes,
        };
        if let (Some(slc), Some(stream)) = (slc, cache_stream) {
            let keep = (scheme.ftl.reserve() + 1).max(start_below);
            scheme.use_slc(&slc, stream, keep);
        }
        Ok(scheme)
    }

    /// Uses parity for reads, and lets dies take turns in cleaning, if the profile says so.
    #[must_use]
    pub fn using_parity(mut self, profile: &Profile) -> Self {
        self.rebuild = Rebuild::new(profile.ftl.parity_reads, &profile.media);
        let rotates = profile.cleaning.rotates;
        if rotates || self.rebuild.is_some() {
            let turns = Turns::new(rotates, &self.stripes, &profile.layout());
            self.turns = Some(Box::new(turns));
        }
        self
    }

    /// Checks that all of the host's pages still have room.
    fn check_wear(&mut self) {
        let lanes = self.ftl.lanes();
        let is_whole = lanes.retired_blocks() == 0;
        if !is_whole && lanes.capacity(0) <= self.ftl.device().geometry.logical_pages {
            self.wears_out();
        }
    }

    #[cold]
    fn wears_out(&mut self) {
        let host_page_writes = self.ftl.counters().host_page_writes;
        self.worn_out.get_or_insert(WornOut { plane: 0, host_page_writes });
    }

    fn locate(&self, lpn: Lpn, media: &Media) -> Place {
        if self.does_wait(lpn) {
            return Place::Memory;
        }
        let Some(page) = self.ftl.lookup(lpn) else { return Place::Nowhere };
        let page = self.stripes.on_media(page);
        if media.is_programmed(page) { Place::Flash(page) } else { Place::Memory }
    }

    #[inline]
    fn does_wait(&self, lpn: Lpn) -> bool {
        !self.waiting.is_empty() && self.waits[lpn.index() / 64] >> (lpn.0 % 64) & 1 == 1
    }

    /// Marks the version that waits for room as out of date.
    #[cold]
    fn kill_waiting(&mut self, lpn: Lpn) {
        self.waits[lpn.index() / 64] &= !(1 << (lpn.0 % 64));
        let mut waiting = self.waiting.iter_mut();
        let waiting = waiting.find(|waiting| waiting.lpn == lpn && !waiting.is_dead);
        waiting.expect("a marked page waits").is_dead = true;
    }

    /// Adds a page with its new place to the program unit that it belongs to.
    fn fill(&mut self, page: Ppn, from: Option<Ppn>, tag: Tag, media: &mut Media) {
        let (superblock, offset) = self.stripes.split(page);
        self.note_filled(superblock, offset, from.is_none(), media);
        let known = self.filling.iter().position(|one| one.superblock == superblock);
        let number = known.unwrap_or_else(|| {
            let fresh = self.empty.pop().unwrap_or_default();
            self.filling.push(Filling { superblock, first: page, ..fresh });
            self.filling.len() - 1
        });
        let filling = &mut self.filling[number];
        debug_assert_eq!(filling.first.0 + filling.pages.len() as u32, page.0);
        filling.has_relocated |= from.is_some();
        if from.is_none()
            && filling.since == 0
            && let Some(pad_after) = self.pad_after
        {
            filling.since = media.now().max(1);
            self.wake_at = self.wake_at.min(media.now() + pad_after);
        }
        filling.pages.push((from, tag));
        if self.stripes.ends_unit(superblock, offset) {
            self.program(number, media);
        }
    }

    /// Programs a unit, full or not, and the parity if it ends a stripe.
    fn program(&mut self, number: usize, media: &mut Media) {
        let mut filling = self.filling.swap_remove(number);
        let (superblock, first) = self.stripes.split(filling.first);
        let last = first + filling.pages.len() as u32 - 1;
        media.hold();
        let mut is_own = self.is_in_turn(filling.has_relocated, filling.first, media);
        for (place, (from, tag)) in (filling.first.0..).zip(filling.pages.drain(..)) {
            let page = self.stripes.on_media(Ppn(place));
            let command = match from {
                Some(from) => Command::copy(from, page, self.page_bytes, self.cause_of(tag), tag),
                None => Command::program(page, self.page_bytes, Cause::Host, tag),
            };
            give(command, is_own, &mut self.turns, media);
        }
        for page in self.stripes.parity_after(superblock, last) {
            self.parity_pages += 1;
            is_own |= self.holds_program_of(page, media);
            let tag = Tag::scheme(if is_own { cleaning::OWN_PARITY } else { cleaning::PARITY });
            let command = Command::program(page, self.page_bytes, Cause::Parity, tag);
            give(command, is_own, &mut self.turns, media);
        }
        media.release();
        (filling.has_relocated, filling.since) = (false, 0);
        self.empty.push(filling);
    }

    /// Returns true if programs of a unit wait for the turn of its die: those of cleaning, and
    /// those that have to follow such.
    #[inline]
    fn is_in_turn(&self, has_relocated: bool, first: Ppn, media: &Media) -> bool {
        self.turns.is_some()
            && (has_relocated || self.holds_program_of(self.stripes.on_media(first), media))
    }

    #[inline]
    fn holds_program_of(&self, page: Ppn, media: &Media) -> bool {
        let block = media.layout().block_of(page);
        self.turns.as_ref().is_some_and(|turns| turns.holds_program_of(block, media))
    }

    /// Pads a unit, and programs it. The rest of an erase block that was closed early is left
    /// unwritten.
    fn pad(&mut self, number: usize, media: &mut Media) {
        let Filling { superblock, first, ref pages, .. } = self.filling[number];
        let stream = self.ftl.device().blocks[superblock as usize].stream;
        let mut next = first.0 + pages.len() as u32;
        while !self.stripes.ends_program(superblock, self.stripes.split(Ppn(next - 1)).1) {
            if self.ftl.leave_unused(StreamId(u32::from(stream)), 0) != Some(Ppn(next)) {
                break;
            }
            self.padded_pages += 1;
            next += 1;
            if self.ftl.placement().features().has_handles
                && let Some(handles) = &mut self.handles
            {
                handles.padded(u32::from(stream), superblock);
            }
        }
        self.program(number, media);
    }

    /// Programs the begun units of superblocks that were closed early: nobody fills those units,
    /// and held programs would come after the superblock was erased.
    fn program_closed(&mut self, media: &mut Media) {
        while let Some(number) = self.filling.iter().position(|one| !self.is_open(one)) {
            self.program(number, media);
        }
    }

    /// Returns true if the next page of a unit is the next page of its stream.
    fn is_open(&self, filling: &Filling) -> bool {
        let stream = self.ftl.device().blocks[filling.superblock as usize].stream;
        let next = filling.first.0 + filling.pages.len() as u32;
        self.ftl.frontier(StreamId(u32::from(stream)), 0).is_some_and(|(page, _)| page.0 == next)
    }

    /// Counts a page that the host wrote, by its handle.
    #[inline]
    fn record(&mut self, stream: StreamId, page: Ppn) {
        if self.ftl.placement().features().has_handles
            && let Some(handles) = &mut self.handles
        {
            handles.wrote(stream, self.stripes.split(page).0);
        }
    }

    /// Writes waiting pages, as far as there is room.
    fn admit(&mut self, media: &mut Media) {
        while let Some(&Waiting { lpn, tag, is_dead, handle }) = self.waiting.front() {
            if self.pace.is_behind() {
                return;
            }
            if self.ftl.placement().features().has_handles {
                self.ftl.set_handle(handle);
            }
            let (stream, has_room) = self.room_for_host(lpn);
            if !has_room {
                return;
            }
            self.waiting.pop_front();
            let page = if is_dead {
                self.ftl.place_dead(stream, 0)
            } else {
                self.waits[lpn.index() / 64] &= !(1 << (lpn.0 % 64));
                self.ftl.place_for_host(lpn, stream, 0)
            };
            self.record(stream, page);
            self.fill(page, None, tag, media);
            self.keep_step(media);
        }
    }
}

impl<P: Placement> Scheme for SuperblockMapped<P> {
    fn has_handles(&self) -> bool {
        self.ftl.placement().features().has_handles
    }

    fn set_handle(&mut self, handle: u8) {
        if self.ftl.placement().features().has_handles
            && let Some(handles) = &mut self.handles
        {
            handles.set_handle(handle);
            self.ftl.set_handle(handle);
        }
    }

    fn fdp(&self) -> Option<FdpCounts> {
        let handles = self.handles.as_ref()?;
        let mut is_in_use = vec![true; self.stripes.superblocks() as usize];
        self.ftl.lanes().not_in_use().for_each(|unit| is_in_use[unit as usize] = false);
        Some(handles.counts(self.ftl.device(), &is_in_use, |stream| self.ftl.room_of(stream, 0)))
    }

    fn logical_pages(&self) -> u32 {
        self.ftl.device().geometry.logical_pages
    }

    #[inline]
    fn read(&mut self, lpn: Lpn, bytes: u32, tag: Tag, media: &mut Media) -> ReadPath {
        match self.locate(lpn, media) {
            Place::Flash(page) => {
                if self.rebuild.is_none()
                    || !self.ftl.lookup(lpn).is_some_and(|at| self.rebuilds(at, bytes, tag, media))
                {
                    media.submit(Command::read(page, bytes, Cause::Host, tag));
                }
                ReadPath::Flash
            }
            Place::Memory => ReadPath::Memory,
            Place::Nowhere => ReadPath::Unmapped,
        }
    }

    #[inline]
    fn write(&mut self, lpn: Lpn, tag: Tag, media: &mut Media) {
        if self.does_wait(lpn) {
            self.kill_waiting(lpn);
        }
        if self.ftl.placement().features().has_handles
            && let Some(handles) = &mut self.handles
        {
            handles.came();
            self.ftl.set_handle(handles.named());
        }
        self.note_host_write(media);
        let may = self.waiting.is_empty() && !self.pace.is_behind();
        if may && let (stream, true) = self.room_for_host(lpn) {
            let page = self.ftl.place_for_host(lpn, stream, 0);
            self.record(stream, page);
            self.fill(page, None, tag, media);
            self.keep_step(media);
        } else {
            let handle = self.handles.as_ref().map_or(0, |handles| handles.named());
            self.waiting.push_back(Waiting { lpn, tag, is_dead: false, handle });
            self.waits[lpn.index() / 64] |= 1 << (lpn.0 % 64);
        }
        self.consider(media);
    }

    fn fetch(&self, lpns: &[u32], are_written: bool) {
        self.ftl.fetch_entries(lpns);
        if are_written {
            self.ftl.fetch_old(lpns);
        }
    }

    fn trim(&mut self, lpn: Lpn, _media: &mut Media) {
        if self.does_wait(lpn) {
            self.kill_waiting(lpn);
        }
        self.ftl.trim(lpn);
    }

    fn completed(&mut self, done: &Done, media: &mut Media) {
        if self.turns.is_some() {
            self.end_of_turn(done, media);
        }
        match done.command.op {
            FlashOp::Read => self.relocate(done.command.tag.number(), media),
            FlashOp::Program if done.command.cause == Cause::Parity => {}
            FlashOp::Program => self.relocated(done.command.tag, media),
            FlashOp::Erase => self.erased(done.command.tag, media),
            FlashOp::CopyBack => unreachable!("superblocks are not copied back"),
        }
    }

    fn waits_for_own_work(&self, lpn: Lpn, media: &Media) -> Option<Picos> {
        match self.locate(lpn, media) {
            Place::Flash(page) => own_work(media.layout().die_of(page), media),
            Place::Memory | Place::Nowhere => None,
        }
    }

    fn next_wake(&self) -> Option<Picos> {
        (self.wake_at != Picos::MAX).then_some(self.wake_at)
    }

    fn wake(&mut self, media: &mut Media) {
        let now = media.now();
        self.wake_at = Picos::MAX;
        if let Some(after) = self.pad_after {
            let is_due = |filling: &Filling| filling.since > 0 && filling.since + after <= now;
            while let Some(number) = self.filling.iter().position(is_due) {
                self.pad(number, media);
            }
            for filling in self.filling.iter().filter(|filling| filling.since > 0) {
                self.wake_at = self.wake_at.min(filling.since + after);
            }
        }
        self.clean_in_window(media);
        self.clean_in_idle_time(media);
        self.fold_in_idle_time(media);
    }

    fn write_untimed(&mut self, lpn: Lpn) {
        self.ftl.write(lpn, 0);
    }

    fn trim_untimed(&mut self, lpn: Lpn) {
        self.ftl.trim(lpn);
    }

    fn apply_untimed(&mut self, pages: &[PageOp]) {
        self.ftl.apply(pages);
    }

    fn settle(&mut self, media: &mut Media) {
        self.clean_to_balance();
        // Units that are not full are filled up: no page is in memory before the first request.
        let pages = self.stripes.pages;
        for (superblock, written) in (0..).zip(self.ftl.written_pages()) {
            let stream = StreamId(u32::from(self.ftl.device().blocks[superblock as usize].stream));
            let mut written = written;
            while written % self.stripes.least_pages != 0 && written < pages {
                let unused = self.ftl.leave_unused(stream, 0);
                assert!(unused.is_some(), "an open superblock has a frontier");
                written += 1;
            }
            for (block, programmed) in self.stripes.programmed(superblock, written) {
                media.preset(block, programmed);
                self.erased[block.index()] = self.ftl.erase_counts()[superblock as usize];
            }
        }
    }

    fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
            && !self.is_cleaning()
            && self.turns.as_ref().is_none_or(|turns| turns.is_quiet())
    }

    fn streams_left_out(&self) -> usize {
        self.ftl.placement().streams_left_out()
    }

    fn counters(&self) -> SchemeCounters {
        let counters = self.ftl.counters();
        let blocks = self.stripes.blocks_of(0).len() as u64;
        SchemeCounters {
            host_page_writes: counters.host_page_writes,
            relocated_pages: counters.relocated_pages,
            trimmed_pages: counters.trimmed_pages,
            parity_page_writes: self.parity_pages,
            rebuilt_pages: self.rebuilt_pages,
            slc_page_writes: self.slc.as_ref().map_or(0, |slc| slc.pages),
            folded_pages: self.slc.as_ref().map_or(0, |slc| slc.folded),
            erases: counters.erases * blocks,
            retired_blocks: self.bad_blocks + self.ftl.lanes().retired_blocks() as u64 * blocks,
            ..SchemeCounters::default()
        }
    }

    fn erase_counts(&self) -> &[u32] {
        &self.erased
    }

    fn worn_out(&self) -> Option<WornOut> {
        self.worn_out.clone()
    }

    fn table_bytes(&self) -> usize {
        self.ftl.table_bytes() + 8 * self.waits.len() + 4 * self.erased.len()
    }

    fn audit(&self) -> Result<(), String> {
        self.ftl.audit().map_err(|error| error.to_string())
    }
}
