//! DFTL: any logical page anywhere, with the map on flash and only the entries in use in DRAM.
//!
//! The map lies in *translation pages*, which are logical pages beyond those of the host to the
//! page-mapped scheme below: written out of place, cleaned and levelled like the others, in erase
//! blocks of their own. Their places (the global translation directory) are in DRAM. The rules of
//! the paper, and the differences here:
//!
//! - A page that is read or written needs its entry in the cached mapping table (algorithm 1); if
//!   it is not there, its translation page is read. A read waits for that. A write does not, since
//!   its new place does not depend on the old one: it only keeps the die busy. Several misses of
//!   one translation page wait for one read of it. The paper caches single entries, as
//!   `load_entries=1` does; more are loaded, changed and evicted together.
//! - The cache is a segmented LRU, as in the paper, which does not say how large the protected
//!   segment is.
//! - An evicted entry that has changed is written: its translation page is read, unless it is in
//!   memory, and written with all its changed entries in the cache, which then need no further
//!   write (batch update). Nothing waits for that, whereas the paper's single request at a time
//!   does; the buffers for it come in addition to `cached_entries`. Updates of a translation page
//!   that is to be written anyway go with it.
//! - Cleaning changes entries (lazy copying): those that are cached there, those that are not in
//!   their translation pages, one write for all entries of a translation page that one victim held.
//!   The erase does not wait for these writes: the drive would have to find such pages again, after
//!   a loss of power, by the logical page numbers beside them.
//!
//! The whole map is in the simulator's memory all the same: cache and translation pages only
//! determine which flash operations are needed, and when. Further simplifications: a page that
//! holds no data, or that is in the controller's memory, is answered without a translation;
//! translation pages are read whole; writing in no time (filling, ageing) writes translation pages
//! for evicted entries, but not for pages that its cleaning moves, and leaves the cache with the
//! entries of the last pages written, all of them on flash.

use placement::{AnyVictim, BuildError, Placement};
use registry::{Args, Info, Param, ParamKind};
use units::Lpn;

use super::dftl_cache::Cached;
use super::dftl_mapping::{Mapping, NONE, PageState, Waiter};
use super::own_stream::WithOwnStream;
use super::page_mapped::{PageMappedScheme, Place, SchemeSettings};
use super::{ReadPath, Scheme, SchemeCounters, SchemeError, WornOut, page_mapped};
use crate::drive::media::{Cause, Command, Done, FlashOp, Media, Tag};
use crate::drive::time::{Picos, picos_of_micros};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "dftl",
    aliases: &[],
    summary: "any logical page anywhere; the map on flash, its entries in use in DRAM",
    source: "Gupta, Kim, Urgaonkar, ASPLOS 2009",
    params: &[
        page_mapped::INFO.params[0],
        page_mapped::INFO.params[1],
        Param {
            name: "cached_entries",
            kind: ParamKind::Integer { min: 1, max: 1 << 31 },
            default: "64Ki",
            help: "entries of the map that DRAM holds",
        },
        Param {
            name: "load_entries",
            kind: ParamKind::Integer { min: 1, max: 16384 },
            default: "1",
            help: "entries in a row that a miss loads, and that are evicted together; divides \
                   page_bytes / 4",
        },
        Param {
            name: "protected",
            kind: ParamKind::Number { min: 0.0, max: 0.95 },
            default: "50%",
            help: "share of the cache for entries used more than once; 0 for plain LRU",
        },
        Param {
            name: "host_memory_bytes",
            kind: ParamKind::Integer { min: 0, max: 1 << 36 },
            default: "0",
            help: "memory of the host's for translation pages (NVMe host memory buffer); 0 for none",
        },
        Param {
            name: "host_memory_us",
            kind: ParamKind::Number { min: 0.0, max: 1e6 },
            default: "2",
            help: "microseconds to fetch a translation page from there, over the link",
        },
    ],
};

/// Bytes of an entry of the map on flash: a physical page number.
const ENTRY_BYTES: u32 = 4;

