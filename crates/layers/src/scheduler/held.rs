//! What is held in memory: the writes, and for each sector the newest of them.

use std::num::NonZeroU32;

use rustc_hash::FxHashMap;
use slab::Slab;
use units::Nanos;

use super::batch::Part;
use super::estimate::Estimate;
use crate::Data;

/// Sectors of a block, which is the unit in which the newest writes are found.
const BLOCK: u64 = 8;
/// No write.
const NONE: u32 = u32::MAX;

/// In which order merged writes are written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By address.
    Ascending,
    /// In the place of the first write of what was merged or lies side by side.
    Arrival,
}

/// One write that is held, in half a line of the cache.
#[derive(Debug)]
struct Record {
    /// First sector.
    start: u64,
    sectors: NonZeroU32,
    /// Sectors of which it is the newest, and parts of a batch that are of it: it is dropped with the last.
    uses: u32,
    /// Its number among all commands.
    number: u64,
    /// Number of the first write of the window that it is merged with, or its own.
    first: u64,
}

/// The newest writes of a block's sectors.
#[derive(Clone, Copy, Debug)]
struct Slot {
    newest: [u32; BLOCK as usize],
    /// It is in the list of the window.
    is_listed: bool,
}

/// Sectors in a row that are in one held write, or in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First sector.
    pub start: u64,
    /// The one behind the last.
    pub end: u64,
    /// Where they are held.
    pub record: Option<u32>,
}

/// All writes that are held: those of the batch that is written out, and those of the window, which is open.
#[derive(Debug)]
pub struct Held {
    records: Slab<Record>,
    /// What they carry, at the same places; nothing where a trace without data is played.
    data: Vec<Data>,
    /// Estimates the time of writing one out, where that is limited.
    estimate: Option<Estimate>,
    /// Number of a block -> its slot. Flat tables by a hash: a page costs a look-up or two, however much is held.
    blocks: FxHashMap<u64, u32>,
    slots: Slab<Slot>,
    /// Blocks of the window and their slots, where writes are merged.
    listed: Vec<(u64, u32)>,
    /// Times that one of them became empty.
    emptied: usize,
    /// Writes of the window in their order, where they are not.
    window: Vec<Part>,
    order: Option<Order>,
    sector_bytes: usize,
    /// Number of the last command before the window.
    sealed: u64,
    /// Estimated time of writing out the window.
    cost_ns: u64,
    sectors: u64,
    merged_sectors: u64,
    /// For putting a batch in order.
    scratch: Vec<Part>,
}

impl Held {
    /// Nothing. Where writes are merged, older ones are dropped when newer ones come within a window, and come out in an order.
    pub fn new(order: Option<Order>, estimate: Option<Estimate>, sector_bytes: u32) -> Self {
        Self {
            records: Slab::new(),
            data: Vec::new(),
            estimate,
            blocks: FxHashMap::default(),
            slots: Slab::new(),
            listed: Vec::new(),
            emptied: 0,
            window: Vec::new(),
            order,
            sector_bytes: sector_bytes as usize,
            sealed: 0,
            cost_ns: 0,
            sectors: 0,
            merged_sectors: 0,
            scratch: Vec::new(),
        }
    }

    /// Sectors whose bytes are in memory.
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Sectors that were merged with newer ones of the same window, since the beginning.
    pub const fn merged_sectors(&self) -> u64 {
        self.merged_sectors
    }

    /// Estimated time of writing out the window, in nanoseconds: each write for itself.
    pub const fn cost_ns(&self) -> u64 {
        self.cost_ns
    }

    /// Whether the window has taken nothing.
    pub fn is_window_empty(&self) -> bool {
        self.listed.is_empty() && self.window.is_empty()
    }

    /// Number of a held write among all commands.
    pub fn number(&self, record: u32) -> u64 {
        self.records[record as usize].number
    }

