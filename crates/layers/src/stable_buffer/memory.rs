//! Memory of the layer.

use super::settings::BufferSettings;
use super::table::Table;
use crate::memory::{Memory, SMALL_BYTES, Sized};
use crate::{LayerError, Limits, Making};

/// Most bytes that the recognition of patterns takes for each candidate: a place in its maps of
/// runs, windows and partitions.
const CANDIDATE_BYTES: u64 = 160;
/// Bytes of a slot: a checksum and a sequence number, its content at recovery, and its waiters.
const SLOT_BYTES: u64 = 96;

/// Gives the most memory that a buffer takes over something with these limits.
///
/// # Errors
/// [`LayerError`] if it does not fit there.
pub(super) fn memory(making: &Making<'_>, below: Limits) -> Result<Sized, LayerError> {
    let settings = BufferSettings::new(making, below)?;
    let geometry = settings.geometry(below)?;
    let slots = u64::from(settings.slots);
    let table_bytes =
        Table::bytes(settings.slots) + slots * (CANDIDATE_BYTES + SLOT_BYTES) + SMALL_BYTES;
    // An instance that is flushed is first read as a whole, and may be all slots; where pages are
    // kept, it shares their bytes.
    let pages = slots * u64::from(settings.page_bytes);
    let moved = 2 * u64::from(settings.outstanding) * u64::from(below.most_bytes);
    let memory =
        Memory { table_bytes, held_bytes: pages + moved, opening_bytes: table_bytes + (2 << 20) };
    Ok(Sized { memory, above: Limits { capacity_bytes: geometry.homes_bytes, ..below } })
}
