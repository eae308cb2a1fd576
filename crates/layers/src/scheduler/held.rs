//! Writes that are held in memory, and for each sector the newest of them.

use std::num::NonZeroU32;

use rustc_hash::FxHashMap;
use slab::Slab;
use units::{Lifetime, Nanos};

use super::batch::HeldPart;
use super::estimate::Estimate;
use super::records::{Record, Records};
use crate::Data;

/// Stand-in for no value.
const NONE: u32 = u32::MAX;
/// Sectors of a block, which is the unit in which the newest writes are found.
const BLOCK: u64 = 8;
/// Bit of a block's value: its sectors are of several writes, or not all held, and the rest of the
/// value is its slot. Without it the value is the write of all sectors.
const MIXED: u32 = 1 << 31;
/// Number of blocks whose entries are loaded together, ahead of their turn.
const AHEAD: usize = 16;

/// Order in which merged writes are written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By address.
    Ascending,
    /// In the place of the first write among those that are merged or joined.
    Arrival,
}

/// Newest writes of a block's sectors, where they are not all of one write.
type BlockWrites = [u32; BLOCK as usize];

/// Sectors in a row that are in one held write, or in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorRun {
    /// First sector.
    pub start: u64,
    /// Sector behind the last.
    pub end: u64,
    /// Record of the write; none if they are not held.
    pub record: Option<u32>,
}

/// All writes that are held: those of the batch that is written out, and those of the window, which
/// is open.
#[derive(Debug)]
pub struct Held {
    records: Records,
    /// Bytes of the writes, at the same places; empty where a trace without data is played.
    data: Vec<Data>,
    /// Lifetime hints of the writes, at the same places; shorter if the rest has none.
    lifetimes: Vec<Lifetime>,
    /// Estimate of the time of writing one out, where that is limited.
    estimate: Option<Estimate>,
    /// Values of all blocks of which any sector is held.
    blocks: FxHashMap<u64, u32>,
    slots: Slab<BlockWrites>,
    /// Blocks of the window, where writes are merged: some are listed more than once, and of some
    /// nothing is held any more.
    listed: Vec<u64>,
    /// Number of superfluous entries that this list may have.
    stale: usize,
    /// Writes of the window in their order, where they are not merged.
    window: Vec<HeldPart>,
    order: Option<Order>,
    /// True if merged writes that lie side by side are written together.
    joins: bool,
    sector_bytes: usize,
    /// Number of the last command before the window.
    sealed: u64,
    /// Estimated time of writing out the window, in nanoseconds.
    cost_ns: u64,
    sectors: u64,
    merged_sectors: u64,
    /// Memory for ordering a batch.
    scratch: Vec<HeldPart>,
}

impl Held {
    /// Makes an empty store. With an `order`, newer writes of a window replace older ones, and are
    /// written out in that order; those that lie side by side are written together if it `joins`.
    pub fn new(
        order: Option<Order>,
        joins: bool,
        estimate: Option<Estimate>,
        sector_bytes: u32,
    ) -> Self {
        Self {
            records: Records::default(),
            data: Vec::new(),
            lifetimes: Vec::new(),
            estimate,
            blocks: FxHashMap::default(),
            slots: Slab::new(),
            listed: Vec::new(),
            stale: 0,
            window: Vec::new(),
            order,
            joins,
            sector_bytes: sector_bytes as usize,
            sealed: 0,
            cost_ns: 0,
            sectors: 0,
            merged_sectors: 0,
            scratch: Vec::new(),
        }
    }

    /// Gives the number of sectors in memory.
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Gives the number of sectors that were merged with newer ones of the same window, since the
    /// beginning.
    pub const fn merged_sectors(&self) -> u64 {
        self.merged_sectors
    }

    /// Gives the estimated time of writing out the window, in nanoseconds: the sum over its writes.
    pub const fn cost_ns(&self) -> u64 {
        self.cost_ns
    }

    /// Returns true if the window has taken nothing.
    pub fn is_window_empty(&self) -> bool {
        self.listed.is_empty() && self.window.is_empty()
    }

