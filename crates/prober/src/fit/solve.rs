//! Least squares over the continuous values: Levenberg and Marquardt's method on the logarithms of
//! values and throughputs.
//!
//! No crate is used: none does what takes the time, which is to simulate the columns of the
//! Jacobian side by side and to use one for several steps (Broyden's update).

use nalgebra::{Cholesky, DMatrix, DVector};
use ssd::drive::profile::{Detector, FlushRule, Profile};
use units::Cancelled;

use super::parameters::Parameter;
use super::simulate::{Extent, Simulator};
use crate::cell::Cell;
use crate::protocol::{CellMeasured, Matrix};

/// Errors far above this weigh linearly: one cell that the model cannot give must not bend all
/// others.
const ROBUST: f64 = 0.12;
/// The error of a cell that the candidate has not, or of a candidate that cannot be.
const MISSING: f64 = 3.0;

/// Measurements with which candidates are compared.
pub(super) struct Goal {
    pub cells: Vec<Cell>,
    measured: Vec<CellMeasured>,
    weights: Vec<f64>,
    extent: Extent,
}

impl Goal {
    pub fn new(measured: Vec<CellMeasured>) -> Self {
        // The interval is one of independent repetitions; the same protocol on the same drive
        // repeats itself better. What too few batches gave no interval for is no worse than half a
        // cell.
        const LEAST: f64 = 0.5;
        let weight = |one: &CellMeasured| {
            let error = (one.interval[1] - one.interval[0]) / 2.0 / one.iops;
            if error.is_finite() { (1.0 / (1.0 + (error / 0.5).powi(2))).max(LEAST) } else { LEAST }
        };
        let weights = measured.iter().map(weight).collect();
        Self {
            cells: measured.iter().map(|one| one.cell).collect(),
            measured,
            weights,
            extent: Extent::Brief,
        }
    }

    /// All that was measured, and candidates measured just so.
    pub fn whole(measured: &[CellMeasured]) -> Self {
        Self { extent: Extent::Whole, ..Self::new(measured.to_vec()) }
    }

    pub fn is_whole(&self) -> bool {
        self.extent == Extent::Whole
    }

    /// The kinds of load, as bits, with errors that are too large.
    pub fn missed(&self, errors: &[f64]) -> u8 {
        let missed = errors.iter().zip(&self.cells).filter(|(error, _)| error.abs() > super::GOOD);
        missed.fold(0, |phases, (_, cell)| phases | super::phase(cell))
    }

    /// A few of the cells, for a first look at many candidates: those with the largest errors, and
    /// some of the others.
    fn screen(&self, errors: &[f64]) -> (Self, Vec<usize>) {
        const WORST: usize = 10;
        let mut order: Vec<usize> = (0..errors.len()).collect();
        order.sort_by(|&a, &b| errors[b].abs().total_cmp(&errors[a].abs()).then(a.cmp(&b)));
        let mut kept: Vec<usize> = order.iter().take(WORST).copied().collect();
        let others: Vec<usize> = (0..errors.len()).filter(|index| !kept.contains(index)).collect();
        kept.extend(others.iter().step_by(others.len().div_ceil(WORST).max(1)));
        kept.sort_unstable();
        let screen = Self {
            cells: kept.iter().map(|&index| self.cells[index]).collect(),
            measured: kept.iter().map(|&index| self.measured[index]).collect(),
            weights: kept.iter().map(|&index| self.weights[index]).collect(),
            extent: Extent::Brief,
        };
        (screen, kept)
    }

    /// Logarithms of how many times too fast each cell is.
    pub fn errors(&self, matrix: Option<&Matrix>) -> Vec<f64> {
        let error = |one: &CellMeasured| {
            let iops = matrix.and_then(|matrix| matrix.iops(&one.cell)).filter(|&iops| iops > 0.0);
            iops.map_or(MISSING, |iops| (iops / one.iops).ln().clamp(-MISSING, MISSING))
        };
        self.measured.iter().map(error).collect()
    }

    /// Mean robust square: for small errors, that of the relative error.
    pub fn cost(&self, errors: &[f64]) -> f64 {
        let rho =
            |error: f64| 2.0 * ROBUST * ROBUST * ((1.0 + (error / ROBUST).powi(2)).sqrt() - 1.0);
        let sum: f64 =
            errors.iter().zip(&self.weights).map(|(&error, weight)| weight * rho(error)).sum();
        sum / self.weights.iter().sum::<f64>().max(1e-9)
    }

