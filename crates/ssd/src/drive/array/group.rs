//! What the kinds of arrays have in common: drives of any scheme, and what they are asked.

use units::PageOp;

use super::{ArrayCounters, StripeCounters, Written};
use crate::counting::Wear;
use crate::drive::device::Drive;
use crate::drive::load::Target;
use crate::drive::measure::{BusyTime, busy_times};
use crate::drive::media::MediaCounters;
use crate::drive::schemes::{Scheme, SchemeCounters};
use crate::drive::time::Picos;

/// A drive of an array, whatever its scheme.
pub trait Member: Send {
    /// As what requests are sent to.
    fn as_target(&mut self) -> &mut dyn Target;
    /// As [`Drive::next_time`].
    fn next_time(&self) -> Option<Picos>;
    /// Lets its clock catch up.
    fn advance_to(&mut self, time: Picos);
    /// As [`Drive::would_wait`].
    fn would_wait(&self, offset: u64, length: u32) -> Option<Picos>;
    /// As [`Drive::apply_untimed`].
    fn apply_untimed(&mut self, pages: &[PageOp]);
    /// What its scheme counted.
    fn scheme_counters(&self) -> SchemeCounters;
    /// What its media counted.
    fn media_counters(&self) -> MediaCounters;
    /// What each die worked.
    fn busy_times(&self) -> Vec<BusyTime>;
    /// Erases of each erase block.
    fn erase_counts(&self) -> &[u32];
    /// Hash over all its operations.
    fn event_hash(&self) -> u64;
    /// Whether it takes no more writes.
    fn is_worn_out(&self) -> bool;
    /// Requests under way.
    fn outstanding(&self) -> u32;
    /// Whether its tables agree with each other.
    ///
    /// # Errors
    /// The first contradiction.
    fn audit(&self) -> Result<(), String>;

    /// Erases of the mean erase block.
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

    fn is_worn_out(&self) -> bool {
        self.worn_out().is_some()
    }

    fn outstanding(&self) -> u32 {
        self.outstanding()
    }

    fn audit(&self) -> Result<(), String> {
        self.scheme().audit()
    }
}

/// What an array counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What was done with reads, where all drives hold all data.
    pub reads: ArrayCounters,
    /// What was done with stripes.
    pub stripes: StripeCounters,
}

/// Several drives as one.
pub trait Group: Target + Send {
    /// The drives.
    fn drives(&self) -> &[Box<dyn Member>];
    /// The drives, to be stepped.
    fn drives_mut(&mut self) -> &mut [Box<dyn Member>];
    /// What was counted so far.
    fn counts(&self) -> Counts;
    /// Bytes of data and of parity that each drive was given; empty where there are no stripes.
    fn written(&self) -> Vec<Written> {
        Vec::new()
    }
    /// Requests of the host's under way.
    fn outstanding(&self) -> u32;
    /// Whether reads brought what was written, and parity fits: as far as it was followed.
    ///
    /// # Errors
    /// The first that did not.
    fn audit(&self) -> Result<(), String> {
        Ok(())
    }
}
