//! Hazard: learns how soon the pages of each kind die, plans the space from it, and chooses victims
//! by the gain of their cleaning over a whole cycle.

mod bursts;
mod cells;
mod pages;
mod plan;
mod ranks;
mod shifts;
mod victims;

use registry::{Args, Info};
use units::{EraseBlockId, Lpn, PageOp, StreamId};

use self::bursts::Bursts;
use self::cells::Cells;
use self::pages::{CELLS, FIRST, Page, TICKS};
use self::plan::{Group, Plan, Space};
use self::shifts::Shifts;
use self::victims::{Judged, Victims};
use crate::{BuildError, Context, Death, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "hazard",
    aliases: &["flashwright"],
    summary: "pages by the hazard of their kind, which is learned; space divided among as many \
              streams as pay; victims by what a whole cycle gains",
    source: "Flashwright (docs/placement.md)",
    params: &[],
};

/// The default victim policy.
pub const VICTIM: &str = crate::victims::own::NAME;

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 8;

/// Most streams.
const MOST_STREAMS: usize = 24;

/// Ticks between two plans: a quarter of the logical pages are written meanwhile.
const PLANS: u32 = TICKS / 4;

/// Ticks between two checks for a change of the load.
const CHECKS: u32 = PLANS / 2;

/// Ticks between two glances at the deaths, and between two checks after a change.
const GLANCES: u32 = TICKS / 32;

/// Ticks between two looks at the erase blocks.
const LOOKS: u32 = TICKS / 20;

/// Greatest age of a page in ticks: the tick of its last write has 16 bits.
const OLDEST: u32 = 48 << 10;

/// Number of plans over which the ages of all pages are capped once.
const SWEEP: usize = 8;

/// Each placement falls in a cell of rate, confidence, regularity, and whether host or cleaning
/// does it; the hazard of each cell is learned from pages that are watched. Streams are planned
/// from the hazards so that the sum of relocations and the price of space is least, and the victim
/// is the erase block with the greatest gain over the cycle that its survivors begin. State: 4
/// bytes per page, and 4 more for each page that is watched, one of eight on devices of more than
/// 256 Ki pages.
///
/// For the loads on which it loses, and by how much, see docs/placement.md.
#[derive(Debug)]
pub struct Hazard {
    pages: Vec<Page>,
    cells: Cells,
    /// The stream of each cell.
    stream_of: Vec<u8>,
    /// The mean hazard of each stream, per tick.
    hazards: Vec<f64>,
    is_used: Vec<bool>,
    to_close: Vec<StreamId>,
    price: f64,
    space: Space,
    victims: Victims,
    bursts: Bursts,
    shifts: Shifts,
    is_bursty: bool,
    /// True if erase blocks are judged by their own deaths alone.
    judges_itself: bool,
    /// Ticks since the load changed.
    since_change: u32,
    /// Host page writes per tick.
    tick_writes: u64,
    tick: u32,
    next_tick: u64,
    next_plan: u32,
    next_look: u32,
    next_check: u32,
    next_glance: u32,
    swept: usize,
    /// The page that the host is about to write, with its record and the cell of the new version.
    pending: (u32, Page, u16),
}

impl Hazard {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(_args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let geometry = context.geometry;
        let spare = geometry.spare_blocks() as usize;
        let streams =
            (spare.saturating_sub(4) / 2).min(context.most_streams).clamp(1, MOST_STREAMS);
        let per_block = geometry.pages_per_erase_block;
        // One erase block is the reserve and one is being filled with survivors.
        let pages = f64::from(geometry.erase_blocks.saturating_sub(2)) * f64::from(per_block);
        let tick_writes = u64::from(geometry.logical_pages.div_ceil(TICKS));
        Ok(Self {
            pages: vec![Page::default(); geometry.logical_pages as usize],
            cells: Cells::new(geometry.logical_pages),
            stream_of: vec![0; CELLS],
            hazards: vec![1.0 / f64::from(TICKS); streams],
            is_used: (0..streams).map(|stream| stream == 0).collect(),
            to_close: Vec::new(),
            price: 0.0,
            space: Space {
                pages,
                pages_per_erase_block: f64::from(per_block),
                most_streams: streams,
            },
            victims: Victims::new(geometry.erase_blocks, per_block, streams, tick_writes),
            bursts: Bursts::default(),
            shifts: Shifts::default(),
            is_bursty: false,
            judges_itself: false,
            since_change: 0,
            tick_writes,
            tick: 0,
            next_tick: 0,
            next_plan: PLANS,
            next_look: LOOKS,
            next_check: CHECKS,
            next_glance: GLANCES,
            swept: 0,
            pending: (u32::MAX, Page::default(), FIRST),
        })
    }

