//! The page-mapped scheme: any logical page in any physical page, each plane with its own write
//! frontiers and its own cleaning.

mod cleaning;
mod elsewhere;
mod in_windows;

use std::collections::VecDeque;

use placement::{AnyVictim, BuildError, Placement};
use registry::{Args, Info, Param, ParamKind};
use units::{EraseBlockId, Lpn, Ppn, StreamId};

use super::allocation::Allocation;
use super::lane::{Lane, LaneCleaning, Thresholds, Waiting};
use super::watch::Watch;
use super::wear::StaticWear;
use super::windows::{Windows, own_work};
use super::{ReadPath, Scheme, SchemeCounters, WornOut};
use crate::drive::media::{Cause, Command, Done, FlashOp, Layout, Media, Tag};
use crate::drive::profile::{CleaningConfig, FdpConfig, StaticRule, WearLevellingConfig};
use crate::drive::time::{Picos, picos_of_micros};
use ftl::PageMapped;

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "page_mapped",
    aliases: &["page"],
    summary: "any logical page anywhere; the whole map in DRAM",
    source: "PARALLELISM 4.4; Agrawal et al., USENIX ATC 2008",
    params: &[
        Param {
            name: "allocation",
            kind: ParamKind::Choice(&["dynamic", "available", "static"]),
            default: "dynamic",
            help: "which plane a page goes to: by the order of writes; the same, but passing over \
                   planes without room; or by its address",
        },
        Param {
            name: "chunk_pages",
            kind: ParamKind::Integer { min: 1, max: 4096 },
            default: "1",
            help: "pages in a row on one plane",
        },
    ],
};

/// Settings of a scheme over page mapping, besides its policies.
#[derive(Clone, Debug)]
pub struct SchemeSettings<'a> {
    /// The parameters of [`INFO`].
    pub args: &'a Args,
    /// The media.
    pub layout: &'a Layout,
    /// Number of pages that the host can address.
    pub logical_pages: u32,
    /// Start and pace of cleaning.
    pub cleaning: &'a CleaningConfig,
    /// Wear levelling.
    pub wear_levelling: &'a WearLevellingConfig,
    /// Placement by the host.
    pub fdp: &'a FdpConfig,
    /// True if relocation within a plane does not use the channel.
    pub copy_back: bool,
    /// True if data in the controller's memory survives a power cut.
    pub power_loss_protected: bool,
    /// Erases that each erase block endures; empty for no limit.
    pub endurance: Vec<u32>,
}

/// Place of the newest version of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Flash(Ppn),
    /// In memory: it waits for room, or is on its way to flash.
    Memory,
    /// There is no version.
    Nowhere,
}

/// The scheme. Schemes that keep the map itself on flash are built on it: see [`Watch`].
#[derive(Debug)]
pub struct PageMappedScheme<P, W = ()> {
    ftl: PageMapped<P, AnyVictim>,
    watch: W,
    allocation: Allocation,
    lanes: Vec<Lane>,
    thresholds: Thresholds,
    static_wear: StaticWear,
    copy_back: bool,
    page_bytes: u32,
    /// One bit per logical page, set if its newest version waits for room.
    waits: Vec<u64>,
    waiting_writes: u32,
    windows: Option<Windows>,
    cleaning_lanes: u32,
    next_wake: Picos,
    wear_moves: u64,
    wear_moved_pages: u64,
    worn_out: Option<WornOut>,
}

impl<P: Placement> PageMappedScheme<P> {
    /// Makes the scheme over erased media. `victims` has [`Placement::domains`] x planes domains.
    ///
    /// # Errors
    /// [`BuildError::TooSmall`] if a plane has too few spare erase blocks for the policy.
    pub fn new(
        settings: SchemeSettings<'_>,
        name: &str,
        placement: P,
        victims: AnyVictim,
    ) -> Result<Self, BuildError> {
        Self::watched(settings, name, placement, victims, ())
    }
}