    fn robust_weights(&self, errors: &[f64]) -> Vec<f64> {
        errors
            .iter()
            .zip(&self.weights)
            .map(|(&error, weight)| weight / (1.0 + (error / ROBUST).powi(2)).sqrt())
            .collect()
    }
}

/// A profile with its errors.
#[derive(Clone)]
pub(super) struct Candidate {
    pub profile: Profile,
    pub errors: Vec<f64>,
    pub cost: f64,
}

impl Candidate {
    /// Returns true if any of its cells was simulated: there was allowance left, and such a drive
    /// is possible.
    pub fn is_simulated(&self) -> bool {
        self.errors.iter().any(|error| error.abs() < MISSING)
    }

    /// The largest error.
    pub fn worst(&self) -> f64 {
        self.errors.iter().fold(0.0, |worst: f64, error| worst.max(error.abs()))
    }
}

/// Returns true if two profiles do the same, as far as these errors tell.
pub(super) fn is_alike(one: &[f64], other: &[f64]) -> bool {
    const DIFFERENCE: f64 = 0.004;
    one.len() == other.len()
        && one.iter().zip(other).map(|(a, b)| (a - b).abs()).sum::<f64>()
            < DIFFERENCE * one.len() as f64
}

/// Brings values into the ranges that others set.
pub(super) fn tidy(profile: &mut Profile) {
    let page = u64::from(profile.media.page_bytes);
    let buffer = &mut profile.write_buffer;
    if buffer.bytes > 0 {
        buffer.bytes = buffer.bytes.max(page);
        let pages = (buffer.bytes / page).min(u64::from(u32::MAX)) as u32;
        let least = u32::from(buffer.flush != FlushRule::Eager);
        buffer.flush_pages = buffer.flush_pages.clamp(least, pages);
        buffer.in_flight_pages = buffer.in_flight_pages.min(pages);
    }
    let cache = &mut profile.read_cache.bytes;
    if *cache > 0 {
        *cache = (*cache).max(page);
    }
    let ahead = &mut profile.read_ahead;
    if ahead.detector != Detector::None {
        *cache = (*cache).max(2 * page);
        ahead.window_bytes = ahead.window_bytes.clamp(page, *cache);
        ahead.trigger_requests = ahead.trigger_requests.max(1);
        ahead.streams =
            if ahead.detector == Detector::Table { ahead.streams.max(1) } else { ahead.streams };
    }
}

/// Candidates of these profiles, in their order. Those that cannot be are very bad.
pub(super) fn evaluate(
    simulator: &Simulator<'_>,
    goal: &Goal,
    profiles: Vec<Profile>,
) -> Result<Vec<Candidate>, Cancelled> {
    let matrices = simulator.matrices(&profiles, &goal.measured, goal.extent)?;
    let candidate = |(profile, matrix): (Profile, Option<Matrix>)| {
        let errors = goal.errors(matrix.as_ref());
        Candidate { cost: goal.cost(&errors), errors, profile }
    };
    Ok(profiles.into_iter().zip(matrices).map(candidate).collect())
}

/// A candidate with the slopes of its errors there.
#[derive(Clone)]
pub(super) struct Local {
    pub candidate: Candidate,
    active: Vec<Parameter>,
    jacobian: Jacobian,
    damping: f64,
}

impl Local {
    /// Measures the slopes.
    pub fn measure(
        simulator: &Simulator<'_>,
        goal: &Goal,
        candidate: Candidate,
        parameters: &[Parameter],
    ) -> Result<Self, Cancelled> {
        let active: Vec<Parameter> =
            parameters.iter().copied().filter(|one| one.is_active(&candidate.profile)).collect();
        let jacobian = Jacobian::measure(simulator, goal, &candidate, &active)?;
        Ok(Self { candidate, active, jacobian, damping: 0.03 })
    }

    /// Steps down, each with the slopes that the last one left.
    pub fn descend(
        &mut self,
        simulator: &Simulator<'_>,
        goal: &Goal,
        steps: usize,
    ) -> Result<(), Cancelled> {
        for _ in 0..steps {
            if self.active.is_empty()
                || self.candidate.cost < 2e-5
                || self.candidate.worst() < 0.015
                || simulator.allowance.is_over()
            {
                break;
            }
            let best = &mut self.candidate;
            let steps = [self.damping, self.damping * 12.0]
                .map(|damping| self.jacobian.step(goal, &best.errors, damping));
            let profiles =
                steps.iter().map(|step| moved(&best.profile, &self.active, step)).collect();
            let tried = evaluate(simulator, goal, profiles)?;
            let (index, better) =
                if tried[1].cost < tried[0].cost { (1, &tried[1]) } else { (0, &tried[0]) };
            let did: Vec<f64> = self
                .active
                .iter()
                .map(|parameter| {
                    parameter.position(&better.profile) - parameter.position(&best.profile)
                })
                .collect();
            if better.cost < 1.0 {
                self.jacobian.update(&did, &best.errors, &better.errors);
            }
            if better.cost >= best.cost {
                self.damping *= 30.0;
                if self.damping > 1e3 {
                    break;
                }
                continue;
            }
            self.damping =
                if index == 0 { (self.damping / 6.0).max(1e-4) } else { self.damping * 3.0 };
            let gain = 1.0 - better.cost / best.cost;
            *best = better.clone();
            if gain < 0.04 {
                break;
            }
        }
        self.damping = self.damping.clamp(0.03, 1.0);
        Ok(())
    }