    #[cold]
    fn advance(&mut self, device: &Device) {
        self.tick = (device.clock / self.tick_writes) as u32;
        self.next_tick = (u64::from(self.tick) + 1) * self.tick_writes;
        self.since_change = self.tick - self.shifts.changed_at;
        let mut is_planned = self.tick >= self.next_plan;
        let must_look = self.glances();
        if self.tick >= self.next_check || must_look || is_planned {
            is_planned |= self.check(device);
        }
        if self.tick >= self.next_look {
            self.next_look = self.tick + LOOKS;
            self.is_bursty = self.bursts.look(&self.victims, device);
        }
        let is_judged_otherwise = self.is_bursty != self.judges_itself;
        self.judges_itself = self.is_bursty;
        if is_planned {
            self.next_plan = self.tick + PLANS;
            self.sweep();
            self.cells.learn(self.shifts.kept, self.tick);
            self.replan();
        }
        if is_judged_otherwise || is_planned {
            let streams = self.is_used.iter().filter(|is_used| **is_used).count();
            let judged = match (streams, self.judges_itself) {
                (_, true) => Judged::ByItself,
                (1, false) => Judged::Alike,
                (_, false) => Judged::ByStream,
            };
            let stale = self.cells.stale();
            self.victims.judge(judged, &self.hazards, stale, device);
        }
    }

    /// Returns true if recent deaths suggest that the load has changed. Never asked where deaths
    /// come in bursts, as they always suggest it there.
    fn glances(&mut self) -> bool {
        if self.tick < self.next_glance || self.is_bursty {
            return false;
        }
        self.next_glance = self.tick + GLANCES;
        self.shifts.is_change(self.cells.glance(self.tick), self.tick)
    }

    /// Checks whether the load has changed. Returns true if space is to be planned again.
    fn check(&mut self, device: &Device) -> bool {
        self.cells.settle(self.tick, self.since_change);
        // A few ticks tell nothing, as the time of a death is known only to a tick.
        if self.cells.since_look(self.tick) >= GLANCES / 2 {
            let surprise = self.cells.surprise();
            let has_changed = !self.is_bursty && self.shifts.is_change(surprise, self.tick);
            self.shifts.look(surprise, self.tick);
            if has_changed {
                self.shifts.changed_at = self.tick;
                self.since_change = 0;
                self.cells.part();
                self.victims.part(device);
            }
            self.cells.looked(self.tick);
        }
        // Learned hazards change fast after a change of the load.
        let is_new = self.shifts.changed_at > 0 && self.since_change < 2 * TICKS;
        self.next_check = self.tick + if is_new { GLANCES } else { CHECKS };
        is_new
    }

    /// Keeps ages from overflowing their 16 bits: caps those of an eighth of the pages at each
    /// plan.
    fn sweep(&mut self) {
        let part = self.pages.len().div_ceil(SWEEP);
        let from = self.swept * part;
        let to = (from + part).min(self.pages.len());
        self.swept = (self.swept + 1) % SWEEP;
        for page in &mut self.pages[from.min(to)..to] {
            if page.age(self.tick) > OLDEST {
                *page = page.aged(self.tick, OLDEST);
            }
        }
    }

    fn replan(&mut self) {
        let of_cells = self.cells.pages.iter().zip(&self.cells.hazard);
        let mut cells: Vec<Group> = of_cells
            .map(|(&pages, &hazard)| Group { pages: f64::from(pages), hazard: f64::from(hazard) })
            .collect();
        let groups = plan::groups(&mut cells);
        if groups.is_empty() {
            return;
        }
        let plan = plan::plan(&groups, self.space, self.price);
        self.price = plan.price;
        let streams = self.match_streams(&plan);
        for (stream, &hazard) in self.stream_of.iter_mut().zip(&self.cells.hazard) {
            let number = plan.from.partition_point(|&from| from <= f64::from(hazard));
            *stream = streams[number];
        }
        let was_used = std::mem::replace(&mut self.is_used, vec![false; self.hazards.len()]);
        for (&stream, &hazard) in streams.iter().zip(&plan.hazards) {
            self.is_used[usize::from(stream)] = true;
            self.hazards[usize::from(stream)] = hazard;
        }
        self.to_close.clear();
        let all = was_used.iter().zip(&self.is_used).enumerate();
        let dropped = all.filter(|(_, (was, is))| **was && !**is);
        self.to_close.extend(dropped.map(|(stream, _)| StreamId(stream as u32)));
    }

