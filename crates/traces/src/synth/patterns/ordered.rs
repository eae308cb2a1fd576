//! Ascending with gaps, or descending.

use registry::{Info, Param, ParamKind, SpecError};

use super::cycle::Cycle;
use super::{Entry, Inputs, Offsets, params};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "ordered",
        aliases: &[],
        summary: "requests in ascending or descending order with gaps between them, over and over",
        source: "uFLIP (CIDR 2009): order, with an increment above 1 or below 0",
        params: params![
            Param {
                name: "direction",
                kind: ParamKind::Choice(&["ascending", "descending"]),
                default: "ascending",
                help: "of addresses"
            },
            Param {
                name: "gap",
                kind: ParamKind::Bytes { min: 0, max: 1 << 53 },
                default: "0",
                help: "bytes between the end of a request and the start of the next in address, a \
                       multiple of `align`",
            },
        ],
    },
    build,
};

fn build(inputs: &Inputs<'_>) -> Result<Box<dyn Offsets>, SpecError> {
    let gap = inputs.args.integer("gap");
    if !gap.is_multiple_of(inputs.align) {
        return Err(
            inputs.bad("gap", format!("a multiple of {}, the alignment of requests", inputs.align))
        );
    }
    let step = inputs.step() + gap;
    let places = inputs.places(inputs.length, step);
    let descending = inputs.args.text("direction") == "descending";
    Ok(Box::new(if descending { Cycle::down(places, step) } else { Cycle::up(places, step) }))
}
