//! The end of a search: as many cells as possible as near as is asked for.
//!
//! Least squares make errors small on average, and for that leave a cell a little too far off where
//! many others gain a little. Besides, where logs are merged or erase blocks cleaned, throughputs
//! jump, and slopes lead astray. Here each value is moved a little by itself, all are moved
//! together by the slopes that this shows, and what leaves the fewest cells amiss is gone on from.

use ssd::drive::profile::Profile;
use units::Cancelled;

use super::counts::Count;
use super::parameters::Parameter;
use super::simulate::Simulator;
use super::solve::{Candidate, Goal, Jacobian, evaluate, moved};
use super::structure::Structure;

/// A cell with an error above is amiss: a little less than the 10 % that are asked for, as another
/// seed moves it a little.
pub(super) const NEAR: f64 = 0.075;
/// Width of this bound: it is soft.
const SOFTNESS: f64 = 0.012;
/// Steps of values that are tried, as parts of those that slopes are measured with; the next if one
/// does not help.
const SIZES: [f64; 6] = [1.0, -1.0, 0.4, -0.4, 2.0, -2.0];

/// Gives the share of cells that are amiss, as a smooth function; where shares are equal, the mean
/// error decides.
pub(super) fn amiss(errors: &[f64]) -> f64 {
    const OF_MEAN: f64 = 0.2;
    let of_cell = |error: &f64| {
        1.0 / (1.0 + ((NEAR - error.abs()) / SOFTNESS).exp()) + OF_MEAN * error.abs().min(1.0)
    };
    errors.iter().map(of_cell).sum::<f64>() / errors.len().max(1) as f64
}

/// One of the ways to go on: by how much each value moves.
struct Way {
    step: Vec<f64>,
    candidate: Candidate,
}

/// The candidate with values that leave fewer cells amiss, as long as there is something to spend,
/// some are, and a step helps.
pub(super) fn polish(
    simulator: &Simulator<'_>,
    goal: &Goal,
    structure: &Structure,
    from: Candidate,
    parameters: &[Parameter],
) -> Result<Candidate, Cancelled> {
    const BETTER: f64 = 0.99;
    let mut best = from;
    let mut failed = 0;
    while failed < SIZES.len() && best.worst() > NEAR && !simulator.allowance.is_over() {
        let found = round(simulator, goal, structure, &best, parameters, SIZES[failed])?;
        if amiss(&found.errors) < amiss(&best.errors) * BETTER {
            best = found;
        } else {
            failed += 1;
        }
    }
    Ok(best)
}

/// The best of one step in each value, in each number, and in several values together.
fn round(
    simulator: &Simulator<'_>,
    goal: &Goal,
    structure: &Structure,
    from: &Candidate,
    parameters: &[Parameter],
    size: f64,
) -> Result<Candidate, Cancelled> {
    let active: Vec<Parameter> =
        parameters.iter().copied().filter(|one| one.is_active(&from.profile)).collect();
    let mut ways = Vec::new();
    for (index, parameter) in active.iter().enumerate() {
        let mut step = vec![0.0; active.len()];
        step[index] = parameter.step(&from.profile)
            * if parameter.is_whole() { size.signum() * size.abs().max(1.0) } else { size };
        ways.push(step);
    }
    let singles = taken(simulator, goal, structure, from, &active, &ways)?;
    let numbers = counted(simulator, goal, structure, from, size)?;
    let together = steps_together(&from.errors, &singles, active.len());
    let together = taken(simulator, goal, structure, from, &active, &together)?;
    let all = singles.into_iter().chain(together).map(|way| way.candidate).chain(numbers);
    Ok(all
        .min_by(|a, b| amiss(&a.errors).total_cmp(&amiss(&b.errors)))
        .unwrap_or_else(|| from.clone()))
}

/// Candidates with these steps taken, each with the step that it was in the end; those that change
/// nothing are left out.
fn taken(
    simulator: &Simulator<'_>,
    goal: &Goal,
    structure: &Structure,
    from: &Candidate,
    active: &[Parameter],
    steps: &[Vec<f64>],
) -> Result<Vec<Way>, Cancelled> {
    let mut profiles: Vec<Profile> = Vec::new();
    for step in steps {
        let profile = moved(&from.profile, active, step);
        if profile != from.profile
            && profile.check().is_ok()
            && structure.allows(&from.profile, &profile)
            && !profiles.contains(&profile)
        {
            profiles.push(profile);
        }
    }
    let found = evaluate(simulator, goal, profiles)?;
    let way = |candidate: Candidate| {
        let step = active
            .iter()
            .map(|one| one.position(&candidate.profile) - one.position(&from.profile))
            .collect();
        Way { step, candidate }
    };
    Ok(found.into_iter().filter(Candidate::is_simulated).map(way).collect())
}

