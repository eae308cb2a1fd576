//! Who uses which pages: a page and its checksum change together, so whoever writes to a page has
//! it alone, and those who read it share it. Whoever comes first, comes first.

use std::collections::VecDeque;
use std::ops::Range;

/// Some pages, for somebody.
#[derive(Clone, Debug)]
struct Claim {
    task: u32,
    pages: Range<u64>,
    is_shared: bool,
}

impl Claim {
    const fn excludes(&self, other: &Self) -> bool {
        self.pages.start < other.pages.end
            && other.pages.start < self.pages.end
            && !(self.is_shared && other.is_shared)
    }
}

/// All claims. There are as many as commands under way, so that they are looked through one by one.
#[derive(Debug, Default)]
pub struct Locks {
    held: Vec<Claim>,
    waiting: VecDeque<Claim>,
}

impl Locks {
    /// Claims pages for a task. Whether it has them; if not, [`Locks::release`] of another says
    /// when.
    pub fn claim(&mut self, task: u32, pages: Range<u64>, is_shared: bool) -> bool {
        let claim = Claim { task, pages, is_shared };
        let is_free = !self.held.iter().chain(&self.waiting).any(|other| other.excludes(&claim));
        if is_free {
            self.held.push(claim);
        } else {
            self.waiting.push_back(claim);
        }
        is_free
    }

    /// A task needs its pages no longer: `granted` gets those who have theirs now.
    ///
    /// # Panics
    /// If it has none.
    pub fn release(&mut self, task: u32, granted: &mut Vec<u32>) {
        let place = self.held.iter().position(|claim| claim.task == task);
        self.held.swap_remove(place.expect("only who has pages releases them"));
        let mut at = 0;
        while let Some(claim) = self.waiting.get(at) {
            let before = self.waiting.iter().take(at);
            if self.held.iter().chain(before).any(|other| other.excludes(claim)) {
                at += 1;
                continue;
            }
            granted.push(claim.task);
            self.held.extend(self.waiting.remove(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_waits_for_those_before_and_nobody_overtakes_it() {
        let (mut locks, mut granted) = (Locks::default(), Vec::new());
        assert!(locks.claim(1, 0..4, true) && locks.claim(2, 2..6, true));
        assert!(!locks.claim(3, 3..4, false) && !locks.claim(4, 3..5, true));
        assert!(locks.claim(5, 6..7, false));
        locks.release(1, &mut granted);
        assert!(granted.is_empty());
        locks.release(2, &mut granted);
        assert_eq!(granted, [3]);
        locks.release(3, &mut granted);
        assert_eq!(granted, [3, 4]);
    }
}
