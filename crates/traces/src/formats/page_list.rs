//! Plain lists of page numbers.

use registry::{Args, Info, Param, ParamKind};
use units::{IoOp, IoRequest};

use crate::binary::{RecordFormat, RecordReader, le_u32};
use crate::error::Bad;
use crate::formats::{Fit, Format};
use crate::reader::checked;

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "u32",
        aliases: &["page_list"],
        summary: "a list of pages, each a little-endian 32-bit number: every one is a write of \
                  that page; time counts requests",
        source: "",
        params: &[Param {
            name: "page_size",
            kind: ParamKind::Bytes { min: 1, max: 1 << 30 },
            default: "4096",
            help: "bytes of a page",
        }],
    },
    endings: &[".u32"],
    fit: |head| if head.ends_with(".u32") { Fit::ByName } else { Fit::No },
    read: |input, args: &Args, skip_bad| {
        Ok(Box::new(RecordReader::new(
            input,
            PageList { page_bytes: args.integer("page_size"), requests: 0 },
            skip_bad,
        )))
    },
    write: None,
};

struct PageList {
    page_bytes: u64,
    requests: u64,
}

impl RecordFormat for PageList {
    fn record_bytes(&self) -> usize {
        4
    }

    #[inline]
    fn record(&mut self, record: &[u8]) -> Result<IoRequest, Bad> {
        let request = checked(
            self.requests,
            IoOp::Write,
            u64::from(le_u32(record, 0)) * self.page_bytes,
            self.page_bytes,
            0,
        );
        self.requests += 1;
        request
    }

    fn has_times(&self) -> bool {
        false
    }
}
