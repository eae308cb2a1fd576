//! A log-structured volume: whatever the host writes goes to the ends of a few logs, in segments of
//! the size of the device's erase blocks (SCHEDULER 6.3, "converting" and "aligning"; MULTILOG for
//! which log).
//!
//! Mapping, placement, victim choice and the bookkeeping of cleaning are those of
//! [`ftl::PageMapped`], taken step by step as a drive with a clock takes them: a segment is
//! its erase block, and its medium is what is below. Here is what a volume needs beyond: any
//! sectors, bytes that are on their way, durability, and recovery.
//!
//! # Durability
//! - A write is acknowledged when it is written below; with `align`, when it is gathered. It is
//!   volatile until a flush, either way.
//! - FLUSH and FUA end with a *commit*: all pages written before it, and the summaries that tell of
//!   them, are written; what is below is flushed; then it is replied to. A FLUSH with nothing to
//!   make durable is replied to at once.
//! - After a power cut each page holds what it held at the last commit, or a later version whose
//!   checksum fits; in each stream, later versions are taken up to the first one that was lost.
//! - A trim drops whole pages; it is durable with the next commit. Pages without data read as
//!   zeros.
//! - A segment is written to again only when everything that superseded its pages is durable, and a
//!   durable summary or root says so: recovery never looks for a page that may have been
//!   overwritten.
//! - With `trim` it is trimmed below at that point, and written to again when the trim has ended.
//!   Nothing depends on the trim.
//! - A write or flush below that fails poisons the volume. Reads go on, as their checksums tell
//!   what was lost below; what was never written is read from memory. Without checksums they fail,
//!   too. A read of the host that fails is the failure of that read.
//!
//! # Rot
//! The checksum of each page is kept with the map, and every page that is read from the device is
//! held against it: for the host, whole where it wants a part; to complete a part that the host
//! writes; and to be moved. What does not fit is never given, written or moved: the command that
//! needs it fails. A page that cleaning cannot read, or that does not fit, three times over, is
//! *lost*: it gives up its place, so that the segment can be emptied, and reads of it fail until
//! the host writes or trims it, also when the volume was closed and opened meanwhile ([`checks`]).
//!
//! # Summaries
//! LFS writes a segment's summary into the segment. Here all summaries go to a ring of their own
//! unless it is asked for otherwise ([`in_segments`]), for three reasons. A FLUSH costs one page,
//! however many streams were written to. Segments hold nothing but data, so that cleaning is
//! exactly that which the placement policies were made for, and never needs room for itself. And
//! recovery reads one ring, not the head of every segment.

mod aside;
mod below;
mod chain;
mod checkpoint;
mod checks;
mod cleaning;
mod commit;
mod copies;
mod counts;
mod disk;
mod footer;
mod gathered;
mod in_segments;
mod intake;
mod layout;
mod lifetimes;
mod memory;
mod reading;
mod recovery;
mod resize;
mod ring;
mod salvage;
mod scrub;
mod segments;
mod settings;
mod structures;
#[cfg(test)]
mod tests;
mod volume;

use ftl::{PageMapped, Remains};
use placement::{
    BuildError, Context, Placement, PlacementVisitor, build_victim, find_placement, visit_placement,
};
use registry::{Info, Spec};

use self::layout::VolumeLayout;
use self::lifetimes::ByLifetime;
use self::recovery::Recovered;
use self::settings::{PARAMS, VolumeSettings};
use self::volume::LogVolume;
use crate::{Addresses, Entry, Layer, LayerError, Limits, Making, Opened, Store};

const NAME: &str = "log_volume";

/// The layer.
pub(super) static ENTRY: Entry = Entry {
    info: Info {
        name: NAME,
        aliases: &["converting", "log"],
        summary: "a log-structured volume: writes go to the ends of a few logs, placed and cleaned \
                  by any policy",
        source: "SCHEDULER 6.3; MULTILOG; Rosenblum & Ousterhout, TOCS 1992",
        params: PARAMS,
    },
    counters: counts::COUNTERS,
    addresses: Addresses::Moved,
    aside: Some(&aside::ASIDE),
    format,
    open,
    salvage: Some(salvage),
    limits: resize::limits,
    resize: resize::resize,
    memory: memory::memory,
    structures: structures::structures,
    settled: Some(settings::settled),
};