    /// Assigns each planned stream to an existing one of about the same hazard, so that the pages
    /// of a stream keep the hazard with which they were placed.
    fn match_streams(&self, plan: &Plan) -> Vec<u8> {
        let count = plan.hazards.len();
        let mut pairs = Vec::new();
        for (planned, hazard) in plan.hazards.iter().enumerate() {
            for (stream, last) in self.hazards.iter().enumerate() {
                let unused = if self.is_used[stream] { 0.0 } else { 10.0 };
                let far = (hazard / last).ln().abs() + unused;
                pairs.push((far, planned, stream));
            }
        }
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut streams = vec![u8::MAX; count];
        let mut is_taken = vec![false; self.hazards.len()];
        for (_, planned, stream) in pairs {
            if streams[planned] == u8::MAX && !is_taken[stream] {
                streams[planned] = stream as u8;
                is_taken[stream] = true;
            }
        }
        streams
    }
}

/// Loads the entries of pages together, so that their cache misses overlap.
#[inline]
fn fetch(pages: &[Page], lpns: impl Iterator<Item = u32>) {
    let mut sum = 0u32;
    for lpn in lpns {
        sum = sum.wrapping_add(pages[lpn as usize].bits());
    }
    std::hint::black_box(sum);
}

impl Placement for Hazard {
    #[inline]
    fn features(&self) -> Features {
        Features {
            watches_deaths: true,
            chooses_victims: true,
            closes_early: true,
            ..Features::NONE
        }
    }

    fn streams(&self) -> usize {
        self.hazards.len()
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, _previous: Option<Previous>, device: &Device) -> StreamId {
        if device.clock >= self.next_tick {
            self.advance(device);
        }
        let page = self.pages[lpn.index()];
        let (next, cell) = if page.holds_data() {
            page.written(self.tick, self.since_change)
        } else {
            let first = Page::first(self.tick);
            self.pages[lpn.index()] = first;
            self.cells.placed(lpn.0, FIRST, self.tick);
            (first, FIRST)
        };
        self.pending = (lpn.0, next, cell);
        StreamId(u32::from(self.stream_of[usize::from(cell)]))
    }

    #[inline]
    fn fetch(&self, operations: &[PageOp]) {
        fetch(&self.pages, operations.iter().map(|operation| operation.lpn().0));
    }

    #[inline]
    fn page_died(&mut self, death: Death, device: &Device) {
        let lpn = death.lpn;
        if death.is_trimmed {
            self.cells.left(lpn.0, self.tick);
            self.pages[lpn.index()] = Page::default();
        } else {
            let (next, cell) = if self.pending.0 == lpn.0 {
                (self.pending.1, self.pending.2)
            } else {
                self.pages[lpn.index()].written(self.tick, self.since_change)
            };
            self.pages[lpn.index()] = next;
            self.cells.moved(lpn.0, cell, self.tick, true);
        }
        self.victims.died(death.block, device);
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        _device: &Device,
        to: &mut [StreamId],
    ) {
        fetch(&self.pages, survivors.lpns.iter().copied());
        for (to, &lpn) in to.iter_mut().zip(survivors.lpns) {
            let cell = self.pages[lpn as usize].relocated(self.tick, self.since_change);
            self.cells.moved(lpn, cell, self.tick, false);
            *to = StreamId(u32::from(self.stream_of[usize::from(cell)]));
        }
    }

    fn stream_to_close(&mut self, _device: &Device) -> Option<StreamId> {
        self.to_close.pop()
    }

    fn block_closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.victims.closed(block, domain, device);
    }

    fn choose_victim(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        self.victims.choose(domain, device)
    }

    fn victim_removed(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        self.victims.removed(block, domain);
    }

    fn stream_label(&self, stream: StreamId) -> String {
        let index = stream.index();
        if !self.is_used[index] {
            return format!("stream {index} (no more written)");
        }
        let lives = 1.0 / self.hazards[index] / f64::from(TICKS);
        format!("stream {index} (lives {lives:.3} footprints)")
    }
}
