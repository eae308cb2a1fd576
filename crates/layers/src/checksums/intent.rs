//! Which regions are marked on the device, as pages of them may be written: without I/O.
//!
//! A region's mark is durable before a page of it is written, and says so before one is trimmed. It
//! is taken away when the region's block of checksums is durable, together with all that was
//! written before, and nothing was written since.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use units::Nanos;

use super::disk::{Geometry, Superblock};

/// Regions whose marks are taken away together.
pub const BATCH: usize = 64;
/// Most bytes in memory for a region: its state, and places in lists.
pub const REGION_BYTES: u64 = size_of::<Region>() as u64 + 96;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not marked: nothing is written to it.
    #[default]
    Clean,
    /// Its mark is on the way.
    Marking,
    /// Its mark is durable.
    Marked,
    /// The same, and its block of checksums is on the way.
    Closing,
    /// Its mark is being taken away.
    Unmarking,
}

/// Whether a region's mark says that pages of it were trimmed: what those hold may change with each
/// read, so that after a crash no page of it can be taken for what a checksum says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trims {
    #[default]
    None,
    /// That is on the way.
    Marking,
    Marked,
}

/// A region that is marked, and whether pages of it were trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its number.
    pub region: u32,
    /// Pages of it were trimmed, or are about to be.
    pub has_trims: bool,
}

impl Mark {
    /// Its two bits on the device: 1 marked, 2 with trims.
    pub const fn bits(has_trims: bool) -> u8 {
        if has_trims { 3 } else { 1 }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    state: State,
    trims: Trims,
    /// Its pages may differ from their checksums, as it was marked when it was opened, or as a
    /// flush failed.
    is_unsure: bool,
    /// All its pages have to be written once more, whatever they hold.
    is_rewritten: bool,
    /// Its block could not be written: not before the next round.
    has_failed: bool,
    /// It is in `queue` or `due`.
    is_listed: bool,
    /// Writes that are under way or wait for its mark.
    writers: u32,
    /// When it was last written.
    last: Nanos,
}

/// A sector of marks.
#[derive(Debug, Default)]
struct MarkSector {
    bits: Vec<u8>,
    to_set: Vec<u32>,
    to_clear: Vec<u32>,
    /// What the write that is under way sets and clears.
    sent: Option<(Vec<Mark>, Vec<u32>)>,
}

/// A sector of marks to be written.
#[derive(Debug)]
pub struct MarkWrite {
    /// Which.
    pub sector: u32,
    /// Somebody waits until it is durable.
    pub is_fua: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub struct Intent {
    superblock: Superblock,
    delay: Nanos,
    regions: Vec<Region>,
    sectors: Vec<MarkSector>,
    /// Sectors of which something is to be set or cleared.
    changed: Vec<u32>,
    /// Tasks that wait for a region's mark, and whether they trim.
    waiters: FxHashMap<u32, Vec<(u32, bool)>>,
    /// Regions that are marked and not unsure: each once, here or in `due`, or in a batch.
    queue: VecDeque<u32>,
    /// Regions that nobody wrote to for long.
    due: VecDeque<u32>,
    /// When to look for such.
    round: Option<Nanos>,
    marked: u64,
    unsure: u64,
}

impl Intent {
    /// All regions clean, but those that are marked on the device.
    pub fn new(superblock: Superblock, delay: Nanos, marked: &[Mark]) -> Self {
        let geometry = superblock.geometry;
        let bytes = geometry.marks_of_sector() as usize / 4;
        let sector = || MarkSector { bits: vec![0; bytes], ..MarkSector::default() };
        let mut intent = Self {
            superblock,
            delay,
            regions: vec![Region::default(); geometry.regions() as usize],
            sectors: (0..geometry.mark_sectors()).map(|_| sector()).collect(),
            changed: Vec::new(),
            waiters: FxHashMap::default(),
            queue: VecDeque::new(),
            due: VecDeque::new(),
            round: None,
            marked: 0,
            unsure: marked.len() as u64,
        };
        for &Mark { region, has_trims } in marked {
            intent.regions[region as usize] = Region {
                state: State::Marked,
                trims: if has_trims { Trims::Marked } else { Trims::None },
                is_unsure: true,
                is_rewritten: has_trims,
                ..Region::default()
            };
            intent.put_bits(region);
        }
        intent
    }

    const fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    fn place(&self, region: u32) -> (usize, usize) {
        let of_sector = self.geometry().marks_of_sector();
        ((u64::from(region) / of_sector) as usize, (u64::from(region) % of_sector) as usize)
    }

    /// Puts what a region is to be into the bits of its sector.
    fn put_bits(&mut self, region: u32) {
        let Region { state, trims, .. } = self.regions[region as usize];
        let is_set = !matches!(state, State::Clean | State::Unmarking);
        let value = if is_set { Mark::bits(trims != Trims::None) } else { 0 };
        let (sector, place) = self.place(region);
        let (byte, shift) = (&mut self.sectors[sector].bits[place / 4], place % 4 * 2);
        let was_set = *byte >> shift & 1 == 1;
        *byte = *byte & !(3 << shift) | value << shift;
        self.marked = self.marked + u64::from(is_set) - u64::from(was_set);
    }

