//! A profile from measurements: a drive that behaves, to its host, like the one that was probed.
//!
//! Findings of experiments about the inside ([`Known`]) are taken over. All other values are found
//! by simulation: candidates go through the very measurement that the device went through, on a
//! [stand-in](stand_in) that is smaller, and the squares of the relative errors are made small. It
//! starts from the profiles given, the built-in ones. Reads come first, as they depend on the
//! fewest values; then writes and mixes; then all together. In between, discrete changes
//! ([`moves`]) are tried: schemes, channels, kinds of buffer ([`search`]), and, where no experiment
//! told it, when cleaning begins ([`spare`]). So far simulations are brief; the best are then
//! fitted to the whole measurement, every request of it, as the cost of a write depends on all
//! writes before it. The last quarter reduces the number of cells that are a little too far off
//! ([`polish`]). It ends when all cells are near, nothing is left to try, or the allowance is spent
//! ([`allowance`]): then the best so far is the outcome.
//!
//! The outcome is one drive of many that fit: several insides look the same from outside. Keys that
//! were fitted are listed as such.

mod allowance;
mod analytic;
mod beginnings;
mod common_logs;
mod counts;
mod finish;
#[cfg(test)]
mod history_tests;
mod moves;
mod parameters;
mod polish;
mod scheme;
mod search;
mod simulate;
mod solve;
mod spare;
mod stand_in;
mod structure;
#[cfg(test)]
mod tests;

use std::time::Duration;

use ssd::drive::profile::Profile;
use units::{Cancelled, Progress};

use crate::cell::Cell;
use crate::known::Known;
use crate::protocol::{CellMeasured, Matrix, written_bytes};
use allowance::Allowance;
use parameters::{MIXES, Parameter, READS, ShortestTimes, WRITES};
use scheme::Scheme;
use search::Pool;
use simulate::Simulator;
use solve::{Candidate, Goal, evaluate, refine};
use spare::Spare;
use structure::Structure;

/// Measurements and settings of a fit.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// Name of the device: it becomes the profile's name.
    pub name: &'a str,
    /// Model of the device, as it reports it; may be empty.
    pub model: &'a str,
    /// Bytes that it addresses.
    pub capacity_bytes: u64,
    /// Findings of experiments; may be empty.
    pub known: &'a Known,
    /// Measured throughputs of the device.
    pub target: &'a Matrix,
    /// Profiles to start from; the built-in ones if there is none.
    pub starts: &'a [Profile],
    /// Seed of the simulations.
    pub seed: u64,
    /// Length of the search: simulations of a whole matrix at most, and one more. 400 is thorough.
    pub effort: usize,
    /// Longest real time of the search, beside one more simulation; `None` for as long as `effort`
    /// takes. The outcome then depends on the machine.
    pub longest: Option<Duration>,
}

/// A fitted profile.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The profile: checked, of the device's capacity.
    pub profile: Profile,
    /// Throughputs of its stand-in.
    pub matrix: Matrix,
    /// Speed of the profile in each cell of the target, as a multiple of the target's.
    pub ratios: Vec<(Cell, f64)>,
    /// Assumptions, and findings that could not be used.
    pub notes: Vec<String>,
    /// Simulations of a whole matrix that it took.
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

/// Reasons why nothing was fitted.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// Nothing to fit to.
    #[error(
        "the matrix holds no cell with a throughput: run experiment `matrix` on the device first"
    )]
    Empty,
    /// No start can be simulated.
    #[error(
        "none of the {starts} profiles to start from can be simulated over an area of {area_bytes} \
         bytes"
    )]
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
/// [`FitError`]. Findings that are missing or that no profile can have are no errors: the fit does
/// without, and its notes say so.
pub fn fit(input: &Input<'_>, progress: &Progress) -> Result<Fit, FitError> {
    let is_good = |one: &&CellMeasured| one.iops.is_finite() && one.iops > 0.0;
    let cells: Vec<CellMeasured> = input.target.cells.iter().filter(is_good).copied().collect();
    if cells.is_empty() {
        return Err(FitError::Empty);
    }
    let most_cells = input.effort.saturating_mul(cells.len());
    progress.set_total(if input.longest.is_some() { 0 } else { most_cells as u64 });
    let allowance = Allowance::new(most_cells, input.longest);
    allowance.watch(progress, || searched(input, cells, &allowance, progress))
}

