//! Free units of a volume, and the units of a file.

use std::collections::BTreeMap;

/// Consecutive units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First unit, counted from the beginning of files.
    pub start: u32,
    /// Number of units; at least one.
    pub units: u32,
}

impl Extent {
    /// Gives the unit behind it.
    pub const fn end(self) -> u64 {
        self.start as u64 + self.units as u64
    }
}

/// Free units, by the first one; neighbours are joined.
#[derive(Clone, Debug, Default)]
pub struct Space {
    free: BTreeMap<u32, u32>,
    free_units: u64,
}

impl Space {
    /// Makes a space of `units` that are free.
    pub fn new(units: u32) -> Self {
        let mut space = Self::default();
        if units > 0 {
            space.release(Extent { start: 0, units });
        }
        space
    }

    /// Gives the number of free units.
    pub const fn free_units(&self) -> u64 {
        self.free_units
    }

    /// Takes just these units. Returns true if all of them were free.
    pub fn claim(&mut self, extent: Extent) -> bool {
        let Some((&start, &units)) = self.free.range(..=extent.start).next_back() else {
            return false;
        };
        let end = u64::from(start) + u64::from(units);
        if extent.units == 0 || extent.end() > end {
            return false;
        }
        self.free.remove(&start);
        if extent.start > start {
            self.free.insert(start, extent.start - start);
        }
        if extent.end() < end {
            self.free.insert(extent.end() as u32, (end - extent.end()) as u32);
        }
        self.free_units -= u64::from(extent.units);
        true
    }

    /// Gives units back.
    pub fn release(&mut self, extent: Extent) {
        let Extent { mut start, mut units } = extent;
        self.free_units += u64::from(units);
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && u64::from(before) + u64::from(length) == u64::from(start)
        {
            self.free.remove(&before);
            (start, units) = (before, units + length);
        }
        let end = u64::from(start) + u64::from(units);
        if let Some(behind) = u32::try_from(end).ok().and_then(|end| self.free.remove(&end)) {
            units += behind;
        }
        self.free.insert(start, units);
    }

    /// Takes `units` in few extents: behind unit `after` if they are free there, else from the
    /// smallest place that holds all the rest, else from the largest. None if there are not as
    /// many.
    pub fn allocate(&mut self, units: u64, after: Option<u64>) -> Option<Vec<Extent>> {
        if units > self.free_units {
            return None;
        }
        let (mut left, mut taken) = (units, Vec::new());
        let mut next = after.and_then(|after| u32::try_from(after).ok());
        while left > 0 {
            let behind = next.take().and_then(|at| Some((at, *self.free.get(&at)?)));
            let (start, length) = behind.or_else(|| self.best(left))?;
            let extent = Extent { start, units: left.min(u64::from(length)) as u32 };
            assert!(self.claim(extent), "what is free can be taken");
            left -= u64::from(extent.units);
            taken.push(extent);
        }
        Some(taken)
    }

    fn best(&self, units: u64) -> Option<(u32, u32)> {
        let places = || self.free.iter().map(|(&start, &length)| (start, length));
        let fits = places().filter(|&(_, length)| u64::from(length) >= units);
        fits.min_by_key(|&(_, length)| length).or_else(|| places().max_by_key(|&(_, n)| n))
    }
}

/// Units of a file, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    list: Vec<Extent>,
    /// Number of the file's units before each extent.
    before: Vec<u64>,
}

impl Extents {
    /// Makes a list of extents in this order.
    pub fn of(list: impl IntoIterator<Item = Extent>) -> Self {
        let mut all = Self::default();
        list.into_iter().for_each(|extent| all.push(extent));
        all
    }

    /// Gives the extents.
    pub fn list(&self) -> &[Extent] {
        &self.list
    }

    /// Gives the number of all units.
    pub fn units(&self) -> u64 {
        let last = self.list.last().map_or(0, |extent| u64::from(extent.units));
        self.before.last().map_or(0, |before| before + last)
    }

    /// Adds units at the end.
    pub fn push(&mut self, extent: Extent) {
        if let Some(last) = self.list.last_mut()
            && last.end() == u64::from(extent.start)
        {
            last.units += extent.units;
            return;
        }
        self.before.push(self.units());
        self.list.push(extent);
    }

    /// Keeps the first units; gives those behind them.
    pub fn truncate(&mut self, units: u64) -> Vec<Extent> {
        let mut cut = Vec::new();
        while self.units() > units {
            let (Some(mut last), Some(before)) = (self.list.pop(), self.before.pop()) else {
                break;
            };
            let kept = units.saturating_sub(before) as u32;
            if kept > 0 {
                self.before.push(before);
                self.list.push(Extent { units: kept, ..last });
                last = Extent { start: last.start + kept, units: last.units - kept };
            }
            cut.push(last);
        }
        cut
    }

    /// Gives the place of a unit of the file, and the number of its units from there on in one
    /// extent.
    ///
    /// # Panics
    /// If the file has no such unit.
    pub fn place(&self, unit: u64) -> (u32, u64) {
        let index = self.before.partition_point(|&before| before <= unit) - 1;
        let (extent, within) = (self.list[index], unit - self.before[index]);
        assert!(within < u64::from(extent.units), "unit {unit} belongs to the file");
        (extent.start + within as u32, u64::from(extent.units) - within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_place_again() {
        let mut space = Space::new(10);
        let first = space.allocate(3, None).unwrap();
        let second = space.allocate(4, Some(3)).unwrap();
        assert_eq!(second, [Extent { start: 3, units: 4 }]);
        space.release(first[0]);
        assert_eq!(space.allocate(4, None).unwrap().len(), 2, "no place has room for all");
        space.release(Extent { start: 0, units: 10 - 4 - 2 });
        assert!(space.allocate(99, None).is_none());
    }

    #[test]
    fn a_place_that_fits_is_preferred_to_a_larger_one() {
        let mut space = Space::new(100);
        assert!(space.claim(Extent { start: 10, units: 80 }));
        assert!(!space.claim(Extent { start: 5, units: 10 }), "some of it is taken");
        space.release(Extent { start: 40, units: 5 });
        assert_eq!(space.allocate(5, None).unwrap(), [Extent { start: 40, units: 5 }]);
    }

    #[test]
    fn a_file_finds_each_unit() {
        let extent = |start, units| Extent { start, units };
        let mut extents = Extents::of([extent(5, 2), extent(7, 1), extent(1, 3)]);
        assert_eq!(extents.list(), [extent(5, 3), extent(1, 3)]);
        assert_eq!((extents.place(2), extents.place(4)), ((7, 1), (2, 2)));
        assert_eq!(extents.truncate(2), [extent(1, 3), extent(7, 1)]);
        assert_eq!((extents.units(), extents.place(1)), (2, (6, 1)));
        assert_eq!(extents.truncate(0), [extent(5, 2)]);
        assert_eq!(extents, Extents::default());
    }
}
