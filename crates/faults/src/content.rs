//! Content that tests write: bytes that tell which write they are of and for which sector, so that
//! a read shows what it found.

use twox_hash::XxHash3_64;

/// Content of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(u64);

const FOREIGN: u64 = 1 << 63;
const MAGIC: u64 = 0x7461_675f_6674_6c66;

impl Value {
    /// Content of zeros.
    pub const ZEROS: Self = Self(0);

    /// Gives the content that the write of this number, from 1 on, leaves in a sector.
    ///
    /// # Panics
    /// If it is 0, or has more than 63 bits.
    #[must_use]
    pub fn of_write(number: u64) -> Self {
        assert!(number > 0 && number < FOREIGN, "a write's number is from 1 on and has 63 bits");
        Self(number)
    }

    /// Gives the number of the write; none for zeros and for foreign content.
    #[must_use]
    pub const fn write(self) -> Option<u64> {
        if self.0 > 0 && self.0 < FOREIGN { Some(self.0) } else { None }
    }

    /// Fills a sector. Its last `tail` bytes stay zero.
    pub fn fill(self, sector: u64, tail: usize, bytes: &mut [u8]) {
        let used = bytes.len() - tail;
        for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
            let value =
                if index * 8 >= used { 0 } else { Self::word(self.0, sector, index as u64) };
            word.copy_from_slice(&value.to_le_bytes());
        }
    }

    const fn word(number: u64, sector: u64, index: u64) -> u64 {
        match index {
            0 => MAGIC,
            1 => number,
            2 => sector,
            _ => (number ^ (sector << 32)).wrapping_add(index).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// Reads the content of a sector: the number of its write if it is whole and of this sector,
    /// zeros, or something foreign.
    #[must_use]
    pub fn read(sector: u64, bytes: &[u8]) -> Self {
        let word = |index: usize| {
            u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().expect("eight bytes"))
        };
        let number = word(1);
        let words = bytes.len() / 8;
        if word(0) == MAGIC && word(2) == sector && number > 0 && number < FOREIGN {
            let like = |index: usize| Self::word(number, sector, index as u64);
            let used = (3..words).find(|&index| word(index) != like(index)).unwrap_or(words);
            if used >= words / 2 && (used..words).all(|index| word(index) == 0) {
                return Self(number);
            }
        } else if word(0) == 0 && bytes.iter().all(|byte| *byte == 0) {
            return Self::ZEROS;
        }
        Self(XxHash3_64::oneshot(bytes) | FOREIGN)
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.write() {
            Some(number) => write!(to, "write {number}"),
            None if *self == Self::ZEROS => write!(to, "zeros"),
            None => write!(to, "something that no write gave this sector ({:#018x})", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_tells_its_write_and_nothing_else_does() {
        let mut bytes = vec![0; 512];
        assert_eq!(Value::read(9, &bytes), Value::ZEROS);
        for tail in [0, 64] {
            Value::of_write(77).fill(9, tail, &mut bytes);
            assert_eq!(Value::read(9, &bytes).write(), Some(77));
            assert_eq!(Value::read(8, &bytes).write(), None, "of another sector");
            for at in [3, 12, 20, 40, 300, 440] {
                bytes[at] ^= 4;
                assert_eq!(Value::read(9, &bytes).write(), None, "byte {at}");
                bytes[at] ^= 4;
            }
        }
    }
}