impl<P: Placement, W: Watch> PageMappedScheme<P, W> {
    /// As [`PageMappedScheme::new`], with a watch that is told of pages that move.
    ///
    /// # Errors
    /// As [`PageMappedScheme::new`].
    pub fn watched(
        settings: SchemeSettings<'_>,
        name: &str,
        placement: P,
        victims: AnyVictim,
        watch: W,
    ) -> Result<Self, BuildError> {
        let layout = settings.layout;
        let geometry = layout.geometry(settings.logical_pages);
        let mut ftl = PageMapped::with_lanes(geometry, layout.planes(), name, placement, victims)?;
        ftl.lanes_mut().count_valid_pages();
        if settings.wear_levelling.dynamic {
            ftl.lanes_mut().take_least_worn_first();
        }
        if settings.wear_levelling.static_rule == StaticRule::Age {
            let wear = settings.wear_levelling;
            ftl.move_what_lies_long(wear.age_cycles, wear.age_every);
        }
        if !settings.endurance.is_empty() {
            ftl.lanes_mut().set_endurance(settings.endurance);
        }
        let share = |share: f64| (share * f64::from(layout.blocks_per_plane)).ceil() as usize;
        let lane = |_| Lane {
            job: LaneCleaning::default(),
            waiting: VecDeque::new(),
            is_paused: false,
            wake_at: Picos::MAX,
        };
        let scheme = Self {
            allocation: Allocation::new(settings.args, layout),
            lanes: (0..layout.planes()).map(lane).collect(),
            thresholds: Thresholds {
                start_below: share(settings.cleaning.start_below_free),
                background_below: share(settings.cleaning.background_below_free),
                occupies_die: settings.cleaning.occupies_die,
                idle: picos_of_micros(settings.cleaning.idle_us),
            },
            static_wear: StaticWear::new(settings.wear_levelling, ftl.lanes().endurance()),
            copy_back: settings.copy_back,
            page_bytes: layout.page_bytes,
            waits: vec![0; (settings.logical_pages as usize).div_ceil(64)],
            waiting_writes: 0,
            windows: Windows::new(settings.cleaning),
            cleaning_lanes: 0,
            next_wake: Picos::MAX,
            wear_moves: 0,
            wear_moved_pages: 0,
            worn_out: None,
            ftl,
            watch,
        };
        let missing =
            (0..layout.planes()).map(|lane| scheme.missing_blocks(lane)).max().unwrap_or(0);
        if missing > 0 {
            let good = geometry.erase_blocks - scheme.ftl.lanes().retired_blocks() as u32;
            let spare_blocks = good
                .saturating_sub(geometry.logical_pages.div_ceil(geometry.pages_per_erase_block));
            return Err(BuildError::TooSmall {
                name: name.to_owned(),
                erase_blocks: good,
                spare_blocks,
                needed: spare_blocks + missing,
            });
        }
        Ok(scheme)
    }

    /// Number of erase blocks that are missing to give all of the host's pages room: in a lane
    /// under static allocation, in all of them otherwise. Unless chunks lie unevenly on the planes,
    /// none are missing as long as none is bad.
    fn missing_blocks(&self, lane: u32) -> u32 {
        let lanes = self.ftl.lanes();
        if lanes.retired_blocks() == 0 && !self.allocation.is_static() {
            return 0;
        }
        let geometry = self.ftl.device().geometry;
        let (have, need) = if self.allocation.is_static() {
            (
                u64::from(lanes.capacity(lane)),
                u64::from(self.allocation.most_pages_of_a_lane(geometry.logical_pages)),
            )
        } else {
            let all = (0..lanes.count()).map(|lane| u64::from(lanes.capacity(lane)));
            (all.sum(), u64::from(geometry.logical_pages) + 1)
        };
        need.saturating_sub(have).div_ceil(u64::from(geometry.pages_per_erase_block)) as u32
    }

    /// The FTL's tables.
    pub fn ftl(&self) -> &PageMapped<P, AnyVictim> {
        &self.ftl
    }

    /// The watch.
    pub(super) fn watch(&self) -> &W {
        &self.watch
    }

    /// The watch, by mutable reference.
    pub(super) fn watch_mut(&mut self) -> &mut W {
        &mut self.watch
    }

    /// Finds the newest version of a page, at the current time.
    #[inline(always)]
    pub(super) fn locate(&self, lpn: Lpn, media: &Media) -> Place {
        if self.does_wait(lpn) {
            return Place::Memory;
        }
        match self.ftl.lookup(lpn) {
            None => Place::Nowhere,
            Some(page) if !media.is_programmed(page) => self.place_under_way(page, media),
            Some(page) => Place::Flash(page),
        }
    }

