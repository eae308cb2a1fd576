//! eNVy's hybrid: partitions of fixed size, FIFO within one, locality gathering between them.

use registry::{Args, Info, Param, ParamKind};
use units::{Lpn, StreamId};

use crate::{BuildError, Context, Device, Features, Placement, Previous, Pull, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "envy_hybrid",
    aliases: &["envy"],
    summary: "fixed partitions; pages go back to their own, and move to neighbours until cleaning \
              frequency x cost is equal",
    source: "Wu & Zwaenepoel, ASPLOS 1994, section 4 (hybrid); MULTILOG 2.1, 6.1",
    params: &[Param {
        name: "partitions",
        kind: ParamKind::Integer { min: 2, max: 64 },
        default: "8",
        help: "number of partitions",
    }],
};

/// The victim policy of its authors: FIFO within a partition.
pub const VICTIM: &str = "lru";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 0;

/// Erase blocks of a partition that must stay free of valid data, so that its cleaning always gains
/// something.
const SLACK_BLOCKS: u32 = 3;

/// Average number of cleanings of a partition over which its cleaning frequency is measured. A
/// frequency over thousands of them is balanced before pages have been sorted by heat, and pages
/// stop moving; over one or two it is mostly chance.
const CLEANINGS_REMEMBERED: f64 = 8.0;

/// A partition keeps the number of erase blocks that it was given at first. When one of its erase
/// blocks is cleaned, its product of cleaning frequency and cleaning cost u / (1 - u) is compared
/// with the average of all. Above it, the partition sheds survivors to neighbours whose product is
/// lower: the last in the erase block (written last, so hottest) to the hotter side, partition i -
/// 1, and the first to the colder side, i + 1. Below it, the partition pulls pages from neighbours
/// whose product is higher: the hottest from the colder side, the coldest from the hotter side.
/// Both keep hot pages at the low partitions.
///
/// So hot pages gather in the low partitions, whatever partition their addresses gave them at
/// first.
///
/// The published text does not say how many pages move at once, nor over which time cleaning
/// frequency is measured. Here the share of the survivors that are shed, or of the victim's freed
/// space that is filled with pulled pages, is the relative deviation of the product from the
/// average. A neighbour that is nearly full takes none, where eNVy can run out of space. On a
/// device with room for only one partition, this is plain FIFO.
#[derive(Debug)]
pub struct EnvyHybrid {
    partitions: u32,
    left_out: usize,
    quota: u32,
    cleanings: Vec<f64>,
    weight: f64,
}

