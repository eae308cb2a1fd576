//! The traces with which the cache policy ARC was studied.

use registry::{Args, Info, Param, ParamKind};
use units::{IoOp, IoRequest};

use crate::error::Bad;
use crate::fields::{SECTOR_BYTES, Words, exactly, number};
use crate::formats::Format;
use crate::reader::{checked, sectors};
use crate::text::{LineFormat, TextReader, fit_of_lines};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "arc_lis",
        aliases: &["arc", "lis"],
        summary: "ARC `.lis`: start block, blocks, 0, request number; neither times nor \
                  read/write: time counts requests",
        source: "Megiddo, Modha: ARC, FAST 2003",
        params: &[
            Param {
                name: "op",
                kind: ParamKind::Choice(&["write", "read"]),
                default: "write",
                help: "what the requests are taken for, as the format does not say",
            },
            Param {
                name: "unit_bytes",
                kind: ParamKind::Bytes { min: 1, max: 1 << 20 },
                default: "512",
                help: "bytes of a block, the unit of start and blocks",
            },
        ],
    },
    endings: &[".lis"],
    fit: |head| {
        fit_of_lines(head, ArcLis { op: IoOp::Write, unit_bytes: SECTOR_BYTES, requests: 0 })
    },
    read: |input, args: &Args, skip_bad| {
        let op = if args.text("op") == "read" { IoOp::Read } else { IoOp::Write };
        Ok(Box::new(TextReader::new(
            input,
            ArcLis { op, unit_bytes: args.integer("unit_bytes"), requests: 0 },
            skip_bad,
        )))
    },
    write: None,
};

struct ArcLis {
    op: IoOp,
    unit_bytes: u64,
    requests: u64,
}

impl LineFormat for ArcLis {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        let [start, count, _zero, id] = exactly(&mut Words(line), "start blocks 0 number")?;
        number("number", id)?;
        let offset = sectors("start", number("start", start)?, self.unit_bytes)?;
        let length = sectors("blocks", number("blocks", count)?, self.unit_bytes)?;
        out.push(checked(self.requests, self.op, offset, length, 0)?);
        self.requests += 1;
        Ok(())
    }

    fn streams_are_volumes(&self) -> bool {
        false
    }

    fn has_times(&self) -> bool {
        false
    }
}
