//! Files that the numbers of a process stood for, over time.
//!
//! Between two calls that make or close a number it stands for one open file: a *span*. Whoever
//! looked a number up in `/proc/PID/fd` within a span has told the file of all of it.

use rustc_hash::FxHashMap;

/// A look at one number of a process: from before the look to after it, the number stood for
/// `file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Just before the look, on the clock of the trace.
    pub from_ns: u64,
    /// Just after it.
    pub to_ns: u64,
    /// The process.
    pub process: u32,
    /// The number.
    pub fd: u32,
    /// The caller's number of the file, or [`NOT_WANTED`].
    pub file: u32,
}

/// The file of a [`Sighting`] of something that is no file of interest: a socket, a pipe, a file
/// elsewhere.
pub const NOT_WANTED: u32 = u32::MAX - 1;
/// The file of a span that nobody has looked at.
pub(super) const UNKNOWN: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Span {
    from_ns: u64,
    to_ns: u64,
    file: u32,
    /// Span of the parent process from which this one was inherited by a fork.
    inherited: Option<u32>,
    is_contradicted: bool,
    /// Position in the file, where it is known.
    cursor: Option<u64>,
}

/// All spans, in the order in which they began; a call keeps the number of its span.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    spans: Vec<Span>,
    of: FxHashMap<(u32, u32), Vec<u32>>,
    current: FxHashMap<(u32, u32), u32>,
    parents: FxHashMap<u32, (u32, u64)>,
}

impl OpenFiles {
    fn begin(
        &mut self,
        key: (u32, u32),
        from_ns: u64,
        cursor: Option<u64>,
        inherited: Option<u32>,
    ) -> u32 {
        self.end(key, from_ns);
        let number = self.spans.len() as u32;
        self.spans.push(Span {
            from_ns,
            to_ns: u64::MAX,
            file: UNKNOWN,
            inherited,
            is_contradicted: false,
            cursor,
        });
        self.of.entry(key).or_default().push(number);
        self.current.insert(key, number);
        number
    }

    fn end(&mut self, key: (u32, u32), at_ns: u64) {
        if let Some(old) = self.current.remove(&key) {
            self.spans[old as usize].to_ns = at_ns;
        }
    }

    pub(super) fn open(&mut self, process: u32, fd: u32, at_ns: u64, cursor: Option<u64>) {
        self.begin((process, fd), at_ns, cursor, None);
    }

    /// A number that was never seen until it is closed has a span all the same: without it, the
    /// next one would reach back before the close.
    pub(super) fn close(&mut self, process: u32, fd: u32, at_ns: u64) {
        self.span(process, fd);
        self.end((process, fd), at_ns);
        // What comes next without an open that we see (a socket, a pipe) begins here.
        self.begin((process, fd), at_ns, None, None);
    }

    pub(super) fn close_range(&mut self, process: u32, first: u32, last: u32, at_ns: u64) {
        let mut numbers: Vec<u32> = self
            .current
            .keys()
            .filter(|(p, fd)| *p == process && (first..=last).contains(fd))
            .map(|k| k.1)
            .collect();
        numbers.sort_unstable();
        for fd in numbers {
            self.close(process, fd, at_ns);
        }
    }

    pub(super) fn fork(&mut self, parent: u32, child: u32, at_ns: u64) {
        // The number of a process that has ended is given away again.
        let mut stale: Vec<u32> =
            self.current.keys().filter(|key| key.0 == child).map(|key| key.1).collect();
        stale.sort_unstable();
        for fd in stale {
            self.end((child, fd), at_ns);
        }
        self.parents.insert(child, (parent, at_ns));
    }

    /// Events were lost: what was open may be closed.
    pub(super) fn gap(&mut self, at_ns: u64) {
        let mut keys: Vec<(u32, u32)> = self.current.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            self.begin(key, at_ns, None, None);
        }
    }

    /// The span of a number now.
    pub(super) fn span(&mut self, process: u32, fd: u32) -> u32 {
        if let Some(known) = self.current.get(&(process, fd)) {
            return *known;
        }
        let parent = self.parents.get(&process).copied();
        let inherited = parent.and_then(|(parent, _)| self.current.get(&(parent, fd)).copied());
        let from_ns = parent.map_or(0, |(_, at_ns)| at_ns);
        // What the parent has now is what it had then only if it has not changed since.
        let inherited = inherited.filter(|span| self.spans[*span as usize].from_ns <= from_ns);
        self.begin((process, fd), from_ns, None, inherited)
    }

    pub(super) fn seek(&mut self, span: u32, cursor: Option<u64>) {
        self.spans[span as usize].cursor = cursor;
    }

    /// The position before `bytes` are read or written there.
    pub(super) fn advance(&mut self, span: u32, bytes: u64) -> Option<u64> {
        let cursor = &mut self.spans[span as usize].cursor;
        let before = *cursor;
        *cursor = before.and_then(|at| at.checked_add(bytes));
        before
    }

    /// Tells every span what was seen of it. Sightings of numbers that no call used have no span,
    /// and do not matter.
    pub(super) fn see(&mut self, sightings: &[Sighting]) {
        for seen in sightings {
            let Some(spans) = self.of.get(&(seen.process, seen.fd)) else { continue };
            let after =
                spans.partition_point(|span| self.spans[*span as usize].from_ns <= seen.from_ns);
            let Some(number) = after.checked_sub(1).map(|at| spans[at]) else { continue };
            let span = &mut self.spans[number as usize];
            if seen.to_ns < span.from_ns || seen.to_ns >= span.to_ns {
                continue;
            }
            if span.file != UNKNOWN && span.file != seen.file {
                span.is_contradicted = true;
            }
            span.file = seen.file;
        }
    }

    /// The file of a span: [`UNKNOWN`] if nobody looked, or two looks differ.
    pub(super) fn file(&self, span: u32) -> u32 {
        let span = &self.spans[span as usize];
        if span.is_contradicted {
            return UNKNOWN;
        }
        match span.inherited {
            // A span inherits only from one that began before it.
            Some(from) if span.file == UNKNOWN => self.file(from),
            _ => span.file,
        }
    }

    pub(super) fn contradicted(&self) -> u64 {
        self.spans.iter().filter(|span| span.is_contradicted).count() as u64
    }
}
