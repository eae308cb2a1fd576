//! eNVy's hybrid: partitions of fixed size, FIFO within one, locality gathering between them.

use registry::{Args, Info, Param, ParamKind};
use units::{Lpn, StreamId};

use crate::{BuildError, Context, Device, Placement, Previous, Survivors};

/// What the registry knows.
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

/// Erase blocks of a partition that must stay free of valid data, so that its cleaning always gains
/// something.
const SLACK_BLOCKS: u32 = 3;

/// The weight of the past in the cleaning rates, for each cleaning of any partition.
const DECAY_CLEANINGS: f64 = 4096.0;

/// A partition keeps the number of erase blocks that it was given at first. When one of its erase
/// blocks is cleaned and its product of cleaning frequency and cleaning cost u / (1 - u) is above
/// the average of all, it sheds survivors to neighbours whose product is lower: the last in the
/// erase block (written last, so hottest) to the hotter side, partition i - 1, and the first to the
/// colder side, i + 1.
///
/// So it gains where heat goes with addresses, from which pages get their first partition, and
/// little over FIFO where it does not.
///
/// eNVy also pulls pages into partitions below the average; here they only receive what their
/// neighbours shed, since the survivors of a victim are all that a cleaning may move. How many
/// pages move at once is not in the published text: the share of survivors is the share by which
/// the product exceeds the average. A neighbour that is nearly full takes none, where eNVy can run
/// out of space.
#[derive(Debug)]
pub struct EnvyHybrid {
    partitions: u32,
    quota: u32,
    cleanings: Vec<f64>,
    weight: f64,
}

impl EnvyHybrid {
    /// The policy for this device.
    ///
    /// # Errors
    /// [`BuildError::TooSmall`] if a partition would be left without spare erase blocks.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let partitions = args.integer("partitions") as u32;
        let geometry = context.geometry;
        let spare_blocks = geometry.spare_blocks();
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
        let quota = (geometry.erase_blocks - 2) / partitions;
        Ok(Self { partitions, quota, cleanings: vec![0.0; partitions as usize], weight: 1.0 })
    }

    fn product(&self, partition: usize, device: &Device) -> f64 {
        let space = f64::from(self.quota) * f64::from(device.geometry.pages_per_erase_block);
        let used = f64::from(device.streams[partition].valid_pages) / space;
        self.cleanings[partition] * used / (1.0 - used).max(1e-3)
    }

    fn count_cleaning(&mut self, partition: usize) {
        self.weight *= 1.0 + 1.0 / DECAY_CLEANINGS;
        self.cleanings[partition] += self.weight;
        if self.weight > 1e100 {
            self.cleanings.iter_mut().for_each(|rate| *rate /= self.weight);
            self.weight = 1.0;
        }
    }

    /// Pages that the partition can take in without losing its slack.
    fn room(&self, partition: usize, device: &Device) -> u32 {
        let limit = (self.quota - SLACK_BLOCKS) * device.geometry.pages_per_erase_block;
        limit.saturating_sub(device.streams[partition].valid_pages)
    }

    /// How many survivors go to the hotter and to the colder neighbour.
    fn shed(&self, partition: usize, survivors: usize, device: &Device) -> (usize, usize) {
        let own = self.product(partition, device);
        let last = self.partitions as usize - 1;
        let average =
            (0..=last).map(|p| self.product(p, device)).sum::<f64>() / f64::from(self.partitions);
        if own <= average {
            return (0, 0);
        }
        let moving = survivors as f64 * (own - average) / own;
        let lack = |neighbour: usize| (own - self.product(neighbour, device)).max(0.0);
        let hotter = if partition > 0 { lack(partition - 1) } else { 0.0 };
        let colder = if partition < last { lack(partition + 1) } else { 0.0 };
        if hotter + colder <= 0.0 {
            return (0, 0);
        }
        let share = |part: f64| (moving * part / (hotter + colder)).round() as usize;
        let up = if partition > 0 {
            share(hotter).min(self.room(partition - 1, device) as usize)
        } else {
            0
        };
        let down = if partition < last {
            share(colder).min(self.room(partition + 1, device) as usize)
        } else {
            0
        };
        (up.min(survivors), down.min(survivors - up.min(survivors)))
    }
}

impl Placement for EnvyHybrid {
    const PER_STREAM: bool = true;
    const USES_PREVIOUS: bool = true;

    fn streams(&self) -> usize {
        self.partitions as usize
    }

    fn relocation_targets(&self) -> usize {
        3
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
        let (up, down) = self.shed(partition, to.len(), device);
        to.fill(survivors.stream);
        to[..down].fill(StreamId(survivors.stream.0 + 1));
        let hottest = to.len() - up;
        to[hottest..].fill(StreamId(survivors.stream.0.wrapping_sub(1)));
    }

    /// The partition itself once it has its share; before that, and after a transfer left another
    /// one with more, the largest.
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
