//! Fields of a line of text, taken from bytes without making strings.

use units::IoOp;

use crate::error::Bad;

/// Bytes of a disk sector, the unit of most formats.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// A whole number of digits only.
#[inline]
pub(crate) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A decimal number times 10^`digits`, exactly; what is beyond the last digit is cut off.
/// Numbers with an exponent go through `f64`.
#[inline]
pub(crate) fn scaled(text: &[u8], digits: usize) -> Option<u64> {
    let Some(point) = text.iter().position(|&b| b == b'.') else {
        return match whole(text) {
            Some(value) => value.checked_mul(10u64.pow(digits as u32)),
            None => scaled_float(text, digits),
        };
    };
    let (before, after) = (&text[..point], &text[point + 1..]);
    let mut value = if before.is_empty() { 0 } else { whole(before)? };
    if before.is_empty() && after.is_empty() {
        return None;
    }
    for place in 0..after.len().max(digits) {
        let digit = after.get(place).map_or(0, |b| b.wrapping_sub(b'0'));
        if digit > 9 {
            return scaled_float(text, digits);
        }
        if place < digits {
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        }
    }
    Some(value)
}

#[cold]
fn scaled_float(text: &[u8], digits: usize) -> Option<u64> {
    if !text.iter().any(|b| matches!(b, b'e' | b'E')) {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let value = (value * 10f64.powi(digits as i32)).round();
    (value >= 0.0 && value < 2f64.powi(64)).then_some(value as u64)
}

/// Fields between commas, spaces around them left out.
pub(crate) struct Commas<'a>(pub(crate) Option<&'a [u8]>);

impl<'a> Iterator for Commas<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let field = match memchr::memchr(b',', rest) {
            Some(at) => {
                self.0 = Some(&rest[at + 1..]);
                &rest[..at]
            }
            None => {
                self.0 = None;
                rest
            }
        };
        Some(field.trim_ascii())
    }
}

/// Words between spaces or tabs.
pub(crate) struct Words<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|b| !b.is_ascii_whitespace())?;
        let rest = &self.0[start..];
        let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        self.0 = &rest[length..];
        Some(&rest[..length])
    }
}

/// Takes `N` fields and refuses more or fewer. `layout` names them.
#[inline]
pub(crate) fn exactly<'a, const N: usize>(
    fields: &mut impl Iterator<Item = &'a [u8]>,
    layout: &'static str,
) -> Result<[&'a [u8]; N], Bad> {
    let taken = at_least(fields, layout)?;
    match fields.next() {
        None => Ok(taken),
        Some(_) => {
            Err(Bad::new(format!("{} fields instead of {N}", N + 1 + fields.count()), layout))
        }
    }
}

/// Takes `N` fields and leaves the rest.
#[inline]
pub(crate) fn at_least<'a, const N: usize>(
    fields: &mut impl Iterator<Item = &'a [u8]>,
    layout: &'static str,
) -> Result<[&'a [u8]; N], Bad> {
    let mut taken = [&[][..]; N];
    for (index, place) in taken.iter_mut().enumerate() {
        *place = fields
            .next()
            .ok_or_else(|| Bad::new(format!("{index} fields instead of {N}"), layout))?;
    }
    Ok(taken)
}

/// A field that must be a whole number.
#[inline]
pub(crate) fn number(name: &'static str, text: &[u8]) -> Result<u64, Bad> {
    whole(text).ok_or_else(|| Bad::field(name, text, "a whole number below 2^64"))
}

/// A field that must be a whole number of 32 bits.
#[inline]
pub(crate) fn number32(name: &'static str, text: &[u8]) -> Result<u32, Bad> {
    whole(text)
        .and_then(|v| u32::try_from(v).ok())
        .ok_or_else(|| Bad::field(name, text, "a whole number below 2^32"))
}

/// A time with decimals, in units of 10^`digits` nanoseconds.
#[inline]
pub(crate) fn time(name: &'static str, text: &[u8], digits: usize) -> Result<u64, Bad> {
    scaled(text, digits).ok_or_else(|| Bad::field(name, text, "a number from 0 that fits 2^64 ns"))
}

/// `R` or `W`, in either case.
#[inline]
pub(crate) fn read_or_write(name: &'static str, text: &[u8]) -> Result<IoOp, Bad> {
    match text {
        b"R" | b"r" => Ok(IoOp::Read),
        b"W" | b"w" => Ok(IoOp::Write),
        _ => Err(Bad::field(name, text, "R or W")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whole_numbers_are_read_as_the_standard_library_does(text in "[0-9+. e-]{0,22}") {
            let plain = text.bytes().all(|b| b.is_ascii_digit());
            let expected = if plain && text.len() <= 20 { text.parse::<u64>().ok() } else { None };
            prop_assert_eq!(whole(text.as_bytes()), expected);
        }

        #[test]
        fn decimals_are_exact(
            before in 0u64..1_000_000_000,
            after in "[0-9]{0,12}",
            digits in 0usize..9,
        ) {
            let mut cut = after.clone();
            cut.truncate(digits);
            let expected = format!("{before}{cut:0<digits$}").parse::<u64>().unwrap();
            prop_assert_eq!(scaled(format!("{before}.{after}").as_bytes(), digits), Some(expected));
        }
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for text in [
            &b"."[..],
            b"",
            b"-1",
            b"-1.5",
            b"1.2.3",
            b"1.x",
            b"nan",
            b"1e30",
            b"-1e3",
            b"99999999999999999999",
        ] {
            assert_eq!(scaled(text, 6), None, "{}", text.escape_ascii());
        }
        assert_eq!(scaled(b"1.5e-3", 9), Some(1_500_000));
        assert_eq!(scaled(b".5", 3), Some(500));
        assert_eq!(scaled(b"5.", 3), Some(5000));
    }
}
