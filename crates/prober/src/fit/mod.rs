//! A profile from measurements: a drive that behaves, to its host, like the one that was probed.
//!
//! What experiments found out about the inside ([`Known`]) is taken over. All other values are found by simulation: candidates go through the
//! very measurement that the device went through, on a [stand-in](stand_in) that is smaller, and the squares of the relative errors are made
//! small. It starts from the profiles given, the built-in ones. Reads come first, as they depend on the fewest values; then writes and
//! mixes; then all together. In between, discrete changes ([`moves`]) are tried: schemes, channels, kinds of buffer.
//!
//! The outcome is one drive of many that fit: several insides look the same from outside. Keys that were fitted are listed as such.

mod analytic;
mod finish;
mod moves;
mod parameters;
mod scheme;
mod simulate;
mod solve;
mod stand_in;
mod structure;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};

use ssd::drive::profile::Profile;
use units::{Cancelled, Progress};

use crate::known::Known;
use crate::matrix::Cell;
use crate::matrix_set::{CellMeasured, Matrix};
use parameters::{MIXES, Parameter, READS, WRITES};
use scheme::Scheme;
use simulate::Simulator;
use solve::{Candidate, Goal, evaluate, promising, refine};
use structure::Structure;

/// What a profile is fitted to.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// What the device is called: it becomes the profile's name.
    pub name: &'a str,
    /// What the device says of itself; may be empty.
    pub model: &'a str,
    /// Bytes that it addresses.
    pub capacity_bytes: u64,
    /// What experiments found; may be empty.
    pub known: &'a Known,
    /// What it does.
    pub target: &'a Matrix,
    /// Profiles to start from; the built-in ones if there is none.
    pub starts: &'a [Profile],
    /// Seed of the simulations.
    pub seed: u64,
    /// How long to search: simulations of a whole matrix, about. 400 is thorough.
    pub effort: usize,
}

/// A fitted profile.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The profile: checked, of the device's capacity.
    pub profile: Profile,
    /// What its stand-in does.
    pub matrix: Matrix,
    /// For each cell of the target: how many times as fast the profile is.
    pub ratios: Vec<(Cell, f64)>,
    /// What was assumed, and what could not be used.
    pub notes: Vec<String>,
    /// Simulations of a whole matrix that it took, about.
    pub evaluations: usize,
}

impl Fit {
    /// Share of the cells that are within so much of the target.
    #[must_use]
    pub fn share_within(&self, error: f64) -> f64 {
        let within = self.ratios.iter().filter(|(_, ratio)| (ratio - 1.0).abs() <= error).count();
        within as f64 / self.ratios.len().max(1) as f64
    }
}

/// Why nothing was fitted.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// Nothing to fit to.
    #[error("the matrix holds no cell with a throughput: run experiment `matrix` on the device first")]
    Empty,
    /// No start can be simulated.
    #[error("none of the {starts} profiles to start from can be simulated over an area of {area_bytes} bytes")]
    NoStart {
        /// Profiles given.
        starts: usize,
        /// The target's area.
        area_bytes: u64,
    },
    /// Asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Finds the profile. The progress counts cells simulated.
///
/// # Errors
/// [`FitError`]. Findings that are missing or that no profile can have are no errors: the fit does without, and its notes say so.
pub fn fit(input: &Input<'_>, progress: &Progress) -> Result<Fit, FitError> {
    let is_good = |one: &&CellMeasured| one.iops.is_finite() && one.iops > 0.0;
    let cells: Vec<CellMeasured> = input.target.cells.iter().filter(is_good).copied().collect();
    if cells.is_empty() {
        return Err(FitError::Empty);
    }
    progress.set_total((input.effort * cells.len()) as u64);
    let structure = Structure::of(input.known);
    let mut starts: Vec<Profile> = if input.starts.is_empty() {
        ssd::drive::profile::PROFILES.iter().map(|one| one.profile()).collect()
    } else {
        input.starts.to_vec()
    };
    let least = analytic::least_units(&cells);
    starts
        .iter_mut()
        .for_each(|profile| *profile = room(&structure.put(&analytic::slow_down(&analytic::widen(profile, least), &cells)), input));
    let simulator = Simulator {
        protocol: input.target.protocol,
        seed: input.seed,
        capacity_bytes: input.capacity_bytes,
        onset_bytes: finish::onset(input.known),
        progress,
        cells: AtomicUsize::new(0),
    };
    let mut search = Search { simulator, structure, cells, starts, effort: input.effort };
    let profile = search.run()?;
    let mut notes = search.structure.notes.clone();
    finished(input, &search, profile, &mut notes)
}