/// Size of the map, and of its part in DRAM.
#[derive(Clone, Copy, Debug)]
pub struct MapSize {
    pub(super) host_pages: u32,
    pub(super) entries: u32,
    pub(super) load_entries: u32,
    pub(super) cached: u64,
    pub(super) protected: f64,
    /// Most translation pages in the host's memory, and the time to fetch one.
    pub(super) host_memory: (u64, Picos),
}

impl MapSize {
    /// Computes the size from the parameters of [`INFO`].
    ///
    /// # Errors
    /// [`SchemeError::LoadEntries`] if the entries loaded at once would straddle translation pages.
    pub fn new(args: &Args, host_pages: u32, page_bytes: u32) -> Result<Self, SchemeError> {
        let entries = page_bytes / ENTRY_BYTES;
        let load_entries = args.integer("load_entries");
        if !u64::from(entries).is_multiple_of(load_entries) {
            return Err(SchemeError::LoadEntries { scheme: INFO.name, load_entries, entries });
        }
        let (cached, protected) = (args.integer("cached_entries"), args.number("protected"));
        let in_host = args.integer("host_memory_bytes") / u64::from(page_bytes);
        let host_memory = (in_host, picos_of_micros(args.number("host_memory_us")));
        let load_entries = load_entries as u32;
        Ok(Self { host_pages, entries, load_entries, cached, protected, host_memory })
    }

    /// Number of logical pages including the translation pages.
    #[must_use]
    pub fn all_pages(&self) -> u32 {
        self.host_pages + self.host_pages.div_ceil(self.entries)
    }

    /// A placement policy that keeps translation pages apart from those of the host, on this many
    /// planes.
    #[must_use]
    pub fn place_apart<P: Placement>(&self, policy: P, planes: u32) -> WithOwnStream<P> {
        WithOwnStream::new(policy, self.host_pages, planes, "translation")
    }
}

/// The scheme.
#[derive(Debug)]
pub struct DftlScheme<P> {
    below: PageMappedScheme<WithOwnStream<P>, Mapping>,
    host_pages: u32,
    page_bytes: u32,
    /// Tags below this belong to the scheme below.
    lanes: u32,
}

impl<P: Placement> DftlScheme<P> {
    /// Makes the scheme over erased media. `settings` has [`MapSize::all_pages`], the policy is
    /// from [`MapSize::place_apart`].
    ///
    /// # Errors
    /// [`BuildError::TooSmall`] if a plane has too few spare erase blocks for the policy and the
    /// translation pages.
    pub fn new(
        settings: SchemeSettings<'_>,
        size: &MapSize,
        name: &str,
        policy: WithOwnStream<P>,
        victims: AnyVictim,
    ) -> Result<Self, BuildError> {
        let (page_bytes, lanes) = (settings.layout.page_bytes, settings.layout.planes());
        let geometry = settings.layout.geometry(size.host_pages);
        let below =
            PageMappedScheme::watched(settings, name, policy, victims, Mapping::new(size, lanes))?;
        // Every translation page may wait to be written while its last version is still valid: a
        // lane that is full of valid pages cannot be cleaned.
        let room: u64 = (0..lanes).map(|lane| u64::from(below.ftl().lanes().capacity(lane))).sum();
        let held = u64::from(size.all_pages()) + u64::from(size.all_pages() - size.host_pages);
        if room < held {
            let spare_blocks = geometry.spare_blocks();
            let missing = (held - room).div_ceil(geometry.pages_per_erase_block.into()) as u32;
            let erase_blocks = geometry.erase_blocks;
            return Err(BuildError::TooSmall {
                name: name.to_owned(),
                erase_blocks,
                spare_blocks,
                needed: spare_blocks + missing,
            });
        }
        Ok(Self { below, host_pages: size.host_pages, page_bytes, lanes })
    }

    fn tag_of(&self, page: u32) -> Tag {
        Tag::scheme(self.lanes + page)
    }

