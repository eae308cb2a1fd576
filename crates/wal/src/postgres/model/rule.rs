//! Which changes come with an image of the page, and how long their records are.

use super::super::images::{Images, Method};
use super::super::log::{Block, Record, rmgr, xlog};
use super::figures::Check;
use super::settings::Settings;
use super::survey::{Survey, kind_of};

/// A record as other settings would have written it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Written {
    pub bytes: f64,
    pub images: u32,
    pub image_bytes: f64,
    /// Images whose length is a mean.
    pub guessed: u32,
}

/// The rule (`XLogRecordAssemble`): an image at the first change of a page after a redo point,
/// unless the page is made anew.
pub(super) struct Rule {
    full_page_writes: bool,
    /// Compression of images.
    method: Method,
    /// True if images in the log are as they would be written.
    is_as_recorded: bool,
    /// True if pages have checksums, so that hints are logged.
    has_hints: bool,
    /// Number of redo points so far, from 1.
    epoch: u32,
    /// By page: the epoch of its last change, 0 before the first.
    touched: Vec<u32>,
    /// By page: bytes of its last image, with its header; 0 if there is none.
    known: Vec<u16>,
    /// By page: true if its last record was an image for hints. Two that set hints of a page at
    /// once each write one, so that a second one says nothing.
    hinted: Vec<bool>,
    pub check: Check,
    /// True if the last record has an image that a redo point alone can explain, and none does.
    pub is_unexplained: bool,
}

/// True of a block of which there is an image whatever was changed before (`REGBUF_FORCE_IMAGE`):
/// new pages as a whole, splits of hash and of inverted indexes.
fn is_forced(record: &Record<'_>, block: &Block) -> bool {
    match (record.rmgr, record.kind()) {
        (rmgr::XLOG, kind) => kind == xlog::FPI,
        (rmgr::HASH, kind) => kind == 0x50,
        (rmgr::GIN, 0x30) => block.id <= 2,
        (rmgr::GIN, kind) => kind == 0x40,
        _ => false,
    }
}

/// True of a page of a table of which only a flag changes, while its visibility map is changed:
/// without checksums it neither has an image nor counts as changed (`log_heap_visible`).
fn is_only_flag(record: &Record<'_>, block: &Block) -> bool {
    record.rmgr == rmgr::HEAP2 && record.info & 0x70 == 0x40 && block.id == 1
}

impl Rule {
    pub fn new(settings: &Settings, recorded: &Settings, survey: &Survey, has_hints: bool) -> Self {
        let pages = survey.relations.pages() as usize;
        Self {
            full_page_writes: settings.full_page_writes,
            method: settings.wal_compression,
            is_as_recorded: settings.wal_compression == recorded.wal_compression,
            has_hints,
            epoch: 1,
            touched: vec![0; pages],
            known: vec![0; pages],
            hinted: vec![false; pages],
            check: Check::default(),
            is_unexplained: false,
        }
    }

    /// A checkpoint begins.
    pub fn redo(&mut self) {
        self.epoch += 1;
    }

    /// The checkpoint began before the last record, of which these are the pages.
    pub fn began_before(&mut self, pages: &[(u32, usize)]) {
        for (page, _) in pages {
            self.touched[*page as usize] = self.epoch;
        }
    }

    fn needs_image(&self, record: &Record<'_>, block: &Block, page: u32) -> bool {
        if block.will_init() || (!self.has_hints && is_only_flag(record, block)) {
            return false;
        }
        self.touched[page as usize] < self.epoch
    }

    /// Gives the record as it would be, and remembers what it changes; `None` if it would not be.
    /// `pages`: number and fork of each block's page.
    pub fn write(
        &mut self,
        record: &Record<'_>,
        pages: &[(u32, usize)],
        survey: &Survey,
        images: &mut Images,
    ) -> Option<Written> {
        let mut found = Written { bytes: record.bytes.len() as f64, ..Written::default() };
        let is_hint = record.is_xlog(xlog::FPI_FOR_HINT);
        let (mut is_left_out, mut is_unexplained) = (false, false);
        for (block, &(page, fork)) in record.blocks.iter().zip(pages) {
            let has = block.has_image();
            let is_first = self.needs_image(record, block, page);
            let is_forced = is_forced(record, block);
            is_left_out |= is_hint && !is_first;
            let needs = is_forced || (is_first && self.full_page_writes);
            let is_race = is_hint && self.hinted[page as usize];
            is_unexplained |= has && !needs && !is_race;
            self.hinted[page as usize] = is_hint;
            self.count(block, has, needs);
            if self.has_hints || !is_only_flag(record, block) {
                self.touched[page as usize] = self.epoch;
            }
            if !has && !needs {
                continue;
            }
            let kind = &survey.kinds[kind_of(record, block)];
            if has {
                found.bytes -= f64::from(u32::from(block.image.length) + block.image.header());
                self.known[page as usize] = self.length(record, block, images) as u16;
                if !needs && !is_hint && !kind.keeps_data {
                    found.bytes += kind.data.get().unwrap_or_default();
                }
            }
            if needs {
                let known = f64::from(self.known[page as usize]);
                let bytes = if known > 0.0 {
                    known
                } else {
                    found.guessed += 1;
                    survey.image_bytes(fork, self.method).unwrap_or_default()
                };
                if !has && !is_hint && !kind.keeps_data {
                    found.bytes -= f64::from(block.data_length);
                }
                found.bytes += bytes;
                found.images += 1;
                found.image_bytes += bytes;
            }
        }
        self.is_unexplained = is_unexplained;
        (!is_left_out).then_some(found)
    }

    fn count(&mut self, block: &Block, has: bool, needs: bool) {
        let check = &mut self.check;
        if has {
            check.images += 1;
            check.right += u64::from(needs);
            check.image_bytes += u64::from(u32::from(block.image.length) + block.image.header());
        }
        check.extra += u64::from(needs && !has);
    }

    fn length(&self, record: &Record<'_>, block: &Block, images: &mut Images) -> u32 {
        let head = block.image;
        if self.is_as_recorded {
            return u32::from(head.length) + head.header();
        }
        let bytes = &record.bytes[head.at as usize..][..usize::from(head.length)];
        images.bytes_under(head, bytes, self.method)
    }
}
