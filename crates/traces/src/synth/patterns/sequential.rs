//! One request behind the other.

use registry::Info;

use super::cycle::Cycle;
use super::{Entry, params};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "sequential",
        aliases: &["seq"],
        summary: "each request where the last one ended, over and over",
        source: "uFLIP (CIDR 2009): SR, SW; PARALLELISM section 3.2",
        params: params![],
    },
    build: |inputs| {
        Ok(Box::new(Cycle::up(inputs.places(inputs.length, inputs.step()), inputs.step())))
    },
};