/// Candidates with one more, or one fewer, of each number of logs or erase blocks.
fn counted(
    simulator: &Simulator<'_>,
    goal: &Goal,
    structure: &Structure,
    from: &Candidate,
    size: f64,
) -> Result<Vec<Candidate>, Cancelled> {
    if !simulator.is_history_seen(&from.profile) {
        return Ok(Vec::new());
    }
    let base = simulator.sized(&from.profile);
    let by = (size.abs().ceil() * size.signum()) as i32;
    let changed = Count::of(&base)
        .iter()
        .filter_map(|count| count.changed(&base, by))
        .map(|changed| simulator.sized(&changed));
    evaluate(
        simulator,
        goal,
        changed.filter(|changed| *changed != base && structure.allows(&base, changed)).collect(),
    )
}

/// Steps in several values: those that helped, added up, and those that the slopes of all give.
fn steps_together(errors: &[f64], singles: &[Way], count: usize) -> Vec<Vec<f64>> {
    const MOST_ADDED: usize = 4;
    let now = amiss(errors);
    let mut helped: Vec<&Way> =
        singles.iter().filter(|way| amiss(&way.candidate.errors) < now).collect();
    helped.sort_by(|a, b| amiss(&a.candidate.errors).total_cmp(&amiss(&b.candidate.errors)));
    let mut steps = Vec::new();
    for added in 2..=helped.len().min(MOST_ADDED) {
        steps.push(
            (0..count)
                .map(|index| helped[..added].iter().map(|way| way.step[index]).sum())
                .collect(),
        );
    }
    let jacobian = Jacobian { columns: columns(errors, singles, count) };
    for allowed in [0.0, 0.05] {
        // What is near enough need not be nearer, but should stay; what is hopelessly far must not
        // bend the rest.
        let wanted: Vec<f64> =
            errors.iter().map(|error| error.signum() * (error.abs() - allowed).max(0.0)).collect();
        let weights: Vec<f64> = errors
            .iter()
            .map(|error| {
                if error.abs() < allowed {
                    0.3
                } else {
                    1.0 / (1.0 + (error / (2.0 * NEAR)).powi(2))
                }
            })
            .collect();
        steps.extend([0.03, 0.5].map(|damping| jacobian.weighted_step(&weights, &wanted, damping)));
    }
    steps
}

/// Slopes of the errors in each value.
fn columns(errors: &[f64], singles: &[Way], count: usize) -> Vec<Vec<f64>> {
    const STEEPEST: f64 = 5.0;
    let column = |index: usize| {
        let is_of_it = |way: &&Way| {
            way.step[index].abs() > 1e-9
                && way.step.iter().filter(|by| by.abs() > 1e-9).count() == 1
        };
        match singles.iter().find(is_of_it) {
            Some(way) => {
                let slope = |(after, before): (&f64, &f64)| {
                    ((after - before) / way.step[index]).clamp(-STEEPEST, STEEPEST)
                };
                way.candidate.errors.iter().zip(errors).map(slope).collect()
            }
            None => vec![0.0; errors.len()],
        }
    };
    (0..count).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cell_far_off_is_better_than_several_a_little_too_far() {
        let squares = |errors: &[f64]| errors.iter().map(|error| error * error).sum::<f64>();
        let (one, several) = ([0.5, 0.05, 0.05, 0.05], [0.12, -0.12, 0.12, 0.05]);
        assert!(squares(&one) > squares(&several) && amiss(&one) < amiss(&several));
        // Of two that are all near, or all far, the nearer one.
        assert!(amiss(&[0.02; 4]) < amiss(&[0.04; 4]) && amiss(&[0.5; 4]) < amiss(&[0.9; 4]));
    }

    #[test]
    fn a_step_in_all_values_mends_what_is_too_far_and_keeps_the_rest() {
        // Two values: the first moves both cells, the second only the other one.
        let single = |step: [f64; 2], errors: [f64; 2]| Way {
            step: step.into(),
            candidate: Candidate {
                profile: ssd::drive::profile::load("a16").unwrap(),
                errors: errors.into(),
                cost: 0.0,
            },
        };
        let errors = [0.2, 0.0];
        let singles = [single([0.1, 0.0], [0.1, -0.1]), single([0.0, 0.1], [0.2, 0.1])];
        let steps = steps_together(&errors, &singles, 2);
        let after = |step: &[f64]| [errors[0] - step[0], errors[1] - step[0] + step[1]];
        assert!(
            steps.iter().map(|step| after(step)).any(|[a, b]| a.abs() < 0.06 && b.abs() < 0.06),
            "{steps:?}"
        );
    }
}
