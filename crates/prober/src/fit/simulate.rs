//! The throughputs of a candidate: the same measurement that the target went through, on its stand-in.

use std::sync::atomic::{AtomicUsize, Ordering};

use devices::{BlockDevice as _, Simulated, SimulatedSettings};
use ssd::drive::profile::Profile;
use ssd::drive::state::State;
use units::{Cancelled, Progress};

use super::finish;
use super::stand_in::stand_in;
use crate::bench::{Bench, Region, Settings};
use crate::error::ProbeError;
use crate::matrix::Cell;
use crate::matrix_set::{CellMeasured, Matrix, Preparation, Protocol, Times, measure_within};

/// Threads that simulate candidates side by side. Results do not depend on it.
const THREADS: usize = 2;

/// How candidates are simulated.
pub(super) struct Simulator<'a> {
    pub protocol: Protocol,
    pub seed: u64,
    /// What candidates address: a change to their insides must not change their spare space.
    pub capacity_bytes: u64,
    /// When they have to clean, if it is known.
    pub onset_bytes: Option<f64>,
    pub progress: &'a Progress,
    /// Cells simulated so far.
    pub cells: AtomicUsize,
}

impl Simulator<'_> {
    /// The matrix of a profile over these cells; `None` if such a drive cannot be made, or fails.
    pub fn matrix(&self, profile: &Profile, cells: &[Cell]) -> Option<Matrix> {
        let time = self.protocol.cell_ns;
        let times = Times { cells: vec![(time, time); cells.len()], condition: time.saturating_mul(8) };
        self.measure(profile, cells, &times).ok()
    }

    fn measure(&self, profile: &Profile, cells: &[Cell], times: &Times) -> Result<Matrix, ProbeError> {
        self.cells.fetch_add(cells.len(), Ordering::Relaxed);
        let mut sized = profile.clone();
        finish::size(&mut sized, self.capacity_bytes, self.onset_bytes, &mut Vec::new());
        let profile = if sized.check().is_ok() { &sized } else { profile };
        let small = stand_in(profile, self.protocol.area_bytes, self.protocol.written_bytes(cells));
        let pages = self.protocol.area_bytes.div_ceil(u64::from(small.media.page_bytes)) as u32;
        let settings = SimulatedSettings { state: State::Loaded { pages }, seed: self.seed };
        let mut device = Simulated::new("candidate", &small, settings, self.progress)?;
        let region = Region { offset: 0, length: self.protocol.area_bytes.min(device.info().capacity_bytes) };
        // Its own progress: what a candidate takes in device time is of no interest.
        let own = Progress::default();
        let settings = Settings { region, seed: self.seed, may_write: true, budget: u64::MAX };
        let mut bench = Bench::new(&mut device, settings, &own);
        measure_within(&mut bench, &self.protocol, cells, times, Preparation::IsFilled)
    }

    /// The matrices of several profiles over the cells of a target, in their order, simulated side by side. Slow cells take less time than in
    /// the target.
    ///
    /// # Errors
    /// [`Cancelled`] if it was asked to stop.
    pub fn matrices(&self, profiles: &[Profile], target: &[CellMeasured]) -> Result<Vec<Option<Matrix>>, Cancelled> {
        let times = Times::like(target, &self.protocol);
        let cells: Vec<Cell> = target.iter().map(|one| one.cell).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(profile) = profiles.get(index) else { return found };
                if self.progress.advance(cells.len() as u64).is_err() {
                    return found;
                }
                found.push((index, self.measure(profile, &cells, &times).ok()));
            }
        };
        let mut results: Vec<Option<Matrix>> = vec![None; profiles.len()];
        std::thread::scope(|scope| {
            let workers: Vec<_> = (1..THREADS.min(profiles.len())).map(|_| scope.spawn(work)).collect();
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
