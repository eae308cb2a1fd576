//! Activity of the dies over time, for a viewer of timelines.

use std::io::{self, Write};

use crate::drive::media::{Cause, FlashOp};
use crate::drive::time::{Picos, nanos_of};

/// The work of the dies in an interval, written as Chrome trace events, which
/// <https://ui.perfetto.dev> and `chrome://tracing` open.
///
/// A channel is shown as a process, a die as a thread. Times are rounded to nanoseconds: viewers
/// know none smaller. Dies without activity in the interval are not shown. Spans of a die that
/// overlap (planes, cache mode, a suspended program) are put on further rows of the die, `die 3
/// (2)`, as viewers draw only nested ones correctly.
#[derive(Clone, Debug)]
pub struct Timeline {
    from: Picos,
    to: Picos,
    limit: usize,
    spans: Vec<Span>,
    left_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: Picos,
    end: Picos,
    die: u32,
    channel: u16,
    op: FlashOp,
    cause: Cause,
}

/// First capacity, 24 MiB: beyond that the list grows as needed, so that a huge limit costs nothing
/// by itself.
const FIRST_CAPACITY: usize = 1 << 20;

impl Timeline {
    /// Records the first `limit_events` spans of a run. A viewer handles some millions; each takes
    /// 24 bytes here and some 80 in the file.
    #[must_use]
    pub fn new(limit_events: usize) -> Self {
        Self::between(limit_events, 0, Picos::MAX)
    }

    /// Records the first `limit_events` spans of those that lie in `from ... to`, at least partly.
    #[must_use]
    pub fn between(limit_events: usize, from: Picos, to: Picos) -> Self {
        Self {
            from,
            to,
            limit: limit_events,
            spans: Vec::with_capacity(limit_events.min(FIRST_CAPACITY)),
            left_out: 0,
        }
    }

    /// Adds a span of a die from `start` to `end`. Spans may come in any order.
    ///
    /// # Panics
    /// If it ends before it starts, or there are more than 65536 channels.
    #[inline]
    pub fn span(
        &mut self,
        die: u32,
        channel: u32,
        op: FlashOp,
        cause: Cause,
        start: Picos,
        end: Picos,
    ) {
        assert!(
            start <= end,
            "a {} on die {die} ends at {end} ps before it starts at {start} ps",
            op.name()
        );
        if end < self.from || start > self.to {
            return;
        }
        if self.spans.len() == self.limit {
            self.left_out += 1;
            return;
        }
        let channel = u16::try_from(channel).expect("a drive has at most 64 channels");
        self.spans.push(Span { start, end, die, channel, op, cause });
    }

    /// Number of spans kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns true if there are no spans.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Number of spans of the interval beyond the limit.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns true if every further span would be left out.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.spans.len() == self.limit
    }

    /// Writes the file. `out` should be buffered.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let (spans, rows) = self.in_rows();
        // There is no `displayTimeUnit`, as older versions of Perfetto took it for the unit of the
        // times in the file.
        out.write_all(b"{\"traceEvents\":[")?;
        let mut separator = "\n";
        let mut last_channel = None;
        for row in &rows {
            if last_channel != Some(row.channel) {
                write_name(out, separator, row.channel, 0, &format!("channel {}", row.channel))?;
                last_channel = Some(row.channel);
                separator = ",\n";
            }
            write_name(out, separator, row.channel, row.thread, &row.name)?;
        }
        let names = span_names();
        for (span, row) in &spans {
            let (start, end) = (nanos_of(span.start), nanos_of(span.end));
            let row = &rows[*row];
            write!(
                out,
                "{separator}{{\"ph\":\"X\",\"name\":{}",
                names[span.op as usize][span.cause as usize]
            )?;
            write!(out, ",\"pid\":{},\"tid\":{}", row.channel + 1, row.thread)?;
            let length = end - start;
            write!(
                out,
                ",\"ts\":{}.{:03},\"dur\":{}.{:03}}}",
                start / 1000,
                start % 1000,
                length / 1000,
                length % 1000
            )?;
        }
        write!(
            out,
            "\n],\"otherData\":{{\"spans\":{},\"left_out_spans\":{}}}}}\n",
            self.spans.len(),
            self.left_out
        )
    }

    /// All spans by die and time, each with its row; and the rows, by channel, die, and number
    /// within the die.
    fn in_rows(&self) -> (Vec<(Span, usize)>, Vec<Row>) {
        let mut spans: Vec<(Span, usize)> = self.spans.iter().map(|&span| (span, 0)).collect();
        spans.sort_by_key(|(span, _)| (span.channel, span.die, span.start, span.end));
        let mut rows: Vec<Row> = Vec::new();
        let mut first_of_die = 0;
        for (span, row) in &mut spans {
            if rows.last().is_some_and(|last| last.die != span.die) {
                first_of_die = rows.len();
            }
            // In nanoseconds, as written: spans that touch do not overlap after rounding, but they
            // might if they were compared before.
            let (start, end) = (nanos_of(span.start), nanos_of(span.end));
            let free = rows[first_of_die..].iter().position(|row| row.busy_until <= start);
            *row = match free {
                Some(free) => first_of_die + free,
                None => {
                    let number = rows.len() - first_of_die + 1;
                    let name = if number == 1 {
                        format!("die {}", span.die)
                    } else {
                        format!("die {} ({number})", span.die)
                    };
                    rows.push(Row {
                        channel: span.channel.into(),
                        die: span.die,
                        thread: 0,
                        name,
                        busy_until: 0,
                    });
                    rows.len() - 1
                }
            };
            rows[*row].busy_until = end;
        }
        number_threads(&mut rows);
        (spans, rows)
    }
}

