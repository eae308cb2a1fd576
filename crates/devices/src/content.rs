//! Content of writes: bytes that no drive can compress or deduplicate, and that later runs
//! recognize as ours.
//!
//! Buffers are filled once with pseudo-random bytes. A drive that compresses gains nothing on them,
//! but one that looks for equal data would on the second write of the same buffer. So the first 16
//! bytes of every 512 are changed with each write: 8 bytes that no other write of this run has, and
//! 8 that follow from them ([`is_ours`]), by which later runs see that nobody's data is lost. Not
//! done: a drive that stores the difference of similar pages would see the other 496 bytes again,
//! once a buffer is used again.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bytes of the piece that carries one stamp: the smallest sector of any drive.
pub(crate) const PIECE: usize = 512;

/// Odd, so that it is a bijection; its bits are those of the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Tells our pieces from any other: drawn once.
const KEY: u64 = 0x6c1e_5f0b_93d8_a7e5;

/// Fills and stamps buffers.
#[derive(Debug)]
pub(crate) struct Content {
    random: Pcg64Mcg,
    next: u64,
}

impl Content {
    /// Content that differs from that of other seeds.
    pub fn new(seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let next = random.next_u64();
        Self { random, next }
    }

    /// Fills whole pieces with pseudo-random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.random.fill_bytes(bytes);
    }

    /// Makes every piece one that was never written before.
    #[inline]
    pub fn stamp(&mut self, bytes: &mut [u8]) {
        for piece in bytes.as_chunks_mut::<PIECE>().0 {
            self.next = self.next.wrapping_add(SPREAD);
            // The finaliser of splitmix64: neighbouring counts share no pattern.
            let mixed = (self.next ^ (self.next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let name = mixed ^ (mixed >> 29);
            piece[..8].copy_from_slice(&name.to_le_bytes());
            piece[8..16].copy_from_slice(&proof(name).to_le_bytes());
        }
    }
}

fn proof(name: u64) -> u64 {
    name.rotate_left(23).wrapping_mul(SPREAD) ^ KEY
}

/// Returns true if a piece was written by a [`Content`]: it is wrong with a chance of one in 2^64.
pub(crate) fn is_ours(piece: &[u8]) -> bool {
    let word = |at: usize| {
        piece.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
    };
    matches!((word(0), word(8)), (Some(name), Some(found)) if found == proof(name))
}

/// Returns true if each piece is either zero throughout or ours, so that nobody's data is in them.
pub(crate) fn is_nobodys(bytes: &[u8]) -> bool {
    bytes.chunks(PIECE).all(|piece| piece.iter().all(|&byte| byte == 0) || is_ours(piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamped_pieces_are_known_again_and_never_equal() {
        let mut content = Content::new(1);
        let mut bytes = vec![0; 4096];
        content.fill(&mut bytes);
        assert!(!is_nobodys(&bytes));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            content.stamp(&mut bytes);
            assert!(is_nobodys(&bytes));
            for piece in bytes.chunks(PIECE) {
                assert!(seen.insert(piece[..16].to_vec()));
            }
        }
        bytes[8] ^= 1;
        assert!(!is_nobodys(&bytes));
        assert!(is_nobodys(&[0; 4096]) && !is_nobodys(&[1; 512]) && !is_nobodys(&[0, 1]));
    }

    #[test]
    fn runs_of_other_seeds_write_other_bytes() {
        let piece = |seed| {
            let mut bytes = vec![0; PIECE];
            Content::new(seed).stamp(&mut bytes);
            bytes
        };
        assert_ne!(piece(1), piece(2));
        assert_eq!(piece(1), piece(1));
    }
}
