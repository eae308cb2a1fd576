//! Sequential runs among updates of another distribution.

use std::sync::Arc;

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use registry::{Info, Param, ParamKind, Spec, SpecError};
use units::PageOp;

use super::{
    Entry, Generator, Inputs, Model, PAGES, REGISTRY, UPDATES, bad_value, below, threshold, write,
};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "mixed",
        aliases: &[],
        summary: "sequential runs from random pages on, among updates of another distribution",
        source: "",
        params: &[
            Param {
                name: "sequential",
                kind: ParamKind::Number { min: 0.0, max: 1.0 },
                default: "0.5",
                help: "share of the updates that are part of a run",
            },
            Param {
                name: "run",
                kind: ParamKind::Integer { min: 1, max: 1 << 31 },
                default: "64",
                help: "pages in a run",
            },
            Param {
                name: "of",
                kind: ParamKind::Text,
                default: "uniform",
                help: "the others: uniform, zipf(s=1), kmodal, tpce; its pages and updates are \
                       those given here",
            },
            PAGES,
            UPDATES,
        ],
    },
    build,
};

fn build(inputs: &Inputs<'_>) -> Result<Box<dyn Model>, SpecError> {
    let text = inputs.args.text("of");
    let bad = |right: &str| bad_value(&ENTRY.info, "of", text, right);
    let spec = Spec::parse(text)?;
    if let Some((key, _)) = spec.given.iter().find(|(key, _)| key == "pages" || key == "updates") {
        return Err(bad(&format!("a workload without `{key}`: give it outside of the brackets")));
    }
    // Itself left out first: otherwise a workload inside a workload could go on without end.
    let entry = REGISTRY
        .iter()
        .filter(|entry| entry.info.name != ENTRY.info.name)
        .find(|entry| entry.info.is_called(&spec.name));
    let entry = entry.ok_or_else(|| bad("another workload, such as uniform or zipf(s=1)"))?;
    let args = entry.info.accept(&spec)?;
    let other = super::build(entry, &Inputs { args: &args, ..*inputs })?;
    if !other.is_independent() {
        return Err(bad(
            "a workload whose updates do not depend on those before, such as uniform or zipf(s=1)",
        ));
    }
    let run = inputs.args.integer("run").min(u64::from(inputs.pages)) as u32;
    Ok(Box::new(Mixed {
        pages: inputs.pages,
        sequential: inputs.args.number("sequential"),
        run,
        other,
    }))
}

/// At the end of a run and after each random update, a run starts with such a probability that runs
/// make up the wanted share of all updates. Runs start at uniformly drawn pages and go on around
/// the end.
struct Mixed {
    pages: u32,
    sequential: f64,
    run: u32,
    other: Arc<dyn Model>,
}

impl Model for Mixed {
    fn generator(self: Arc<Self>, mut rng: Pcg64Mcg) -> Box<dyn Generator> {
        // A run of r updates or 1 random one: r q / (r q + 1 - q) = share, solved for q.
        let start =
            self.sequential / (f64::from(self.run) * (1.0 - self.sequential) + self.sequential);
        // The sequence starts inside a run as often as any later moment finds one: the weights hold
        // from the first update.
        let in_run = f64::from(rng.next_u32()) / 2f64.powi(32) < self.sequential;
        let left_in_run = if in_run { 1 + below(&mut rng, self.run).0 } else { 0 };
        let next_in_run = below(&mut rng, self.pages).0;
        let other_rng =
            Pcg64Mcg::new(u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64()));
        Box::new(Draw {
            start_below: threshold(start),
            always: self.sequential >= 1.0,
            left_in_run,
            next_in_run,
            other: Arc::clone(&self.other).generator(other_rng),
            ready: vec![PageOp(0); 1024],
            taken: 1024,
            model: self,
            rng,
        })
    }

    fn weights(&self) -> Vec<f64> {
        let in_run = self.sequential / f64::from(self.pages);
        let mut weights = self.other.weights();
        weights.iter_mut().for_each(|weight| *weight = *weight * (1.0 - self.sequential) + in_run);
        weights
    }

    fn is_independent(&self) -> bool {
        false
    }
}

struct Draw {
    start_below: u64,
    always: bool,
    left_in_run: u32,
    next_in_run: u32,
    other: Box<dyn Generator>,
    ready: Vec<PageOp>,
    taken: usize,
    model: Arc<Mixed>,
    rng: Pcg64Mcg,
}

impl Generator for Draw {
    fn fill(&mut self, buffer: &mut [PageOp]) {
        for op in buffer {
            if self.left_in_run == 0 && (self.always || self.rng.next_u64() < self.start_below) {
                self.left_in_run = self.model.run;
                self.next_in_run = below(&mut self.rng, self.model.pages).0;
            }
            if self.left_in_run > 0 {
                *op = write(self.next_in_run);
                self.left_in_run -= 1;
                self.next_in_run =
                    if self.next_in_run + 1 == self.model.pages { 0 } else { self.next_in_run + 1 };
            } else {
                if self.taken == self.ready.len() {
                    self.other.fill(&mut self.ready);
                    self.taken = 0;
                }
                *op = self.ready[self.taken];
                self.taken += 1;
            }
        }
    }
}
