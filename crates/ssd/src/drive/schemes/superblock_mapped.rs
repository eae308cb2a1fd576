//! Page mapping over superblocks, as modern drives have it: erase blocks of all planes of all dies
//! are opened, written in step and cleaned together.

use std::collections::VecDeque;

use placement::{AnyVictim, BuildError, Placement};
use registry::{Info, Param, ParamKind};
use units::{Lpn, Ppn, StreamId};

use super::lane::{Thresholds, Waiting};
use super::page_mapped::{Place, SchemeSettings};
use super::stripes::Stripes;
use super::{ReadPath, Scheme, SchemeCounters, WornOut};
use crate::drive::media::{Cause, Command, Done, FlashOp, Media, Tag};
use crate::drive::time::{Picos, picos_of_micros};
use crate::ftl::{Cleaning, PageMapped};

/// What the registry knows.
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
                   if a page of the host's waits in it",
        },
    ],
};

/// Tags of our own programs and erases; those of reads are numbers of survivors, far below.
const RELOCATED: u32 = (1 << 31) - 1;
const ERASED: u32 = (1 << 31) - 2;

/// A program unit that is being filled: pages in a row of one superblock.
#[derive(Debug, Default)]
struct Filling {
    superblock: u32,
    first: Ppn,
    /// Of each where it is relocated from, if it is, and the tag of its program.
    pages: Vec<(Option<Ppn>, Tag)>,
    has_relocated: bool,
    /// When the first page of the host's came.
    since: Picos,
}

/// The cleaning of one superblock.
#[derive(Debug, Default)]
struct Job {
    cleaning: Cleaning,
    reads: u32,
    /// Relocated pages that are not programmed yet.
    unprogrammed: u32,
    erases_left: u32,
}

/// The scheme. Pages wait in the controller until a program unit is full (`Stripes`); cleaning
/// fills the unit up that its last survivors are in, so that nothing of a victim is in memory alone
/// when it is erased.
///
/// What is left out: wear is evened out by taking the superblock least worn, not by moving cold
/// data; a superblock is retired as a whole when the first of its erase blocks is worn out.
#[derive(Debug)]
pub struct SuperblockMapped<P> {
    ftl: PageMapped<P, AnyVictim>,
    stripes: Stripes,
    filling: Vec<Filling>,
    /// Of fillings that were carried out, to be used again.
    empty: Vec<Filling>,
    job: Job,
    waiting: VecDeque<Waiting>,
    /// One bit a logical page: whether its newest version waits for room.
    waits: Vec<u64>,
    thresholds: Thresholds,
    most_under_way: u32,
    pad_after: Picos,
    wake_at: Picos,
    page_bytes: u32,
    padded_pages: u64,
    /// By erase block: as often as its superblock.
    erased: Vec<u32>,
    /// From the factory.
    bad_blocks: u64,
    worn_out: Option<WornOut>,
}

impl<P: Placement> SuperblockMapped<P> {
    /// The scheme over erased media. `victims` has [`Placement::domains`] domains.
    ///
    /// # Errors
    /// [`BuildError::TooSmall`] if there are too few spare superblocks for the policy.
    pub fn new(
        settings: &SchemeSettings<'_>,
        stripes: Stripes,
        name: &str,
        placement: P,
        victims: AnyVictim,
    ) -> Result<Self, BuildError> {
        let layout = settings.layout;
        let geometry = stripes.geometry(layout.page_bytes, settings.logical_pages);
        let mut ftl = PageMapped::new(geometry, name, placement, victims)?;
        ftl.lanes_mut().count_valid_pages();
        ftl.lanes_mut().take_least_worn_first();
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
        Ok(Self {
            filling: Vec::new(),
            empty: Vec::new(),
            job: Job::default(),
            waiting: VecDeque::new(),
            waits: vec![0; (settings.logical_pages as usize).div_ceil(64)],
            thresholds: Thresholds {
                start_below: share(settings.cleaning.start_below_free),
                background_below: share(settings.cleaning.background_below_free),
                idle: picos_of_micros(settings.cleaning.idle_us),
            },
            most_under_way: (asked as u32).max(least),
            pad_after: picos_of_micros(settings.args.number("pad_us")),
            wake_at: Picos::MAX,
            page_bytes: layout.page_bytes,
            padded_pages: 0,
            erased: vec![0; layout.erase_blocks() as usize],
            worn_out: None,
            bad_blocks: settings.endurance.iter().filter(|&&cycles| cycles == 0).count() as u64,
            ftl,
            stripes,
        })
    }

    /// Whether what the host may write still has room.
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

    /// The version that waits for room is out of date.
    #[cold]
    fn kill_waiting(&mut self, lpn: Lpn) {
        self.waits[lpn.index() / 64] &= !(1 << (lpn.0 % 64));
        let mut waiting = self.waiting.iter_mut();
        let waiting = waiting.find(|waiting| waiting.lpn == lpn && !waiting.is_dead);
        waiting.expect("a marked page waits").is_dead = true;
    }

