//! Several simulated drives as one: each holds all data ([`ArrayKind::Mirrored`]), or data lies in
//! stripes over them, with parity or without ([`ArrayKind::Striped`]).
//!
//! The host that combines the drives is part of the model: it has no link or processor of its own,
//! and computes parity in no time.

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
pub use run::{ArrayOutcome, array_of, drive_of, simulate_array};

use super::counters::counters;
use super::run::RunError;

/// Choice of the drive for a read of a mirrored array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrayReads {
    /// The drive of its address, whatever that drive is doing.
    Home,
    /// A drive fails the read at once rather than let it wait for the drive's own work; then it
    /// goes to the drive that has no such work in its way, or to the one whose work ends soonest
    /// (Li et al., IODA, SOSP '21, sections 3.2 and 3.4: fast-failing reads and their busy
    /// remaining time). In the paper the other drives are those of a stripe with parity.
    FailFast,
    /// If a read takes longer than this share, 0 ... 1, of recent reads of its own drive, it is
    /// sent to another, too, and the first answer counts (Dean & Barroso, The Tail at Scale, CACM
    /// 2013: hedged requests). The other answer is not cancelled.
    Hedged(f64),
}

/// Settings of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayConfig {
    /// Number of drives: 2 ... 16.
    pub drives: u32,
    /// Kind of the array.
    pub kind: ArrayKind,
    /// Choice of the drive for reads of a mirrored array.
    pub reads: ArrayReads,
    /// A missing drive, from 0: its data is rebuilt from the others. Only for arrays with parity.
    pub missing: Option<u32>,
}

/// Errors of an array or of a run of one.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// The number of drives is too small or too large.
    #[error("an array has 2 to 16 drives, not {0}")]
    Drives(u32),
    /// The share is not a percentile.
    #[error("a read is hedged after a share of the others above 0 and below 1, not {0}")]
    Percentile(f64),
    /// A name or parameter of the kind is wrong.
    #[error(transparent)]
    Spec(#[from] registry::SpecError),
    /// The shares of parity are impossible.
    #[error("shares of parity are {given}: {reason}")]
    Shares {
        /// The shares as given.
        given: String,
        /// The reason.
        reason: &'static str,
    },
    /// The units do not fit the drives.
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
    /// There is no such drive, or no parity to make up for it.
    #[error("drive {0} cannot be missing: the array has no such drive, or no parity")]
    Missing(u32),
    /// Only arrays with parity can do that.
    #[error("an array of this kind has no parity whose shares could set its drives' ages apart")]
    NoParity,
    /// The erase limit is out of range: lives would never end, or end at once.
    #[error("an erase limit of {0}: it must be from 10 to 100000 erases of the mean erase block")]
    EraseLimit(f64),
    /// Any error of a single drive.
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
    /// Counters of the reads of a mirrored array.
    pub struct ArrayCounters {
        /// Reads.
        reads,
        /// Reads that their drive failed at once.
        failed_reads,
        /// Failed reads that found all drives at work of their own.
        reads_without_choice,
        /// Reads that were sent to a second drive.
        hedged_reads,
        /// Hedged reads that the second drive answered first.
        won_reads,
    }
}

counters! {
    /// Counters of the stripes of an array. A write counts once for each stripe that it touches, or
    /// more often where it touches its rows on different drives.
    pub struct StripeCounters {
        /// Writes of all data of some rows: parity is written once, and nothing is read.
        full_stripe_writes,
        /// Writes that read the old data and the old parity.
        read_modify_writes,
        /// Writes that read the other data of their rows.
        reconstruct_writes,
        /// Writes whose data or parity is on the missing drive.
        degraded_writes,
        /// Reads whose data was rebuilt from all other drives.
        degraded_reads,
        /// Commands that read from drives for writes, or to rebuild missing data.
        extra_reads,
        /// Writes and degraded reads that waited for another request of their stripe.
        stripe_waits,
        /// Trims of a part of a stripe. They are ignored, since its parity would become wrong.
        partial_trims,
    }
}

/// Amount written to one drive of a striped array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of data.
    pub data_bytes: u64,
    /// Bytes of parity.
    pub parity_bytes: u64,
}
