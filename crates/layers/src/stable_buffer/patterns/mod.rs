//! Write patterns that are fast on a device, and the choice among their instances (STABLEBUFFER 3).

mod clusters;
mod incremental;
mod on_demand;
mod runs;
mod sizes;
#[cfg(test)]
mod tests;

pub use incremental::Incremental;
pub use on_demand::OnDemand;

/// A pattern in which writes are fast (STABLEBUFFER 1). Of instances with equal worth, the first
/// pattern is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One page after the other.
    Sequential,
    /// Several such runs, of equal length, that take turns.
    Partitioned,
    /// Pages anywhere within a focused area.
    Focused,
}

/// Facts of the patterns on the device.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Mean time of a page's write in each pattern: `T_x`.
    pub time_ns: [f64; 3],
    /// Pages above which an instance is worth flushing at once, for each pattern: `theta_x`.
    pub threshold_pages: [f64; 3],
    /// Pages of a focused area.
    pub focused_pages: u64,
    /// True if focused instances lie between multiples of the focused area, as a drive's
    /// superblocks do; else they lie anywhere, as in STABLEBUFFER.
    pub is_aligned: bool,
    /// Most runs that take turns in one instance. STABLEBUFFER sets no limit, and takes the time of
    /// a page's write from four.
    pub partitions: u32,
    /// Pages of the shortest run that is taken for a sequential instance.
    pub least_run_pages: u32,
    /// Pages of the shortest runs that are taken for partitions.
    pub least_partition_pages: u32,
}

impl Tuning {
    /// Returns true if two pages may be in one focused instance.
    fn may_share(&self, first: u64, last: u64) -> bool {
        last - first < self.focused_pages
            && (!self.is_aligned || first / self.focused_pages == last / self.focused_pages)
    }

    /// Gives the worth of an instance, which decides between instances: `|WP| / T` (STABLEBUFFER
    /// 3.2).
    fn worth(&self, candidate: Candidate) -> f64 {
        f64::from(candidate.pages) / self.time_ns[candidate.pattern as usize]
    }

    /// Gives the instance of most worth; of equals, the first pattern.
    fn best(&self, candidates: impl IntoIterator<Item = Candidate>) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        for candidate in candidates {
            if candidate.pages > 0
                && best.is_none_or(|best| self.worth(candidate) > self.worth(best))
            {
                best = Some(candidate);
            }
        }
        best
    }

    /// Returns true if an instance is worth flushing without need.
    fn qualifies(&self, candidate: Candidate) -> bool {
        f64::from(candidate.pages) > self.threshold_pages[candidate.pattern as usize]
    }
}

/// An instance of a pattern that was found, without the list of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Pattern of the instance.
    pub pattern: Pattern,
    /// Number of its pages.
    pub pages: u32,
    /// Key of the instance: the first page of a sequential or focused one, the length of a
    /// partitioned one's runs.
    pub key: u64,
}

/// Lists the pages of runs of equal length in the order in which they are written: page by page
/// they take turns (STABLEBUFFER 1: "1, 50, 2, 51, 3, 52, ...").
fn take_turns(starts: &[u64], length: u64, pages: &mut Vec<u64>) {
    for step in 0..length {
        pages.extend(starts.iter().map(|start| start + step));
    }
}

/// Method of recognising instances.
#[derive(Debug)]
pub enum Recognition {
    /// Instances are found when one is asked for.
    OnDemand(OnDemand),
    /// Instances are kept up with each page that comes or goes.
    Incremental(Box<Incremental>),
}

impl Recognition {
    /// Notes that a page may be flushed. Gives the best instance that it is part of now and that is
    /// worth flushing at once, if that is known.
    pub fn insert(&mut self, page: u64, tuning: &Tuning) -> Option<Candidate> {
        match self {
            Self::OnDemand(_) => None,
            Self::Incremental(incremental) => {
                let affected = incremental.insert(page, tuning);
                tuning.best(affected.into_iter().filter(|&candidate| tuning.qualifies(candidate)))
            }
        }
    }

    /// Notes that a page may not be flushed any more.
    pub fn remove(&mut self, page: u64) {
        if let Self::Incremental(incremental) = self {
            incremental.remove(page);
        }
    }

    /// Gives the best instance. `all` are the pages that may be flushed, in any order, if they have
    /// to be looked at.
    pub fn best(&mut self, all: impl Iterator<Item = u64>, tuning: &Tuning) -> Option<Candidate> {
        match self {
            Self::OnDemand(on_demand) => on_demand.best(all, tuning),
            Self::Incremental(incremental) => {
                tuning.best(incremental.candidates(tuning)).map(|best| incremental.first_of(best))
            }
        }
    }

    /// Gives the best instance that is worth flushing at once, if that is known.
    pub fn best_qualified(&self, tuning: &Tuning) -> Option<Candidate> {
        match self {
            Self::OnDemand(_) => None,
            Self::Incremental(incremental) => {
                let qualified = incremental
                    .candidates(tuning)
                    .into_iter()
                    .filter(|&candidate| tuning.qualifies(candidate));
                tuning.best(qualified).map(|best| incremental.first_of(best))
            }
        }
    }

    /// Lists the pages of the instance that was found last, in the order in which they are to be
    /// written.
    pub fn write_down(&self, candidate: Candidate, tuning: &Tuning, pages: &mut Vec<u64>) {
        pages.clear();
        match self {
            Self::OnDemand(on_demand) => on_demand.write_down(candidate, tuning, pages),
            Self::Incremental(incremental) => incremental.write_down(candidate, tuning, pages),
        }
        debug_assert_eq!(pages.len(), candidate.pages as usize);
    }
}
