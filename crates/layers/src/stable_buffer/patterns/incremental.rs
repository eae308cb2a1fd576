//! Incremental recognition: every candidate is kept up with each page that comes or goes, in O(log
//! n) (STABLEBUFFER 3.1).

use super::clusters::Clusters;
use super::runs::Runs;
use super::{Candidate, Pattern, Tuning, take_turns};

/// Runs, runs by length, and focused clusters of the pages that may be flushed.
#[derive(Debug)]
pub struct Incremental {
    runs: Runs,
    clusters: Clusters,
}

impl Incremental {
    /// For at most this many pages.
    pub fn new(most_pages: u32, tuning: &Tuning) -> Self {
        Self { runs: Runs::new(most_pages), clusters: Clusters::new(most_pages, tuning) }
    }

    /// A page comes. Gives the instances that it changed: one of each pattern.
    pub fn insert(&mut self, page: u64, tuning: &Tuning) -> [Candidate; 3] {
        let run = self.runs.insert(page);
        let cluster = self.clusters.insert(page);
        let in_run = if run.length < tuning.least_run_pages { 0 } else { run.length };
        let in_partitions = match run.length {
            length if length < tuning.least_partition_pages => 0,
            length => self.runs.pages_of_length(length, tuning.partitions),
        };
        [
            Candidate { pattern: Pattern::Sequential, pages: in_run, key: run.start },
            Candidate {
                pattern: Pattern::Partitioned,
                pages: in_partitions,
                key: u64::from(run.length),
            },
            Candidate { pattern: Pattern::Focused, pages: cluster.pages, key: cluster.min },
        ]
    }

    /// A page goes.
    pub fn remove(&mut self, page: u64) {
        self.runs.remove(page);
        self.clusters.remove(page, &self.runs);
    }

    /// The size of the largest instance of each pattern, 0 where there is none. Which of equal ones
    /// that is, [`Incremental::first_of`] tells.
    pub fn candidates(&self, tuning: &Tuning) -> [Candidate; 3] {
        let longest = Some(self.runs.longest())
            .filter(|&length| length >= tuning.least_run_pages)
            .unwrap_or(0);
        let (length, in_partitions) =
            self.runs.most_pages_of_a_length(tuning.least_partition_pages, tuning.partitions);
        [
            Candidate { pattern: Pattern::Sequential, pages: longest, key: 0 },
            Candidate {
                pattern: Pattern::Partitioned,
                pages: in_partitions,
                key: u64::from(length),
            },
            Candidate { pattern: Pattern::Focused, pages: self.clusters.most_pages(), key: 0 },
        ]
    }

    /// The first instance by address of a largest one's size.
    pub fn first_of(&self, candidate: Candidate) -> Candidate {
        let key = match candidate.pattern {
            Pattern::Sequential => self.runs.first_of_length(candidate.pages),
            Pattern::Partitioned => Some(candidate.key),
            Pattern::Focused => self.clusters.first_of_pages(candidate.pages),
        };
        Candidate { key: key.expect("there is one of that size"), ..candidate }
    }

    /// Writes down an instance, in the order in which it is to be written.
    pub fn write_down(&self, candidate: Candidate, tuning: &Tuning, pages: &mut Vec<u64>) {
        match candidate.pattern {
            Pattern::Sequential => {
                pages.extend(candidate.key..candidate.key + u64::from(candidate.pages));
            }
            Pattern::Partitioned => {
                take_turns(
                    &self.runs.starts_of_length(candidate.key as u32, tuning.partitions),
                    candidate.key,
                    pages,
                );
            }
            Pattern::Focused => {
                let cluster =
                    self.clusters.of_min(candidate.key).expect("the instance was found just now");
                self.runs.write_down(cluster.min, cluster.max, pages);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> (&Runs, &Clusters) {
        (&self.runs, &self.clusters)
    }
}