    /// Gives the number of a held write among all commands.
    pub fn number(&self, record: u32) -> u64 {
        self.records[record].number
    }

    /// Takes a write into the window.
    pub fn put(
        &mut self,
        start: u64,
        sectors: u32,
        number: u64,
        (lifetime, data): (Lifetime, Data),
    ) {
        let listing = u32::from(self.order.is_none());
        let Some(length) = NonZeroU32::new(sectors) else { return };
        let record = self.records.insert(Record {
            start,
            sectors: length,
            uses: sectors + listing,
            number,
            first: number,
        });
        self.carry(record, data);
        self.expect(record, lifetime);
        self.sectors += u64::from(sectors);
        self.cost_ns += self.cost_ns_of(length);
        if self.order.is_none() {
            self.window.push(HeldPart {
                start,
                end: start + u64::from(sectors),
                left: sectors,
                record,
            });
        }
        let end = start + u64::from(sectors);
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            let (from, to) = within(block, start, end);
            self.put_block(block, from, to, record);
        }
    }

    /// Makes a write the newest of some sectors of a block.
    #[inline]
    fn put_block(&mut self, block: u64, from: usize, to: usize, record: u32) {
        let value = self.value(block);
        if self.order.is_some() && !self.is_in_window(value) {
            self.listed.push(block);
        }
        let is_whole = to - from == BLOCK as usize;
        if is_whole && value & MIXED == 0 {
            self.blocks.insert(block, record);
            return self.supersede(value, BLOCK as u32, record);
        }
        let before = self.newest(value);
        if is_whole {
            if value != NONE {
                self.slots.remove((value & !MIXED) as usize);
            }
            self.blocks.insert(block, record);
        } else if value & MIXED != 0 && value != NONE {
            self.slots[(value & !MIXED) as usize][from..to].fill(record);
        } else {
            let mut newest = before;
            newest[from..to].fill(record);
            let slot = self.slots.insert(newest) as u32;
            self.blocks.insert(block, slot | MIXED);
        }
        let mut at = from;
        while at < to {
            let length = run_length(&before[at..to]);
            if before[at] != NONE {
                self.supersede(before[at], length as u32, record);
            }
            at += length;
        }
    }

    /// Gives the value of a block: a record, or with [`MIXED`] a slot.
    #[inline]
    fn value(&self, block: u64) -> u32 {
        self.blocks.get(&block).copied().unwrap_or(NONE)
    }

    /// Gives the newest writes of the sectors of a block with this value.
    fn newest(&self, value: u32) -> [u32; BLOCK as usize] {
        match value {
            _ if value & MIXED == 0 => [value; BLOCK as usize],
            NONE => [NONE; BLOCK as usize],
            _ => self.slots[(value & !MIXED) as usize],
        }
    }

    /// Returns true if a block with this value holds a write of the window, and so is in its list.
    fn is_in_window(&self, value: u32) -> bool {
        let is_new = |record: u32| self.records[record].number > self.sealed;
        match value {
            _ if value & MIXED == 0 => is_new(value),
            NONE => false,
            _ => self.newest(value).iter().any(|record| *record != NONE && is_new(*record)),
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

    /// Notes the lifetime hint of a write. While no write has one, nothing is noted.
    fn expect(&mut self, record: u32, lifetime: Lifetime) {
        let place = record as usize;
        if lifetime != Lifetime::NotSet && self.lifetimes.len() <= place {
            self.lifetimes.resize((place + 1).next_power_of_two(), Lifetime::NotSet);
        }
        if let Some(noted) = self.lifetimes.get_mut(place) {
            *noted = lifetime;
        }
    }

    /// Gives the lifetime hint of a held write.
    #[inline]
    pub fn lifetime(&self, record: u32) -> Lifetime {
        self.lifetimes.get(record as usize).copied().unwrap_or_default()
    }

    fn cost_ns_of(&self, sectors: NonZeroU32) -> Nanos {
        self.estimate.as_ref().map_or(0, |estimate| {
            estimate.time_ns(u64::from(sectors.get()) * self.sector_bytes as u64)
        })
    }

    fn supersede(&mut self, older: u32, sectors: u32, newer: u32) {
        let Record { number, first, .. } = self.records[older];
        if self.order.is_some() && number > self.sealed {
            self.merged_sectors += u64::from(sectors);
            let newer = &mut self.records[newer];
            newer.first = newer.first.min(first);
        }
        self.release(older, sectors);
    }

    /// Notes that so many uses of a write have ended.
    pub fn release(&mut self, record: u32, uses: u32) {
        let found = &mut self.records[record];
        found.uses -= uses;
        let Record { uses, number, sectors, .. } = *found;
        if uses == 0 {
            if number > self.sealed {
                self.cost_ns -= self.cost_ns_of(sectors);
            }
            self.sectors -= u64::from(sectors.get());
            self.records.remove(record);
            if let Some(data) = self.data.get_mut(record as usize) {
                *data = Data::Absent;
            }
        }
    }

    /// Finds the writes of sectors: runs in ascending order.
    pub fn find(&self, start: u64, end: u64, runs: &mut Vec<SectorRun>) {
        runs.clear();
        if self.blocks.is_empty() {
            runs.push(SectorRun { start, end, record: None });
            return;
        }
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            let newest = self.newest(self.value(block));
            let (from, to) = within(block, start, end);
            for (place, record) in newest.iter().enumerate().take(to).skip(from) {
                let (sector, record) =
                    (block * BLOCK + place as u64, (*record != NONE).then_some(*record));
                match runs.last_mut() {
                    Some(run) if run.record == record => run.end = sector + 1,
                    _ => runs.push(SectorRun { start: sector, end: sector + 1, record }),
                }
            }
        }
    }

    /// Gives the bytes of sectors of a held write; absent if it came without.
    pub fn data(&self, record: u32, start: u64, end: u64) -> Data {
        let Some(data) = self.data.get(record as usize) else { return Data::Absent };
        let Record { start: first, sectors, .. } = self.records[record];
        if start == first && end - start == u64::from(sectors.get()) {
            return data.clone();
        }
        let byte = |sector: u64| (sector - first) as usize * self.sector_bytes;
        data.slice(byte(start)..byte(end))
    }

    /// Notes that sectors of a write are on the device, where they are read from now on, unless
    /// there is a newer write.
    pub fn written(&mut self, record: u32, start: u64, end: u64) {
        self.clear_where(start, end, |_, newest| newest == record);
    }

    /// Drops older writes of these sectors, as a command of this number bypassed them. Gives the
    /// number of sectors dropped from the window, and true if any of these sectors was held.
    pub fn pass(&mut self, start: u64, end: u64, number: u64) -> (u64, bool) {
        if end - start <= BLOCK * self.blocks.len() as u64 {
            return self.clear_where(start, end, |older, _| older.number < number);
        }
        // A trim that is longer than all held blocks.
        let ranges =
            self.records.iter().map(|record| (record.start.max(start), record.end().min(end)));
        let ranges: Vec<(u64, u64)> = ranges.filter(|(from, to)| from < to).collect();
        let mut sum = (0, false);
        for (from, to) in ranges {
            let (dropped, is_held) = self.clear_where(from, to, |older, _| older.number < number);
            sum = (sum.0 + dropped, sum.1 | is_held);
        }
        sum
    }

    fn clear_where(
        &mut self,
        start: u64,
        end: u64,
        is_void: impl Fn(&Record, u32) -> bool,
    ) -> (u64, bool) {
        let (mut cleared, mut is_held) = (0, false);
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            let value = self.value(block);
            if value == NONE {
                continue;
            }
            let (from, to) = within(block, start, end);
            let mut of_window = 0;
            if value & MIXED == 0 && to - from == BLOCK as usize {
                is_held = true;
                let record = &self.records[value];
                if is_void(record, value) {
                    of_window = if record.number > self.sealed { BLOCK } else { 0 };
                    self.blocks.remove(&block);
                    self.release(value, BLOCK as u32);
                }
                self.stale += usize::from(of_window > 0);
                cleared += of_window;
                continue;
            }
            let before = self.newest(value);
            let mut newest = before;
            let mut at = from;
            while at < to {
                let (record, length) = (before[at], run_length(&before[at..to]));
                if record != NONE {
                    is_held = true;
                    if is_void(&self.records[record], record) {
                        of_window += if self.records[record].number > self.sealed {
                            length as u64
                        } else {
                            0
                        };
                        newest[at..at + length].fill(NONE);
                    }
                }
                at += length;
            }
            self.hold(block, newest);
            self.stale += usize::from(of_window > 0);
            cleared += of_window;
            self.release_all(&before, &newest);
        }
        if self.stale > 1024.max(self.listed.len() / 2) {
            self.forget_stale();
        }
        (cleared, is_held)
    }

    /// Sets the newest writes of a block of which some sector was held.
    fn hold(&mut self, block: u64, newest: [u32; BLOCK as usize]) {
        let value = self.value(block);
        if newest == [NONE; BLOCK as usize] {
            if value & MIXED != 0 {
                self.slots.remove((value & !MIXED) as usize);
            }
            self.blocks.remove(&block);
        } else if value & MIXED != 0 {
            self.slots[(value & !MIXED) as usize] = newest;
        } else if newest != [value; BLOCK as usize] {
            let slot = self.slots.insert(newest) as u32;
            self.blocks.insert(block, slot | MIXED);
        }
    }

    /// Releases writes that are not held any more.
    fn release_all(&mut self, before: &[u32; BLOCK as usize], after: &[u32; BLOCK as usize]) {
        for (older, _) in before.iter().zip(after).filter(|(older, newer)| older != newer) {
            self.release(*older, 1);
        }
    }

    /// Cleans the list of the window: each block once, if any of its sectors is held.
    fn forget_stale(&mut self) {
        self.stale = 0;
        let mut listed = std::mem::take(&mut self.listed);
        listed.sort_unstable();
        listed.dedup();
        listed.retain(|block| self.value(*block) != NONE);
        self.listed = listed;
    }

    /// Closes the window after command `number`, and gives its writes in the order of writing: as
    /// they came, or merged and in the order that is set. No batch may be under way.
    pub fn seal(&mut self, number: u64, parts: &mut Vec<HeldPart>) {
        parts.clear();
        self.sealed = number;
        self.cost_ns = 0;
        self.stale = 0;
        std::mem::swap(&mut self.window, parts);
        let mut listed = std::mem::take(&mut self.listed);
        listed.sort_unstable();
        listed.dedup();
        for some in listed.chunks(AHEAD) {
            self.load(some);
            for block in some {
                let value = self.value(*block);
                if value & MIXED == 0 {
                    self.seal_run(block * BLOCK, BLOCK as u32, value, parts);
                } else if value != NONE {
                    self.seal_mixed(*block, value, parts);
                }
            }
        }
        listed.clear();
        self.listed = listed;
        if self.order == Some(Order::Arrival) {
            self.order_by_arrival(parts);
        }
    }

    fn seal_mixed(&mut self, block: u64, value: u32, parts: &mut Vec<HeldPart>) {
        let newest = self.newest(value);
        let mut at = 0;
        while at < newest.len() {
            let length = run_length(&newest[at..]);
            if newest[at] != NONE {
                self.seal_run(block * BLOCK + at as u64, length as u32, newest[at], parts);
            }
            at += length;
        }
    }

    /// Adds sectors of a write to the end of the batch.
    #[inline]
    fn seal_run(&mut self, start: u64, sectors: u32, record: u32, parts: &mut Vec<HeldPart>) {
        match parts.last_mut() {
            Some(part) if part.record == record && part.end == start => {
                part.end += u64::from(sectors);
                part.left += sectors;
            }
            _ => {
                self.records[record].uses += 1;
                parts.push(HeldPart {
                    start,
                    end: start + u64::from(sectors),
                    left: sectors,
                    record,
                });
            }
        }
    }

    /// Loads the entries of blocks, and the records that they name. The loads of each kind do not
    /// depend on each other, so that their cache misses overlap. (A prefetch without unsafe code.)
    fn load(&self, blocks: &[u64]) {
        let mut sum = 0;
        let mut values = [NONE; AHEAD];
        for (value, block) in values.iter_mut().zip(blocks) {
            *value = self.value(*block);
        }
        for value in values {
            sum ^= self.records.touch(value);
        }
        std::hint::black_box(sum);
    }

    /// Loads the records of the next parts of a batch.
    pub fn load_parts(&self, parts: &[HeldPart]) {
        let mut sum = 0;
        for part in parts {
            sum ^= self.value(part.start / BLOCK);
            sum ^= self.records.touch(part.record);
        }
        std::hint::black_box(sum);
    }

    /// Orders parts by arrival. Those that are joined stay together, at the place of the first
    /// write among them.
    fn order_by_arrival(&mut self, parts: &mut Vec<HeldPart>) {
        let mut rows: Vec<(u64, &[HeldPart])> = parts
            .chunk_by(|one, next| self.joins && one.end == next.start)
            .map(|row| {
                (row.iter().map(|part| self.records[part.record].first).min().unwrap_or(0), row)
            })
            .collect();
        rows.sort_unstable_by_key(|(first, row)| (*first, row[0].start));
        self.scratch.clear();
        rows.iter().for_each(|(_, row)| self.scratch.extend_from_slice(row));
        std::mem::swap(&mut self.scratch, parts);
    }
}

