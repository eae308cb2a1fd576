//! Zones as the host sees them: states, write pointers, limits. No flash, no time.

use units::Lpn;

use crate::drive::counters::counters;

/// State of a zone (NVMe Zoned Namespace Command Set specification 1.1, section 2.1.1.2). Read only
/// and offline are not modelled: a drive without a good place for a zone is worn out as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Nothing is written.
    Empty,
    /// A write opened it.
    ImplicitlyOpen,
    /// A command opened it.
    ExplicitlyOpen,
    /// Partly written, and not open.
    Closed,
    /// No more can be written before a reset.
    Full,
}

impl ZoneState {
    /// Returns true if it counts for the limit of open zones.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpen | Self::ExplicitlyOpen)
    }

    /// Returns true if it counts for the limit of active zones.
    #[must_use]
    pub const fn is_active(self) -> bool {
        self.is_open() || matches!(self, Self::Closed)
    }
}

/// Action of a host on a zone besides writing and reading it (Zone Management Send).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneAction {
    /// Open Zone.
    Open,
    /// Close Zone.
    Close,
    /// Finish Zone: nothing more is written to it.
    Finish,
    /// Reset Zone: it is empty again. TRIM of the whole zone does the same.
    Reset,
}

counters! {
    /// Counters of zones.
    pub struct ZoneCounts {
        /// Zones reset that were not empty.
        resets,
        /// Zones that the host finished.
        finishes,
        /// Zones that a write opened.
        implicit_opens,
        /// Zones that a command opened.
        explicit_opens,
        /// Zones that the controller closed, so that another could be opened.
        implicit_closes,
        /// Writes whose place the zone chose (Zone Append).
        appends,
        /// Requests that were refused.
        refused,
    }
}

/// Reasons for refusing a request. Pages count from the beginning of the drive, zones from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// A write that does not begin at the write pointer.
    #[error(
        "a write at page {page} of zone {zone}, whose write pointer is at page {pointer}: zones are \
         written in order; reset one (TRIM of all its {zone_bytes} bytes) before it is written again"
    )]
    NotAtPointer {
        /// Its first page within the zone.
        page: u32,
        /// The zone.
        zone: u32,
        /// Page within the zone at which a write may begin.
        pointer: u32,
        /// Size of a zone.
        zone_bytes: u64,
    },
    /// A write to a full zone.
    #[error(
        "a write to zone {zone}, which is full: reset it before (TRIM of all its {zone_bytes} bytes)"
    )]
    Full {
        /// The zone.
        zone: u32,
        /// Size of a zone.
        zone_bytes: u64,
    },
    /// A write that continues in the next zone, or beyond the end of its own.
    #[error(
        "a write of {pages} pages at page {page} of zone {zone}, which has {zone_pages}: a write \
         stays within one zone, of {zone_bytes} bytes"
    )]
    Crosses {
        /// Number of its pages.
        pages: u32,
        /// Its first page within the zone.
        page: u32,
        /// The zone.
        zone: u32,
        /// Number of pages of the zone.
        zone_pages: u32,
        /// Size of a zone.
        zone_bytes: u64,
    },
    /// A write of parts of pages.
    #[error(
        "a write of {length} bytes at byte {offset}: zones are written in whole pages of \
         {page_bytes} bytes"
    )]
    PartOfPage {
        /// Its first byte.
        offset: u64,
        /// Its length in bytes.
        length: u32,
        /// Smallest unit of writes.
        page_bytes: u32,
    },
    /// A trim that is not of whole zones.
    #[error(
        "a trim of pages {first} to {last}: only whole zones can be reset, and they have \
         {zone_pages} pages, {zone_bytes} bytes"
    )]
    PartOfZone {
        /// Its first page on the drive.
        first: u32,
        /// Its last page.
        last: u32,
        /// Pages of a zone.
        zone_pages: u32,
        /// Size of a zone.
        zone_bytes: u64,
    },
    /// Too many zones are partly written.
    #[error(
        "zone {zone} would be one more than the {limit} that may be active (written in part): \
         finish or reset one, or raise max_active"
    )]
    TooManyActive {
        /// The zone that was to become active.
        zone: u32,
        /// `max_active`.
        limit: u32,
    },
    /// Too many zones are open by command.
    #[error(
        "zone {zone} would be one more than the {limit} that may be open, and all of them are open \
         by command: close one, or raise max_open"
    )]
    TooManyOpen {
        /// The zone that was to be opened.
        zone: u32,
        /// `max_open`.
        limit: u32,
    },
    /// A command that the zone's state does not allow.
    #[error("zone {zone} is {state:?} and cannot be changed so ({action:?})")]
    WrongState {
        /// The zone.
        zone: u32,
        /// Its state.
        state: ZoneState,
        /// The action.
        action: ZoneAction,
    },
    /// The drive has no zones.
    #[error("the drive has no zones: ftl.scheme has to be zoned for that")]
    NoZones,
    /// A drive with zones cannot be aged at random.
    #[error(
        "a drive with zones cannot be made aged, as that overwrites at random: take fresh or filled, \
         and age it by a load that resets zones (io:zones) with --warm-up"
    )]
    NotAged,
}

