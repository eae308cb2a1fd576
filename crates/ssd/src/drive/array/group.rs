//! Common interface of the kinds of arrays, and of their drives of any scheme.

use units::PageOp;

use super::{ArrayCounters, StripeCounters, Written};
use crate::counting::Wear;
use crate::drive::device::Drive;
use crate::drive::load::Target;
use crate::drive::measure::{BusyTime, busy_times};
use crate::drive::media::MediaCounters;
use crate::drive::schemes::replicated::ReplicationFigures;
use crate::drive::schemes::{Scheme, SchemeCounters, WornOut, ZoneError};
use crate::drive::time::Picos;

/// A drive of an array, whatever its scheme.
pub trait Member: Send {
    /// Gives the drive as a target of requests.
    fn as_target(&mut self) -> &mut dyn Target;
    /// As [`Drive::next_time`].
    fn next_time(&self) -> Option<Picos>;
    /// Lets its clock catch up.
    fn advance_to(&mut self, time: Picos);
    /// As [`Drive::would_wait`].
    fn would_wait(&self, offset: u64, length: u32) -> Option<Picos>;
    /// As [`Drive::apply_untimed`].
    fn apply_untimed(&mut self, pages: &[PageOp]);
    /// Counters of its scheme.
    fn scheme_counters(&self) -> SchemeCounters;
    /// Counters of its media.
    fn media_counters(&self) -> MediaCounters;
    /// Busy time of each die.
    fn busy_times(&self) -> Vec<BusyTime>;
    /// Number of erases of each erase block.
    fn erase_counts(&self) -> &[u32];
    /// Hash of all its operations.
    fn event_hash(&self) -> u64;
    /// As [`Drive::worn_out`].
    fn worn_out(&self) -> Option<WornOut>;
    /// As [`Drive::take_refused`].
    fn take_refused(&mut self) -> Vec<(u32, ZoneError)>;
    /// Figures of its copies of pages; `None` if the scheme keeps none.
    fn replication(&self) -> Option<ReplicationFigures>;
    /// Number of requests under way.
    fn outstanding(&self) -> u32;
    /// Checks that its tables agree with each other.
    ///
    /// # Errors
    /// The first contradiction.
    fn audit(&self) -> Result<(), String>;

    /// Mean number of erases of an erase block.
    fn erases_mean(&self) -> f64 {
        Wear::of(self.erase_counts()).erases_mean
    }
}

impl<S: Scheme> Member for Drive<S> {
    fn as_target(&mut self) -> &mut dyn Target {
        self
    }

    fn next_time(&self) -> Option<Picos> {
        self.next_time()
    }

    fn advance_to(&mut self, time: Picos) {
        self.media_mut().advance_to(time);
    }

    fn would_wait(&self, offset: u64, length: u32) -> Option<Picos> {
        self.would_wait(offset, length)
    }

    fn apply_untimed(&mut self, pages: &[PageOp]) {
        self.apply_untimed(pages);
    }

    fn scheme_counters(&self) -> SchemeCounters {
        self.scheme().counters()
    }

    fn media_counters(&self) -> MediaCounters {
        *self.media().counters()
    }

    fn busy_times(&self) -> Vec<BusyTime> {
        busy_times(self.media())
    }

    fn erase_counts(&self) -> &[u32] {
        self.scheme().erase_counts()
    }

    fn event_hash(&self) -> u64 {
        self.media().event_hash()
    }

    fn worn_out(&self) -> Option<WornOut> {
        self.worn_out()
    }

    fn take_refused(&mut self) -> Vec<(u32, ZoneError)> {
        self.take_refused()
    }

    fn replication(&self) -> Option<ReplicationFigures> {
        self.scheme().replication(self.media())
    }

    fn outstanding(&self) -> u32 {
        self.outstanding()
    }

    fn audit(&self) -> Result<(), String> {
        self.scheme().audit()
    }
}

/// Counters of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Counters of reads, where all drives hold all data.
    pub reads: ArrayCounters,
    /// Counters of stripes.
    pub stripes: StripeCounters,
}

/// Several drives as one.
pub trait Group: Target + Send {
    /// The drives.
    fn drives(&self) -> &[Box<dyn Member>];
    /// The drives, by mutable reference.
    fn drives_mut(&mut self) -> &mut [Box<dyn Member>];
    /// Counters since the array was made.
    fn counts(&self) -> Counts;
    /// Bytes of data and of parity written to each drive; empty where there are no stripes.
    fn written(&self) -> Vec<Written> {
        Vec::new()
    }
    /// Number of the host's requests under way.
    fn outstanding(&self) -> u32;
    /// Checks that reads returned what was written, and that parity is right, if the data was
    /// followed.
    ///
    /// # Errors
    /// The first violation.
    fn audit(&self) -> Result<(), String> {
        Ok(())
    }
}
