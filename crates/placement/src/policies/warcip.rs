//! WARCIP: clusters of host writes by the interval between two writes of a page, which are split
//! and merged as the load asks for.

use registry::{Args, Info, Param, ParamKind};
use units::{Lpn, PageOp, StreamId};

use crate::{BuildError, Context, Death, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "warcip",
    aliases: &[],
    summary: "clusters of host writes by rewrite interval, split and merged as the load asks for; \
              relocated pages apart, and colder at their next write",
    source: "Yang, Pei & Yang, SYSTOR 2019, as SepBIT's authors implement it (Wang et al., FAST \
             2022; github.com/fallfish/sepbit, Warcip.java)",
    params: &[Param {
        name: "clusters",
        kind: ParamKind::Integer { min: 1, max: 63 },
        default: "5",
        help: "clusters at most, each of its own stream; relocated pages have one more",
    }],
};

/// Cost-Benefit by the age of the segment, which SepBIT's authors use for all placements; the
/// victim policy of WARCIP's authors is not known to us.
pub const VICTIM: &str = "cost_benefit(age=closed)";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 8;

/// Number of erase blocks that the host fills between two checks for splits and merges.
const PERIOD: u32 = 256;

const RELOCATED: StreamId = StreamId(0);

/// Record of a page: the clock of its last write, and its age at its relocation since, if any.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    written_at: u32,
    penalty: u32,
}

/// Pages of about the same rewrite interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cluster {
    stream: StreamId,
    /// Mean interval of its pages in the open erase block, in host page writes.
    centre: f64,
    /// Number of its pages in the open erase block.
    pages: u32,
    /// Number of page writes in this period.
    writes: u32,
}

/// The interval of a page is the time since its last write; if it was relocated since, its age at
/// that time is added, so that it counts as colder than it seems ("penalty"). The page goes to the
/// cluster with the nearest centre, and that centre moves: it is the mean interval of the pages in
/// the cluster's open erase block. Relocated pages go to one stream.
///
/// Whenever the host has filled 256 erase blocks, a cluster that took more than half of the writes
/// is split, if there is a stream left: a new one is put in the middle between it and the one
/// before. Otherwise the first cluster that filled less than one erase block is merged with its
/// neighbours when its open erase block is full.
///
/// The paper was not available; this follows SepBIT's authors in the order of clusters, the numbers
/// and the rules. A page without a last version has the interval 0 there and here.
///
/// State: 8 bytes per page.
#[derive(Debug)]
pub struct Warcip {
    pages: Vec<Page>,
    /// Clusters in order: a new one is put before the one that is split.
    clusters: Vec<Cluster>,
    unused: Vec<StreamId>,
    streams: usize,
    pages_per_erase_block: u32,
    filled: u32,
    to_merge: Option<StreamId>,
    left_out: usize,
}

impl Warcip {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let asked = args.integer("clusters") as usize;
        let clusters = asked.min(context.most_streams.saturating_sub(1).max(1));
        let all = (1..=clusters as u32).map(StreamId);
        let empty = |stream| Cluster { stream, centre: 0.0, pages: 0, writes: 0 };
        Ok(Self {
            pages: vec![Page::default(); context.geometry.logical_pages as usize],
            clusters: all.map(empty).collect(),
            unused: Vec::new(),
            streams: clusters + 1,
            pages_per_erase_block: context.geometry.pages_per_erase_block,
            filled: 0,
            to_merge: None,
            left_out: asked - clusters,
        })
    }

    /// Adds a page to the cluster whose centre is nearest, the last one among equals.
    fn add(&mut self, interval: f64) -> StreamId {
        let distance = |cluster: &Cluster| (cluster.centre - interval).abs();
        let all = self.clusters.iter().enumerate().rev();
        let (nearest, _) = all
            .min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)))
            .expect("the last cluster is never merged");
        let cluster = &mut self.clusters[nearest];
        let pages = f64::from(cluster.pages);
        cluster.centre = (cluster.centre * pages + interval) / (pages + 1.0);
        cluster.pages += 1;
        cluster.writes += 1;
        let stream = cluster.stream;
        if cluster.pages == self.pages_per_erase_block {
            cluster.pages = 0;
            self.fill(nearest);
        }
        stream
    }

    /// Records that the open erase block of a cluster is full.
    fn fill(&mut self, number: usize) {
        if self.to_merge == Some(self.clusters[number].stream) {
            self.to_merge = None;
            if self.clusters.len() > 1 {
                self.unused.push(self.clusters.remove(number).stream);
            }
        }
        self.filled += 1;
        if self.filled == PERIOD {
            self.filled = 0;
            self.split_or_merge();
            self.clusters.iter_mut().for_each(|cluster| cluster.writes = 0);
        }
    }

    fn split_or_merge(&mut self) {
        let all: u32 = self.clusters.iter().map(|cluster| cluster.writes).sum();
        let large = self.clusters.iter().position(|cluster| cluster.writes > all / 2);
        if let Some(large) = large
            && let Some(stream) = self.unused.pop()
        {
            let before = if large == 0 { 0.0 } else { self.clusters[large - 1].centre };
            let centre = f64::midpoint(before, self.clusters[large].centre);
            self.clusters.insert(large, Cluster { stream, centre, pages: 0, writes: 0 });
        } else if self.to_merge.is_none() {
            let is_small = |cluster: &&Cluster| cluster.writes < self.pages_per_erase_block;
            self.to_merge = self.clusters.iter().find(is_small).map(|cluster| cluster.stream);
        }
    }
}

