//! Data that a drive holds and returns, followed version by version: for tests, which compare it
//! with a plain model.
//!
//! The simulator moves no data. Here each page that the host writes becomes a version, which names
//! its request, the sectors that it covers, and the version below it that supplies the other
//! sectors. The media record which version each physical page holds
//! ([`crate::drive::media::Witness`]); the write-back buffer, the read cache and the controller's
//! memory are followed here.

use std::collections::BTreeMap;

use units::Lpn;

use super::ops::{Op, OpKind};
use super::{Drive, RequestSlot, Submission};
use crate::drive::dram::Admission;
use crate::drive::media::{Command, Content, INITIAL, NOTHING, TRANSLATION};
use crate::drive::schemes::{ReadPath, Scheme};

/// Number of sectors of a page that are followed: 512 bytes each in pages up to 64 KiB.
pub(super) const SECTORS: u32 = 128;

/// Bytes of a sector, the unit in which contents are followed.
pub(super) fn sector_bytes(page_bytes: u32) -> u32 {
    page_bytes.div_ceil(SECTORS).max(512.min(page_bytes))
}

/// A bit mask of the sectors touched by `bytes` from byte `first` of a page on.
pub(super) fn sectors_of(first: u32, bytes: u32, page_bytes: u32) -> u128 {
    let sector = sector_bytes(page_bytes);
    let ones = |count: u32| if count >= SECTORS { u128::MAX } else { (1 << count) - 1 };
    ones((first + bytes).div_ceil(sector)) & !ones(first / sector)
}

/// A page as the host wrote it.
#[derive(Clone, Copy, Debug)]
struct Version {
    lpn: u32,
    handle: u32,
    sectors: u128,
    below: Content,
}

/// A page that a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// [`Submission::handle`] of the read.
    pub handle: u32,
    /// The page.
    pub lpn: Lpn,
    /// Its content.
    pub content: Content,
}

/// A write without a buffer, on its way to the scheme.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    content: Content,
    /// True if the page was trimmed while the rest of it was read: the rest is then nothing.
    was_trimmed: bool,
}

/// All versions, and their places outside the flash.
#[derive(Clone, Debug)]
pub struct Contents {
    page_bytes: u32,
    /// Versions by content; the first entries stand for contents that are no version.
    versions: Vec<Version>,
    arrived: BTreeMap<(RequestSlot, u32), Arrived>,
    /// Newest contents in the write-back buffer.
    waiting: BTreeMap<u32, Content>,
    in_flight: BTreeMap<u32, Arrived>,
    /// Newest contents given to the scheme.
    given: BTreeMap<u32, Content>,
    cached: BTreeMap<u32, Content>,
    /// Contents of the buffer when a read began that needs other sectors of the page, too.
    overlays: BTreeMap<(RequestSlot, u32), Content>,
    found: Vec<Found>,
}

impl Contents {
    fn new(page_bytes: u32) -> Self {
        let none = Version { lpn: u32::MAX, handle: u32::MAX, sectors: 0, below: NOTHING };
        Self {
            page_bytes,
            versions: vec![none; TRANSLATION as usize + 1],
            arrived: BTreeMap::new(),
            waiting: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            given: BTreeMap::new(),
            cached: BTreeMap::new(),
            overlays: BTreeMap::new(),
            found: Vec::new(),
        }
    }

