//! ContainerMarking without its wear levelling: erase blocks carry an activeness marker, and pages
//! move between markers.

use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::{Lpn, StreamId};

use crate::{BuildError, Context, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "container_marking",
    aliases: &["cm"],
    summary: "markers: one up at each update; down at relocation with a probability that balances, \
              less when occupancy is high",
    source: "Hu, Haas & Eleftheriou, MASCOTS 2011, as MULTILOG 2.1 and 6.1 describe and use it (no \
             wear levelling)",
    params: &[Param {
        name: "markers",
        kind: ParamKind::Integer { min: 2, max: 64 },
        default: "16",
        help: "activeness levels (the authors' 2L)",
    }],
};

/// The victim policy of its authors: greedy, once the preference for worn erase blocks is left out
/// with the wear levelling.
pub const VICTIM: &str = "greedy";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 0;

/// An update moves a page one marker up (hotter). A survivor moves one marker down with probability
/// min(1, (1 - u) / u), u being the share of valid pages of its erase block: reclaiming an erase
/// block of C pages admits C (1 - u) updates, each one step up, and relocates C u pages, so this
/// probability makes steps up and down balance wherever at least half of the pages are valid, and
/// lowers the demotion rate when occupancy is high.
///
/// The authors state that the tracking "adapts to utilizations" (abstract) and MULTILOG 2.1 that
/// demotion follows a statistical model of the occupancy; the model itself is in neither, so the
/// balance above is our reading of it.
#[derive(Debug)]
pub struct ContainerMarking {
    markers: u32,
    left_out: usize,
    random: Pcg64Mcg,
}

impl ContainerMarking {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let asked = args.integer("markers") as usize;
        let markers = asked.min(context.most_streams.max(1));
        Ok(Self {
            markers: markers as u32,
            left_out: asked - markers,
            random: Pcg64Mcg::seed_from_u64(context.seed ^ 0x434d),
        })
    }
}

impl Placement for ContainerMarking {
    #[inline]
    fn features(&self) -> Features {
        Features { uses_previous: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        self.markers as usize
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    fn relocation_targets(&self) -> usize {
        2
    }

    #[inline]
    fn host_stream(&mut self, _lpn: Lpn, previous: Option<Previous>, _device: &Device) -> StreamId {
        match previous {
            None => StreamId(0),
            Some(Previous { stream, .. }) => StreamId((stream.0 + 1).min(self.markers - 1)),
        }
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        let used = survivors.lpns.len() as f64 / f64::from(device.geometry.pages_per_erase_block);
        let demote = ((1.0 - used) / used).min(1.0);
        let below = StreamId(survivors.stream.0.saturating_sub(1));
        for to in to {
            *to = if self.random.random::<f64>() < demote { below } else { survivors.stream };
        }
    }

    fn stream_label(&self, stream: StreamId) -> String {
        format!("marker {}", stream.0 + 1)
    }
}
