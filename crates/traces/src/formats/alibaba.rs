//! Block traces of Alibaba's cloud disks.

use registry::Info;
use units::IoRequest;

use crate::error::Bad;
use crate::fields::{Split, exactly, is_header, number, number32, read_or_write};
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

impl LineFormat for Alibaba {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
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
}