    /// Takes the results of reads since the last call.
    pub fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }

    /// Bytes of a sector, the unit in which contents are followed.
    #[must_use]
    pub fn sector_bytes(&self) -> u32 {
        sector_bytes(self.page_bytes)
    }

    /// The logical page of a content; `None` if it is no version.
    #[must_use]
    pub fn page_of(&self, content: Content) -> Option<Lpn> {
        (content > TRANSLATION).then(|| Lpn(self.versions[content as usize].lpn))
    }

    /// The handle of the request that wrote a sector of a content, and the version's number: later
    /// ones are higher. `None` if the sector was never written, was trimmed, or was there before
    /// contents were followed.
    #[must_use]
    pub fn writer(&self, mut content: Content, sector: u32) -> Option<(u32, Content)> {
        while content > TRANSLATION {
            let version = &self.versions[content as usize];
            if version.sectors >> sector & 1 == 1 {
                return Some((version.handle, content));
            }
            content = version.below;
        }
        assert!(content != TRANSLATION, "a translation page was given to the host");
        None
    }

    fn version(&mut self, lpn: Lpn, handle: u32, part: (u32, u32), below: Content) -> Content {
        let sectors = sectors_of(part.0, part.1, self.page_bytes);
        self.versions.push(Version { lpn: lpn.0, handle, sectors, below });
        (self.versions.len() - 1) as Content
    }

    /// Sets the rest of a version's page, for its sectors that nobody wrote.
    fn fill(&mut self, mut content: Content, rest: Content) {
        while self.versions[content as usize].below > TRANSLATION {
            content = self.versions[content as usize].below;
        }
        self.versions[content as usize].below = rest;
    }

    /// The newest version in the buffer. One that waits takes precedence over one in flight.
    fn in_buffer(&mut self, lpn: Lpn) -> Option<Content> {
        let in_flight = self
            .in_flight
            .get(&lpn.0)
            .filter(|arrived| !arrived.was_trimmed)
            .map(|arrived| arrived.content);
        match (self.waiting.get(&lpn.0).copied(), in_flight) {
            (Some(newer), Some(older)) => Some(self.laid_over(newer, older)),
            (newer, older) => newer.or(older),
        }
    }

    /// A content laid over another one, which supplies the sectors that nobody wrote.
    fn laid_over(&mut self, newer: Content, older: Content) -> Content {
        if newer <= TRANSLATION {
            return older;
        }
        let version = self.versions[newer as usize];
        let below = self.laid_over(version.below, older);
        self.versions.push(Version { below, ..version });
        (self.versions.len() - 1) as Content
    }

    fn trim(&mut self, lpn: Lpn) {
        self.waiting.remove(&lpn.0);
        self.given.remove(&lpn.0);
        self.cached.remove(&lpn.0);
        let under_way = self
            .arrived
            .iter_mut()
            .filter(|((_, page), _)| *page == lpn.0)
            .map(|(_, arrived)| arrived);
        under_way
            .chain(self.in_flight.get_mut(&lpn.0))
            .for_each(|arrived| arrived.was_trimmed = true);
    }
}

impl<S: Scheme> Drive<S> {
    /// Begins to follow the drive's contents, and keeps the first `most_commands` to the media.
    /// Call it only before the first request, and before the drive is filled.
    pub fn follow(&mut self, most_commands: usize) {
        self.media.follow(most_commands);
        self.contents = Some(Box::new(Contents::new(self.page_bytes)));
    }

    /// The contents, if they are followed.
    #[must_use]
    pub fn contents(&self) -> Option<&Contents> {
        self.contents.as_deref()
    }

    /// The contents, to take the results of reads.
    pub fn contents_mut(&mut self) -> Option<&mut Contents> {
        self.contents.as_deref_mut()
    }

    #[inline]
    pub(super) fn is_followed(&self) -> bool {
        self.contents.is_some()
    }

    fn followed(&mut self) -> &mut Contents {
        self.contents.as_deref_mut().expect("asked for only where contents are followed")
    }

    /// Content of a page that the scheme answers from memory, or that holds no data.
    fn held_by_scheme(&self, lpn: Lpn, path: ReadPath) -> Content {
        let contents = self.contents().expect("asked for only where contents are followed");
        match path {
            ReadPath::Unmapped => NOTHING,
            _ => contents.given.get(&lpn.0).copied().unwrap_or(INITIAL),
        }
    }

    #[cold]
    pub(super) fn follow_arrival(
        &mut self,
        slot: RequestSlot,
        lpn: Lpn,
        submission: &Submission,
        part: (u32, u32),
    ) {
        let contents = self.followed();
        let content = contents.version(lpn, submission.handle, part, NOTHING);
        contents.arrived.insert((slot, lpn.0), Arrived { content, was_trimmed: false });
    }

    /// Records that a page of a write has gone into the buffer. If the cache held the page, its
    /// rest is known from there.
    #[cold]
    pub(super) fn follow_admission(
        &mut self,
        lpn: Lpn,
        submission: &Submission,
        part: (u32, u32),
        admission: Admission,
        was_cached: bool,
    ) {
        let contents = self.followed();
        let below = match admission {
            Admission::Merged => contents.waiting[&lpn.0],
            _ if was_cached => contents.cached[&lpn.0],
            _ => NOTHING,
        };
        let content = contents.version(lpn, submission.handle, part, below);
        contents.waiting.insert(lpn.0, content);
    }

    /// Records that a page leaves the buffer.
    #[cold]
    pub(super) fn follow_flush(&mut self, lpn: Lpn) {
        let contents = self.followed();
        let content = contents.waiting.remove(&lpn.0).expect("what is flushed waits");
        contents.in_flight.insert(lpn.0, Arrived { content, was_trimmed: false });
    }

