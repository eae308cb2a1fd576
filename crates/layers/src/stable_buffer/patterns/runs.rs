//! Runs of adjacent pages, kept up with each page that comes or goes: `SL` and `P_l` of
//! STABLEBUFFER 3.1.

use std::collections::BTreeMap;

use slab::Slab;

use super::sizes::Sizes;

/// Pages in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// First page.
    pub start: u64,
    /// Number of pages.
    pub length: u32,
}

impl PageRun {
    const fn end(&self) -> u64 {
        self.start + self.length as u64
    }
}

/// All runs, by address (`SL`) and by length (`P_l`). A change is O(log n).
#[derive(Debug)]
pub struct Runs {
    by_start: BTreeMap<u64, u32>,
    runs: Slab<PageRun>,
    by_length: Sizes,
}

impl Runs {
    /// Makes an empty set for at most this many pages.
    pub fn new(most_pages: u32) -> Self {
        Self {
            by_start: BTreeMap::new(),
            runs: Slab::with_capacity(most_pages as usize),
            by_length: Sizes::new(most_pages),
        }
    }

    fn add(&mut self, run: PageRun) {
        let index = self.runs.insert(run) as u32;
        self.by_start.insert(run.start, index);
        self.by_length.insert(index, run.length);
    }

    /// Changes a run's length; its start stays.
    fn resize(&mut self, index: u32, length: u32) {
        let run = &mut self.runs[index as usize];
        self.by_length.remove(index, run.length);
        run.length = length;
        self.by_length.insert(index, length);
    }

    fn drop(&mut self, index: u32) {
        let run = self.runs.remove(index as usize);
        self.by_length.remove(index, run.length);
        self.by_start.remove(&run.start);
    }

    /// Gives the last run that begins at this page or before it.
    fn at_or_before(&self, page: u64) -> Option<(u32, PageRun)> {
        self.by_start
            .range(..=page)
            .next_back()
            .map(|(_, &index)| (index, self.runs[index as usize]))
    }

    /// Adds a page that is in no run. Gives the run that it is part of.
    pub fn insert(&mut self, page: u64) -> PageRun {
        let before = self.at_or_before(page).filter(|(_, run)| run.end() == page);
        let after = self.by_start.get(&(page + 1)).map(|&index| (index, self.runs[index as usize]));
        let run = PageRun {
            start: before.map_or(page, |(_, run)| run.start),
            length: before.map_or(0, |(_, run)| run.length)
                + 1
                + after.map_or(0, |(_, run)| run.length),
        };
        if let Some((index, _)) = after {
            self.drop(index);
        }
        match before {
            Some((index, _)) => self.resize(index, run.length),
            None => self.add(run),
        }
        run
    }

    /// Removes a page.
    ///
    /// # Panics
    /// If it is in no run.
    pub fn remove(&mut self, page: u64) {
        let (index, run) = self
            .at_or_before(page)
            .filter(|(_, run)| run.end() > page)
            .expect("the page is in a run");
        let before = (page - run.start) as u32;
        if before == 0 {
            self.drop(index);
        } else {
            self.resize(index, before);
        }
        if run.length > before + 1 {
            self.add(PageRun { start: page + 1, length: run.length - before - 1 });
        }
    }

    /// Gives the length of the longest run; 0 if there is none.
    pub fn longest(&self) -> u32 {
        self.by_length.greatest()
    }

    /// Gives the number of pages in the runs of this length, of at most so many of them.
    pub fn pages_of_length(&self, length: u32, most_runs: u32) -> u32 {
        self.by_length.count(length).min(most_runs) * length
    }

    /// Finds the length whose runs, at most so many of them, have most pages together, of those
    /// that are long enough; of equals, the longest. Gives it with the number of pages.
    pub fn most_pages_of_a_length(&self, least: u32, most_runs: u32) -> (u32, u32) {
        let long_enough = self.by_length.sizes().filter(|&length| length >= least);
        let (pages, length) = long_enough
            .map(|length| (self.pages_of_length(length, most_runs), length))
            .max()
            .unwrap_or((0, 0));
        (length, pages)
    }

    /// Gives the first pages of the runs of this length, the first so many of them, ascending.
    pub fn starts_of_length(&self, length: u32, most_runs: u32) -> Vec<u64> {
        let mut starts: Vec<u64> =
            self.by_length.of(length).map(|index| self.runs[index as usize].start).collect();
        starts.sort_unstable();
        starts.truncate(most_runs as usize);
        starts
    }

    /// Gives the first page of the first run of this length.
    pub fn first_of_length(&self, length: u32) -> Option<u64> {
        self.by_length.of(length).map(|index| self.runs[index as usize].start).min()
    }

    /// Gives the first page from this one on.
    pub fn first_from(&self, page: u64) -> Option<u64> {
        if self.at_or_before(page).is_some_and(|(_, run)| run.end() > page) {
            return Some(page);
        }
        self.by_start.range(page..).next().map(|(&start, _)| start)
    }

    /// Gives the last page before this one.
    pub fn last_before(&self, page: u64) -> Option<u64> {
        let (_, run) = self.at_or_before(page.checked_sub(1)?)?;
        Some(run.end().min(page) - 1)
    }

    /// Lists the pages from `min` to `max`, both of which are there.
    pub fn write_down(&self, min: u64, max: u64, pages: &mut Vec<u64>) {
        let first = self.at_or_before(min).map_or(min, |(_, run)| run.start);
        for &index in self.by_start.range(first..=max).map(|(_, index)| index) {
            let run = self.runs[index as usize];
            pages.extend(run.start.max(min)..run.end().min(max + 1));
        }
    }

    /// Gives all runs, by ascending address.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = PageRun> {
        self.by_start.values().map(|&index| self.runs[index as usize])
    }
}
