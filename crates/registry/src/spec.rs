//! `name(key=value, ...)`, as written on the command line and in files.

use std::fmt;

use thiserror::Error;

/// A variant requested by name, with the keys that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name as it was given.
    pub name: String,
    /// Keys and values in the order given, not yet checked. Words before the first key belong to
    /// the variant's first parameter: their key is empty.
    pub given: Vec<(String, String)>,
}

/// Errors of a spec.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// The text does not have the form.
    #[error("`{text}`: {reason}; write name or name(key=value,...)")]
    Malformed {
        /// The text given.
        text: String,
        /// The reason.
        reason: &'static str,
    },
    /// No variant has that name.
    #[error("unknown {kind} `{name}`; known are: {known}")]
    UnknownName {
        /// The kind of variant looked up.
        kind: &'static str,
        /// The name as given.
        name: String,
        /// All names.
        known: String,
    },
    /// The variant has no such parameter.
    #[error("`{name}` has no parameter `{key}`; {known}")]
    UnknownKey {
        /// The variant.
        name: &'static str,
        /// The key as given.
        key: String,
        /// All keys, as a clause.
        known: String,
    },
    /// A key was given twice.
    #[error("`{name}`: `{key}` is given twice")]
    Repeated {
        /// The variant.
        name: &'static str,
        /// The key.
        key: String,
    },
    /// The value does not fit the parameter.
    #[error("`{name}`: {key}={value} is not {right}")]
    BadValue {
        /// The variant.
        name: &'static str,
        /// The key.
        key: String,
        /// The value given.
        value: String,
        /// The values accepted.
        right: String,
    },
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.given.is_empty() {
            return Ok(());
        }
        let written = |(key, value): &(String, String)| {
            if key.is_empty() { value.clone() } else { format!("{key}={value}") }
        };
        let given: Vec<String> = self.given.iter().map(written).collect();
        write!(f, "({})", given.join(","))
    }
}

impl Spec {
    /// Parses a spec. A part without `=` belongs to the value before it, and so does everything in
    /// inner brackets: `kmodal(sets=0.2:0.8,0.8:0.2,pages=1Mi)`, `mixed(of=zipf(s=1),share=0.5)`.
    /// Words before the first key are the value of the variant's first parameter:
    /// `scheduler(defer,coalesce,buffer=1Mi)`.
    ///
    /// # Errors
    /// [`SpecError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let malformed = |reason| SpecError::Malformed { text: text.to_owned(), reason };
        let (name, rest) = text.split_at(text.find('(').unwrap_or(text.len()));
        let inside = match rest.strip_prefix('(').map(|rest| rest.strip_suffix(')')) {
            Some(inside) => inside.ok_or_else(|| malformed("the closing bracket is missing"))?,
            None => "",
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        {
            return Err(malformed("the name must be letters, digits, `_`, `-` or `.`"));
        }
        let mut given: Vec<(String, String)> = Vec::new();
        for part in parts(inside, ',').map(str::trim).filter(|part| !part.is_empty()) {
            match (key_and_value(part), given.last_mut()) {
                (Some(("", _)), _) => return Err(malformed("a value has no key")),
                (Some((key, value)), _) => {
                    given.push((key.trim().to_owned(), value.trim().to_owned()));
                }
                // A list, such as the sets of a k-modal workload, has commas of its own.
                (None, Some((_, value))) => {
                    value.push(',');
                    value.push_str(part);
                }
                (None, None) => given.push((String::new(), part.to_owned())),
            }
        }
        Ok(Self { name: name.to_owned(), given })
    }
}

/// Splits a part at its first `=` outside brackets.
fn key_and_value(part: &str) -> Option<(&str, &str)> {
    let end = part.find('(').unwrap_or(part.len());
    part[..end].find('=').map(|at| (&part[..at], &part[at + 1..]))
}

/// Splits text at separators outside inner brackets.
pub(crate) fn parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == separator && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys_are_read() {
        let bracket = Spec::parse("window_greedy(window=0.01, x=2)").unwrap();
        assert_eq!(bracket.given, [("window".into(), "0.01".into()), ("x".into(), "2".into())]);
        let list = Spec::parse("kmodal(sets=0.2:0.8,0.8:0.2,pages=10)").unwrap();
        assert_eq!(list.given[0], ("sets".into(), "0.2:0.8,0.8:0.2".into()));
        assert_eq!(list.given[1], ("pages".into(), "10".into()));
        assert_eq!(Spec::parse(&list.to_string()).unwrap(), list);
        let nested = Spec::parse("mixed(of=zipf(s=1,pages=3),share=0.5)").unwrap();
        assert_eq!(
            nested.given,
            [("of".into(), "zipf(s=1,pages=3)".into()), ("share".into(), "0.5".into())]
        );
        assert_eq!(Spec::parse("greedy").unwrap(), Spec { name: "greedy".into(), given: vec![] });
    }

    #[test]
    fn words_before_the_first_key_have_no_key() {
        let spec = Spec::parse("scheduler(defer, coalesce, buffer=1Mi)").unwrap();
        assert_eq!(
            spec.given,
            [(String::new(), "defer,coalesce".into()), ("buffer".into(), "1Mi".into())]
        );
        assert_eq!(Spec::parse(&spec.to_string()).unwrap(), spec);
    }

    #[test]
    fn what_stands_in_inner_brackets_is_no_key() {
        let spec = Spec::parse("array(raid5(unit=64Ki),of=profile(a=b),drives=4)").unwrap();
        let pairs = [("", "raid5(unit=64Ki)"), ("of", "profile(a=b)"), ("drives", "4")];
        assert_eq!(spec.given, pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn malformed_specs_say_why() {
        for text in ["", "a(b=1", "a?b=1", "a(=b)", "a b"] {
            assert!(matches!(Spec::parse(text), Err(SpecError::Malformed { .. })), "{text}");
        }
    }
}
