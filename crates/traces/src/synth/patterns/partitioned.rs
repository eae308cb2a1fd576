//! Several sequential streams in turn.

use registry::{Info, Param, ParamKind, SpecError};

use super::{Entry, Inputs, Offsets, params};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "partitioned",
        aliases: &[],
        summary: "sequential streams in turn, each over its part of the range, over and over",
        source: "uFLIP (CIDR 2009): partitioning; STABLEBUFFER section 1; PARALLELISM section 5.3 \
                 (mixed streams)",
        params: params![Param {
            name: "ways",
            kind: ParamKind::Integer { min: 1, max: 1 << 20 },
            default: "4",
            help: "streams; the range is divided into as many parts of equal size",
        }],
    },
    build,
};

fn build(inputs: &Inputs<'_>) -> Result<Box<dyn Offsets>, SpecError> {
    let ways = inputs.args.integer("ways");
    let part = inputs.length / ways / inputs.align * inputs.align;
    if part < inputs.size {
        let most = inputs.length / inputs.step();
        return Err(inputs
            .bad("ways", format!("at most {most}: a part of the range has to hold a request")));
    }
    let step = inputs.step();
    Ok(Box::new(Partitioned {
        ways,
        part,
        places: inputs.places(part, step),
        step,
        way: 0,
        next: 0,
    }))
}

#[derive(Clone)]
struct Partitioned {
    ways: u64,
    /// Bytes of a part.
    part: u64,
    places: u64,
    step: u64,
    /// The stream whose turn it is, and the place at which all are in this round.
    way: u64,
    next: u64,
}

impl Offsets for Partitioned {
    fn fill(&mut self, buffer: &mut [u64]) {
        for offset in buffer {
            *offset = self.way * self.part + self.next * self.step;
            self.way += 1;
            if self.way == self.ways {
                self.way = 0;
                self.next = if self.next + 1 == self.places { 0 } else { self.next + 1 };
            }
        }
    }

    fn copy(&self) -> Box<dyn Offsets> {
        Box::new(self.clone())
    }
}
