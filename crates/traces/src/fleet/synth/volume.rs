//! One volume of a synthetic fleet: what it is like, and its requests.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bytes of the pages that requests are of.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Shares of writes that volumes have, of 256 requests: most volumes of clouds are written more
/// than read (Li et al., IISWC 2020).
const WRITES: [u8; 8] = [253, 243, 230, 205, 180, 128, 77, 26];
/// Pages of a request, drawn with equal chances, of volumes of small, medium and large requests.
const SIZES: [[u8; 8]; 3] =
    [[1, 1, 1, 1, 1, 1, 2, 4], [1, 1, 2, 4, 4, 4, 8, 16], [4, 8, 16, 16, 32, 32, 64, 128]];
/// Volumes have at least this share of the largest footprint.
const LEAST_FOOTPRINT_SHIFT: u32 = 10;

/// Where the requests of a volume go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Zipf's law: the page of rank `x` of `n` is `n * u^k`, `u` uniform, so that its density goes
    /// as `x^(1/k - 1)`. The exponent is 1 - 1/k: 1/2, 3/4, 7/8 or 15/16 for `k = 2^squarings`.
    Zipf { squarings: u32 },
    /// Every page alike.
    Uniform,
    /// A share of the requests, of 256, goes to a part of the pages, 1 of `2^shift`.
    HotAndCold { hot_requests: u8, hot_shift: u32 },
    /// One page behind the other, and again from the start: as a log.
    Loop,
}

/// A volume. What it is like depends on the seed and on its number alone.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    pub(super) pattern: Pattern,
    /// Pages, a power of two: places are scattered by an odd factor.
    pub(super) pages: u64,
    /// Share of its requests that write, of 256.
    pub(super) writes: u8,
    /// Requests come in bursts of 1 to this many.
    pub(super) longest_burst: u64,
    /// How far its rate swings over a day, of 256, and the hour, of 24, at which it is highest.
    pub(super) swing: u8,
    pub(super) busiest_hour: u8,
    sizes: [u8; 8],
    factor: u64,
    /// Where a loop is.
    next: u64,
}

impl Volume {
    pub(super) fn draw(seed: u64, number: u32, largest_pages: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ (u64::from(number) << 32) ^ 0x5eed);
        let mut of = |count: u64| ((u128::from(rng.next_u64()) * u128::from(count)) >> 64) as u64;
        let pattern = match of(8) {
            0..=2 => Pattern::Zipf { squarings: 1 + of(4) as u32 },
            3 => Pattern::Uniform,
            4 | 5 => Pattern::HotAndCold {
                hot_requests: 192 + of(56) as u8,
                hot_shift: 2 + of(4) as u32,
            },
            _ => Pattern::Loop,
        };
        let smaller = of(u64::from(LEAST_FOOTPRINT_SHIFT) + 1);
        // A log takes little room: it goes round.
        let smaller = if pattern == Pattern::Loop { smaller.max(5) } else { smaller };
        let class = if pattern == Pattern::Loop { 1 + of(2) } else { of(2) };
        Self {
            pattern,
            pages: (largest_pages >> smaller).max(1),
            writes: WRITES[of(8) as usize],
            longest_burst: 1 << of(5),
            swing: of(231) as u8,
            busiest_hour: of(24) as u8,
            sizes: SIZES[class as usize],
            factor: of(1 << 40) | 1,
            next: 0,
        }
    }

    /// Requests of a burst on average.
    pub(super) fn mean_burst(&self) -> f64 {
        (1 + self.longest_burst) as f64 / 2.0
    }

    /// Its rate at a time of day, in seconds, over its mean rate: a triangle.
    pub(super) fn rate(&self, second_of_day: u64) -> f64 {
        const DAY: u64 = 86_400;
        let apart = (second_of_day + DAY - u64::from(self.busiest_hour) * 3600) % DAY;
        let near = apart.min(DAY - apart) as f64 / (DAY / 2) as f64;
        1.0 + f64::from(self.swing) / 256.0 * (1.0 - 2.0 * near)
    }

    /// Draws a request: whether it writes, its first page, and its pages.
    #[inline]
    pub(super) fn request(&mut self, rng: &mut Pcg64Mcg) -> (bool, u64, u64) {
        let random = rng.next_u64();
        let is_write = (random as u8) < self.writes;
        let size = u64::from(self.sizes[(random >> 8) as usize & 7]).min(self.pages);
        let page = match self.pattern {
            // What reads a log follows the one that writes it.
            Pattern::Loop if is_write => {
                let page = self.next;
                self.next += size;
                if self.next >= self.pages {
                    self.next = 0;
                }
                page
            }
            Pattern::Loop => self.next.saturating_sub((random >> 11) % (self.pages / 4 + 1)),
            Pattern::Uniform => self.scattered(scaled(rng.next_u64(), self.pages)),
            Pattern::Zipf { squarings } => {
                let share = (0..squarings).fold(rng.next_u64(), |share, _| scaled(share, share));
                self.scattered(scaled(share, self.pages))
            }
            Pattern::HotAndCold { hot_requests, hot_shift } => {
                let is_hot = ((random >> 16) as u8) < hot_requests;
                let pages = if is_hot { (self.pages >> hot_shift).max(1) } else { self.pages };
                self.scattered(scaled(rng.next_u64(), pages))
            }
        };
        // Large requests lie on multiples of their size, as file systems place them.
        let page = if self.pattern == Pattern::Loop { page } else { page & !(size - 1) };
        (is_write, page.min(self.pages - size), size)
    }

    /// The place of a rank: pages alike in frequency are no neighbours.
    #[inline]
    fn scattered(&self, rank: u64) -> u64 {
        rank.wrapping_mul(self.factor) & (self.pages - 1)
    }
}

/// A number below `bound` from 64 random bits.
#[inline]
fn scaled(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}