    /// A page was given a place: it joins those that are programmed with it.
    fn fill(&mut self, page: Ppn, from: Option<Ppn>, tag: Tag, media: &mut Media) {
        let (superblock, offset) = self.stripes.split(page);
        let known = self.filling.iter().position(|one| one.superblock == superblock);
        let number = known.unwrap_or_else(|| {
            let fresh = self.empty.pop().unwrap_or_default();
            self.filling.push(Filling { superblock, first: page, ..fresh });
            self.filling.len() - 1
        });
        let filling = &mut self.filling[number];
        debug_assert_eq!(filling.first.0 + filling.pages.len() as u32, page.0);
        filling.has_relocated |= from.is_some();
        if from.is_none() && filling.since == 0 {
            filling.since = media.now().max(1);
            self.wake_at = self.wake_at.min(media.now() + self.pad_after);
        }
        filling.pages.push((from, tag));
        if self.stripes.ends_unit(offset) {
            self.program(number, media);
        }
    }

    /// Carries out the program of a unit, full or not.
    fn program(&mut self, number: usize, media: &mut Media) {
        let mut filling = self.filling.swap_remove(number);
        media.hold();
        for (place, (from, tag)) in (filling.first.0..).zip(filling.pages.drain(..)) {
            let page = self.stripes.on_media(Ppn(place));
            media.submit(match from {
                Some(from) => Command::copy(from, page, self.page_bytes, Cause::Cleaning, tag),
                None => Command::program(page, self.page_bytes, Cause::Host, tag),
            });
        }
        media.release();
        (filling.has_relocated, filling.since) = (false, 0);
        self.empty.push(filling);
    }

    /// Pads a unit, and carries it out. What is left of an erase block that was closed early stays
    /// as it is.
    fn pad(&mut self, number: usize, media: &mut Media) {
        let Filling { superblock, first, ref pages, .. } = self.filling[number];
        let stream = self.ftl.device().blocks[superblock as usize].stream;
        let mut next = first.0 + pages.len() as u32;
        while !self.stripes.ends_program(self.stripes.split(Ppn(next - 1)).1) {
            if self.ftl.leave_unused(StreamId(u32::from(stream)), 0) != Some(Ppn(next)) {
                break;
            }
            self.padded_pages += 1;
            next += 1;
        }
        self.program(number, media);
    }

    /// Writes what waits, as far as there is room.
    fn admit(&mut self, media: &mut Media) {
        while let Some(&Waiting { lpn, tag, is_dead }) = self.waiting.front() {
            let stream = self.ftl.host_stream(lpn);
            if !self.ftl.make_room(stream, 0) {
                return;
            }
            self.waiting.pop_front();
            let page = if is_dead {
                self.ftl.place_dead(stream, 0)
            } else {
                self.waits[lpn.index() / 64] &= !(1 << (lpn.0 % 64));
                self.ftl.place_for_host(lpn, stream, 0)
            };
            self.fill(page, None, tag, media);
        }
    }

    /// Starts cleaning, or goes on with it, after something has changed.
    #[inline]
    fn consider(&mut self, media: &mut Media) {
        if self.job.cleaning.victim().is_some() {
            return;
        }
        let free = self.ftl.lanes().free(0);
        if !self.waiting.is_empty() || (free < self.thresholds.start_below && self.gains()) {
            self.start(media);
        } else if free < self.thresholds.background_below {
            self.wake_at = self.wake_at.min(media.now() + self.thresholds.idle);
        }
    }

    /// Whether a superblock's worth of pages is not valid, so that cleaning can gain something.
    fn gains(&self) -> bool {
        let lanes = self.ftl.lanes();
        let open = self.ftl.device().streams.len() as u32;
        let used = lanes.blocks_of(0).len() as u32 - lanes.not_in_use_of(0).count() as u32;
        let written = u64::from(used.saturating_sub(open)) * u64::from(self.stripes.pages);
        written >= u64::from(lanes.valid_pages(0)) + u64::from(self.stripes.pages)
    }

    fn start(&mut self, media: &mut Media) {
        // Of a drive that is worn out a superblock may be left that holds nothing but valid pages.
        if self.ftl.lanes().free(0) == 0 || (self.worn_out.is_some() && !self.gains()) {
            self.wears_out();
            return;
        }
        self.ftl.close_early(0);
        let needy = match self.waiting.front() {
            Some(waiting) => self.ftl.host_stream(waiting.lpn),
            None => StreamId(0),
        };
        let victim = self.ftl.choose_victim(needy, 0);
        self.job.cleaning.begin(victim, 0, &mut self.ftl);
        self.go_on(media);
    }

