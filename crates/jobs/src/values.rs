//! Values as people write them, in settings and on the command line: `10k`, `1.5min`, `85%`. Each
//! is a plain number once it was read, so that the same wish has the same settings.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use registry::{parse_bytes, parse_count, parse_duration, parse_number};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A number or a text.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Plain {
    Whole(u64),
    Number(f64),
    Text(String),
}

impl Display for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(text) => text.trim().fmt(f),
        }
    }
}

/// Declares a value: its text and its type, how it is read, what would be right, and its types in
/// a schema.
macro_rules! value {
    ($(#[$about:meta])* $name:ident($inner:ty), $read:expr, $right:literal, $kinds:tt) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(try_from = "Plain")]
        pub struct $name(pub $inner);

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let read: fn(&str) -> Option<$inner> = $read;
                read(text).map(Self).ok_or_else(|| format!("`{text}` is not {}", $right))
            }
        }

        impl TryFrom<Plain> for $name {
            type Error = String;

            fn try_from(plain: Plain) -> Result<Self, String> {
                plain.to_string().parse()
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": $kinds, "format": stringify!($name)})
            }
        }
    };
}

fn positive(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then_some(value)
}

/// Seconds of a duration; a minute is `m` for sleep(1) and most people.
fn seconds(text: &str) -> Option<f64> {
    let minutes = text.strip_suffix('m').map(str::trim_end);
    let is_number = |text: &&str| text.ends_with(|last: char| last.is_ascii_digit());
    match minutes.filter(is_number) {
        Some(number) => parse_duration(&format!("{number}min"), 1.0),
        None => parse_duration(text, 1.0),
    }
}

value!(
    /// A count: `4096`, `10k`, `1M`, `64Ki`.
    Count(u64),
    |text| parse_count(text).filter(|count| *count < 1 << 63),
    "a count: write 4096, 10k or 1M", ["integer", "string"]
);
value!(
    /// A size in bytes, at least 1: `4096`, `4k`, `16KiB`, `2G`.
    Size(u64),
    |text| parse_bytes(text).filter(|size| *size > 0),
    "a size in bytes: write 4096, 4k or 4KiB", ["integer", "string"]
);
value!(
    /// Seconds, above 0, or with a unit of their own: `90`, `1.5min`, `200us`.
    Seconds(f64),
    |text| seconds(text).and_then(positive),
    "a duration above 0: write 90, 90s or 2m", ["number", "string"]
);
value!(
    /// Microseconds, or with a unit of their own: `5`, `5us`, `1ms`.
    Micros(f64),
    |text| parse_duration(text, 1e-6).map(|seconds| seconds * 1e6),
    "a duration: write 5, 5us or 1ms", ["number", "string"]
);
value!(
    /// Milliseconds, above 0, or with a unit of their own: `200`, `200us`, `1s`.
    Millis(f64),
    |text| parse_duration(text, 1e-3).map(|seconds| seconds * 1e3).and_then(positive),
    "a duration above 0: write 200, 200us or 1s", ["number", "string"]
);
value!(
    /// A share above 0, at most 1: `0.2`, `20%`.
    Share(f64),
    |text| parse_number(text).filter(|share| *share > 0.0 && *share <= 1.0),
    "a share: write more than 0 and at most 1, or 40%", ["number", "string"]
);
value!(
    /// An over-provisioning above 0, at most 100: `0.2`, `20%`.
    OverProvisioning(f64),
    |text| parse_number(text).filter(|share| *share > 0.0 && *share <= 100.0),
    "an over-provisioning: write a number above 0 and at most 100, such as 0.2 or 20%",
    ["number", "string"]
);
value!(
    /// A number above 0: `2`, `0.5`, `150%`.
    Factor(f64),
    |text| parse_number(text).and_then(positive).filter(|factor| *factor <= 1e9),
    "a factor: write a number above 0 and at most 1e9", ["number", "string"]
);

/// A count, or a share of what there is: `4096`, `1M`, `85%`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Plain", into = "String")]
pub enum CountOrShare {
    /// A number of them.
    Count(u64),
    /// From 0 to below 1.
    Share(f64),
}

