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

/// Fields between commas of a line as most are: without spaces, quotes and signs. What it does not
/// know is read by [`Split`], which takes all that is right.
pub(crate) struct Plain<'a>(pub(crate) &'a [u8]);

impl Plain<'_> {
    /// A whole number of at most 19 digits.
    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        const MOST_DIGITS: usize = 19;
        let (mut value, mut count) = (0u64, 0);
        for &byte in self.0.iter().take(MOST_DIGITS) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value * 10 + u64::from(digit);
            count += 1;
        }
        self.pass(count)?;
        (count > 0).then_some(value)
    }

    /// A field of one byte.
    #[inline]
    pub(crate) fn letter(&mut self) -> Option<u8> {
        let letter = *self.0.first()?;
        self.pass(1)?;
        Some(letter)
    }

    /// Passes over a field that ends after so many bytes, and the comma behind it.
    #[inline]
    fn pass(&mut self, count: usize) -> Option<()> {
        self.0 = match self.0.get(count) {
            None => &[],
            Some(b',') => &self.0[count + 1..],
            Some(_) => return None,
        };
        Some(())
    }
}

/// Fields between commas or another mark, spaces and quotes around them left out.
pub(crate) struct Split<'a> {
    rest: Option<&'a [u8]>,
    mark: u8,
}

impl<'a> Split<'a> {
    pub(crate) fn new(line: &'a [u8], mark: u8) -> Self {
        Self { rest: Some(line), mark }
    }

    pub(crate) fn commas(line: &'a [u8]) -> Self {
        Self::new(line, b',')
    }

    /// Finds the end of the field: a mark within quotes is a part of it.
    fn end(&self, rest: &[u8]) -> Option<usize> {
        let start = rest.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
        let from = match rest.get(start) {
            Some(b'"') => start + 1 + memchr::memchr(b'"', &rest[start + 1..])?,
            _ => 0,
        };
        memchr::memchr(self.mark, &rest[from..]).map(|at| from + at)
    }
}

impl<'a> Iterator for Split<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let field = match self.end(rest) {
            Some(at) => {
                self.rest = Some(&rest[at + 1..]);
                &rest[..at]
            }
            None => {
                self.rest = None;
                rest
            }
        };
        Some(unquoted(field.trim_ascii()))
    }
}

#[inline]
fn unquoted(field: &[u8]) -> &[u8] {
    match field {
        [b'"', inner @ .., b'"'] => inner.trim_ascii(),
        plain => plain,
    }
}

/// Returns true if a text is this name of a column, whatever its case, spaces and underscores.
pub(crate) fn is_named(text: &[u8], name: &[u8]) -> bool {
    let plain = |text: &[u8]| -> Vec<u8> {
        let letters = text.iter().filter(|b| b.is_ascii_alphanumeric());
        letters.map(u8::to_ascii_lowercase).collect()
    };
    plain(text) == plain(name)
}