/// A row of the picture.
struct Row {
    channel: u32,
    die: u32,
    thread: u32,
    name: String,
    busy_until: u64,
}

/// First rows have the numbers of the dies, from 1, as Perfetto reserves 0 for a kernel's own;
/// further rows follow after the last die.
fn number_threads(rows: &mut [Row]) {
    let mut next = rows.iter().map(|row| row.die).max().map_or(0, |die| die + 2);
    let mut last_die = None;
    for row in rows {
        if last_die == Some(row.die) {
            row.thread = next;
            next += 1;
        } else {
            row.thread = row.die + 1;
        }
        last_die = Some(row.die);
    }
}

/// Names a channel, if `thread` is 0, or a row of it, and gives its position among the others.
fn write_name(
    out: &mut impl Write,
    separator: &str,
    channel: u32,
    thread: u32,
    name: &str,
) -> io::Result<()> {
    let what = if thread == 0 { "process" } else { "thread" };
    let sort = if thread == 0 { channel } else { thread };
    let (process, name) = (channel + 1, quoted(name));
    let place = format!(
        "\"pid\":{process}{}",
        if thread == 0 { String::new() } else { format!(",\"tid\":{thread}") }
    );
    write!(
        out,
        "{separator}{{\"ph\":\"M\",\"name\":\"{what}_name\",{place},\"args\":{{\"name\":{name}}}}}"
    )?;
    write!(
        out,
        ",\n{{\"ph\":\"M\",\"name\":\"{what}_sort_index\",{place},\"args\":{{\"sort_index\":\
         {sort}}}}}"
    )
}

