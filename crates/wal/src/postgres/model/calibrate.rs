//! Finds how many reads there were beside the changes that the log shows.

use std::path::Path;

use units::Progress;

use super::failure::ReplayError;
use super::layout::Layout;
use super::reads::{Known, Reads};
use super::replay::{Redos, Replay, Replayed};
use super::search::Search;

/// Least and most that is looked for: no server counts a page so often too little.
const RANGE: (f64, f64) = (1e-3, 4.0);

/// Finds the factor of [`Reads::new`] with which the recording's own settings read as many pages
/// as the server did; `None` if the server read none.
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
    let search = Search { range: RANGE, guess: 1.0, rises: true, takes_last: false };
    let found = search.find(target, |factor| {
        let survey = replayed.survey;
        let mut relations = survey.relations.clone();
        let reads = Reads::new(known, &mut relations, commits, factor);
        let layout = Layout::new(&survey.relations, survey.positions.segment_bytes, false);
        let mut none = ();
        let replay = Replay::new(replayed, replayed.recorded, Redos::Own, reads, layout, &mut none);
        replay.run(folder, progress).map(|(figures, ..)| figures.page_reads.unwrap_or_default())
    });
    found.map(Some)
}
