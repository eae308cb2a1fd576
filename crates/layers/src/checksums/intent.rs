//! Marks of regions on the device whose pages may be written: without I/O.
//!
//! A region's mark is durable before a page of it is written, and tells of trims before a page is
//! trimmed. It is cleared when the region's block of checksums is durable, together with all that
//! was written before, and nothing was written since. A region without a checksum needs no block:
//! it is marked as void instead, so that a long trim costs bits.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use units::Nanos;

use super::disk::{Geometry, Superblock};

/// Regions whose marks are cleared together.
pub const BATCH: usize = 64;
/// Most bytes in memory for a region: its state, and places in lists.
pub const REGION_BYTES: u64 = size_of::<Region>() as u64 + 96;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not marked: nothing is written to it.
    #[default]
    Clean,
    /// Its mark is being written.
    Marking,
    /// Its mark is durable.
    Marked,
    /// Its mark is durable, and its block of checksums is being written.
    Closing,
    /// Its mark is being cleared.
    Unmarking,
}

/// Note in a region's mark that pages of it were trimmed: their content may change with each read,
/// so that after a crash no page of the region can be judged by its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trims {
    #[default]
    None,
    /// The note is being written.
    Marking,
    Marked,
}

/// A region that is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of the region.
    pub region: u32,
    /// True if pages of it were trimmed, or are about to be.
    pub has_trims: bool,
}

impl Mark {
    /// Gives its two bits on the device: 1 marked, 3 with trims.
    pub const fn bits(has_trims: bool) -> u8 {
        if has_trims { 3 } else { 1 }
    }
}

/// The two bits of a region that is not marked and whose pages have no checksums, whatever its
/// block says.
pub const VOID: u8 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    state: State,
    trims: Trims,
    /// True if its pages may differ from their checksums: it was marked when the layer was opened,
    /// or a flush failed.
    is_unsure: bool,
    /// True if all its pages have to be written once more, whatever they hold.
    is_rewritten: bool,
    /// True if its block could not be written: it is not tried before the next round.
    has_failed: bool,
    /// True if its block on the device is not valid for it: no page of it had a checksum when its
    /// mark was cleared.
    is_void: bool,
    /// True if it is in `queue` or `due`.
    is_listed: bool,
    /// Writes that are under way or wait for its mark.
    writers: u32,
    /// Time of the last write.
    last: Nanos,
}

/// A sector of marks.
#[derive(Debug, Default)]
struct MarkSector {
    bits: Vec<u8>,
    to_set: Vec<u32>,
    to_clear: Vec<u32>,
    /// Marks that the write under way sets, and regions whose marks it clears.
    sent: Option<(Vec<Mark>, Vec<u32>)>,
}

