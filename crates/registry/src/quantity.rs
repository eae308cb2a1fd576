//! Sizes, counts, numbers and durations as people write them: one grammar for every option, profile
//! key and parameter.
//!
//! | what | units | of |
//! |---|---|---|
//! | bytes | `k` `M` `G` `T`, also with `i` or `iB`: `4k`, `4Ki`, `4KiB` | 1,024 |
//! | bytes | `kB` `MB` `GB` `TB`: `4kB` | 1,000 |
//! | counts | `k` `M` `G` `T`: `1M` | 1,000 |
//! | counts | `Ki` `Mi` `Gi` `Ti`: `1Mi` | 1,024 |
//! | durations | `ns` `us` `ms` `s` `min` `h` `d` | |
//!
//! Bytes are as fio and dd have them. Upper and lower case are the same, a unit may stand apart
//! from its number, and digits may be grouped by `_`. A fraction has to give a whole number:
//! `1.5Ki`.

/// A number that is written with digits, and what follows it.
fn split(text: &str) -> Option<(u128, u32, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_')));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || number.ends_with('.') || fraction.contains('.') {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok().filter(|_| number.len() <= 30)?;
    Some((digits, fraction.len() as u32, unit.trim().to_lowercase()))
}

/// So many digits, of which so many behind the point, times a unit: if that is whole.
fn whole(digits: u128, behind: u32, unit: u64) -> Option<u64> {
    let (all, parts) = (digits.checked_mul(u128::from(unit))?, 10_u128.checked_pow(behind)?);
    if all.is_multiple_of(parts) { u64::try_from(all / parts).ok() } else { None }
}

/// Exponent that a letter stands for.
fn power(letter: &str) -> Option<u32> {
    ["", "k", "m", "g", "t"].iter().position(|known| *known == letter).map(|power| power as u32)
}

/// Bytes: `4096`, `4k`, `4Ki`, `4KiB` are the same; `4kB` is 4,000.
///
/// ```
/// assert_eq!(registry::parse_bytes("1.5 MiB"), Some(1_572_864));
/// ```
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, behind, unit) = split(text)?;
    let binary = unit.strip_suffix("ib").or_else(|| unit.strip_suffix('i'));
    let unit = match (binary, unit.strip_suffix('b')) {
        (Some(letter), _) if !letter.is_empty() => 1024_u64.pow(power(letter)?),
        (Some(_), _) => return None,
        (None, Some(letter)) => 1000_u64.pow(power(letter)?),
        (None, None) => 1024_u64.pow(power(&unit)?),
    };
    whole(digits, behind, unit)
}

/// A count: `1M` is 1,000,000, `1Mi` 1,048,576.
///
/// ```
/// assert_eq!(registry::parse_count("64Ki"), Some(65_536));
/// ```
#[must_use]
pub fn parse_count(text: &str) -> Option<u64> {
    let (digits, behind, unit) = split(text)?;
    let unit = match unit.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => 1024_u64.pow(power(letter)?),
        Some(_) => return None,
        None => 1000_u64.pow(power(&unit)?),
    };
    whole(digits, behind, unit)
}

/// A finite number: `0.07`, `7%`.
#[must_use]
pub fn parse_number(text: &str) -> Option<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    value.is_finite().then_some(value)
}

/// A duration in seconds: `90`, `1.5min`, `200 us`. A plain number is of `unit` seconds.
///
/// ```
/// assert_eq!(registry::parse_duration("2min", 1.0), Some(120.0));
/// ```
#[must_use]
pub fn parse_duration(text: &str, unit: f64) -> Option<f64> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("min", 60.0),
        ("s", 1.0),
        ("h", 3600.0),
        ("d", 86_400.0),
    ];
    let text = text.trim();
    let named = UNITS.iter().find_map(|(name, seconds)| Some((text.strip_suffix(name)?, *seconds)));
    let (number, unit) = named.unwrap_or((text, unit));
    let value: f64 = number.trim().replace('_', "").parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value * unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_as_fio_and_dd_have_them() {
        for text in ["4096", "4k", "4K", "4Ki", "4KiB", "4kib", "4 KiB", "4_096", "4096B", "0.004M"]
        {
            let is_whole = text != "0.004M";
            assert_eq!(parse_bytes(text), is_whole.then_some(4096), "{text}");
        }
        assert_eq!(parse_bytes("4kB"), Some(4000));
        assert_eq!(parse_bytes("4MB"), Some(4_000_000));
        assert_eq!(parse_bytes("1.5G"), Some(3 << 29));
        assert_eq!(parse_bytes("2TiB"), Some(2 << 40));
    }

    #[test]
    fn counts_are_of_thousands_unless_they_say_otherwise() {
        assert_eq!(parse_count("1M"), Some(1_000_000));
        assert_eq!(parse_count("1Mi"), Some(1 << 20));
        assert_eq!(parse_count("2.5k"), Some(2500));
    }

    #[test]
    fn durations_have_units() {
        for (text, seconds) in
            [("90", 90.0), ("1.5min", 90.0), ("90 s", 90.0), ("0.025h", 90.0), ("90000ms", 90.0)]
        {
            assert!((parse_duration(text, 1.0).unwrap() - seconds).abs() < 1e-9, "{text}");
        }
        assert!((parse_duration("5", 1e-6).unwrap() - 5e-6).abs() < 1e-15);
        assert_eq!(parse_duration("5d", 1.0), Some(432_000.0));
    }

    #[test]
    fn what_is_none_of_these_is_refused() {
        for text in ["", "k", "i", "1i", "4x", "-1", "1..5", ".5", "1.", "1.5", "0.1k", "99999999T"]
        {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
        for text in ["", "1B", "1KiB", "1i", "-1", "1.5", "1e6"] {
            assert_eq!(parse_count(text), None, "{text}");
        }
        for text in ["", "s", "-1s", "1 week", "nan", "inf"] {
            assert_eq!(parse_duration(text, 1.0), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(number in 0_u64..1 << 22, power in 0_usize..5, apart: bool) {
            let letter = ["", "k", "M", "G", "T"][power];
            let space = if apart { " " } else { "" };
            let of = |base: u64| Some(number * base.pow(power as u32));
            let text = |suffix: &str| format!("{number}{space}{letter}{suffix}");
            prop_assert_eq!(parse_bytes(&text("")), of(1024));
            prop_assert_eq!(parse_bytes(&text("B")), of(1000));
            prop_assert_eq!(parse_count(&text("")), of(1000));
            if power > 0 {
                prop_assert_eq!(parse_bytes(&text("i")), of(1024));
                prop_assert_eq!(parse_bytes(&text("iB")), of(1024));
                prop_assert_eq!(parse_count(&text("i")), of(1024));
            }
        }
    }
}