    /// Regions that are marked on the device, or about to be.
    pub const fn marked(&self) -> u64 {
        self.marked
    }

    /// A task is about to write to a region, or to trim pages of it: whether it may at once. If
    /// not, it waits for the mark.
    pub fn begin_write(&mut self, region: u32, task: u32, trims: bool, now: Nanos) -> bool {
        let entry = &mut self.regions[region as usize];
        entry.writers += 1;
        entry.last = now;
        if entry.state == State::Closing {
            // Its block will not have what comes now: it stays marked.
            entry.state = State::Marked;
        }
        if entry.state == State::Marked && (!trims || entry.trims == Trims::Marked) {
            return true;
        }
        let adds_trims = trims && entry.trims == Trims::None && entry.state != State::Unmarking;
        if adds_trims {
            entry.trims = Trims::Marking;
        }
        if entry.state == State::Clean {
            self.mark(region);
        } else if adds_trims {
            self.change(region, true);
        }
        self.waiters.entry(region).or_default().push((task, trims));
        false
    }

    /// A task that began to write to a region has ended.
    pub fn end_write(&mut self, region: u32, now: Nanos) {
        let entry = &mut self.regions[region as usize];
        entry.writers -= 1;
        entry.last = now;
    }

    fn mark(&mut self, region: u32) {
        self.regions[region as usize].state = State::Marking;
        self.change(region, true);
    }

    /// A mark is to be set or cleared.
    fn change(&mut self, region: u32, sets: bool) {
        let (number, _) = self.place(region);
        let sector = &mut self.sectors[number];
        if sector.to_set.is_empty() && sector.to_clear.is_empty() {
            self.changed.push(number as u32);
        }
        let list = if sets { &mut sector.to_set } else { &mut sector.to_clear };
        list.push(region);
    }

    /// A sector of marks that is to be written now.
    pub fn next_write(&mut self) -> Option<MarkWrite> {
        let is_free = |sector: &u32| self.sectors[*sector as usize].sent.is_none();
        let place = self.changed.iter().position(is_free)?;
        let number = self.changed.swap_remove(place);
        let sector = &mut self.sectors[number as usize];
        let (set, clear) =
            (std::mem::take(&mut sector.to_set), std::mem::take(&mut sector.to_clear));
        set.iter().chain(&clear).for_each(|&region| self.put_bits(region));
        let mark = |region: u32| Mark {
            region,
            has_trims: self.regions[region as usize].trims != Trims::None,
        };
        let set: Vec<Mark> = set.into_iter().map(mark).collect();
        let is_fua = !set.is_empty();
        let sector = &mut self.sectors[number as usize];
        sector.sent = Some((set, clear));
        let bytes = self.superblock.to_marks(number, &sector.bits);
        Some(MarkWrite { sector: number, is_fua, bytes })
    }

    /// A sector of marks was written, or could not be. Tasks that waited for one of them, and
    /// whether it is there now.
    pub fn written(&mut self, sector: u32, is_done: bool, now: Nanos) -> Vec<(u32, bool)> {
        let sent = self.sectors[sector as usize].sent.take();
        let (set, clear) = sent.expect("a write that was sent");
        let mut tasks = Vec::new();
        for mark in set {
            if is_done {
                self.marked_now(mark, now);
            } else {
                self.not_marked(mark.region);
            }
            let mut waiting = self.waiters.remove(&mark.region).unwrap_or_default();
            let entry = self.regions[mark.region as usize];
            let waits = |trims: bool| match entry.state {
                State::Marking => true,
                _ => trims && entry.trims == Trims::Marking,
            };
            waiting.retain(|&(task, trims)| {
                let stays = waits(trims);
                if !stays {
                    tasks.push((task, is_done));
                }
                stays
            });
            if !waiting.is_empty() {
                self.waiters.insert(mark.region, waiting);
            }
        }
        for region in clear {
            let entry = &mut self.regions[region as usize];
            (entry.state, entry.trims) = (State::Clean, Trims::None);
            if let Some(waiting) = self.waiters.get(&region) {
                if waiting.iter().any(|(_, trims)| *trims) {
                    entry.trims = Trims::Marking;
                }
                self.mark(region);
            }
        }
        tasks
    }

    fn marked_now(&mut self, mark: Mark, now: Nanos) {
        let entry = &mut self.regions[mark.region as usize];
        if mark.has_trims {
            entry.trims = Trims::Marked;
        }
        if entry.state == State::Marking {
            entry.state = State::Marked;
            self.enqueue(mark.region, now);
        }
    }

