//! Traces of Florida International University, which are named `*.blkparse`.

use registry::Info;
use units::IoRequest;

use crate::error::Bad;
use crate::fields::{SECTOR_BYTES, Words, number, number32, read_or_write};
use crate::formats::blk_events::MINOR_BITS;
use crate::formats::{Fit, Format};
use crate::reader::{checked, sectors};
use crate::text::{LineFormat, TextReader, fit_of_lines};

pub(super) const FORMAT: Format = Format {
    info: Info {
        name: "fiu",
        aliases: &["iodedup", "srcmap"],
        summary: "FIU traces (homes, mail, web-vm ...): time (ns) pid process sector sectors R/W \
                  major minor [MD5]; sectors of 512 bytes, a device is a volume of its own",
        source: "Koller, Rangaswami: I/O Deduplication, FAST 2010; Verma et al.: SRCMap, FAST \
                 2010; SNIA IOTTA 390 and 414",
        params: &[],
    },
    endings: &[".blkparse"],
    fit: |head| match fit_of_lines(head, Fiu) {
        Fit::Likely => Fit::Certain,
        other => other,
    },
    read: |input, _, skip_bad| Ok(Box::new(TextReader::new(input, Fiu, skip_bad))),
    write: None,
};

const LAYOUT: &str = "time pid process sector sectors R/W major minor [MD5]";

struct Fiu;

impl LineFormat for Fiu {
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad> {
        let words: Vec<&[u8]> = Words(line).collect();
        // The process may have spaces in its name, and a read may lack the MD5.
        let has_md5 = words.last().is_some_and(|last| is_md5(last));
        let end = words.len() - usize::from(has_md5);
        if end < 8 {
            return Err(Bad::new(format!("{} fields", words.len()), LAYOUT));
        }
        let [sector, count, op, major, minor] = words[end - 5..end] else {
            return Err(Bad::new(format!("{} fields", words.len()), LAYOUT));
        };
        number32("pid", words[1])?;
        let (major, minor) = (number("major", major)?, number("minor", minor)?);
        if major >= 1 << (32 - MINOR_BITS) || minor >= 1 << MINOR_BITS {
            return Err(Bad::new(format!("device {major} {minor}"), "numbers of a device"));
        }
        let request = checked(
            number("time", words[0])?,
            read_or_write("R/W", op)?,
            sectors("sector", number("sector", sector)?, SECTOR_BYTES)?,
            sectors("sectors", number("sectors", count)?, SECTOR_BYTES)?,
            (major as u32) << MINOR_BITS | minor as u32,
        )?;
        out.push(request);
        Ok(())
    }

    fn streams_are_volumes(&self) -> bool {
        true
    }
}

fn is_md5(word: &[u8]) -> bool {
    word.len() >= 32 && word.iter().all(u8::is_ascii_hexdigit)
}