/// A zone.
#[derive(Clone, Copy, Debug)]
struct Zone {
    state: ZoneState,
    /// Write pointer: number of pages taken from the host.
    pointer: u32,
}

/// All zones of a drive.
#[derive(Debug)]
pub struct Zones {
    zones: Vec<Zone>,
    zone_pages: u32,
    logical_pages: u32,
    page_bytes: u32,
    /// 0 for no limit.
    max_open: u32,
    max_active: u32,
    open: u32,
    active: u32,
    /// Zones that writes opened, the one opened first at the front.
    implicit: Vec<u32>,
    counts: ZoneCounts,
}

impl Zones {
    /// Makes empty zones of `zone_pages`, the last of which takes the rest of the logical pages.
    pub fn new(
        logical_pages: u32,
        zone_pages: u32,
        page_bytes: u32,
        [max_open, max_active]: [u32; 2],
    ) -> Self {
        let empty = Zone { state: ZoneState::Empty, pointer: 0 };
        Self {
            zones: vec![empty; logical_pages.div_ceil(zone_pages) as usize],
            zone_pages,
            logical_pages,
            page_bytes,
            max_open,
            max_active,
            open: 0,
            active: 0,
            implicit: Vec::new(),
            counts: ZoneCounts::default(),
        }
    }

    /// Number of zones.
    pub fn count(&self) -> u32 {
        self.zones.len() as u32
    }

    /// Counters so far.
    pub fn counts(&self) -> ZoneCounts {
        self.counts
    }

    /// Counts a refused request.
    pub fn refuse(&mut self) {
        self.counts.refused += 1;
    }

    /// The zone of a page, and the page's place there.
    #[inline]
    pub fn split(&self, lpn: Lpn) -> (u32, u32) {
        (lpn.0 / self.zone_pages, lpn.0 % self.zone_pages)
    }

    /// Number of pages of a zone.
    pub fn capacity(&self, zone: u32) -> u32 {
        self.zone_pages.min(self.logical_pages - zone * self.zone_pages)
    }

    /// State of a zone, and its write pointer in pages from its beginning.
    pub fn of(&self, zone: u32) -> (ZoneState, u32) {
        let Zone { state, pointer } = self.zones[zone as usize];
        (state, pointer)
    }

    fn zone_bytes(&self) -> u64 {
        u64::from(self.zone_pages) * u64::from(self.page_bytes)
    }

    /// Takes a write, or an append, which goes to the write pointer. Gives its first page.
    pub fn write(&mut self, first: Lpn, pages: u32, is_append: bool) -> Result<Lpn, ZoneError> {
        let (zone, page) = self.split(first);
        let (zone_bytes, zone_pages) = (self.zone_bytes(), self.capacity(zone));
        let Zone { state, pointer } = self.zones[zone as usize];
        if state == ZoneState::Full {
            return Err(ZoneError::Full { zone, zone_bytes });
        }
        if !is_append && page != pointer {
            return Err(ZoneError::NotAtPointer { page, zone, pointer, zone_bytes });
        }
        if pages > zone_pages - pointer {
            return Err(ZoneError::Crosses { pages, page: pointer, zone, zone_pages, zone_bytes });
        }
        if !state.is_open() {
            self.open(zone, ZoneState::ImplicitlyOpen)?;
            self.counts.implicit_opens += 1;
        }
        self.counts.appends += u64::from(is_append);
        self.zones[zone as usize].pointer = pointer + pages;
        if pointer + pages == zone_pages {
            self.change(zone, ZoneState::Full);
        }
        Ok(Lpn(zone * self.zone_pages + pointer))
    }

