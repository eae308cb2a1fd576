//! Memory of a volume.

use ftl::table_bytes;
use placement::{Context, Placement, PlacementVisitor, find_placement};
use units::Geometry;

use super::commit::MOST_VOLATILE;
use super::disk::{Entry, Segment};
use super::footer::FooterEntry;
use super::layout::VolumeLayout;
use super::settings::VolumeSettings;
use super::{checkpoint, cleaning, copies, recovery, resize, visit_logs};
use crate::memory::{Memory, SMALL_BYTES, Sized};
use crate::{LayerError, Limits, Making};

/// Bytes of an entry for each logical page: of the map, or of the checksums.
const ENTRY_BYTES: u64 = 4;
/// Most bytes that the indexes of victim policies take for each segment.
const VICTIM_BYTES: u64 = 64;
/// Most bytes that they take for each count of valid pages that a segment may have.
const COUNT_BYTES: u64 = 32;
/// Most bytes in a write of gathered pages without an alignment.
const RUN_BYTES: u64 = 1 << 20;

/// Logical pages of the largest volume for which a policy with a state of each page is made, only
/// to ask it for its streams.
const MOST_ASKED: u32 = 1 << 20;

/// Visitor that asks a policy for its number of streams.
struct Streams;

impl PlacementVisitor for Streams {
    type Output = usize;

    fn visit<P: Placement + 'static>(self, policy: P) -> usize {
        policy.streams()
    }
}

/// Gives the number of streams of a volume's policy, which is made only for that.
fn streams(
    settings: &VolumeSettings,
    geometry: Geometry,
    of_policy: u64,
    seed: u64,
) -> Result<u64, LayerError> {
    // The streams of a policy with a state of each page depend on the parameters, not on the size.
    let parts = if of_policy == 0 { 1 } else { geometry.logical_pages.div_ceil(MOST_ASKED) };
    let part = Geometry {
        logical_pages: geometry.logical_pages / parts,
        erase_blocks: geometry.erase_blocks / parts,
        ..geometry
    };
    let streams = visit_logs(settings, &Context::new(part, seed), Streams);
    streams.map(|streams| streams as u64).map_err(|error| resize::refused(error.to_string()))
}

/// Gives the most memory that a volume takes over something with these limits.
///
/// # Errors
/// [`LayerError`] if it does not fit there, or its policies do not.
pub(super) fn memory(making: &Making<'_>, below: Limits) -> Result<Sized, LayerError> {
    let settings = VolumeSettings::read(making.args, making.facts)?;
    let layout = VolumeLayout::plan(&settings, below)?;
    let (geometry, segments) = (layout.geometry(), u64::from(layout.segments));
    let logical = u64::from(layout.logical_pages);
    let of_policy = if settings.takes_hints {
        0
    } else {
        u64::from(find_placement(&settings.placement)?.bytes_per_page)
    };
    let checks = if settings.keeps_checksums { logical * ENTRY_BYTES } else { 0 };
    let streams = streams(&settings, geometry, of_policy, making.seed)?;
    // Numbers of commands and reads, and the record of each segment.
    let of_segment = (size_of::<Segment>() + size_of::<(u16, u32, u32)>()) as u64 + VICTIM_BYTES;
    let counts = streams * u64::from(layout.pages_per_segment + 1) * COUNT_BYTES;
    let roots = u64::from(layout.tables) * 8;
    let footers = streams * u64::from(layout.pages_per_segment) * size_of::<FooterEntry>() as u64;
    let table_bytes = table_bytes(geometry)
        + checks
        + logical * of_policy
        + segments * of_segment
        + counts
        + roots
        + footers
        + SMALL_BYTES;
    // A list that grows takes twice its length for a while.
    let entries = 2 * MOST_VOLATILE * size_of::<Entry>() as u64;
    let run = settings.align_bytes.map_or(0, u64::from).max(RUN_BYTES.min(below.most_bytes.into()));
    let held_bytes = entries + (streams + 1) * run + cleaning::MOST_HELD_BYTES;
    // The map of recovery exists beside that of the FTL, and the records of the segments twice,
    // too.
    let page = u64::from(layout.page_bytes);
    // Entries that no commit had made durable; with summaries in segments, all since the
    // checkpoint.
    let replayed = match layout.form.in_segments {
        false => 3 * entries,
        true => checkpoint::MOST_TO_READ / page * 3 * size_of::<Entry>() as u64,
    };
    let made = copies::MOST_ENTRIES.max(layout.pages_per_segment as usize);
    let read_bytes = 2 * recovery::AT_ONCE as u64 * page
        + replayed
        + 2 * (made * size_of::<FooterEntry>()) as u64
        + segments * ENTRY_BYTES;
    let opening_bytes =
        table_bytes + logical * ENTRY_BYTES + segments * ENTRY_BYTES * 8 + read_bytes;
    let above = Limits { capacity_bytes: logical * u64::from(layout.page_bytes), ..below };
    Ok(Sized { memory: Memory { table_bytes, held_bytes, opening_bytes }, above })
}
