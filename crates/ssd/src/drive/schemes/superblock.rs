//! Superblocks: the unit in which the log-block schemes map, erase and give out space.
//!
//! A superblock is one erase block on each of `interleave` planes that are neighbours in
//! [`Layout::stripe`]. Its pages are striped over them: offset `o` is page `o / interleave` of the
//! erase block on plane `o % interleave`. So one long write keeps all these planes busy, which is
//! how drives of 2008 reached 100 MB/s, and a merge has to move correspondingly more pages.
//!
//! A *place* is `superblock x pages of a superblock + offset`. The place of each logical page is
//! kept in one table of 4 bytes per page. A real drive of this kind keeps a table of superblocks
//! and one for its logs, which describe the same places in less memory; places that these cannot
//! describe (a logical page in any superblock) never occur here, which [`Superblocks::audit`] and
//! the rules' audits check.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use registry::{Args, Param, ParamKind};
use units::{Divider, EraseBlockId, Ppn};

use super::{SchemeCounters, SchemeError};
use crate::drive::media::{Layout, Media};

/// No superblock, no place, or no logical superblock.
pub const NONE: u32 = u32::MAX;

/// Most pages of a superblock: the limit of [`Divider`].
const MOST_PAGES: u64 = 65_536;

/// The parameter of all log-block schemes for the width of a superblock.
pub const INTERLEAVE: Param = Param {
    name: "interleave",
    kind: ParamKind::Integer { min: 0, max: 4_096 },
    default: "0",
    help: "planes that a superblock is striped over; 0 for all",
};

/// The parameter of all log-block schemes for the number of concurrent merges.
pub const MERGES_AT_ONCE: Param = Param {
    name: "merges_at_once",
    kind: ParamKind::Integer { min: 1, max: 256 },
    default: "1",
    help: "merges that may go on at the same time",
};

/// The values of [`INTERLEAVE`] and [`MERGES_AT_ONCE`].
pub fn shared_params(args: &Args) -> (u32, u32) {
    (args.integer("interleave") as u32, args.integer("merges_at_once") as u32)
}

/// Use of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Erased.
    Free,
    /// Holds the pages of one logical superblock, each at its own offset.
    Data,
    /// A log or replacement superblock of the scheme.
    Log,
    /// A merge copies into it.
    Target,
    /// Holds nothing valid and is to be erased, now or when space is short.
    Leaving,
}

/// Places of all pages, and the free superblocks.
#[derive(Debug)]
pub struct Superblocks {
    layout: Layout,
    interleave: u32,
    pages: u32,
    logical_pages: u32,
    by_pages: Divider,
    by_interleave: Divider,
    by_group: Divider,
    /// First page of the plane, indexed by group of planes x interleave + lane.
    first_page: Vec<u32>,
    place: Vec<u32>,
    data: Vec<u32>,
    next: Vec<u32>,
    valid: Vec<u32>,
    role: Vec<Role>,
    /// Free superblocks of each group of planes, the least erased first, as (erases, superblock).
    free: Vec<BinaryHeap<Reverse<(u32, u32)>>>,
    free_count: u32,
    /// Trimmed data superblocks that wait to be erased, oldest first.
    pub(super) empties: VecDeque<u32>,
    erased: Vec<u32>,
    pub(super) counters: SchemeCounters,
}