    #[cold]
    pub(super) fn follow_flushed(&mut self, lpn: Lpn) {
        self.followed().in_flight.remove(&lpn.0);
    }

    /// Records that the rest of a partly written page is known: from flash, from memory, or as
    /// absent.
    #[cold]
    pub(super) fn follow_fill(&mut self, op: &Op, read: Option<&Command>, path: ReadPath) {
        let rest = match read {
            Some(read) => self.content_on_flash(read),
            None => self.held_by_scheme(op.lpn, path),
        };
        let contents = self.followed();
        let arrived = if op.kind == OpKind::Fill {
            contents.arrived[&(op.request, op.lpn.0)]
        } else {
            contents.in_flight[&op.lpn.0]
        };
        contents.fill(arrived.content, if arrived.was_trimmed { NOTHING } else { rest });
    }

    /// Records that a page is given to the scheme.
    #[cold]
    pub(super) fn follow_write(&mut self, op: &Op, tag: u32) {
        let contents = self.followed();
        let content = match op.kind {
            OpKind::Write => {
                contents
                    .arrived
                    .remove(&(op.request, op.lpn.0))
                    .expect("what is written has arrived")
                    .content
            }
            _ => contents.in_flight[&op.lpn.0].content,
        };
        contents.given.insert(op.lpn.0, content);
        self.media.witness_mut().expect("the media are followed too").brings(tag, content);
    }

    #[cold]
    pub(super) fn follow_trim(&mut self, lpn: Lpn) {
        self.followed().trim(lpn);
    }

    /// Records that a read has a page from flash; sectors that the buffer held are newer.
    #[cold]
    pub(super) fn follow_read(&mut self, op: &Op, read: &Command) {
        let content = self.content_on_flash(read);
        self.follow_found(op.request, op.lpn, content);
    }

    /// Records that a page was put into the read cache.
    #[cold]
    pub(super) fn follow_caching(&mut self, lpn: Lpn, read: &Command) {
        let content = self.content_on_flash(read);
        self.followed().cached.insert(lpn.0, content);
    }

    /// Records that read-ahead found a page in memory, or found it empty.
    #[cold]
    pub(super) fn follow_ahead(&mut self, lpn: Lpn, path: ReadPath) {
        let content = self.held_by_scheme(lpn, path);
        self.followed().cached.insert(lpn.0, content);
    }

    /// Records that a read has a page from the buffer.
    #[cold]
    pub(super) fn follow_buffer_hit(&mut self, slot: RequestSlot, lpn: Lpn) {
        let content = self.followed().in_buffer(lpn).expect("the buffer holds the page");
        self.follow_found(slot, lpn, content);
    }

    /// Records that a read needs sectors that the buffer does not know.
    #[cold]
    pub(super) fn follow_overlay(&mut self, slot: RequestSlot, lpn: Lpn) {
        let contents = self.followed();
        let content = contents.in_buffer(lpn).expect("the buffer holds a part of the page");
        contents.overlays.insert((slot, lpn.0), content);
    }

    #[cold]
    pub(super) fn follow_cache_hit(&mut self, slot: RequestSlot, lpn: Lpn) {
        let content = self.followed().cached[&lpn.0];
        self.follow_found(slot, lpn, content);
    }

    /// Records that a read that waited for read-ahead has its page.
    #[cold]
    pub(super) fn follow_expected(&mut self, slot: RequestSlot, lpn: Lpn, read: Option<&Command>) {
        let content = match read {
            Some(read) => self.content_on_flash(read),
            None => self.followed().cached[&lpn.0],
        };
        self.follow_found(slot, lpn, content);
    }

    #[cold]
    pub(super) fn follow_memory(&mut self, slot: RequestSlot, lpn: Lpn, path: ReadPath) {
        let content = self.held_by_scheme(lpn, path);
        self.follow_found(slot, lpn, content);
    }

    fn follow_found(&mut self, slot: RequestSlot, lpn: Lpn, content: Content) {
        let handle = self.requests[slot as usize].submission.handle;
        let contents = self.followed();
        let content = match contents.overlays.remove(&(slot, lpn.0)) {
            Some(newer) => contents.laid_over(newer, content),
            None => content,
        };
        contents.found.push(Found { handle, lpn, content });
    }

    fn content_on_flash(&self, read: &Command) -> Content {
        self.media.witness().expect("the media are followed too").brought_by(read)
    }
}
