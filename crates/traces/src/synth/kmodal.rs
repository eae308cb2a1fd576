//! k sets of pages, each with its own update frequency.

use std::sync::Arc;

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use registry::{Info, Param, ParamKind, SpecError};
use units::PageOp;

use super::alias::Alias;
use super::{
    Entry, Generator, Inputs, Model, PAGES, UPDATES, UpdateSet, bad_value, below, permute, write,
};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "kmodal",
        aliases: &["k_modal"],
        summary: "k sets of pages, each with its own update frequency",
        source: "MULTILOG section 3, \"I/O workloads\"",
        params: &[
            Param {
                name: "sets",
                kind: ParamKind::Text,
                default: "0.2:0.8,0.8:0.2",
                help: "share of the pages : share of the updates, for each set; both sum to 1",
            },
            PAGES,
            UPDATES,
            permute("yes"),
        ],
    },
    build,
};

const RIGHT: &str = "size:share pairs such as 0.2:0.8,0.8:0.2 (sizes above 0, shares at least 0, \
                     each summing to 1)";

fn build(inputs: &Inputs<'_>) -> Result<Box<dyn Model>, SpecError> {
    let text = inputs.args.text("sets");
    let bad = |right: String| bad_value(&ENTRY.info, "sets", text, right);
    let sets = parse(text).ok_or_else(|| bad(RIGHT.to_owned()))?;
    let model = KModal::new(inputs.pages, &sets);
    if let Some(empty) = model.sets.iter().position(|set| set.pages == 0) {
        return Err(bad(format!(
            "possible with {} pages: set {} is smaller than one page",
            inputs.pages,
            empty + 1
        )));
    }
    Ok(Box::new(model))
}

fn parse(text: &str) -> Option<Vec<UpdateSet>> {
    let mut sets = Vec::new();
    for part in text.split(',') {
        let (size, share) = part.split_once(':')?;
        let (size_share, update_share): (f64, f64) =
            (size.trim().parse().ok()?, share.trim().parse().ok()?);
        if !(size_share > 0.0 && size_share <= 1.0 && (0.0..=1.0).contains(&update_share)) {
            return None;
        }
        sets.push(UpdateSet { size_share, update_share });
    }
    // Wide enough for shares written with three digits, such as three times 0.333.
    let is_one = |sum: f64| (sum - 1.0).abs() <= 2e-3;
    (is_one(sets.iter().map(|s| s.size_share).sum())
        && is_one(sets.iter().map(|s| s.update_share).sum()))
    .then_some(sets)
}

struct KModal {
    pages: u32,
    sets: Vec<Set>,
    alias: Alias,
}

#[derive(Clone, Copy)]
struct Set {
    first: u32,
    pages: u32,
    update_share: f64,
}

impl KModal {
    /// Sets one after another, their sizes rounded to whole pages. The shares are scaled to sum to
    /// exactly 1.
    fn new(pages: u32, shares: &[UpdateSet]) -> Self {
        let sizes: f64 = shares.iter().map(|s| s.size_share).sum();
        let updates: f64 = shares.iter().map(|s| s.update_share).sum();
        let mut sets = Vec::with_capacity(shares.len());
        let (mut first, mut size_share) = (0, 0.0);
        for (index, set) in shares.iter().enumerate() {
            size_share += set.size_share / sizes;
            let end = if index + 1 == shares.len() {
                pages
            } else {
                ((size_share * f64::from(pages)).round() as u32).clamp(first, pages)
            };
            sets.push(Set { first, pages: end - first, update_share: set.update_share / updates });
            first = end;
        }
        let alias = Alias::new(&sets.iter().map(|s| s.update_share).collect::<Vec<_>>());
        Self { pages, sets, alias }
    }
}

impl Model for KModal {
    fn generator(self: Arc<Self>, rng: Pcg64Mcg) -> Box<dyn Generator> {
        Box::new(Draw { model: self, rng })
    }

    fn weights(&self) -> Vec<f64> {
        self.sets
            .iter()
            .flat_map(|set| {
                std::iter::repeat_n(set.update_share / f64::from(set.pages), set.pages as usize)
            })
            .collect()
    }

    fn sets(&self) -> Option<Vec<UpdateSet>> {
        let share = |set: &Set| UpdateSet {
            size_share: f64::from(set.pages) / f64::from(self.pages),
            update_share: set.update_share,
        };
        Some(self.sets.iter().map(share).collect())
    }
}

struct Draw {
    model: Arc<KModal>,
    rng: Pcg64Mcg,
}

impl Generator for Draw {
    fn fill(&mut self, buffer: &mut [PageOp]) {
        let model = &*self.model;
        for op in buffer {
            let set = model.sets[model.alias.pick(self.rng.next_u64())];
            *op = write(set.first + below(&mut self.rng, set.pages).0);
        }
    }
}
