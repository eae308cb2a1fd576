//! Times among parameters.

use registry::SpecError;
use units::Nanos;

/// Reads a time with its unit, in seconds if it has none; none for the word that stands for none.
pub fn parse_time(
    layer: &'static str,
    key: &str,
    text: &str,
    none: &str,
) -> Result<Option<Nanos>, SpecError> {
    if text == none {
        return Ok(None);
    }
    // `s` comes after those that end in it, too.
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("", 1e9)];
    let bad = || SpecError::BadValue {
        name: layer,
        key: key.to_owned(),
        value: text.to_owned(),
        right: format!("a time above 0 such as 3s, 250ms or 80us, nor `{none}`"),
    };
    units
        .iter()
        .find_map(|(unit, ns)| Some((text.strip_suffix(unit)?.trim().parse::<f64>().ok()?, ns)))
        .map(|(count, ns)| (count * ns).round())
        .filter(|ns| (1.0..=1e18).contains(ns))
        .map(|ns| Some(ns as Nanos))
        .ok_or_else(bad)
}