    /// Looks a page's entry up in the cache, and loads it if it is not there. Returns true if it is
    /// known now; otherwise a read waits.
    #[inline]
    fn translate(&mut self, lpn: Lpn, read: Option<(u32, Tag)>, media: &mut Media) -> bool {
        let mapping = self.below.watch_mut();
        let (unit, page) = mapping.cache.place_of(lpn.0);
        let cached = mapping.cache.touch(unit);
        if cached == Cached::Known {
            mapping.hits += 1;
            return true;
        }
        mapping.misses += 1;
        if cached == Cached::No
            && let Some(evicted) = mapping.cache.insert(unit)
        {
            mapping.updated.push(evicted);
        }
        if !mapping.pages[page as usize].is_read && !self.read_translation(page, media) {
            return true;
        }
        let mapping = self.below.watch_mut();
        mapping.cache.set_loading(unit, true);
        let (bytes, tag) = read.map_or((0, None), |(bytes, tag)| (bytes, Some(tag)));
        mapping.wait(page, Waiter { lpn: lpn.0, bytes, tag, next: NONE });
        false
    }

    /// Reads a translation page, unless it is in memory or there is none. Returns true if it is
    /// read.
    fn read_translation(&mut self, page: u32, media: &mut Media) -> bool {
        // It may be programmed without this being known yet.
        if self.below.watch().pages[page as usize].is_written {
            return false;
        }
        let Place::Flash(place) = self.below.locate(self.below.watch().lpn_of(page), media) else {
            return false;
        };
        let mapping = self.below.watch_mut();
        let is_in_host = match &mut mapping.host_memory {
            Some(memory) => memory.fetch(page, media.now()),
            None => false,
        };
        if !is_in_host {
            media.submit(Command::read(place, self.page_bytes, Cause::Mapping, self.tag_of(page)));
        }
        let mapping = self.below.watch_mut();
        mapping.pages[page as usize].is_read = true;
        mapping.under_way += 1;
        true
    }

    /// Writes the translation pages that are due since entries were evicted or pages moved.
    #[inline]
    fn settle_updates(&mut self, media: &mut Media) {
        // Such a write may make the scheme below clean, and move further pages.
        while !self.below.watch().updated.is_empty() {
            self.write_updated(media);
        }
    }

    fn write_updated(&mut self, media: &mut Media) {
        let mut updated = std::mem::take(&mut self.below.watch_mut().updated);
        for page in updated.drain(..) {
            let state = &mut self.below.watch_mut().pages[page as usize];
            let goes_along = state.is_due || state.is_read || state.is_written;
            state.is_due = true;
            if !goes_along && !self.read_translation(page, media) {
                self.write_translation(page, media);
            }
        }
        let pushed = &mut self.below.watch_mut().updated;
        if pushed.is_empty() {
            // Kept, so that no memory is allocated.
            *pushed = updated;
        }
    }

    /// Writes a translation page that is in memory.
    fn write_translation(&mut self, page: u32, media: &mut Media) {
        self.take_changes(page);
        let mapping = self.below.watch_mut();
        let state = &mut mapping.pages[page as usize];
        assert!(
            !state.is_read && !state.is_written,
            "translation page {page} is read or written already"
        );
        state.is_due = false;
        state.is_written = true;
        mapping.under_way += 1;
        let lpn = mapping.lpn_of(page);
        self.below.write(lpn, self.tag_of(page), media);
    }

    /// Records that a translation page is written with all its current entries.
    fn take_changes(&mut self, page: u32) {
        let mapping = self.below.watch_mut();
        mapping.cache.written(page);
        if let Some(memory) = &mut mapping.host_memory {
            memory.put(page);
        }
        #[cfg(test)]
        self.note_written(page);
    }

