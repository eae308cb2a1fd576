//! Memory of the layer.

use super::blocking::Blocking;
use super::groups::Groups;
use super::pages::Page;
use super::resting::Resting;
use super::settings::ReplicaSettings;
use super::space::Space;
use crate::memory::{Memory, SMALL_BYTES, Sized, hash_map_bytes};
use crate::{LayerError, Limits, Making};

/// Gives the most memory that the layer takes over something with these limits, when all pages were
/// accessed and all slots are used.
///
/// # Errors
/// [`LayerError`] if it does not fit there.
pub(super) fn memory(making: &Making<'_>, below: Limits) -> Result<Sized, LayerError> {
    let settings = ReplicaSettings::read(making.args)?;
    let geometry = settings.geometry(below)?;
    let slots = u64::from(geometry.slots_each()) * u64::from(geometry.partitions);
    let pages = geometry.host_bytes() / u64::from(geometry.page_bytes);
    let behind = settings.most_behind as u64;
    let (rest_bytes, waiting_bytes) =
        Resting::most_bytes(u64::from(geometry.partitions), u64::from(geometry.page_bytes));
    let table_bytes = Blocking::most_bytes(pages)
        + Blocking::most_bytes(slots)
        + hash_map_bytes(slots + behind, size_of::<(u64, Page)>())
        + slots * Page::REPLICAS_BYTES
        + Groups::most_bytes(slots)
        + Space::most_bytes(slots)
        + rest_bytes
        + SMALL_BYTES;
    let held_bytes = behind * u64::from(geometry.page_bytes) + waiting_bytes;
    let memory = Memory { table_bytes, held_bytes, opening_bytes: 0 };
    Ok(Sized { memory, above: Limits { capacity_bytes: geometry.host_bytes(), ..below } })
}
