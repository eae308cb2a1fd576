//! The page-mapped scheme: any logical page in any physical page, cleaned on demand.

mod audit;
mod cache_blocks;
mod cleaning;
mod frontiers;
mod long_lying;
mod pulled;
mod reclaiming;
mod remains;
mod steps;

use placement::{Block, BuildError, Death, Device, Place, Placement, Previous, Victim};
use units::{EraseBlockId, Geometry, Lpn, PageOp, Ppn, StreamId};

use crate::lanes::Lanes;
use crate::table::Table;

use cache_blocks::CacheBlocks;
use long_lying::LongLying;

pub use audit::AuditError;
pub use cache_blocks::CacheSize;
pub use cleaning::{Cleaning, Survivor};
pub use remains::{BlockRemains, Remains, RemainsError};
use units::Divider;

/// Page operations whose table entries are fetched together before the first is carried out.
const BATCH: usize = 64;

/// Counters of the FTL since it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FtlCounters {
    /// Pages that the host wrote.
    pub host_page_writes: u64,
    /// Pages that the host trimmed and that held data.
    pub trimmed_pages: u64,
    /// Valid pages copied out of victims.
    pub relocated_pages: u64,
    /// Erase blocks erased.
    pub erases: u64,
    /// Victims by their number of valid pages, 0 ... pages per erase block.
    pub victims_by_valid: Vec<u64>,
    /// Relocated pages that went to another stream than the policy's choice, since no erase block
    /// was free for that one.
    pub spilled_pages: u64,
    /// Relocated pages that cleanings took along from other streams.
    pub pulled_pages: u64,
    /// Pages left unwritten at the ends of erase blocks that a policy closed early.
    pub unused_pages: u64,
    /// Victims that the FTL chose itself, since the policies' choices had gained no space as many
    /// times in a row as there are erase blocks.
    pub rescues: u64,
    /// Victims whose data had lain for too long ([`PageMapped::move_what_lies_long`]).
    pub long_lying_victims: u64,
}

/// The write frontier of a stream.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    pub next: u32,
    pub end: u32,
}

impl Frontier {
    const CLOSED: Self = Self { next: 0, end: 0 };
}

/// A page-mapped FTL.
///
/// The erase blocks are divided into *lanes* of equal size, one after the other: a single lane
/// where pages are only counted, one for each plane of a drive. Each lane has free erase blocks,
/// write frontiers and victims of its own, since the survivors of a victim stay on its plane.
///
/// Cleaning is on demand: when a stream needs an erase block and no more than the reserve is free
/// (MULTILOG 6.1). Tables take 4 bytes per logical page, 4 bytes and a bit per physical page, and
/// some tens of bytes per erase block including the victim index.
#[derive(Debug)]
pub struct PageMapped<P, V> {
    device: Device,
    map: Table,
    owner: Table,
    valid: Vec<u64>,
    words: usize,
    erased: Vec<u32>,
    /// Indexed by stream, then lane.
    frontiers: Vec<Frontier>,
    lanes: Lanes,
    reserve: usize,
    /// Number of victims in a row, by lane, that the policies chose and that gained no space there.
    /// Gains of another lane do not help.
    without_gain: Vec<u32>,
    divider: Divider,
    placement: P,
    victims: V,
    counters: FtlCounters,
    cleaning: Cleaning,
    /// Erase blocks that were emptied but not erased yet: no victims.
    emptied: Vec<EraseBlockId>,
    /// Frontiers that are to be closed early; empty until a policy wants one closed.
    to_close: Vec<bool>,
    /// Clock when the policy was last asked for streams to close.
    asked_at: Option<u64>,
    /// `None` unless data that has lain for long is moved.
    long_lying: Option<Box<LongLying>>,
    /// `None` unless some erase blocks are a cache.
    cache: Option<Box<CacheBlocks>>,
}

const UNMAPPED: u32 = u32::MAX;

/// Memory of the tables of an FTL of this size in bytes, without those of its policies.
#[must_use]
pub fn table_bytes(geometry: Geometry) -> u64 {
    let blocks = u64::from(geometry.erase_blocks);
    let words = u64::from(geometry.pages_per_erase_block.div_ceil(64));
    let entries = u64::from(geometry.logical_pages)
        + blocks * u64::from(geometry.pages_per_erase_block)
        + 2 * blocks;
    4 * entries + 8 * words * blocks + size_of::<Block>() as u64 * blocks
}

