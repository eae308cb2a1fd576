//! Mapping of the units of a stripe to drives.

/// A set of drives: a bit for each.
pub type Drives = u16;

/// The units of all stripes: one on each drive, at the same offset.
///
/// A column of a stripe's data lies on the drive of its number, or, if that has the stripe's
/// parity, on the last one. So moving a stripe's parity changes at most three drives, however many
/// there are.
#[derive(Clone, Debug)]
pub struct Places {
    drives: u32,
    unit: u64,
    /// Place of the parity, by the stripe's number modulo the length; empty without parity.
    pattern: Vec<u8>,
    /// The drive in each place of the shares, the oldest first.
    drive_in: Vec<u8>,
}

/// Number of stripes after which the pattern of parity repeats: shares are met to a thousandth.
const PATTERN: u32 = 1000;

impl Places {
    /// Units of `unit` bytes on this many drives, and the share of the parity in each place.
    pub fn new(drives: u32, unit: u32, parity: Option<&[f64]>) -> Self {
        let pattern = parity.map_or_else(Vec::new, pattern_of);
        let drive_in = (0..drives as u8).collect();
        Self { drives, unit: u64::from(unit), pattern, drive_in }
    }

    pub fn has_parity(&self) -> bool {
        !self.pattern.is_empty()
    }

    pub fn drives(&self) -> u32 {
        self.drives
    }

    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Number of data units in a stripe.
    #[inline]
    pub fn columns(&self) -> u32 {
        self.drives - u32::from(self.has_parity())
    }

    /// Bytes of data in a stripe.
    #[inline]
    pub fn stripe_bytes(&self) -> u64 {
        self.unit * u64::from(self.columns())
    }

    /// The drive in each place.
    pub fn drive_in(&self) -> &[u8] {
        &self.drive_in
    }

    /// Assigns drives to the places of the shares, the oldest first.
    pub fn set_drive_in(&mut self, drive_in: Vec<u8>) {
        self.drive_in = drive_in;
    }

    /// The drive with a stripe's parity; without parity, a number that no drive has.
    #[inline]
    pub fn parity_of(&self, stripe: u32) -> u32 {
        if self.pattern.is_empty() {
            return u32::MAX;
        }
        let place = self.pattern[(stripe % self.pattern.len() as u32) as usize];
        u32::from(self.drive_in[place as usize])
    }

    /// The drive of a column of a stripe whose parity is on `parity`.
    #[inline]
    pub fn drive_of(&self, column: u32, parity: u32) -> u32 {
        if column == parity { self.drives - 1 } else { column }
    }

    /// The column that a drive without the stripe's parity holds.
    #[inline]
    pub fn column_of(&self, drive: u32, parity: u32) -> u32 {
        debug_assert_ne!(drive, parity, "it holds parity");
        if drive == self.columns() { parity } else { drive }
    }

    /// Content of a drive in a stripe: the number of a column, or the number of columns for parity.
    pub fn content(&self, drive: u32, parity: u32) -> u32 {
        if drive == parity { self.columns() } else { self.column_of(drive, parity) }
    }

    /// All drives.
    pub fn all(&self) -> Drives {
        ((1_u32 << self.drives) - 1) as Drives
    }
}

/// The place of the parity in each of some stripes: up to any stripe, each place has had its share
/// of the stripes before, to within one stripe.
fn pattern_of(parity: &[f64]) -> Vec<u8> {
    let mut had = vec![0.0; parity.len()];
    let next = |stripe: u32| {
        let behind = |place: usize| parity[place] * f64::from(stripe + 1) - had[place];
        let first =
            |best: usize, place| if behind(place) > behind(best) + 1e-9 { place } else { best };
        let place = (1..parity.len()).fold(0, first);
        had[place] += 1.0;
        place as u8
    };
    (0..PATTERN).map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_has_its_shares_anywhere() {
        for shares in [[0.7, 0.1, 0.1, 0.1], [0.25; 4], [1.0, 0.0, 0.0, 0.0], [0.4, 0.3, 0.2, 0.1]]
        {
            let places = Places::new(4, 4096, Some(&shares));
            for from in [0, 17, 950, 5003] {
                let count =
                    |drive| (from..from + 400).filter(|&s| places.parity_of(s) == drive).count();
                for (drive, share) in shares.iter().enumerate() {
                    let found = count(drive as u32) as f64 / 400.0;
                    assert!((found - share).abs() < 0.01, "{found} on {drive} of {shares:?}");
                }
            }
        }
    }

    #[test]
    fn every_drive_holds_one_unit_of_a_stripe() {
        for parity in [Some([0.7, 0.1, 0.1, 0.1].as_slice()), None] {
            let places = Places::new(4, 4096, parity);
            for stripe in 0..200 {
                let q = places.parity_of(stripe);
                let mut seen: Drives = if parity.is_some() { 1 << q } else { 0 };
                for column in 0..places.columns() {
                    let drive = places.drive_of(column, q);
                    assert_eq!(seen & (1 << drive), 0, "stripe {stripe}, column {column}");
                    seen |= 1 << drive;
                    if parity.is_some() {
                        assert_eq!(places.column_of(drive, q), column);
                    }
                }
                assert_eq!(seen, places.all());
            }
        }
    }

    #[test]
    fn parity_that_moves_changes_three_drives_at_most() {
        let places = Places::new(6, 4096, Some(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]));
        for (a, b) in [(0, 1), (2, 5), (4, 0)] {
            let changed = (0..6).filter(|&d| places.content(d, a) != places.content(d, b)).count();
            assert!((2..=3).contains(&changed), "{changed} from {a} to {b}");
        }
    }
}
