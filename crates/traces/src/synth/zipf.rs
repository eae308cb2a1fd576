//! The k-th most popular page is updated in proportion to 1 / k^s.

use std::sync::Arc;

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use registry::{Info, Param, ParamKind};
use units::PageOp;

use super::alias::Alias;
use super::{Entry, Generator, Model, PAGES, UPDATES, below, permute, threshold, write};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "zipf",
        aliases: &["zipfian"],
        summary: "the k-th most popular page in proportion to 1 / k^s",
        source: "MULTILOG section 6.2 (s = 1)",
        params: &[
            Param {
                name: "s",
                kind: ParamKind::Number { min: 0.0, max: 64.0 },
                default: "0.99",
                help: "exponent; 0 is uniform",
            },
            PAGES,
            UPDATES,
            permute("yes"),
        ],
    },
    build: |inputs| Ok(Box::new(Zipf::new(inputs.pages, inputs.args.number("s")))),
};

/// Ranks 1 ... 64 stand alone; above, each doubling of the rank is cut into 32 strips of equal
/// width.
const SINGLE: u32 = 64;
const STRIPS_PER_OCTAVE: u32 = 32;

/// An exact sampler by rejection, with a table of a few hundred strips however many pages there
/// are.
///
/// Ranks are cut into strips, and a strip is drawn in proportion to its width times the mass of its
/// first rank, which is its most likely one; a rank in it is drawn uniformly and kept with
/// probability mass(rank) / mass(first). Within a strip masses differ by a factor of at most
/// (33/32)^s, so that at s = 1 98 % of draws lie below the mass of the strip's last rank as well
/// and are kept without computing a power. Rejection-inversion (W. Hörmann, G. Derflinger, ACM
/// TOMACS 6(3), 1996) and rejection under one hyperbola (`rand_distr::Zipf`) are as exact but take
/// two powers or more for every draw. Probabilities are exact but for the rounding of 64-bit
/// arithmetic.
struct Zipf {
    pages: u32,
    exponent: f64,
    alias: Alias,
    strips: Vec<Strip>,
}

#[derive(Clone, Copy)]
struct Strip {
    first: u32,
    width: u32,
    /// Of 64 random bits, those below it are below the acceptance of every rank in the strip.
    surely_below: u64,
}

impl Zipf {
    fn new(pages: u32, exponent: f64) -> Self {
        let mut strips = Vec::new();
        let mut masses = Vec::new();
        let mut first = 1u32;
        while first <= pages {
            let octave = 1 << first.ilog2();
            let width =
                if first < SINGLE { 1 } else { octave / STRIPS_PER_OCTAVE }.min(pages - first + 1);
            let last = f64::from(first + (width - 1));
            let surely_below = if width == 1 {
                u64::MAX
            } else {
                threshold((f64::from(first) / last).powf(exponent))
            };
            strips.push(Strip { first, width, surely_below });
            masses.push(f64::from(width) * f64::from(first).powf(-exponent));
            first += width;
        }
        Self { pages, exponent, alias: Alias::new(&masses), strips }
    }

    /// A rank, 1 ... pages.
    #[inline]
    fn draw(&self, rng: &mut Pcg64Mcg) -> u32 {
        loop {
            let strip = self.strips[self.alias.pick(rng.next_u64())];
            let (offset, random) = below(rng, strip.width);
            let rank = strip.first + offset;
            // A strip of one rank accepts everything: `<=` because its threshold is the largest
            // number.
            if random <= strip.surely_below || random < self.acceptance(strip, rank) {
                return rank;
            }
        }
    }

    #[cold]
    fn acceptance(&self, strip: Strip, rank: u32) -> u64 {
        threshold((f64::from(strip.first) / f64::from(rank)).powf(self.exponent))
    }
}

impl Model for Zipf {
    fn generator(self: Arc<Self>, rng: Pcg64Mcg) -> Box<dyn Generator> {
        Box::new(Draw { zipf: self, rng })
    }

    fn weights(&self) -> Vec<f64> {
        let mut weights: Vec<f64> =
            (1..=self.pages).map(|rank| f64::from(rank).powf(-self.exponent)).collect();
        // Smallest first, so that they are not lost beside the large ones.
        let total: f64 = weights.iter().rev().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        weights
    }
}

struct Draw {
    zipf: Arc<Zipf>,
    rng: Pcg64Mcg,
}

impl Generator for Draw {
    fn fill(&mut self, buffer: &mut [PageOp]) {
        let zipf = &*self.zipf;
        for op in buffer {
            *op = write(zipf.draw(&mut self.rng) - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probabilities that the table implies for each rank, computed without drawing, are those
    /// of the distribution.
    #[test]
    fn the_table_implies_the_exact_distribution() {
        for (pages, exponent) in [
            (1, 1.0),
            (2, 0.0),
            (63, 1.0),
            (64, 0.5),
            (65, 3.0),
            (1000, 0.0),
            (4097, 1.0),
            (100_000, 0.99),
            (5000, 40.0),
        ] {
            let zipf = Zipf::new(pages, exponent);
            let mut implied = vec![0.0; pages as usize];
            for (strip, probability) in zipf.strips.iter().zip(zipf.alias.probabilities()) {
                for rank in strip.first..strip.first + strip.width {
                    let accepted = (f64::from(strip.first) / f64::from(rank)).powf(exponent);
                    assert!(strip.surely_below as f64 / 2f64.powi(64) <= accepted * (1.0 + 1e-12));
                    implied[rank as usize - 1] = probability / f64::from(strip.width) * accepted;
                }
            }
            let total: f64 = implied.iter().sum();
            for (rank, (implied, exact)) in implied.iter().zip(zipf.weights()).enumerate() {
                assert!(
                    (implied / total - exact).abs() <= 1e-9 * exact + 1e-17,
                    "rank {rank} of {pages}, s = {exponent}"
                );
            }
        }
    }
}