    /// Finds a page that is not programmed yet. A page under copy-back may never have been in the
    /// controller's memory; until the copy is made, and the erase is given after it, it can be read
    /// at its old place.
    #[inline(never)]
    fn place_under_way(&self, page: Ppn, media: &Media) -> Place {
        let layout = media.layout();
        let job = &self.lanes[layout.plane_of(layout.block_of(page)) as usize].job;
        let is_copied_back =
            self.copy_back && job.cleaning.victim().is_some() && job.target == page;
        // A victim can be so young that its own programs are still under way, and reads may
        // overtake them.
        if is_copied_back && media.is_programmed(job.copying) {
            Place::Flash(job.copying)
        } else {
            Place::Memory
        }
    }

    #[inline]
    fn does_wait(&self, lpn: Lpn) -> bool {
        self.waiting_writes > 0 && self.waits[lpn.index() / 64] >> (lpn.0 % 64) & 1 == 1
    }

    /// Marks the version that waits for room as out of date.
    #[cold]
    fn kill_waiting(&mut self, lpn: Lpn) {
        self.waits[lpn.index() / 64] &= !(1 << (lpn.0 % 64));
        let mut all = self.lanes.iter_mut().flat_map(|lane| &mut lane.waiting);
        let waiting = all.find(|waiting| waiting.lpn == lpn && !waiting.is_dead);
        waiting.expect("a marked page waits in a lane").is_dead = true;
    }

    /// Chooses the lane for a write: the allocation's choice, or the next one that can hold more. A
    /// lane that is full of valid pages would be cleaned endlessly.
    #[inline]
    fn lane_for(&mut self, lpn: Lpn) -> u32 {
        let lanes = self.lanes.len();
        for _ in 0..lanes {
            let lane = self.allocation.next(lpn);
            if lanes == 1 || self.allocation.is_static() || self.can_hold_more(lane) {
                return lane;
            }
            self.allocation.pass_over();
        }
        self.allocation.next(lpn)
    }

    #[inline]
    fn can_hold_more(&self, lane: u32) -> bool {
        let held =
            self.ftl.lanes().valid_pages(lane) + self.lanes[lane as usize].waiting.len() as u32;
        held < self.ftl.lanes().capacity(lane)
    }

    /// Returns true if the die of a lane is reserved for cleaning: nothing is placed there
    /// meanwhile, as pages of an erase block are programmed in order.
    #[inline]
    fn is_occupied(&self, lane: u32, media: &Media) -> bool {
        self.thresholds.occupies_die && media.is_occupied(media.layout().die_of_plane(lane))
    }

    /// As [`Self::lane_for`], but prefers a lane that has room right now, if there is one.
    fn available_lane_for(&mut self, lpn: Lpn, stream: StreamId, media: &Media) -> u32 {
        for _ in 0..self.lanes.len() {
            let lane = self.allocation.next(lpn);
            if self.can_hold_more(lane)
                && self.lanes[lane as usize].waiting.is_empty()
                && !self.is_occupied(lane, media)
                && self.ftl.can_make_room(stream, lane)
            {
                return lane;
            }
            self.allocation.pass_over();
        }
        self.lane_for(lpn)
    }

    /// Programs a page for which there is room.
    #[inline]
    fn program(&mut self, lpn: Lpn, stream: StreamId, lane: u32, tag: Tag, media: &mut Media) {
        let page = self.ftl.place_for_host(lpn, stream, lane);
        self.watch.placed(lpn);
        let cause = self.watch.cause_of(lpn);
        self.watch.submit(Command::program(page, self.page_bytes, cause, tag), media);
    }

    /// Writes waiting pages, as far as there is room.
    fn admit(&mut self, lane: u32, media: &mut Media) {
        if self.is_occupied(lane, media) {
            return;
        }
        while let Some(&Waiting { lpn, tag, is_dead, .. }) =
            self.lanes[lane as usize].waiting.front()
        {
            let stream = self.ftl.host_stream(lpn);
            if !self.ftl.make_room(stream, lane) {
                return;
            }
            self.lanes[lane as usize].waiting.pop_front();
            self.waiting_writes -= 1;
            if is_dead {
                let page = self.ftl.place_dead(stream, lane);
                let command = Command::program(page, self.page_bytes, Cause::Host, tag);
                self.watch.submit(command, media);
            } else {
                self.waits[lpn.index() / 64] &= !(1 << (lpn.0 % 64));
                self.program(lpn, stream, lane, tag, media);
            }
        }
    }
}

impl<P: Placement, W: Watch> Scheme for PageMappedScheme<P, W> {
    fn logical_pages(&self) -> u32 {
        self.ftl.device().geometry.logical_pages
    }

