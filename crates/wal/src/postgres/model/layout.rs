//! Places on the disk: relations one after another, the log behind them or on a disk of its own.

use units::{IoOp, IoRequest};

use super::super::log::{PAGE_BYTES, Relation};
use super::relations::Relations;

/// Pages of a file: PostgreSQL begins another at 1 GiB.
pub(super) const FILE_PAGES: u32 = (1 << 30) / PAGE_BYTES as u32;
/// Pages of a request, at most: of 1 MiB, as the block layer has them.
pub(super) const MOST_PAGES: u32 = (1 << 20) / PAGE_BYTES as u32;

/// Takes the writes and flushes of a server, in the order of their times.
pub trait Writes {
    /// Takes one. `is_log`: of the log, which may be on a disk of its own.
    fn take(&mut self, is_log: bool, request: IoRequest);
}

/// Takes none.
impl Writes for () {
    fn take(&mut self, _: bool, _: IoRequest) {}
}

/// A file, and its place on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// Number, as requests have it.
    pub number: u32,
    /// The relation and its fork; `None` of the log.
    pub relation: Option<(Relation, u8)>,
    /// Number of the file in the relation, or of the place in the log.
    pub part: u32,
    /// First byte on the disk.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Files and their places.
pub struct Layout {
    rows: Vec<FileRow>,
    segment_bytes: u64,
    log_base: u64,
}

impl Layout {
    /// Lays out relations. `is_log_apart`: the log begins at 0 of its own disk.
    #[must_use]
    pub fn new(relations: &Relations, segment_bytes: u64, is_log_apart: bool) -> Self {
        let mut forks = relations.forks().to_vec();
        forks.sort_by_key(|fork| fork.base);
        let mut rows = Vec::new();
        for fork in forks.iter().filter(|fork| fork.pages > 0) {
            for part in 0..fork.pages.div_ceil(FILE_PAGES) {
                let pages = FILE_PAGES.min(fork.pages - part * FILE_PAGES);
                let first = u64::from(fork.base) + u64::from(part) * u64::from(FILE_PAGES);
                rows.push(FileRow {
                    number: rows.len() as u32,
                    relation: Some((fork.relation, fork.fork)),
                    part,
                    offset: first * PAGE_BYTES as u64,
                    length: u64::from(pages) * PAGE_BYTES as u64,
                });
            }
        }
        let data = u64::from(relations.pages()) * PAGE_BYTES as u64;
        let log_base = if is_log_apart { 0 } else { data.next_multiple_of(1 << 20) };
        Self { rows, segment_bytes, log_base }
    }

    /// Files of relations.
    #[must_use]
    pub fn data_files(&self) -> usize {
        self.rows.len()
    }

    /// Files of relations, and of as many places of the log.
    #[must_use]
    pub fn files(&self, places: u32) -> Vec<FileRow> {
        let mut rows = self.rows.clone();
        for part in 0..places {
            rows.push(FileRow {
                number: rows.len() as u32,
                relation: None,
                part,
                offset: self.log_base + u64::from(part) * self.segment_bytes,
                length: self.segment_bytes,
            });
        }
        rows
    }

    /// The file of a page.
    #[inline]
    pub(super) fn file_of(&self, page: u32) -> u32 {
        let offset = u64::from(page) * PAGE_BYTES as u64;
        self.rows.partition_point(|row| row.offset <= offset).saturating_sub(1) as u32
    }

    /// Write of data pages that follow each other in a file.
    pub(super) fn pages(&self, time_ns: u64, first: u32, pages: u32, file: u32) -> IoRequest {
        let offset = u64::from(first) * PAGE_BYTES as u64;
        write(time_ns, offset, pages * PAGE_BYTES as u32, file)
    }

    /// Write to a place of the log.
    pub(super) fn log(&self, time_ns: u64, place: u32, at: u64, length: u32) -> IoRequest {
        let offset = self.log_base + u64::from(place) * self.segment_bytes + at;
        write(time_ns, offset, length, self.rows.len() as u32 + place)
    }

    /// Flush of a place of the log.
    pub(super) fn log_flush(&self, time_ns: u64, place: u32) -> IoRequest {
        flush(time_ns, self.rows.len() as u32 + place)
    }
}

fn write(time_ns: u64, offset: u64, length: u32, stream: u32) -> IoRequest {
    IoRequest { time_ns, op: IoOp::Write, offset, length, stream, ..IoRequest::NOTHING }
}

/// Flush of a file.
pub(super) fn flush(time_ns: u64, stream: u32) -> IoRequest {
    IoRequest { time_ns, stream, ..IoRequest::NOTHING }
}
