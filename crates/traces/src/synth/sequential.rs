//! Pages in order, over and over.

use std::sync::Arc;

use rand_pcg::Pcg64Mcg;
use registry::Info;
use units::PageOp;

use super::{Entry, Generator, Model, PAGES, UPDATES, UpdateSet, write};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "sequential",
        aliases: &[],
        summary: "pages in order from the first to the last, over and over",
        source: "",
        params: &[PAGES, UPDATES],
    },
    build: |inputs| Ok(Box::new(Sequential { pages: inputs.pages, updates: inputs.updates })),
};

struct Sequential {
    pages: u32,
    updates: u64,
}

impl Model for Sequential {
    fn generator(self: Arc<Self>, _rng: Pcg64Mcg) -> Box<dyn Generator> {
        Box::new(March { pages: self.pages, next: 0 })
    }

    /// Shares of the updates of one pass: where it stops within a round, the pages after that have
    /// one update less.
    fn weights(&self) -> Vec<f64> {
        let (rounds, rest) =
            (self.updates / u64::from(self.pages), self.updates % u64::from(self.pages));
        let share = |page: u64| (rounds + u64::from(page < rest)) as f64 / self.updates as f64;
        (0..u64::from(self.pages)).map(share).collect()
    }

    fn sets(&self) -> Option<Vec<UpdateSet>> {
        self.updates
            .is_multiple_of(u64::from(self.pages))
            .then(|| vec![UpdateSet { size_share: 1.0, update_share: 1.0 }])
    }

    fn is_independent(&self) -> bool {
        false
    }
}

struct March {
    pages: u32,
    next: u32,
}

impl Generator for March {
    fn fill(&mut self, buffer: &mut [PageOp]) {
        for op in buffer {
            *op = write(self.next);
            self.next = if self.next + 1 == self.pages { 0 } else { self.next + 1 };
        }
    }
}