    #[inline(always)]
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
        let lane = if self.allocation.passes_over() {
            self.available_lane_for(lpn, stream, media)
        } else {
            self.lane_for(lpn)
        };
        let may = self.lanes[lane as usize].waiting.is_empty() && !self.is_occupied(lane, media);
        if may && self.ftl.make_room(stream, lane) {
            self.program(lpn, stream, lane, tag, media);
        } else {
            self.lanes[lane as usize].waiting.push_back(Waiting {
                lpn,
                tag,
                is_dead: false,
                handle: 0,
            });
            self.waits[lpn.index() / 64] |= 1 << (lpn.0 % 64);
            self.waiting_writes += 1;
        }
        self.consider(lane, media);
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
        let lane = done.command.tag.number();
        match done.command.op {
            FlashOp::Read => self.copy(lane, media),
            FlashOp::Program | FlashOp::CopyBack => self.go_on(lane, media),
            FlashOp::Erase => self.erased(lane, media),
        }
    }

    fn waits_for_own_work(&self, lpn: Lpn, media: &Media) -> Option<Picos> {
        match self.locate(lpn, media) {
            Place::Flash(page) => own_work(media.layout().die_of(page), media),
            Place::Memory | Place::Nowhere => None,
        }
    }

    fn next_wake(&self) -> Option<Picos> {
        (self.next_wake != Picos::MAX).then_some(self.next_wake)
    }

    fn wake(&mut self, media: &mut Media) {
        let now = media.now();
        for lane in 0..self.lanes.len() as u32 {
            if self.lanes[lane as usize].wake_at > now {
                continue;
            }
            self.lanes[lane as usize].wake_at = Picos::MAX;
            if self.windows.is_some() {
                if self.lanes[lane as usize].is_paused || self.may_clean(lane, media) {
                    // Another check in idle time is planned below, if it is of use: otherwise the
                    // drive would check for ever.
                    self.clean_what_is_due(lane, media);
                } else {
                    continue;
                }
            }
            let needs = self.lanes[lane as usize].job.cleaning.victim().is_none()
                && self.ftl.lanes().free(lane) < self.thresholds.background_below;
            if !needs || !self.gains(lane) {
                continue;
            }
            match media.idle_since(media.layout().die_of_plane(lane)) {
                Some(since) if since + self.thresholds.idle <= now => self.start(lane, media),
                since => {
                    self.lanes[lane as usize].wake_at = since.unwrap_or(now) + self.thresholds.idle;
                }
            }
        }
        self.next_wake = self.lanes.iter().map(|lane| lane.wake_at).min().unwrap_or(Picos::MAX);
    }

    fn write_untimed(&mut self, lpn: Lpn) {
        let lane = self.lane_for(lpn);
        // Cleaned only when it is inevitable, as on a drive that has long been written to as fast
        // as possible: the space between that and `start_below_free` is reclaimed once the load
        // decreases.
        self.ftl.write(lpn, lane);
        self.watch.placed(lpn);
    }

    fn trim_untimed(&mut self, lpn: Lpn) {
        self.ftl.trim(lpn);
    }

    fn settle(&mut self, media: &mut Media) {
        for (block, pages) in (0..).zip(self.ftl.written_pages()) {
            media.preset(EraseBlockId(block), pages);
        }
    }

    fn is_quiet(&self) -> bool {
        self.waiting_writes == 0 && self.cleaning_lanes == 0
    }

    fn streams_left_out(&self) -> usize {
        self.ftl.placement().streams_left_out()
    }

    fn counters(&self) -> SchemeCounters {
        let counters = self.ftl.counters();
        SchemeCounters {
            host_page_writes: self.host_page_writes(),
            mapping_page_writes: self.watch.map_writes(),
            relocated_pages: counters.relocated_pages,
            wear_moved_pages: self.wear_moved_pages,
            trimmed_pages: counters.trimmed_pages,
            erases: counters.erases,
            retired_blocks: self.ftl.lanes().retired_blocks() as u64,
            wear_moves: self.wear_moves,
            ..SchemeCounters::default()
        }
    }

    fn erase_counts(&self) -> &[u32] {
        self.ftl.erase_counts()
    }

    fn worn_out(&self) -> Option<WornOut> {
        self.worn_out.clone()
    }

    fn table_bytes(&self) -> usize {
        self.ftl.table_bytes() + 8 * self.waits.len() + self.watch.table_bytes()
    }

    fn audit(&self) -> Result<(), String> {
        self.ftl.audit().map_err(|error| error.to_string())
    }
}
