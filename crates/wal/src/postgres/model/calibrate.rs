//! Finds how many reads there were beside the changes that the log shows.

use std::path::Path;

use units::Progress;

use super::failure::ReplayError;
use super::layout::Layout;
use super::reads::{Known, Reads};
use super::replay::{Redos, Replay, Replayed};

/// Tries at most.
const TRIES: u32 = 7;
/// Reads that are right to this share are right.
const NEAR: f64 = 0.01;
/// No server counts a page so often too little.
const MOST: f64 = 4.0;

/// Finds the factor of [`Reads::new`] with which the recording's own settings read as many pages
/// as the server did, by bisection; `None` if the server read none.
///
/// # Errors
/// [`ReplayError`].
pub fn calibrate(
    replayed: &Replayed<'_>,
    known: &[Known],
    commits: u64,
    folder: &Path,
    progress: &Progress,
) -> Result<Option<f64>, ReplayError> {
    let target: u64 = known.iter().map(|one| one.reads).sum();
    if target == 0 || commits == 0 {
        return Ok(None);
    }
    let (mut low, mut high, mut factor) = (0.0, MOST, 1.0);
    for _ in 0..TRIES {
        let survey = replayed.survey;
        let mut relations = survey.relations.clone();
        let reads = Reads::new(known, &mut relations, commits, factor);
        let layout = Layout::new(&survey.relations, survey.positions.segment_bytes, false);
        let mut none = ();
        let replay = Replay::new(replayed, replayed.recorded, Redos::Own, reads, layout, &mut none);
        let (figures, _, _) = replay.run(folder, progress)?;
        let found = figures.page_reads.unwrap_or_default() as f64 / target as f64;
        if (found - 1.0).abs() <= NEAR {
            break;
        }
        if found < 1.0 {
            low = factor;
        } else {
            high = factor;
        }
        factor = f64::midpoint(low, high);
    }
    Ok(Some(factor))
}
