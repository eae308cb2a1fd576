//! Parameters of a variant and their checked values.

use std::fmt;

use crate::{Info, Spec, SpecError, parse_bytes, parse_count, parse_number};

/// Values that a parameter accepts. Ranges are inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamKind {
    /// A whole number that is not a size: see [`parse_count`].
    Integer {
        /// Least.
        min: u64,
        /// Greatest.
        max: u64,
    },
    /// A size in bytes: see [`parse_bytes`].
    Bytes {
        /// Least.
        min: u64,
        /// Greatest.
        max: u64,
    },
    /// A number; `20%` means 0.2.
    Number {
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
    },
    /// Free text that the variant parses itself.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl ParamKind {
    /// Describes the accepted values in words.
    #[must_use]
    pub fn accepts(&self) -> String {
        match self {
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Bytes { min, max } => {
                format!("a size from {min} to {max} bytes, such as 4096 or 4Ki")
            }
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Text => "text".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// One parameter of a variant.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The key.
    pub name: &'static str,
    /// The values that it accepts.
    pub kind: ParamKind,
    /// The default value, written as a user would write it.
    pub default: &'static str,
    /// Description in one line, with the unit.
    pub help: &'static str,
}

/// A checked value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Value of a [`ParamKind::Integer`] or [`ParamKind::Bytes`].
    Integer(u64),
    /// Value of a [`ParamKind::Number`].
    Number(f64),
    /// Value of a [`ParamKind::Text`] or [`ParamKind::Choice`].
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(v) => v.fmt(f),
            Self::Number(v) => v.fmt(f),
            Self::Text(v) => v.fmt(f),
        }
    }
}

/// All parameters of a variant, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Args {
    values: Vec<(&'static str, Value)>,
}

impl Args {
    pub(crate) fn fill(info: &Info, spec: &Spec) -> Result<Self, SpecError> {
        let given: Vec<(&str, &str)> = spec
            .given
            .iter()
            .map(|(key, value)| match (key.as_str(), info.params.first()) {
                ("", Some(first)) => (first.name, value.as_str()),
                ("", None) => (value.as_str(), ""),
                (key, _) => (key, value.as_str()),
            })
            .collect();
        for (index, (key, _)) in given.iter().enumerate() {
            if !info.params.iter().any(|p| p.name == *key) {
                let names: Vec<&str> = info.params.iter().map(|p| p.name).collect();
                let known = if names.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("known are: {}", names.join(", "))
                };
                return Err(SpecError::UnknownKey {
                    name: info.name,
                    key: (*key).to_owned(),
                    known,
                });
            }
            if given[..index].iter().any(|(other, _)| other == key) {
                return Err(SpecError::Repeated { name: info.name, key: (*key).to_owned() });
            }
        }
        let mut values = Vec::with_capacity(info.params.len());
        for param in info.params {
            let value = given
                .iter()
                .find(|(key, _)| *key == param.name)
                .map_or(param.default, |(_, value)| value);
            values.push((param.name, param.parse(info.name, value)?));
        }
        Ok(Self { values })
    }

    fn get(&self, name: &str) -> &Value {
        let found = self.values.iter().find(|(key, _)| *key == name);
        &found.unwrap_or_else(|| panic!("no parameter `{name}` was declared")).1
    }

    /// A declared integer parameter.
    ///
    /// # Panics
    /// If the variant declares no such parameter of that kind: a bug of the variant.
    #[must_use]
    pub fn integer(&self, name: &str) -> u64 {
        match self.get(name) {
            Value::Integer(v) => *v,
            other => panic!("parameter `{name}` is {other:?}, not an integer"),
        }
    }

    /// A declared number parameter.
    ///
    /// # Panics
    /// As [`Args::integer`].
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        match self.get(name) {
            Value::Number(v) => *v,
            other => panic!("parameter `{name}` is {other:?}, not a number"),
        }
    }

    /// A declared text or choice parameter.
    ///
    /// # Panics
    /// As [`Args::integer`].
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Value::Text(v) => v,
            other => panic!("parameter `{name}` is {other:?}, not text"),
        }
    }

    /// Names and values in the order declared.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.values.iter().map(|(name, value)| (*name, value))
    }
}

impl Param {
    fn parse(&self, variant: &'static str, text: &str) -> Result<Value, SpecError> {
        let bad = |right: String| SpecError::BadValue {
            name: variant,
            key: self.name.to_owned(),
            value: text.to_owned(),
            right,
        };
        match self.kind {
            ParamKind::Integer { min, max } => parse_count(text)
                .filter(|v| (min..=max).contains(v))
                .map(Value::Integer)
                .ok_or_else(|| bad(self.kind.accepts())),
            ParamKind::Bytes { min, max } => parse_bytes(text)
                .filter(|v| (min..=max).contains(v))
                .map(Value::Integer)
                .ok_or_else(|| bad(self.kind.accepts())),
            ParamKind::Number { min, max } => parse_number(text)
                .filter(|v| (min..=max).contains(v))
                .map(Value::Number)
                .ok_or_else(|| bad(self.kind.accepts())),
            ParamKind::Text => Ok(Value::Text(text.to_owned())),
            ParamKind::Choice(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            ParamKind::Choice(_) => Err(bad(self.kind.accepts())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: Info = Info {
        name: "sample",
        aliases: &["example"],
        summary: "",
        source: "",
        params: &[
            Param {
                name: "window",
                kind: ParamKind::Number { min: 0.0, max: 1.0 },
                default: "0.1",
                help: "",
            },
            Param {
                name: "pages",
                kind: ParamKind::Integer { min: 1, max: 1 << 31 },
                default: "1Mi",
                help: "",
            },
            Param { name: "how", kind: ParamKind::Choice(&["a", "b"]), default: "a", help: "" },
        ],
    };

    #[test]
    fn defaults_are_filled_and_suffixes_read() {
        let args = INFO.accept(&Spec::parse("sample(window=20%)").unwrap()).unwrap();
        assert_eq!(
            (args.number("window"), args.integer("pages"), args.text("how")),
            (0.2, 1 << 20, "a")
        );
    }

    #[test]
    fn words_without_a_key_are_the_first_parameters() {
        let args = INFO.accept(&Spec::parse("sample(20%,how=b)").unwrap()).unwrap();
        assert_eq!((args.number("window"), args.text("how")), (0.2, "b"));
        let none = Info { params: &[], ..INFO };
        let refused =
            |info: &Info, text| info.accept(&Spec::parse(text).unwrap()).unwrap_err().to_string();
        assert_eq!(refused(&none, "sample(b)"), "`sample` has no parameter `b`; it has none");
        assert_eq!(refused(&INFO, "sample(0.1,window=0.2)"), "`sample`: `window` is given twice");
        assert_eq!(refused(&INFO, "sample(b)"), "`sample`: window=b is not a number from 0 to 1");
    }

    #[test]
    fn wrong_keys_and_values_are_told() {
        let errors = [
            "sample(x=1)",
            "sample(window=2)",
            "sample(how=c)",
            "sample(pages=0)",
            "sample(how=a,how=b)",
            "sample(window=nan)",
        ]
        .map(|text| INFO.accept(&Spec::parse(text).unwrap()).unwrap_err().to_string());
        assert_eq!(errors[0], "`sample` has no parameter `x`; known are: window, pages, how");
        assert_eq!(errors[1], "`sample`: window=2 is not a number from 0 to 1");
        assert_eq!(errors[2], "`sample`: how=c is not one of a, b");
        assert!(errors[4].contains("twice"));
    }
}