fn finished(input: &Input<'_>, search: &Search<'_>, found: Profile, notes: &mut Vec<String>) -> Result<Fit, FitError> {
    let no_start = || FitError::NoStart { starts: search.starts.len(), area_bytes: input.target.protocol.area_bytes };
    let mut profile = found;
    finish::finish(&mut profile, input, notes);
    if let Err(error) = profile.check() {
        unreachable!("a profile that was simulated can be given a size: {error}");
    }
    let cells: Vec<Cell> = search.cells.iter().map(|one| one.cell).collect();
    let matrix = search.simulator.matrix(&profile, &cells).ok_or_else(no_start)?;
    let ratios = input.target.ratios(&matrix);
    let evaluations = search.simulator.cells.load(Ordering::Relaxed) / cells.len();
    Ok(Fit { profile, matrix, ratios, notes: std::mem::take(notes), evaluations })
}

/// The profile with the device's addresses, so that candidates have no less room than the outcome.
fn room(profile: &Profile, input: &Input<'_>) -> Profile {
    let mut changed = profile.clone();
    finish::finish(&mut changed, input, &mut Vec::new());
    if changed.check().is_ok() { changed } else { profile.clone() }
}

struct Search<'a> {
    simulator: Simulator<'a>,
    structure: Structure,
    cells: Vec<CellMeasured>,
    starts: Vec<Profile>,
    effort: usize,
}

/// Errors below this, in every cell, need no more search.
const GOOD: f64 = 0.04;

