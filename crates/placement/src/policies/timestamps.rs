//! Timestamps: groups by the mean interval of the last few writes of a page, with host writes apart
//! from relocated pages.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::{Lpn, PageOp, StreamId};

use crate::{BuildError, Context, Death, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "timestamps",
    aliases: &["tt"],
    summary: "groups of as many pages each by the mean interval of a page's last three writes; \
              relocated pages apart",
    source: "Lee & Haas, simulator of SSD-iq as extended for \"How to Write to SSDs\" \
             (github.com/LeeBohyun/ssdiq_plus, sim/TwoAGC.hpp, `tt`)",
    params: &[Param {
        name: "groups",
        kind: ParamKind::Integer { min: 1, max: 64 },
        default: "20",
        help: "groups of pages; each has one stream for the host's writes and one for relocated \
               pages",
    }],
};

/// The victim policy of its authors.
pub const VICTIM: &str = "greedy";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 12;

/// Number of times kept per page: the authors' list of four is cut as soon as it is full.
const TIMES: usize = 3;

/// Number of pages drawn when the groups are divided.
const DRAWN: u32 = 10_000;

/// Number of erase blocks that the host fills until the groups are divided again.
const BLOCKS: u64 = 10;

/// The interval of a page is the time since the oldest of its last three writes, over the number of
/// times kept: its mean interval, including the time since the last write, so that it grows while
/// the page is not written. The limits of the groups follow from 10,000 pages drawn at random, so
/// that each group has as many pages. A page that the host writes goes to the stream of its group,
/// and so does one that is relocated; each group has a stream for either. The group is determined
/// before the write is recorded. A page without a time goes to the group in the middle.
///
/// After the code of its authors, which two papers use: SSD-iq (Haas, Lee, Bonnet & Leis, PVLDB
/// 2025) and "How to Write to SSDs" (Lee, Ziegler & Leis, 2026). Their texts were not available, so
/// it has the name of the code: whether it is all of what a paper calls 2R with timestamps is not
/// known to us. Differences, with reasons:
///
/// - With small erase blocks, the groups are divided once for as many writes of the host as pages
///   are drawn, not for each ten erase blocks: else the draws would take longer than the writes.
/// - A cleaning takes Greedy's victim of all erase blocks. There it may need another victim, and
///   takes Greedy's of the same group.
/// - Where there is no room for all groups there are fewer.
///
/// State: 12 bytes per page.
#[derive(Debug)]
pub struct Timestamps {
    /// The clock at the last writes, the newest first; 0 for none.
    times: Vec<[u32; TIMES]>,
    /// Intervals at which the next group begins, ascending.
    limits: Vec<f32>,
    groups: usize,
    left_out: usize,
    random: Pcg64Mcg,
    drawn: Vec<f32>,
    next_division: u64,
    between: u64,
}

impl Timestamps {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let geometry = context.geometry;
        let asked = args.integer("groups") as usize;
        // Each group has two erase blocks open, and one in reserve for its survivors.
        let fit = (geometry.spare_blocks() as usize).saturating_sub(4) / 3;
        let groups = asked.min(fit).min(context.most_streams / 3).max(1);
        let drawn = DRAWN.min(geometry.logical_pages);
        let between = u64::from(drawn).max(BLOCKS * u64::from(geometry.pages_per_erase_block));
        Ok(Self {
            times: vec![[0; TIMES]; geometry.logical_pages as usize],
            limits: Vec::new(),
            groups,
            left_out: 2 * (asked - groups),
            random: Pcg64Mcg::seed_from_u64(context.seed ^ 0x5454),
            drawn: Vec::with_capacity(drawn as usize),
            next_division: between,
            between,
        })
    }

    /// Mean interval of a page, in host page writes; `None` if it has no time.
    #[inline]
    fn interval(&self, lpn: u32, now: u32) -> Option<f32> {
        let times = self.times[lpn as usize];
        let count = times.iter().take_while(|&&time| time != 0).count();
        let oldest = times[count.checked_sub(1)?];
        Some(now.wrapping_sub(oldest) as f32 / count as f32)
    }

    /// The group of a page, 0 for the hottest.
    #[inline]
    fn group(&self, lpn: u32, now: u32) -> usize {
        self.interval(lpn, now).map_or(self.groups / 2, |interval| {
            self.limits.partition_point(|&limit| limit < interval)
        })
    }

    /// Divides the pages into groups of the same size.
    #[cold]
    fn divide(&mut self, device: &Device) {
        self.next_division = device.clock + self.between;
        let pages = self.times.len() as u32;
        self.drawn.clear();
        for _ in 0..DRAWN.min(pages) {
            let lpn = self.random.random_range(0..pages);
            let interval = self.interval(lpn, device.clock as u32);
            self.drawn.extend(interval);
        }
        if self.drawn.is_empty() {
            return;
        }
        self.drawn.sort_unstable_by(f32::total_cmp);
        let limit = |group: usize| self.drawn[group * self.drawn.len() / self.groups];
        self.limits = (1..self.groups).map(limit).collect();
    }
}