    /// Takes a write into the window.
    pub fn put(&mut self, start: u64, sectors: u32, number: u64, data: Data) {
        let listing = u32::from(self.order.is_none());
        let Some(length) = NonZeroU32::new(sectors) else { return };
        let record = self.records.insert(Record { start, sectors: length, uses: sectors + listing, number, first: number }) as u32;
        self.carry(record, data);
        self.sectors += u64::from(sectors);
        self.cost_ns += self.cost_ns_of(length);
        if self.order.is_none() {
            self.window.push(Part { start, end: start + u64::from(sectors), left: sectors, record });
        }
        let end = start + u64::from(sectors);
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            let slots = &mut self.slots;
            let slot =
                *self.blocks.entry(block).or_insert_with(|| slots.insert(Slot { newest: [NONE; BLOCK as usize], is_listed: false }) as u32);
            let found = &mut self.slots[slot as usize];
            if self.order.is_some() && !found.is_listed {
                found.is_listed = true;
                self.listed.push((block, slot));
            }
            let (from, to) = within(block, start, end);
            let before = found.newest;
            found.newest[from..to].fill(record);
            let mut place = from;
            while place < to {
                let length = run_length(&before[place..to]);
                if before[place] != NONE {
                    self.supersede(before[place], length as u32, record);
                }
                place += length;
            }
        }
    }

    fn carry(&mut self, record: u32, data: Data) {
        if !data.is_absent() && self.data.len() <= record as usize {
            self.data.resize(self.data.len().max(64) * 2, Data::Absent);
            return self.carry(record, data);
        }
        if let Some(place) = self.data.get_mut(record as usize) {
            *place = data;
        }
    }

    fn cost_ns_of(&self, sectors: NonZeroU32) -> Nanos {
        self.estimate.as_ref().map_or(0, |estimate| estimate.time_ns(u64::from(sectors.get()) * self.sector_bytes as u64))
    }

    fn supersede(&mut self, older: u32, sectors: u32, newer: u32) {
        let Record { number, first, .. } = self.records[older as usize];
        if self.order.is_some() && number > self.sealed {
            self.merged_sectors += u64::from(sectors);
            let newer = &mut self.records[newer as usize];
            newer.first = newer.first.min(first);
        }
        self.release(older, sectors);
    }

    /// So many uses of a write have ended.
    pub fn release(&mut self, record: u32, uses: u32) {
        let found = &mut self.records[record as usize];
        found.uses -= uses;
        if found.uses == 0 {
            if found.number > self.sealed {
                let sectors = found.sectors;
                self.cost_ns -= self.cost_ns_of(sectors);
            }
            self.sectors -= u64::from(self.records.remove(record as usize).sectors.get());
            if let Some(data) = self.data.get_mut(record as usize) {
                *data = Data::Absent;
            }
        }
    }

    /// Where sectors are: runs in ascending order.
    pub fn find(&self, start: u64, end: u64, runs: &mut Vec<Run>) {
        runs.clear();
        if self.blocks.is_empty() {
            runs.push(Run { start, end, record: None });
            return;
        }
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            let newest = self.blocks.get(&block).map_or(&[NONE; BLOCK as usize], |slot| &self.slots[*slot as usize].newest);
            let (from, to) = within(block, start, end);
            for (place, record) in newest.iter().enumerate().take(to).skip(from) {
                let (sector, record) = (block * BLOCK + place as u64, (*record != NONE).then_some(*record));
                match runs.last_mut() {
                    Some(run) if run.record == record => run.end = sector + 1,
                    _ => runs.push(Run { start: sector, end: sector + 1, record }),
                }
            }
        }
    }

    /// The bytes of sectors of a held write; absent if it came without.
    pub fn data(&self, record: u32, start: u64, end: u64) -> Data {
        let Some(data) = self.data.get(record as usize) else { return Data::Absent };
        let Record { start: first, sectors, .. } = self.records[record as usize];
        if start == first && end - start == u64::from(sectors.get()) {
            return data.clone();
        }
        let byte = |sector: u64| (sector - first) as usize * self.sector_bytes;
        data.slice(byte(start)..byte(end))
    }

    /// These sectors of a write are on the device: from now on they are read there, unless there is a newer write.
    pub fn written(&mut self, record: u32, start: u64, end: u64) {
        self.clear_where(start, end, |_, newest| newest == record);
    }

    /// A command of this number went past what is held, and older writes are void. Tells how many sectors of the window were
    /// dropped, and whether anything was held of these sectors.
    pub fn pass(&mut self, start: u64, end: u64, number: u64) -> (u64, bool) {
        if end - start <= BLOCK * self.blocks.len() as u64 {
            return self.clear_where(start, end, |older, _| older.number < number);
        }
        // A trim of more than is held.
        let blocks: Vec<u64> = self.blocks.keys().copied().filter(|block| (start / BLOCK..end.div_ceil(BLOCK)).contains(block)).collect();
        let mut sum = (0, false);
        for block in blocks {
            let (from, to) = within(block, start, end);
            let (from, to) = (block * BLOCK + from as u64, block * BLOCK + to as u64);
            let (dropped, is_held) = self.clear_where(from, to, |older, _| older.number < number);
            sum = (sum.0 + dropped, sum.1 | is_held);
        }
        sum
    }

    fn clear_where(&mut self, start: u64, end: u64, is_void: impl Fn(&Record, u32) -> bool) -> (u64, bool) {
        let (mut cleared, mut is_held) = (0, false);
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            let Some(slot) = self.blocks.get(&block).copied() else { continue };
            let Slot { newest, is_listed } = self.slots[slot as usize];
            let (from, to) = within(block, start, end);
            // Told from what was read before: the processor waits when it reads what was just written in parts.
            let mut is_empty = newest[..from].iter().chain(&newest[to..]).all(|record| *record == NONE);
            let mut place = from;
            while place < to {
                let (record, length) = (newest[place], run_length(&newest[place..to]));
                if record != NONE {
                    is_held = true;
                    if is_void(&self.records[record as usize], record) {
                        cleared += if self.records[record as usize].number > self.sealed { length as u64 } else { 0 };
                        self.slots[slot as usize].newest[place..place + length].fill(NONE);
                        self.release(record, length as u32);
                    } else {
                        is_empty = false;
                    }
                }
                place += length;
            }
            if is_empty && is_listed {
                self.emptied += 1;
            } else if is_empty {
                self.slots.remove(slot as usize);
                self.blocks.remove(&block);
            }
        }
        if self.emptied > 1024.max(self.listed.len() / 2) {
            self.forget_empty();
        }
        (cleared, is_held)
    }

    /// Blocks of the window of which nothing is held any more.
    fn forget_empty(&mut self) {
        self.emptied = 0;
        let Self { listed, slots, blocks, .. } = self;
        listed.retain(|(block, slot)| {
            let is_held = slots[*slot as usize].newest != [NONE; BLOCK as usize];
            if !is_held {
                slots.remove(*slot as usize);
                blocks.remove(block);
            }
            is_held
        });
    }

    /// Closes the window after command `number`, and gives its writes in the order in which they are to be written: as they came, or
    /// merged and in the order that is set. No batch is being written.
    pub fn seal(&mut self, number: u64, parts: &mut Vec<Part>) {
        parts.clear();
        self.sealed = number;
        self.cost_ns = 0;
        self.emptied = 0;
        std::mem::swap(&mut self.window, parts);
        let mut listed = std::mem::take(&mut self.listed);
        listed.sort_unstable();
        for (block, slot) in listed.drain(..) {
            let found = &mut self.slots[slot as usize];
            found.is_listed = false;
            let newest = found.newest;
            let mut place = 0;
            while place < newest.len() {
                let record = newest[place];
                let length = run_length(&newest[place..]);
                let start = block * BLOCK + place as u64;
                place += length;
                if record == NONE {
                    continue;
                }
                match parts.last_mut() {
                    Some(part) if part.record == record && part.end == start => {
                        part.end += length as u64;
                        part.left += length as u32;
                    }
                    _ => {
                        self.records[record as usize].uses += 1;
                        parts.push(Part { start, end: start + length as u64, left: length as u32, record });
                    }
                }
            }
            if newest == [NONE; BLOCK as usize] {
                self.slots.remove(slot as usize);
                self.blocks.remove(&block);
            }
        }
        self.listed = listed;
        if self.order == Some(Order::Arrival) {
            self.order_by_arrival(parts);
        }
    }

    /// Parts that lie side by side stay together, at the place of the first write among them.
    fn order_by_arrival(&mut self, parts: &mut Vec<Part>) {
        let mut rows: Vec<(u64, &[Part])> = parts
            .chunk_by(|one, next| one.end == next.start)
            .map(|row| (row.iter().map(|part| self.records[part.record as usize].first).min().unwrap_or(0), row))
            .collect();
        rows.sort_unstable_by_key(|(first, row)| (*first, row[0].start));
        self.scratch.clear();
        rows.iter().for_each(|(_, row)| self.scratch.extend_from_slice(row));
        std::mem::swap(&mut self.scratch, parts);
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = Self { merged_sectors: self.merged_sectors, ..Self::new(self.order, self.estimate.take(), self.sector_bytes as u32) };
    }
}

/// How many at the beginning are the same.
fn run_length(newest: &[u32]) -> usize {
    newest.iter().take_while(|other| **other == newest[0]).count()
}

/// The places in a block that a range of sectors covers.
const fn within(block: u64, start: u64, end: u64) -> (usize, usize) {
    let first = block * BLOCK;
    let from = start.saturating_sub(first);
    let to = if end < first + BLOCK { end - first } else { BLOCK };
    (from as usize, to as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window that nothing closes, as nothing is held.
    #[test]
    fn blocks_that_became_void_leave_nothing_behind() {
        let mut held = Held::new(Some(Order::Ascending), None, 512);
        held.put(0, 8, 1, Data::Absent);
        for round in 1..100_000_u64 {
            held.put(round * 8, 8, round * 2, Data::Absent);
            held.pass(round * 8, round * 8 + 8, round * 2 + 1);
        }
        assert!(held.slots.len() < 5000 && held.listed.len() < 5000, "{} blocks, {} in the list", held.slots.len(), held.listed.len());
        let mut parts = Vec::new();
        held.seal(300_000, &mut parts);
        assert_eq!((parts.len(), parts[0].start, held.sectors()), (1, 0, 8));
    }
}
