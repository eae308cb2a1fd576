//! At a fixed distance from each other.

use registry::{Info, Param, ParamKind, SpecError};

use super::cycle::Cycle;
use super::{Entry, Inputs, Offsets, params};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "stride",
        aliases: &["strided"],
        summary: "requests at a fixed distance from each other; from the start again at the end of \
                  the range",
        source: "PARALLELISM section 3.2; uFLIP (CIDR 2009): order",
        params: params![Param {
            name: "distance",
            kind: ParamKind::Bytes { min: 1, max: 1 << 53 },
            default: "64Ki",
            help: "bytes from the start of a request to that of the next, a multiple of `align`",
        }],
    },
    build,
};

fn build(inputs: &Inputs<'_>) -> Result<Box<dyn Offsets>, SpecError> {
    let distance = inputs.args.integer("distance");
    if !distance.is_multiple_of(inputs.align) {
        return Err(inputs.bad(
            "distance",
            format!("a multiple of {}, the alignment of requests", inputs.align),
        ));
    }
    Ok(Box::new(Cycle::up(inputs.places(inputs.length, distance), distance)))
}
