//! Zones: the host writes each in order and resets it as a whole; nothing is relocated.

mod zones;

use registry::{Info, Param, ParamKind};
use units::{EraseBlockId, Lpn, Ppn};

use self::zones::Zones;
use super::page_mapped::SchemeSettings;
use super::stripes::Stripes;
use super::{ReadPath, Scheme, SchemeCounters, SchemeError, WornOut};
use crate::drive::media::{Cause, Command, Done, FlashOp, Media, Tag};

pub use zones::{ZoneAction, ZoneCounts, ZoneError, ZoneState};

const fn limit(name: &'static str, help: &'static str) -> Param {
    Param { name, kind: ParamKind::Integer { min: 0, max: 1 << 20 }, default: "14", help }
}

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "zoned",
    aliases: &["zns"],
    summary: "zones, each a superblock or a part of its dies: written in order, reset as a whole by \
              TRIM, never cleaned",
    source: "NVMe Zoned Namespace Command Set specification 1.1; Bjorling et al., ZNS: Avoiding the \
             Block Interface Tax, USENIX ATC 2021",
    params: &[
        Param {
            name: "parts",
            kind: ParamKind::Integer { min: 1, max: 1024 },
            default: "1",
            help: "zones that share a superblock, each on its part of the dies",
        },
        limit("max_open", "zones that may be open at a time; 0 for any number"),
        limit("max_active", "zones that may be open or closed at a time; 0 for any number"),
        Param {
            name: "writes",
            kind: ParamKind::Choice(&["write", "append"]),
            default: "write",
            help: "what the host sends: writes, at the write pointer; or zone appends, which go to \
                   the write pointer of the zone that their address lies in",
        },
    ],
};

const NONE: u32 = u32::MAX;

/// Tag of a page that was written in no time, and waits for its unit to be full.
const BEFORE: Tag = Tag::scheme((1 << 31) - 1);

/// The flash of a zone that is partly or fully written.
#[derive(Clone, Debug, Default)]
struct Written {
    /// [`NONE`] before the first page.
    place: u32,
    /// Number of pages that were given a place.
    pages: u32,
    /// The last of these, whose unit is not full: the tags of their programs.
    filling: Vec<Tag>,
    /// Number of pages of the zone that were trimmed, from the first on.
    trimmed: u32,
    /// Number of pages that were taken from the host and are not yet in the write buffer.
    in_transit: u32,
}

/// The scheme.
///
/// A zone gets the least worn place when its first page is written, and gives it back with its
/// reset, which erases the place; programs for that place wait in the dies' queues behind the
/// erases. Pages take their places in the order in which they leave the write buffer. That is the
/// zone's order, unless FUA overtakes or parts of two requests are mixed on the link; so a map of
/// all pages is kept, which a real drive does without.
#[derive(Debug)]
pub struct Zoned {
    stripes: Stripes,
    zones: Zones,
    written: Vec<Written>,
    /// Page of each logical page, numbered by place.
    map: Vec<u32>,
    zone_pages: u32,
    logical_pages: u32,
    page_bytes: u32,
    parts: u32,
    /// Number of program units of a stripe within a zone.
    units: u32,
    appends: bool,
    free: Vec<u32>,
    /// For each place: number of erases under way.
    erasing: Vec<u32>,
    /// For each place: erases so far; then the erases that it endures, empty for no limit.
    erases: Vec<u32>,
    endurance: Vec<u32>,
    retired: u64,
    bad_blocks: u64,
    erased: Vec<u32>,
    counters: SchemeCounters,
    refused: Option<ZoneError>,
    worn_out: Option<WornOut>,
}

