//! A simulated drive behind one trait, whatever its scheme is.

use block::CopyWork;
use ssd::counting::Wear;
use ssd::drive::array::Member;
use ssd::drive::device::{self, Submission};
use ssd::drive::measure::BusyTime;
use ssd::drive::media::{Cause, FlashOp};
use ssd::drive::schemes::ZoneError;
use ssd::drive::time::Picos;

use crate::copy_work;

/// Operations of the media, in the order of [`FlashOp::ALL`].
pub(crate) type Operations = [u64; FlashOp::ALL.len()];

/// A drive whose scheme is not known to who uses it: a virtual call a request and an event.
pub(crate) trait AnyDrive: Send {
    fn submit(
        &mut self,
        at: Picos,
        submission: Submission,
        completed: &mut Vec<device::Completion>,
    );
    /// Carries out all events up to `until`, or up to the first completion.
    fn step_to(&mut self, until: Picos, completed: &mut Vec<device::Completion>);
    fn outstanding(&self) -> u32;
    /// Gives the time of the next event; none if nothing happens.
    fn next_time(&self) -> Option<Picos>;
    fn worn_out(&self) -> Option<String>;
    fn take_refused(&mut self) -> Vec<(u32, ZoneError)>;
    fn operations(&self) -> Operations;
    /// Gives the working time of each die by cause.
    fn die_time(&self) -> Vec<[Picos; Cause::ALL.len()]>;
    fn wear(&self) -> Wear;
    /// None where pages have no copies.
    fn copy_work(&self) -> Option<CopyWork>;
}

impl AnyDrive for Box<dyn Member> {
    fn submit(
        &mut self,
        at: Picos,
        submission: Submission,
        completed: &mut Vec<device::Completion>,
    ) {
        self.as_target().submit(at, submission, completed);
    }

    fn step_to(&mut self, until: Picos, completed: &mut Vec<device::Completion>) {
        let drive = self.as_target();
        while completed.is_empty()
            && let Some(next) = drive.next_time()
            && next <= until
        {
            drive.step_at(next, completed);
        }
    }

    fn outstanding(&self) -> u32 {
        (**self).outstanding()
    }

    fn next_time(&self) -> Option<Picos> {
        (**self).next_time()
    }

    fn take_refused(&mut self) -> Vec<(u32, ZoneError)> {
        (**self).take_refused()
    }

    fn operations(&self) -> Operations {
        FlashOp::ALL.map(|op| self.media_counters().of(op))
    }

    fn die_time(&self) -> Vec<[Picos; Cause::ALL.len()]> {
        by_cause(self.busy_times())
    }

    fn wear(&self) -> Wear {
        Wear::of(self.erase_counts())
    }

    fn copy_work(&self) -> Option<CopyWork> {
        let figures = self.replication()?;
        Some(copy_work(&figures, &self.scheme_counters(), &self.media_counters()))
    }

    fn worn_out(&self) -> Option<String> {
        (**self).worn_out().map(|at| {
            format!(
                "plane {} has no room left after {} page writes of the host",
                at.plane, at.host_page_writes
            )
        })
    }
}

/// Gives the working time of each die by cause, over all operations.
pub(crate) fn by_cause(dies: impl IntoIterator<Item = BusyTime>) -> Vec<[Picos; Cause::ALL.len()]> {
    let of_die = |die: BusyTime| {
        Cause::ALL.map(|cause| die.iter().map(|by_cause| by_cause[cause as usize]).sum())
    };
    dies.into_iter().map(of_die).collect()
}
