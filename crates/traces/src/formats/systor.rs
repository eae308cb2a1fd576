//! Traces of an enterprise's virtual desktops, published with SYSTOR '17.

use registry::Info;
use units::IoRequest;

use crate::error::Bad;
use crate::fields::{Split, exactly, is_header, number, number32, read_or_write, time};
use crate::formats::{Fit, Format};
use crate::reader::{Facts, checked};
use crate::text::{LineFormat, TextReader, fit_of_lines};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "systor17",
        aliases: &["systor"],
        summary: "SYSTOR '17 virtual desktops: Timestamp,Response,IOType,LUN,Offset,Size; seconds \
                  and bytes; requests that got no response have a blank IOType and are left out",
        source: "Lee et al.: Understanding Storage Traffic Characteristics on Enterprise Virtual \
                 Desktop Infrastructure, SYSTOR 2017; SNIA IOTTA",
        params: &[],
    },
    endings: &[".csv"],
    fit: |head| {
        if head.bytes.contains(&b',') { fit_of_lines(head, Systor::default()) } else { Fit::No }
    },
    read: |input, _, skip_bad| Ok(Box::new(TextReader::new(input, Systor::default(), skip_bad))),
    write: None,
};

const LAYOUT: &str = "Timestamp,Response,IOType,LUN,Offset,Size";

#[derive(Default)]
struct Systor {
    unanswered: u64,
}

impl LineFormat for Systor {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        if is_header(line, LAYOUT) {
            return Ok(());
        }
        let [at, response, op, lun, offset, size] = exactly(&mut Split::commas(line), LAYOUT)?;
        if op.is_empty() {
            self.unanswered += 1;
            return Ok(());
        }
        let op = read_or_write("IOType", op)?;
        let mut request = checked(
            time("Timestamp", at, 9)?,
            op,
            number("Offset", offset)?,
            number("Size", size)?,
            number32("LUN", lun)?,
        )?;
        if !response.is_empty() {
            request.latency_ns = Some(time("Response", response, 9)?);
        }
        out.push(request);
        Ok(())
    }

    fn tell(&self, facts: &mut Facts) {
        if self.unanswered > 0 {
            facts
                .left_out
                .insert("requests without a response (IOType is blank)".into(), self.unanswered);
        }
    }

    fn streams_are_volumes(&self) -> bool {
        true
    }
}
