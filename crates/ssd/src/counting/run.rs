//! A run: a source of page operations through an FTL, and its outcome.

use std::cell::RefCell;
use std::time::Instant;

use placement::{
    BuildError, Context, Future, Placement, PlacementVisitor, Victim, build_victim, visit_placement,
};
use registry::Spec;
use thiserror::Error;
use units::{Cancelled, Geometry, Lpn, PageOp, PageSource, Progress, SourceError, StreamId};

use super::Wear;
use super::wear::histogram;
use crate::steady::{Steadiness, Stretch, Unsteady, steady_part};
use ftl::{AuditError, FtlCounters, PageMapped};

/// State of the device before the first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Every logical page was written once, in order.
    Filled,
    /// All erase blocks are erased.
    Fresh,
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct CountingSettings {
    /// Sizes.
    pub geometry: Geometry,
    /// Placement policy.
    pub placement: Spec,
    /// Victim policy.
    pub victim: Spec,
    /// State before the first operation.
    pub start: Start,
    /// Seed of the policies.
    pub seed: u64,
    /// Number of times that the source is played.
    pub repeat: u32,
    /// True if the tables are audited after the fill, after every window and at the end.
    pub audit: bool,
}

/// Errors of a run.
#[derive(Debug, Error)]
pub enum RunError {
    /// A policy cannot be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The source cannot be read.
    #[error("{0}")]
    Source(SourceError),
    /// The tables contradict each other: a bug of Flashwright.
    #[error("after {host_page_writes} host page writes: {error}")]
    Audit {
        /// Host page writes before the audit that failed.
        host_page_writes: u64,
        /// The contradiction.
        error: AuditError,
    },
    /// The run was asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// A window of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedWindow {
    /// Host page writes since the run began, at the window's end.
    pub host_page_writes: u64,
    /// Pages relocated within it.
    pub relocated_pages: u64,
    /// Host page writes within it.
    pub written_pages: u64,
    /// Victims cleaned within it.
    pub erases: u64,
}

/// A stream at the end of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamOutcome {
    /// Its name.
    pub label: String,
    /// Number of valid pages.
    pub valid_pages: u64,
    /// Number of erase blocks.
    pub erase_blocks: u32,
}

/// Outcome of a run. The fill is left out of every count.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All counters of the run.
    pub counters: FtlCounters,
    /// Windows of equal length, the last one possibly shorter; oldest first.
    pub windows: Vec<CountedWindow>,
    /// The steady part, as an index into the windows, with the interval of its write amplification
    /// and whether the run may be called steady.
    pub steady: Steadiness,
    /// The first host page write of the steady part.
    pub steady_from_update: u64,
    /// (Host + relocation page programs) / host page programs, over the steady part.
    pub write_amplification: f64,
    /// Share of valid pages in the victims of the steady part.
    pub p_gc: f64,
    /// Number of streams of the placement policy that there is no room for.
    pub streams_left_out: usize,
    /// Streams that hold data at the end.
    pub streams: Vec<StreamOutcome>,
    /// Wear at the end, including the fill's erases.
    pub wear: Wear,
    /// Erase counts that occur, ascending, with the number of erase blocks of each.
    pub erase_histogram: Vec<(u32, u64)>,
    /// Bytes of the FTL's tables per physical page.
    pub table_bytes_per_page: f64,
    /// Wall time of the run without the fill, in seconds.
    pub wall_seconds: f64,
}

/// Spare erase blocks that are not for streams: the reserve of the policy with the most relocation
/// targets, one more that is needed beyond it, and one that is being cleaned.
const OTHER_BLOCKS: usize = 6;

/// Number of windows that a run is cut into, for steady state and plots.
const WINDOWS: u64 = 400;

/// Operations fetched from the source at once.
const CHUNK: usize = 1 << 13;

/// Plays the source through an FTL with the requested policies. `page_weights` gives the update
/// frequency of each logical page, in any unit; it is called only for a policy with an oracle.
///
/// # Errors
/// [`RunError`].
pub fn simulate(
    settings: &CountingSettings,
    page_weights: &dyn Fn() -> Vec<f64>,
    source: &mut dyn PageSource,
    progress: &Progress,
) -> Result<Outcome, RunError> {
    let source = RefCell::new(source);
    let future = || {
        let passes = settings.repeat;
        Future::of(&mut **source.borrow_mut(), passes, settings.start == Start::Filled)
    };
    let context =
        Context { page_weights: Some(page_weights), future: Some(&future), ..context_of(settings) };
    let runner = Runner { settings, source: &source, progress, context };
    visit_placement(&settings.placement, &context, runner)?
}

