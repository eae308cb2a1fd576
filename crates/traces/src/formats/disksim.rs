//! DiskSim's ASCII traces.

use registry::{Args, Info, Param, ParamKind};
use units::{IoOp, IoRequest};

use crate::error::Bad;
use crate::fields::{SECTOR_BYTES, Words, exactly, number, number32, time};
use crate::formats::{Fit, Format};
use crate::reader::{Facts, checked, sectors};
use crate::text::{LineFormat, TextReader, fit_of_lines};
use crate::units_seen::UnitsSeen;

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "disksim",
        aliases: &["disksim_ascii"],
        summary: "DiskSim ASCII: arrival time (ms, with decimals), device, block (512 bytes), \
                  blocks, flags (1 read, 0 write)",
        source: "Bucy, Schindler, Schlosser, Ganger: The DiskSim 4.0 Reference Manual, \
                 CMU-PDL-08-101, section 5.3.1 (default ASCII format)",
        params: &[UNIT_BYTES],
    },
    endings: &[".trace", ".ascii", ".dis"],
    fit: |head| {
        // Without a decimal point in the first times, the same five numbers are MQSim's, in
        // nanoseconds. The first line may be malformed.
        let times = head.lines().take(2).filter_map(|line| Words(line).next());
        let has_point = times.into_iter().any(|at| at.contains(&b'.'));
        if has_point { fit_of_lines(head, DiskSim::new(SECTOR_BYTES)) } else { Fit::No }
    },
    read: |input, args: &Args, skip_bad| {
        Ok(Box::new(TextReader::new(input, DiskSim::new(args.integer("unit_bytes")), skip_bad)))
    },
    write: None,
};

/// Some tools write bytes where the format has blocks.
pub(super) const UNIT_BYTES: Param = Param {
    name: "unit_bytes",
    kind: ParamKind::Bytes { min: 1, max: 1 << 20 },
    default: "512",
    help: "bytes of a block, the unit of addresses and sizes; 1 for a trace that has bytes there",
};

struct DiskSim {
    unit_bytes: u64,
    seen: UnitsSeen,
}

impl DiskSim {
    fn new(unit_bytes: u64) -> Self {
        Self { unit_bytes, seen: UnitsSeen::new("disksim", "unit_bytes", unit_bytes) }
    }
}

impl LineFormat for DiskSim {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        let [at, device, start, count, flags] =
            exactly(&mut Words(line), "time device block blocks flags")?;
        let op = match flags {
            b"1" => IoOp::Read,
            b"0" => IoOp::Write,
            _ => return Err(Bad::field("flags", flags, "1 (read) or 0 (write)")),
        };
        let (start, count) = (number("block", start)?, number("blocks", count)?);
        let offset = sectors("block", start, self.unit_bytes)?;
        let length = sectors("blocks", count, self.unit_bytes)?;
        let request =
            checked(time("time", at, 6)?, op, offset, length, number32("device", device)?)?;
        self.seen.see(start | count, &request);
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
