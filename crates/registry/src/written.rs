//! Reads `name(key=value, ...)` into a type of serde, so that what stands in brackets is declared
//! like an option.
//!
//! An enum is its variants' names, a struct its keys, and a list has commas between its parts.
//! Words before the first key are the struct's first field, or the one that has the alias "".
//! Numbers are read by [`parse_count`] and [`parse_number`], a truth as yes or no.

use std::fmt::{self, Display};

use serde::de::value::{MapDeserializer, SeqDeserializer, StringDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _,
    IntoDeserializer, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::spec::parts;
use crate::{Spec, parse_count, parse_number};

/// Reason for which a text could not be read, with the right form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread(String);

impl Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unread {}

impl de::Error for Unread {
    fn custom<T: Display>(said: T) -> Self {
        Self(said.to_string())
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self(format!("unknown `{variant}`; known are: {}", expected.join(", ")))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let known: Vec<&str> = expected.iter().copied().filter(|name| !name.is_empty()).collect();
        let known = if known.is_empty() {
            "it has none".to_owned()
        } else {
            format!("known are: {}", known.join(", "))
        };
        Self(format!("there is no parameter `{field}`; {known}"))
    }

    fn missing_field(field: &'static str) -> Self {
        Self(format!("`{field}` is missing"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self(format!("`{field}` is given twice"))
    }
}

/// Reads a value from what was written on the command line or in a file.
///
/// # Errors
/// [`Unread`] names the part that is wrong.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Unread> {
    T::deserialize(Written(text.trim().to_owned()))
}

/// A value as it is written.
struct Written(String);

impl Written {
    fn spec(&self) -> Result<Spec, Unread> {
        Spec::parse(&self.0).map_err(Unread::custom)
    }

    /// Says which part an error is of, unless the part is the whole.
    fn within(&self, error: &Unread) -> Unread {
        Unread(format!("`{}`: {error}", self.0))
    }
}

impl IntoDeserializer<'_, Unread> for Written {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! numbers {
    ($($deserialize:ident => $visit:ident, $read:expr, $right:literal;)+) => {
        $(fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
            let found = $read(&self.0)
                .ok_or_else(|| Unread(format!("`{}` is not {}", self.0, $right)))?;
            visitor.$visit(found).map_err(|error: Unread| self.within(&error))
        })+
    };
}

impl<'de> Deserializer<'de> for Written {
    type Error = Unread;