impl Placement for Warcip {
    #[inline]
    fn features(&self) -> Features {
        Features { uses_previous: true, watches_deaths: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        self.streams
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        let now = device.clock as u32;
        let page =
            std::mem::replace(&mut self.pages[lpn.index()], Page { written_at: now, penalty: 0 });
        let lived = now.wrapping_sub(page.written_at);
        let interval = match previous {
            Some(_) => f64::from(lived) + f64::from(page.penalty),
            None => 0.0,
        };
        self.add(interval)
    }

    #[inline]
    fn fetch(&self, operations: &[PageOp]) {
        let times =
            operations.iter().map(|operation| self.pages[operation.lpn().index()].written_at);
        std::hint::black_box(times.fold(0, u32::wrapping_add));
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        let now = device.clock as u32;
        for &lpn in survivors.lpns {
            let page = &mut self.pages[lpn as usize];
            page.penalty = now.wrapping_sub(page.written_at);
        }
        to.fill(RELOCATED);
    }

    #[inline]
    fn page_died(&mut self, death: Death, _device: &Device) {
        if death.is_trimmed {
            self.pages[death.lpn.index()] = Page::default();
        }
    }

    fn stream_label(&self, stream: StreamId) -> String {
        match self.clusters.iter().find(|cluster| cluster.stream == stream) {
            _ if stream == RELOCATED => "relocated".to_owned(),
            Some(cluster) => format!("interval {:.0}", cluster.centre),
            None => format!("cluster {} (merged)", stream.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use registry::Spec;
    use units::{EraseBlockId, Geometry, Lpn, StreamId};

    use super::{INFO, PERIOD, Page, Warcip};
    use crate::{Context, Device, Placement as _, Previous, Survivors};

    const PAGES: u32 = 16;

    fn made() -> (Warcip, Device) {
        let geometry = Geometry::with_over_provisioning(4096, PAGES, 16 * 64, 0.25).expect("valid");
        let args = INFO.accept(&Spec::parse("warcip").expect("a spec")).expect("parameters");
        let warcip = Warcip::build(&args, &Context::new(geometry, 1)).expect("a policy");
        (warcip, Device::new(geometry, 6))
    }

    fn set_centres(warcip: &mut Warcip, centres: [f64; 5]) {
        for (cluster, centre) in warcip.clusters.iter_mut().zip(centres) {
            (cluster.centre, cluster.pages) = (centre, 1);
        }
    }

    /// Relocation adds the age to the next interval, once.
    #[test]
    fn a_page_that_was_relocated_counts_as_colder() {
        let (mut warcip, mut device) = made();
        let previous = Some(Previous { block: EraseBlockId(0), stream: StreamId(1) });
        set_centres(&mut warcip, [0.0, 1000.0, 1500.0, 4000.0, 9000.0]);
        warcip.pages[7] = Page { written_at: 0, penalty: 0 };
        device.clock = 500;
        let (offsets, lpns) = (&[0][..], &[7][..]);
        let survivors = Survivors { block: EraseBlockId(0), stream: StreamId(1), offsets, lpns };
        let mut to = [StreamId(9)];
        warcip.relocation_streams(survivors, &device, &mut to);
        assert_eq!(to, [StreamId(0)], "relocated pages are apart");
        device.clock = 1000;
        assert_eq!(warcip.host_stream(Lpn(7), previous, &device), StreamId(3), "1000 and 500");
        assert_eq!(warcip.clusters[2].centre, 1500.0);
        device.clock = 2000;
        assert_eq!(warcip.host_stream(Lpn(7), previous, &device), StreamId(2), "1000");
    }

    #[test]
    fn a_centre_is_the_mean_of_its_open_erase_block() {
        let (mut warcip, _) = made();
        set_centres(&mut warcip, [0.0, 1000.0, 1500.0, 4000.0, 9000.0]);
        assert_eq!(warcip.add(4300.0), StreamId(4));
        assert_eq!(warcip.clusters[3].centre, 4150.0);
        (2..PAGES).for_each(|_| assert_eq!(warcip.add(4150.0), StreamId(4)));
        assert_eq!(warcip.clusters[3].pages, 0, "it is full");
        warcip.add(4800.0);
        assert_eq!(warcip.clusters[3].centre, 4800.0, "a new erase block is opened");
    }

    /// In the first period one cluster gets all writes: it cannot be split, so one without writes
    /// is to be merged. When that is full its stream is free, and the next period splits with it.
    #[test]
    fn clusters_are_merged_and_split() {
        let (mut warcip, _) = made();
        let centres = [0.0, 1000.0, 1500.0, 4000.0, 9000.0];
        set_centres(&mut warcip, centres);
        let fill = |warcip: &mut Warcip, interval: f64, blocks: u32| {
            for _ in 0..blocks * PAGES {
                warcip.add(interval);
            }
        };
        fill(&mut warcip, 4000.0, PERIOD + 1);
        assert_eq!(warcip.to_merge, Some(StreamId(1)), "the first without an erase block");
        fill(&mut warcip, 0.0, 1);
        assert_eq!((warcip.clusters.len(), warcip.to_merge), (4, None));
        fill(&mut warcip, 4000.0, PERIOD);
        let streams: Vec<u32> = warcip.clusters.iter().map(|cluster| cluster.stream.0).collect();
        assert_eq!(streams, [2, 3, 1, 4, 5], "before the large one");
        assert_eq!(warcip.clusters[2].centre, f64::midpoint(1500.0, 4000.0));
    }
}
