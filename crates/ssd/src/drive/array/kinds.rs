//! The kinds of arrays, by name.

use registry::{Info, Param, ParamKind, Spec, SpecError};

use super::ArrayError;

const UNIT: Param = Param {
    name: "unit",
    kind: ParamKind::Bytes { min: 512, max: 1 << 26 },
    default: "64Ki",
    help: "bytes on one drive before the next one's turn, a multiple of the drive's page",
};

const WRITES: Param = Param {
    name: "writes",
    kind: ParamKind::Choice(&["fewest", "read_modify"]),
    default: "fewest",
    help: "what a write of a part of a stripe reads: old data and parity, or the data beside it \
           where that is less (fewest)",
};

/// All kinds.
pub static ARRAYS: &[Info] = &[
    Info {
        name: "mirrored",
        aliases: &["raid1"],
        summary: "every drive holds all data",
        source: "Patterson, Gibson & Katz, SIGMOD 1988 (RAID level 1)",
        params: &[],
    },
    Info {
        name: "striped",
        aliases: &["raid0"],
        summary: "units of data on the drives in turn, without parity",
        source: "Salem & Garcia-Molina, ICDE 1986",
        params: &[UNIT],
    },
    Info {
        name: "raid5",
        aliases: &[],
        summary: "a unit of parity in each stripe, on all drives alike",
        source: "Patterson, Gibson & Katz, SIGMOD 1988 (RAID level 5)",
        params: &[UNIT, WRITES],
    },
    Info {
        name: "diff_raid",
        aliases: &["differential_raid"],
        summary: "a unit of parity in each stripe, most of them on the oldest drive",
        source: "Balakrishnan, Kadav, Prabhakaran & Malkhi, Differential RAID, EuroSys 2010",
        params: &[
            Param {
                name: "shares",
                kind: ParamKind::Text,
                default: "70",
                help: "percent of the parity on each drive, the oldest first: 70,10,10,10; drives \
                       that are not named have the rest alike, so that 100 is RAID level 4",
            },
            UNIT,
            WRITES,
        ],
    },
];

/// Choice of the data that a write of a part of a stripe reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// The choice with the fewest reads; at equal numbers, old data and old parity.
    Fewest,
    /// Old data and old parity, unless a missing drive forbids it.
    ReadModify,
}

/// An array whose data lies in stripes.
#[derive(Clone, Debug, PartialEq)]
pub struct StripedConfig {
    /// Bytes on one drive before the data goes on on the next.
    pub unit_bytes: u32,
    /// Percent of the parity on the first drives, or `None` if there is no parity; the drives not
    /// listed share the rest equally.
    pub shares: Option<Vec<f64>>,
    /// Choice of the data that writes read.
    pub writes: WritePolicy,
}

/// Kind of an array: the way in which its data is spread over the drives.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrayKind {
    /// Every drive holds all data.
    Mirrored,
    /// Data lies in stripes.
    Striped(StripedConfig),
}

impl ArrayKind {
    /// Parses a spec, such as `diff_raid(shares=70,10,10,10,unit=16Ki)`.
    ///
    /// # Errors
    /// [`ArrayError::Spec`] or [`ArrayError::Shares`].
    pub fn parse(text: &str) -> Result<Self, ArrayError> {
        let spec = Spec::parse(text)?;
        let info = registry::find("array", ARRAYS, |info| info, &spec)?;
        let args = info.accept(&spec)?;
        if info.name == "mirrored" {
            return Ok(Self::Mirrored);
        }
        let shares = match info.name {
            "raid5" => Some(Vec::new()),
            "diff_raid" => Some(shares_of(args.text("shares"))?),
            _ => None,
        };
        let reads_modify = shares.is_some() && args.text("writes") == "read_modify";
        let writes = if reads_modify { WritePolicy::ReadModify } else { WritePolicy::Fewest };
        let unit_bytes = args.integer("unit") as u32;
        Ok(Self::Striped(StripedConfig { unit_bytes, shares, writes }))
    }

    /// Share of the parity on each drive, 0 ... 1; `None` where there is no parity.
    ///
    /// # Errors
    /// [`ArrayError::Shares`] if there are more shares than drives, or they do not add up to a
    /// whole.
    pub fn parity(&self, drives: u32) -> Result<Option<Vec<f64>>, ArrayError> {
        let Self::Striped(StripedConfig { shares: Some(given), .. }) = self else {
            return Ok(None);
        };
        let wrong = |reason| ArrayError::Shares { given: joined(given), reason };
        let (named, drives) = (given.len(), drives as usize);
        if named > drives {
            return Err(wrong("they are of more drives than there are"));
        }
        let rest = 100.0 - given.iter().sum::<f64>();
        if rest < -1e-6 {
            return Err(wrong("they are more than 100 together"));
        }
        if named == drives && rest > 1e-6 {
            return Err(wrong("they are less than 100 together, and no drive is left"));
        }
        let each = if named < drives { rest.max(0.0) / (drives - named) as f64 } else { 0.0 };
        let shares = given.iter().copied().chain(std::iter::repeat(each)).take(drives);
        Ok(Some(shares.map(|percent| percent / 100.0).collect()))
    }
}

fn joined(shares: &[f64]) -> String {
    shares.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

fn shares_of(text: &str) -> Result<Vec<f64>, ArrayError> {
    let one = |word: &str| {
        let percent = word.trim().trim_end_matches('%').parse::<f64>().ok();
        percent.filter(|percent| (0.0..=100.0).contains(percent))
    };
    text.split(',').map(one).collect::<Option<Vec<f64>>>().ok_or_else(|| {
        let (name, key, value) = ("diff_raid", "shares".to_owned(), text.to_owned());
        let right = "percents from 0 to 100, with commas between them".to_owned();
        ArrayError::Spec(SpecError::BadValue { name, key, value, right })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parity(text: &str, drives: u32) -> Vec<f64> {
        ArrayKind::parse(text).unwrap().parity(drives).unwrap().unwrap()
    }

    #[test]
    fn shares_that_are_not_named_are_alike() {
        assert_eq!(parity("raid5", 4), [0.25; 4]);
        assert_eq!(parity("diff_raid(shares=70)", 4), [0.7, 0.1, 0.1, 0.1]);
        assert_eq!(parity("diff_raid(shares=70,10,10,10)", 4), [0.7, 0.1, 0.1, 0.1]);
        assert_eq!(parity("diff_raid(shares=100)", 3), [1.0, 0.0, 0.0]);
        assert_eq!(ArrayKind::parse("striped").unwrap().parity(4).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_is_told_in_a_line() {
        let said = |text: &str, drives| {
            let kind = ArrayKind::parse(text);
            kind.and_then(|kind| kind.parity(drives)).unwrap_err().to_string()
        };
        assert!(said("raid6", 4).contains("known are: mirrored, striped, raid5, diff_raid"));
        assert!(said("diff_raid(shares=70,40)", 4).contains("more than 100"));
        assert!(said("diff_raid(shares=50,40)", 2).contains("no drive is left"));
        assert!(said("diff_raid(shares=50,20,10,20)", 3).contains("more drives"));
        assert!(said("diff_raid(shares=most)", 3).contains("shares=most is not percents"));
        assert!(said("raid5(unit=1)", 4).contains("unit=1"));
    }
}
