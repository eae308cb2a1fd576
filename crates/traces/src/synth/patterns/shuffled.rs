//! Everywhere before anywhere again.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use registry::{Info, SpecError};

use super::super::Permutation;
use super::{Entry, Inputs, Offsets, params};

/// Places that a permutation can have.
const MOST_PLACES: u64 = 1 << 31;

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "shuffled",
        aliases: &["random_map"],
        summary: "every place once, in random order, then each again in another one",
        source: "fio HOWTO: randwrite without norandommap",
        params: params![],
    },
    build,
};

fn build(inputs: &Inputs<'_>) -> Result<Box<dyn Offsets>, SpecError> {
    let places = inputs.places(inputs.length, inputs.step());
    if places > MOST_PLACES {
        return Err(inputs.bad("range", format!("at most {MOST_PLACES} requests long")));
    }
    let mut rng = inputs.random();
    Ok(Box::new(Shuffled {
        next: 0,
        places: places as u32,
        step: inputs.step(),
        order: Permutation::new(places as u32, rng.next_u64()),
        rng,
    }))
}

#[derive(Clone)]
struct Shuffled {
    /// Number of the next place in the order.
    next: u32,
    places: u32,
    step: u64,
    order: Permutation,
    rng: Pcg64Mcg,
}

impl Offsets for Shuffled {
    fn fill(&mut self, buffer: &mut [u64]) {
        for offset in buffer {
            *offset = u64::from(self.order.apply(self.next)) * self.step;
            self.next += 1;
            if self.next == self.places {
                self.next = 0;
                self.order = Permutation::new(self.places, self.rng.next_u64());
            }
        }
    }

    fn copy(&self) -> Box<dyn Offsets> {
        Box::new(self.clone())
    }
}
