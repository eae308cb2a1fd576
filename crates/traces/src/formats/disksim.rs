//! DiskSim's ASCII traces.

use registry::Info;
use units::{IoOp, IoRequest};

use crate::error::Bad;
use crate::fields::{SECTOR_BYTES, Words, exactly, number, number32, time};
use crate::formats::{Fit, Format};
use crate::reader::{checked, sectors};
use crate::text::{LineFormat, TextReader, fit_of_lines};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "disksim",
        aliases: &["disksim_ascii"],
        summary: "DiskSim ASCII: arrival time (ms, with decimals), device, block (512 bytes), \
                  blocks, flags (1 read, 0 write)",
        source: "Bucy, Schindler, Schlosser, Ganger: The DiskSim 4.0 Reference Manual, \
                 CMU-PDL-08-101, section 5.3.1 (default ASCII format)",
        params: &[],
    },
    endings: &[".trace", ".ascii", ".dis"],
    fit: |head| {
        // Without a decimal point in the first time, the same five numbers are MQSim's, in
        // nanoseconds.
        let point = head
            .lines()
            .next()
            .and_then(|line| Words(line).next())
            .is_some_and(|at| at.contains(&b'.'));
        if point { fit_of_lines(head, DiskSim) } else { Fit::No }
    },
    read: |input, _, skip_bad| Ok(Box::new(TextReader::new(input, DiskSim, skip_bad))),
    write: None,
};

struct DiskSim;

impl LineFormat for DiskSim {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        let [at, device, start, count, flags] =
            exactly(&mut Words(line), "time device block blocks flags")?;
        let op = match flags {
            b"1" => IoOp::Read,
            b"0" => IoOp::Write,
            _ => return Err(Bad::field("flags", flags, "1 (read) or 0 (write)")),
        };
        let offset = sectors("block", number("block", start)?, SECTOR_BYTES)?;
        let length = sectors("blocks", number("blocks", count)?, SECTOR_BYTES)?;
        out.push(checked(time("time", at, 6)?, op, offset, length, number32("device", device)?)?);
        Ok(())
    }

    fn streams_are_volumes(&self) -> bool {
        true
    }
}
