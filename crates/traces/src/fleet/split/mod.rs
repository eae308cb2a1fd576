//! Splitting a trace by volume and time: one pass, memory of a given size, and going on after a
//! stop where the last checkpoint was.
//!
//! One thread reads and parses, one routes, others encode and write. Requests wait in blocks,
//! packed, until the memory is full; then the volumes with most are written out. A checkpoint
//! writes out all and notes in the manifest how far the inputs were read; what was written after it
//! is removed by a split that goes on. So the store is the same however often it was stopped, and
//! however many threads there are.

mod buffers;
mod reading;
mod routing;
#[cfg(test)]
mod tests;
mod writing;

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::thread::{self, Scope};

use units::{Cancelled, Progress};

use crate::error::TraceError;
use crate::fleet::manifest::{Manifest, Plan, Told, VolumeTotals, claim, input_file};
use crate::open::OpenOptions;
use crate::volumes::remove_from;
use reading::{Batch, Inputs};
use routing::Router;
use writing::{Place, Writers};

/// Batches between the threads: enough that neither waits for the other's longest step.
const BATCHES_BETWEEN: usize = 8;

/// What is split, and how.
#[derive(Clone, Debug)]
pub struct SplitOptions {
    /// Files of the trace, in the order of their times.
    pub inputs: Vec<PathBuf>,
    /// Folder of the store: a new one, or one that was begun with the same inputs.
    pub store: PathBuf,
    /// How the files are read.
    pub open: OpenOptions,
    /// Take the streams of any format as volumes.
    pub by_stream: bool,
    /// Length of a window of time, in nanoseconds.
    pub window_ns: u64,
    /// Bytes of requests that are held.
    pub memory_bytes: u64,
    /// Requests from one checkpoint to the next: what a stop loses at most.
    pub checkpoint_requests: u64,
    /// Cores to use: with more than one, reading and routing have threads of their own, and writing
    /// has what is left, one at least. The store is the same.
    pub threads: u64,
}

/// A store that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitDone {
    /// Format of the inputs; none if they have no requests.
    pub format: Option<String>,
    /// Counts of each volume, in the order in which they first came.
    pub volumes: Vec<VolumeTotals>,
    /// Files of the store.
    pub parts: u64,
    /// Time of the first request on the inputs' own clock.
    pub start_ns: Option<u64>,
    /// Facts found while reading.
    pub told: Told,
    /// Requests that were in the store before.
    pub resumed: u64,
}

/// Splits a trace into a store, or goes on with one. Progress counts bytes of the inputs.
///
/// # Errors
/// Any [`TraceError`], [`TraceError::Unusable`] if the folder is not a store of the same inputs and
/// options. The store then is as it was at its last checkpoint, and can be gone on with.
pub fn split(options: &SplitOptions, progress: &Progress) -> Result<SplitDone, TraceError> {
    split_by(options, progress, |router, batch| router.take(batch))
}

/// As [`split`]; `take` gives a batch to the router.
fn split_by(
    options: &SplitOptions,
    progress: &Progress,
    mut take: impl FnMut(&mut Router<'_>, Batch) -> Result<Batch, TraceError>,
) -> Result<SplitDone, TraceError> {
    let plan = plan(options)?;
    progress.set_total(plan.inputs.iter().map(|input| input.bytes).sum());
    let claimed = claim(&options.store, plan)?;
    let manifest = claimed.manifest;
    let resumed = requests_of(&manifest);
    if manifest.complete {
        return Ok(done(manifest, resumed));
    }
    remove_from(&options.store, manifest.next_part)?;
    let inputs = Inputs {
        paths: &options.inputs,
        options: &options.open,
        by_stream: options.by_stream,
        checkpoint_requests: options.checkpoint_requests.max(1),
        known: (manifest.format.clone(), manifest.start_ns),
        from: manifest.reached.clone(),
        told: manifest.told.clone(),
    };
    for input in &manifest.plan.inputs[..manifest.reached.input] {
        progress.advance(input.bytes)?;
    }
    let place = Place { store: &options.store, window_ns: manifest.plan.window_ns };
    let memory_bytes = options.memory_bytes;
    let router = |writers| Router::new(&options.store, manifest, memory_bytes, writers);
    let manifest = if options.threads > 1 {
        thread::scope(|scope| {
            let writers = Writers::start(place, scope, options.threads - 1);
            let mut router = router(writers);
            in_threads(scope, inputs, progress, |batch| take(&mut router, batch))?;
            Ok::<_, TraceError>(router.into_manifest())
        })?
    } else {
        let mut router = router(Writers::none(place));
        inputs.read(progress, |batch| take(&mut router, batch))?;
        router.into_manifest()
    };
    Ok(done(manifest, resumed))
}

/// Reads in a thread of its own, and takes what it reads.
fn in_threads<'scope>(
    scope: &'scope Scope<'scope, '_>,
    inputs: Inputs<'scope>,
    progress: &'scope Progress,
    mut take: impl FnMut(Batch) -> Result<Batch, TraceError>,
) -> Result<(), TraceError> {
    let (send, batches) = sync_channel::<Batch>(BATCHES_BETWEEN);
    let (give_back, used) = sync_channel::<Batch>(BATCHES_BETWEEN);
    let reader = scope.spawn(move || {
        inputs.read(progress, |batch| {
            // If nobody takes it any more, the router has failed, and says why.
            send.send(batch).map_err(|_| TraceError::Cancelled(Cancelled))?;
            Ok(used.try_recv().unwrap_or_default())
        })
    });
    let mut routed = Ok(());
    for batch in batches {
        match take(batch) {
            // It may find no room: then its memory is freed.
            Ok(batch) => drop(give_back.try_send(batch)),
            Err(error) => {
                routed = Err(error);
                break;
            }
        }
    }
    let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    routed.and(read)
}

fn plan(options: &SplitOptions) -> Result<Plan, TraceError> {
    let inputs = options.inputs.iter().map(|path| input_file(path)).collect::<Result<_, _>>()?;
    Ok(Plan {
        inputs,
        format: options.open.format.as_ref().map(|spec| spec.to_string()),
        window_ns: options.window_ns.max(1),
        skip_bad: options.open.skip_bad,
        by_stream: options.by_stream,
    })
}

fn requests_of(manifest: &Manifest) -> u64 {
    manifest.volumes.iter().flat_map(|volume| volume.requests).sum()
}

fn done(manifest: Manifest, resumed: u64) -> SplitDone {
    SplitDone {
        format: manifest.format,
        volumes: manifest.volumes,
        parts: manifest.next_part,
        start_ns: manifest.start_ns,
        told: manifest.told,
        resumed,
    }
}
