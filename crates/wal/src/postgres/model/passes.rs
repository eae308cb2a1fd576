//! Pages that a load changes when it goes on for longer than it was recorded.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::relations::Fork;

/// Tries to find a page that takes another's place.
const TRIES: u32 = 8;

/// Tells which pages another pass through the log changes.
///
/// A page that several transactions have changed is changed as often from then on. One that a
/// single transaction has changed stands for the many that are changed seldom: each further pass
/// changes another page of the relation in its place that is not changed often. So changes of pages
/// not seen before have the share that changes of pages seen once had (Good, "The population
/// frequencies of species", Biometrika 40, 1953), as long as the relation has such.
pub(super) struct Passes {
    /// Of the pass, from 0 on.
    number: u64,
    /// By page: the transaction that changed it last; 0 before the first.
    last: Vec<u32>,
    /// By page: several transactions have changed it, or it was made anew.
    is_often: Vec<bool>,
}

impl Passes {
    /// For so many pages; none if there is one pass alone.
    pub fn new(pages: u32) -> Self {
        let pages = pages as usize;
        Self { number: 0, last: vec![0; pages], is_often: vec![false; pages] }
    }

    /// Begins another pass.
    pub fn again(&mut self) {
        self.number += 1;
    }

    /// True in all passes but the first.
    pub const fn is_again(&self) -> bool {
        self.number > 0
    }

    /// The page that a transaction changes where the log has `page`. One that is made anew stays.
    pub fn page(&mut self, page: u32, fork: &Fork, transaction: u32, is_made: bool) -> u32 {
        let at = page as usize;
        let Some(last) = self.last.get_mut(at) else { return page };
        if self.number == 0 {
            // What belongs to no transaction counts as one of its own.
            let now = if transaction == 0 { u32::MAX } else { transaction };
            self.is_often[at] |= is_made || (*last != 0 && *last != now);
            *last = now;
            return page;
        }
        if self.is_often[at] {
            return page;
        }
        // The same page has the same in its place all through a pass.
        let mut dice = Pcg64Mcg::seed_from_u64((u64::from(page) << 32) | self.number);
        let mut others = (0..TRIES).map(|_| fork.base + dice.random_range(0..fork.pages.max(1)));
        others.find(|other| !self.is_often[*other as usize]).unwrap_or(page)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::log::Relation;
    use super::*;

    const FORK: Fork = Fork {
        relation: Relation { space: 1, database: 1, node: 1 },
        fork: 0,
        pages: 1000,
        base: 100,
        touches: 0,
    };

    #[test]
    fn pages_that_are_changed_often_stay_and_the_others_change_places() {
        let mut passes = Passes::new(1100);
        for (number, page) in [100, 200, 100, 300, 100, 400].into_iter().enumerate() {
            assert_eq!(passes.page(page, &FORK, number as u32 + 7, page == 400), page);
        }
        let mut found = Vec::new();
        for _ in 0..3 {
            passes.again();
            assert_eq!(passes.page(100, &FORK, 9, false), 100);
            assert_eq!(passes.page(400, &FORK, 9, true), 400, "it is made anew");
            assert_eq!(passes.page(400, &FORK, 9, false), 400, "and filled");
            let other = passes.page(200, &FORK, 9, false);
            assert_eq!(passes.page(200, &FORK, 9, false), other, "the same all through a pass");
            assert!((101..1100).contains(&other));
            found.push(other);
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn changes_of_one_transaction_are_no_sign_that_a_page_is_changed_often() {
        let mut passes = Passes::new(1100);
        for (page, transaction) in [(500, 7), (501, 8), (500, 7), (502, 0), (502, 9)] {
            passes.page(page, &FORK, transaction, false);
        }
        passes.again();
        assert_ne!(passes.page(500, &FORK, 7, false), 500);
        assert_eq!(passes.page(502, &FORK, 9, false), 502);
    }
}
