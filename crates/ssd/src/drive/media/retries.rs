//! Reads that fail and are retried with other voltages: the more worn the erase block, the more
//! often.

use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Poisson};
use rand_pcg::Pcg64Mcg;
use units::EraseBlockId;

use super::slots::{CommandSlot, Entry};
use crate::drive::layout::Layout;
use crate::drive::profile::MediaConfig;
use crate::drive::time::Picos;

/// Model of the number of read retries.
///
/// The number of retries of a page is drawn from a Poisson distribution whose mean is a function of
/// the erases of its erase block, linear between the points of the profile. Measurements of chips
/// give such means by cycles, temperature and time since the program (Park et al., ASPLOS 2021);
/// the last two are left out, and the shape of the distribution is our choice. Each retry sends the
/// page, finds it bad, and senses it again: the decoder is in the controller.
#[derive(Debug)]
pub(super) struct Retries {
    /// Points of cycles and mean, by ascending cycles.
    points: Vec<(f64, f64)>,
    /// Number of cycles of each erase block.
    cycles: Vec<u32>,
    /// Retries of each command under way.
    by_slot: Vec<Tries>,
    random: Pcg64Mcg,
}

/// Retries of a read.
#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    /// Number of retries still to come.
    left: u32,
    /// Time of the retries of its group so far.
    time: Picos,
}

/// Most retries: after these the page is lost, or rebuilt from others.
const MOST: f64 = 40.0;

impl Retries {
    /// Makes the model; `None` if reads never fail.
    pub fn new(config: &MediaConfig, erase_blocks: u32) -> Option<Box<Self>> {
        let means = &config.read_retry_mean;
        (!means.is_empty()).then(|| {
            let points = config.read_retry_cycles.iter().copied().zip(means.iter().copied());
            Box::new(Self {
                points: points.collect(),
                cycles: vec![config.worn_cycles; erase_blocks as usize],
                by_slot: Vec::new(),
                random: Pcg64Mcg::seed_from_u64(0),
            })
        })
    }

    pub fn seed(&mut self, seed: u64) {
        self.random = Pcg64Mcg::seed_from_u64(seed ^ 0x7265_7472_6965_7300);
    }

    /// Adds erases to an erase block.
    pub fn wear(&mut self, block: EraseBlockId, erases: u32) {
        self.cycles[block.index()] = self.cycles[block.index()].saturating_add(erases);
    }

    /// The mean number of retries at this number of cycles.
    fn mean(&self, cycles: u32) -> f64 {
        let cycles = f64::from(cycles);
        let next = self.points.partition_point(|&(at, _)| at < cycles);
        let Some(&(right, above)) = self.points.get(next) else {
            return self.points.last().map_or(0.0, |&(_, mean)| mean);
        };
        let Some(&(left, below)) = next.checked_sub(1).and_then(|left| self.points.get(left))
        else {
            return above;
        };
        below + (above - below) * (cycles - left) / (right - left)
    }

    /// Draws the retries of a read that begins.
    pub fn begin(&mut self, slot: CommandSlot, entry: &Entry, layout: &Layout) {
        let mean = self.mean(self.cycles[layout.block_of(entry.command.page).index()]);
        let drawn = Poisson::new(mean).map_or(0.0, |poisson| poisson.sample(&mut self.random));
        if self.by_slot.len() <= slot as usize {
            self.by_slot.resize(slot as usize + 1, Tries::default());
        }
        self.by_slot[slot as usize] = Tries { left: drawn.min(MOST) as u32, time: 0 };
    }

    /// Returns true if a read that was sensed fails now.
    pub fn fails(&mut self, slot: CommandSlot) -> bool {
        let tries = &mut self.by_slot[slot as usize];
        let fails = tries.left > 0;
        tries.left -= u32::from(fails);
        fails
    }

    /// Adds the time of a retry, of a read itself or of its group.
    pub fn took(&mut self, slot: CommandSlot, time: Picos) {
        self.by_slot[slot as usize].time += time;
    }

    /// Time of the retries of a read that is done.
    pub fn time(&self, slot: CommandSlot) -> Picos {
        self.by_slot.get(slot as usize).map_or(0, |tries| tries.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_linear_between_points() {
        let retries = Retries {
            points: vec![(0.0, 0.0), (1000.0, 2.0), (3000.0, 6.0)],
            cycles: Vec::new(),
            by_slot: Vec::new(),
            random: Pcg64Mcg::seed_from_u64(0),
        };
        let means = [0, 500, 1000, 2000, 3000, 9000].map(|cycles| retries.mean(cycles));
        assert_eq!(means, [0.0, 1.0, 2.0, 4.0, 6.0, 6.0]);
    }
}
