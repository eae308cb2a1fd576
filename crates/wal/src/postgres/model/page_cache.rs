//! The kernel's page cache below a server: pages that it writes reach the disk later, and once.
//!
//! Linux writes a file's dirty pages when the oldest of them is 30 s old, looking each 5 s
//! (`vm.dirty_expire_centisecs`, `vm.dirty_writeback_centisecs`), and at an fsync. PostgreSQL asks
//! for it earlier: each 32 pages that a checkpoint, and each 64 that the background writer has
//! written (`checkpoint_flush_after`, `bgwriter_flush_after`); for what a backend writes it does
//! not. These are the defaults; memory is taken to be enough for what is dirty.

use units::IoRequest;

use super::layout::{Layout, MOST_PAGES};

/// Between two looks of the kernel.
pub(super) const LOOK_US: i64 = 5_000_000;
const EXPIRE_US: i64 = 30_000_000;
/// Pages after which they are asked for: of a checkpoint, of the background writer.
const AFTER: [usize; 2] = [32, 64];

#[derive(Default)]
struct File {
    /// Pages that became dirty, some of which are clean again.
    pages: Vec<u32>,
    /// When the first of them did.
    since_us: i64,
}

/// Dirty pages of the page cache.
pub(super) struct PageCache {
    is_dirty: Vec<u64>,
    files: Vec<File>,
    asked: [Vec<u32>; 2],
    out: Vec<u32>,
}

impl PageCache {
    /// A clean one.
    pub fn new(pages: u32, files: usize) -> Self {
        let is_dirty = vec![0; pages as usize / 64 + 1];
        let files = std::iter::repeat_with(File::default).take(files).collect();
        Self { is_dirty, files, asked: [Vec::new(), Vec::new()], out: Vec::new() }
    }

    /// Takes a page of a file from the server: from the checkpoint, the background writer, or a
    /// backend.
    pub fn write(&mut self, page: u32, file: u32, by: usize, now_us: i64) {
        let (word, bit) = (page as usize / 64, 1 << (page % 64));
        if self.is_dirty[word] & bit == 0 {
            self.is_dirty[word] |= bit;
            let file = &mut self.files[file as usize];
            if file.pages.is_empty() {
                file.since_us = now_us;
            }
            file.pages.push(page);
        }
        let Some(asked) = self.asked.get_mut(by) else { return };
        asked.push(page);
        if asked.len() >= AFTER[by] {
            let mut pages = std::mem::take(asked);
            self.clean(&mut pages);
            self.asked[by] = pages;
        }
    }

    /// Looks for what has been dirty for long.
    pub fn look(&mut self, now_us: i64) {
        for file in 0..self.files.len() {
            let one = &self.files[file];
            if !one.pages.is_empty() && now_us - one.since_us >= EXPIRE_US {
                self.sync(file);
            }
        }
    }

    /// Writes all of a file.
    pub fn sync(&mut self, file: usize) {
        let mut pages = std::mem::take(&mut self.files[file].pages);
        self.clean(&mut pages);
        self.files[file].pages = pages;
    }

    /// Moves those that are dirty to `out`, in order, and empties the list.
    fn clean(&mut self, pages: &mut Vec<u32>) {
        pages.sort_unstable();
        for page in pages.drain(..) {
            let (word, bit) = (page as usize / 64, 1 << (page % 64));
            if self.is_dirty[word] & bit != 0 {
                self.is_dirty[word] &= !bit;
                self.out.push(page);
            }
        }
    }

    /// Gives what was written since the last time, as the block layer has it: neighbours of a file
    /// in one request.
    pub fn requests(&mut self, layout: &Layout, time_ns: u64, mut take: impl FnMut(IoRequest)) {
        let mut at = 0;
        while let Some(&first) = self.out.get(at) {
            let file = layout.file_of(first);
            let mut pages = 1;
            while pages < MOST_PAGES
                && self.out.get(at + pages as usize) == Some(&(first + pages))
                && layout.file_of(first + pages) == file
            {
                pages += 1;
            }
            take(layout.pages(time_ns, first, pages, file));
            at += pages as usize;
        }
        self.out.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::log::Relation;
    use super::super::relations::Relations;
    use super::*;

    const PAGE: u64 = 8192;

    fn layout() -> Layout {
        let mut relations = Relations::default();
        for node in 0..2 {
            relations.has_pages(Relation { space: 1, database: 1, node }, 1000);
        }
        relations.number().unwrap();
        Layout::new(&relations, 16 << 20, false)
    }

    fn written(cache: &mut PageCache) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        cache.requests(&layout(), 0, |one| {
            found.push((one.offset / PAGE, u64::from(one.length) / PAGE));
        });
        found
    }

    #[test]
    fn a_page_that_backends_write_again_and_again_reaches_the_disk_once() {
        let mut cache = PageCache::new(2000, 2);
        for time_us in 0..1000 {
            cache.write(7, 0, 2, time_us);
        }
        cache.look(EXPIRE_US - 1);
        assert!(written(&mut cache).is_empty());
        cache.look(EXPIRE_US);
        assert_eq!(written(&mut cache), [(7, 1)]);
        cache.look(2 * EXPIRE_US);
        assert!(written(&mut cache).is_empty());
    }

    #[test]
    fn a_sync_writes_one_file_with_neighbours_together() {
        let mut cache = PageCache::new(2000, 2);
        for page in [5, 3, 4, 9] {
            cache.write(page, 0, 2, 0);
        }
        cache.write(1000, 1, 2, 0);
        cache.sync(0);
        assert_eq!(written(&mut cache), [(3, 3), (9, 1)]);
        cache.sync(1);
        assert_eq!(written(&mut cache), [(1000, 1)]);
    }

    #[test]
    fn what_a_checkpoint_and_the_background_writer_write_is_asked_for() {
        for (by, after) in [(0, 32), (1, 64)] {
            let mut cache = PageCache::new(2000, 2);
            for page in 0..after - 1 {
                cache.write(2 * page, 0, by, 0);
            }
            assert!(written(&mut cache).is_empty());
            cache.write(999, 0, by, 0);
            assert_eq!(written(&mut cache).len(), after as usize);
            cache.sync(0);
            assert!(written(&mut cache).is_empty());
        }
    }
}