impl Search<'_> {
    /// Of the effort, this share is used up.
    fn spent(&self) -> f64 {
        self.simulator.cells.load(Ordering::Relaxed) as f64 / (self.effort.max(1) * self.cells.len()) as f64
    }

    fn goal(&self, phases: u8) -> Goal {
        let of_phase = |one: &&CellMeasured| phases & phase(&one.cell) != 0;
        Goal::new(thinned(&self.cells.iter().filter(of_phase).copied().collect::<Vec<_>>()))
    }

    fn run(&mut self) -> Result<Profile, FitError> {
        let fronts = self.reads()?;
        if fronts.is_empty() {
            return Err(FitError::NoStart { starts: self.starts.len(), area_bytes: self.simulator.protocol.area_bytes });
        }
        let best = self.writes(&fronts)?;
        let goal = self.goal(READS | WRITES | MIXES);
        let best = self.phase(&goal, best, READS | WRITES | MIXES, 1.0)?;
        Ok(best)
    }

    /// What is fitted to these kinds of load.
    fn values(&self, phases: u8) -> Vec<&'static Parameter> {
        // What reads have fixed stays until all are fitted together.
        let own = |one: &&'static Parameter| match phases {
            READS => one.phases & READS != 0,
            phases if phases & READS == 0 => one.phases & READS == 0,
            _ => true,
        };
        parameters::all().filter(own).filter(|one| !self.structure.is_sure_of(one.key)).collect()
    }

    /// The best profiles for reads alone.
    fn reads(&mut self) -> Result<Vec<Profile>, FitError> {
        let goal = self.goal(READS);
        if goal.cells.is_empty() {
            return Ok(self.starts.clone());
        }
        let adapted = self.adapted(READS, self.starts.clone(), 3)?;
        let mut refined = Vec::new();
        for candidate in self.evaluated(&goal, adapted)?.into_iter().take(3) {
            refined.push(refine(&self.simulator, &goal, candidate, &self.values(READS), 2)?);
            if self.structure.has_geometry() && refined.iter().any(|one| one.worst() < GOOD) {
                break;
            }
        }
        refined.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        // One that fits is enough, unless writes still have to tell how many dies there are.
        let fitting = refined.iter().filter(|one| one.worst() < GOOD).count();
        let is_open = !self.structure.has_geometry() && self.cells.iter().any(|one| one.cell.reads < 1.0);
        refined.truncate(if is_open {
            3
        } else if fitting > 0 {
            1
        } else {
            2
        });
        let mut fronts = Vec::new();
        for (candidate, until) in refined.into_iter().zip([0.2, 0.25, 0.3]) {
            fronts.push(self.climb(&goal, candidate, READS, until)?);
        }
        fronts.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(fronts.into_iter().map(|one| one.profile).collect())
    }

    /// Gives the best profiles for reads what others do with writes.
    fn writes(&self, fronts: &[Profile]) -> Result<Profile, FitError> {
        let goal = self.goal(WRITES | MIXES);
        if goal.cells.is_empty() {
            return Ok(fronts[0].clone());
        }
        let most = if self.structure.has_geometry() { 1 } else { fronts.len() };
        let mut variants: Vec<Profile> = Vec::new();
        for front in &fronts[..most] {
            let others = self.starts.iter().map(|donor| self.structure.put(&transplanted(front, donor))).filter(|one| one.check().is_ok());
            for variant in std::iter::once(front.clone()).chain(others) {
                for variant in [analytic::programs(&variant, &self.cells), variant] {
                    if !variants.contains(&variant) {
                        variants.push(variant);
                    }
                }
            }
        }
        let adapted = self.adapted(WRITES | MIXES, variants, 2)?;
        let mut refined = Vec::new();
        for candidate in self.evaluated(&goal, adapted)?.into_iter().take(3) {
            refined.push(refine(&self.simulator, &goal, candidate, &self.values(WRITES | MIXES), 2)?);
        }
        refined.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(refined.swap_remove(0).profile)
    }

    /// The profiles, each brought near to the target by a few cells that tell most; those that are far off are left out.
    fn adapted(&self, phases: u8, profiles: Vec<Profile>, jacobians: usize) -> Result<Vec<Profile>, Cancelled> {
        let tells = |one: &&CellMeasured| {
            let Cell { size_bytes, depth, .. } = one.cell;
            phases & phase(&one.cell) != 0 && [1, 16].contains(&depth) && [4096, 65_536, 262_144].contains(&size_bytes)
        };
        let goal = Goal::new(self.cells.iter().filter(tells).copied().collect());
        if goal.cells.is_empty() {
            return Ok(profiles);
        }
        let mut adapted = Vec::new();
        let few = profiles.len().div_ceil(2).min(6);
        for candidate in self.evaluated(&goal, profiles)?.into_iter().take(few) {
            adapted.push(refine(&self.simulator, &goal, candidate, &self.values(phases), jacobians)?);
        }
        adapted.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(adapted.into_iter().map(|one| one.profile).collect())
    }

    fn phase(&self, goal: &Goal, profile: Profile, phases: u8, until: f64) -> Result<Profile, FitError> {
        let mut candidates = self.evaluated(goal, vec![profile.clone()])?;
        if candidates.is_empty() {
            return Ok(profile);
        }
        let start = refine(&self.simulator, goal, candidates.swap_remove(0), &self.values(phases), 3)?;
        Ok(self.climb(goal, start, phases, until)?.profile)
    }

    /// Those that can be simulated, best first.
    fn evaluated(&self, goal: &Goal, profiles: Vec<Profile>) -> Result<Vec<Candidate>, Cancelled> {
        let mut candidates = evaluate(&self.simulator, goal, profiles)?;
        candidates.retain(|one| one.cost.is_finite());
        candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(candidates)
    }

    /// Takes discrete changes as long as they help, each refined a little before it is judged, until this share of the effort is spent.
    fn climb(&self, goal: &Goal, mut best: Candidate, phases: u8, until: f64) -> Result<Candidate, Cancelled> {
        let parameters = self.values(phases);
        while best.worst() > GOOD && self.spent() < until {
            let mut tried = moves::moves(&best.profile, goal.missed(&best.errors));
            tried.retain(|profile| self.structure.allows(&best.profile, profile));
            let candidates = promising(&self.simulator, goal, &best, tried, &parameters)?;
            let before = best.cost;
            for candidate in candidates.into_iter().take(3) {
                let refined = refine(&self.simulator, goal, candidate, &parameters, 1)?;
                if refined.cost < best.cost {
                    best = refined;
                }
                // What helps much is taken at once: there will be other changes from there.
                if self.spent() > until || best.cost < before * 0.6 {
                    break;
                }
            }
            if best.cost > before * 0.98 {
                break;
            }
        }
        refine(&self.simulator, goal, best, &parameters, 3)
    }
}

