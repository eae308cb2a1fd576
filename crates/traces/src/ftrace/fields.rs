//! Numbers of any events out of raw pages: the fields that are asked for, a column each.

use std::path::PathBuf;

use rustc_hash::FxHashMap;
use units::Progress;

use super::format::{EventFormat, Field, PageLayout};
use super::pages::{CpuPages, Inputs, Losses, Next, REPORT_EVENTS, open_all};
use crate::error::{Bad, TraceError};

/// The events of one kind, in the order of their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// Time of each, in nanoseconds of the trace's clock.
    pub time_ns: Vec<u64>,
    /// The thread in which each was.
    pub thread: Vec<u32>,
    /// The fields that were asked for, each with a value for every event. Of a longer one, its
    /// first eight bytes; what has a sign is extended.
    pub columns: Vec<Vec<u64>>,
}

/// All events that were asked for, and what is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// As they were asked for.
    pub kinds: Vec<Kind>,
    /// Events of other kinds.
    pub other_events: u64,
    /// Losses of the kernel or the copier, over all processors.
    pub losses: Losses,
}

/// Reads the pages of all processors.
///
/// `wanted`: for each kind of event its `format`, as tracefs gives it, and names of fields.
/// Progress counts events, without a total.
///
/// # Errors
/// [`TraceError::Io`]; [`TraceError::Malformed`] with the offset of the byte;
/// [`TraceError::Unusable`] if a format is not one, or has no such field;
/// [`TraceError::Cancelled`].
pub fn read_fields(
    paths: &[PathBuf],
    layout: PageLayout,
    wanted: &[(String, Vec<String>)],
    progress: &Progress,
) -> Result<Fields, TraceError> {
    fields_of(open_all(paths)?, layout, wanted, progress)
}

/// The same, of anything that gives bytes.
pub(super) fn fields_of(
    inputs: Inputs,
    layout: PageLayout,
    wanted: &[(String, Vec<String>)],
    progress: &Progress,
) -> Result<Fields, TraceError> {
    let shapes = Shapes::parse(wanted).map_err(|bad| {
        let (reason, right) = bad.into_parts();
        let path = PathBuf::from("the recording's formats of events");
        TraceError::Unusable { path, reason, right }
    })?;
    let kind =
        |shape: &Shape| Kind { columns: vec![Vec::new(); shape.fields.len()], ..Kind::default() };
    let mut found = Fields { kinds: shapes.all.iter().map(kind).collect(), ..Fields::default() };
    let mut read = 0u64;
    for (path, input) in inputs {
        let mut pages = CpuPages::new(&path, input, layout);
        loop {
            match pages.next()? {
                Next::End => break,
                Next::Gap { .. } => {}
                Next::Event { time_ns, data } => {
                    let taken = shapes.take(pages.data(data), time_ns, &mut found.kinds);
                    let is_known = taken.map_err(|bad| pages.malformed(bad))?;
                    found.other_events += u64::from(!is_known);
                    read += 1;
                    if read.is_multiple_of(REPORT_EVENTS) {
                        progress.advance(REPORT_EVENTS)?;
                    }
                }
            }
        }
        found.losses.add(pages.losses);
    }
    found.kinds.iter_mut().for_each(sort);
    Ok(found)
}

/// Puts the events of all processors in the order of their times; those of one keep theirs.
fn sort(kind: &mut Kind) {
    let mut order: Vec<usize> = (0..kind.time_ns.len()).collect();
    order.sort_by_key(|n| kind.time_ns[*n]);
    fn sorted<T: Copy>(column: &[T], order: &[usize]) -> Vec<T> {
        order.iter().map(|n| column[*n]).collect()
    }
    kind.time_ns = sorted(&kind.time_ns, &order);
    kind.thread = sorted(&kind.thread, &order);
    kind.columns.iter_mut().for_each(|column| *column = sorted(column, &order));
}

struct Shape {
    thread: Field,
    fields: Vec<Field>,
}

struct Shapes {
    all: Vec<Shape>,
    by_id: FxHashMap<u16, usize>,
}

impl Shapes {
    fn parse(wanted: &[(String, Vec<String>)]) -> Result<Self, Bad> {
        let (mut all, mut by_id) = (Vec::new(), FxHashMap::default());
        for (text, names) in wanted {
            let format = EventFormat::parse(text)?;
            let fields = names.iter().map(|name| format.field(name)).collect::<Result<_, _>>()?;
            by_id.insert(format.id, all.len());
            all.push(Shape { thread: format.field("common_pid")?, fields });
        }
        Ok(Self { all, by_id })
    }

    /// Adds an event to its kind; tells whether it is one that was asked for.
    fn take(&self, data: &[u8], time_ns: u64, kinds: &mut [Kind]) -> Result<bool, Bad> {
        let short = || {
            Bad::new(
                format!("an event of {} bytes, shorter than its fields", data.len()),
                "an event with all fields of its format",
            )
        };
        let id = data.get(..2).ok_or_else(short)?;
        let Some(number) = self.by_id.get(&u16::from_le_bytes([id[0], id[1]])) else {
            return Ok(false);
        };
        let (shape, kind) = (&self.all[*number], &mut kinds[*number]);
        let thread = shape.thread.get(data).ok_or_else(short)? as u32;
        for (field, column) in shape.fields.iter().zip(&mut kind.columns) {
            column.push(field.get(data).ok_or_else(short)?);
        }
        kind.time_ns.push(time_ns);
        kind.thread.push(thread);
        Ok(true)
    }
}