impl Zoned {
    /// Makes the scheme over erased media.
    ///
    /// # Errors
    /// [`SchemeError`] if `parts` does not divide the program units of a stripe, or there are fewer
    /// places than zones.
    pub fn new(settings: &SchemeSettings<'_>, stripes: Stripes) -> Result<Self, SchemeError> {
        let args = settings.args;
        let parts = args.integer("parts") as u32;
        let all_units = stripes.stripe_pages() / stripes.unit_pages;
        if !all_units.is_multiple_of(parts) {
            return Err(SchemeError::Parts { scheme: INFO.name, parts, units: all_units });
        }
        let (zone_pages, page_bytes) = (stripes.pages / parts, settings.layout.page_bytes);
        let limits = ["max_open", "max_active"].map(|name| args.integer(name) as u32);
        let zones = Zones::new(settings.logical_pages, zone_pages, page_bytes, limits);
        let places = stripes.superblocks() * parts;
        if zones.count() > places {
            return Err(SchemeError::Zones { scheme: INFO.name, zones: zones.count(), places });
        }
        let mut scheme = Self {
            written: vec![Written { place: NONE, ..Written::default() }; zones.count() as usize],
            map: vec![NONE; settings.logical_pages as usize],
            zone_pages,
            logical_pages: settings.logical_pages,
            page_bytes,
            parts,
            units: all_units / parts,
            appends: args.text("writes") == "append",
            // The lowest number is taken first.
            free: (0..places).rev().collect(),
            erasing: vec![0; places as usize],
            erases: vec![0; places as usize],
            endurance: Vec::new(),
            retired: 0,
            bad_blocks: settings.endurance.iter().filter(|&&cycles| cycles == 0).count() as u64,
            erased: vec![0; settings.layout.erase_blocks() as usize],
            counters: SchemeCounters::default(),
            refused: None,
            worn_out: None,
            stripes,
            zones,
        };
        if !settings.endurance.is_empty() {
            let least = |place| {
                let blocks = scheme.blocks_of(place).iter();
                blocks.map(|block| settings.endurance[block.index()]).min().unwrap_or(0)
            };
            scheme.endurance = (0..places).map(least).collect();
        }
        Ok(scheme)
    }

    /// The erase blocks of a place.
    fn blocks_of(&self, place: u32) -> &[EraseBlockId] {
        let all = self.stripes.blocks_of(place / self.parts);
        let count = all.len() / self.parts as usize;
        &all[(place % self.parts) as usize * count..][..count]
    }

    /// The page on the media of a page of a place.
    fn on_media(&self, page: u32) -> Ppn {
        let (place, offset) = (page / self.zone_pages, page % self.zone_pages);
        let (unit, within) = (offset / self.stripes.unit_pages, offset % self.stripes.unit_pages);
        let (stripe, die) = (unit / self.units, unit % self.units);
        let all_units = self.units * self.parts;
        let unit = stripe * all_units + place % self.parts * self.units + die;
        let superblock = place / self.parts;
        let offset = unit * self.stripes.unit_pages + within;
        self.stripes.on_media(Ppn(superblock * self.stripes.pages + offset))
    }

    /// Gives the next page of a zone its place. Returns false if there is none: the drive is worn
    /// out.
    fn place(&mut self, lpn: Lpn, tag: Tag) -> bool {
        let zone = self.zones.split(lpn).0 as usize;
        if self.written[zone].place == NONE {
            let worn = |place: u32| (self.erasing[place as usize] > 0, self.erases[place as usize]);
            let least = (0..self.free.len()).rev().min_by_key(|&index| worn(self.free[index]));
            let Some(index) = least else {
                let host_page_writes = self.counters.host_page_writes;
                self.worn_out.get_or_insert(WornOut { plane: 0, host_page_writes });
                return false;
            };
            self.written[zone].place = self.free.remove(index);
        }
        let written = &mut self.written[zone];
        self.map[lpn.index()] = written.place * self.zone_pages + written.pages;
        written.pages += 1;
        written.filling.push(tag);
        self.counters.host_page_writes += 1;
        true
    }

    /// Returns true if the unit of a zone's last page is to be programmed: it is full, or no more
    /// pages follow.
    fn ends_unit(&self, zone: u32) -> bool {
        let pages = self.written[zone as usize].pages;
        let (state, taken) = self.zones.of(zone);
        pages.is_multiple_of(self.stripes.unit_pages)
            || (state == ZoneState::Full && pages == taken)
    }

    /// Programs the pages that a zone holds back.
    fn program(&mut self, zone: u32, media: &mut Media) {
        let mut filling = std::mem::take(&mut self.written[zone as usize].filling);
        let Written { place, pages, .. } = self.written[zone as usize];
        let first = place * self.zone_pages + pages - filling.len() as u32;
        media.hold();
        for (page, tag) in (first..).zip(filling.drain(..)) {
            let page = self.on_media(page);
            media.submit(Command::program(page, self.page_bytes, Cause::Host, tag));
        }
        media.release();
        self.written[zone as usize].filling = filling;
    }

