//! Cases of damage to a volume, one after the other.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use layers::Placed;

use super::device::Damaged;
use super::made::Made;
use crate::Dice;

/// A sector of most drives of today, whatever size they say.
const PLACE_BYTES: u64 = 4096;
/// Bytes of the largest device of which each sector is tried alone, and not only 4 KiB at a time.
const MOST_BY_SECTORS: u64 = 512 << 10;
/// Draws of a byte for a flip, of which the first that is not 0 is taken.
const DRAWS: usize = 4;

/// Damage to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// These bytes cannot be read.
    Sectors(Vec<Range<u64>>),
    /// A bit of a byte has changed.
    Flip(u64, u8),
}

impl Damage {
    /// Damages the device.
    pub fn done_to(&self, device: &Damaged) {
        match self {
            Self::Sectors(ranges) => ranges.iter().for_each(|range| device.spoil(range)),
            Self::Flip(byte, bit) => device.flip(*byte, *bit),
        }
    }

    /// Gives a number that depends on the damage alone.
    pub(super) fn seed(&self) -> u64 {
        match self {
            Self::Sectors(ranges) => ranges.first().map_or(0, |range| range.start + 1),
            Self::Flip(byte, bit) => byte * 8 + u64::from(*bit),
        }
    }
}

/// `sectors:4096+512,8192+512`, or `flip:4097.3`.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flip(byte, bit) => write!(f, "flip:{byte}.{bit}"),
            Self::Sectors(ranges) => {
                let of =
                    |range: &Range<u64>| format!("{}+{}", range.start, range.end - range.start);
                let ranges: Vec<String> = ranges.iter().map(of).collect();
                write!(f, "sectors:{}", ranges.join(","))
            }
        }
    }
}

impl FromStr for Damage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |text: &str| {
            let (at, bytes) = text.split_once('+')?;
            let (at, bytes): (u64, u64) = (at.parse().ok()?, bytes.parse().ok()?);
            Some(at..at + bytes)
        };
        let parsed = match text.split_once(':') {
            Some(("flip", flip)) => flip.split_once('.').and_then(|(byte, bit)| {
                let bit = bit.parse().ok().filter(|&bit| bit < 8)?;
                Some(Self::Flip(byte.parse().ok()?, bit))
            }),
            Some(("sectors", ranges)) => {
                ranges.split(',').map(range).collect::<Option<Vec<_>>>().map(Self::Sectors)
            }
            _ => None,
        };
        parsed.ok_or_else(|| {
            format!("damage={text}: `sectors:BYTE+BYTES,...` or `flip:BYTE.BIT` is needed")
        })
    }
}

/// Kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// 4 KiB cannot be read.
    Place,
    /// One sector of a device whose sectors are smaller cannot be read.
    Sector,
    /// A bit of a structure has changed.
    Flip,
    /// No copy of a structure of which there are several can be read.
    EveryCopy,
}

impl How {
    /// Gives the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Place => "4 KiB",
            Self::Sector => "sector",
            Self::Flip => "flip",
            Self::EveryCopy => "every copy",
        }
    }
}

/// One damage, and the structures that it hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Kind of damage.
    pub how: How,
    /// The damage.
    pub damage: Damage,
    /// Names of the structures that it hits, `layer: structure`, with ` + ` between them.
    pub hits: String,
    /// Copies of the structure of which there are fewest.
    pub copies: usize,
    /// True if it hits every copy of a structure that has several.
    pub is_every_copy: bool,
}

/// Choice of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// True if each sector is damaged alone, too, where sectors are shorter than 4 KiB.
    pub with_sectors: bool,
    /// Number of flips in each kind of structure.
    pub flips: usize,
}

/// Copies of each structure, by its layer, name and number.
type Copies<'a> = BTreeMap<(usize, &'a str, u64), Vec<&'a Placed>>;

struct Map<'a> {
    placed: &'a [Placed],
    copies: Copies<'a>,
}

impl<'a> Map<'a> {
    fn new(placed: &'a [Placed]) -> Self {
        let mut copies = Copies::new();
        for one in placed.iter().filter(|one| !one.region.is_data) {
            copies.entry((one.level, one.region.name, one.region.number)).or_default().push(one);
        }
        Self { placed, copies }
    }