impl Superblocks {
    /// Makes erased superblocks. `interleave` 0 means all planes; `spare` superblocks are needed
    /// beyond the logical ones.
    ///
    /// # Errors
    /// [`SchemeError`] if the planes cannot be grouped so, or there is too little space.
    pub fn new(
        scheme: &'static str,
        layout: &Layout,
        logical_pages: u32,
        interleave: u32,
        spare: u32,
    ) -> Result<Self, SchemeError> {
        let planes = layout.planes();
        let interleave = if interleave == 0 { planes } else { interleave };
        if !planes.is_multiple_of(interleave) {
            return Err(SchemeError::Interleave { scheme, interleave, planes });
        }
        let pages = u64::from(layout.pages_per_block) * u64::from(interleave);
        if pages > MOST_PAGES {
            return Err(SchemeError::TooLarge { scheme, pages, most: MOST_PAGES });
        }
        let pages = pages as u32;
        let groups = planes / interleave;
        let count = groups * layout.blocks_per_plane;
        let logical = logical_pages.div_ceil(pages);
        let needed = logical.saturating_add(spare);
        if count < needed {
            return Err(SchemeError::TooSmall { scheme, needed, have: count });
        }
        let plane_pages = layout.blocks_per_plane * layout.pages_per_block;
        let per_group = layout.blocks_per_plane;
        let heap = |group: u32| {
            (group * per_group..(group + 1) * per_group)
                .map(|superblock| Reverse((0, superblock)))
                .collect()
        };
        Ok(Self {
            interleave,
            pages,
            logical_pages,
            by_pages: Divider::new(pages),
            by_interleave: Divider::new(interleave),
            by_group: Divider::new(per_group),
            first_page: layout.stripe().into_iter().map(|plane| plane * plane_pages).collect(),
            place: vec![NONE; logical_pages as usize],
            data: vec![NONE; logical as usize],
            next: vec![0; count as usize],
            valid: vec![0; count as usize],
            role: vec![Role::Free; count as usize],
            free: (0..groups).map(heap).collect(),
            free_count: count,
            empties: VecDeque::new(),
            erased: vec![0; layout.erase_blocks() as usize],
            counters: SchemeCounters::default(),
            layout: layout.clone(),
        })
    }

    /// Structure of the media.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Planes of a superblock.
    #[inline]
    pub fn interleave(&self) -> u32 {
        self.interleave
    }

    /// Pages of a superblock.
    #[inline]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Number of superblocks.
    pub fn count(&self) -> u32 {
        self.next.len() as u32
    }

    /// Number of pages that the host can address.
    pub fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    /// Number of logical superblocks, the last of which may be a partial one.
    pub fn logical_superblocks(&self) -> u32 {
        self.data.len() as u32
    }

    /// The logical superblock of a logical page and its offset there.
    #[inline]
    pub fn split(&self, lpn: u32) -> (u32, u32) {
        self.by_pages.split(lpn)
    }

    /// Pages of a logical superblock: the last one may have fewer.
    #[inline]
    pub fn len(&self, logical: u32) -> u32 {
        self.pages.min(self.logical_pages - logical * self.pages)
    }

    /// Place of a logical page's newest version, or [`NONE`].
    #[inline]
    pub fn place(&self, lpn: u32) -> u32 {
        self.place[lpn as usize]
    }

    /// The place at an offset.
    #[inline]
    pub fn place_at(&self, superblock: u32, offset: u32) -> u32 {
        superblock * self.pages + offset
    }

    /// The superblock that a place is in.
    #[inline]
    pub fn superblock_of(&self, place: u32) -> u32 {
        self.by_pages.quotient(place)
    }

    /// The physical page of a place.
    #[inline]
    pub fn page(&self, place: u32) -> Ppn {
        let (superblock, offset) = self.by_pages.split(place);
        let (group, block) = self.by_group.split(superblock);
        let (row, lane) = self.by_interleave.split(offset);
        Ppn(self.first_page[(group * self.interleave + lane) as usize]
            + block * self.layout.pages_per_block
            + row)
    }

    /// The data superblock of a logical one, or [`NONE`].
    #[inline]
    pub fn data(&self, logical: u32) -> u32 {
        self.data[logical as usize]
    }

    /// Makes a superblock the data of a logical one. Returns the old one.
    pub fn set_data(&mut self, logical: u32, superblock: u32) -> u32 {
        self.set_role(superblock, Role::Data);
        std::mem::replace(&mut self.data[logical as usize], superblock)
    }

    /// The lowest offset that can still be programmed.
    #[inline]
    pub fn next(&self, superblock: u32) -> u32 {
        self.next[superblock as usize]
    }

    /// Sets the lowest offset that can still be programmed.
    #[inline]
    pub fn set_next(&mut self, superblock: u32, offset: u32) {
        self.next[superblock as usize] = offset;
    }

    /// Number of pages of a superblock that hold newest versions.
    #[inline]
    pub fn valid(&self, superblock: u32) -> u32 {
        self.valid[superblock as usize]
    }

    /// Current use of a superblock.
    pub fn role(&self, superblock: u32) -> Role {
        self.role[superblock as usize]
    }

    /// Gives a superblock another use.
    pub fn set_role(&mut self, superblock: u32, role: Role) {
        self.role[superblock as usize] = role;
    }

    /// Number of superblocks that are erased and not in use.
    pub fn free_count(&self) -> u32 {
        self.free_count
    }