    /// Handles the end of a read of a translation page: operations that waited for it continue.
    fn loaded(&mut self, page: u32, media: &mut Media) {
        let mapping = self.below.watch_mut();
        mapping.under_way -= 1;
        mapping.pages[page as usize].is_read = false;
        if let Some(memory) = &mut mapping.host_memory {
            memory.put(page);
        }
        while let Some(waiter) = self.below.watch_mut().next_waiter(page) {
            let mapping = self.below.watch_mut();
            let (unit, _) = mapping.cache.place_of(waiter.lpn);
            mapping.cache.set_loading(unit, false);
            if let Some(tag) = waiter.tag {
                let Place::Flash(place) = self.below.locate(Lpn(waiter.lpn), media) else {
                    unreachable!("a read is released before logical page {} changes", waiter.lpn)
                };
                media.submit(Command::read(place, waiter.bytes, Cause::Host, tag));
            }
        }
        if self.below.watch().pages[page as usize].is_due {
            self.write_translation(page, media);
        }
    }

    /// Handles the end of a write of a translation page.
    fn stored(&mut self, page: u32, media: &mut Media) {
        let mapping = self.below.watch_mut();
        mapping.under_way -= 1;
        let state = &mut mapping.pages[page as usize];
        state.is_written = false;
        if state.is_due {
            self.write_translation(page, media);
        }
    }

    #[inline]
    fn release(&mut self, lpn: Lpn, media: &mut Media) {
        if self.below.watch().is_awaited(lpn) {
            let place = self.below.locate(lpn, media);
            self.below.watch_mut().release(lpn, place, media);
        }
    }

    /// Writes the translation pages that are due, in no time.
    fn write_updated_untimed(&mut self) {
        while let Some(page) = self.below.watch_mut().updated.pop() {
            self.take_changes(page);
            self.below.write_untimed(self.below.watch().lpn_of(page));
        }
    }
}

impl<P: Placement> Scheme for DftlScheme<P> {
    fn logical_pages(&self) -> u32 {
        self.host_pages
    }

    #[inline]
    fn read(&mut self, lpn: Lpn, bytes: u32, tag: Tag, media: &mut Media) -> ReadPath {
        match self.below.locate(lpn, media) {
            Place::Memory => return ReadPath::Memory,
            Place::Nowhere => return ReadPath::Unmapped,
            Place::Flash(page) => {
                if self.translate(lpn, Some((bytes, tag)), media) {
                    media.submit(Command::read(page, bytes, Cause::Host, tag));
                }
            }
        }
        self.settle_updates(media);
        ReadPath::Flash
    }

    #[inline]
    fn write(&mut self, lpn: Lpn, tag: Tag, media: &mut Media) {
        self.release(lpn, media);
        self.translate(lpn, None, media);
        self.below.write(lpn, tag, media);
        self.settle_updates(media);
    }

    fn fetch(&self, lpns: &[u32], are_written: bool) {
        self.below.fetch(lpns, are_written);
    }

    fn trim(&mut self, lpn: Lpn, media: &mut Media) {
        self.release(lpn, media);
        if self.below.ftl().lookup(lpn).is_some() {
            let mapping = self.below.watch_mut();
            let (unit, page) = mapping.cache.place_of(lpn.0);
            // An entry for a page without data is not worth space in the cache.
            if !mapping.cache.change(unit) {
                mapping.updated.push(page);
            }
        }
        self.below.trim(lpn, media);
        self.settle_updates(media);
    }

    fn completed(&mut self, done: &Done, media: &mut Media) {
        let number = done.command.tag.number();
        match (number.checked_sub(self.lanes), done.command.op) {
            (None, _) => self.below.completed(done, media),
            (Some(page), FlashOp::Read) => self.loaded(page, media),
            (Some(page), _) => self.stored(page, media),
        }
        self.settle_updates(media);
    }

    fn next_wake(&self) -> Option<Picos> {
        let arrival = self.below.watch().host_memory.as_ref().and_then(|memory| memory.next_time());
        match (self.below.next_wake(), arrival) {
            (Some(wake), Some(arrival)) => Some(wake.min(arrival)),
            (wake, arrival) => wake.or(arrival),
        }
    }

    fn wake(&mut self, media: &mut Media) {
        let now = media.now();
        if self.below.next_wake().is_some_and(|at| at <= now) {
            self.below.wake(media);
        }
        while let Some(memory) = &mut self.below.watch_mut().host_memory
            && let Some(page) = memory.arrived(now)
        {
            self.loaded(page, media);
        }
        self.settle_updates(media);
    }

