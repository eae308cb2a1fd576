//! The best division of spare space between logs that each hold one update set (MULTILOG 4.2.2,
//! 4.3.2; eq. 10-13).

use crate::turnover::{log_excess, spare, spare_slope, turnover, turnover_at_excess};
use crate::{ModelError, UpdateSets, check_over_provisioning};

/// Spare space divided between the logs of the update sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// Spare space of each log as a fraction of all logical pages: MULTILOG's beta_i. They add up
    /// to the over-provisioning.
    pub betas: Vec<f64>,
    /// p_gc of each log (eq. 3 with alpha_i = beta_i / s_i). 1 where a set is never updated: its
    /// log is never cleaned.
    pub p_gc: Vec<f64>,
    /// Cleaning cost of the device (eq. 13): relocation writes for each host write.
    pub cleaning_cost: f64,
}

impl Division {
    /// Page programs for each host write.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        1.0 + self.cleaning_cost
    }

    fn from_turnovers(sets: &UpdateSets, over_provisioning: f64, turnovers: &[f64]) -> Self {
        let mut betas: Vec<f64> =
            sets.sizes().iter().zip(turnovers).map(|(size, &y)| size * spare(y)).collect();
        let scale = over_provisioning / betas.iter().sum::<f64>();
        betas.iter_mut().for_each(|beta| *beta *= scale);
        let costs = sets.shares().iter().zip(turnovers).filter(|(share, _)| **share > 0.0);
        Self {
            betas,
            p_gc: turnovers.iter().map(|y| (-y).exp()).collect(),
            cleaning_cost: costs.map(|(share, y)| share / y.exp_m1()).sum(),
        }
    }
}

/// Cleaning cost (eq. 13) when each update set lives in its own log and log i has `betas[i]` spare
/// space (a fraction of all logical pages, 0 or above). Infinite if a set that is updated has none.
///
/// # Errors
/// [`ModelError`] if `betas` has not one entry for each set, or one is negative.
pub fn separated_cleaning_cost(sets: &UpdateSets, betas: &[f64]) -> Result<f64, ModelError> {
    if betas.len() != sets.len() {
        return Err(ModelError::LengthMismatch {
            sizes: sets.len(),
            what: "spare spaces",
            given: betas.len(),
        });
    }
    let mut cost = 0.0;
    for (index, (&beta, (&size, &share))) in
        betas.iter().zip(sets.sizes().iter().zip(sets.shares())).enumerate()
    {
        if beta.is_nan() || beta < 0.0 {
            return Err(ModelError::EntryOutOfRange {
                what: "spare space",
                index,
                value: beta,
                right: "0 or above",
            });
        }
        if share > 0.0 {
            cost += share / turnover(beta / size).exp_m1();
        }
    }
    Ok(cost)
}

/// The division of `over_provisioning` (above 0, at most 100) that makes the cleaning cost least.
///
/// At the least cost all slopes of eq. 11 are equal. With y_i the turnover of log i the slope is
/// -(f_si / s_i) / (e^y_i - 1 - y_i), so for any common slope each y_i, and from it beta_i, is
/// found on its own; the common slope is found by Newton's method kept inside a bracket, over the
/// turnover that a set of average frequency would have. The problem is convex, so what is found is
/// the least. Sets that are never updated get no spare space. Takes any number of sets: time is
/// linear in it.
///
/// # Errors
/// [`ModelError::OutOfRange`] if the over-provisioning is.
pub fn divide_space(sets: &UpdateSets, over_provisioning: f64) -> Result<Division, ModelError> {
    check_over_provisioning(over_provisioning)?;
    let turnovers = equal_slope_turnovers(sets.sizes(), sets.shares(), over_provisioning)?;
    Ok(Division::from_turnovers(sets, over_provisioning, &turnovers))
}