    /// Gives the next reads of a cleaning, or ends it.
    fn go_on(&mut self, media: &mut Media) {
        media.hold();
        while self.job.reads + self.job.unprogrammed < self.most_under_way {
            let Some((number, survivor)) = self.job.cleaning.next(&self.ftl) else { break };
            self.job.cleaning.take(1);
            self.job.reads += 1;
            let from = self.stripes.on_media(survivor.from);
            let tag = Tag::scheme(number as u32);
            media.submit(Command::read(from, self.page_bytes, Cause::Cleaning, tag));
        }
        media.release();
        if self.job.erases_left == 0 && self.job.cleaning.is_done(&self.ftl) {
            self.end(media);
        }
    }

    /// No survivor is left in the victim: it is erased as soon as all are programmed.
    fn end(&mut self, media: &mut Media) {
        while let Some(number) = self.filling.iter().position(|filling| filling.has_relocated) {
            self.pad(number, media);
        }
        if self.job.unprogrammed > 0 {
            return;
        }
        let victim = self.job.cleaning.victim().expect("a cleaning is under way");
        media.hold();
        for &block in self.stripes.blocks_of(victim.0) {
            self.job.erases_left += 1;
            let page = media.layout().page_at(block, 0);
            media.submit(Command::erase(page, Cause::Cleaning, Tag::scheme(ERASED)));
        }
        media.release();
    }

    /// A survivor was read: it goes to its new place, unless the host has written or trimmed it.
    fn relocate(&mut self, number: u32, media: &mut Media) {
        self.job.reads -= 1;
        let from = self.stripes.on_media(self.job.cleaning.survivor(number as usize).from);
        if let Some(page) = self.job.cleaning.relocate(number as usize, &mut self.ftl) {
            self.job.unprogrammed += 1;
            self.fill(page, Some(from), Tag::scheme(RELOCATED), media);
        }
        self.go_on(media);
    }

    /// An erase block of the victim is erased.
    fn erased(&mut self, media: &mut Media) {
        self.job.erases_left -= 1;
        if self.job.erases_left > 0 {
            return;
        }
        let victim = self.job.cleaning.end();
        self.ftl.reclaim(victim, 0);
        self.check_wear();
        for &block in self.stripes.blocks_of(victim.0) {
            self.erased[block.index()] += 1;
        }
        self.admit(media);
        self.consider(media);
    }
}

impl<P: Placement> Scheme for SuperblockMapped<P> {
    fn logical_pages(&self) -> u32 {
        self.ftl.device().geometry.logical_pages
    }

    #[inline]
    fn read(&mut self, lpn: Lpn, bytes: u32, tag: Tag, media: &mut Media) -> ReadPath {
        match self.locate(lpn, media) {
            Place::Flash(page) => {
                media.submit(Command::read(page, bytes, Cause::Host, tag));
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
        let stream = self.ftl.host_stream(lpn);
        if self.waiting.is_empty() && self.ftl.make_room(stream, 0) {
            let page = self.ftl.place_for_host(lpn, stream, 0);
            self.fill(page, None, tag, media);
        } else {
            self.waiting.push_back(Waiting { lpn, tag, is_dead: false });
            self.waits[lpn.index() / 64] |= 1 << (lpn.0 % 64);
        }
        self.consider(media);
    }

    fn trim(&mut self, lpn: Lpn, _media: &mut Media) {
        if self.does_wait(lpn) {
            self.kill_waiting(lpn);
        }
        self.ftl.trim(lpn);
    }

    fn completed(&mut self, done: &Done, media: &mut Media) {
        match done.command.op {
            FlashOp::Read => self.relocate(done.command.tag.number(), media),
            FlashOp::Program => {
                self.job.unprogrammed -= 1;
                self.go_on(media);
            }
            FlashOp::Erase => self.erased(media),
            FlashOp::CopyBack => unreachable!("superblocks are not copied back"),
        }
    }

    fn next_wake(&self) -> Option<Picos> {
        (self.wake_at != Picos::MAX).then_some(self.wake_at)
    }

    fn wake(&mut self, media: &mut Media) {
        let now = media.now();
        self.wake_at = Picos::MAX;
        let is_due =
            |filling: &Filling, after: Picos| filling.since > 0 && filling.since + after <= now;
        while let Some(number) = self.filling.iter().position(|one| is_due(one, self.pad_after)) {
            self.pad(number, media);
        }
        for filling in &self.filling {
            if filling.since > 0 {
                self.wake_at = self.wake_at.min(filling.since + self.pad_after);
            }
        }
        let is_low = self.ftl.lanes().free(0) < self.thresholds.background_below;
        if is_low && self.job.cleaning.victim().is_none() && self.gains() {
            let idle = (0..media.layout().dies()).all(|die| media.is_idle(die));
            if idle {
                self.start(media);
            } else {
                self.wake_at = self.wake_at.min(now + self.thresholds.idle);
            }
        }
    }

    fn write_untimed(&mut self, lpn: Lpn) {
        self.ftl.write(lpn, 0);
    }

    fn settle(&mut self, media: &mut Media) {
        // Units that are not full are filled up: there is no page in memory before the first
        // request.
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
        self.waiting.is_empty() && self.job.cleaning.victim().is_none()
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
