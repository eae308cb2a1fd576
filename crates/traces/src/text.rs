//! The loop that all line formats share: bytes to lines to requests, malformed lines counted.

use std::collections::VecDeque;

use units::IoRequest;

use crate::error::{Bad, Place, TraceError};
use crate::fit::Fit;
use crate::input::{Bytes, Head, Input, Line};
use crate::reader::{BadRecords, Clock, Facts, Mark, TraceReader};

/// Reader of single lines: each becomes requests. Times are those of the file: they are rebased
/// later.
pub(crate) trait LineFormat: Send {
    /// Adds the requests of the line: none for a header, two where one line says two things.
    fn line(&mut self, line: &[u8], out: &mut Vec<IoRequest>) -> Result<(), Bad>;

    /// Adds what was held back.
    fn finish(&mut self, _out: &mut Vec<IoRequest>) {}

    /// See [`Facts::streams_are_volumes`].
    fn streams_are_volumes(&self) -> bool;

    /// Returns true if the lines tell times.
    fn has_times(&self) -> bool {
        true
    }

    /// Gives the time by which its times are ahead of those of the file, so that none lies before
    /// 0.
    fn clock_ahead_ns(&self) -> u64 {
        0
    }

    /// Returns true if what a line says does not depend on those before it.
    fn is_stateless(&self) -> bool {
        false
    }

    /// Adds what it counted, and what to know of the trace.
    fn tell(&self, _facts: &mut Facts) {}
}

/// Reads a line format.
pub(crate) struct TextReader<F> {
    bytes: Bytes,
    format: F,
    line: u64,
    good_lines: u64,
    cut: u64,
    bad: BadRecords,
    clock: Clock,
    /// Requests beyond the maximum that a caller asked for.
    over: VecDeque<IoRequest>,
    finished: bool,
}

impl<F: LineFormat> TextReader<F> {
    pub(crate) fn new(input: Input, format: F, skip_bad: u64) -> Self {
        let bytes = input.into_bytes();
        let bad = BadRecords::new(bytes.path(), skip_bad);
        Self {
            bytes,
            format,
            line: 0,
            good_lines: 0,
            cut: 0,
            bad,
            clock: Clock::default(),
            over: VecDeque::new(),
            finished: false,
        }
    }

    /// Reads lines until `out` has `until` requests or there are no more lines.
    fn read_lines(&mut self, out: &mut Vec<IoRequest>, until: usize) -> Result<(), TraceError> {
        while out.len() < until {
            let before = out.len();
            let mut is_whole = true;
            let result = match self.bytes.line()? {
                Line::End => {
                    self.finished = true;
                    self.format.finish(out);
                    self.clock.rebase(&mut out[before..]);
                    return Ok(());
                }
                Line::TooLong => Err(Bad::new("the line is very long", "lines below 64 KiB")),
                Line::Text { line, has_end } => {
                    is_whole = has_end;
                    if line.trim_ascii_start().is_empty() {
                        Ok(())
                    } else {
                        self.format.line(line, out)
                    }
                }
            };
            self.line += 1;
            match result {
                Ok(()) => {
                    self.good_lines += 1;
                    self.clock.rebase(&mut out[before..]);
                }
                Err(_) if !is_whole && self.good_lines > 0 => {
                    out.truncate(before);
                    self.cut += 1;
                }
                Err(bad) => {
                    out.truncate(before);
                    self.bad.pass(Place::Line(self.line), bad)?;
                }
            }
        }
        Ok(())
    }
}

impl<F: LineFormat> TraceReader for TextReader<F> {
    fn read_batch(&mut self, out: &mut Vec<IoRequest>, max: usize) -> Result<usize, TraceError> {
        let start = out.len();
        let until = start.saturating_add(max);
        let held = self.over.len().min(max);
        out.extend(self.over.drain(..held));
        if !self.finished {
            self.read_lines(out, until)?;
        }
        if out.len() > until {
            self.over.extend(out.drain(until..));
        }
        Ok(out.len() - start)
    }

    fn mark(&self) -> Option<Mark> {
        // A last line that is not whole is counted with the end, behind which nobody goes on.
        if !self.format.is_stateless() || !self.over.is_empty() || self.cut > 0 {
            return None;
        }
        let mut mark = Mark {
            bytes: self.bytes.offset(),
            lines: self.line,
            good_lines: self.good_lines,
            malformed: self.bad.by_right.clone(),
            ..Mark::default()
        };
        self.clock.tell(&mut mark);
        Some(mark)
    }

    fn go_to(&mut self, mark: &Mark) -> Result<(), TraceError> {
        self.bytes.pass(mark.bytes)?;
        (self.line, self.good_lines) = (mark.lines, mark.good_lines);
        self.bad.go_to(mark);
        self.clock = Clock::at(mark);
        Ok(())
    }

    fn facts(&self) -> Facts {
        let mut facts = Facts {
            clamped_times: self.clock.clamped,
            unseen_reversals: self.clock.unseen_reversals,
            start_ns: self
                .clock
                .start
                .filter(|_| self.format.has_times())
                .map(|ns| ns.saturating_sub(self.format.clock_ahead_ns())),
            timeless: !self.format.has_times(),
            streams_are_volumes: self.format.streams_are_volumes(),
            ..Facts::default()
        };
        self.bad.tell(&mut facts);
        self.format.tell(&mut facts);
        facts.tell_cut(self.cut);
        facts
    }
}

/// Lines that are tried to tell a format.
const TRIED_LINES: usize = 32;

/// Gives the fit of a file with so many good and malformed lines.
pub(crate) fn fit_of(good: usize, bad: usize) -> Fit {
    match (good, bad) {
        (1, 1) => Fit::Half,
        _ if good > bad => Fit::Likely,
        _ => Fit::No,
    }
}

/// Gives the fit of the first lines: most of them must be good, so that a malformed one is reported
/// as such and not as an unknown format. Of a file of two lines one will do, if no other format has
/// both.
pub(crate) fn fit_of_lines(head: Head<'_>, mut format: impl LineFormat) -> Fit {
    let (mut good, mut bad, mut out) = (0, 0, Vec::new());
    for line in head.lines().take(TRIED_LINES) {
        out.clear();
        match format.line(line, &mut out) {
            Ok(()) if out.is_empty() => {}
            Ok(()) => good += 1,
            Err(_) => bad += 1,
        }
    }
    fit_of(good, bad)
}
