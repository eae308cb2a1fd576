//! Several simulated drives as one: each holds all data ([`ArrayKind::Mirrored`]), or data lies in
//! stripes over them, with parity or without ([`ArrayKind::Striped`]).
//!
//! The host that does so is part of the model: it has no link or processor of its own, and working
//! out parity takes it no time.

mod group;
mod hedge;
mod kinds;
mod lives;
mod mirrored;
mod run;
mod striped;

pub use group::{Counts, Group, Member};
pub use kinds::{ARRAYS, ArrayKind, StripedConfig, WritePolicy};
pub use lives::{Lives, LivesSettings, Replacement, simulate_lives};
pub use run::{ArrayOutcome, array_of, simulate_array};

use super::counters::counters;
use super::run::RunError;

/// How a read of a mirrored array finds its drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrayReads {
    /// It goes to the drive of its address, whatever that does.
    Home,
    /// A drive fails it at once rather than let it wait for what the drive does for itself; then it
    /// goes to the drive that has nothing of that kind in its way, or to the one with the shortest
    /// rest of it (Li et al., IODA, SOSP '21, sections 3.2 and 3.4: fast-failing reads and
    /// their busy remaining time). In the paper the others are those of a stripe with parity.
    FailFast,
    /// One that is not answered within this share of what reads of their own drive took lately, 0
    /// ... 1, is sent to another, too, and the first answer counts (Dean & Barroso, The Tail at
    /// Scale, CACM 2013: hedged requests). The other goes on.
    Hedged(f64),
}

/// What an array is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayConfig {
    /// Drives: 2 ... 16.
    pub drives: u32,
    /// Where they hold what.
    pub kind: ArrayKind,
    /// How reads find their drive, of a mirrored array.
    pub reads: ArrayReads,
    /// A drive that is not there, from 0: what it held is made of the others. Of an array with
    /// parity alone.
    pub missing: Option<u32>,
}

/// Why a run of an array failed, or there can be no such array.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// Too few or too many drives.
    #[error("an array has 2 to 16 drives, not {0}")]
    Drives(u32),
    /// No percentile.
    #[error("a read is hedged after a share of the others above 0 and below 1, not {0}")]
    Percentile(f64),
    /// A name or parameter of the kind.
    #[error(transparent)]
    Spec(#[from] registry::SpecError),
    /// Shares that cannot be.
    #[error("shares of parity are {given}: {reason}")]
    Shares {
        /// As they were given.
        given: String,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// Units that do not fit the drives.
    #[error(
        "a unit of {unit} bytes: it must be a multiple of the drive's pages of {page} bytes, and \
         no larger than the drive"
    )]
    Unit {
        /// Bytes of a unit.
        unit: u32,
        /// Bytes of a page.
        page: u32,
    },
    /// There is no such drive, or nothing to make up for it.
    #[error("drive {0} cannot be missing: the array has no such drive, or no parity")]
    Missing(u32),
    /// Only arrays with parity can do that.
    #[error("an array of this kind has no parity whose shares could set its drives' ages apart")]
    NoParity,
    /// Lives that never end, or end at once.
    #[error("an erase limit of {0}: it must be from 10 to 100000 erases of the mean erase block")]
    EraseLimit(f64),
    /// As of a single drive.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl ArrayConfig {
    /// # Errors
    /// [`ArrayError`] if a value is out of its range.
    pub fn check(&self) -> Result<(), ArrayError> {
        if !(2..=16).contains(&self.drives) {
            return Err(ArrayError::Drives(self.drives));
        }
        if let ArrayReads::Hedged(share) = self.reads
            && !(share > 0.0 && share < 1.0)
        {
            return Err(ArrayError::Percentile(share));
        }
        let parity = self.kind.parity(self.drives)?;
        match self.missing {
            Some(drive) if drive >= self.drives || parity.is_none() => {
                Err(ArrayError::Missing(drive))
            }
            _ => Ok(()),
        }
    }
}

counters! {
    /// What a mirrored array did with its reads.
    pub struct ArrayCounters {
        /// Reads.
        reads,
        /// Of them, those that their drive failed at once.
        failed_reads,
        /// Of those, the ones that found all drives at work for themselves.
        reads_without_choice,
        /// Reads that were sent to a second drive.
        hedged_reads,
        /// Of those, the ones that the second drive answered first.
        won_reads,
    }
}

counters! {
    /// What an array did with its stripes. A write counts once for each stripe that it touches, or
    /// more often where it touches its rows on different drives.
    pub struct StripeCounters {
        /// Writes of all data of some rows: parity is written once, and nothing is read.
        full_stripe_writes,
        /// Writes that read the old data and the old parity.
        read_modify_writes,
        /// Writes that read the data beside theirs.
        reconstruct_writes,
        /// Writes of which the data or the parity is on the drive that is missing.
        degraded_writes,
        /// Reads that were made of all other drives.
        degraded_reads,
        /// Commands to drives that read for writes, or for what is missing.
        extra_reads,
        /// Writes and degraded reads that waited for another of their stripe.
        stripe_waits,
        /// Trims of a part of a stripe, which nothing is done for: its parity would not fit.
        partial_trims,
    }
}

/// What one drive of an array with stripes was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of data.
    pub data_bytes: u64,
    /// Bytes of parity.
    pub parity_bytes: u64,
}
