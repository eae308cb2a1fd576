//! Several simulated drives behind the one device that they make.

use block::CopyWork;
use ssd::counting::Wear;
use ssd::drive::array::{Group, Member};
use ssd::drive::device::{Completion, Submission};
use ssd::drive::media::{Cause, FlashOp};
use ssd::drive::schemes::ZoneError;
use ssd::drive::time::Picos;

use crate::any_drive::{AnyDrive, Operations, by_cause};

/// An array in the place of a drive. Its dies are those of all its drives.
pub(crate) struct SeveralDrives(Box<dyn Group>);

impl SeveralDrives {
    pub fn new(group: Box<dyn Group>) -> Self {
        Self(group)
    }

    fn drives(&self) -> &[Box<dyn Member>] {
        self.0.drives()
    }
}

impl AnyDrive for SeveralDrives {
    fn submit(&mut self, at: Picos, submission: Submission, completed: &mut Vec<Completion>) {
        self.0.submit(at, submission, completed);
    }

    fn step_to(&mut self, until: Picos, completed: &mut Vec<Completion>) {
        while completed.is_empty()
            && let Some(next) = self.0.next_time()
            && next <= until
        {
            self.0.step_at(next, completed);
        }
    }

    fn outstanding(&self) -> u32 {
        self.0.outstanding()
    }

    fn next_time(&self) -> Option<Picos> {
        self.0.next_time()
    }

    fn worn_out(&self) -> Option<String> {
        let drive = self.drives().iter().position(|drive| drive.worn_out().is_some())?;
        Some(format!("drive {drive} of the array has no room left"))
    }

    fn take_refused(&mut self) -> Vec<(u32, ZoneError)> {
        Vec::new()
    }

    fn operations(&self) -> Operations {
        let mut all: Operations = Default::default();
        for drive in self.drives() {
            let counters = drive.media_counters();
            all.iter_mut().zip(FlashOp::ALL).for_each(|(sum, op)| *sum += counters.of(op));
        }
        all
    }

    fn die_time(&self) -> Vec<[Picos; Cause::ALL.len()]> {
        by_cause(self.drives().iter().flat_map(|drive| drive.busy_times()))
    }

    fn wear(&self) -> Wear {
        let counts: Vec<u32> =
            self.drives().iter().flat_map(|drive| drive.erase_counts()).copied().collect();
        Wear::of(&counts)
    }

    /// Gives none: the copies of single drives are not added up.
    fn copy_work(&self) -> Option<CopyWork> {
        None
    }
}