    /// The group of planes in which a logical superblock is best put: that of its data, so that
    /// pages may be moved by copy-back and the groups stay evenly filled; otherwise the groups in
    /// turn.
    pub fn group_for(&self, logical: u32) -> u32 {
        match self.data(logical) {
            NONE => logical % self.free.len() as u32,
            superblock => self.by_group.quotient(superblock),
        }
    }

    /// Takes the least erased free superblock of a group of planes, or of the group with most free
    /// ones if it has none.
    pub fn take_free(&mut self, group: u32) -> Option<u32> {
        let mut group = group as usize;
        if self.free[group].is_empty() {
            group = (0..self.free.len())
                .max_by_key(|&other| (self.free[other].len(), Reverse(other)))?;
        }
        let Reverse((_, superblock)) = self.free[group].pop()?;
        self.free_count -= 1;
        assert!(
            self.role(superblock) == Role::Free && self.next(superblock) == 0,
            "superblock {superblock} is free and erased"
        );
        Some(superblock)
    }

    /// The group of planes with most free superblocks.
    pub fn emptiest_group(&self) -> u32 {
        (0..self.free.len())
            .max_by_key(|&group| (self.free[group].len(), Reverse(group)))
            .unwrap_or(0) as u32
    }

    /// Records that the newest version of a logical page is written at an offset.
    #[inline]
    pub fn occupy(&mut self, lpn: u32, superblock: u32, offset: u32) -> u32 {
        let next = &mut self.next[superblock as usize];
        assert!(
            *next <= offset && offset < self.pages,
            "offset {offset} of superblock {superblock} is programmed, the next is {next}"
        );
        *next = offset + 1;
        let place = self.place_at(superblock, offset);
        self.move_to(lpn, place);
        place
    }

    /// Records that the newest version of a logical page is now at this place.
    #[inline]
    pub fn move_to(&mut self, lpn: u32, place: u32) {
        self.forget(lpn);
        self.place[lpn as usize] = place;
        self.valid[self.by_pages.quotient(place) as usize] += 1;
    }

    /// Records that a logical page holds nothing any more. Returns true if it held data.
    #[inline]
    pub fn forget(&mut self, lpn: u32) -> bool {
        let old = std::mem::replace(&mut self.place[lpn as usize], NONE);
        if old == NONE {
            return false;
        }
        self.valid[self.by_pages.quotient(old) as usize] -= 1;
        true
    }

    /// Number of pages of a logical superblock from offset `start` to before `end` that hold data
    /// elsewhere than in `target`.
    pub fn pages_outside(&self, logical: u32, start: u32, end: u32, target: u32) -> u32 {
        let first = logical * self.pages;
        let places = &self.place[(first + start) as usize..(first + end.max(start)) as usize];
        places.iter().filter(|&&place| place != NONE && self.superblock_of(place) != target).count()
            as u32
    }

    /// Puts aside the data superblock of a logical one, without valid pages, to be erased later.
    pub fn put_aside(&mut self, logical: u32) {
        let superblock = std::mem::replace(&mut self.data[logical as usize], NONE);
        assert!(
            superblock != NONE && self.valid(superblock) == 0,
            "logical superblock {logical} has data without valid pages"
        );
        if self.next(superblock) == 0 {
            self.give_back(superblock);
        } else {
            self.set_role(superblock, Role::Leaving);
            self.empties.push_back(superblock);
        }
    }

    /// The erase block of a superblock on one of its planes.
    #[inline]
    pub fn erase_block(&self, superblock: u32, lane: u32) -> EraseBlockId {
        self.layout.block_of(self.page(self.place_at(superblock, lane)))
    }

    /// Records that all erase blocks of a superblock were erased.
    pub fn was_erased(&mut self, superblock: u32) {
        for lane in 0..self.interleave {
            let block = self.erase_block(superblock, lane);
            self.erased[block.index()] += 1;
        }
        self.counters.erases += u64::from(self.interleave);
        self.set_next(superblock, 0);
        self.give_back(superblock);
    }

    fn give_back(&mut self, superblock: u32) {
        self.set_role(superblock, Role::Free);
        let erases = self.erased[self.erase_block(superblock, 0).index()];
        self.free[self.by_group.quotient(superblock) as usize].push(Reverse((erases, superblock)));
        self.free_count += 1;
    }

    /// Number of erases of each erase block.
    pub fn erase_counts(&self) -> &[u32] {
        &self.erased
    }

