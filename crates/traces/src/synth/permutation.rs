//! A seeded pseudo-random bijection of the pages that needs no table.

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use units::PageOp;

use super::{Generator, Model, UpdateSet, write};

const ROUNDS: usize = 4;

/// A bijection of 0 ... pages - 1 onto itself.
///
/// Rounds of "add a key, multiply by an odd key, xor with the upper half shifted down", each of
/// which is a bijection of the smallest power of two that holds all pages; a result outside the
/// pages is sent through again until it is inside (cycle walking: J. Black, P. Rogaway, "Ciphers
/// with arbitrary finite domains", CT-RSA 2002), fewer than twice on average. Made to scatter
/// neighbours, not to keep secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation {
    pages: u32,
    mask: u32,
    shift: u32,
    keys: [(u32, u32); ROUNDS],
}

impl Permutation {
    /// The bijection of this many pages (1 to 2^31) for the seed.
    ///
    /// # Panics
    /// If there are no pages.
    #[must_use]
    pub fn new(pages: u32, seed: u64) -> Self {
        assert!(pages > 0, "a permutation needs a page");
        let bits = (u32::BITS - (pages - 1).leading_zeros()).max(1);
        // Not the generator's own stream, or the pages drawn would depend on where they are put.
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x9e37_79b9_7f4a_7c15);
        let keys = std::array::from_fn(|_| (rng.next_u64() as u32, rng.next_u64() as u32 | 1));
        Self { pages, mask: u32::MAX >> (u32::BITS - bits), shift: bits.div_ceil(2), keys }
    }

    /// Gives the place of this page.
    #[inline]
    #[must_use]
    pub fn apply(&self, page: u32) -> u32 {
        let mut page = self.rounds(page);
        while page >= self.pages {
            page = self.rounds(page);
        }
        page
    }

    #[inline]
    fn rounds(&self, page: u32) -> u32 {
        self.keys.iter().fold(page, |page, &(add, multiply)| {
            let mixed = page.wrapping_add(add).wrapping_mul(multiply) & self.mask;
            mixed ^ (mixed >> self.shift)
        })
    }
}

/// A model whose pages are scattered.
pub(super) struct Permuted {
    inner: Arc<dyn Model>,
    permutation: Permutation,
}

impl Permuted {
    pub(super) fn new(inner: Arc<dyn Model>, permutation: Permutation) -> Self {
        Self { inner, permutation }
    }

    fn scatter(&self, weights: &[f64]) -> Vec<f64> {
        let mut scattered = vec![0.0; weights.len()];
        for (page, &weight) in weights.iter().enumerate() {
            scattered[self.permutation.apply(page as u32) as usize] = weight;
        }
        scattered
    }
}

impl Model for Permuted {
    fn generator(self: Arc<Self>, rng: Pcg64Mcg) -> Box<dyn Generator> {
        Box::new(Scattering {
            inner: Arc::clone(&self.inner).generator(rng),
            permutation: self.permutation,
        })
    }

    fn weights(&self) -> Vec<f64> {
        self.scatter(&self.inner.weights())
    }

    fn sets(&self) -> Option<Vec<UpdateSet>> {
        self.inner.sets()
    }

    fn phases(&self) -> u64 {
        self.inner.phases()
    }

    fn phase_weights(&self, phase: u64) -> Vec<f64> {
        self.scatter(&self.inner.phase_weights(phase))
    }

    fn is_independent(&self) -> bool {
        self.inner.is_independent()
    }
}

struct Scattering {
    inner: Box<dyn Generator>,
    permutation: Permutation,
}

impl Generator for Scattering {
    fn fill(&mut self, buffer: &mut [PageOp]) {
        self.inner.fill(buffer);
        // A pass of its own without a branch, which the compiler can make wide; then the few that
        // fell outside.
        let permutation = self.permutation;
        let mut outside = 0u32;
        for op in buffer.iter_mut() {
            let page = permutation.rounds(op.lpn().0);
            outside |= u32::from(page >= permutation.pages);
            *op = PageOp(page);
        }
        if outside != 0 {
            for op in buffer.iter_mut().filter(|op| op.0 >= permutation.pages) {
                *op = write(permutation.apply(op.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_bijection(pages: u32, seed: u64) -> bool {
        let permutation = Permutation::new(pages, seed);
        let mut hit = vec![false; pages as usize];
        (0..pages).all(|page| !std::mem::replace(&mut hit[permutation.apply(page) as usize], true))
    }

    #[test]
    fn every_small_size_is_a_bijection() {
        for pages in 1..600 {
            assert!(is_bijection(pages, u64::from(pages)), "{pages} pages");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn larger_sizes_are_bijections(pages in 600u32..200_000, seed in any::<u64>()) {
            prop_assert!(is_bijection(pages, seed));
        }
    }

    /// The first 1 % of pages must spread over 64 stretches of the address space as evenly as
    /// chance would put them.
    #[test]
    fn hot_pages_are_scattered() {
        for (pages, seed) in [(1 << 20, 1), (1 << 20, 2), (1_000_003, 3), (3 << 18, 4)] {
            let permutation = Permutation::new(pages, seed);
            let hot = pages / 100;
            let mut bins = [0u32; 64];
            let mut neighbours = 0;
            for page in 0..hot {
                let place = permutation.apply(page);
                bins[(u64::from(place) * 64 / u64::from(pages)) as usize] += 1;
                neighbours += u32::from(permutation.apply(page + 1).abs_diff(place) == 1);
            }
            let expected = f64::from(hot) / 64.0;
            let chi_square: f64 =
                bins.iter().map(|&b| (f64::from(b) - expected).powi(2) / expected).sum();
            assert!(
                chi_square < 63.0 + 6.0 * 126f64.sqrt(),
                "{pages} pages: chi-square {chi_square} of 63 degrees of freedom"
            );
            assert!(neighbours < 5, "{neighbours} of {hot} neighbours stayed neighbours");
        }
    }
}
