//! MSR Cambridge block traces.

use registry::Info;
use units::IoRequest;

use crate::error::Bad;
use crate::fields::{Split, exactly, is_header, number, number32, read_or_write};
use crate::formats::{Fit, Format};
use crate::reader::checked;
use crate::text::{LineFormat, TextReader, fit_of_lines};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "msr",
        aliases: &["msr_cambridge"],
        summary: "MSR Cambridge CSV: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime; \
                  times in 100 ns (Windows FILETIME)",
        source: "Narayanan, Donnelly, Rowstron: Write Off-Loading, FAST 2008; SNIA IOTTA",
        params: &[],
    },
    endings: &[".csv"],
    fit: |head| if head.bytes.contains(&b',') { fit_of_lines(head, Msr) } else { Fit::No },
    read: |input, _, skip_bad| Ok(Box::new(TextReader::new(input, Msr, skip_bad))),
    write: None,
};

const LAYOUT: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

struct Msr;

impl LineFormat for Msr {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        if is_header(line, LAYOUT) {
            return Ok(());
        }
        let [time, _host, disk, op, offset, size, response] =
            exactly(&mut Split::commas(line), LAYOUT)?;
        let op = read_or_write("Type", op)?;
        let ns = |name, text| {
            number(name, text)?
                .checked_mul(100)
                .ok_or_else(|| Bad::field(name, text, "a time in 100 ns that fits 2^64 ns"))
        };
        let mut request = checked(
            ns("Timestamp", time)?,
            op,
            number("Offset", offset)?,
            number("Size", size)?,
            number32("DiskNumber", disk)?,
        )?;
        request.latency_ns = Some(ns("ResponseTime", response)?);
        out.push(request);
        Ok(())
    }

    fn streams_are_volumes(&self) -> bool {
        true
    }
}
