//! Anywhere.

use rand_pcg::Pcg64Mcg;
use registry::Info;

use super::{Entry, Offsets, below, params};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "random",
        aliases: &["uniform"],
        summary: "every place equally often, in random order",
        source: "uFLIP (CIDR 2009): RR, RW; PARALLELISM section 3.2",
        params: params![],
    },
    build: |inputs| {
        Ok(Box::new(Random {
            places: inputs.places(inputs.length, inputs.align),
            align: inputs.align,
            rng: inputs.random(),
        }))
    },
};

#[derive(Clone)]
struct Random {
    places: u64,
    align: u64,
    rng: Pcg64Mcg,
}

impl Offsets for Random {
    fn fill(&mut self, buffer: &mut [u64]) {
        for offset in buffer {
            *offset = below(&mut self.rng, self.places) * self.align;
        }
    }

    fn copy(&self) -> Box<dyn Offsets> {
        Box::new(self.clone())
    }
}
