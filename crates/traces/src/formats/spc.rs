//! Traces of the Storage Performance Council's format, as the UMass repository has them.

use registry::{Args, Info, Param, ParamKind};
use units::IoRequest;

use crate::error::Bad;
use crate::fields::{Split, at_least, is_header, number, number32, read_or_write, time};
use crate::formats::{Fit, Format};
use crate::reader::{Facts, checked, sectors};
use crate::text::{LineFormat, TextReader, fit_of_lines};
use crate::units_seen::UnitsSeen;

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "spc",
        aliases: &["umass"],
        summary: "SPC / UMass: ASU,LBA,Size,Opcode,Timestamp; size in bytes, time in seconds; \
                  further fields are allowed and ignored",
        source: "SPC Trace File Format Specification 1.0.1, section 2; UMass trace repository \
                 (Financial, WebSearch)",
        params: &[Param {
            name: "lba_bytes",
            kind: ParamKind::Bytes { min: 1, max: 1 << 20 },
            default: "512",
            help: "bytes of a logical block, the unit of LBA",
        }],
    },
    endings: &[".spc"],
    fit: |head| {
        if head.bytes.contains(&b',') { fit_of_lines(head, Spc::new(512)) } else { Fit::No }
    },
    read: |input, args: &Args, skip_bad| {
        Ok(Box::new(TextReader::new(input, Spc::new(args.integer("lba_bytes")), skip_bad)))
    },
    write: None,
};

const LAYOUT: &str = "ASU,LBA,Size,Opcode,Timestamp";

struct Spc {
    lba_bytes: u64,
    seen: UnitsSeen,
}

impl Spc {
    fn new(lba_bytes: u64) -> Self {
        Self { lba_bytes, seen: UnitsSeen::new("spc", "lba_bytes", lba_bytes) }
    }
}

impl LineFormat for Spc {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        if is_header(line, LAYOUT) {
            return Ok(());
        }
        let [asu, lba, size, op, at] = at_least(&mut Split::commas(line), LAYOUT)?;
        let op = read_or_write("Opcode", op)?;
        let lba = number("LBA", lba)?;
        let offset = sectors("LBA", lba, self.lba_bytes)?;
        let (at, size) = (time("Timestamp", at, 9)?, number("Size", size)?);
        let request = checked(at, op, offset, size, number32("ASU", asu)?)?;
        // The size is in bytes anyhow.
        self.seen.see(lba, &request);
        out.push(request);
        Ok(())
    }

    fn tell(&self, facts: &mut Facts) {
        facts.warnings.extend(self.seen.doubt());
    }

    fn streams_are_volumes(&self) -> bool {
        true
    }
}