/// Returns true if a line names the columns of a layout, in its order.
pub(crate) fn is_header(line: &[u8], layout: &str) -> bool {
    // Most lines begin with a number.
    let first = line.iter().find(|b| !matches!(b, b' ' | b'"' | b'\t' | b'#'));
    if first.is_none_or(|b| !b.is_ascii_alphabetic()) {
        return false;
    }
    let (mut names, mut wanted) = (Split::commas(line), layout.split(','));
    loop {
        match (names.next(), wanted.next()) {
            (None, None) => return true,
            (Some(name), Some(wanted)) if is_named(name, wanted.as_bytes()) => {}
            _ => return false,
        }
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
        Some(more) => {
            let others = fields.count();
            // A comma at the end of the line is none between two fields.
            if more.is_empty() && others == 0 {
                return Ok(taken);
            }
            Err(Bad::new(format!("{} fields instead of {N}", N + 1 + others), layout))
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

/// A whole number with zeros behind a point, as tables with gaps are written.
#[cold]
fn whole_decimal(text: &[u8]) -> Option<u64> {
    let at = text.iter().position(|b| *b == b'.')?;
    text[at + 1..].iter().all(|b| *b == b'0').then(|| whole(&text[..at]))?
}

/// A field that must be a whole number.
#[inline]
pub(crate) fn number(name: &'static str, text: &[u8]) -> Result<u64, Bad> {
    whole(text)
        .or_else(|| whole_decimal(text))
        .ok_or_else(|| Bad::field(name, text, "a whole number below 2^64"))
}

/// A field that must be a whole number of 32 bits.
#[inline]
pub(crate) fn number32(name: &'static str, text: &[u8]) -> Result<u32, Bad> {
    whole(text)
        .or_else(|| whole_decimal(text))
        .and_then(|v| u32::try_from(v).ok())
        .ok_or_else(|| Bad::field(name, text, "a whole number below 2^32"))
}

/// A time with decimals, in units of 10^`digits` nanoseconds.
#[inline]
pub(crate) fn time(name: &'static str, text: &[u8], digits: usize) -> Result<u64, Bad> {
    scaled(text, digits).ok_or_else(|| Bad::field(name, text, "a number from 0 that fits 2^64 ns"))
}

/// A word for a read or a write, in any case: a letter or the whole word.
#[inline]
pub(crate) fn read_or_write(name: &'static str, text: &[u8]) -> Result<IoOp, Bad> {
    match text {
        b"R" | b"r" | b"Read" => Ok(IoOp::Read),
        b"W" | b"w" | b"Write" => Ok(IoOp::Write),
        _ if text.eq_ignore_ascii_case(b"read") => Ok(IoOp::Read),
        _ if text.eq_ignore_ascii_case(b"write") => Ok(IoOp::Write),
        _ => Err(Bad::field(name, text, "R or W, Read or Write")),
    }
}

/// A word for any operation, in any case.
pub(crate) fn operation(text: &[u8]) -> Option<IoOp> {
    let lower = text.trim_ascii().to_ascii_lowercase();
    match lower.as_slice() {
        b"r" | b"rd" | b"read" | b"reads" => Some(IoOp::Read),
        b"w" | b"wr" | b"write" | b"writes" => Some(IoOp::Write),
        b"d" | b"t" | b"trim" | b"discard" | b"unmap" => Some(IoOp::Trim),
        b"f" | b"flush" | b"sync" | b"fsync" | b"datasync" | b"fdatasync" => Some(IoOp::Flush),
        _ => None,
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
    fn fields_may_have_quotes_blanks_and_marks_within_quotes() {
        let fields = |line: &'static str| Split::commas(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(fields(r#"1, "a, b" ,"",x"#), [&b"1"[..], b"a, b", b"", b"x"]);
        assert_eq!(fields(r#""open,1"#), [&br#""open,1"#[..]]);
        assert_eq!(fields(""), [b""]);
        assert!(is_header(b"\"Device ID\", OPCODE,offset", "device_id,opcode,offset"));
        assert!(!is_header(b"device_id,offset,opcode", "device_id,opcode,offset"));
        assert!(!is_header(b"0,R,1", "device_id,opcode,offset"));
        assert_eq!(number("n", b"4096.0").unwrap(), 4096);
        assert!(number("n", b"4096.5").is_err());
    }

    #[test]
    fn plain_fields_are_those_that_any_reader_takes() {
        let read = |line: &'static str| {
            let mut plain = Plain(line.as_bytes());
            let found = (plain.number()?, plain.letter()?, plain.number()?);
            plain.0.is_empty().then_some(found)
        };
        assert_eq!(read("12,R,0"), Some((12, b'R', 0)));
        assert_eq!(read("9999999999999999999,W,1"), Some((9_999_999_999_999_999_999, b'W', 1)));
        for other in ["12, R,0", "12,Read,0", ",R,0", "+1,R,0", "1,R,99999999999999999999"] {
            assert_eq!(read(other), None, "{other}");
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