impl<P: Placement, V: Victim> PageMapped<P, V> {
    /// Makes an FTL over erased flash.
    ///
    /// # Errors
    /// [`BuildError::TooSmall`] if the spare space does not hold the reserve and a write frontier
    /// for each stream; [`BuildError::NoOwnVictims`] if the placement policy is to choose victims
    /// and cannot.
    pub fn new(
        geometry: Geometry,
        name: &str,
        placement: P,
        victims: V,
    ) -> Result<Self, BuildError> {
        Self::with_lanes(geometry, 1, name, placement, victims)
    }

    /// As [`PageMapped::new`], with the erase blocks in `lanes`. The victim policy has
    /// [`Placement::domains`] x lanes domains.
    ///
    /// # Errors
    /// As [`PageMapped::new`], for each lane.
    ///
    /// # Panics
    /// If the erase blocks cannot be divided into so many lanes.
    pub fn with_lanes(
        geometry: Geometry,
        lanes: u32,
        name: &str,
        placement: P,
        victims: V,
    ) -> Result<Self, BuildError> {
        if victims.is_own() && !placement.features().chooses_victims {
            return Err(BuildError::NoOwnVictims(name.to_owned()));
        }
        let streams = placement.streams();
        let reserve = placement.relocation_targets() + 1;
        // The open erase blocks of the streams may hold the spare space of as many erase blocks,
        // which cannot be reclaimed: the closed ones need more.
        let (spare_blocks, needed) =
            (geometry.spare_blocks(), (streams + reserve + 1) as u32 * lanes);
        if spare_blocks < needed {
            return Err(BuildError::TooSmall {
                name: name.to_owned(),
                erase_blocks: geometry.erase_blocks,
                spare_blocks,
                needed,
            });
        }
        let words = geometry.pages_per_erase_block.div_ceil(64) as usize;
        Ok(Self {
            device: Device::new(geometry, streams),
            map: Table::new(geometry.logical_pages as usize),
            owner: Table::new(geometry.physical_pages() as usize),
            valid: vec![0; geometry.erase_blocks as usize * words],
            words,
            erased: vec![0; geometry.erase_blocks as usize],
            frontiers: vec![Frontier::CLOSED; streams * lanes as usize],
            lanes: Lanes::new(geometry, lanes, (streams + reserve + 1) as u32),
            reserve,
            without_gain: vec![0; lanes as usize],
            divider: Divider::new(geometry.pages_per_erase_block),
            placement,
            victims,
            counters: FtlCounters {
                host_page_writes: 0,
                trimmed_pages: 0,
                relocated_pages: 0,
                erases: 0,
                victims_by_valid: vec![0; geometry.pages_per_erase_block as usize + 1],
                spilled_pages: 0,
                pulled_pages: 0,
                unused_pages: 0,
                rescues: 0,
                long_lying_victims: 0,
            },
            cleaning: Cleaning::default(),
            emptied: Vec::new(),
            to_close: Vec::new(),
            asked_at: None,
            long_lying: None,
            cache: None,
        })
    }

    /// Turns on moving of data that has lain for long. An erase block becomes a victim, whatever
    /// the policies say, when its data has lain there while all erase blocks were erased
    /// `most_cycles` times on average; at most one of `every` victims is such a one. Call it before
    /// the first write.
    pub fn move_what_lies_long(&mut self, most_cycles: f64, every: u32) {
        let (blocks, lanes) = (self.device.blocks.len() as u32, self.lanes.count());
        self.long_lying = Some(Box::new(LongLying::new(blocks, lanes, most_cycles, every)));
    }

    /// Current sizes, erase blocks and streams.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Counters since the FTL was made.
    #[must_use]
    pub fn counters(&self) -> &FtlCounters {
        &self.counters
    }

    /// The placement policy.
    #[must_use]
    pub fn placement(&self) -> &P {
        &self.placement
    }

    /// Sets the placement handle of the pages that the host writes next, for policies that use
    /// handles.
    #[inline]
    pub fn set_handle(&mut self, handle: u8) {
        self.placement.set_handle(handle);
    }

    /// Number of erases of each erase block.
    #[must_use]
    pub fn erase_counts(&self) -> &[u32] {
        &self.erased
    }