fn format(making: &Making<'_>, store: &mut Store<'_>) -> Result<(), LayerError> {
    let settings = VolumeSettings::read(making.args, making.facts)?;
    let layout = VolumeLayout::plan(&settings, store.limits())?;
    // Whether the policies fit is known before anything is written.
    let empty = Recovered::empty(layout);
    make(empty, &settings, making.seed, store.limits())?;
    recovery::format(&settings, &layout, making.seed, store)
}

fn open(making: &Making<'_>, store: &mut Store<'_>) -> Opened {
    let settings = VolumeSettings::read(making.args, making.facts)?;
    let recovered = recovery::recover(&settings, store)?;
    make(recovered, &settings, making.seed, store.limits())
}

fn salvage(making: &Making<'_>, store: &mut Store<'_>, notes: &mut Vec<String>) -> Opened {
    let settings = VolumeSettings::read(making.args, making.facts)?;
    let recovered = salvage::salvage(&settings, store, notes)?;
    make(recovered, &settings, making.seed, store.limits())
}

fn make(recovered: Recovered, settings: &VolumeSettings, seed: u64, below: Limits) -> Opened {
    let refused = |error: BuildError| match error {
        BuildError::Spec(error) => LayerError::Spec(error),
        error => LayerError::Refused {
            layer: NAME,
            reason: format!("{error} (over_provisioning=..., segment=..., placement=...)"),
        },
    };
    let context = Context::new(recovered.layout.geometry(), seed);
    let making = MakeVolume { recovered, settings, context, below };
    visit_logs(settings, &context, making).map_err(refused)?
}

/// Calls the visitor with the policy that says which log a page goes to.
fn visit_logs<V: PlacementVisitor>(
    settings: &VolumeSettings,
    context: &Context<'_>,
    visitor: V,
) -> Result<V::Output, BuildError> {
    if settings.takes_hints {
        return Ok(visitor.visit(ByLifetime::default()));
    }
    visit_placement(&settings.placement, context, visitor)
}

/// Makes the volume for the placement policy that was asked for.
struct MakeVolume<'a> {
    recovered: Recovered,
    settings: &'a VolumeSettings,
    context: Context<'a>,
    below: Limits,
}

impl PlacementVisitor for MakeVolume<'_> {
    type Output = Opened;

    fn visit<P: Placement + 'static>(self, policy: P) -> Opened {
        let Self { recovered, settings, context, below } = self;
        let refused = |reason: String| LayerError::Refused { layer: NAME, reason };
        let victim = match &settings.victim {
            Some(victim) => victim.clone(),
            None => Spec::parse(find_placement(&settings.placement)?.victim)?,
        };
        let remedy = "give over_provisioning=..., segment=... or placement=...";
        let victims = build_victim(&victim, &context, policy.domains())
            .map_err(|error| refused(format!("{error} ({remedy})")))?;
        let streams = policy.streams();
        if recovered.layout.form.in_segments && streams > 1 {
            return Err(refused(format!(
                "summaries=segments is for one log, and placement={} has {streams}: give \
                 placement=none, or summaries=ring to `volume create`",
                settings.placement.name
            )));
        }
        let mut ftl = PageMapped::new(context.geometry, &settings.placement.name, policy, victims)
            .map_err(|error| refused(format!("{error} ({remedy})")))?;
        let mut blocks = recovered.blocks();
        // A volume may be opened with another policy than that which wrote it.
        blocks.iter_mut().for_each(|block| block.stream = block.stream.min(streams as u16 - 1));
        let Recovered { clock, open, .. } = recovered;
        ftl.go_on_from(Remains { map: &recovered.map, blocks: &blocks, clock, open }).map_err(
            |error| LayerError::Corrupt { layer: NAME, offset: 0, reason: error.to_string() },
        )?;
        let volume: Box<dyn Layer> =
            Box::new(LogVolume::new(recovered, settings.clone(), below, ftl));
        Ok(volume)
    }
}
