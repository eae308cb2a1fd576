//! Overrides: single keys of a profile set from the command line.

use registry::{parse_bytes, parse_count};
use toml::{Table, Value};

use super::error::in_plain_words;
use super::{Profile, ProfileError};

/// Keys that describe a profile, not the drive's behaviour.
const ABOUT: [&str; 4] = ["name", "summary", "sources", "fitted"];

impl Profile {
    /// Sets one key, such as `controller.read_command_us` to `28`, `media.read_us` to `[25,900]` or
    /// `ftl.over_provisioning` to `20%`. Sizes may end in `Ki`, `Mi`, `Gi`, `k`, `M` or `G`. Ranges
    /// are not checked, as several overrides may only be right together: call [`Profile::check`]
    /// after the last.
    ///
    /// A key of the drive is added to [`Profile::fitted`], as its value is no longer the published
    /// one.
    ///
    /// # Errors
    /// [`ProfileError::UnknownKey`] lists the keys at that level; [`ProfileError::BadValue`] if the
    /// value is of the wrong type. The profile is then unchanged.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ProfileError> {
        let place = self.place();
        let mut tree = self.tree();
        let old = find(&mut tree, key, &place)?;
        let bad = |right: &str| ProfileError::BadValue {
            place: place.clone(),
            key: key.to_owned(),
            value: value.to_owned(),
            right: right.to_owned(),
        };
        *old = like(old, key, value.trim()).map_err(bad)?;
        // Left for serde to refuse: words of an enum that do not exist, and numbers beyond 32 bits.
        let mut changed: Self = tree.try_into().map_err(|error: toml::de::Error| {
            bad(&in_plain_words(&error.message().replace('\n', "; ")))
        })?;
        if !ABOUT.contains(&key) && !changed.fitted.iter().any(|fitted| fitted == key) {
            changed.fitted.push(key.to_owned());
        }
        *self = changed;
        Ok(())
    }

    /// The profile with `key=value` overrides, checked.
    ///
    /// # Errors
    /// As [`Profile::set`] and [`Profile::check`]; [`ProfileError::Malformed`] if there is no `=`.
    pub fn with_overrides<S: AsRef<str>>(&self, overrides: &[S]) -> Result<Self, ProfileError> {
        let mut changed = self.clone();
        for text in overrides {
            let text = text.as_ref();
            let (key, value) = text
                .split_once('=')
                .ok_or_else(|| ProfileError::Malformed { text: text.to_owned() })?;
            changed.set(key.trim(), value)?;
        }
        changed.check()?;
        Ok(changed)
    }

    /// Name of this profile in errors when there is no file to name.
    pub(super) fn place(&self) -> String {
        format!("profile `{}`", self.name)
    }

    pub(super) fn tree(&self) -> Table {
        Table::try_from(self).unwrap_or_else(|error| panic!("a profile is a TOML table: {error}"))
    }
}

/// Returns true if a dotted key names a value or a group.
pub(super) fn exists(tree: &Table, key: &str) -> bool {
    match key.split_once('.') {
        None => tree.contains_key(key),
        Some((group, rest)) => {
            tree.get(group).and_then(Value::as_table).is_some_and(|inner| inner.contains_key(rest))
        }
    }
}

/// The keys at the level where a dotted key goes wrong, as a clause; `None` if it names a value.
fn known_instead(tree: &Table, key: &str) -> Option<String> {
    let list = |level: &Table, prefix: &str| {
        level.keys().map(|name| format!("{prefix}{name}")).collect::<Vec<_>>().join(", ")
    };
    let (group, rest) =
        key.split_once('.').map_or((key, None), |(group, rest)| (group, Some(rest)));
    match (tree.get(group), rest) {
        (None, _) => Some(format!("known are: {}", list(tree, ""))),
        (Some(Value::Table(inner)), None) => {
            Some(format!("`{group}` is a group of keys: {}", list(inner, &format!("{group}."))))
        }
        (Some(Value::Table(inner)), Some(rest)) if inner.contains_key(rest) => None,
        (Some(Value::Table(inner)), Some(_)) => {
            Some(format!("known in `{group}` are: {}", list(inner, "")))
        }
        (Some(_), None) => None,
        (Some(_), Some(_)) => Some(format!("`{group}` is a value, not a group of keys")),
    }
}

fn find<'a>(tree: &'a mut Table, key: &str, place: &str) -> Result<&'a mut Value, ProfileError> {
    if let Some(known) = known_instead(tree, key) {
        return Err(ProfileError::UnknownKey {
            place: place.to_owned(),
            key: key.to_owned(),
            known,
        });
    }
    Ok(match key.split_once('.') {
        None => &mut tree[key],
        Some((group, rest)) => &mut tree[group][rest],
    })
}

/// Parses the text as a value of the same type as the old one; if it is not one, gives the right
/// form.
fn like(old: &Value, key: &str, text: &str) -> Result<Value, &'static str> {
    const WHOLE: &str = "must be a whole number of 0 or more, such as 32 or 16Mi";
    const BYTES: &str = "must be a size in bytes, such as 4096 or 16Mi";
    const NUMBERS: &str = "must be numbers, such as [25,900]";
    match old {
        Value::String(_) => Ok(Value::String(text.trim_matches('"').to_owned())),
        Value::Integer(_) => {
            let (parse, right): (fn(&str) -> _, _) =
                if key.ends_with("bytes") { (parse_bytes, BYTES) } else { (parse_count, WHOLE) };
            let value = parse(text).and_then(|value| i64::try_from(value).ok());
            value.map(Value::Integer).ok_or(right)
        }
        Value::Float(_) => registry::parse_number(text)
            .map(Value::Float)
            .ok_or("must be a number, such as 2.5 or 7%"),
        Value::Boolean(_) => text.parse().map(Value::Boolean).map_err(|_| "must be true or false"),
        Value::Array(items) if matches!(items.first(), Some(Value::Float(_))) => {
            let inside =
                text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
            let numbers =
                inside.split(',').map(|item| registry::parse_number(item.trim()).map(Value::Float));
            numbers.collect::<Option<Vec<_>>>().map(Value::Array).ok_or(NUMBERS)
        }
        Value::Array(_) => match format!("list = {text}")
            .parse::<Table>()
            .ok()
            .and_then(|mut table| table.remove("list"))
        {
            Some(list @ Value::Array(_)) => Ok(list),
            _ => Err("must be a list of texts, such as [\"media.read_us\"]"),
        },
        Value::Datetime(_) | Value::Table(_) => {
            unreachable!("a profile has no dates, and groups are told before")
        }
    }
}