    numbers! {
        deserialize_u8 => visit_u64, parse_count, "a count";
        deserialize_u16 => visit_u64, parse_count, "a count";
        deserialize_u32 => visit_u64, parse_count, "a count";
        deserialize_u64 => visit_u64, parse_count, "a count";
        deserialize_f32 => visit_f64, parse_number, "a number";
        deserialize_f64 => visit_f64, parse_number, "a number";
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        match self.0.as_str() {
            "yes" | "true" => visitor.visit_bool(true),
            "no" | "false" => visitor.visit_bool(false),
            other => Err(Unread(format!("`{other}` is not yes or no"))),
        }
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unread> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        let found = parts(&self.0, ',').map(|part| Self(part.trim().to_owned()));
        SeqDeserializer::new(found).deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unread> {
        let positional = match fields.iter().any(|field| field.is_empty()) {
            true => "",
            false => fields.first().copied().unwrap_or_default(),
        };
        let named = |(key, value): (String, String)| {
            let key = if key.is_empty() { positional.to_owned() } else { key };
            (key, Self(value))
        };
        let pairs: Vec<_> = self.spec()?.given.into_iter().map(named).collect();
        // A struct of serde finds one itself; a map would take the last.
        for (number, (key, _)) in pairs.iter().enumerate() {
            if pairs[..number].iter().any(|(before, _)| before == key) {
                return Err(self.within(&Unread(format!("`{key}` is given twice"))));
            }
        }
        let pairs = pairs.into_iter();
        let found = MapDeserializer::<_, Unread>::new(pairs).deserialize_map(visitor);
        found.map_err(|error| self.within(&error))
    }

    /// As a struct whose keys are not known before: words without a key have the key "".
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        self.deserialize_struct("", &[""], visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unread> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for Written {
    type Error = Unread;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Unread> {
        let name: StringDeserializer<Unread> = self.spec()?.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Written {
    type Error = Unread;

    fn unit_variant(self) -> Result<(), Unread> {
        match self.spec()?.given.first() {
            None => Ok(()),
            Some((key, value)) => {
                let key = if key.is_empty() { value } else { key };
                Err(self.within(&Unread::unknown_field(key, &[])))
            }
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Unread> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Unread> {
        Err(self.within(&Unread("it has keys, not a list".to_owned())))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unread> {
        self.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    enum Pace {
        Closed {
            #[serde(default)]
            depth: u32,
            #[serde(default)]
            is_patient: bool,
        },
        Open {
            #[serde(default)]
            factor: f64,
        },
        Stopped,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Flow {
        source: String,
        pace: Pace,
        #[serde(default)]
        ops: Vec<String>,
        #[serde(default)]
        priority: Option<u8>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Profile {
        #[serde(alias = "")]
        name: String,
        #[serde(default)]
        pace: Option<Pace>,
        #[serde(flatten)]
        changes: BTreeMap<String, String>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Device {
        Profile(Profile),
        Array { kind: String, of: Box<Device>, drives: u32 },
    }

    fn refused<T: DeserializeOwned + fmt::Debug>(text: &str) -> String {
        read::<T>(text).unwrap_err().to_string()
    }

    #[test]
    fn variants_have_keys_of_their_own() {
        assert_eq!(read("closed(64Ki)"), Ok(Pace::Closed { depth: 65_536, is_patient: false }));
        let both = Pace::Closed { depth: 2, is_patient: true };
        assert_eq!(read(" closed(is_patient=yes, depth=2) "), Ok(both));
        assert_eq!(read("open(20%)"), Ok(Pace::Open { factor: 0.2 }));
        assert_eq!(read("closed"), Ok(Pace::Closed { depth: 0, is_patient: false }));
        assert_eq!(read("stopped"), Ok(Pace::Stopped));
    }

    #[test]
    fn values_lie_within_values() {
        let flow = read::<Flow>("scan(source=io:random(reads=1,size=4Ki),pace=closed(4),ops=a,b)");
        let flow = flow.unwrap();
        assert_eq!(flow.source, "io:random(reads=1,size=4Ki)");
        assert_eq!(flow.pace, Pace::Closed { depth: 4, is_patient: false });
        assert_eq!(flow.ops, ["a", "b"]);
        let array = "array(raid5(unit=64Ki),of=profile(nvme-tlc,pace=open(2),ftl.op=20%),drives=4)";
        let Ok(Device::Array { kind, of, drives: 4 }) = read(array) else { panic!("{array}") };
        assert_eq!(kind, "raid5(unit=64Ki)");
        let changes = BTreeMap::from([("ftl.op".to_owned(), "20%".to_owned())]);
        let pace = Some(Pace::Open { factor: 2.0 });
        assert_eq!(*of, Device::Profile(Profile { name: "nvme-tlc".to_owned(), pace, changes }));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        let cases = [
            (refused::<Pace>("closd(8)"), "unknown `closd`; known are: closed, open, stopped"),
            (
                refused::<Pace>("closed(dept=8)"),
                "`closed(dept=8)`: there is no parameter `dept`; known are: depth, is_patient",
            ),
            (refused::<Pace>("closed(x)"), "`closed(x)`: `x` is not a count"),
            (refused::<Pace>("closed(depth=1,depth=2)"), "`depth` is given twice"),
            (refused::<Pace>("stopped(1)"), "there is no parameter `1`; it has none"),
            (refused::<Pace>("closed(is_patient=maybe)"), "`maybe` is not yes or no"),
            (refused::<Pace>("closed(depth=5000000k)"), "5000000000"),
            (refused::<Pace>("closed(1"), "the closing bracket is missing"),
            (refused::<Flow>("scan(source=a)"), "`pace` is missing"),
            (refused::<Flow>("scan(source=a,pace=open(x))"), "`open(x)`: `x` is not a number"),
        ];
        for (said, right) in cases {
            assert!(said.contains(right), "{said}");
        }
    }
}