    /// Opens a zone that is empty or closed, if the limits allow it.
    fn open(&mut self, zone: u32, to: ZoneState) -> Result<(), ZoneError> {
        let is_active = self.zones[zone as usize].state.is_active();
        if !is_active && self.max_active > 0 && self.active == self.max_active {
            return Err(ZoneError::TooManyActive { zone, limit: self.max_active });
        }
        if self.max_open > 0 && self.open == self.max_open {
            let Some(&other) = self.implicit.first() else {
                return Err(ZoneError::TooManyOpen { zone, limit: self.max_open });
            };
            self.change(other, ZoneState::Closed);
            self.counts.implicit_closes += 1;
        }
        self.change(zone, to);
        Ok(())
    }

    fn change(&mut self, zone: u32, to: ZoneState) {
        let from = std::mem::replace(&mut self.zones[zone as usize].state, to);
        self.open = self.open + u32::from(to.is_open()) - u32::from(from.is_open());
        self.active = self.active + u32::from(to.is_active()) - u32::from(from.is_active());
        if from == ZoneState::ImplicitlyOpen {
            self.implicit.retain(|&other| other != zone);
        }
        if to == ZoneState::ImplicitlyOpen {
            self.implicit.push(zone);
        }
    }

    /// Carries out an action of the host. A reset must be followed by the erase.
    pub fn act(&mut self, action: ZoneAction, zone: u32) -> Result<(), ZoneError> {
        let Zone { state, pointer } = self.zones[zone as usize];
        match (action, state) {
            (ZoneAction::Open, ZoneState::ExplicitlyOpen)
            | (ZoneAction::Close, ZoneState::Closed)
            | (ZoneAction::Finish, ZoneState::Full)
            | (ZoneAction::Reset, ZoneState::Empty) => {}
            (ZoneAction::Open, ZoneState::ImplicitlyOpen) => {
                self.change(zone, ZoneState::ExplicitlyOpen);
                self.counts.explicit_opens += 1;
            }
            (ZoneAction::Open, ZoneState::Empty | ZoneState::Closed) => {
                self.open(zone, ZoneState::ExplicitlyOpen)?;
                self.counts.explicit_opens += 1;
            }
            (ZoneAction::Close, state) if state.is_open() => {
                let to = if pointer == 0 { ZoneState::Empty } else { ZoneState::Closed };
                self.change(zone, to);
            }
            (ZoneAction::Finish, _) => {
                self.change(zone, ZoneState::Full);
                self.counts.finishes += 1;
            }
            (ZoneAction::Reset, _) => {
                self.change(zone, ZoneState::Empty);
                self.zones[zone as usize].pointer = 0;
                self.counts.resets += 1;
            }
            (ZoneAction::Open | ZoneAction::Close, state) => {
                return Err(ZoneError::WrongState { zone, state, action });
            }
        }
        Ok(())
    }

    /// The zones of a trim.
    pub fn trimmed(&self, first: Lpn, pages: u32) -> Result<std::ops::Range<u32>, ZoneError> {
        let (zone, page) = self.split(first);
        let end = first.0 + pages;
        let is_whole = end == self.logical_pages || end.is_multiple_of(self.zone_pages);
        if page > 0 || !is_whole {
            return Err(ZoneError::PartOfZone {
                first: first.0,
                last: end.saturating_sub(1),
                zone_pages: self.zone_pages,
                zone_bytes: self.zone_bytes(),
            });
        }
        Ok(zone..end.div_ceil(self.zone_pages))
    }

    /// Memory in bytes.
    pub fn table_bytes(&self) -> usize {
        self.zones.len() * size_of::<Zone>()
    }
}
