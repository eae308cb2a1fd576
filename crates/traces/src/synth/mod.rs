//! Synthetic workloads: page writes drawn from a distribution that is known exactly.
//!
//! A workload is asked for by a spec such as `zipf(s=0.99,pages=1Mi,updates=15x)` and a seed; the
//! same two always give the same sequence. It also tells the exact probability with which each page
//! is updated, so that a simulation can be set beside the theoretical bound for that very
//! distribution.

mod alias;
mod kmodal;
mod mixed;
pub mod patterns;
mod permutation;
mod requests;
mod sequential;
mod shifting;
#[cfg(test)]
mod tests;
mod tpce;
mod uniform;
mod weights;
mod zipf;

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind, Spec, SpecError, Value};
use units::{PageOp, PageSource, SourceError};

pub(crate) use alias::Alias;
pub use permutation::Permutation;
pub use requests::Requests;
pub use weights::{Meaning, UpdateSet, Weights};

/// One kind of workload in the registry.
#[derive(Debug)]
pub struct Entry {
    /// Name, parameters, source.
    pub info: Info,
    build: fn(&Inputs<'_>) -> Result<Box<dyn Model>, SpecError>,
}

/// All kinds of workload.
pub static REGISTRY: &[Entry] = &[
    uniform::ENTRY,
    zipf::ENTRY,
    kmodal::ENTRY,
    tpce::ENTRY,
    shifting::ENTRY,
    sequential::ENTRY,
    mixed::ENTRY,
];

const PAGES: Param = Param {
    name: "pages",
    kind: ParamKind::Integer { min: 1, max: 1 << 31 },
    default: "1Mi",
    help: "logical pages in the footprint",
};
const UPDATES: Param = Param {
    name: "updates",
    kind: ParamKind::Text,
    default: "15x",
    help: "page writes: a number, or `15x` for 15 times the pages",
};

const fn permute(default: &'static str) -> Param {
    Param {
        name: "permute",
        kind: ParamKind::Choice(&["yes", "no"]),
        default,
        help: "scatter the pages over the address space, so that pages alike in frequency are not \
               neighbours",
    }
}

/// Inputs from which a variant is built.
struct Inputs<'a> {
    args: &'a Args,
    pages: u32,
    updates: u64,
    seed: u64,
}

/// A distribution over pages: what the file of a variant holds.
trait Model: Send + Sync {
    /// A fresh sequence.
    fn generator(self: Arc<Self>, rng: Pcg64Mcg) -> Box<dyn Generator>;

    /// Share of updates that each page gets, over the whole sequence. Sums to 1.
    fn weights(&self) -> Vec<f64>;

    /// The same as sets of pages of one frequency, if there are few.
    fn sets(&self) -> Option<Vec<UpdateSet>> {
        None
    }

    /// Number of stretches of the sequence with weights of their own.
    fn phases(&self) -> u64 {
        1
    }

    /// Share of the updates of this phase that each page gets.
    fn phase_weights(&self, _phase: u64) -> Vec<f64> {
        self.weights()
    }

    /// Returns true if each update is drawn independently of those before it, always with the same
    /// weights.
    fn is_independent(&self) -> bool {
        true
    }
}

/// The state of a sequence that is being drawn.
trait Generator: Send {
    /// Fills the whole buffer with the next page writes.
    fn fill(&mut self, buffer: &mut [PageOp]);
}

/// A workload that was asked for by a spec: what it is, and any number of sources that play it.
#[derive(Clone)]
pub struct Workload {
    info: &'static Info,
    args: Args,
    pages: u32,
    updates: u64,
    seed: u64,
    model: Arc<dyn Model>,
}

impl Workload {
    /// Reads a spec: `uniform(pages=1Mi,updates=15x)`, `zipf(s=1)`, with or without `synth:` before
    /// it.
    ///
    /// # Errors
    /// [`SpecError`] for an unknown workload or key, or a value that is wrong.
    pub fn parse(text: &str, seed: u64) -> Result<Self, SpecError> {
        Self::from_spec(&Spec::parse(text.strip_prefix("synth:").unwrap_or(text))?, seed)
    }

    /// As [`Workload::parse`], from a spec that was read before.
    ///
    /// # Errors
    /// As [`Workload::parse`].
    pub fn from_spec(spec: &Spec, seed: u64) -> Result<Self, SpecError> {
        let entry = registry::find("synthetic workload", REGISTRY, |entry| &entry.info, spec)?;
        let args = entry.info.accept(spec)?;
        let pages = args.integer("pages") as u32;
        let updates = parse_count(&entry.info, &args, "updates", pages)?;
        let model = build(entry, &Inputs { args: &args, pages, updates, seed })?;
        Ok(Self { info: &entry.info, args, pages, updates, seed, model })
    }

    /// A source at its first operation. Every source of one workload plays the same sequence.
    #[must_use]
    pub fn source(&self) -> Box<dyn PageSource> {
        Box::new(self.synthetic())
    }

    /// As [`Workload::source`], with its type.
    #[must_use]
    pub fn synthetic(&self) -> Synthetic {
        let generator = start(&self.model, self.seed);
        Synthetic {
            model: Arc::clone(&self.model),
            seed: self.seed,
            pages: self.pages,
            updates: self.updates,
            left: self.updates,
            generator,
        }
    }