/// As [`simulate`], with a placement policy that is not in the registry; `settings.placement` is
/// its name.
///
/// # Errors
/// [`RunError`].
pub fn simulate_policy<P: Placement + 'static>(
    settings: &CountingSettings,
    policy: P,
    source: &mut dyn PageSource,
    progress: &Progress,
) -> Result<Outcome, RunError> {
    let source = RefCell::new(source);
    let context = context_of(settings);
    Runner { settings, source: &source, progress, context }.visit(policy)
}

fn context_of(settings: &CountingSettings) -> Context<'static> {
    Context {
        most_streams: (settings.geometry.spare_blocks() as usize).saturating_sub(OTHER_BLOCKS),
        ..Context::new(settings.geometry, settings.seed)
    }
}

struct Runner<'a, 's> {
    settings: &'a CountingSettings,
    source: &'a RefCell<&'s mut dyn PageSource>,
    progress: &'a Progress,
    context: Context<'a>,
}

impl PlacementVisitor for Runner<'_, '_> {
    type Output = Result<Outcome, RunError>;

    fn visit<P: Placement + 'static>(self, policy: P) -> Self::Output {
        let victims = build_victim(&self.settings.victim, &self.context, policy.domains())?;
        let name = &self.settings.placement.name;
        let mut ftl = PageMapped::new(self.settings.geometry, name, policy, victims)?;
        if self.settings.start == Start::Filled {
            fill(&mut ftl, self.progress)?;
        }
        self.audit(&ftl, 0)?;
        let before = ftl.counters().clone();
        let started = Instant::now();
        let windows = self.play(&mut ftl, &before)?;
        Ok(outcome(&ftl, &before, windows, started.elapsed().as_secs_f64()))
    }
}

fn fill<P: Placement, V: Victim>(
    ftl: &mut PageMapped<P, V>,
    progress: &Progress,
) -> Result<(), RunError> {
    let pages = ftl.device().geometry.logical_pages;
    let mut chunk = Vec::with_capacity(CHUNK);
    let mut next = 0;
    while next < pages {
        let end = pages.min(next + CHUNK as u32);
        chunk.clear();
        chunk.extend((next..end).map(|lpn| PageOp::write(Lpn(lpn))));
        ftl.apply(&chunk);
        next = end;
        progress.advance(0)?;
    }
    Ok(())
}

impl Runner<'_, '_> {
    /// Plays the source `repeat` times and cuts the run into windows by host page writes.
    fn play<P: Placement, V: Victim>(
        self,
        ftl: &mut PageMapped<P, V>,
        before: &FtlCounters,
    ) -> Result<Vec<CountedWindow>, RunError> {
        let repeat = u64::from(self.settings.repeat);
        let mut source = self.source.borrow_mut();
        let total = source.operations().map_or(0, |operations| operations * repeat);
        let window = (total / WINDOWS).max(1024);
        let mut buffer = vec![PageOp(0); CHUNK];
        let mut windows = Vec::new();
        let mut last = before.clone();
        for _ in 0..repeat {
            source.rewind().map_err(RunError::Source)?;
            loop {
                let count = source.fill(&mut buffer).map_err(RunError::Source)?;
                if count == 0 {
                    break;
                }
                let mut rest = &buffer[..count];
                while !rest.is_empty() {
                    let room = last.host_page_writes + window - ftl.counters().host_page_writes;
                    let (now, later) = rest.split_at(rest.len().min(room as usize));
                    ftl.apply(now);
                    rest = later;
                    if ftl.counters().host_page_writes == last.host_page_writes + window {
                        self.close_window(ftl, before, &mut last, &mut windows)?;
                    }
                }
                self.progress.advance(count as u64)?;
            }
        }
        if ftl.counters().host_page_writes > last.host_page_writes {
            self.close_window(ftl, before, &mut last, &mut windows)?;
        }
        // Trims may have followed the last write.
        self.audit(ftl, last.host_page_writes - before.host_page_writes)?;
        Ok(windows)
    }