    /// Empties a zone's table and gives its place back. Returns the place if it has to be erased.
    fn give_back(&mut self, zone: u32) -> Option<u32> {
        let written = &mut self.written[zone as usize];
        written.trimmed = 0;
        if written.place == NONE {
            return None;
        }
        let place = std::mem::replace(&mut written.place, NONE);
        written.pages = 0;
        written.filling.clear();
        let first = (zone * self.zone_pages) as usize;
        let end = first + self.zones.capacity(zone) as usize;
        self.map[first..end].fill(NONE);
        self.erases[place as usize] += 1;
        let blocks = self.blocks_of(place).len() as u64;
        self.counters.erases += blocks;
        let erases = self.erases[place as usize];
        if self.endurance.get(place as usize).is_some_and(|&endurance| erases >= endurance) {
            self.retired += blocks;
        } else {
            self.free.push(place);
        }
        Some(place)
    }

    /// Erases the flash of a zone that was reset.
    fn erase(&mut self, zone: u32, media: &mut Media) {
        if self.written[zone as usize].place == NONE {
            return;
        }
        // Pages that wait for their unit to be full are programmed: their owner expects a report.
        self.program(zone, media);
        let Some(place) = self.give_back(zone) else { return };
        let blocks = self.blocks_of(place);
        media.hold();
        for &block in blocks {
            let page = media.layout().page_at(block, 0);
            media.submit(Command::erase(page, Cause::Host, Tag::scheme(place)));
        }
        media.release();
        self.erasing[place as usize] += blocks.len() as u32;
    }

    fn refuse(&mut self, error: ZoneError) {
        self.zones.refuse();
        self.refused.get_or_insert(error);
    }
}

impl Scheme for Zoned {
    fn is_zoned(&self) -> bool {
        true
    }

    fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    fn take_write(&mut self, first: Lpn, pages: u32, append: bool) -> Result<Lpn, ZoneError> {
        let taken = self.zones.write(first, pages, append || self.appends);
        match &taken {
            Ok(_) => {
                self.written[self.zones.split(first).0 as usize].in_transit += pages;
            }
            Err(error) => self.refuse(error.clone()),
        }
        taken
    }

    fn has_arrived(&mut self, lpn: Lpn) {
        self.written[self.zones.split(lpn).0 as usize].in_transit -= 1;
    }

    fn is_in_transit(&self, first: Lpn, pages: u32) -> bool {
        let last = Lpn(first.0 + pages.saturating_sub(1));
        let zones = self.zones.split(first).0 as usize..=self.zones.split(last).0 as usize;
        self.written[zones].iter().any(|zone| zone.in_transit > 0)
    }

    fn take_trim(&mut self, first: Lpn, pages: u32) -> Result<(), ZoneError> {
        match self.zones.trimmed(first, pages) {
            Ok(mut zones) => zones.try_for_each(|zone| self.zones.act(ZoneAction::Reset, zone)),
            Err(error) => {
                self.refuse(error.clone());
                Err(error)
            }
        }
    }

    fn refuse_part(&mut self, offset: u64, length: u32) -> ZoneError {
        let error = ZoneError::PartOfPage { offset, length, page_bytes: self.page_bytes };
        self.refuse(error.clone());
        error
    }

    fn manage_zone(
        &mut self,
        action: ZoneAction,
        zone: u32,
        media: &mut Media,
    ) -> Result<(), ZoneError> {
        self.zones.act(action, zone)?;
        let written = &self.written[zone as usize];
        if action == ZoneAction::Reset {
            self.erase(zone, media);
        } else if !written.filling.is_empty() && self.ends_unit(zone) {
            self.program(zone, media);
        }
        Ok(())
    }

    fn zone(&self, zone: u32) -> Option<(ZoneState, u32)> {
        (zone < self.zones.count()).then(|| self.zones.of(zone))
    }

    fn refusal(&self) -> Option<&ZoneError> {
        self.refused.as_ref()
    }

    fn zone_counts(&self) -> Option<ZoneCounts> {
        Some(self.zones.counts())
    }

    fn read(&mut self, lpn: Lpn, bytes: u32, tag: Tag, media: &mut Media) -> ReadPath {
        let page = self.map[lpn.index()];
        if page == NONE {
            return ReadPath::Unmapped;
        }
        // While the place is erased, the media still hold the old contents there.
        let is_erasing = self.erasing[(page / self.zone_pages) as usize] > 0;
        let page = self.on_media(page);
        if is_erasing || !media.is_programmed(page) {
            return ReadPath::Memory;
        }
        media.submit(Command::read(page, bytes, Cause::Host, tag));
        ReadPath::Flash
    }

    fn write(&mut self, lpn: Lpn, tag: Tag, media: &mut Media) {
        let zone = self.zones.split(lpn).0;
        if self.place(lpn, tag) && self.ends_unit(zone) {
            self.program(zone, media);
        }
    }

