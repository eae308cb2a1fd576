//! Facts of the device below, for layers: measured by the prober, or told by hand.

use units::Nanos;

/// Facts of a device's writes. An unknown fact is none, and a layer that needs it names the
/// parameter that would tell it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Size of a write beyond which larger ones bring little more throughput: converted writes are
    /// aligned to it.
    pub write_bytes: Option<u32>,
    /// Bytes of an erase block, or of the reclaim unit that the drive writes across its dies.
    pub erase_block_bytes: Option<u64>,
    /// Largest area in which random writes are about as fast as sequential ones (STABLEBUFFER 1:
    /// "focused area").
    pub focused_area_bytes: Option<u64>,
    /// Mean times of a page's write in each pattern (STABLEBUFFER 3.2: `T_x`).
    pub times: Option<PatternTimes>,
    /// Pages from which on an instance of a pattern is worth flushing (STABLEBUFFER 3.2:
    /// `theta_x`).
    pub thresholds: Option<Thresholds>,
    /// Time of a write by its length, sequential ones: pieces by ascending length (SCHEDULER 4.3.4,
    /// eq. 4.3).
    pub sequential_write: Vec<EquationPiece>,
    /// The same of random ones (SCHEDULER eq. 4.4).
    pub random_write: Vec<EquationPiece>,
    /// First byte of a second device, which lies behind the first one's last byte
    /// ([`block::Spanned`]): the area of the lowest layer that can have it there
    /// ([`crate::Aside`]), and nothing else.
    pub staging_offset: Option<u64>,
}

/// Mean time of a page's write, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PatternTimes {
    /// In a sequential run.
    pub sequential_ns: f64,
    /// In one of several sequential runs that take turns.
    pub partitioned_ns: f64,
    /// At random within the focused area.
    pub focused_ns: f64,
}

/// Least pages of an instance that is worth flushing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Sequential writes.
    pub sequential_pages: f64,
    /// Partitioned writes.
    pub partitioned_pages: f64,
    /// Focused writes.
    pub focused_pages: f64,
}

/// A performance equation on a range of lengths: `time = intercept + slope * length`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EquationPiece {
    /// Longest length to which it applies, in bytes; the last piece applies beyond, too.
    pub to_bytes: u64,
    /// Nanoseconds of a write whatever its length.
    pub intercept_ns: f64,
    /// Nanoseconds a byte.
    pub slope_ns: f64,
}

/// Times as long as a sequential write from which on one of streams that take turns is dear: a
/// commit whose record lies elsewhere takes two turns, and one beside its pages two more pages.
const DEAR_TURN: f64 = 4.0;

impl Facts {
    /// Returns true if writes that take turns between places are known to cost far more than writes
    /// in one place: a card that keeps one erase block at hand merges at each turn.
    #[must_use]
    pub fn are_turns_dear(&self) -> bool {
        self.times.is_some_and(|times| times.partitioned_ns >= DEAR_TURN * times.sequential_ns)
    }

    /// Gives the time of one write of this length by the equations; none if there are none.
    #[must_use]
    pub fn write_time(pieces: &[EquationPiece], length: u64) -> Option<Nanos> {
        let piece = pieces.iter().find(|piece| length <= piece.to_bytes).or(pieces.last())?;
        Some((piece.intercept_ns + piece.slope_ns * length as f64).max(0.0).round() as Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SCHEDULER eq. 4.4, in sectors of 512 bytes and microseconds.
    #[test]
    fn equations_apply_piece_by_piece() {
        let piece = |sectors: u64, us: f64, slope: f64| EquationPiece {
            to_bytes: sectors * 512,
            intercept_ns: us * 1000.0,
            slope_ns: slope * 1000.0 / 512.0,
        };
        let random =
            [piece(128, 7298.8, 0.0), piece(1024, 7043.9, 4.6076), piece(2048, 7083.6, 4.4768)];
        assert_eq!(Facts::write_time(&random, 4096), Some(7_298_800));
        assert_eq!(Facts::write_time(&random, 512 * 1024), Some(11_762_082));
        assert_eq!(Facts::write_time(&random, 512 * 4096), Some(25_420_573));
        assert_eq!(Facts::write_time(&[], 512), None);
    }
}
