//! Recognition on demand: a sorted scan of the pages in the buffer, in O(n log n) (STABLEBUFFER
//! 3.1).

use super::{Candidate, Pattern, Tuning, take_turns};

/// Looks at all pages when an instance is asked for.
#[derive(Debug, Default)]
pub struct OnDemand {
    sorted: Vec<u64>,
    /// Runs of adjacent pages, by ascending address: where they begin in `sorted`, and their
    /// length.
    runs: Vec<(u32, u32)>,
    /// Pages in the runs of each length that one instance has.
    of_length: Vec<u32>,
}

impl OnDemand {
    /// The best instance among these pages.
    pub fn best(&mut self, all: impl Iterator<Item = u64>, tuning: &Tuning) -> Option<Candidate> {
        self.sorted.clear();
        self.sorted.extend(all);
        self.sorted.sort_unstable();
        self.find_runs();
        tuning.best([self.sequential(tuning), self.partitioned(tuning), self.focused(tuning)])
    }

    fn find_runs(&mut self) {
        self.runs.clear();
        for (index, &page) in self.sorted.iter().enumerate() {
            match self.runs.last_mut() {
                Some((start, length))
                    if self.sorted[*start as usize] + u64::from(*length) == page =>
                {
                    *length += 1;
                }
                _ => self.runs.push((index as u32, 1)),
            }
        }
    }

    /// The longest run that is long enough; of equals, the first.
    fn sequential(&self, tuning: &Tuning) -> Candidate {
        let mut best = Candidate { pattern: Pattern::Sequential, pages: 0, key: 0 };
        for &(start, length) in self.runs.iter().filter(|run| run.1 >= tuning.least_run_pages) {
            if length > best.pages {
                best = Candidate { pages: length, key: self.sorted[start as usize], ..best };
            }
        }
        best
    }

    /// The length whose runs have most pages together, of as many as take turns; of equals, the
    /// longest.
    fn partitioned(&mut self, tuning: &Tuning) -> Candidate {
        self.of_length.clear();
        self.of_length.resize(self.sorted.len() + 1, 0);
        for &(_, length) in &self.runs {
            let pages = &mut self.of_length[length as usize];
            *pages = (*pages + length).min(length * tuning.partitions);
        }
        let mut best = Candidate { pattern: Pattern::Partitioned, pages: 0, key: 0 };
        for (length, &pages) in
            self.of_length.iter().enumerate().skip(tuning.least_partition_pages as usize)
        {
            if pages >= best.pages && pages > 0 {
                best = Candidate { pages, key: length as u64, ..best };
            }
        }
        best
    }

    /// The densest window of the focused area's size, sliding over the sorted pages; of equals, the
    /// first.
    fn focused(&self, tuning: &Tuning) -> Candidate {
        let mut best = Candidate { pattern: Pattern::Focused, pages: 0, key: 0 };
        let mut end = 0;
        for (begin, &first) in self.sorted.iter().enumerate() {
            while end < self.sorted.len() && tuning.may_share(first, self.sorted[end]) {
                end += 1;
            }
            if (end - begin) as u32 > best.pages {
                best = Candidate { pages: (end - begin) as u32, key: first, ..best };
            }
        }
        best
    }

    /// Writes down an instance of the pages that were looked at last.
    pub fn write_down(&self, candidate: Candidate, tuning: &Tuning, pages: &mut Vec<u64>) {
        match candidate.pattern {
            Pattern::Sequential => {
                pages.extend(candidate.key..candidate.key + u64::from(candidate.pages));
            }
            Pattern::Partitioned => {
                let runs =
                    self.runs.iter().filter(|(_, length)| u64::from(*length) == candidate.key);
                let starts: Vec<u64> = runs
                    .map(|(start, _)| self.sorted[*start as usize])
                    .take(tuning.partitions as usize)
                    .collect();
                take_turns(&starts, candidate.key, pages);
            }
            Pattern::Focused => {
                let begin = self.sorted.partition_point(|&page| page < candidate.key);
                pages.extend_from_slice(&self.sorted[begin..begin + candidate.pages as usize]);
            }
        }
    }
}