impl EnvyHybrid {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// [`BuildError::TooSmall`] if a partition would be left without spare erase blocks.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let asked = args.integer("partitions") as u32;
        let geometry = context.geometry;
        let spare_blocks = geometry.spare_blocks();
        let fit = (spare_blocks.saturating_sub(2) / (SLACK_BLOCKS + 1)).max(1);
        let partitions = asked.min(fit).min(context.most_streams.clamp(1, 64) as u32);
        let needed = partitions * (SLACK_BLOCKS + 1) + 2;
        if spare_blocks < needed {
            return Err(BuildError::TooSmall {
                name: INFO.name.to_owned(),
                erase_blocks: geometry.erase_blocks,
                spare_blocks,
                needed,
            });
        }
        // Two erase blocks stay outside as the FTL's reserve.
        let quota = geometry.erase_blocks.saturating_sub(2) / partitions;
        Ok(Self {
            partitions,
            left_out: (asked - partitions) as usize,
            quota,
            cleanings: vec![0.0; partitions as usize],
            weight: 1.0,
        })
    }

    fn product(&self, partition: usize, device: &Device) -> f64 {
        let space = f64::from(self.quota) * f64::from(device.geometry.pages_per_erase_block);
        let used = f64::from(device.streams[partition].valid_pages) / space;
        self.cleanings[partition] * used / (1.0 - used).max(1e-3)
    }

    fn count_cleaning(&mut self, partition: usize) {
        self.weight *= 1.0 + 1.0 / (CLEANINGS_REMEMBERED * f64::from(self.partitions));
        self.cleanings[partition] += self.weight;
        if self.weight > 1e100 {
            self.cleanings.iter_mut().for_each(|rate| *rate /= self.weight);
            self.weight = 1.0;
        }
    }

    /// Number of pages that the partition can take in without losing its slack.
    fn room(&self, partition: usize, device: &Device) -> u32 {
        let limit = (self.quota - SLACK_BLOCKS) * device.geometry.pages_per_erase_block;
        limit.saturating_sub(device.streams[partition].valid_pages)
    }

    fn average(&self, device: &Device) -> f64 {
        let all = (0..self.partitions as usize).map(|partition| self.product(partition, device));
        all.sum::<f64>() / f64::from(self.partitions)
    }

    /// The neighbours on the hotter and on the colder side, each with its share of the pages that
    /// move: the further its product is below the partition's own (or above, for pulls), the
    /// larger.
    fn shares(&self, partition: usize, sheds: bool, device: &Device) -> [Option<(usize, f64)>; 2] {
        let own = self.product(partition, device);
        let neighbours = [
            partition.checked_sub(1),
            (partition + 1 < self.partitions as usize).then_some(partition + 1),
        ];
        let off = neighbours.map(|neighbour| {
            let above = self.product(neighbour?, device) - own;
            let off = if sheds { -above } else { above };
            (off > 0.0).then_some((neighbour?, off))
        });
        let sum: f64 = off.iter().flatten().map(|(_, off)| off).sum();
        off.map(|of_one| of_one.map(|(neighbour, off)| (neighbour, off / sum)))
    }

    /// Number of survivors that go to the hotter and to the colder neighbour.
    fn shed(&self, partition: usize, survivors: usize, device: &Device) -> [usize; 2] {
        let (own, average) = (self.product(partition, device), self.average(device));
        if own <= average {
            return [0, 0];
        }
        let moving = survivors as f64 * (own - average) / own;
        let [up, down] = self.shares(partition, true, device).map(|of_one| {
            of_one.map_or(0, |(neighbour, share)| {
                ((moving * share).round() as usize).min(self.room(neighbour, device) as usize)
            })
        });
        [up.min(survivors), down.min(survivors - up.min(survivors))]
    }
}

impl Placement for EnvyHybrid {
    #[inline]
    fn features(&self) -> Features {
        Features { per_stream: true, uses_previous: true, pulls: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        self.partitions as usize
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    fn relocation_targets(&self) -> usize {
        self.partitions.min(3) as usize
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        match previous {
            Some(previous) => previous.stream,
            None => StreamId(
                (u64::from(lpn.0) * u64::from(self.partitions)
                    / u64::from(device.geometry.logical_pages)) as u32,
            ),
        }
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        let partition = survivors.stream.index();
        self.count_cleaning(partition);
        let [up, down] = self.shed(partition, to.len(), device);
        to.fill(survivors.stream);
        to[..down].fill(StreamId(survivors.stream.0 + 1));
        let hottest = to.len() - up;
        to[hottest..].fill(StreamId(survivors.stream.0.wrapping_sub(1)));
    }

    fn pulls(&mut self, survivors: Survivors<'_>, device: &Device, pulls: &mut Vec<Pull>) {
        let partition = survivors.stream.index();
        let (own, average) = (self.product(partition, device), self.average(device));
        if own >= average {
            return;
        }
        let free = device.geometry.pages_per_erase_block - survivors.lpns.len() as u32;
        let room = free.min(self.room(partition, device));
        let moving = f64::from(room) * ((average - own) / own.max(f64::MIN_POSITIVE)).min(1.0);
        let shares = self.shares(partition, false, device);
        pulls.extend(shares.into_iter().flatten().map(|(neighbour, share)| Pull {
            from: StreamId(neighbour as u32),
            newest: neighbour > partition,
            pages: (moving * share).round() as u32,
            to: survivors.stream,
        }));
    }

    /// The partition itself once it has its share; before that, and after a transfer left another
    /// one with more, the largest one.
    fn donor(&mut self, needy: StreamId, device: &Device) -> usize {
        if device.stream(needy).erase_blocks >= self.quota {
            return needy.index();
        }
        let largest = (0..self.partitions)
            .max_by_key(|&p| (device.streams[p as usize].erase_blocks, self.partitions - p));
        largest.map_or(needy.index(), |p| p as usize)
    }

    fn stream_label(&self, stream: StreamId) -> String {
        format!("partition {}", stream.0)
    }
}
