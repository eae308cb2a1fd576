//! The state of a drive before the first request.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use units::{Cancelled, Progress};

use super::device::Drive;
use super::run::write_untimed;
use super::schemes::Scheme;

/// State of a drive before the first request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// All erased: the restored state. Pages that were never written hold no data, and reading them
    /// needs no flash.
    Fresh,
    /// The first logical pages were written once, in order, and the rest is erased: a restored
    /// drive with a database on it.
    Loaded {
        /// Number of logical pages; more than there are means all.
        pages: u32,
    },
    /// Every logical page was written once, in order.
    Filled,
    /// Filled, then written at random, uniformly, `overwrites` times its logical pages: the
    /// sustained, fragmented state.
    Aged {
        /// Random page writes, in logical pages of the drive. A page-mapped drive is steady from 2
        /// or 3 on.
        overwrites: f64,
    },
}

/// Brings a drive into a state in no virtual time: the FTL does all its work, including cleaning,
/// but gives no commands. Call [`Drive::settle`] afterwards.
///
/// # Errors
/// [`Cancelled`] if it was asked to stop.
pub fn prepare<S: Scheme>(
    drive: &mut Drive<S>,
    state: State,
    seed: u64,
    progress: &Progress,
) -> Result<(), Cancelled> {
    let pages = drive.scheme().logical_pages();
    let filled = match state {
        State::Fresh => 0,
        State::Loaded { pages: loaded } => loaded.min(pages),
        State::Filled | State::Aged { .. } => pages,
    };
    let writes = if let State::Aged { overwrites } = state {
        (f64::from(pages) * overwrites) as u64
    } else {
        0
    };
    progress.set_to_prepare(u64::from(filled) + writes);
    write_untimed(drive, 0..filled, progress)?;
    if writes > 0 {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x6167_6564);
        write_untimed(drive, (0..writes).map(|_| random.random_range(0..pages)), progress)?;
    }
    Ok(())
}