fn searched(
    input: &Input<'_>,
    cells: Vec<CellMeasured>,
    allowance: &Allowance,
    progress: &Progress,
) -> Result<Fit, FitError> {
    let structure = Structure::of(input.known);
    let starts: Vec<Profile> = if input.starts.is_empty() {
        // Slices are of drives whose inside is fitted by other measurements than these.
        let all = ssd::drive::profile::PROFILES.iter().map(|one| one.profile());
        all.filter(|one| one.media.slices == 1).collect()
    } else {
        input.starts.to_vec()
    };
    let least = analytic::least_units(&cells);
    let begun = |structure: &Structure, profile: &Profile| {
        room(&structure.put(&analytic::slow_down(&analytic::widen(profile, least), &cells)), input)
    };
    let all = starts.iter().map(|profile| begun(&structure, profile));
    let without_guesses = starts.iter().map(|profile| begun(&structure.without_guesses(), profile));
    let mut begins: Vec<Profile> = Vec::new();
    for profile in all.chain(without_guesses) {
        if !begins.contains(&profile) {
            begins.push(profile);
        }
    }
    let donors = begins[..starts.len().min(begins.len())].to_vec();
    let simulator = Simulator {
        protocol: input.target.protocol,
        seed: input.seed,
        capacity_bytes: input.capacity_bytes,
        written_bytes: written_bytes(&input.target.protocol, &cells),
        spare: Spare::of(input.known, input.target),
        progress,
        allowance,
    };
    let shortest = ShortestTimes::of(&cells);
    let parameters = parameters::all().map(|one| one.for_times(shortest)).collect();
    let mut search = Search { simulator, structure, cells, starts: begins, donors, parameters };
    let profile = search.run()?;
    let mut notes = search.structure.notes.clone();
    if allowance.is_out_of_time() {
        let seconds = input.longest.unwrap_or_default().as_secs_f64();
        notes.push(format!(
            "the search was ended after {seconds} s: another may find a profile that is nearer"
        ));
    }
    finished(input, &search, profile, &mut notes)
}

fn finished(
    input: &Input<'_>,
    search: &Search<'_>,
    found: Profile,
    notes: &mut Vec<String>,
) -> Result<Fit, FitError> {
    let no_start = || FitError::NoStart {
        starts: search.starts.len(),
        area_bytes: input.target.protocol.area_bytes,
    };
    let mut profile = found;
    finish::finish(&mut profile, input, search.simulator.spare, notes);
    if let Err(error) = profile.check() {
        unreachable!("a profile that was simulated can be given a size: {error}");
    }
    let matrix = search.simulator.matrix(&profile, &search.cells);
    search.simulator.progress.advance(0)?;
    let matrix = matrix.ok_or_else(no_start)?;
    let ratios = input.target.ratios(&matrix);
    let evaluations = search.simulator.allowance.cells() / search.cells.len();
    Ok(Fit { profile, matrix, ratios, notes: std::mem::take(notes), evaluations })
}

/// The profile with the device's addresses, so that candidates have no less room than the outcome.
fn room(profile: &Profile, input: &Input<'_>) -> Profile {
    let mut changed = profile.clone();
    let spare = Spare::of(input.known, input.target);
    finish::finish(&mut changed, input, spare, &mut Vec::new());
    spare::reserve(&mut changed, spare);
    if changed.check().is_ok() { changed } else { profile.clone() }
}

struct Search<'a> {
    simulator: Simulator<'a>,
    structure: Structure,
    cells: Vec<CellMeasured>,
    starts: Vec<Profile>,
    /// Profiles whose way with writes is tried: one of each start.
    donors: Vec<Profile>,
    parameters: Vec<Parameter>,
}

/// Errors below this, in every cell, need no more search.
const GOOD: f64 = 0.04;
/// Errors of reads below this, in every cell, are left to the fit of all.
const NEAR_ENOUGH: f64 = 0.08;
/// Share of the allowance left when reads and writes are fitted that goes into searching by brief
/// simulations, before whole ones.
const BRIEF: f64 = 0.5;
/// The share of all after which the search by least squares ends, and cells are counted.
const SEARCH: f64 = 0.75;
/// Profiles that are fitted to the whole measurement.
const KEPT: usize = 4;

