//! Traces of the simulator MQSim, which are those of SSDSim.

use std::io::Write;

use registry::{Args, Info, Param, ParamKind};
use units::{IoOp, IoRequest};

use crate::error::{Bad, TraceError};
use crate::fields::{SECTOR_BYTES, Words, exactly, number, number32};
use crate::formats::Format;
use crate::formats::disksim::UNIT_BYTES;
use crate::reader::{Facts, checked, sectors};
use crate::text::{LineFormat, TextReader, fit_of_lines};
use crate::units_seen::UnitsSeen;
use crate::writer::{LineWriter, Refused, TextWriter, in_sectors};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "mqsim",
        aliases: &["ssdsim"],
        summary: "MQSim and SSDSim: time (ns), device, start sector, sectors, type (0 write, 1 \
                  read); a device is a volume of its own",
        source: "Tavakkol et al.: MQSim, FAST 2018; CMU-SAFARI/MQSim; Hu et al.: SSDSim, ICS 2011",
        params: &[
            Param {
                name: "unsupported",
                kind: ParamKind::Choice(&["error", "drop"]),
                default: "error",
                help: "when writing: trims and flushes, which the format lacks, are an error, or \
                       dropped and counted",
            },
            UNIT_BYTES,
        ],
    },
    endings: &[".mqsim", ".trace"],
    fit: |head| fit_of_lines(head, Mqsim::new(SECTOR_BYTES)),
    read: |input, args: &Args, skip_bad| {
        Ok(Box::new(TextReader::new(input, Mqsim::new(args.integer("unit_bytes")), skip_bad)))
    },
    write: Some(|output, args: &Args, _| {
        Ok(Box::new(TextWriter::new(
            output,
            MqsimLines,
            FORMAT.info.name,
            args.text("unsupported") == "drop",
        )) as _)
    }),
};

struct Mqsim {
    unit_bytes: u64,
    seen: UnitsSeen,
}

impl Mqsim {
    fn new(unit_bytes: u64) -> Self {
        Self { unit_bytes, seen: UnitsSeen::new("mqsim", "unit_bytes", unit_bytes) }
    }
}

impl LineFormat for Mqsim {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        let [at, device, start, count, op] =
            exactly(&mut Words(line), "time device sector sectors type")?;
        let op = match op {
            b"1" => IoOp::Read,
            b"0" => IoOp::Write,
            _ => return Err(Bad::field("type", op, "0 (write) or 1 (read)")),
        };
        let (start, count) = (number("sector", start)?, number("sectors", count)?);
        let offset = sectors("sector", start, self.unit_bytes)?;
        let length = sectors("sectors", count, self.unit_bytes)?;
        let request =
            checked(number("time", at)?, op, offset, length, number32("device", device)?)?;
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

struct MqsimLines;

impl LineWriter for MqsimLines {
    fn line(&mut self, request: &IoRequest, out: &mut Vec<u8>) -> Result<(), Refused> {
        let op = match request.op {
            IoOp::Write => 0,
            IoOp::Read => 1,
            IoOp::Trim | IoOp::Flush => {
                return Err(Refused::operation(
                    request.op,
                    "reads and writes (or unsupported=drop)",
                ));
            }
        };
        let (start, count) = in_sectors(request)?;
        writeln!(out, "{} {} {start} {count} {op}", request.time_ns, request.stream)
            .map_err(Refused::from)
    }

    fn finish(&mut self, _out: &mut Vec<u8>) -> Result<(), TraceError> {
        Ok(())
    }
}
