//! Every page is updated equally often.

use std::sync::Arc;

use rand_pcg::Pcg64Mcg;
use registry::Info;
use units::PageOp;

use super::{Entry, Generator, Model, PAGES, UPDATES, UpdateSet, below, write};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "uniform",
        aliases: &["random"],
        summary: "every page equally often, in random order",
        source: "MULTILOG section 4.1 (1-modal) and 6.2",
        params: &[PAGES, UPDATES],
    },
    build: |inputs| Ok(Box::new(Uniform { pages: inputs.pages })),
};

struct Uniform {
    pages: u32,
}

impl Model for Uniform {
    fn generator(self: Arc<Self>, rng: Pcg64Mcg) -> Box<dyn Generator> {
        Box::new(Draw { pages: self.pages, rng })
    }

    fn weights(&self) -> Vec<f64> {
        vec![1.0 / f64::from(self.pages); self.pages as usize]
    }

    fn sets(&self) -> Option<Vec<UpdateSet>> {
        Some(vec![UpdateSet { size_share: 1.0, update_share: 1.0 }])
    }
}

struct Draw {
    pages: u32,
    rng: Pcg64Mcg,
}

impl Generator for Draw {
    fn fill(&mut self, buffer: &mut [PageOp]) {
        for op in buffer {
            *op = write(below(&mut self.rng, self.pages).0);
        }
    }
}