    /// The same values' slopes at a change to the profile, for some of the cells; those that the
    /// change brings into play are measured.
    fn at(
        &self,
        simulator: &Simulator<'_>,
        goal: &Goal,
        rows: &[usize],
        changed: Candidate,
        all: &[Parameter],
    ) -> Result<Self, Cancelled> {
        let (mut active, mut columns) = (Vec::new(), Vec::new());
        let mut fresh = Vec::new();
        for parameter in all.iter().filter(|one| one.is_active(&changed.profile)) {
            match self.active.iter().position(|one| one.key == parameter.key) {
                Some(index) => {
                    active.push(*parameter);
                    columns
                        .push(rows.iter().map(|&row| self.jacobian.columns[index][row]).collect());
                }
                None => fresh.push(*parameter),
            }
        }
        if !fresh.is_empty() {
            columns.extend(Jacobian::measure(simulator, goal, &changed, &fresh)?.columns);
            active.extend(fresh);
        }
        Ok(Self { candidate: changed, active, jacobian: Jacobian { columns }, damping: 0.05 })
    }
}

/// Improves the values of these parameters, with so many Jacobians at most.
pub(super) fn refine(
    simulator: &Simulator<'_>,
    goal: &Goal,
    mut best: Candidate,
    parameters: &[Parameter],
    jacobians: usize,
) -> Result<Candidate, Cancelled> {
    for _ in 0..jacobians {
        let before = best.cost;
        if before < 2e-5 || best.worst() < 0.015 || simulator.allowance.is_over() {
            break;
        }
        let mut local = Local::measure(simulator, goal, best, parameters)?;
        local.descend(simulator, goal, 4)?;
        best = local.candidate;
        if best.cost > before * 0.97 {
            break;
        }
    }
    Ok(best)
}