    fn close_window<P: Placement, V: Victim>(
        &self,
        ftl: &PageMapped<P, V>,
        before: &FtlCounters,
        last: &mut FtlCounters,
        windows: &mut Vec<CountedWindow>,
    ) -> Result<(), RunError> {
        let now = ftl.counters();
        let host_page_writes = now.host_page_writes - before.host_page_writes;
        windows.push(CountedWindow {
            host_page_writes,
            relocated_pages: now.relocated_pages - last.relocated_pages,
            written_pages: now.host_page_writes - last.host_page_writes,
            erases: now.erases - last.erases,
        });
        last.clone_from(now);
        self.audit(ftl, host_page_writes)
    }

    fn audit<P: Placement, V: Victim>(
        &self,
        ftl: &PageMapped<P, V>,
        host_page_writes: u64,
    ) -> Result<(), RunError> {
        if self.settings.audit {
            ftl.audit().map_err(|error| RunError::Audit { host_page_writes, error })?;
        }
        Ok(())
    }
}

fn outcome<P: Placement, V: Victim>(
    ftl: &PageMapped<P, V>,
    before: &FtlCounters,
    windows: Vec<CountedWindow>,
    wall_seconds: f64,
) -> Outcome {
    let after = ftl.counters();
    let geometry = ftl.device().geometry;
    // The last window may be short, and short windows are noisy.
    let whole = windows.iter().take_while(|w| w.written_pages == windows[0].written_pages).count();
    let mut steady = steady_part(&windows[..whole].iter().map(stretch).collect::<Vec<_>>());
    let kept = &windows[steady.from.min(windows.len())..];
    let (relocated, written, erases) = kept
        .iter()
        .fold((0, 0, 0), |(r, h, e), w| (r + w.relocated_pages, h + w.written_pages, e + w.erases));
    // Until every erase block has been erased once on average, cleaning still meets the initial
    // state.
    if erases < u64::from(geometry.erase_blocks) {
        let each = erases as f64 / f64::from(geometry.erase_blocks);
        steady.unsteady = steady.unsteady.or(Some(Unsteady::NotCleaned(each)));
    }
    let pages = u64::from(geometry.pages_per_erase_block);
    let steady_from_update =
        if steady.from == 0 { 0 } else { windows[steady.from - 1].host_page_writes };
    let mut counters = after.clone();
    counters.host_page_writes -= before.host_page_writes;
    counters.relocated_pages -= before.relocated_pages;
    counters.trimmed_pages -= before.trimmed_pages;
    counters.erases -= before.erases;
    counters.spilled_pages -= before.spilled_pages;
    counters.pulled_pages -= before.pulled_pages;
    counters.unused_pages -= before.unused_pages;
    counters.rescues -= before.rescues;
    counters
        .victims_by_valid
        .iter_mut()
        .zip(&before.victims_by_valid)
        .for_each(|(now, then)| *now -= then);
    Outcome {
        counters,
        steady,
        steady_from_update,
        write_amplification: if written == 0 {
            1.0
        } else {
            1.0 + relocated as f64 / written as f64
        },
        p_gc: if erases == 0 { 0.0 } else { relocated as f64 / (erases * pages) as f64 },
        streams_left_out: ftl.placement().streams_left_out(),
        streams: streams(ftl),
        wear: Wear::of(ftl.erase_counts()),
        erase_histogram: histogram(ftl.erase_counts()),
        table_bytes_per_page: ftl.table_bytes() as f64 / f64::from(geometry.physical_pages()),
        wall_seconds,
        windows,
    }
}

fn stretch(window: &CountedWindow) -> Stretch {
    let over = window.written_pages as f64;
    Stretch { counted: over + window.relocated_pages as f64, over }
}

fn streams<P: Placement, V: Victim>(ftl: &PageMapped<P, V>) -> Vec<StreamOutcome> {
    let device = ftl.device();
    let mut valid = vec![0u64; device.streams.len()];
    for block in &device.blocks {
        valid[usize::from(block.stream)] += u64::from(block.valid);
    }
    let all = valid.iter().zip(&device.streams).enumerate();
    all.filter(|(_, (_, stream))| stream.erase_blocks > 0)
        .map(|(number, (&valid_pages, stream))| StreamOutcome {
            label: ftl.placement().stream_label(StreamId(number as u32)),
            valid_pages,
            erase_blocks: stream.erase_blocks,
        })
        .collect()
}
