//! One look at a whole log: its relations, redo points and times, and the lengths of what it holds.

use std::collections::BTreeSet;
use std::path::Path;

use units::Progress;

use super::super::images::{Images, Method, image_bytes};
use super::super::log::{Block, End, Lsn, PAGE_BYTES, Positions, Reader, Record, Relation, xlog};
use super::failure::ReplayError;
use super::relations::Relations;

/// Records between two reports of progress.
const REPORT_RECORDS: u64 = 4096;
/// Images of a fork that are compressed before only some of them are.
const ALL_IMAGES: u64 = 256;
/// Then one in so many is.
const SOME_IMAGES: u64 = 16;

/// A mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: u64) {
        self.sum += value;
        self.count += 1;
    }

    pub fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// A kind of change: of which records, and which of their blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    /// Bytes of data where there is no image.
    pub data: Mean,
    /// True if data stand beside an image, too, as for logical replication.
    pub keeps_data: bool,
}

/// Number of the kind of a block.
#[inline]
pub(super) fn kind_of(record: &Record<'_>, block: &Block) -> usize {
    let info = usize::from(record.info >> 4);
    usize::from(record.rmgr) << 6 | info << 2 | usize::from(block.id.min(3))
}

/// Own compression beside that of the server, of images that were compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recompressed {
    /// Images.
    pub images: u64,
    /// Those that have the same length.
    pub same: u64,
    /// Bytes as the server has them.
    pub bytes: u64,
    /// Bytes as they are here.
    pub own_bytes: u64,
}

/// What a log holds.
pub struct Survey {
    /// Version of the server, 15 to 18.
    pub version: u32,
    /// Lengths of segments.
    pub positions: Positions,
    /// First record.
    pub first: Lsn,
    /// End of the log.
    pub end: End,
    /// Relations, with all pages numbered.
    pub relations: Relations,
    /// Redo points of checkpoints, in order.
    pub redos: Vec<Lsn>,
    /// Records.
    pub records: u64,
    /// Images.
    pub images: u64,
    /// Times of the first and the last commit or abort, in microseconds since 2000.
    pub times_us: Option<(i64, i64)>,
    /// Method by which images are compressed.
    pub method: Method,
    /// True if images of pages of which only hints changed are in it: with checksums of pages.
    pub has_hints: bool,
    /// Own compression beside the server's.
    pub recompressed: Recompressed,
    /// Bytes of the records of a checkpoint.
    pub(super) checkpoint_bytes: u32,
    pub(super) kinds: Vec<Kind>,
    /// By fork and method.
    lengths: Vec<[Mean; 4]>,
    all_lengths: [Mean; 4],
}

/// Which of the methods are asked for.
type Wanted = [bool; 4];

impl Survey {
    /// Reads a log from the segment of `from` to `until`. `methods`: those by which images may have
    /// to be compressed. `known`: pages of relations, where a server told them.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn of(
        folder: &Path,
        (from, until): (Option<Lsn>, Option<Lsn>),
        methods: &[Method],
        known: &[(Relation, u32)],
        progress: &Progress,
    ) -> Result<Self, ReplayError> {
        let mut reader = Reader::open(folder, from, until)?;
        let log = reader.log();
        let mut survey = Self {
            version: log.version,
            positions: log.positions,
            first: Lsn(u64::MAX),
            end: End { lsn: Lsn(0), path: folder.to_owned(), offset: 0, torn: None },
            relations: Relations::default(),
            redos: Vec::new(),
            records: 0,
            images: 0,
            times_us: None,
            method: Method::Off,
            has_hints: false,
            recompressed: Recompressed::default(),
            checkpoint_bytes: 0,
            kinds: vec![Kind::default(); 256 << 6],
            lengths: Vec::new(),
            all_lengths: [Mean::default(); 4],
        };
        let mut images = Images::new().map_err(|error| ReplayError::Other(error.to_string()))?;
        let wanted = Method::ALL.map(|method| methods.contains(&method));
        let mut redos = BTreeSet::new();
        let mut at = Lsn(0);
        while let Some(record) = reader.next()? {
            survey.records += 1;
            if survey.records.is_multiple_of(REPORT_RECORDS) {
                progress.advance(record.lsn.0.saturating_sub(at.0))?;
                at = record.lsn;
            }
            if at == Lsn(0) {
                (at, survey.first) = (record.lsn, record.lsn);
            }
            survey.facts(&record, &mut redos);
            for block in record.blocks {
                survey.block(&record, block, &wanted, &mut images);
            }
        }
        survey.end = reader.end().cloned().unwrap_or(survey.end);
        survey.redos = redos.into_iter().collect();
        for (relation, pages) in known {
            survey.relations.has_pages(*relation, *pages);
        }
        survey.relations.number().map_err(ReplayError::Other)?;
        survey.lengths.resize(survey.relations.forks().len(), [Mean::default(); 4]);
        Ok(survey)
    }

    fn facts(&mut self, record: &Record<'_>, redos: &mut BTreeSet<Lsn>) {
        if record.is_of_checkpoint() {
            if record.is_xlog(xlog::CHECKPOINT_REDO) {
                redos.insert(record.lsn);
            } else if let Some(redo) = record.word(0) {
                redos.insert(Lsn(redo));
                self.checkpoint_bytes = record.bytes.len() as u32;
            }
        }
        self.has_hints |= record.is_xlog(xlog::FPI_FOR_HINT);
        if let Some(time) = record.time_us() {
            let (first, last) = self.times_us.unwrap_or((time, time));
            self.times_us = Some((first.min(time), last.max(time)));
        }
    }

    fn block(&mut self, record: &Record<'_>, block: &Block, wanted: &Wanted, images: &mut Images) {
        let fork = self.relations.touch(block);
        let kind = &mut self.kinds[kind_of(record, block)];
        if !block.has_image() {
            kind.data.add(u64::from(block.data_length));
            return;
        }
        kind.keeps_data |= block.data_length > 0;
        self.images += 1;
        let method = Method::of(block.image.info);
        if method != Method::Off {
            self.method = method;
        }
        if self.lengths.len() <= fork {
            self.lengths.resize(fork + 1, [Mean::default(); 4]);
        }
        let head = block.image;
        let count = self.lengths[fork][0].count;
        let mut add = |method: Method, bytes: u32| {
            self.lengths[fork][method as usize].add(u64::from(bytes));
            self.all_lengths[method as usize].add(u64::from(bytes));
        };
        let raw = PAGE_BYTES - usize::from(head.hole_length);
        add(Method::Off, image_bytes(raw, false, None));
        if count >= ALL_IMAGES && !count.is_multiple_of(SOME_IMAGES) {
            return;
        }
        let bytes = &record.bytes[head.at as usize..][..usize::from(head.length)];
        for other in Method::ALL {
            let is_own = other == method && other != Method::Off;
            if (wanted[other as usize] && other != Method::Off) || is_own {
                let own = images.bytes_under(head, bytes, other);
                add(other, own);
                if is_own {
                    let theirs = u32::from(head.length) + head.header();
                    self.recompressed.images += 1;
                    self.recompressed.same += u64::from(own == theirs);
                    self.recompressed.bytes += u64::from(theirs);
                    self.recompressed.own_bytes += u64::from(own);
                }
            }
        }
    }

    /// Mean bytes of an image of a fork, with its header, under a method; `None` if there is no
    /// image at all.
    pub(super) fn image_bytes(&self, fork: usize, method: Method) -> Option<f64> {
        let method = method as usize;
        self.lengths[fork][method].get().or_else(|| self.all_lengths[method].get())
    }
}
