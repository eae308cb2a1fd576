//! The events of the `blk` tracer out of raw pages, as the stream that the kernel makes of them in
//! its `bin` mode.
//!
//! In the buffer, an event is a `struct blk_io_trace` whose first eight bytes hold the head of all
//! events, and whose time stands in the page instead; `blk_trace_synthesize_old_trace` (Linux
//! kernel/trace/blktrace.c) puts the magic number and the time in their places.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use units::Progress;

use super::format::PageLayout;
use super::pages::{CpuPages, Inputs, Losses, Next, REPORT_EVENTS, open_all};
use crate::error::{Bad, TraceError};

const MAGIC: u32 = 0x6561_7400;
/// Version in the magic number, bytes of a record without what is appended, and where it tells how
/// much that is; see `formats::blktrace`.
const VERSIONS: [(u32, usize, usize); 2] = [(7, 48, 46), (8, 64, 50)];
/// Magic number, sequence and time; the event has them nowhere.
const HEAD_BYTES: usize = 16;
/// The buffer's alignment: an event may be longer than its record by less.
const ALIGN_BYTES: usize = 8;
/// Outcome of reading the pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlkStream {
    /// Records written.
    pub records: u64,
    /// Events of other tracers, which are not written.
    pub other_events: u64,
    /// Losses of the kernel or the copier, over all processors.
    pub losses: Losses,
}

/// Reads the pages of all processors, and writes their records to `output`, ordered by time.
///
/// `event`: the kernel's number of the events of the `blk` tracer. Progress counts events, without
/// a total.
///
/// # Errors
/// [`TraceError::Io`]; [`TraceError::Malformed`] with the offset of the byte;
/// [`TraceError::Cancelled`].
pub fn write_blk_stream(
    paths: &[PathBuf],
    layout: PageLayout,
    event: u16,
    output: &Path,
    progress: &Progress,
) -> Result<BlkStream, TraceError> {
    let inputs = open_all(paths)?;
    let mut written = 0;
    let failed =
        |doing, offset, source| TraceError::Io { path: output.to_owned(), doing, offset, source };
    let mut out = BufWriter::with_capacity(
        1 << 20,
        File::create(output).map_err(|source| failed("create", 0, source))?,
    );
    let found = merge(inputs, layout, event, progress, |record| {
        written += record.len() as u64;
        out.write_all(record).map_err(|source| failed("write", written, source))
    })?;
    out.flush().map_err(|source| failed("write", written, source))?;
    Ok(found)
}

/// Gives the records of anything that gives pages to `take`, ordered by time; those of the same
/// time by processor.
pub(super) fn merge(
    inputs: Inputs,
    layout: PageLayout,
    event: u16,
    progress: &Progress,
    mut take: impl FnMut(&[u8]) -> Result<(), TraceError>,
) -> Result<BlkStream, TraceError> {
    let mut found = BlkStream::default();
    let mut cpus: Vec<Cpu> = inputs
        .into_iter()
        .map(|(path, input)| Cpu {
            pages: CpuPages::new(&path, input, layout),
            time_ns: None,
            record: Vec::new(),
        })
        .collect();
    for cpu in &mut cpus {
        cpu.advance(event, &mut found)?;
    }
    while let Some(first) =
        (0..cpus.len()).filter(|n| cpus[*n].time_ns.is_some()).min_by_key(|n| cpus[*n].time_ns)
    {
        let cpu = &mut cpus[first];
        take(&cpu.record)?;
        found.records += 1;
        cpu.advance(event, &mut found)?;
        if found.records.is_multiple_of(REPORT_EVENTS) {
            progress.advance(REPORT_EVENTS)?;
        }
    }
    for cpu in &cpus {
        found.losses.add(cpu.pages.losses);
    }
    Ok(found)
}

/// One processor; `record` is the one that comes next, of `time_ns`.
struct Cpu {
    pages: CpuPages,
    time_ns: Option<u64>,
    record: Vec<u8>,
}

impl Cpu {
    fn advance(&mut self, event: u16, found: &mut BlkStream) -> Result<(), TraceError> {
        self.time_ns = None;
        loop {
            match self.pages.next()? {
                Next::End => return Ok(()),
                Next::Gap { .. } => {}
                Next::Event { time_ns, data } => {
                    let data = self.pages.data(data);
                    if data.get(..2) != Some(&event.to_le_bytes()) {
                        found.other_events += 1;
                        continue;
                    }
                    let (version, bytes) =
                        record_of(data).map_err(|bad| self.pages.malformed(bad))?;
                    self.record.clear();
                    self.record.extend((MAGIC | version).to_le_bytes());
                    self.record.extend([0; 4]);
                    self.record.extend(time_ns.to_le_bytes());
                    self.record.extend(&data[HEAD_BYTES..bytes]);
                    self.time_ns = Some(time_ns);
                    return Ok(());
                }
            }
        }
    }
}

/// Tells version and length of the record that an event holds.
///
/// An event of version 2 taken for version 1 tells a length of 48: those bits of the processor's
/// number are 0.
fn record_of(data: &[u8]) -> Result<(u32, usize), Bad> {
    for (version, bytes, appended_at) in VERSIONS {
        let Some(appended) = data.get(appended_at..appended_at + 2) else { break };
        let whole = bytes + usize::from(u16::from_le_bytes([appended[0], appended[1]]));
        if data.len() >= whole && data.len() - whole < ALIGN_BYTES {
            return Ok((version, whole));
        }
    }
    let reason =
        format!("an event of the blk tracer of {} bytes, which holds no record", data.len());
    Err(Bad::new(reason, "a blk_io_trace, or a blk_io_trace2"))
}