/// Gives the number of equal values at the beginning.
fn run_length(newest: &[u32]) -> usize {
    newest.iter().take_while(|other| **other == newest[0]).count()
}

/// Gives the places in a block that a range of sectors covers.
const fn within(block: u64, start: u64, end: u64) -> (usize, usize) {
    let first = block * BLOCK;
    let from = start.saturating_sub(first);
    let to = if end < first + BLOCK { end - first } else { BLOCK };
    (from as usize, to as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a window that no limit closes, with nothing in it.
    #[test]
    fn blocks_that_differ_only_above_their_numbers_lower_half_are_told_apart() {
        let mut held = Held::new(Some(Order::Ascending), true, None, 512);
        let far = BLOCK << 32;
        held.put(0, 8, 1, (Lifetime::NotSet, Data::Absent));
        held.put(far, 8, 2, (Lifetime::NotSet, Data::Absent));
        held.put(far * 2, 4, 3, (Lifetime::NotSet, Data::Absent));
        let mut runs = Vec::new();
        let mut found = |held: &Held, start: u64| {
            held.find(start, start + 8, &mut runs);
            runs.iter().map(|run| run.record.map(|record| held.number(record))).collect::<Vec<_>>()
        };
        assert_eq!(
            (found(&held, 0), found(&held, far), found(&held, far * 2)),
            (vec![Some(1)], vec![Some(2)], vec![Some(3), None])
        );
        assert_eq!(held.pass(far, far + 8, 4), (8, true));
        assert_eq!(
            (found(&held, 0), found(&held, far), found(&held, far * 2)),
            (vec![Some(1)], vec![None], vec![Some(3), None])
        );
        assert_eq!(held.pass(0, far * 3, 5), (12, true));
        assert!(held.blocks.is_empty() && held.slots.is_empty() && held.records.is_empty());
    }

    #[test]
    fn blocks_that_became_void_leave_nothing_behind() {
        let mut held = Held::new(Some(Order::Ascending), true, None, 512);
        held.put(0, 8, 1, (Lifetime::NotSet, Data::Absent));
        for round in 1..100_000_u64 {
            // Different blocks and the same one, as a whole and in part.
            for (start, end) in [(round * 8, round * 8 + 8), (8, 12)] {
                held.put(start, (end - start) as u32, round * 2, (Lifetime::NotSet, Data::Absent));
                held.pass(start, end, round * 2 + 1);
            }
        }
        assert!(
            held.slots.is_empty() && held.blocks.len() == 1 && held.listed.len() < 5000,
            "{} in the list",
            held.listed.len()
        );
        let mut parts = Vec::new();
        held.seal(300_000, &mut parts);
        assert_eq!((parts.len(), parts[0].start, held.sectors()), (1, 0, 8));
    }
}
