//! The non-uniform distribution of TPC-E.

use std::sync::Arc;

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use registry::{Info, Param, ParamKind, SpecError};
use units::PageOp;

use super::{Entry, Generator, Inputs, Model, PAGES, UPDATES, bad_value, below, permute, write};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "tpce",
        aliases: &["tpc_e", "nurand"],
        summary: "TPC-E's non-uniform random numbers, taken as page numbers",
        source: "TPC-E, EGen CRandom::NURnd with the A and s of Trade-Update frame 1; MULTILOG \
                 section 6.2",
        params: &[
            Param {
                name: "a",
                kind: ParamKind::Integer { min: 0, max: (1 << 31) - 1 },
                default: "65535",
                help: "A: 2^k - 1; k bits of the number are 1 with probability 3/4 instead of 1/2",
            },
            Param {
                name: "s",
                kind: ParamKind::Integer { min: 0, max: 31 },
                default: "7",
                help: "number of low bits that stay uniform",
            },
            PAGES,
            UPDATES,
            permute("no"),
        ],
    },
    build,
};

fn build(inputs: &Inputs<'_>) -> Result<Box<dyn Model>, SpecError> {
    let a = inputs.args.integer("a");
    if !(a + 1).is_power_of_two() {
        return Err(bad_value(&ENTRY.info, "a", &a.to_string(), "2^k - 1, such as 65535"));
    }
    Ok(Box::new(TpcE { pages: inputs.pages, mask: a << inputs.args.integer("s") }))
}

/// EGen, the code that is part of the TPC-E specification, draws a non-uniform number of P ... Q as
///
/// ```text
/// NURnd(P, Q, A, s) = ((rnd(P, Q) | (rnd(0, A) << s)) % (Q - P + 1)) + P
/// ```
///
/// with a bitwise or and A = 2^k - 1, so that each of k bits is 1 with probability 3/4.
/// Trade-Update and Trade-Lookup draw the trades that they touch this way, with P = 1, Q = the
/// number of trades, A = 65535 and s = 7.
///
/// MULTILOG section 6.2 names "the TPC-E non-uniform distribution" without parameters. What is
/// taken here: that function with those constants and P = 1, Q = pages; the result less 1 is the
/// page. Rows are numbered in the order of insertion, so that the bits of a trade's number above
/// those that choose the row within a page are the bits of the page's number; drawing the page
/// directly keeps the shape (frequencies from 1 to 3^k, binomially many of each), and MULTILOG's
/// 100 GB of 4 kB pages (2^24.6) are close to the trades of the smallest database that TPC-E allows
/// (86 million, 2^26.4). Below 2^23 pages the topmost of the k bits fall out through the modulo,
/// and the distribution is less skewed. The skew so lies between uniform and Zipf 1, as MULTILOG
/// says of it: at 25 Mi pages the hottest 1 % take 39 % of the updates, under Zipf 1 74 %.
///
/// TPC-E has another non-uniform choice, that of the customer. Its frequencies range over a factor
/// of about 6 within each 1000 customers; MULTILOG says that on "TPC-E" separation by frequency
/// pays a lot, which that choice would not give.
struct TpcE {
    pages: u32,
    mask: u64,
}

impl Model for TpcE {
    fn generator(self: Arc<Self>, rng: Pcg64Mcg) -> Box<dyn Generator> {
        Box::new(Draw { model: self, rng })
    }

    /// Exact: the distribution of the or is built bit by bit.
    fn weights(&self) -> Vec<f64> {
        let pages = self.pages as usize;
        let bits = u32::BITS - self.pages.leading_zeros();
        let mut low = vec![0.0; 1usize << bits];
        low[1..=pages].fill(1.0 / f64::from(self.pages));
        for bit in (0..bits).filter(|bit| self.mask >> bit & 1 == 1) {
            let half = 1usize << bit;
            for pair in low.chunks_exact_mut(2 * half) {
                let (zero, one) = pair.split_at_mut(half);
                for (zero, one) in zero.iter_mut().zip(one) {
                    *zero /= 2.0;
                    *one += *zero;
                }
            }
        }
        let mut weights = vec![0.0; pages];
        for chunk in low.chunks(pages) {
            weights.iter_mut().zip(chunk).for_each(|(weight, part)| *weight += part);
        }
        // Bits above those of any number drawn from P ... Q: the or adds them, with probability 1/2
        // each.
        for bit in (bits..u64::BITS).filter(|bit| self.mask >> bit & 1 == 1) {
            let shift = ((1u64 << bit) % u64::from(self.pages)) as usize;
            let moved: Vec<f64> =
                (0..pages).map(|page| weights[(page + pages - shift) % pages]).collect();
            weights
                .iter_mut()
                .zip(moved)
                .for_each(|(weight, moved)| *weight = f64::midpoint(*weight, moved));
        }
        weights
    }
}

struct Draw {
    model: Arc<TpcE>,
    rng: Pcg64Mcg,
}

impl Generator for Draw {
    fn fill(&mut self, buffer: &mut [PageOp]) {
        let TpcE { pages, mask } = *self.model;
        for op in buffer {
            let number = u64::from(below(&mut self.rng, pages).0) + 1;
            *op = write(((number | (self.rng.next_u64() & mask)) % u64::from(pages)) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts every pair of the two uniform numbers.
    fn enumerated(pages: u32, a: u64, s: u32) -> Vec<f64> {
        let mut weights = vec![0.0; pages as usize];
        for number in 1..=u64::from(pages) {
            for extra in 0..=a {
                weights[((number | extra << s) % u64::from(pages)) as usize] +=
                    1.0 / (f64::from(pages) * (a + 1) as f64);
            }
        }
        weights
    }

    #[test]
    fn weights_equal_the_enumeration_of_all_pairs() {
        for (pages, a, s) in [
            (1, 7, 2),
            (2, 1, 0),
            (1000, 63, 2),
            (1024, 255, 3),
            (777, 1023, 4),
            (5, 1023, 7),
            (300, 0, 5),
            (1023, 255, 12),
        ] {
            let exact = TpcE { pages, mask: a << s }.weights();
            for (page, (exact, counted)) in exact.iter().zip(enumerated(pages, a, s)).enumerate() {
                assert!(
                    (exact - counted).abs() < 1e-12,
                    "page {page} of {pages}, A = {a}, s = {s}: {exact} and {counted}"
                );
            }
        }
    }
}