impl Search<'_> {
    fn goal(&self, phases: u8) -> Goal {
        let of_phase = |one: &&CellMeasured| phases & phase(&one.cell) != 0;
        Goal::new(thinned(&self.cells.iter().filter(of_phase).copied().collect::<Vec<_>>()))
    }

    fn whole(&self, phases: u8) -> Goal {
        Goal::whole(
            &self
                .cells
                .iter()
                .filter(|one| phases & phase(&one.cell) != 0)
                .copied()
                .collect::<Vec<_>>(),
        )
    }

    /// Returns true if the target cleans within the measurement, or merges in waves.
    fn is_history_seen(&self) -> bool {
        let cleans = self
            .simulator
            .spare
            .onset()
            .is_some_and(|(bytes, _)| bytes < self.simulator.written_bytes as f64);
        cleans || self.structure.log_bytes().is_some()
    }

    fn run(&mut self) -> Result<Profile, FitError> {
        self.simulator.allowance.set_part(SEARCH);
        let fronts = self.reads()?;
        if fronts.is_empty() {
            return Err(FitError::NoStart {
                starts: self.starts.len(),
                area_bytes: self.simulator.protocol.area_bytes,
            });
        }
        let (found, in_brief) = self.with_writes(&fronts)?;
        self.simulator.allowance.set_part(1.0);
        self.simulator.allowance.set_until(1.0);
        Ok(self.polished(found)?.map_or(in_brief, |best| best.profile))
    }

    /// The candidate with the fewest cells amiss, polished; and gone on from with what is left
    /// then, as long as that helps.
    fn polished(&self, found: Vec<Candidate>) -> Result<Option<Candidate>, FitError> {
        const BETTER: f64 = 0.98;
        const CLIMB: f64 = 0.6;
        const ENOUGH: f64 = 0.9;
        let (goal, values, allowance) =
            (Goal::whole(&self.cells), self.last_values(), self.simulator.allowance);
        let polished = |found: Vec<Candidate>| {
            let best = found
                .into_iter()
                .min_by(|a, b| polish::amiss(&a.errors).total_cmp(&polish::amiss(&b.errors)));
            best.map(|best| polish::polish(&self.simulator, &goal, &self.structure, best, &values))
                .transpose()
        };
        let Some(mut best) = polished(found)? else { return Ok(None) };
        while best.worst() > polish::NEAR && allowance.spent() < ENOUGH {
            let begin = allowance.spent();
            let found = self.climbed(vec![best.clone()], begin + (1.0 - begin) * CLIMB)?;
            allowance.set_until(1.0);
            match polished(found)? {
                Some(next)
                    if polish::amiss(&next.errors) < polish::amiss(&best.errors) * BETTER =>
                {
                    best = next;
                }
                _ => break,
            }
        }
        Ok(Some(best))
    }

    /// Fits the best profiles for reads to all loads. The candidates are none if nothing is left to
    /// simulate the whole measurement; the best profile by brief simulations is always given.
    fn with_writes(&mut self, fronts: &[Profile]) -> Result<(Vec<Candidate>, Profile), FitError> {
        let backs = self.writes(fronts)?;
        let begin = self.simulator.allowance.spent();
        // Where the target cleans within the measurement, or merges in waves, brief simulations say
        // little of writes.
        let brief = if self.is_history_seen() { 0.0 } else { BRIEF };
        self.simulator.allowance.set_until(begin + (1.0 - begin) * brief);
        let goal = self.goal(READS | WRITES | MIXES);
        let parameters = self.values(READS | WRITES | MIXES);
        let mut pool = Pool::new(&self.simulator, &self.structure, &goal, &parameters);
        self.evaluated(&goal, &backs)?.into_iter().for_each(|one| pool.add(one));
        pool.climb()?;
        let mut found = pool.into_profiles();
        found.truncate(KEPT);
        let in_brief = found.first().unwrap_or(&backs[0]).clone();
        self.simulator.allowance.set_until(0.95);
        let candidates = self.evaluated(&Goal::whole(&self.cells), &found)?;
        Ok((self.climbed(candidates, 0.95)?, in_brief))
    }

    /// Fits candidates to the whole measurement until so much is spent, and gives the best: by
    /// least squares, and by the cells that are near.
    fn climbed(&self, candidates: Vec<Candidate>, until: f64) -> Result<Vec<Candidate>, FitError> {
        let (goal, values) = (Goal::whole(&self.cells), self.last_values());
        self.simulator.allowance.set_until(until);
        let mut pool = Pool::new(&self.simulator, &self.structure, &goal, &values);
        pool.phases = self.last_phases();
        candidates.into_iter().filter(Candidate::is_simulated).for_each(|one| pool.add(one));
        pool.climb()?;
        self.simulator.allowance.set_until(1.0);
        let least_amiss = pool.least_amiss().cloned();
        Ok([pool.end()?, least_amiss].into_iter().flatten().collect())
    }

    /// The kinds of load that values and changes must show in to be searched when all is simulated.
    /// Waves of merges hit other cells after the least change: what is gained by chance must not
    /// cost reads.
    fn last_phases(&self) -> u8 {
        if self.structure.log_bytes().is_some() { WRITES | MIXES } else { READS | WRITES | MIXES }
    }

    fn last_values(&self) -> Vec<Parameter> {
        self.values(self.last_phases())
    }

    /// Gives the parameters that are fitted to these kinds of load.
    fn values(&self, phases: u8) -> Vec<Parameter> {
        // What reads have fixed stays until all are fitted together.
        let own = |one: &Parameter| match phases {
            READS => one.phases & READS != 0,
            phases if phases & READS == 0 => one.phases & READS == 0,
            _ => true,
        };
        self.parameters
            .iter()
            .copied()
            .filter(own)
            .filter(|one| !self.structure.is_sure_of(one.key))
            .collect()
    }

    /// The profiles, each brought near to the target by a few cells that tell most; those that are
    /// far off are left out.
    fn adapted(
        &self,
        phases: u8,
        profiles: Vec<Profile>,
        jacobians: usize,
    ) -> Result<Vec<Profile>, Cancelled> {
        let goal = self.telling(phases);
        if goal.cells.is_empty() {
            return Ok(profiles);
        }
        let mut adapted = Vec::new();
        let few = profiles.len().div_ceil(2).min(6);
        for candidate in self.evaluated(&goal, &profiles)?.into_iter().take(few) {
            adapted.push(refine(
                &self.simulator,
                &goal,
                candidate,
                &self.values(phases),
                jacobians,
            )?);
        }
        adapted.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(adapted.into_iter().map(|one| one.profile).collect())
    }

    /// Gives the candidates that can be simulated, best first.
    fn evaluated(&self, goal: &Goal, profiles: &[Profile]) -> Result<Vec<Candidate>, Cancelled> {
        // A few at a time: where each takes long, the first ones have to do.
        const AT_ONCE: usize = 6;
        let mut candidates: Vec<Candidate> = Vec::new();
        for some in profiles.chunks(AT_ONCE) {
            if !candidates.is_empty() && self.simulator.allowance.is_over() {
                break;
            }
            candidates.extend(evaluate(&self.simulator, goal, some.to_vec())?);
        }
        candidates.retain(|one| one.cost.is_finite());
        candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(candidates)
    }
}

/// Best first, but of those that are all near to the target the ones with the fewest planes: where
/// reads do not show more, nothing speaks for more.
fn simplest_first(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    /// A mean error of 2 %.
    const NEAR: f64 = 4e-4;
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let limit = candidates.first().map_or(0.0, |best| (2.0 * best.cost).max(NEAR));
    let near = candidates.partition_point(|one| one.cost <= limit);
    candidates[..near].sort_by_key(|one| one.profile.layout().planes());
    candidates
}

/// Gives this profile with another one's treatment of writes.
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

/// Without cells that say what a shallower one says already: where the depth makes no difference
/// any more, one of them is enough.
fn thinned(cells: &[CellMeasured]) -> Vec<CellMeasured> {
    let is_same = |a: &CellMeasured, b: &CellMeasured| (a.iops / b.iops).ln().abs() < 0.015;
    let says_more = |one: &&CellMeasured| {
        let mut shallower = cells.iter().filter(|other| {
            let (a, b) = (&one.cell, &other.cell);
            a.access == b.access
                && a.reads == b.reads
                && a.size_bytes == b.size_bytes
                && b.depth < a.depth
        });
        !shallower.any(|other| is_same(one, other))
    };
    cells.iter().filter(says_more).copied().collect()
}