    /// Memory of the FTL's own tables in bytes, without those of the policies.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        let bytes = table_bytes(self.device.geometry) as usize;
        debug_assert_eq!(
            bytes,
            4 * (self.map.all().len()
                + self.owner.all().len()
                + self.erased.len()
                + self.device.opened_at.len())
                + 8 * self.valid.len()
                + size_of::<Block>() * self.device.blocks.len()
        );
        bytes
    }

    /// Physical page of a logical page, if it holds data.
    #[inline]
    #[must_use]
    pub fn lookup(&self, lpn: Lpn) -> Option<Ppn> {
        let ppn = self.map.get(lpn.index());
        (ppn != UNMAPPED).then_some(Ppn(ppn))
    }

    /// Carries out operations in order.
    ///
    /// # Panics
    /// If an operation names a page that the device does not have.
    pub fn apply(&mut self, operations: &[PageOp]) {
        let most = if self.placement.features().looks_ahead {
            self.placement.most_ahead().max(1)
        } else {
            BATCH
        };
        for batch in operations.chunks(most) {
            self.fetch(batch);
            if self.placement.features().looks_ahead {
                self.show_ahead(batch);
            }
            for &operation in batch {
                if operation.is_trim() {
                    self.trim(operation.lpn());
                } else {
                    self.write(operation.lpn(), 0);
                }
            }
        }
    }

    /// Loads the table entries of a batch. The loads do not depend on each other, so their cache
    /// misses overlap; later each operation finds its entry in the cache. (A prefetch without
    /// unsafe code.)
    #[inline]
    fn fetch(&self, batch: &[PageOp]) {
        let mut sum = 0u32;
        for operation in batch {
            sum = sum.wrapping_add(self.map.get(operation.lpn().index()));
        }
        std::hint::black_box(sum);
        self.placement.fetch(batch);
    }

    /// As [`Self::fetch`], for callers that let time pass between operations.
    pub fn fetch_entries(&self, lpns: &[u32]) {
        let map = self.map.all();
        let sum = lpns.iter().fold(0u32, |sum, &lpn| sum.wrapping_add(map[lpn as usize]));
        std::hint::black_box(sum);
    }

    /// Loads the valid bits and erase blocks of the old versions of pages that are written soon.
    /// Call it after their map entries were loaded.
    pub fn fetch_old(&self, lpns: &[u32]) {
        let map = self.map.all();
        let mut sum = 0u32;
        for old in lpns.iter().map(|&lpn| map[lpn as usize]).filter(|&old| old != UNMAPPED) {
            let (block, offset) = self.divider.split(old);
            let word = block as usize * self.words + (offset / 64) as usize;
            sum = sum.wrapping_add(self.valid[word] as u32);
            sum = sum.wrapping_add(self.device.blocks[block as usize].valid);
        }
        std::hint::black_box(sum);
    }

    /// Shows the placement policy the coming writes of a batch.
    fn show_ahead(&mut self, batch: &[PageOp]) {
        let writes = batch.iter().filter(|operation| !operation.is_trim());
        let writes: Vec<_> =
            writes.map(|operation| (operation.lpn(), self.previous(operation.lpn()))).collect();
        self.placement.look_ahead(&writes, &self.device);
    }

    #[inline]
    fn previous(&self, lpn: Lpn) -> Option<Previous> {
        let ppn = self.map.get(lpn.index());
        if ppn == UNMAPPED {
            return None;
        }
        let block = EraseBlockId(self.divider.quotient(ppn));
        Some(Previous { block, stream: StreamId(u32::from(self.device.block(block).stream)) })
    }

    /// Gives the stream that a page would go to if the host wrote it now.
    #[inline]
    pub fn host_stream(&mut self, lpn: Lpn) -> StreamId {
        let previous =
            if self.placement.features().uses_previous { self.previous(lpn) } else { None };
        self.placement.host_stream(lpn, previous, &self.device)
    }

    /// Writes a page for the host, to a lane.
    #[inline]
    pub fn write(&mut self, lpn: Lpn, lane: u32) {
        let stream = self.host_stream(lpn);
        if !self.has_room(stream, lane) {
            self.clean_until_room(stream, lane);
        }
        self.place_for_host(lpn, stream, lane);
    }

    /// Puts a page that the host writes at a frontier, which has room ([`PageMapped::make_room`]).
    #[inline]
    pub fn place_for_host(&mut self, lpn: Lpn, stream: StreamId, lane: u32) -> Ppn {
        // Looked up only now, since cleaning may have moved the old version.
        let old = self.map.get(lpn.index());
        if old != UNMAPPED {
            self.invalidate(old);
            self.died(lpn, old, false);
        }
        let ppn = self.place(stream, lane, lpn.0, None);
        self.device.clock += 1;
        self.counters.host_page_writes += 1;
        Ppn(ppn)
    }

    /// Trims a page. Trimming a page without data changes nothing.
    pub fn trim(&mut self, lpn: Lpn) {
        let old = self.map.get(lpn.index());
        self.map.set(lpn.index(), UNMAPPED);
        if old != UNMAPPED {
            self.invalidate(old);
            self.died(lpn, old, true);
            self.counters.trimmed_pages += 1;
        }
    }

    /// Tells the placement policy that a version of a page became invalid, if it wants to know.
    #[inline]
    fn died(&mut self, lpn: Lpn, ppn: u32, is_trimmed: bool) {
        if self.placement.features().watches_deaths {
            let (block, offset) = self.divider.split(ppn);
            let stream = StreamId(u32::from(self.device.blocks[block as usize].stream));
            let death = Death { lpn, block: EraseBlockId(block), offset, stream, is_trimmed };
            self.placement.page_died(death, &self.device);
        }
    }

    #[inline]
    fn split(&self, ppn: u32) -> (u32, u32) {
        self.divider.split(ppn)
    }

    #[inline]
    fn invalidate(&mut self, ppn: u32) {
        let (block, offset) = self.divider.split(ppn);
        let entry: &mut Block = &mut self.device.blocks[block as usize];
        entry.valid -= 1;
        let stream = usize::from(entry.stream);
        self.valid[block as usize * self.words + (offset / 64) as usize] &= !(1 << (offset % 64));
        if self.placement.features().per_stream {
            self.device.streams[stream].valid_pages -= 1;
        }
        let domain = self.lanes.domain(self.placement.domain_of(stream as u32), block);
        self.lanes.lost_page(block);
        self.victims.invalidated(EraseBlockId(block), domain, &self.device);
    }

    /// Puts a page at the stream's frontier, which has room, and closes the erase block if it is
    /// full then. `from` is the erase block that the page is relocated from.
    #[inline]
    fn place(&mut self, stream: StreamId, lane: u32, lpn: u32, from: Option<EraseBlockId>) -> u32 {
        let frontier = &mut self.frontiers[self.lanes.of_stream(stream, lane)];
        let ppn = frontier.next;
        frontier.next += 1;
        let full = frontier.next == frontier.end;
        self.map.set(lpn as usize, ppn);
        self.owner.set(ppn as usize, lpn);
        let (block, offset) = self.divider.split(ppn);
        self.valid[block as usize * self.words + (offset / 64) as usize] |= 1 << (offset % 64);
        self.device.blocks[block as usize].valid += 1;
        if self.placement.features().per_stream {
            self.device.streams[stream.index()].valid_pages += 1;
        }
        self.lanes.gained_page(lane);
        if self.placement.features().watches_places {
            let place = Place { lpn: Lpn(lpn), block: EraseBlockId(block), stream, from };
            self.placement.page_placed(place, &self.device);
        }
        if full {
            self.closed(
                EraseBlockId(block),
                self.lanes.domain_in(self.placement.domain_of(stream.0), lane),
            );
        }
        ppn
    }

    /// Returns true if the placement policy chooses the victims.
    #[inline]
    fn is_own_choice(&self) -> bool {
        self.placement.features().chooses_victims && self.victims.is_own()
    }

    /// Records that an erase block is no longer a frontier.
    #[inline]
    fn closed(&mut self, block: EraseBlockId, domain: usize) {
        if let Some(cache) = &mut self.cache
            && cache.holds(self.device.block(block).stream)
        {
            return cache.closed(block);
        }
        if let Some(long_lying) = &mut self.long_lying {
            long_lying.closed(block, self.lanes.lane_of(block.0), self.counters.erases);
        }
        if self.is_own_choice() {
            self.placement.block_closed(block, domain, &self.device);
        } else {
            self.victims.closed(block, domain, &self.device);
        }
    }
}
