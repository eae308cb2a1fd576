//! Checks of the bytes in the slots: their checksums, and the slots that are bad.

use rustc_hash::FxHashSet;
use units::IoOp;

use super::disk::Geometry;
use super::layer::StableBuffer;
use crate::{Actions, Data, Failure};

/// No checksum: a trace without bytes is played.
const UNKNOWN: u64 = 0;

/// Checks by slot.
#[derive(Debug)]
pub struct Checks {
    /// Checksums of the pages, as headers cover them.
    pages: Vec<u64>,
    /// Sequence numbers with which the slots were written.
    sequences: Vec<u64>,
    /// Slots that do not hold what was written, or cannot be read, and whose pages have no newer
    /// version.
    bad: FxHashSet<u32>,
}

impl Checks {
    pub fn new(slots: u32) -> Self {
        let (pages, sequences) = (vec![UNKNOWN; slots as usize], vec![0; slots as usize]);
        Self { pages, sequences, bad: FxHashSet::default() }
    }

    /// Notes that a slot is about to be written with a page of this checksum and sequence number,
    /// or was found with them.
    pub fn set(&mut self, slot: u32, page: u64, sequence: u64) {
        self.pages[slot as usize] = page;
        self.sequences[slot as usize] = sequence;
    }

    /// Gives the sequence number with which a slot was written.
    pub fn sequence(&self, slot: u32) -> u64 {
        self.sequences[slot as usize]
    }

    /// Notes that a slot is bad, and its page is nowhere else.
    pub fn is_bad_now(&mut self, slot: u32) {
        self.bad.insert(slot);
    }

    /// Returns true if a slot is known to be bad.
    pub fn is_bad(&self, slot: u32) -> bool {
        !self.bad.is_empty() && self.bad.contains(&slot)
    }

    /// Notes that the page of a bad slot was written again.
    pub fn replaced(&mut self, slot: u32) {
        self.bad.remove(&slot);
    }

    /// Gives the number of bad pages.
    pub fn bad(&self) -> u32 {
        self.bad.len() as u32
    }

    /// Gives the slots of bad pages.
    pub fn bad_slots(&self) -> impl Iterator<Item = u32> {
        self.bad.iter().copied()
    }

    /// Returns true if a slot was written with this page, by its checksum.
    fn fits(&self, geometry: &Geometry, slot: u32, page: &Data) -> bool {
        let expected = self.pages[slot as usize];
        expected == UNKNOWN || page.is_absent() || geometry.page_checksum(page) == expected
    }
}

impl StableBuffer {
    /// Notes that a slot does not hold the page that was written, or could not be read. If it is
    /// rotten it gets a mark that says so: otherwise recovery would take it for one that a power
    /// cut tore.
    pub(super) fn is_bad_now(&mut self, slot: u32, is_rotten: bool, actions: &mut Actions) {
        self.checks.is_bad_now(slot);
        if is_rotten {
            self.mark_bad(slot, actions);
        }
    }

    /// Gives the page from the bytes of a whole slot, if it has its checksum.
    ///
    /// # Errors
    /// [`Failure::Io`], which is counted.
    pub(super) fn fitting(&mut self, slot: u32, read: &Data) -> Result<Data, Failure> {
        let page = self.superblock.geometry.page_of(read);
        if self.checks.fits(&self.superblock.geometry, slot, &page) {
            return Ok(page);
        }
        self.counts.bad_reads += 1;
        Err(self.bad_page(slot))
    }

    /// Gives the failure of reading a bad page.
    pub(super) fn bad_page(&self, slot: u32) -> Failure {
        let number = self.table.number_in(slot);
        let (offset, page) = (self.superblock.geometry.slot_offset(slot), self.page_bytes());
        let reason = format!(
            "slot {slot}, at byte {offset} below, cannot be read or does not hold what was written \
             of page {number}; the page can be written"
        );
        Failure::Io {
            op: IoOp::Read,
            offset: number * page,
            length: page as u32,
            reason: reason.into(),
        }
    }

    /// Fails writes that wait, as all slots are taken and none can be freed: bad pages stay where
    /// they are until they are written, and for that a slot is missing, too.
    pub(super) fn fail_pending(&mut self, actions: &mut Actions) {
        let reason: std::sync::Arc<str> = format!(
            "no slot can be freed: {} of {} do not hold what was written",
            self.checks.bad(),
            self.table.len()
        )
        .into();
        for piece in std::mem::take(&mut self.pending) {
            let offset = piece.page * self.page_bytes() + u64::from(piece.from);
            let (op, length, reason) = (IoOp::Write, piece.length, reason.clone());
            let failure = Failure::Io { op, offset, length, reason };
            self.gather.ended(piece.part, Err(failure), actions);
        }
    }
}
