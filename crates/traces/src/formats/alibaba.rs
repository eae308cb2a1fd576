//! Block traces of Alibaba's cloud disks.

use registry::Info;
use units::{IoOp, IoRequest};

use crate::error::Bad;
use crate::fields::{Plain, Split, exactly, is_header, number, number32, read_or_write};
use crate::formats::{Fit, Format};
use crate::reader::checked;
use crate::text::{LineFormat, TextReader, fit_of_lines};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "alibaba",
        aliases: &["alibaba_2020"],
        summary: "Alibaba cloud disks: device_id,opcode,offset,length,timestamp; bytes and \
                  microseconds",
        source: "Li, Wang, Lee, Shi: An In-Depth Analysis of Cloud Block Storage Workloads, IISWC \
                 2020; alibaba/block-traces",
        params: &[],
    },
    endings: &[".csv"],
    fit: |head| if head.bytes.contains(&b',') { fit_of_lines(head, Alibaba) } else { Fit::No },
    read: |input, _, skip_bad| Ok(Box::new(TextReader::new(input, Alibaba, skip_bad))),
    write: None,
};

const LAYOUT: &str = "device_id,opcode,offset,length,timestamp";

struct Alibaba;

/// A request of a line as nearly all are. Traces have 10^10 of them.
#[inline]
fn plain(line: &[u8]) -> Option<IoRequest> {
    let mut fields = Plain(line);
    let device = u32::try_from(fields.number()?).ok()?;
    let op = match fields.letter()? {
        b'R' => IoOp::Read,
        b'W' => IoOp::Write,
        _ => return None,
    };
    let (offset, length, at) = (fields.number()?, fields.number()?, fields.number()?);
    if !fields.0.is_empty() {
        return None;
    }
    checked(at.checked_mul(1000)?, op, offset, length, device).ok()
}

impl LineFormat for Alibaba {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        if let Some(request) = plain(line) {
            out.push(request);
            return Ok(());
        }
        if is_header(line, LAYOUT) {
            return Ok(());
        }
        let [device, op, offset, length, at] = exactly(&mut Split::commas(line), LAYOUT)?;
        let op = read_or_write("opcode", op)?;
        let time_ns = number("timestamp", at)?.checked_mul(1000);
        let time_ns =
            time_ns.ok_or_else(|| Bad::field("timestamp", at, "microseconds that fit 2^64 ns"))?;
        out.push(checked(
            time_ns,
            op,
            number("offset", offset)?,
            number("length", length)?,
            number32("device_id", device)?,
        )?);
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
            line in "[0-9]{1,12},[RWr],[0-9]{1,20},[0-9]{0,6},[0-9]{1,19},?",
        ) {
            // With a space it is none that is plain.
            let (mut found, mut careful) = (Vec::new(), Vec::new());
            let is_read = Alibaba.line(line.as_bytes(), &mut found).is_ok();
            let spaced = line.replacen(',', " ,", 1);
            prop_assert_eq!(Alibaba.line(spaced.as_bytes(), &mut careful).is_ok(), is_read);
            prop_assert_eq!(found, careful);
        }
    }
}