/// The most promising of many changes to a candidate, best first, over all cells. A change is
/// judged by what the values of `parameters` can make of it: it is simulated over a few cells only,
/// those for which a step along the candidate's slopes mends most are fitted to these cells a
/// little, and the best of them to all.
pub(super) fn promising(
    simulator: &Simulator<'_>,
    goal: &Goal,
    from: &Local,
    changes: Vec<Profile>,
    parameters: &[Parameter],
) -> Result<Vec<Candidate>, Cancelled> {
    const SCREENED: usize = 12;
    const KEPT: usize = 4;
    const DAMPING: f64 = 0.05;
    let (screen, rows) = goal.screen(&from.candidate.errors);
    let slopes = from.jacobian.rows(&rows);
    let mut ranked: Vec<(f64, Candidate)> = Vec::new();
    // What a change does in brief is taken for what it does in whole.
    let begin = if goal.is_whole() {
        evaluate(simulator, &screen, vec![from.candidate.profile.clone()])?.pop()
    } else {
        None
    };
    for mut change in evaluate(simulator, &screen, changes)? {
        if change.cost >= 1.0 {
            continue;
        }
        if let Some(begin) = &begin {
            for ((error, before), &row) in change.errors.iter_mut().zip(&begin.errors).zip(&rows) {
                *error += from.candidate.errors[row] - before;
            }
            change.cost = screen.cost(&change.errors);
        }
        let step = slopes.step(&screen, &change.errors, DAMPING);
        let hoped = screen.cost(&slopes.after(&change.errors, &step));
        ranked.push((hoped.min(change.cost), change));
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    // What shows nowhere helps nowhere, and what shows alike is tried once.
    let mut shown: Vec<Vec<f64>> =
        vec![rows.iter().map(|&row| from.candidate.errors[row]).collect()];
    ranked.retain(|(_, change)| {
        let is_new = !shown.iter().any(|other| is_alike(other, &change.errors));
        if is_new {
            shown.push(change.errors.clone());
        }
        is_new
    });
    if goal.is_whole() {
        return promising_in_whole(
            simulator,
            goal,
            from,
            ranked
                .into_iter()
                .map(|(_, change)| (slopes.step(&screen, &change.errors, DAMPING), change.profile)),
            parameters,
        );
    }
    let mut fitted: Vec<(f64, Local)> = Vec::new();
    for (_, change) in ranked.into_iter().take(SCREENED) {
        if simulator.allowance.is_over() {
            break;
        }
        let mut local = from.at(simulator, &screen, &rows, change, parameters)?;
        local.descend(simulator, &screen, 2)?;
        fitted.push((local.candidate.cost, local));
    }
    fitted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let profiles = fitted
        .into_iter()
        .map(|(_, local)| local.candidate.profile)
        .filter(|profile| profile.check().is_ok())
        .take(KEPT)
        .collect();
    let every: Vec<usize> = (0..goal.cells.len()).collect();
    let mut candidates = Vec::new();
    for candidate in evaluate(simulator, goal, profiles)? {
        // Far above, there are not the steps to get below.
        if candidate.cost > from.candidate.cost * 4.0 || simulator.allowance.is_over() {
            candidates.push(candidate);
            continue;
        }
        let mut local = from.at(simulator, goal, &every, candidate, parameters)?;
        local.descend(simulator, goal, 3)?;
        candidates.push(local.candidate);
    }
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    Ok(candidates)
}

/// The best of changes with the steps that are to mend them, best first: these are made, and the
/// best gone on from.
fn promising_in_whole(
    simulator: &Simulator<'_>,
    goal: &Goal,
    from: &Local,
    changes: impl Iterator<Item = (Vec<f64>, Profile)>,
    parameters: &[Parameter],
) -> Result<Vec<Candidate>, Cancelled> {
    const TRIED: usize = 6;
    const KEPT: usize = 2;
    let stepped = |(step, profile): (Vec<f64>, Profile)| {
        // Values that the change has put out of play stay.
        let step: Vec<f64> = from
            .active
            .iter()
            .zip(step)
            .map(|(one, by)| if one.is_active(&profile) { by } else { 0.0 })
            .collect();
        moved(&profile, &from.active, &step)
    };
    let profiles =
        changes.take(TRIED).map(stepped).filter(|profile| profile.check().is_ok()).collect();
    let mut candidates = evaluate(simulator, goal, profiles)?;
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let every: Vec<usize> = (0..goal.cells.len()).collect();
    for candidate in candidates.iter_mut().take(KEPT) {
        if candidate.cost > from.candidate.cost * 1.5 || simulator.allowance.is_over() {
            break;
        }
        let mut local = from.at(simulator, goal, &every, candidate.clone(), parameters)?;
        local.descend(simulator, goal, 3)?;
        *candidate = local.candidate;
    }
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    Ok(candidates)
}

/// The profile with its values moved so far.
pub(super) fn moved(profile: &Profile, parameters: &[Parameter], step: &[f64]) -> Profile {
    let mut moved = profile.clone();
    for (parameter, by) in parameters.iter().zip(step) {
        // What does not move is not rounded either.
        if *by != 0.0 {
            parameter.put(&mut moved, parameter.position(profile) + by);
        }
    }
    tidy(&mut moved);
    moved
}

/// Changes of the errors with positions: a column for each parameter.
#[derive(Clone)]
pub(super) struct Jacobian {
    pub columns: Vec<Vec<f64>>,
}

impl Jacobian {
    fn measure(
        simulator: &Simulator<'_>,
        goal: &Goal,
        at: &Candidate,
        parameters: &[Parameter],
    ) -> Result<Self, Cancelled> {
        let shifted = |parameter: &Parameter| {
            let here = parameter.position(&at.profile);
            let step = parameter.step(&at.profile);
            // At the upper end of its range a value can only fall.
            let up = moved(&at.profile, &[*parameter], &[step]);
            if parameter.position(&up) - here > step / 4.0 {
                up
            } else {
                moved(&at.profile, &[*parameter], &[-step])
            }
        };
        let profiles: Vec<Profile> = parameters.iter().map(shifted).collect();
        let steps: Vec<f64> = parameters
            .iter()
            .zip(&profiles)
            .map(|(parameter, profile)| {
                parameter.position(profile) - parameter.position(&at.profile)
            })
            .collect();
        let candidates = evaluate(simulator, goal, profiles)?;
        let column = |(candidate, step): (Candidate, f64)| {
            let is_usable = step.abs() > 1e-9 && candidate.cost < 1.0;
            let slope = |(after, before): (&f64, &f64)| {
                if is_usable { ((after - before) / step).clamp(-5.0, 5.0) } else { 0.0 }
            };
            candidate.errors.iter().zip(&at.errors).map(slope).collect()
        };
        Ok(Self { columns: candidates.into_iter().zip(steps).map(column).collect() })
    }

    /// For some of the cells.
    fn rows(&self, rows: &[usize]) -> Self {
        Self {
            columns: self
                .columns
                .iter()
                .map(|column| rows.iter().map(|&row| column[row]).collect())
                .collect(),
        }
    }

    /// Errors after a step, if they were linear.
    fn after(&self, errors: &[f64], step: &[f64]) -> Vec<f64> {
        let change = |row: usize| {
            self.columns.iter().zip(step).map(|(column, by)| column[row] * by).sum::<f64>()
        };
        errors.iter().enumerate().map(|(row, error)| error + change(row)).collect()
    }

    /// The step that the damped normal equations give.
    fn step(&self, goal: &Goal, errors: &[f64], damping: f64) -> Vec<f64> {
        self.weighted_step(&goal.robust_weights(errors), errors, damping)
    }

    /// The same with weights of one's own.
    pub fn weighted_step(&self, weights: &[f64], errors: &[f64], damping: f64) -> Vec<f64> {
        const LONGEST: f64 = 0.9;
        let count = self.columns.len();
        let dot = |a: &[f64], b: &[f64]| -> f64 {
            a.iter().zip(b).zip(weights).map(|((a, b), weight)| a * b * weight).sum()
        };
        let mut normal = vec![vec![0.0; count]; count];
        for (row, values) in normal.iter_mut().enumerate() {
            for (column, value) in values.iter_mut().enumerate() {
                *value = dot(&self.columns[row], &self.columns[column]);
            }
        }
        // What hardly shows must not move far: an absolute part beside the relative one.
        let scale = (0..count).map(|index| normal[index][index]).fold(0.0, f64::max);
        for (index, values) in normal.iter_mut().enumerate() {
            values[index] += damping * (values[index] + 0.003 * scale) + 1e-9;
        }
        let right: Vec<f64> = self.columns.iter().map(|column| -dot(column, errors)).collect();
        let step = solve(&normal, right);
        let longest = step.iter().fold(0.0, |longest: f64, by| longest.max(by.abs()));
        let shorten = if longest > LONGEST { LONGEST / longest } else { 1.0 };
        step.into_iter().map(|by| by * shorten).collect()
    }

    /// Broyden's update: the least change that explains what a step did.
    fn update(&mut self, step: &[f64], before: &[f64], after: &[f64]) {
        let norm: f64 = step.iter().map(|by| by * by).sum();
        if norm < 1e-12 {
            return;
        }
        for row in 0..before.len() {
            let expected: f64 =
                self.columns.iter().zip(step).map(|(column, by)| column[row] * by).sum();
            let missed = after[row] - before[row] - expected;
            for (column, by) in self.columns.iter_mut().zip(step) {
                column[row] += missed * by / norm;
            }
        }
    }
}

/// Solves a symmetric positive definite system by Cholesky's method; what has no influence is 0.
fn solve(matrix: &[Vec<f64>], right: Vec<f64>) -> Vec<f64> {
    /// In place of a pivot that is lost: so large that nothing is left of its row.
    const LOST: f64 = 1e200;
    let count = right.len();
    let matrix = DMatrix::from_fn(count, count, |row, column| matrix[row][column]);
    let Some(factors) = Cholesky::new_with_substitute(matrix, LOST) else {
        return vec![0.0; count];
    };
    factors.solve(&DVector::from_vec(right)).data.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_influence_stays() {
        let solution = solve(&[vec![0.0, 0.0], vec![0.0, 4.0]], vec![1.0, 8.0]);
        assert!(solution[0].abs() < 1e-100 && solution[1] == 2.0, "{solution:?}");
    }

    #[test]
    fn a_symmetric_system_is_solved() {
        let matrix = vec![vec![4.0, 2.0, 0.4], vec![2.0, 5.0, 1.0], vec![0.4, 1.0, 3.0]];
        let solution = solve(&matrix, vec![1.0, -2.0, 0.5]);
        for (row, right) in matrix.iter().zip([1.0, -2.0, 0.5]) {
            let left: f64 = row.iter().zip(&solution).map(|(a, x)| a * x).sum();
            assert!((left - right).abs() < 1e-12, "{left} {right}");
        }
    }
}
