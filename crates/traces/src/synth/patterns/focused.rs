//! Random within a small area.

use rand_pcg::Pcg64Mcg;
use registry::{Info, Param, ParamKind, SpecError};

use super::{Entry, Inputs, Offsets, below, params};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "focused",
        aliases: &["locality"],
        summary: "random requests within a small area, which stays or now and then moves",
        source: "uFLIP (CIDR 2009): locality; STABLEBUFFER section 1",
        params: params![
            Param {
                name: "area",
                kind: ParamKind::Bytes { min: 1, max: 1 << 53 },
                default: "8Mi",
                help: "bytes, a multiple of `align`"
            },
            Param {
                name: "hold",
                kind: ParamKind::Integer { min: 0, max: 1 << 53 },
                default: "0",
                help: "requests until the area moves to a random place, a multiple of its size; 0: \
                       it stays where the range begins",
            },
        ],
    },
    build,
};

fn build(inputs: &Inputs<'_>) -> Result<Box<dyn Offsets>, SpecError> {
    let (area, hold) = (inputs.args.integer("area"), inputs.args.integer("hold"));
    let right = if area < inputs.size {
        format!("at least {}, the size of a request", inputs.size)
    } else if area > inputs.length {
        format!("at most {}, the bytes of the range", inputs.length)
    } else if !area.is_multiple_of(inputs.align) {
        format!("a multiple of {}, the alignment of requests", inputs.align)
    } else {
        let places = inputs.places(area, inputs.align);
        let areas = inputs.length / area;
        return Ok(Box::new(Focused {
            area,
            areas,
            places,
            align: inputs.align,
            hold,
            left: 0,
            start: 0,
            rng: inputs.random(),
        }));
    };
    Err(inputs.bad("area", right))
}

#[derive(Clone)]
struct Focused {
    area: u64,
    areas: u64,
    places: u64,
    align: u64,
    hold: u64,
    /// Requests until the area moves.
    left: u64,
    start: u64,
    rng: Pcg64Mcg,
}

impl Offsets for Focused {
    fn fill(&mut self, buffer: &mut [u64]) {
        for offset in buffer {
            if self.hold > 0 {
                if self.left == 0 {
                    self.start = below(&mut self.rng, self.areas) * self.area;
                    self.left = self.hold;
                }
                self.left -= 1;
            }
            *offset = self.start + below(&mut self.rng, self.places) * self.align;
        }
    }

    fn copy(&self) -> Box<dyn Offsets> {
        Box::new(self.clone())
    }
}