/// Turnovers of logs of these sizes and shares (in any unit) at which all slopes are equal and the
/// spare spaces add up to `total`.
fn equal_slope_turnovers(
    sizes: &[f64],
    shares: &[f64],
    total: f64,
) -> Result<Vec<f64>, ModelError> {
    const ROUNDS: usize = 200;
    let (all_sizes, all_shares) = (sizes.iter().sum::<f64>(), shares.iter().sum::<f64>());
    let log_rates: Vec<f64> = sizes
        .iter()
        .zip(shares)
        .map(|(size, share)| (share * all_sizes / (size * all_shares)).ln())
        .collect();
    let mut turnovers = vec![0.0; sizes.len()];
    let mut average = turnover(total / all_sizes);
    let (mut low, mut high) = (0.0_f64, f64::INFINITY);
    let mut step = f64::INFINITY;
    // A sum of k terms cannot be known better than this.
    let rounding = (4.0 + (sizes.len() as f64).sqrt()) * f64::EPSILON;
    for _ in 0..ROUNDS {
        let level = log_excess(average);
        let (mut sum, mut slope) = (0.0, 0.0);
        for ((y, &log_rate), &size) in turnovers.iter_mut().zip(&log_rates).zip(sizes) {
            if log_rate == f64::NEG_INFINITY {
                continue;
            }
            *y = turnover_at_excess(log_rate + level);
            sum += size * spare(*y);
            slope += size * spare_slope(*y) * rise(*y);
        }
        let miss = sum - total;
        if miss.abs() <= rounding * total || step.abs() <= f64::EPSILON * average {
            return Ok(turnovers);
        }
        if miss < 0.0 {
            low = average;
        } else {
            high = average;
        }
        let newton = average - miss * rise(average) / slope;
        let next = if newton > low && newton < high {
            newton
        } else if high.is_finite() {
            0.5 * (low + high)
        } else {
            2.0 * average
        };
        step = next - average;
        average = next;
    }
    Err(ModelError::NotConverged { what: "the division of space", rounds: ROUNDS, change: step })
}

/// d y / d ln(e^y - 1 - y).
fn rise(y: f64) -> f64 {
    if y > 40.0 { 1.0 } else { crate::turnover::excess(y) / y.exp_m1() }
}

/// Algorithm 1, lines 3-9, as printed: spare space is redistributed between log i and log i + 1
/// (mod k), again and again, until no beta changes by more than `tolerance` (above 0) of the
/// over-provisioning.
///
/// Two readings were needed. Line 3 sets beta_i = s_i, which adds up to 1 and not to alpha; here it
/// is alpha s_i. And a log that is never updated would cut the ring, because it gives all it has to
/// either neighbour and passes nothing on; such logs are left out and get nothing. [`divide_space`]
/// gives the same result in time linear in k; this one takes about k^2 rounds of k and is here to
/// be compared with. It is not reliable: where hot logs are neighbours only over nearly idle ones,
/// little space passes in a round, and it rests before the division is the best.
///
/// # Errors
/// [`ModelError`] if an argument is out of range, or after `max_rounds` rounds without coming to
/// rest.
pub fn divide_space_pairwise(
    sets: &UpdateSets,
    over_provisioning: f64,
    tolerance: f64,
    max_rounds: usize,
) -> Result<Division, ModelError> {
    check_over_provisioning(over_provisioning)?;
    ModelError::check(tolerance > 0.0, "tolerance", tolerance, "above 0")?;
    let live: Vec<usize> = (0..sets.len()).filter(|&i| sets.shares()[i] > 0.0).collect();
    let live_size: f64 = live.iter().map(|&i| sets.sizes()[i]).sum();
    let mut betas = vec![0.0; sets.len()];
    for &i in &live {
        betas[i] = over_provisioning * sets.sizes()[i] / live_size;
    }
    let mut change = 0.0_f64;
    for _ in 0..max_rounds {
        change = 0.0;
        for (place, &i) in live.iter().enumerate() {
            let j = live[(place + 1) % live.len()];
            if i == j {
                continue;
            }
            let sizes = [sets.sizes()[i], sets.sizes()[j]];
            let budget = betas[i] + betas[j];
            let turnovers =
                equal_slope_turnovers(&sizes, &[sets.shares()[i], sets.shares()[j]], budget)?;
            let first = (sizes[0] * spare(turnovers[0])).min(budget);
            change = change.max((first - betas[i]).abs());
            (betas[i], betas[j]) = (first, budget - first);
        }
        if change <= tolerance * over_provisioning {
            let turnovers: Vec<f64> =
                betas.iter().zip(sets.sizes()).map(|(beta, size)| turnover(beta / size)).collect();
            return Ok(Division::from_turnovers(sets, over_provisioning, &turnovers));
        }
    }
    Err(ModelError::NotConverged {
        what: "the pairwise division of space",
        rounds: max_rounds,
        change,
    })
}
