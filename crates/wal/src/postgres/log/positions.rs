//! Places in the log: with the headers of its pages (LSN), and without (position).

use std::fmt;
use std::str::FromStr;

/// Bytes of a page of data, and of the log. Servers that were built with others are refused.
pub const PAGE_BYTES: usize = 8192;
/// Bytes of the header of a page.
pub const SHORT_HEADER: u64 = 24;
/// Bytes of the header of the first page of a segment.
pub const LONG_HEADER: u64 = 40;
const PAGE: u64 = PAGE_BYTES as u64;
const IN_PAGE: u64 = PAGE - SHORT_HEADER;

/// A byte of the log, counted with all headers: `16/B374D848`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

impl FromStr for Lsn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = |text: &str| u32::from_str_radix(text, 16).ok();
        let found = text.split_once('/').and_then(|(high, low)| part(high).zip(part(low)));
        let (high, low) =
            found.ok_or_else(|| format!("`{text}` is no place in a log, such as 16/B374D848"))?;
        Ok(Self(u64::from(high) << 32 | u64::from(low)))
    }
}

/// Changes places with headers into such without, and back; `XLogBytePosToRecPtr` and its likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions {
    /// Bytes of a segment.
    pub segment_bytes: u64,
}

impl Positions {
    /// Bytes of a segment without headers.
    #[must_use]
    pub const fn in_segment(self) -> u64 {
        self.segment_bytes / PAGE * IN_PAGE - (LONG_HEADER - SHORT_HEADER)
    }

    /// The place of the first byte behind a position: behind the header, if a page begins there.
    #[must_use]
    pub const fn lsn(self, position: u64) -> Lsn {
        let (segment, rest) = (position / self.in_segment(), position % self.in_segment());
        let rest = rest + LONG_HEADER - SHORT_HEADER;
        let (page, within) = (rest / IN_PAGE, rest % IN_PAGE);
        Lsn(segment * self.segment_bytes + page * PAGE + within + SHORT_HEADER)
    }

    /// The place behind the last byte before a position: the end of a page is no other page's yet.
    #[must_use]
    pub const fn end_lsn(self, position: u64) -> Lsn {
        let lsn = self.lsn(position).0;
        let in_page = lsn % PAGE;
        let is_first = lsn % self.segment_bytes < PAGE;
        let begins = in_page == if is_first { LONG_HEADER } else { SHORT_HEADER };
        Lsn(if begins { lsn - in_page } else { lsn })
    }

    /// The position of a place; one within a header is that behind it.
    #[must_use]
    pub const fn position(self, lsn: Lsn) -> u64 {
        let (segment, rest) = (lsn.0 / self.segment_bytes, lsn.0 % self.segment_bytes);
        let (page, within) = (rest / PAGE, rest % PAGE);
        let header = if page == 0 { LONG_HEADER } else { SHORT_HEADER };
        let before = if page == 0 { 0 } else { page * IN_PAGE - (LONG_HEADER - SHORT_HEADER) };
        segment * self.in_segment() + before + within.saturating_sub(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_positions_are_each_others() {
        let positions = Positions { segment_bytes: 1 << 20 };
        // By counting each byte that is none of a header.
        let mut position = 0;
        for lsn in 0..(2 << 20) {
            let header = if lsn % (1 << 20) < PAGE { LONG_HEADER } else { SHORT_HEADER };
            assert_eq!(positions.position(Lsn(lsn)), position, "{lsn}");
            if lsn % PAGE >= header {
                assert_eq!(positions.lsn(position), Lsn(lsn));
                let begins = lsn % PAGE == header;
                let end = if begins { lsn - header } else { lsn };
                assert_eq!(positions.end_lsn(position), Lsn(end));
                position += 1;
            }
        }
        assert_eq!(position, 2 * positions.in_segment());
    }

    #[test]
    fn a_place_is_written_as_the_server_writes_it() {
        let lsn = Lsn(0x16_b374_d848);
        assert_eq!(lsn.to_string(), "16/B374D848");
        assert_eq!("16/B374D848".parse(), Ok(lsn));
        assert!("16-B3".parse::<Lsn>().is_err());
    }
}