    /// It may be marked there: that costs no more than a look at its pages some day.
    fn not_marked(&mut self, region: u32) {
        let entry = &mut self.regions[region as usize];
        if entry.state == State::Marking {
            entry.state = State::Clean;
        }
        if entry.trims == Trims::Marking {
            entry.trims = Trims::None;
        }
        let (sector, _) = self.place(region);
        self.sectors[sector].to_set.retain(|other| *other != region);
        self.put_bits(region);
    }

    fn enqueue(&mut self, region: u32, now: Nanos) {
        let entry = &mut self.regions[region as usize];
        debug_assert!(entry.state == State::Marked && !entry.is_unsure, "{entry:?}");
        if entry.is_listed {
            return;
        }
        entry.is_listed = true;
        self.queue.push_back(region);
        self.round = self.round.or(Some(now.saturating_add(self.delay)));
    }

    /// When [`Intent::look`] is worth it.
    pub const fn wakes_at(&self) -> Option<Nanos> {
        self.round
    }

    /// Regions whose blocks could not be written may be tried again at once.
    pub fn forgive(&mut self) {
        for &region in &self.queue {
            self.regions[region as usize].has_failed = false;
        }
    }

    /// Finds the regions that nobody wrote to for long; all to which nobody writes if `is_last`.
    pub fn look(&mut self, now: Nanos, is_last: bool) {
        if !is_last && self.round.is_none_or(|round| round > now) {
            return;
        }
        for _ in 0..self.queue.len() {
            let Some(region) = self.queue.pop_front() else { break };
            let entry = &mut self.regions[region as usize];
            let is_old = entry.last.saturating_add(self.delay) <= now;
            let is_due = if is_last { !entry.has_failed } else { is_old };
            entry.has_failed &= is_last;
            let list = if is_due && entry.writers == 0 { &mut self.due } else { &mut self.queue };
            list.push_back(region);
        }
        let again = now.saturating_add((self.delay / 2).max(1));
        self.round = (!self.queue.is_empty()).then_some(again);
    }

    /// Regions whose blocks are to be written now, before their marks are taken away.
    pub fn begin_batch(&mut self, now: Nanos) -> Vec<u32> {
        let mut batch = Vec::new();
        while batch.len() < BATCH
            && let Some(region) = self.due.pop_front()
        {
            let entry = &mut self.regions[region as usize];
            entry.is_listed = false;
            if entry.writers > 0 {
                self.enqueue(region, now);
            } else {
                entry.state = State::Closing;
                batch.push(region);
            }
        }
        batch
    }

    /// The blocks of a batch are durable, but for those that failed.
    pub fn end_batch(&mut self, batch: Vec<u32>, failed: &[u32], now: Nanos) {
        for region in batch {
            let has_failed = failed.contains(&region);
            let entry = &mut self.regions[region as usize];
            if entry.is_unsure {
                continue;
            }
            if entry.state == State::Closing && !has_failed {
                entry.state = State::Unmarking;
                self.change(region, false);
            } else {
                entry.state = State::Marked;
                entry.has_failed = has_failed;
                entry.last = entry.last.max(if has_failed { now } else { 0 });
                self.enqueue(region, now);
            }
        }
    }

    /// Whether the block of a region on the device says what the table says.
    pub fn is_closed(&self, region: u32) -> bool {
        self.regions[region as usize].state == State::Clean
    }

    /// Whether pages of a region may differ from their checksums.
    pub fn is_unsure(&self, region: u32) -> bool {
        self.regions[region as usize].is_unsure
    }

    /// A flush failed: a device may have dropped what was written since the last good one, or drop
    /// it some day, though it was replied to and can be read. Which regions may have such pages.
    pub fn doubt(&mut self) -> Vec<u32> {
        let mut doubted = Vec::new();
        for (region, entry) in (0..).zip(&mut self.regions) {
            if matches!(entry.state, State::Marked | State::Closing) {
                self.unsure += u64::from(!entry.is_unsure);
                entry.state = State::Marked;
                (entry.is_unsure, entry.is_rewritten, entry.is_listed) = (true, true, false);
                doubted.push(region);
            }
        }
        self.queue.clear();
        self.due.clear();
        doubted
    }

    /// Whether all pages of a region are to be written once more.
    pub fn is_rewritten(&self, region: u32) -> bool {
        self.regions[region as usize].is_rewritten
    }

    /// All pages of a region agree with their checksums now.
    pub fn is_sure_now(&mut self, region: u32, now: Nanos) {
        self.unsure -= 1;
        let entry = &mut self.regions[region as usize];
        (entry.is_unsure, entry.is_rewritten, entry.last) = (false, false, now);
        self.enqueue(region, now);
    }

    /// Regions that are unsure.
    pub const fn unsure(&self) -> u64 {
        self.unsure
    }

    /// Which those are.
    pub fn unsure_regions(&self) -> impl Iterator<Item = u32> {
        (0..self.regions.len() as u32).filter(|&region| self.is_unsure(region))
    }
}