    /// Tells the media which pages are programmed.
    pub fn settle(&self, media: &mut Media) {
        for superblock in 0..self.next.len() as u32 {
            let next = self.next(superblock);
            for lane in 0..self.interleave.min(next) {
                media.preset(
                    self.erase_block(superblock, lane),
                    (next - lane).div_ceil(self.interleave),
                );
            }
        }
    }

    /// Memory of the tables in bytes.
    pub fn table_bytes(&self) -> usize {
        4 * (self.place.len()
            + self.data.len()
            + self.next.len()
            + self.valid.len()
            + self.erased.len()
            + self.first_page.len())
            + self.role.len() * (size_of::<Role>() + size_of::<Reverse<(u32, u32)>>())
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// The contradiction.
    pub fn audit(&self) -> Result<(), String> {
        let mut owner = vec![NONE; self.next.len()];
        for (logical, &superblock) in
            (0u32..).zip(&self.data).filter(|&(_, &superblock)| superblock != NONE)
        {
            let before = std::mem::replace(&mut owner[superblock as usize], logical);
            if before != NONE || self.role(superblock) != Role::Data {
                let role = self.role(superblock);
                return Err(format!(
                    "superblock {superblock} is the data of logical superblock {logical}, and of \
                     {before}, as {role:?}"
                ));
            }
        }
        self.audit_places(&owner)?;
        for superblock in 0..self.next.len() as u32 {
            let role = self.role(superblock);
            if role == Role::Data && owner[superblock as usize] == NONE {
                return Err(format!("superblock {superblock} is data of nothing"));
            }
            if role == Role::Free && self.next(superblock) != 0 {
                return Err(format!(
                    "superblock {superblock} is free, but programmed up to {}",
                    self.next(superblock)
                ));
            }
        }
        self.audit_free()?;
        let erases: u64 = self.erased.iter().map(|&count| u64::from(count)).sum();
        if erases != self.counters.erases {
            return Err(format!(
                "erase counts add up to {erases}, but {} erases were counted",
                self.counters.erases
            ));
        }
        Ok(())
    }

    fn audit_places(&self, owner: &[u32]) -> Result<(), String> {
        let mut valid = vec![0u32; self.valid.len()];
        let mut taken = vec![false; self.valid.len() * self.pages as usize];
        for (lpn, &place) in (0u32..).zip(&self.place).filter(|&(_, &place)| place != NONE) {
            if std::mem::replace(&mut taken[place as usize], true) {
                return Err(format!("place {place} holds logical page {lpn} and another"));
            }
            let (superblock, offset) = self.by_pages.split(place);
            valid[superblock as usize] += 1;
            let role = self.role(superblock);
            if matches!(role, Role::Free | Role::Leaving) || offset >= self.next(superblock) {
                return Err(format!(
                    "logical page {lpn} is at offset {offset} of superblock {superblock}, which is \
                     {role:?}"
                ));
            }
            let (logical, own) = self.split(lpn);
            if role == Role::Data && (owner[superblock as usize] != logical || own != offset) {
                return Err(format!(
                    "logical page {lpn} is at offset {offset} of superblock {superblock}, the data \
                     of another"
                ));
            }
        }
        match (0u32..)
            .zip(valid.iter().zip(&self.valid))
            .find(|(_, (counted, kept))| counted != kept)
        {
            Some((superblock, (counted, kept))) => Err(format!(
                "superblock {superblock} has {counted} valid pages, but its counter says {kept}"
            )),
            None => Ok(()),
        }
    }

    fn audit_free(&self) -> Result<(), String> {
        let mut listed = vec![false; self.role.len()];
        for &Reverse((_, superblock)) in self.free.iter().flat_map(BinaryHeap::iter) {
            if std::mem::replace(&mut listed[superblock as usize], true)
                || self.role(superblock) != Role::Free
            {
                return Err(format!(
                    "superblock {superblock} is listed as free twice, or is {:?}",
                    self.role(superblock)
                ));
            }
        }
        let counted = self.role.iter().filter(|&&role| role == Role::Free).count();
        let listed = listed.into_iter().filter(|&listed| listed).count();
        if counted != listed || listed != self.free_count as usize {
            return Err(format!(
                "{counted} superblocks are free, {listed} are listed, {} are counted",
                self.free_count
            ));
        }
        Ok(())
    }
}