    fn write_untimed(&mut self, lpn: Lpn) {
        let mapping = self.below.watch_mut();
        let (unit, _) = mapping.cache.place_of(lpn.0);
        if mapping.cache.touch(unit) == Cached::No
            && let Some(evicted) = mapping.cache.insert(unit)
        {
            mapping.updated.push(evicted);
        }
        self.below.write_untimed(lpn);
        self.write_updated_untimed();
    }

    fn trim_untimed(&mut self, lpn: Lpn) {
        if self.below.ftl().lookup(lpn).is_some() {
            let mapping = self.below.watch_mut();
            let (unit, page) = mapping.cache.place_of(lpn.0);
            if !mapping.cache.change(unit) {
                mapping.updated.push(page);
            }
        }
        self.below.trim_untimed(lpn);
        self.write_updated_untimed();
    }

    fn settle(&mut self, media: &mut Media) {
        let mapping = self.below.watch_mut();
        mapping.updated.extend(
            (0..mapping.cache.pages()).rev().filter(|&page| mapping.cache.has_changes(page)),
        );
        self.write_updated_untimed();
        #[cfg(test)]
        (0..self.below.watch().cache.pages()).for_each(|page| self.note_written(page));
        self.below.settle(media);
    }

    fn is_quiet(&self) -> bool {
        self.below.is_quiet() && self.below.watch().under_way == 0
    }

    fn streams_left_out(&self) -> usize {
        self.below.streams_left_out()
    }

    fn counters(&self) -> SchemeCounters {
        let mapping = self.below.watch();
        SchemeCounters {
            mapping_hits: mapping.hits,
            mapping_misses: mapping.misses,
            mapping_host_hits: mapping.host_memory.as_ref().map_or(0, |memory| memory.hits),
            ..self.below.counters()
        }
    }

    fn erase_counts(&self) -> &[u32] {
        self.below.erase_counts()
    }

    fn worn_out(&self) -> Option<WornOut> {
        self.below.worn_out()
    }

    fn table_bytes(&self) -> usize {
        self.below.table_bytes()
    }

    fn audit(&self) -> Result<(), String> {
        self.below.audit()?;
        let mapping = self.below.watch();
        mapping.cache.audit()?;
        let busy = mapping
            .pages
            .iter()
            .map(|state| u32::from(state.is_read) + u32::from(state.is_written))
            .sum::<u32>();
        if busy != mapping.under_way {
            return Err(format!(
                "{busy} translation pages are under way, but {} were counted",
                mapping.under_way
            ));
        }
        let stuck = |state: &PageState| {
            (state.is_due || state.first != NONE) && !state.is_read && !state.is_written
        };
        match mapping.pages.iter().position(stuck) {
            Some(page) => {
                Err(format!("translation page {page} is waited for, but is not under way"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
impl<P: Placement> DftlScheme<P> {
    fn note_written(&mut self, page: u32) {
        let first = page * self.below.watch().entries;
        let end = (first + self.below.watch().entries).min(self.host_pages);
        for lpn in first..end {
            self.below.watch_mut().written[lpn as usize] = self.below.ftl().lookup(Lpn(lpn));
        }
    }

    /// Checks that every entry that is wrong on flash is known to be so: it is in the cache, or its
    /// translation page is about to be written.
    pub(super) fn audit_map(&self) -> Result<(), String> {
        let mapping = self.below.watch();
        for lpn in 0..self.host_pages {
            let (unit, page) = mapping.cache.place_of(lpn);
            let (flash, is) = (mapping.written[lpn as usize], self.below.ftl().lookup(Lpn(lpn)));
            let is_known = mapping.cache.is_changed(unit) || mapping.pages[page as usize].is_due;
            if flash != is
                && !is_known
                && !mapping.moved.iter().flatten().any(|&moved| moved == page)
            {
                return Err(format!(
                    "the map on flash has logical page {lpn} at {flash:?}, but it is at {is:?}"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn translation_pages(&self) -> u32 {
        self.below.watch().cache.pages()
    }
}