    /// Name, parameters, source of this kind of workload.
    #[must_use]
    pub fn info(&self) -> &'static Info {
        self.info
    }

    /// The parameters, defaults filled in.
    #[must_use]
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// The seed that it was made with.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Logical pages in the footprint.
    #[must_use]
    pub fn logical_pages(&self) -> u32 {
        self.pages
    }

    /// Page writes in one pass.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.updates
    }

    /// The exact share of updates of each page. Takes 8 bytes a page, and time in proportion to the
    /// pages.
    #[must_use]
    pub fn page_weights(&self) -> Weights {
        let meaning =
            if self.model.phases() == 1 { Meaning::Stationary } else { Meaning::TimeAverage };
        Weights { meaning, per_page: self.model.weights(), sets: self.model.sets() }
    }

    /// Number of stretches of the sequence in each of which the weights stay as they are: 1 unless
    /// the workload shifts.
    #[must_use]
    pub fn phases(&self) -> u64 {
        self.model.phases()
    }

    /// The exact share that each page has of the updates of one phase.
    ///
    /// # Panics
    /// If there is no such phase.
    #[must_use]
    pub fn phase_weights(&self, phase: u64) -> Vec<f64> {
        assert!(phase < self.phases(), "phase {phase} of {}", self.phases());
        self.model.phase_weights(phase)
    }

    /// Returns true if each update is drawn independently of those before it, always with the same
    /// weights.
    #[must_use]
    pub fn is_independent(&self) -> bool {
        self.model.is_independent()
    }
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workload")
            .field("name", &self.info.name)
            .field("args", &self.args)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// A sequence of page writes drawn from a [`Workload`].
pub struct Synthetic {
    model: Arc<dyn Model>,
    seed: u64,
    pages: u32,
    updates: u64,
    left: u64,
    generator: Box<dyn Generator>,
}

impl PageSource for Synthetic {
    fn logical_pages(&self) -> u32 {
        self.pages
    }

    fn operations(&self) -> Option<u64> {
        Some(self.updates)
    }

    fn fill(&mut self, buffer: &mut [PageOp]) -> Result<usize, SourceError> {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        // Small enough that a second pass over the chunk, such as the permutation, finds it in the
        // nearest cache.
        for chunk in buffer[..count].chunks_mut(2048) {
            self.generator.fill(chunk);
        }
        self.left -= count as u64;
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.generator = start(&self.model, self.seed);
        self.left = self.updates;
        Ok(())
    }
}

fn start(model: &Arc<dyn Model>, seed: u64) -> Box<dyn Generator> {
    Arc::clone(model).generator(Pcg64Mcg::seed_from_u64(seed))
}

fn build(entry: &Entry, inputs: &Inputs<'_>) -> Result<Arc<dyn Model>, SpecError> {
    let model: Arc<dyn Model> = Arc::from((entry.build)(inputs)?);
    let permute = inputs
        .args
        .iter()
        .any(|(name, value)| name == "permute" && *value == Value::Text("yes".to_owned()));
    Ok(if permute {
        Arc::new(permutation::Permuted::new(model, Permutation::new(inputs.pages, inputs.seed)))
    } else {
        model
    })
}

/// A number of page writes: whole, or a multiple of the pages.
fn parse_count(
    info: &'static Info,
    args: &Args,
    key: &'static str,
    pages: u32,
) -> Result<u64, SpecError> {
    const COUNT: Info = Info {
        name: "count",
        aliases: &[],
        summary: "",
        source: "",
        params: &[Param {
            name: "count",
            kind: ParamKind::Integer { min: 1, max: 1 << 53 },
            default: "1",
            help: "",
        }],
    };
    let text = args.text(key);
    let count = match text.strip_suffix('x') {
        Some(times) => {
            let count = times
                .trim()
                .parse()
                .map_or(f64::NAN, |times: f64| (times * f64::from(pages)).round());
            (1.0..=(1u64 << 53) as f64).contains(&count).then_some(count as u64)
        }
        None => COUNT
            .accept(&Spec {
                name: String::new(),
                given: vec![("count".to_owned(), text.to_owned())],
            })
            .ok()
            .map(|a| a.integer("count")),
    };
    count.ok_or_else(|| {
        bad_value(
            info,
            key,
            text,
            "a number of page writes from 1 to 2^53, or a multiple of the pages such as 15x",
        )
    })
}

fn bad_value(info: &Info, key: &str, value: &str, right: impl Into<String>) -> SpecError {
    SpecError::BadValue {
        name: info.name,
        key: key.to_owned(),
        value: value.to_owned(),
        right: right.into(),
    }
}

/// A whole number below `bound`, and 64 more bits that do not depend on it.
///
/// Multiply and shift without rejection: a number's probability is off by less than one part in
/// 2^64 / `bound`, 2^33 at worst. The further bits are independent of the number to the same
/// degree.
#[inline]
fn below(rng: &mut Pcg64Mcg, bound: u32) -> (u32, u64) {
    let wide = u128::from(rng.next_u64()) * u128::from(bound);
    ((wide >> 64) as u32, wide as u64)
}

/// The number that 64 random bits fall below with this probability.
fn threshold(probability: f64) -> u64 {
    (probability * 2f64.powi(64)) as u64
}

#[inline]
fn write(page: u32) -> PageOp {
    PageOp::write(units::Lpn(page))
}
