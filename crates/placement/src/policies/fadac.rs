//! FADaC: a counter for each page, up when it is written and down when it is relocated; classes by
//! the counter's order of magnitude.

use registry::{Args, Info, Param, ParamKind};
use units::{Lpn, PageOp, StreamId};

use crate::{BuildError, Context, Death, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "fadac",
    aliases: &[],
    summary: "a counter for each page, up when it is written and down when it is relocated; \
              classes by its order of magnitude",
    source: "Kremer & Brinkmann, SYSTOR 2019, as SepBIT's authors implement it (Wang et al., FAST \
             2022; github.com/fallfish/sepbit, FADaC.java)",
    params: &[Param {
        name: "classes",
        kind: ParamKind::Integer { min: 1, max: 11 },
        default: "6",
        help: "classes: a counter up to 1, up to 10, up to 100, and so on",
    }],
};

/// Cost-Benefit by the age of the segment, which SepBIT's authors use for all placements; the
/// victim policy of FADaC's authors is not known to us.
pub const VICTIM: &str = "cost_benefit(age=closed)";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 4;

/// Ratio of the counters of a class to those of the next colder one.
const FACTOR: u32 = 10;

/// A page's counter grows by one with each write of the host and falls by one, but not below zero,
/// when the page is relocated. Its class is the number of times that a base has to be multiplied by
/// ten until the counter is not above it.
///
/// The paper was not available; this follows SepBIT's authors. Their base is the fading average
/// that gives the policy its name: the mean number of pages per request, over as many requests as
/// there are valid pages. An FTL gets one page after the other, each of which is a request of its
/// own. So the average is one from the first write on, and so is the base here.
///
/// The authors keep counters in the spare area of the flash pages. Here they take 4 bytes per page.
#[derive(Debug)]
pub struct Fadac {
    counters: Vec<u32>,
    classes: usize,
    left_out: usize,
}

impl Fadac {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let asked = args.integer("classes") as usize;
        let classes = asked.min(context.most_streams.max(1));
        Ok(Self {
            counters: vec![0; context.geometry.logical_pages as usize],
            classes,
            left_out: asked - classes,
        })
    }

    /// The class of a counter, 0 for the coldest.
    #[inline]
    fn class(&self, counter: u32) -> StreamId {
        let class = counter.saturating_sub(1).checked_ilog(FACTOR).map_or(0, |tens| tens + 1);
        StreamId(class.min(self.classes as u32 - 1))
    }
}

impl Placement for Fadac {
    #[inline]
    fn features(&self) -> Features {
        Features { watches_deaths: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        self.classes
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    fn relocation_targets(&self) -> usize {
        2.min(self.classes)
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, _previous: Option<Previous>, _device: &Device) -> StreamId {
        let counter = &mut self.counters[lpn.index()];
        *counter = counter.saturating_add(1);
        let counter = *counter;
        self.class(counter)
    }

    #[inline]
    fn fetch(&self, operations: &[PageOp]) {
        let counters = operations.iter().map(|operation| self.counters[operation.lpn().index()]);
        std::hint::black_box(counters.fold(0, u32::wrapping_add));
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        _device: &Device,
        to: &mut [StreamId],
    ) {
        for (to, &lpn) in to.iter_mut().zip(survivors.lpns) {
            let counter = &mut self.counters[lpn as usize];
            *counter = counter.saturating_sub(1);
            let counter = *counter;
            *to = self.class(counter);
        }
    }

    #[inline]
    fn page_died(&mut self, death: Death, _device: &Device) {
        if death.is_trimmed {
            self.counters[death.lpn.index()] = 0;
        }
    }

    fn stream_label(&self, stream: StreamId) -> String {
        let below = u64::from(FACTOR).pow(stream.0);
        if stream.index() + 1 == self.classes {
            format!("class {} (hottest)", stream.0)
        } else {
            format!("class {} (up to {below})", stream.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use registry::Spec;
    use units::{EraseBlockId, Geometry, Lpn, StreamId};

    use super::{Fadac, INFO};
    use crate::{Context, Device, Placement as _, Survivors};

    #[test]
    fn counters_rise_with_writes_and_fall_with_relocations() {
        let geometry = Geometry::with_over_provisioning(4096, 16, 16 * 64, 0.25).expect("valid");
        let args = INFO.accept(&Spec::parse("fadac").expect("a spec")).expect("parameters");
        let mut fadac = Fadac::build(&args, &Context::new(geometry, 1)).expect("a policy");
        let device = Device::new(geometry, 6);
        let classes: Vec<u32> =
            (0..101).map(|_| fadac.host_stream(Lpn(7), None, &device).0).collect();
        let changes = [0, 1, 9, 10, 99, 100].map(|writes| classes[writes]);
        assert_eq!(changes, [0, 1, 1, 2, 2, 3], "up to 1, up to 10, up to 100");
        let mut to = [StreamId(0); 2];
        let survivors = Survivors {
            block: EraseBlockId(0),
            stream: StreamId(0),
            offsets: &[0, 1],
            lpns: &[7, 8],
        };
        fadac.relocation_streams(survivors, &device, &mut to);
        assert_eq!(to, [StreamId(2), StreamId(0)]);
        assert_eq!(fadac.counters[7..9], [100, 0], "never below zero");
    }
}
