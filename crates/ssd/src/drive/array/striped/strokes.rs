//! Rows of a stripe that a request touches, and the reads and writes that they need.

use super::places::{Drives, Places};
use crate::drive::array::WritePolicy;

/// Rows (bytes of each unit) in which a request touches the same columns. A request that is longer
/// than a unit has up to three of them in a stripe, as it begins and ends within units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stroke {
    /// First byte of each unit.
    pub from: u32,
    /// Byte after the last of each unit.
    pub to: u32,
    /// Drives of the data touched.
    pub data: Drives,
}

/// Most strokes of a request in a stripe.
pub const MOST_STROKES: usize = 3;

/// The strokes of the bytes `start..end` of a stripe's data, and their number.
pub fn strokes_of(
    places: &Places,
    parity: u32,
    start: u64,
    end: u64,
) -> ([Stroke; MOST_STROKES], u8) {
    let unit = places.unit();
    let (first, last) = ((start / unit) as u32, ((end - 1) / unit) as u32);
    let (begin, ending) = ((start % unit) as u32, ((end - 1) % unit) as u32 + 1);
    let bit = |column: u32| -> Drives { 1 << places.drive_of(column, parity) };
    let mut strokes = [Stroke::default(); MOST_STROKES];
    if first == last {
        strokes[0] = Stroke { from: begin, to: ending, data: bit(first) };
        return (strokes, 1);
    }
    let between: Drives = (first + 1..last).map(bit).sum();
    let (low, high) = (begin.min(ending), begin.max(ending));
    let middle = if begin < ending { bit(first) | bit(last) } else { 0 };
    let rows = [
        (0, low, between | bit(last)),
        (low, high, between | middle),
        (high, unit as u32, between | bit(first)),
    ];
    let mut count = 0;
    for (from, to, data) in rows {
        if from < to && data != 0 {
            strokes[count] = Stroke { from, to, data };
            count += 1;
        }
    }
    (strokes, count as u8)
}

/// Way of writing a stroke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without reading: all data of the rows is new, or there is no parity.
    Full,
    /// Reads old data and old parity.
    ReadModify,
    /// Reads the other data of the rows.
    Reconstruct,
    /// The parity is missing.
    WithoutParity,
}

/// Drives to be read and then written for a write. If there are reads, parity must be computed: it
/// is the exclusive or of all data read and all new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The way of writing.
    pub way: Way,
    /// Drives that are read before anything is written.
    pub reads: Drives,
    /// Drives that are written.
    pub writes: Drives,
}

/// Plans a write of the data on the drives `data`, where `parity` is the drive of the parity, if
/// there is any, and the drives of `missing` (one at most) are absent.
pub fn plan(
    data: Drives,
    parity: Option<u32>,
    all: Drives,
    missing: Drives,
    policy: WritePolicy,
) -> Plan {
    let Some(parity) = parity else {
        return Plan { way: Way::Full, reads: 0, writes: data };
    };
    let parity: Drives = 1 << parity;
    let others = all & !parity & !data;
    if parity & missing != 0 {
        return Plan { way: Way::WithoutParity, reads: 0, writes: data };
    }
    let writes = (data | parity) & !missing;
    if others == 0 {
        return Plan { way: Way::Full, reads: 0, writes };
    }
    let modify = Plan { way: Way::ReadModify, reads: data | parity, writes };
    let reconstruct = Plan { way: Way::Reconstruct, reads: others, writes };
    // Missing data can be read neither as old data nor as other data of the rows.
    if data & missing != 0 {
        return reconstruct;
    }
    let is_less = reconstruct.reads.count_ones() < modify.reads.count_ones();
    if others & missing == 0 && is_less && policy == WritePolicy::Fewest {
        return reconstruct;
    }
    modify
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four columns of 10 bytes, parity on the last of five drives.
    fn strokes(start: u64, end: u64) -> Vec<(u32, u32, Drives)> {
        let places = Places::new(5, 10, Some(&[0.0, 0.0, 0.0, 0.0, 1.0]));
        let (strokes, count) = strokes_of(&places, 4, start, end);
        strokes[..count as usize].iter().map(|s| (s.from, s.to, s.data)).collect()
    }

    #[test]
    fn strokes_cover_each_byte_once() {
        assert_eq!(strokes(3, 7), [(3, 7, 0b1)]);
        assert_eq!(strokes(0, 40), [(0, 10, 0b1111)]);
        assert_eq!(strokes(7, 13), [(0, 3, 0b10), (7, 10, 0b1)]);
        assert_eq!(strokes(3, 17), [(0, 3, 0b10), (3, 7, 0b11), (7, 10, 0b1)]);
        assert_eq!(strokes(7, 33), [(0, 3, 0b1110), (3, 7, 0b110), (7, 10, 0b111)]);
        for start in 0..40 {
            for end in start + 1..=40 {
                let mut seen = [0; 40];
                for (from, to, data) in strokes(start, end) {
                    for column in (0..4).filter(|column| data & (1 << column) != 0) {
                        (from..to).for_each(|row| seen[(10 * column + row) as usize] += 1);
                    }
                }
                for (byte, &times) in seen.iter().enumerate() {
                    let is_asked = (start..end).contains(&(byte as u64));
                    assert_eq!(times, u8::from(is_asked), "byte {byte} of {start}..{end}");
                }
            }
        }
    }

    #[test]
    fn a_write_reads_no_more_than_it_has_to() {
        let (all, parity, fewest) = (0b11111, Some(4), WritePolicy::Fewest);
        let way = |data, missing| plan(data, parity, all, missing, fewest);
        let one = way(0b1, 0);
        assert_eq!((one.way, one.reads, one.writes), (Way::ReadModify, 0b10001, 0b10001));
        let three = way(0b111, 0);
        assert_eq!((three.way, three.reads, three.writes), (Way::Reconstruct, 0b1000, 0b10111));
        assert_eq!(way(0b1111, 0), Plan { way: Way::Full, reads: 0, writes: 0b11111 });
        let kept = plan(0b111, parity, all, 0, WritePolicy::ReadModify);
        assert_eq!(kept.way, Way::ReadModify);
        assert_eq!(plan(0b11, None, 0b1111, 0, fewest).writes, 0b11);
    }

    #[test]
    fn a_write_goes_round_the_drive_that_is_missing() {
        let (all, parity, fewest) = (0b11111, Some(4), WritePolicy::Fewest);
        let way = |data, missing| plan(data, parity, all, missing, fewest);
        let unwritten = way(0b1, 0b1);
        assert_eq!(unwritten, Plan { way: Way::Reconstruct, reads: 0b1110, writes: 0b10000 });
        assert_eq!(way(0b1, 0b10000), Plan { way: Way::WithoutParity, reads: 0, writes: 0b1 });
        let beside = way(0b111, 0b1000);
        assert_eq!((beside.way, beside.reads), (Way::ReadModify, 0b10111));
        assert_eq!(way(0b1111, 0b1).writes, 0b11110);
    }
}
