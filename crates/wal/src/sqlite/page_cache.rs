//! Makes requests to a device of writes to files, as the kernel's page cache does.
//!
//! Written blocks wait until their file is synced, or for 30 s (`dirty_expire_centisecs`, the
//! kernel's default), and go out in the order of their places. A block that is written again
//! meanwhile goes out once; what a file loses meanwhile never goes out. Simplified: memory is never
//! short, files lie in one piece, and the file system writes nothing of its own.

use units::{IoOp, IoRequest, Nanos};

use super::what_if::{File, Files};

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;
/// Time after which written blocks go out.
const EXPIRES: Nanos = 30_000_000_000;
/// Bytes of the longest request.
const MOST_BYTES: u64 = 1 << 20;

/// First bytes of database, log and journal on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// By number of the file.
    pub begins: [u64; 3],
    /// Whether places that a journal leaves are trimmed.
    pub discards: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Blocks from, and behind the last; in the order of writing.
    blocks: Vec<(u64, u64)>,
    oldest: Nanos,
    /// Blocks of the file that have a place on the device.
    end: u64,
}

/// The page cache of a database's files.
#[derive(Debug)]
pub struct PageCache {
    layout: Layout,
    now: Nanos,
    waiting: [Waiting; 3],
    /// Requests, for whoever takes them away.
    pub requests: Vec<IoRequest>,
}

impl PageCache {
    /// Empty.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self { layout, now: 0, waiting: Default::default(), requests: Vec::new() }
    }

    /// Writes all that waits, as the kernel would 30 s after the last write.
    pub fn finish(&mut self) {
        self.expire(Nanos::MAX);
    }

    fn expire(&mut self, now: Nanos) {
        loop {
            let due = |file: &usize| {
                let waiting = &self.waiting[*file];
                (!waiting.blocks.is_empty()).then(|| waiting.oldest.saturating_add(EXPIRES))
            };
            let next = (0..3).filter_map(|file| Some((due(&file)?, file))).min();
            let Some((at, file)) = next.filter(|(at, _)| *at <= now) else { return };
            self.write_back(file, at);
        }
    }

    fn write_back(&mut self, file: usize, at: Nanos) {
        let begin = self.layout.begins[file];
        let waiting = &mut self.waiting[file];
        waiting.blocks.sort_unstable();
        let mut blocks = waiting.blocks.drain(..).peekable();
        while let Some((from, mut to)) = blocks.next() {
            while let Some((_, further)) = blocks.next_if(|(next, _)| *next <= to) {
                to = to.max(further);
            }
            waiting.end = waiting.end.max(to);
            let (mut offset, end) = (begin + from * BLOCK_BYTES, begin + to * BLOCK_BYTES);
            while offset < end {
                let length = (end - offset).min(MOST_BYTES);
                self.requests.push(request(at, IoOp::Write, offset, length, file));
                offset += length;
            }
        }
    }
}

fn request(time_ns: Nanos, op: IoOp, offset: u64, length: u64, file: usize) -> IoRequest {
    // Streams are 1 the database, 2 the log, 3 the journal and its folder.
    let stream = (file as u32 + 1).min(3);
    IoRequest { time_ns, op, offset, length: length as u32, stream, ..IoRequest::NOTHING }
}

impl Files for PageCache {
    fn time(&mut self, now: Nanos) {
        self.expire(now);
        self.now = now;
    }

    fn write(&mut self, file: File, offset: u64, length: u64) {
        let waiting = &mut self.waiting[file as usize];
        let (from, to) = (offset / BLOCK_BYTES, (offset + length).div_ceil(BLOCK_BYTES));
        if waiting.blocks.is_empty() {
            waiting.oldest = self.now;
        }
        match waiting.blocks.last_mut() {
            Some(last) if last.0 <= from && from <= last.1 => last.1 = last.1.max(to),
            _ => waiting.blocks.push((from, to)),
        }
    }

    fn sync(&mut self, file: File) {
        if file != File::Folder {
            self.write_back(file as usize, self.now);
        }
        self.requests.push(request(self.now, IoOp::Flush, 0, 0, file as usize));
    }

    fn emptied(&mut self, file: File) {
        let waiting = &mut self.waiting[file as usize];
        waiting.blocks.clear();
        let (mut offset, mut left) = (self.layout.begins[file as usize], waiting.end * BLOCK_BYTES);
        waiting.end = 0;
        while self.layout.discards && left > 0 {
            let length = left.min(1 << 30);
            self.requests.push(request(self.now, IoOp::Trim, offset, length, file as usize));
            (offset, left) = (offset + length, left - length);
        }
    }
}
