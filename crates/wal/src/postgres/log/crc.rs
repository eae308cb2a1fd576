//! CRC-32C (Castagnoli), with which PostgreSQL protects its records; eight bytes at a time.

const POLYNOMIAL: u32 = 0x82f6_3b78;

static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// Goes on with a checksum, which begins as `!0` and whose complement is the result.
#[must_use]
pub fn crc32c(mut crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let all = u64::from_le_bytes(*word) ^ u64::from(crc);
        let at = |byte: usize| TABLES[7 - byte][(all >> (8 * byte)) as usize & 0xff];
        crc = at(0) ^ at(1) ^ at(2) ^ at(3) ^ at(4) ^ at(5) ^ at(6) ^ at(7);
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][((crc ^ u32::from(*byte)) & 0xff) as usize];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_standard_comes_out() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
        let (first, rest) = b"123456789".split_at(3);
        assert_eq!(!crc32c(crc32c(!0, first), rest), 0xe306_9283);
    }
}