/// What another profile does with writes, in this one.
fn transplanted(front: &Profile, donor: &Profile) -> Profile {
    let mut changed = front.clone();
    let spare = changed.ftl.over_provisioning;
    changed.ftl = donor.ftl.clone();
    changed.ftl.over_provisioning = spare;
    changed.write_buffer = donor.write_buffer.clone();
    changed.cleaning = donor.cleaning.clone();
    changed.cleaning.start_below_free = changed.cleaning.start_below_free.min(spare / 4.0);
    let (m, d) = (&mut changed.media, &donor.media);
    m.program_us.clone_from(&d.program_us);
    m.erase_us = d.erase_us;
    m.pages_per_erase_block = d.pages_per_erase_block;
    m.copy_back = d.copy_back;
    m.cache_mode = d.cache_mode;
    m.multi_plane = d.multi_plane;
    if m.program_us.len() > 1 && m.read_us.len() != m.program_us.len() {
        let mean = m.read_us.iter().sum::<f64>() / m.read_us.len() as f64;
        m.read_us = vec![mean; m.program_us.len()];
    }
    changed.controller.write_command_us = donor.controller.write_command_us;
    changed.controller.writes_wait_for_reads = donor.controller.writes_wait_for_reads;
    changed.controller.write_hold_us = donor.controller.write_hold_us;
    changed.controller.drain_us = donor.controller.drain_us;
    changed.interface.write_frames_us = donor.interface.write_frames_us;
    let mut scheme = Scheme::of(&changed);
    let planes = changed.layout().planes();
    if scheme.is_log_block() && scheme.interleave > 0 && !planes.is_multiple_of(scheme.interleave) {
        scheme.interleave = 0;
        scheme.put(&mut changed);
    }
    solve::tidy(&mut changed);
    changed
}

fn phase(cell: &Cell) -> u8 {
    if cell.reads >= 1.0 {
        READS
    } else if cell.reads <= 0.0 {
        WRITES
    } else {
        MIXES
    }
}

/// Without cells that say what a shallower one says already: where the depth makes no difference any more, one of them is enough.
fn thinned(cells: &[CellMeasured]) -> Vec<CellMeasured> {
    let is_same = |a: &CellMeasured, b: &CellMeasured| (a.iops / b.iops).ln().abs() < 0.015;
    let says_more = |one: &&CellMeasured| {
        let mut shallower = cells.iter().filter(|other| {
            let (a, b) = (&one.cell, &other.cell);
            a.access == b.access && a.reads == b.reads && a.size_bytes == b.size_bytes && b.depth < a.depth
        });
        !shallower.any(|other| is_same(one, other))
    };
    cells.iter().filter(says_more).copied().collect()
}