/// `"program (cleaning)"`, by operation and cause, in quotes. Erases have no cause in their name:
/// all but a few are for cleaning.
fn span_names() -> [[String; Cause::ALL.len()]; FlashOp::ALL.len()] {
    let name = |op: FlashOp, cause: Cause| match (op, cause) {
        (FlashOp::Erase, Cause::Cleaning) => "erase".to_owned(),
        _ => format!("{} ({})", op.name().replace('_', "-"), cause.name().replace('_', " ")),
    };
    FlashOp::ALL.map(|op| Cause::ALL.map(|cause| quoted(&name(op, cause))))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn written(timeline: &Timeline) -> Value {
        let mut file = Vec::new();
        timeline.write_json(&mut file).unwrap();
        serde_json::from_slice(&file).unwrap()
    }

    /// (name, process, thread, start, length) of all spans.
    fn spans(file: &Value) -> Vec<(String, u64, u64, f64, f64)> {
        let events =
            file["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
        let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
        events
            .map(|e| {
                (
                    e["name"].as_str().unwrap().to_owned(),
                    e["pid"].as_u64().unwrap(),
                    e["tid"].as_u64().unwrap(),
                    number(e, "ts"),
                    number(e, "dur"),
                )
            })
            .collect()
    }

    fn names(file: &Value, what: &str) -> BTreeMap<u64, String> {
        let events =
            file["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == what);
        let id = |event: &Value| {
            if what == "process_name" { event["pid"].as_u64() } else { event["tid"].as_u64() }
        };
        events
            .map(|event| (id(event).unwrap(), event["args"]["name"].as_str().unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn says_what_a_viewer_needs() {
        let mut timeline = Timeline::new(10);
        timeline.span(3, 1, FlashOp::Program, Cause::Cleaning, 2_000_600, 752_000_600);
        timeline.span(0, 0, FlashOp::Read, Cause::Host, 0, 75_833_400);
        timeline.span(3, 1, FlashOp::Erase, Cause::Cleaning, 752_000_600, 4_552_000_600);
        timeline.span(3, 1, FlashOp::CopyBack, Cause::WearLevelling, 5_000_000_000, 5_000_000_000);
        let file = written(&timeline);
        let expected = [
            ("read (host)", 1, 1, 0.0, 75.833),
            ("program (cleaning)", 2, 4, 2.001, 750.0),
            ("erase", 2, 4, 752.001, 3800.0),
            ("copy-back (wear levelling)", 2, 4, 5000.0, 0.0),
        ];
        assert_eq!(
            spans(&file),
            expected.map(|(name, pid, tid, ts, dur)| (name.to_owned(), pid, tid, ts, dur))
        );
        assert_eq!(
            names(&file, "process_name"),
            BTreeMap::from([(1, "channel 0".to_owned()), (2, "channel 1".to_owned())])
        );
        assert_eq!(
            names(&file, "thread_name"),
            BTreeMap::from([(1, "die 0".to_owned()), (4, "die 3".to_owned())])
        );
    }

    #[test]
    fn an_empty_one_is_a_file_too() {
        let file = written(&Timeline::new(0));
        assert!(file["traceEvents"].as_array().unwrap().is_empty());
        assert_eq!(file["otherData"]["left_out_spans"], 0);
    }

    #[test]
    fn keeps_the_first_of_the_interval_and_says_what_it_left_out() {
        let mut timeline = Timeline::between(2, 100, 200);
        let mut span = |start, end| timeline.span(0, 0, FlashOp::Read, Cause::Host, start, end);
        span(0, 99);
        span(50, 100);
        span(201, 300);
        span(200, 250);
        span(120, 130);
        assert_eq!((timeline.len(), timeline.left_out(), timeline.is_full()), (2, 1, true));
        assert_eq!(written(&timeline)["otherData"]["left_out_spans"], 1);
    }

    #[test]
    fn overlapping_spans_get_rows_of_their_own() {
        let mut timeline = Timeline::new(10);
        timeline.span(0, 0, FlashOp::Program, Cause::Host, 0, 10_000);
        timeline.span(0, 0, FlashOp::Program, Cause::Host, 0, 10_000);
        timeline.span(0, 0, FlashOp::Read, Cause::Host, 10_000, 20_000);
        timeline.span(1, 0, FlashOp::Read, Cause::Host, 5_000, 20_000);
        let file = written(&timeline);
        let expected = [(1, "die 0"), (2, "die 1"), (3, "die 0 (2)")];
        assert_eq!(
            names(&file, "thread_name"),
            expected.map(|(id, name)| (id, name.to_owned())).into()
        );
        assert_eq!(spans(&file).iter().map(|span| span.2).collect::<Vec<_>>(), [1, 3, 1, 2]);
    }

    #[test]
    #[should_panic(expected = "before it starts")]
    fn a_span_that_ends_before_it_starts_is_a_bug() {
        Timeline::new(1).span(0, 0, FlashOp::Read, Cause::Host, 2, 1);
    }

    proptest! {
        #[test]
        fn no_row_overlaps_and_none_is_lost(
            given in prop::collection::vec(
                (0..6_u32, 0..40_000_u64, 0..9_000_u64, 0..4_usize),
                0..120,
            ),
        ) {
            let mut timeline = Timeline::new(1000);
            for &(die, start, length, op) in &given {
                timeline.span(die, die / 2, FlashOp::ALL[op], Cause::Host, start, start + length);
            }
            let file = written(&timeline);
            let mut found = spans(&file);
            prop_assert_eq!(found.len(), given.len());
            found.sort_by(|a, b| {
                (a.1, a.2).cmp(&(b.1, b.2)).then(a.3.total_cmp(&b.3)).then(a.4.total_cmp(&b.4))
            });
            for pair in found.windows(2).filter(|pair| pair[0].2 == pair[1].2) {
                prop_assert_eq!(pair[0].1, pair[1].1, "a thread is of one channel");
                prop_assert!(pair[0].3 + pair[0].4 <= pair[1].3 + 1e-6);
            }
            let threads = names(&file, "thread_name");
            for span in &found {
                let die: u32 = threads[&span.2].split(' ').nth(1).unwrap().parse().unwrap();
                prop_assert_eq!(u64::from(die / 2 + 1), span.1);
            }
        }
    }
}
