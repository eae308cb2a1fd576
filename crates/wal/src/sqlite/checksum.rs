//! The checksum of a log: `walChecksumBytes` of `wal.c`.

/// Sums of a log so far.
pub type Sums = [u32; 2];

/// The sums after these bytes, whose number is a multiple of 8; words are as the log's magic says.
#[must_use]
pub fn after(sums: Sums, bytes: &[u8], is_big_endian: bool) -> Sums {
    let [mut first, mut second] = sums;
    for pair in bytes.chunks_exact(8) {
        let (a, b) = (word(pair, 0, is_big_endian), word(pair, 4, is_big_endian));
        first = first.wrapping_add(a).wrapping_add(second);
        second = second.wrapping_add(b).wrapping_add(first);
    }
    [first, second]
}

fn word(bytes: &[u8], at: usize, is_big_endian: bool) -> u32 {
    let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}

/// The number at a byte of a header, which is big-endian on every machine.
#[must_use]
pub fn number(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at, true)
}
