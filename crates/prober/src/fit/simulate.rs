//! The throughputs of a candidate: the same measurement that the target went through, on its
//! stand-in.

use std::sync::atomic::{AtomicUsize, Ordering};

use block::BlockDevice as _;

use devices::{Simulated, SimulatedSettings};
use ssd::drive::profile::Profile;
use ssd::drive::state::State;
use units::{Cancelled, Progress};

use super::allowance::Allowance;
use super::scheme::Scheme;
use super::spare::{self, Spare};
use super::stand_in::stand_in;
use crate::bench::{Bench, Region, Settings};
use crate::error::ProbeError;
use crate::protocol::{
    CellMeasured, Matrix, Preparation, Protocol, Times, measure_within, written_bytes,
};

/// Threads that simulate candidates side by side. Results do not depend on it.
const THREADS: usize = 2;

/// Part of the measurement that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// No more requests than tell throughputs, of the cells asked for alone.
    Brief,
    /// Every request of all cells: the state that a write meets (logs in use, erase blocks free) is
    /// what all writes before it have left, and in drives that merge or clean within the
    /// measurement that decides.
    Whole,
}

impl Extent {
    fn times(self, measured: &[CellMeasured], protocol: &Protocol) -> Times {
        match self {
            Self::Brief => Times::brief(measured, protocol),
            Self::Whole => Times::whole(measured, protocol),
        }
    }
}

/// Simulator of candidates, with its settings.
pub(super) struct Simulator<'a> {
    pub protocol: Protocol,
    pub seed: u64,
    /// Bytes that candidates address: a change to their insides must not change their spare space.
    pub capacity_bytes: u64,
    /// Most bytes that the whole measurement writes.
    pub written_bytes: u64,
    /// Knowledge of when they have to clean.
    pub spare: Spare,
    pub progress: &'a Progress,
    pub allowance: &'a Allowance,
}

impl Simulator<'_> {
    /// The matrix of a profile over these cells, though nothing may be spent any more; `None` if
    /// such a drive cannot be made, or fails.
    pub fn matrix(&self, profile: &Profile, target: &[CellMeasured]) -> Option<Matrix> {
        self.measure(profile, target, Extent::Whole, &self.allowance.outcome).ok()
    }

    /// The same with another knowledge of spare space.
    pub fn with_spare(&self, spare: Spare) -> Simulator<'_> {
        Simulator { spare, ..*self }
    }

    /// The profile with the device's addresses and its spare space.
    pub fn sized(&self, profile: &Profile) -> Profile {
        let mut sized = profile.clone();
        spare::size(&mut sized, self.capacity_bytes, self.spare, &mut Vec::new());
        if sized.check().is_ok() { sized } else { profile.clone() }
    }

    fn measure(
        &self,
        profile: &Profile,
        target: &[CellMeasured],
        extent: Extent,
        progress: &Progress,
    ) -> Result<Matrix, ProbeError> {
        let profile = &self.sized(profile);
        let written = written_bytes(&self.protocol, target);
        let small = stand_in(profile, self.protocol.area_bytes, written);
        let is_log_block = Scheme::of(profile).is_log_block();
        // The target's area was written over a drive that held data: that much less of the spare
        // space was free from then on. Where all that is written does not use it up, or is merged
        // into place, it makes no difference.
        let is_used_up = spare_bytes(profile) < written * 2 && !is_log_block;
        let has_writes = target.iter().any(|one| one.cell.reads < 1.0);
        let preparation =
            if is_used_up && has_writes { Preparation::Fill } else { Preparation::IsFilled };
        let pages = self.protocol.area_bytes.div_ceil(u64::from(small.media.page_bytes)) as u32;
        let state = if is_log_block { State::Loaded { pages } } else { State::Filled };
        let settings = SimulatedSettings { state, seed: self.seed };
        let mut device = Simulated::new("candidate", &small, settings, progress)?;
        let region = Region {
            offset: 0,
            length: self.protocol.area_bytes.min(device.info().limits.capacity_bytes),
        };
        let settings = Settings { region, seed: self.seed, may_write: true, budget: u64::MAX };
        let mut bench = Bench::new(&mut device, settings, progress).given_up_when_stopped();
        measure_within(
            &mut bench,
            &self.protocol,
            &extent.times(target, &self.protocol),
            preparation,
        )
    }

    /// Returns true if the writes before a cell decide about it: logs fill up, or spare space is
    /// used up.
    pub fn is_history_seen(&self, profile: &Profile) -> bool {
        let written = self.written_bytes as f64;
        let is_used_up = match self.spare {
            Spare::Onset { bytes, .. } | Spare::Fitted { bytes, .. } => bytes < written * 2.0,
            Spare::AtLeast(bytes) => bytes < written,
            Spare::Unknown { .. } => spare_bytes(&self.sized(profile)) < self.written_bytes,
        };
        is_used_up || Scheme::of(profile).is_log_block()
    }

    /// The matrices of several profiles over the cells of a target, in their order, simulated side
    /// by side; of those for which there is no allowance left, `None`.
    ///
    /// # Errors
    /// [`Cancelled`] if it was asked to stop.
    pub fn matrices(
        &self,
        profiles: &[Profile],
        target: &[CellMeasured],
        extent: Extent,
    ) -> Result<Vec<Option<Matrix>>, Cancelled> {
        let taken = self.allowance.take(profiles.len(), target.len());
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(profile) = profiles[..taken].get(index) else { return found };
                if self.progress.advance(target.len() as u64).is_err() {
                    return found;
                }
                found.push((
                    index,
                    self.measure(profile, target, extent, &self.allowance.search).ok(),
                ));
            }
        };
        let mut results: Vec<Option<Matrix>> = vec![None; profiles.len()];
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (1..THREADS.min(profiles.len())).map(|_| scope.spawn(work)).collect();
            let mut found = work();
            for worker in workers {
                found.extend(worker.join().expect("a worker does not panic"));
            }
            found.into_iter().for_each(|(index, matrix)| results[index] = matrix);
        });
        self.progress.advance(0)?;
        Ok(results)
    }
}

fn spare_bytes(profile: &Profile) -> u64 {
    (profile.physical_pages() - u64::from(profile.logical_pages()))
        * u64::from(profile.media.page_bytes)
}
