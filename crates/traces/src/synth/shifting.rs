//! A hot set that moves through the pages.

use std::sync::Arc;

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use registry::{Info, Param, ParamKind, SpecError};
use units::PageOp;

use super::{
    Entry, Generator, Inputs, Model, PAGES, UPDATES, UpdateSet, below, parse_count, permute,
    threshold, write,
};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "shifting",
        aliases: &["moving_hot_set"],
        summary: "a hot set that moves on by a part of itself every so many updates",
        source: "",
        params: &[
            Param {
                name: "size",
                kind: ParamKind::Number { min: 0.0, max: 1.0 },
                default: "0.1",
                help: "share of the pages in the hot set",
            },
            Param {
                name: "share",
                kind: ParamKind::Number { min: 0.0, max: 1.0 },
                default: "0.9",
                help: "share of the updates to the hot set",
            },
            Param {
                name: "period",
                kind: ParamKind::Text,
                default: "1x",
                help: "updates between moves: a number, or a multiple of the pages",
            },
            Param {
                name: "step",
                kind: ParamKind::Number { min: 0.0, max: 1.0 },
                default: "0.1",
                help: "share of the hot set replaced by a move",
            },
            PAGES,
            UPDATES,
            permute("yes"),
        ],
    },
    build,
};

fn build(inputs: &Inputs<'_>) -> Result<Box<dyn Model>, SpecError> {
    let args = inputs.args;
    let given_period = parse_count(&ENTRY.info, args, "period", inputs.pages)?;
    // At least one page is hot, and one is cold where there are two: each share needs a page that
    // gets it.
    let wanted = (args.number("size") * f64::from(inputs.pages)).round() as u32;
    let hot = wanted.clamp(1, (inputs.pages - 1).max(1));
    let step = (args.number("step") * f64::from(hot)).round() as u32;
    // A set that stays where it is has one phase.
    let period = if step == 0 { inputs.updates } else { given_period };
    let share = if inputs.pages == 1 { 1.0 } else { args.number("share") };
    Ok(Box::new(Shifting {
        pages: inputs.pages,
        updates: inputs.updates,
        hot,
        share,
        period,
        step,
    }))
}

/// `hot` pages in a row get `share` of the updates and the others the rest, each uniformly. After
/// every `period` updates the row moves on by `step` pages, around the end.
struct Shifting {
    pages: u32,
    updates: u64,
    hot: u32,
    share: f64,
    period: u64,
    step: u32,
}

impl Shifting {
    fn first_hot(&self, phase: u64) -> u32 {
        (u128::from(phase) * u128::from(self.step) % u128::from(self.pages)) as u32
    }

    fn cold_weight(&self) -> f64 {
        if self.hot == self.pages {
            0.0
        } else {
            (1.0 - self.share) / f64::from(self.pages - self.hot)
        }
    }

    fn hot_weight(&self) -> f64 {
        self.share / f64::from(self.hot)
    }

    /// Weights if each page is hot for this share of the updates.
    fn weights_of(&self, hot_for: &[f64]) -> Vec<f64> {
        hot_for
            .iter()
            .map(|hot| hot * self.hot_weight() + (1.0 - hot) * self.cold_weight())
            .collect()
    }
}

impl Model for Shifting {
    fn generator(self: Arc<Self>, rng: Pcg64Mcg) -> Box<dyn Generator> {
        Box::new(Draw {
            hot_below: threshold(self.share),
            left: self.period,
            phase: 0,
            model: self,
            rng,
        })
    }

    fn weights(&self) -> Vec<f64> {
        let pages = self.pages as usize;
        // Updates for which each page is hot, as differences to the page before it.
        let mut change = vec![0i64; pages + 1];
        let mut add = |first: usize, end: usize, updates: i64| {
            change[first] += updates;
            change[end] -= updates;
        };
        for phase in 0..self.phases() {
            let updates = self.period.min(self.updates - phase * self.period) as i64;
            let (first, end) = (
                self.first_hot(phase) as usize,
                self.first_hot(phase) as usize + self.hot as usize,
            );
            add(first, end.min(pages), updates);
            if end > pages {
                add(0, end - pages, updates);
            }
        }
        let mut hot_for = 0;
        let shares: Vec<f64> = change[..pages]
            .iter()
            .map(|change| {
                hot_for += change;
                hot_for as f64 / self.updates as f64
            })
            .collect();
        self.weights_of(&shares)
    }

    fn sets(&self) -> Option<Vec<UpdateSet>> {
        (self.phases() == 1).then(|| {
            let size_share = f64::from(self.hot) / f64::from(self.pages);
            let mut sets = vec![UpdateSet { size_share, update_share: self.share }];
            if self.hot < self.pages {
                sets.push(UpdateSet {
                    size_share: 1.0 - size_share,
                    update_share: 1.0 - self.share,
                });
            }
            sets
        })
    }

    fn phases(&self) -> u64 {
        self.updates.div_ceil(self.period)
    }

    fn phase_weights(&self, phase: u64) -> Vec<f64> {
        let mut hot = vec![0.0; self.pages as usize];
        for offset in 0..self.hot {
            hot[((u64::from(self.first_hot(phase)) + u64::from(offset)) % u64::from(self.pages))
                as usize] = 1.0;
        }
        self.weights_of(&hot)
    }

    fn is_independent(&self) -> bool {
        self.phases() == 1
    }
}

struct Draw {
    hot_below: u64,
    left: u64,
    phase: u64,
    model: Arc<Shifting>,
    rng: Pcg64Mcg,
}

impl Generator for Draw {
    fn fill(&mut self, mut buffer: &mut [PageOp]) {
        let model = &*self.model;
        let all_hot = model.share >= 1.0;
        while !buffer.is_empty() {
            if self.left == 0 {
                self.phase += 1;
                self.left = model.period;
            }
            let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
            let first = model.first_hot(self.phase);
            let (now, rest) = buffer.split_at_mut(count);
            for op in now {
                let is_hot = all_hot || self.rng.next_u64() < self.hot_below;
                let (start, size) =
                    if is_hot { (0, model.hot) } else { (model.hot, model.pages - model.hot) };
                let page =
                    u64::from(first) + u64::from(start) + u64::from(below(&mut self.rng, size).0);
                *op = write((page % u64::from(model.pages)) as u32);
            }
            self.left -= count as u64;
            buffer = rest;
        }
    }
}