    fn trim(&mut self, lpn: Lpn, media: &mut Media) {
        self.counters.trimmed_pages += u64::from(self.map[lpn.index()] != NONE);
        let (zone, page) = self.zones.split(lpn);
        if page + 1 == self.zones.capacity(zone) {
            self.erase(zone, media);
        }
    }

    fn completed(&mut self, done: &Done, _media: &mut Media) {
        if done.command.op == FlashOp::Erase {
            let place = done.command.tag.number();
            self.erasing[place as usize] -= 1;
            if self.erasing[place as usize] == 0 {
                for index in 0..self.blocks_of(place).len() {
                    let block = self.blocks_of(place)[index];
                    self.erased[block.index()] = self.erases[place as usize];
                }
            }
        }
    }

    fn write_untimed(&mut self, lpn: Lpn) {
        match self.zones.write(lpn, 1, self.appends) {
            Ok(lpn) => {
                self.place(lpn, BEFORE);
                let zone = self.zones.split(lpn).0;
                if self.ends_unit(zone) {
                    self.written[zone as usize].filling.clear();
                }
            }
            Err(error) => self.refuse(error),
        }
    }

    fn trim_untimed(&mut self, lpn: Lpn) {
        let (zone, page) = self.zones.split(lpn);
        let zone_pages = self.zones.capacity(zone);
        let written = &mut self.written[zone as usize];
        if page != written.trimmed {
            let zone_bytes = u64::from(self.zone_pages) * u64::from(self.page_bytes);
            let (first, last) = (lpn.0, lpn.0);
            self.refuse(ZoneError::PartOfZone { first, last, zone_pages, zone_bytes });
            return;
        }
        written.trimmed += 1;
        if written.trimmed == zone_pages {
            if self.zones.act(ZoneAction::Reset, zone).is_err() {
                unreachable!("every zone can be reset");
            }
            self.give_back(zone);
        }
    }

    fn settle(&mut self, media: &mut Media) {
        for place in 0..self.erases.len() as u32 {
            for index in 0..self.blocks_of(place).len() {
                let block = self.blocks_of(place)[index];
                self.erased[block.index()] = self.erases[place as usize];
            }
        }
        for written in self.written.iter().filter(|written| written.place != NONE) {
            // Pages of a unit that is not full wait in memory, except those of a full zone.
            let programmed = written.pages - written.filling.len() as u32;
            let units = programmed / self.stripes.unit_pages;
            let rest = programmed % self.stripes.unit_pages;
            let (stripes, dies) = (units / self.units, units % self.units);
            let blocks = self.blocks_of(written.place);
            let planes = blocks.len() as u32 / self.units;
            let per_plane = self.stripes.unit_pages / planes;
            for (&block, number) in blocks.iter().zip(0..) {
                let die = number / planes;
                // The last unit of a zone counts as programmed if one of its pages is.
                let is_begun = die < dies || (die == dies && rest > 0);
                media.preset(block, (stripes + u32::from(is_begun)) * per_plane);
            }
        }
    }

    fn is_quiet(&self) -> bool {
        self.erasing.iter().all(|&erases| erases == 0)
    }

    fn counters(&self) -> SchemeCounters {
        SchemeCounters { retired_blocks: self.bad_blocks + self.retired, ..self.counters }
    }

    fn erase_counts(&self) -> &[u32] {
        &self.erased
    }

    fn worn_out(&self) -> Option<WornOut> {
        self.worn_out.clone()
    }

    fn table_bytes(&self) -> usize {
        self.zones.table_bytes()
            + self.written.len() * size_of::<Written>()
            + 4 * (self.map.len() + self.free.len() + 2 * self.erases.len() + self.erased.len())
    }

    fn audit(&self) -> Result<(), String> {
        let mut is_used = vec![false; self.erases.len()];
        for (zone, written) in self.written.iter().enumerate() {
            let (state, taken) = self.zones.of(zone as u32);
            if written.pages > taken {
                return Err(format!("zone {zone}, {state:?}: {} of {taken} pages", written.pages));
            }
            if written.place != NONE
                && std::mem::replace(&mut is_used[written.place as usize], true)
            {
                return Err(format!("two zones lie at place {}", written.place));
            }
        }
        match self.free.iter().find(|&&place| is_used[place as usize]) {
            Some(place) => Err(format!("place {place} is free and in use")),
            None => Ok(()),
        }
    }
}
