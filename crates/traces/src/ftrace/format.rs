//! The texts in which the kernel tells how its trace buffer and its events are laid out.

use crate::error::Bad;

/// Largest page of a trace buffer that is believed: the kernel allows 4 KiB times a small power of
/// two.
const MAX_PAGE_BYTES: usize = 1 << 20;

/// Place of a field in an event or in the head of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    offset: usize,
    size: usize,
    is_signed: bool,
}

impl Field {
    /// Its value, sign-extended if it has a sign; `None` if `bytes` end before it.
    #[inline]
    pub(super) fn get(self, bytes: &[u8]) -> Option<u64> {
        let field = bytes.get(self.offset..self.offset.checked_add(self.size)?)?;
        let value = field.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let unused = 64 - 8 * self.size as u32;
        Some(if self.is_signed { ((value << unused) as i64 >> unused) as u64 } else { value })
    }
}

/// One `field:` line: name, place.
fn fields(text: &str) -> impl Iterator<Item = (&str, Field)> {
    text.lines().filter_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let declared = parts.next()?;
        // `char comm[16]` and `const char * buf`: the name is the last word, without an array's
        // length.
        let name = declared.split_whitespace().next_back()?.trim_start_matches('*');
        let name = name.split('[').next()?;
        let (mut offset, mut size, mut is_signed) = (None, None, false);
        for part in parts {
            match part.split_once(':') {
                Some(("offset", value)) => offset = value.parse().ok(),
                Some(("size", value)) => size = value.parse().ok(),
                Some(("signed", value)) => is_signed = value == "1",
                _ => {}
            }
        }
        Some((name, Field { offset: offset?, size: size?, is_signed }))
    })
}

/// Layout of a page of the trace buffer: `events/header_page` of tracefs.
#[derive(Clone, Copy, Debug)]
pub struct PageLayout {
    /// Bytes of a page with its head.
    pub page_bytes: usize,
    pub(super) data_at: usize,
    pub(super) timestamp: Field,
    pub(super) commit: Field,
}

impl PageLayout {
    /// Reads the kernel's text.
    ///
    /// # Errors
    /// Names the field that is missing in it, or is of no size that a kernel has.
    pub fn parse(text: &str) -> Result<Self, String> {
        let find =
            |wanted: &str| fields(text).find(|(name, _)| *name == wanted).map(|(_, field)| field);
        let needed =
            |name: &str| find(name).ok_or_else(|| format!("header_page tells no field `{name}`"));
        let (timestamp, commit, data) = (needed("timestamp")?, needed("commit")?, needed("data")?);
        let page_bytes = data.offset.saturating_add(data.size);
        let is_sound = [timestamp, commit]
            .iter()
            .all(|f| matches!(f.size, 4 | 8) && f.offset.saturating_add(f.size) <= data.offset);
        if !is_sound || page_bytes > MAX_PAGE_BYTES || data.size == 0 {
            return Err(format!(
                "header_page tells pages of {page_bytes} bytes with data at {}",
                data.offset
            ));
        }
        Ok(Self { page_bytes, data_at: data.offset, timestamp, commit })
    }
}

/// Layout of one kind of event: `events/*/*/format` of tracefs.
#[derive(Clone, Debug)]
pub(super) struct EventFormat {
    pub(super) name: String,
    pub(super) id: u16,
    fields: Vec<(String, Field)>,
}

impl EventFormat {
    pub(super) fn parse(text: &str) -> Result<Self, Bad> {
        let value =
            |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
        let name = value("name:").unwrap_or("").to_owned();
        let id = value("ID:").unwrap_or("");
        let bad = || {
            Bad::field(
                "ID",
                id.as_bytes(),
                "a `format` file of tracefs: `name:`, `ID:` below 65536, and `field:` lines",
            )
        };
        let id = id.parse().map_err(|_| bad())?;
        let fields: Vec<(String, Field)> = fields(text)
            .filter(|(_, f)| f.size > 0)
            // Of a UUID, or a text, the beginning.
            .map(|(n, f)| (n.to_owned(), Field { size: f.size.min(8), ..f }))
            .collect();
        Ok(Self { name, id, fields })
    }

    /// A field, by its name.
    pub(super) fn field(&self, name: &str) -> Result<Field, Bad> {
        let found = self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field);
        found.ok_or_else(|| {
            Bad::new(
                format!("event {} has no field `{name}`", self.name),
                "the format of an event that this reads",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_understood() {
        let page = PageLayout::parse(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t \
             commit;\toffset:8;\tsize:8;\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char \
             data;\toffset:16;\tsize:4080;\tsigned:0;\n",
        );
        assert_eq!(page.unwrap().page_bytes, 4096);
        let format = EventFormat::parse(
            "name: sys_enter_write\nID: 12\nformat:\n\tfield:unsigned short \
             common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:const char * buf;\toffset:24;\tsize:8;\tsigned:0;\n\tfield:int \
             fd;\toffset:8;\tsize:4;\tsigned:1;\n",
        );
        let format = format.unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sys_enter_write", 12));
        let bytes: Vec<u8> = (0..8).chain([0xfe, 0xff, 0xff, 0xff]).collect();
        assert_eq!(format.field("fd").unwrap().get(&bytes), Some(-2i64 as u64));
        assert_eq!(format.field("buf").unwrap().get(&bytes), None);
        assert!(format.field("count").is_err());
        assert!(EventFormat::parse("name: x\nID: 70000\n").is_err());
        assert!(PageLayout::parse("").is_err());
    }
}
