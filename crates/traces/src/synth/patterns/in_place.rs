//! The same address again and again.

use registry::Info;

use super::cycle::Cycle;
use super::{Entry, params};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "in_place",
        aliases: &["inplace"],
        summary: "the first place of the range, again and again",
        source: "uFLIP (CIDR 2009): order, with an increment of 0",
        params: params![],
    },
    build: |_| Ok(Box::new(Cycle::up(1, 0))),
};
