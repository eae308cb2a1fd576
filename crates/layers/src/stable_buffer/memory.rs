//! What it keeps in memory.

use super::settings::BufferSettings;
use super::table::Table;
use crate::memory::{Memory, SMALL_BYTES, Sized};
use crate::{LayerError, Limits, Making};

/// What the recognition of patterns has for each candidate, at most: a place in its maps of runs,
/// windows and partitions.
const CANDIDATE_BYTES: u64 = 160;
/// A checksum and a sequence number, what recovery found in the slot, and what waits for it.
const SLOT_BYTES: u64 = 96;

/// The most that a buffer keeps in memory over what has these limits.
///
/// # Errors
/// [`LayerError`] if it does not fit there.
pub(super) fn memory(making: &Making<'_>, below: Limits) -> Result<Sized, LayerError> {
    let settings = BufferSettings::new(making, below)?;
    let geometry = settings.geometry(below)?;
    let slots = u64::from(settings.slots);
    let table_bytes =
        Table::bytes(settings.slots) + slots * (CANDIDATE_BYTES + SLOT_BYTES) + SMALL_BYTES;
    // An instance that is flushed is read as a whole first, and may be all slots; those whose
    // pages are kept share their bytes with it.
    let pages = slots * u64::from(settings.page_bytes);
    let moved = 2 * u64::from(settings.outstanding) * u64::from(below.most_bytes);
    let memory =
        Memory { table_bytes, held_bytes: pages + moved, opening_bytes: table_bytes + (2 << 20) };
    Ok(Sized { memory, above: Limits { capacity_bytes: geometry.homes_bytes, ..below } })
}
