//! What is known of a volume's pages and times, in a form that merges with that of others.

use datasketches::hll::{Coupon, HllSketch, HllType, HllUnion};

use super::quantiles::{Exact, Sketch};

/// 2^15 registers: a standard error of 0.5 % of one sketch, 0.6 % of merged ones.
const LG_REGISTERS: u8 = 15;

/// Different pages that were seen.
#[derive(Clone)]
pub struct Distinct(HllUnion);

impl Default for Distinct {
    fn default() -> Self {
        Self(HllUnion::new(LG_REGISTERS).unwrap_or_else(|_| unreachable!("it is from 4 to 21")))
    }
}

impl Distinct {
    /// Adds what another one saw.
    pub fn merge(&mut self, other: &Self) {
        self.0.update(&other.0.to_sketch(HllType::Hll8));
    }

    /// How many, about.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        self.0.estimate().round() as u64
    }

    /// As bytes that `DataSketches` reads in other languages too.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_sketch(HllType::Hll4).serialize()
    }

    /// Reads it from bytes; `None` if they are none of a sketch.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut read = Self::default();
        read.0.update(&HllSketch::deserialize(bytes).ok()?);
        Some(read)
    }
}

/// Pages of a volume while they are seen.
pub(super) struct Seen(HllSketch);

impl Seen {
    pub(super) fn new() -> Self {
        let sketch = HllSketch::new(LG_REGISTERS, HllType::Hll8);
        Self(sketch.unwrap_or_else(|_| unreachable!("it is from 4 to 21")))
    }

    pub(super) fn add(&mut self, page: Coupon) {
        self.0.update_with_coupon(page);
    }

    /// How many, about: closer than once they are merged.
    pub(super) fn estimate(&self) -> u64 {
        self.0.estimate().round() as u64
    }

    pub(super) fn finish(&self) -> Distinct {
        let mut distinct = Distinct::default();
        distinct.0.update(&self.0);
        distinct
    }
}

/// What a page of a volume is known by: pages of two volumes are different ones.
pub(super) fn known_by(volume: u32, page: u64) -> Coupon {
    Coupon::from_value((u64::from(volume), page))
}

/// Values of a kind: a sketch of them, and where it was asked for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The sketch.
    pub sketch: Sketch,
    /// All of them.
    pub exact: Option<Exact>,
}

impl Values {
    pub(super) fn new(is_exact: bool) -> Self {
        Self { sketch: Sketch::default(), exact: is_exact.then(Exact::default) }
    }

    #[inline]
    pub(super) fn add(&mut self, value: u64, times: u64) {
        self.sketch.add(value, times);
        if let Some(exact) = &mut self.exact {
            exact.add(value, times);
        }
    }

    /// Adds what another one holds; all values are known only where both know them.
    pub fn merge(&mut self, other: &Self) {
        self.sketch.merge(&other.sketch);
        match (&mut self.exact, &other.exact) {
            (Some(mine), Some(its)) => mine.merge(its),
            (mine, _) => *mine = None,
        }
    }
}

/// All that merges.
#[derive(Clone, Default)]
pub struct Sketches {
    /// Pages that were written.
    pub written: Distinct,
    /// Pages that were read.
    pub read: Distinct,
    /// Bytes of reads.
    pub read_sizes: Values,
    /// Bytes of writes.
    pub write_sizes: Values,
    /// Nanoseconds from a request to the next one of its volume.
    pub gaps: Values,
    /// Nanoseconds from a write of a page to the next one, once for each page.
    pub lifetimes: Values,
    /// Page writes of the volume from a write of a page to the next one, once for each page.
    pub distances: Values,
}

impl Sketches {
    /// Sketches to which others are merged; all values are known if they are of all of those.
    #[must_use]
    pub fn new(is_exact: bool) -> Self {
        let values = || Values::new(is_exact);
        Self {
            written: Distinct::default(),
            read: Distinct::default(),
            read_sizes: values(),
            write_sizes: values(),
            gaps: values(),
            lifetimes: values(),
            distances: values(),
        }
    }

    /// Names and values of each kind.
    #[must_use]
    pub fn kinds(&self) -> [(&'static str, &Values); 5] {
        [
            ("read_sizes", &self.read_sizes),
            ("write_sizes", &self.write_sizes),
            ("gaps", &self.gaps),
            ("lifetimes", &self.lifetimes),
            ("distances", &self.distances),
        ]
    }

    /// The same, to be changed.
    pub fn kinds_mut(&mut self) -> [(&'static str, &mut Values); 5] {
        [
            ("read_sizes", &mut self.read_sizes),
            ("write_sizes", &mut self.write_sizes),
            ("gaps", &mut self.gaps),
            ("lifetimes", &mut self.lifetimes),
            ("distances", &mut self.distances),
        ]
    }

    /// Adds those of another volume, or of another time.
    pub fn merge(&mut self, other: &Self) {
        self.written.merge(&other.written);
        self.read.merge(&other.read);
        for ((_, mine), (_, its)) in self.kinds_mut().into_iter().zip(other.kinds()) {
            mine.merge(its);
        }
    }
}
