//! DAC: dynamic data clustering. Regions from cold to hot; pages climb when updated young and sink
//! when relocated old.

use registry::{Args, Info, Param, ParamKind};
use units::{Lpn, StreamId};

use crate::{BuildError, Context, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "dac",
    aliases: &[],
    summary: "regions by age: up when updated young, down when relocated old",
    source: "Chiang, Lee & Chang, Software Practice and Experience 29(3), 1999; MULTILOG 2.1",
    params: &[
        Param {
            name: "regions",
            kind: ParamKind::Integer { min: 2, max: 64 },
            default: "4",
            help: "number of regions",
        },
        Param {
            name: "threshold",
            kind: ParamKind::Number { min: 1e-6, max: 1e6 },
            default: "1",
            help: "age below which a page of the coldest region is young, in host page writes as a \
                   multiple of the logical pages",
        },
        Param {
            name: "sinking",
            kind: ParamKind::Choice(&[OLD, ALL]),
            default: OLD,
            help: "which relocated pages sink; `dac(regions=6,threshold=1e6,sinking=all)` is DAC \
                   in SepBIT's comparison",
        },
    ],
};

/// The victim policy of its authors.
pub const VICTIM: &str = "cost_benefit";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 4;

const OLD: &str = "old";
const ALL: &str = "all";

/// The age of a page is the time since its last update, kept for each page (4 bytes). The authors
/// leave the thresholds to the workload and count seconds; here the threshold of the coldest region
/// is a parameter in host page writes, and each hotter region's is half of the one below, since its
/// pages are expected to be updated twice as often. MULTILOG 2.1 says that pages sink whenever they
/// are relocated; here, after the authors' state machine, only those that are not young.
///
/// SepBIT's authors (Wang et al., FAST 2022) compare with a DAC without ages: six regions, up at
/// each update and down at each relocation. So is this one with `sinking=all` and a threshold above
/// all ages.
#[derive(Debug)]
pub struct Dac {
    updated_at: Vec<u32>,
    young_below: Vec<u32>,
    all_sink: bool,
    left_out: usize,
}

impl Dac {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let pages = f64::from(context.geometry.logical_pages);
        let coldest = args.number("threshold") * pages;
        let asked = args.integer("regions") as usize;
        let regions = asked.min(context.most_streams.max(1));
        let young_below = (0..regions)
            .map(|region| (coldest * 0.5f64.powi(region as i32)).min(f64::from(u32::MAX)) as u32);
        Ok(Self {
            updated_at: vec![0; context.geometry.logical_pages as usize],
            young_below: young_below.collect(),
            all_sink: args.text("sinking") == ALL,
            left_out: asked - regions,
        })
    }

    fn is_young(&self, lpn: u32, region: StreamId, now: u32) -> bool {
        now.wrapping_sub(self.updated_at[lpn as usize]) < self.young_below[region.index()]
    }
}

impl Placement for Dac {
    #[inline]
    fn features(&self) -> Features {
        Features { uses_previous: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        self.young_below.len()
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    fn relocation_targets(&self) -> usize {
        2
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        let now = device.clock as u32;
        let stream = match previous {
            None => StreamId(0),
            Some(Previous { stream, .. }) if self.is_young(lpn.0, stream, now) => {
                StreamId((stream.0 + 1).min(self.streams() as u32 - 1))
            }
            Some(Previous { stream, .. }) => stream,
        };
        self.updated_at[lpn.index()] = now;
        stream
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        let now = device.clock as u32;
        let below = StreamId(survivors.stream.0.saturating_sub(1));
        for (to, &lpn) in to.iter_mut().zip(survivors.lpns) {
            let stays = !self.all_sink && self.is_young(lpn, survivors.stream, now);
            *to = if stays { survivors.stream } else { below };
        }
    }

    fn stream_label(&self, stream: StreamId) -> String {
        format!("region {}{}", stream.0, if stream.0 == 0 { " (coldest)" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use registry::Spec;
    use units::{EraseBlockId, Geometry, Lpn, StreamId};

    use super::{Dac, INFO};
    use crate::{Context, Device, Placement as _, Previous, Survivors};

    /// SepBIT's comparison moves pages up at each update and down at each relocation; in the
    /// authors' DAC a young page stays.
    #[test]
    fn which_relocated_pages_sink() {
        for (spec, expected) in [
            ("dac(regions=6,threshold=1e6,sinking=all)", 2),
            ("dac(regions=6,threshold=1e6)", 3),
            ("dac(regions=6,threshold=1e-6)", 1),
        ] {
            let geometry = Geometry::with_over_provisioning(4096, 16, 1024, 0.25).expect("valid");
            let args = INFO.accept(&Spec::parse(spec).expect("a spec")).expect("parameters");
            let mut dac = Dac::build(&args, &Context::new(geometry, 1)).expect("a policy");
            let mut device = Device::new(geometry, 6);
            device.clock = 1_000_000;
            let block = EraseBlockId(0);
            let previous = Some(Previous { block, stream: StreamId(2) });
            let stream = dac.host_stream(Lpn(7), previous, &device);
            device.clock += 1000;
            let mut to = [StreamId(0)];
            let survivors = Survivors { block, stream, offsets: &[0], lpns: &[7] };
            dac.relocation_streams(survivors, &device, &mut to);
            assert_eq!(to, [StreamId(expected)], "{spec}");
        }
    }
}
