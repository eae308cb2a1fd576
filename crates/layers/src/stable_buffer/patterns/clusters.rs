//! Pages near each other, gathered greedily with each page that comes or goes: `FL` of STABLEBUFFER
//! 3.1.

use std::collections::BTreeMap;

use slab::Slab;

use super::Tuning;
use super::runs::Runs;
use super::sizes::Sizes;

/// All pages that are there from `min` to `max`, both included. Clusters do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The first page.
    pub min: u64,
    /// The last page.
    pub max: u64,
    /// Pages in it.
    pub pages: u32,
}

/// All clusters, by address and by size. A change is O(log n).
#[derive(Debug)]
pub struct Clusters {
    by_min: BTreeMap<u64, u32>,
    clusters: Slab<Cluster>,
    by_pages: Sizes,
    tuning: Tuning,
}

impl Clusters {
    /// For at most this many pages, whose focused instances are so large.
    pub fn new(most_pages: u32, tuning: &Tuning) -> Self {
        Self {
            by_min: BTreeMap::new(),
            clusters: Slab::with_capacity(most_pages as usize),
            by_pages: Sizes::new(most_pages),
            tuning: tuning.clone(),
        }
    }

    fn at_or_before(&self, page: u64) -> Option<(u32, Cluster)> {
        self.by_min
            .range(..=page)
            .next_back()
            .map(|(_, &index)| (index, self.clusters[index as usize]))
    }

    /// Puts a cluster in the place of what it was.
    fn change(&mut self, index: u32, to: Cluster) {
        let from = std::mem::replace(&mut self.clusters[index as usize], to);
        if from.pages != to.pages {
            self.by_pages.remove(index, from.pages);
            self.by_pages.insert(index, to.pages);
        }
        if from.min != to.min {
            self.by_min.remove(&from.min);
            self.by_min.insert(to.min, index);
        }
    }

    /// A page comes: into the nearest cluster, if that stays within a focused area, else into one
    /// of its own. Gives its cluster.
    pub fn insert(&mut self, page: u64) -> Cluster {
        let before = self.at_or_before(page);
        if let Some((index, cluster)) = before.filter(|(_, cluster)| cluster.max > page) {
            let grown = Cluster { pages: cluster.pages + 1, ..cluster };
            self.change(index, grown);
            return grown;
        }
        let after = self
            .by_min
            .range(page + 1..)
            .next()
            .map(|(_, &index)| (index, self.clusters[index as usize]));
        let is_near = |(_, cluster): &(u32, Cluster)| {
            !self.tuning.is_aligned
                || self.tuning.may_share(page.min(cluster.min), page.max(cluster.max))
        };
        let nearest = match (before.filter(is_near), after.filter(is_near)) {
            (Some(below), Some(above)) if above.1.min - page < page - below.1.max => Some(above),
            (Some(below), _) => Some(below),
            (None, above) => above,
        };
        if let Some((index, cluster)) = nearest {
            let grown = Cluster {
                min: cluster.min.min(page),
                max: cluster.max.max(page),
                pages: cluster.pages + 1,
            };
            if self.tuning.may_share(grown.min, grown.max) {
                self.change(index, grown);
                return grown;
            }
        }
        let own = Cluster { min: page, max: page, pages: 1 };
        let index = self.clusters.insert(own) as u32;
        self.by_min.insert(page, index);
        self.by_pages.insert(index, 1);
        own
    }

    /// A page goes. `left` are the runs of the pages that stay.
    ///
    /// # Panics
    /// If it is in no cluster.
    pub fn remove(&mut self, page: u64, left: &Runs) {
        let (index, cluster) = self
            .at_or_before(page)
            .filter(|(_, cluster)| cluster.max >= page)
            .expect("the page is in a cluster");
        if cluster.pages == 1 {
            self.by_pages.remove(index, 1);
            self.by_min.remove(&cluster.min);
            self.clusters.remove(index as usize);
            return;
        }
        let mut shrunk = Cluster { pages: cluster.pages - 1, ..cluster };
        if page == cluster.min {
            shrunk.min = left.first_from(page).expect("the cluster has a page above");
        }
        if page == cluster.max {
            shrunk.max = left.last_before(page).expect("the cluster has a page below");
        }
        self.change(index, shrunk);
    }

    /// Pages of the largest cluster; 0 if there is none.
    pub fn most_pages(&self) -> u32 {
        self.by_pages.greatest()
    }

    /// The first page of the first cluster with this many pages.
    pub fn first_of_pages(&self, pages: u32) -> Option<u64> {
        self.by_pages.of(pages).map(|index| self.clusters[index as usize].min).min()
    }

    /// The cluster that begins with this page.
    pub fn of_min(&self, min: u64) -> Option<Cluster> {
        self.by_min.get(&min).map(|&index| self.clusters[index as usize])
    }

    /// All clusters, by ascending address.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = Cluster> {
        self.by_min.values().map(|&index| self.clusters[index as usize])
    }
}
