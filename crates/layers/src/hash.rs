//! Checksums of pages and of structures on the device: XXH3-64, folded to 4 bytes where there is
//! one for each page.

use bytes::Buf;
use twox_hash::XxHash3_64;

/// Folded checksum of a page that has none.
pub const UNKNOWN: u32 = 0;

/// Gives the checksum of a page of data, or of a structure.
#[inline]
pub fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// Folds a checksum to 4 bytes for tables; it is never [`UNKNOWN`].
#[inline]
pub const fn folded(check: u64) -> u32 {
    let folded = (check ^ (check >> 32)) as u32;
    if folded == UNKNOWN { 1 } else { folded }
}

/// Writes the checksum of all that follows into the first 8 bytes.
pub fn seal(seed: u64, bytes: &mut [u8]) {
    let sum = checksum(seed, &bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
}

/// Returns true if the first 8 bytes are the checksum of the rest.
pub fn is_sealed(seed: u64, bytes: &[u8]) -> bool {
    bytes.len() > 8 && (&bytes[..8]).get_u64_le() == checksum(seed, &bytes[8..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_checksum_is_never_the_word_for_none() {
        for check in [0, 5, u64::MAX, 1 << 32, 0x1234_5678_1234_5678] {
            assert_ne!(folded(check), UNKNOWN);
        }
        assert_ne!(folded(1), folded(2));
    }
}
