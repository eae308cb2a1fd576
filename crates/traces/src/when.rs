//! Dates and times of day as text.

use crate::fields::whole;

const DAY_S: u64 = 86_400;

/// Nanoseconds since 1970 of a date such as `2026-11-27 10:00:00.25`, with `T` between both and `Z`
/// or an offset such as `+01:00` behind if it has such; of a time of day alone those since midnight.
pub(crate) fn since_1970(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let text = text.strip_suffix("UTC").map_or(text, str::trim_end);
    let (days, clock) = match text.split_once(['T', ' ']) {
        Some((date, clock)) => (days_since_1970(date)?, clock.trim_start()),
        None => (0, text),
    };
    let (clock, ahead_s) = zone(clock)?;
    let mut parts = clock.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let two = |text: &str, most: u64| {
        whole(text.as_bytes()).filter(|value| *value < most && (1..=2).contains(&text.len()))
    };
    let (whole_s, fraction) = seconds.split_once(['.', ',']).unwrap_or((seconds, ""));
    if fraction.len() > 12 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let ns: u64 = format!("{fraction:0<9}")[..9].parse().ok()?;
    let of_day = two(hours, 24)? * 3600 + two(minutes, 60)? * 60 + two(whole_s, 61)?;
    let seconds = days.checked_mul(DAY_S)?.checked_add(of_day)?;
    seconds.checked_add_signed(-ahead_s)?.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// A time of day without the zone behind it, and by how many seconds that is ahead.
fn zone(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix('Z') {
        return Some((clock.trim_end(), 0));
    }
    let Some(at) = clock.rfind(['+', '-']) else { return Some((clock, 0)) };
    let sign = if clock.as_bytes()[at] == b'+' { 1 } else { -1 };
    let digits: String = clock[at + 1..].chars().filter(|c| *c != ':').collect();
    let number = whole(digits.as_bytes())? as i64;
    let seconds = match digits.len() {
        2 => number * 3600,
        4 => number / 100 * 3600 + number % 100 * 60,
        _ => return None,
    };
    Some((clock[..at].trim_end(), sign * seconds))
}

fn days_since_1970(date: &str) -> Option<u64> {
    let mut parts = date.split(['-', '/']);
    let mut next = || whole(parts.next()?.as_bytes());
    let (year, month, day) = (next()?, next()?, next()?);
    if parts.next().is_some()
        || !(1970..10_000).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
    {
        return None;
    }
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + of_year;
    days.checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::since_1970;

    #[test]
    fn dates_with_and_without_zones_are_read() {
        const NOON: u64 = 1_795_780_800;
        for (text, ns) in [
            ("1970-01-01 00:00:00", 0),
            ("2026-11-27T12:00:00Z", NOON * 1_000_000_000),
            ("2026-11-27 13:00:00.25+01:00", NOON * 1_000_000_000 + 250_000_000),
            ("2026/11/27 12:00:00.000001 UTC", NOON * 1_000_000_000 + 1_000),
            ("2026-11-27 07:00:00-0500", NOON * 1_000_000_000),
            ("00:00:01.5", 1_500_000_000),
        ] {
            assert_eq!(since_1970(text.as_bytes()), Some(ns), "{text}");
        }
        for text in ["", "12", "2026-13-01 00:00:00", "1:2", "2026-11-27", "24:00:00", "a:b:c"] {
            assert_eq!(since_1970(text.as_bytes()), None, "{text}");
        }
    }
}
