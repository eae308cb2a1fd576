//! Power cuts of an emulated drive: they take data that was acknowledged and not yet durable.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustc_hash::{FxHashMap, FxHashSet};

/// A write or trim that a cut may take back.
struct Change {
    id: u32,
    offset: u64,
    /// Content before the change.
    before: Box<[u8]>,
    state: ChangeState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeState {
    UnderWay,
    /// Replied to, and how many flushes had come by then.
    Acknowledged(u64),
    Durable,
}

/// The changes that a cut may take back, in the order in which they came.
pub struct Volatile {
    changes: Vec<Change>,
    /// Flushes that have come.
    flushes: u64,
    /// Flushes under way, each with the number of those before it.
    under_way: FxHashMap<u32, u64>,
    /// Writes after which the power is cut.
    writes_left: u64,
    /// True if all that is acknowledged is durable: the drive has capacitors.
    is_protected: bool,
    dice: Pcg64Mcg,
}

/// Ranges of the drive that are taken back: their offsets, and the bytes that are there again.
pub type Lost = Vec<(u64, Box<[u8]>)>;

impl Volatile {
    pub fn new(cut_after: u64, is_protected: bool, seed: u64) -> Self {
        Self {
            changes: Vec::new(),
            flushes: 0,
            under_way: FxHashMap::default(),
            writes_left: cut_after,
            is_protected,
            dice: Pcg64Mcg::seed_from_u64(seed ^ cut_after),
        }
    }

    /// Takes a write or trim that came. Returns true if the power is cut now.
    pub fn changes(&mut self, id: u32, offset: u64, before: &[u8]) -> bool {
        let state = ChangeState::UnderWay;
        self.changes.push(Change { id, offset, before: before.into(), state });
        self.writes_left -= 1;
        self.writes_left == 0
    }

    /// A flush came.
    pub fn flushes(&mut self, id: u32) {
        self.under_way.insert(id, self.flushes);
        self.flushes += 1;
    }

    /// A command was replied to.
    pub fn replied(&mut self, id: u32, is_fua: bool) {
        if let Some(before) = self.under_way.remove(&id) {
            for change in &mut self.changes {
                if matches!(change.state, ChangeState::Acknowledged(when) if when <= before) {
                    change.state = ChangeState::Durable;
                }
            }
        }
        let state = if is_fua || self.is_protected {
            ChangeState::Durable
        } else {
            ChangeState::Acknowledged(self.flushes)
        };
        let under_way =
            |change: &&mut Change| change.id == id && change.state == ChangeState::UnderWay;
        if let Some(change) = self.changes.iter_mut().find(under_way) {
            change.state = state;
        }
        // What nothing volatile came before cannot be taken back.
        let durable = self.changes.iter().take_while(|one| one.state == ChangeState::Durable);
        let count = durable.count();
        self.changes.drain(..count);
    }

    /// The power is cut: each sector goes back over none, some or all of its volatile changes, but
    /// not over a durable one.
    pub fn cut(&mut self, sector_bytes: u32) -> Lost {
        let (sector, mut lost) = (sector_bytes as usize, Lost::new());
        let mut stays: FxHashSet<u64> = FxHashSet::default();
        for change in self.changes.iter().rev() {
            for (number, before) in change.before.chunks(sector).enumerate() {
                let at = change.offset + (number * sector) as u64;
                if stays.contains(&at) {
                    continue;
                }
                if change.state == ChangeState::Durable || self.dice.random_bool(0.5) {
                    stays.insert(at);
                } else {
                    lost.push((at, before.into()));
                }
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives all states of two sectors of one byte after a cut, over 64 seeds.
    fn outcomes(work: impl Fn(&mut Volatile, &mut [u8; 2])) -> FxHashSet<[u8; 2]> {
        (0..64)
            .map(|seed| {
                let mut bytes = [0, 0];
                let mut volatile = Volatile::new(u64::MAX, false, seed);
                work(&mut volatile, &mut bytes);
                for (at, before) in volatile.cut(1) {
                    bytes[at as usize] = before[0];
                }
                bytes
            })
            .collect()
    }

    fn write(volatile: &mut Volatile, bytes: &mut [u8; 2], id: u32, at: usize, byte: u8) {
        volatile.changes(id, at as u64, &[bytes[at]]);
        bytes[at] = byte;
    }

    #[test]
    fn a_cut_takes_any_of_what_was_not_flushed_and_nothing_else() {
        let found = outcomes(|volatile, bytes| {
            write(volatile, bytes, 1, 0, 1);
            volatile.replied(1, false);
            volatile.flushes(2);
            // Replied to after the flush came: not covered.
            write(volatile, bytes, 3, 1, 1);
            volatile.replied(3, false);
            volatile.replied(2, false);
            write(volatile, bytes, 4, 0, 2);
            write(volatile, bytes, 5, 0, 3);
            volatile.replied(5, false);
        });
        let expected = [[1, 0], [1, 1], [2, 0], [2, 1], [3, 0], [3, 1]];
        assert_eq!(found, expected.into_iter().collect());
    }

    #[test]
    fn what_was_written_with_fua_stays_and_what_is_older_does_not_come_back() {
        let found = outcomes(|volatile, bytes| {
            write(volatile, bytes, 1, 0, 1);
            write(volatile, bytes, 2, 0, 2);
            volatile.replied(2, true);
        });
        assert_eq!(found, [[2, 0]].into_iter().collect());
    }

    #[test]
    fn capacitors_keep_what_was_acknowledged() {
        let mut volatile = Volatile::new(2, true, 1);
        assert!(!volatile.changes(1, 0, &[0]));
        volatile.replied(1, false);
        assert!(volatile.changes(2, 1, &[0]), "two writes have come");
        assert!(volatile.cut(1).iter().all(|(at, _)| *at == 1));
    }
}