    /// Gives the case of a damage that hits these bytes.
    fn case(&self, how: How, damage: Damage, bytes: &[Range<u64>]) -> Case {
        let is_hit = |one: &&Placed| {
            let region = &one.region.bytes;
            bytes.iter().any(|bytes| region.start < bytes.end && bytes.start < region.end)
        };
        let mut hit: Vec<&Placed> = self.placed.iter().filter(is_hit).collect();
        // Bytes of users lie where the layer above has its structures, or its users their bytes.
        let highest = hit.iter().map(|one| one.level).max().unwrap_or(0);
        hit.retain(|one| !one.region.is_data || one.level == highest);
        if hit.iter().any(|one| !one.region.is_data) && how != How::Place {
            hit.retain(|one| !one.region.is_data);
        }
        let of = |one: &Placed| (one.level, one.region.name, one.region.number);
        let copies_of = |one: &&Placed| self.copies.get(&of(one)).map_or(1, Vec::len);
        let is_every_copy = hit.iter().any(|one| {
            let copies = self.copies.get(&of(one)).filter(|copies| copies.len() > 1);
            copies.is_some_and(|copies| copies.iter().all(is_hit))
        });
        let mut names: Vec<String> = hit.iter().map(|one| name(one)).collect();
        names.sort_unstable();
        names.dedup();
        let hits = match (names.is_empty(), self.placed.is_empty()) {
            (false, _) => names.join(" + "),
            (true, false) => "nothing".to_owned(),
            (true, true) => "data without a layer that keeps anything".to_owned(),
        };
        let copies = hit.iter().map(copies_of).min().unwrap_or(1);
        Case { how, damage, hits, copies, is_every_copy }
    }
}

fn name(one: &Placed) -> String {
    format!("{}: {}", one.layer, one.region.name)
}

/// Gives all cases for a volume with these structures: each place in turn, flips at random, and
/// every copy of each structure that has several.
#[must_use]
pub fn cases(made: &Made, placed: &[Placed], wanted: Wanted, seed: u64) -> Vec<Case> {
    let map = Map::new(placed);
    let (bytes, sector) = (made.image().len() as u64, u64::from(made.below.sector_bytes));
    let mut cases = Vec::new();
    let mut each = |how, size: u64| {
        for at in (0..bytes).step_by(size as usize) {
            let range = at..bytes.min(at + size);
            let ranges = vec![range];
            cases.push(map.case(how, Damage::Sectors(ranges.clone()), &ranges));
        }
    };
    each(How::Place, PLACE_BYTES.max(sector));
    if wanted.with_sectors && sector < PLACE_BYTES && bytes <= MOST_BY_SECTORS {
        each(How::Sector, sector);
    }
    let mut dice = Dice::new(seed);
    let mut kinds: BTreeMap<(usize, &str), Vec<&Placed>> = BTreeMap::new();
    for one in placed.iter().filter(|one| !one.region.is_data) {
        kinds.entry((one.level, one.region.name)).or_default().push(one);
    }
    for regions in kinds.values() {
        for _ in 0..wanted.flips {
            let byte = draw(made.image(), regions, &mut dice);
            let damage = Damage::Flip(byte, dice.below(8) as u8);
            let bytes = byte..byte + 1;
            cases.push(map.case(How::Flip, damage, std::slice::from_ref(&bytes)));
        }
    }
    for copies in map.copies.values().filter(|copies| copies.len() > 1) {
        let whole = |one: &&Placed| {
            let Range { start, end } = one.region.bytes;
            start / sector * sector..end.next_multiple_of(sector)
        };
        let ranges: Vec<Range<u64>> = copies.iter().map(whole).collect();
        cases.push(map.case(How::EveryCopy, Damage::Sectors(ranges.clone()), &ranges));
    }
    cases
}

/// Draws a byte of one of the regions: not 0, if a few draws find such a byte.
fn draw(image: &[u8], regions: &[&Placed], dice: &mut Dice) -> u64 {
    let mut byte = 0;
    for _ in 0..DRAWS {
        let Range { start, end } = dice.pick(regions).region.bytes;
        byte = start + dice.below((end - start) as usize) as u64;
        if image[byte as usize] != 0 {
            break;
        }
    }
    byte
}