impl Placement for Timestamps {
    #[inline]
    fn features(&self) -> Features {
        Features { watches_deaths: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        2 * self.groups
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    fn relocation_targets(&self) -> usize {
        self.groups
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, _previous: Option<Previous>, device: &Device) -> StreamId {
        if device.clock >= self.next_division {
            self.divide(device);
        }
        let now = (device.clock as u32).max(1);
        let group = self.group(lpn.0, now);
        let times = &mut self.times[lpn.index()];
        times.rotate_right(1);
        times[0] = now;
        StreamId(group as u32)
    }

    #[inline]
    fn fetch(&self, operations: &[PageOp]) {
        let times = operations.iter().map(|operation| self.times[operation.lpn().index()][0]);
        std::hint::black_box(times.fold(0, u32::wrapping_add));
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        for (to, &lpn) in to.iter_mut().zip(survivors.lpns) {
            *to = StreamId((self.groups + self.group(lpn, device.clock as u32)) as u32);
        }
    }

    #[inline]
    fn page_died(&mut self, death: Death, _device: &Device) {
        if death.is_trimmed {
            self.times[death.lpn.index()] = [0; TIMES];
        }
    }

    fn stream_label(&self, stream: StreamId) -> String {
        match stream.index().checked_sub(self.groups) {
            None => format!("group {}", stream.0),
            Some(group) => format!("group {group}, relocated"),
        }
    }
}

#[cfg(test)]
mod tests {
    use registry::Spec;
    use units::{EraseBlockId, Geometry, Lpn, StreamId};

    use super::{INFO, Timestamps};
    use crate::{Context, Device, Placement as _, Survivors};

    const PAGES: u32 = 1024;

    fn made(spec: &str) -> (Timestamps, Device) {
        let geometry = Geometry::with_over_provisioning(4096, 16, 1024, 0.25).expect("valid");
        let args = INFO.accept(&Spec::parse(spec).expect("a spec")).expect("parameters");
        let policy = Timestamps::build(&args, &Context::new(geometry, 1)).expect("a policy");
        (policy, Device::new(geometry, 8))
    }

    fn write(policy: &mut Timestamps, device: &mut Device, lpn: u32) -> u32 {
        device.clock += 1;
        policy.host_stream(Lpn(lpn), None, device).0
    }

    #[test]
    fn the_mean_interval_is_of_the_last_three_writes_and_grows() {
        let (mut policy, mut device) = made("timestamps");
        assert_eq!(policy.interval(7, 1), None);
        for clock in [100, 200, 210, 220, 230] {
            device.clock = clock;
            policy.host_stream(Lpn(7), None, &device);
        }
        assert_eq!(policy.interval(7, 240), Some(10.0), "210, 220 and 230");
        assert_eq!(policy.interval(7, 330), Some(40.0), "not written for long");
    }

    /// A quarter of the pages is written eight times as often as the others.
    #[test]
    fn hot_pages_are_in_other_groups_than_cold_ones() {
        let (mut policy, mut device) = made("timestamps(groups=4)");
        let mut counts = [[0u32; 4]; 2];
        for round in 0..40 {
            for lpn in 0..PAGES {
                let is_hot = lpn < PAGES / 4;
                if is_hot || (lpn + round).is_multiple_of(8) {
                    let group = write(&mut policy, &mut device, lpn);
                    if round >= 30 {
                        counts[usize::from(!is_hot)][group as usize] += 1;
                    }
                }
            }
        }
        let [hot, cold] = counts;
        assert_eq!(hot[2..], [0, 0], "{counts:?}");
        assert_eq!(cold[..2], [0, 0], "{counts:?}");
    }

    #[test]
    fn each_group_has_as_many_pages() {
        let (mut policy, mut device) = made("timestamps(groups=4)");
        device.clock = 10_000;
        for (lpn, times) in policy.times.iter_mut().enumerate() {
            times[0] = 1 + lpn as u32;
        }
        policy.divide(&device);
        for group in 0..4 {
            let is_in = |lpn: &u32| policy.group(*lpn, 10_000) == group;
            let pages = (0..PAGES).filter(is_in).count() as u32;
            assert!(pages.abs_diff(PAGES / 4) < PAGES / 10, "{pages} pages in group {group}");
        }
    }

    #[test]
    fn relocated_pages_are_apart() {
        let (mut policy, mut device) = made("timestamps(groups=4)");
        for lpn in (0..PAGES).chain(0..PAGES) {
            write(&mut policy, &mut device, lpn);
        }
        let mut to = [StreamId(0); 2];
        let survivors = Survivors {
            block: EraseBlockId(0),
            stream: StreamId(0),
            offsets: &[0, 1],
            lpns: &[0, PAGES - 1],
        };
        policy.relocation_streams(survivors, &device, &mut to);
        assert_eq!(to, [StreamId(7), StreamId(4)], "the oldest and the youngest");
    }
}
