//! What is known of the bytes in the slots: their checksums, and which of them are bad.

use rustc_hash::FxHashSet;
use units::IoOp;

use super::disk::Geometry;
use super::layer::StableBuffer;
use crate::{Actions, Data, Failure};

/// No checksum: a trace without bytes is played.
const UNKNOWN: u64 = 0;

/// By slot.
#[derive(Debug)]
pub struct Checks {
    /// Checksums of the pages, as headers cover them.
    pages: Vec<u64>,
    /// Sequence numbers of what they were written with.
    sequences: Vec<u64>,
    /// Slots that do not hold what was written, or cannot be read, of pages that have nothing
    /// newer.
    bad: FxHashSet<u32>,
}

impl Checks {
    pub fn new(slots: u32) -> Self {
        let (pages, sequences) = (vec![UNKNOWN; slots as usize], vec![0; slots as usize]);
        Self { pages, sequences, bad: FxHashSet::default() }
    }

    /// A slot is about to be written with a page of this checksum and sequence number, or was found
    /// with one.
    pub fn set(&mut self, slot: u32, page: u64, sequence: u64) {
        self.pages[slot as usize] = page;
        self.sequences[slot as usize] = sequence;
    }

    /// The sequence number of what a slot was written with.
    pub fn sequence(&self, slot: u32) -> u64 {
        self.sequences[slot as usize]
    }

    /// A slot does not hold what was written, and its page is nowhere else.
    pub fn is_bad_now(&mut self, slot: u32) {
        self.bad.insert(slot);
    }

    /// Whether it is known not to.
    pub fn is_bad(&self, slot: u32) -> bool {
        !self.bad.is_empty() && self.bad.contains(&slot)
    }

    /// The page of a slot was written again.
    pub fn replaced(&mut self, slot: u32) {
        self.bad.remove(&slot);
    }

    /// Pages that are bad.
    pub fn bad(&self) -> u32 {
        self.bad.len() as u32
    }

    /// Which slots those are in.
    pub fn bad_slots(&self) -> impl Iterator<Item = u32> {
        self.bad.iter().copied()
    }

    /// Whether a page is what a slot was written with.
    fn fits(&self, geometry: &Geometry, slot: u32, page: &Data) -> bool {
        let expected = self.pages[slot as usize];
        expected == UNKNOWN || page.is_absent() || geometry.page_checksum(page) == expected
    }
}

impl StableBuffer {
    /// What a slot holds of its page is not what was written, or it could not be read. Where it is
    /// not, the slot says so from now on: recovery would take it for one that a power cut tore.
    pub(super) fn is_bad_now(&mut self, slot: u32, is_rotten: bool, actions: &mut Actions) {
        self.checks.is_bad_now(slot);
        if is_rotten {
            self.mark_bad(slot, actions);
        }
    }

    /// The page in what was read of a whole slot, if it is what was written there.
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

    /// Why a page is not given.
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

    /// All slots are taken, and none can be freed: bad pages stay where they are until they are
    /// written, and for that a slot is missing, too.
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
