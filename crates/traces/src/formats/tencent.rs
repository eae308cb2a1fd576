//! Traces of Tencent's cloud block storage.

use registry::Info;
use units::{IoOp, IoRequest};

use crate::error::Bad;
use crate::fields::{Plain, SECTOR_BYTES, Split, exactly, is_header, number, number32};
use crate::formats::{Fit, Format};
use crate::reader::{checked, sectors};
use crate::text::{LineFormat, TextReader, fit_of_lines};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "tencent",
        aliases: &["tencent_cbs"],
        summary: "Tencent CBS: Timestamp,Offset,Size,IOType,VolumeID; seconds, 512-byte sectors, \
                  IOType 0 read, 1 write",
        source: "Zhang et al.: OSCA, USENIX ATC 2020; SNIA IOTTA, Tencent Block Storage Traces",
        params: &[],
    },
    endings: &[".csv"],
    fit: |head| if head.bytes.contains(&b',') { fit_of_lines(head, Tencent) } else { Fit::No },
    read: |input, _, skip_bad| Ok(Box::new(TextReader::new(input, Tencent, skip_bad))),
    write: None,
};

const LAYOUT: &str = "Timestamp,Offset,Size,IOType,VolumeID";

struct Tencent;

/// A request of a line as nearly all are. Traces have 10^10 of them.
#[inline]
fn plain(line: &[u8]) -> Option<IoRequest> {
    let mut fields = Plain(line);
    let (at, offset, size) = (fields.number()?, fields.number()?, fields.number()?);
    let op = match fields.letter()? {
        b'0' => IoOp::Read,
        b'1' => IoOp::Write,
        _ => return None,
    };
    let volume = u32::try_from(fields.number()?).ok()?;
    if !fields.0.is_empty() {
        return None;
    }
    let (offset, size) = (offset.checked_mul(SECTOR_BYTES)?, size.checked_mul(SECTOR_BYTES)?);
    checked(at.checked_mul(1_000_000_000)?, op, offset, size, volume).ok()
}

impl LineFormat for Tencent {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        if let Some(request) = plain(line) {
            out.push(request);
            return Ok(());
        }
        if is_header(line, LAYOUT) {
            return Ok(());
        }
        let [at, offset, size, op, volume] = exactly(&mut Split::commas(line), LAYOUT)?;
        let op = match op {
            b"0" => IoOp::Read,
            b"1" => IoOp::Write,
            _ => return Err(Bad::field("IOType", op, "0 (read) or 1 (write)")),
        };
        let time_ns = number("Timestamp", at)?.checked_mul(1_000_000_000);
        let time_ns =
            time_ns.ok_or_else(|| Bad::field("Timestamp", at, "seconds that fit 2^64 ns"))?;
        let offset = sectors("Offset", number("Offset", offset)?, SECTOR_BYTES)?;
        let size = sectors("Size", number("Size", size)?, SECTOR_BYTES)?;
        out.push(checked(time_ns, op, offset, size, number32("VolumeID", volume)?)?);
        Ok(())
    }

    fn streams_are_volumes(&self) -> bool {
        true
    }

    fn is_stateless(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_plain_line_is_read_as_any_other(
            line in "[0-9]{1,12},[0-9]{1,20},[0-9]{0,6},[012],[0-9]{1,12},?",
        ) {
            // With a space it is none that is plain.
            let (mut found, mut careful) = (Vec::new(), Vec::new());
            let is_read = Tencent.line(line.as_bytes(), &mut found).is_ok();
            let spaced = line.replacen(',', " ,", 1);
            prop_assert_eq!(Tencent.line(spaced.as_bytes(), &mut careful).is_ok(), is_read);
            prop_assert_eq!(found, careful);
        }
    }
}