impl TryFrom<Plain> for CountOrShare {
    type Error = String;

    fn try_from(plain: Plain) -> Result<Self, String> {
        let text = plain.to_string();
        let share = || parse_number(&text).filter(|share| (0.0..1.0).contains(share));
        let count = parse_count(&text).filter(|count| *count < 1 << 63).map(Self::Count);
        count.or_else(|| share().map(Self::Share)).ok_or_else(|| match parse_number(&text) {
            Some(whole) if whole >= 1.0 && text.contains('%') => {
                format!("`{text}` leaves nothing: a share is below 100%")
            }
            _ => format!("`{text}` is neither a count nor a share: write 4096, 1M or 85%"),
        })
    }
}

impl From<CountOrShare> for String {
    fn from(value: CountOrShare) -> Self {
        match value {
            CountOrShare::Count(count) => count.to_string(),
            CountOrShare::Share(share) => format!("{}%", share * 100.0),
        }
    }
}

impl JsonSchema for CountOrShare {
    fn schema_name() -> Cow<'static, str> {
        "CountOrShare".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["number", "string"], "format": "CountOrShare"})
    }
}

/// A part of a device in bytes: `LENGTH` from its start, or `OFFSET+LENGTH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Region {
    /// First byte.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u64,
}

impl TryFrom<String> for Region {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (offset, length) = text.split_once('+').unwrap_or(("0", &text));
        let found = parse_bytes(offset.trim()).zip(parse_bytes(length.trim()));
        let region = found.filter(|(offset, length)| *length > 0 && *offset < u64::MAX - length);
        region.map(|(offset, length)| Self { offset, length }).ok_or_else(|| {
            format!(
                "`{text}` is not a region: write 1Gi, or 512Mi+1Gi for the 1 GiB behind the first \
                 512 MiB"
            )
        })
    }
}

impl From<Region> for String {
    fn from(region: Region) -> Self {
        format!("{}+{}", region.offset, region.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: for<'a> Deserialize<'a>>(json: &str) -> Result<T, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_and_texts_are_one_value() {
        for json in ["20000", "\"20k\"", "\" 20000 \""] {
            assert_eq!(read::<Count>(json), Ok(Count(20_000)), "{json}");
        }
        assert_eq!(read::<Size>("\"4KiB\""), Ok(Size(4096)));
        assert_eq!(read::<Seconds>("\"2m\""), Ok(Seconds(120.0)));
        assert_eq!(read::<Seconds>("\"200 ms\""), Ok(Seconds(0.2)));
        assert_eq!(read::<Micros>("5"), Ok(Micros(5.0)));
        assert_eq!(read::<Share>("\"40%\""), Ok(Share(0.4)));
        assert_eq!(read::<CountOrShare>("\"85%\""), Ok(CountOrShare::Share(0.85)));
        assert_eq!(read::<CountOrShare>("\"1M\""), Ok(CountOrShare::Count(1_000_000)));
        let region = Region { offset: 1 << 29, length: 1 << 30 };
        assert_eq!(read::<Region>("\"512Mi+1Gi\""), Ok(region));
    }

    #[test]
    fn what_is_no_value_is_refused_with_what_would_be_right() {
        for (found, right) in [
            (read::<Count>("\"ten\"").err(), "`ten` is not a count: write 4096, 10k or 1M"),
            (read::<Count>("1.5").err(), "`1.5` is not a count"),
            (read::<Size>("0").err(), "`0` is not a size"),
            (read::<Seconds>("0").err(), "`0` is not a duration above 0"),
            (read::<Share>("\"101%\"").err(), "is not a share"),
            (read::<CountOrShare>("\"100%\"").err(), "a share is below 100%"),
            (read::<Region>("\"1Gi+\"").err(), "is not a region"),
            (read::<Factor>("0").err(), "is not a factor"),
            (read::<Factor>("\"nan\"").err(), "is not a factor"),
        ] {
            let found = found.unwrap_or_default();
            assert!(found.contains(right), "{found}");
        }
    }
}