/// A sector of marks to be written.
#[derive(Debug)]
pub struct MarkWrite {
    /// Number of the sector.
    pub sector: u32,
    /// True if somebody waits until it is durable.
    pub is_fua: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// State of all regions; see the module.
#[derive(Debug)]
pub struct Intent {
    superblock: Superblock,
    delay: Nanos,
    regions: Vec<Region>,
    sectors: Vec<MarkSector>,
    /// Sectors of marks that are to be changed.
    changed: Vec<u32>,
    /// Tasks that wait for a region's mark, each with true if it trims.
    waiters: FxHashMap<u32, Vec<(u32, bool)>>,
    /// Regions that are marked and not unsure: each once, here or in `due`, or in a batch.
    queue: VecDeque<u32>,
    /// Regions that nobody has written to for long.
    due: VecDeque<u32>,
    /// Time of the next search for such regions.
    round: Option<Nanos>,
    marked: u64,
    unsure: u64,
}

impl Intent {
    /// Makes all regions clean, except those that are marked on the device; `voids` are void.
    pub fn new(superblock: Superblock, delay: Nanos, marked: &[Mark], voids: &[u32]) -> Self {
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
        for &region in voids {
            intent.regions[region as usize].is_void = true;
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

    /// Puts the state of a region into the bits of its sector.
    fn put_bits(&mut self, region: u32) {
        let Region { state, trims, is_void, .. } = self.regions[region as usize];
        let is_set = !matches!(state, State::Clean | State::Unmarking);
        let unset = if is_void { VOID } else { 0 };
        let value = if is_set { Mark::bits(trims != Trims::None) } else { unset };
        let (sector, place) = self.place(region);
        let (byte, shift) = (&mut self.sectors[sector].bits[place / 4], place % 4 * 2);
        let was_set = *byte >> shift & 1 == 1;
        *byte = *byte & !(3 << shift) | value << shift;
        self.marked = self.marked + u64::from(is_set) - u64::from(was_set);
    }

    /// Gives the number of regions that are marked on the device, or about to be.
    pub const fn marked(&self) -> u64 {
        self.marked
    }

    /// Begins a write or trim of a task in a region; returns true if it may go on at once. If not,
    /// it waits for the mark.
    pub fn begin_write(&mut self, region: u32, task: u32, trims: bool, now: Nanos) -> bool {
        let entry = &mut self.regions[region as usize];
        entry.writers += 1;
        entry.last = now;
        if entry.state == State::Closing {
            // Its block will not have the new checksums: it stays marked.
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

    /// Ends a write or trim of a task in a region.
    pub fn end_write(&mut self, region: u32, now: Nanos) {
        let entry = &mut self.regions[region as usize];
        entry.writers -= 1;
        entry.last = now;
    }

    fn mark(&mut self, region: u32) {
        let entry = &mut self.regions[region as usize];
        entry.state = State::Marking;
        if entry.is_void && entry.trims == Trims::None {
            // After a crash its block would hold checksums from before the trim.
            entry.trims = Trims::Marking;
        }
        self.change(region, true);
    }

    /// Notes that a mark is to be set or cleared.
    fn change(&mut self, region: u32, sets: bool) {
        let (number, _) = self.place(region);
        let sector = &mut self.sectors[number];
        if sector.to_set.is_empty() && sector.to_clear.is_empty() {
            self.changed.push(number as u32);
        }
        let list = if sets { &mut sector.to_set } else { &mut sector.to_clear };
        list.push(region);
    }

    /// Gives a sector of marks that is to be written now.
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

    /// Notes that a sector of marks was written, or could not be. Gives the tasks that waited for
    /// one of its marks, each with true if the mark is durable.
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

    /// Notes that a mark could not be set. It may be set all the same: that costs only a look at
    /// the region's pages some day.
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

    /// Gives the time of the next [`Intent::look`].
    pub const fn wakes_at(&self) -> Option<Nanos> {
        self.round
    }

    /// Allows regions whose blocks could not be written to be tried again at once.
    pub fn forgive(&mut self) {
        for &region in &self.queue {
            self.regions[region as usize].has_failed = false;
        }
    }

    /// Finds the regions that nobody has written to for long; with `is_last`, all that nobody is
    /// writing to.
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

    /// Gives the regions whose blocks are to be written now, before their marks are cleared.
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

    /// Ends a batch: its blocks are durable, except those that failed, and those of `voids`, which
    /// need none.
    pub fn end_batch(&mut self, batch: Vec<u32>, failed: &[u32], voids: &[u32], now: Nanos) {
        for region in batch {
            let has_failed = failed.contains(&region);
            let entry = &mut self.regions[region as usize];
            if entry.is_unsure {
                continue;
            }
            if entry.state == State::Closing && !has_failed {
                entry.state = State::Unmarking;
                entry.is_void = voids.contains(&region);
                self.change(region, false);
            } else {
                entry.state = State::Marked;
                entry.has_failed = has_failed;
                entry.last = entry.last.max(if has_failed { now } else { 0 });
                self.enqueue(region, now);
            }
        }
    }

    /// Returns true if the region's block on the device agrees with the table.
    pub fn is_closed(&self, region: u32) -> bool {
        self.regions[region as usize].state == State::Clean
    }

    /// Returns true if pages of a region may differ from their checksums.
    pub fn is_unsure(&self, region: u32) -> bool {
        self.regions[region as usize].is_unsure
    }

    /// Notes that a flush failed: a device may have dropped what was written since the last good
    /// one, or drop it some day, though it was replied to and can be read. Gives the regions that
    /// may have such pages.
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

    /// Returns true if all pages of a region are to be written once more.
    pub fn is_rewritten(&self, region: u32) -> bool {
        self.regions[region as usize].is_rewritten
    }

    /// Notes that all pages of a region agree with their checksums.
    pub fn is_sure_now(&mut self, region: u32, now: Nanos) {
        self.unsure -= 1;
        let entry = &mut self.regions[region as usize];
        (entry.is_unsure, entry.is_rewritten, entry.last) = (false, false, now);
        self.enqueue(region, now);
    }

    /// Gives the number of unsure regions.
    pub const fn unsure(&self) -> u64 {
        self.unsure
    }

    /// Gives the unsure regions.
    pub fn unsure_regions(&self) -> impl Iterator<Item = u32> {
        (0..self.regions.len() as u32).filter(|&region| self.is_unsure(region))
    }
}
