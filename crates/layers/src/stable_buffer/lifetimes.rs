//! Lifetime hints of the pages in the slots, as the host gave them.
//!
//! A page keeps its hint on the way to its destination. Its slot is written with the hint of a
//! short life, as the slot is overwritten with the next page that gets it. A host that gives no
//! hints gets writes without hints. Pages that recovery finds have none: hints are in memory alone.

use units::Lifetime;

/// Hints by slot.
#[derive(Debug)]
pub struct Lifetimes {
    slots: u32,
    /// Empty until there is a hint.
    hints: Vec<Lifetime>,
}

impl Lifetimes {
    pub const fn new(slots: u32) -> Self {
        Self { slots, hints: Vec::new() }
    }

    /// Notes the hint of the page with which a slot is about to be written; gives that of the
    /// slot's write.
    pub fn written(&mut self, slot: u32, page: Lifetime) -> Lifetime {
        if page != Lifetime::NotSet && self.hints.is_empty() {
            self.hints.resize(self.slots as usize, Lifetime::NotSet);
        }
        if let Some(hint) = self.hints.get_mut(slot as usize) {
            *hint = page;
        }
        match page {
            Lifetime::NotSet => Lifetime::NotSet,
            _ => Lifetime::Short,
        }
    }

    /// Gives the hint of the page in a slot.
    pub fn of(&self, slot: u32) -> Lifetime {
        self.hints.get(slot as usize).copied().unwrap_or_default()
    }
}
