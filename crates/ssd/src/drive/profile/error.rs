//! Errors of a profile: one line each, with the key and the right values.

use thiserror::Error;

/// Errors of a profile.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ProfileError {
    /// No built-in profile has that name.
    #[error(
        "unknown device profile `{name}`; known are: {known}; or give the path of a .toml file"
    )]
    UnknownProfile {
        /// The name as given.
        name: String,
        /// All names.
        known: String,
    },
    /// The text is not TOML, or not a profile.
    #[error("{place}, line {line}, column {column}: {reason}")]
    Syntax {
        /// Source of the text.
        place: String,
        /// Counted from 1.
        line: usize,
        /// Characters, counted from 1.
        column: usize,
        /// The error, and the right form.
        reason: String,
    },
    /// A value does not fit its key, by itself or together with others.
    #[error("{place}: {key} = {value}: {right}")]
    BadValue {
        /// Source of the profile.
        place: String,
        /// The key with its group, such as `media.channels`.
        key: String,
        /// The value given.
        value: String,
        /// The right values.
        right: String,
    },
    /// There is no such key.
    #[error("{place}: no key `{key}`; {known}")]
    UnknownKey {
        /// Source of the profile.
        place: String,
        /// The key as given.
        key: String,
        /// All keys at that level, as a clause.
        known: String,
    },
    /// An override does not have the form.
    #[error("`{text}` is not an override; write key=value, such as controller.read_command_us=28")]
    Malformed {
        /// The text given.
        text: String,
    },
}

impl ProfileError {
    pub(super) fn syntax(text: &str, place: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map_or(0, |span| span.start).min(text.len());
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self::Syntax {
            place: place.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            // The parser puts its expectation on a line of its own.
            reason: in_plain_words(&error.message().lines().collect::<Vec<_>>().join("; ")),
        }
    }
}

/// The parser's description of its expectation, without the names of Rust's types.
pub(super) fn in_plain_words(reason: &str) -> String {
    let plain = [
        ("expected f64", "expected a number"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected a list in [ ]"),
        ("invalid type: ", "found "),
        ("invalid value: ", "found "),
        ("missing field ", "missing key "),
        ("unknown field ", "unknown key "),
    ];
    plain.iter().fold(reason.to_owned(), |text, (from, to)| text.replace(from, to))
}
