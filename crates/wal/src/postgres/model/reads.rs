//! Pages that are read: their number from a server's statistics, where the log shows changes.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::super::log::Relation;
use super::pool::Pool;
use super::relations::Relations;

/// Relations of fewer pages are taken to be in the buffers always.
const LEAST_PAGES: u32 = 8;
/// Pages from which on an index has a level between its root and its leaves.
const THREE_LEVELS: u32 = 400;

/// What a server counted of a relation.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The relation.
    pub relation: Relation,
    /// Its pages.
    pub pages: u32,
    /// Pages of it that were asked for while it was recorded.
    pub accesses: u64,
    /// Those that were not in the buffers.
    pub reads: u64,
    /// True of an index, of which each search uses inner pages, too.
    pub is_index: bool,
}

struct Part {
    base: u32,
    pages: u32,
    /// Pages that are changed, as often as they are; none if the log changes none.
    changed: Vec<u32>,
    /// At each commit.
    rate: f64,
    owed: f64,
}

impl Part {
    /// A page: one that is changed, or one near it, so that each is as likely to be read as its
    /// neighbourhood is to be changed; any page where none is changed.
    fn draw(&self, dice: &mut Pcg64Mcg) -> u32 {
        if self.changed.is_empty() {
            return self.base + dice.random_range(0..self.pages);
        }
        let near = self.changed[dice.random_range(0..self.changed.len())];
        let reach = self.pages / self.changed.len() as u32;
        let moved = (near + dice.random_range(0..=2 * reach)).saturating_sub(reach);
        self.base + moved.min(self.pages - 1)
    }
}

/// Reads beside the changes that the log shows. What is read often is taken to be what is changed
/// often: where pages are, the log tells, and nothing tells of reads but their number.
pub struct Reads {
    parts: Vec<Part>,
    dice: Pcg64Mcg,
}

impl Reads {
    /// As many reads as a server counted beyond the changes in the log, times `factor`.
    #[must_use]
    pub fn new(known: &[Known], relations: &mut Relations, commits: u64, factor: f64) -> Self {
        let mut parts = Vec::new();
        for one in known.iter().filter(|one| one.pages >= LEAST_PAGES) {
            let number = relations.find(one.relation, 0);
            let Some(fork) = relations.forks().get(number).copied() else { continue };
            let levels = match one.pages {
                _ if !one.is_index => 1,
                pages if pages > THREE_LEVELS => 3,
                _ => 2,
            };
            let beyond = (one.accesses / levels).saturating_sub(fork.touches);
            let rate = factor * beyond as f64 / commits.max(1) as f64;
            let pages = one.pages.min(fork.pages);
            if rate > 0.0 && pages > 0 {
                let changed = relations.changed(number).to_vec();
                parts.push(Part { base: fork.base, pages, changed, rate, owed: 0.0 });
            }
        }
        Self { parts, dice: Pcg64Mcg::seed_from_u64(5) }
    }

    /// None.
    #[must_use]
    pub fn none() -> Self {
        Self { parts: Vec::new(), dice: Pcg64Mcg::seed_from_u64(5) }
    }

    /// The reads of a commit; gives each dirty page that has to leave to `left`.
    pub(super) fn of_commit(&mut self, pool: &mut Pool, mut left: impl FnMut(u32)) {
        for part in &mut self.parts {
            part.owed += part.rate;
            while part.owed >= 1.0 {
                part.owed -= 1.0;
                let page = part.draw(&mut self.dice);
                if let Some(page) = pool.touch(page, false, false) {
                    left(page);
                }
            }
        }
    }

    /// Fills the buffers with pages of relations, by first page and number, as a server's are that
    /// has run for long: all of them where they fit, else any.
    pub(super) fn warm(&mut self, pool: &mut Pool, known: &[(u32, u32)]) {
        let all: u64 = known.iter().map(|(_, pages)| u64::from(*pages)).sum();
        if pool.would_hold(all) {
            for (base, pages) in known {
                for page in *base..base + pages {
                    pool.touch(page, false, true);
                }
            }
            return;
        }
        while pool.has_room() {
            let mut at = self.dice.random_range(0..all);
            for (base, pages) in known {
                if at < u64::from(*pages) {
                    pool.touch(base + at as u32, false, true);
                    break;
                }
                at -= u64::from(*pages);
            }
        }
    }
}
