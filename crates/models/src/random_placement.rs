//! Pages of different update frequency side by side in one log cleaned by LRU (MULTILOG 4.2.1 and
//! 4.3.1; eq. 6-9).

use crate::turnover::{spare, spare_slope};
use crate::{ModelError, UpdateSets, check_over_provisioning, p_gc_lru};

/// Cost of randomly mixed pages.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomPlacement {
    /// For each set, the chance that one of its pages is still valid when its erase block is
    /// cleaned. 1 if it is never updated.
    pub p_gc: Vec<f64>,
    /// The same for a random page of the erase block that is cleaned: p_avg of eq. 9.
    pub p_avg: f64,
    /// Relocation writes for each host write.
    pub cleaning_cost: f64,
}

impl RandomPlacement {
    /// Page programs for each host write.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        1.0 + self.cleaning_cost
    }
}

/// Eq. 6, 7 and 9 for any number of sets, solved; `over_provisioning` above 0, at most 100.
///
/// With y = (1 + alpha)(1 - p_avg), the host updates for each logical page while the log is written
/// round once, eq. 6 and 7 are p_gc_i = e^(-r_i y), where r_i = f_si / s_i; eq. 8 and section 4.3.1
/// (p_gc_i^(1/f_i) all equal) say the same. Set i makes up the part (f_si / (1 - p_gc_i)) / sum_j
/// (f_sj / (1 - p_gc_j)) of all that is written, hence 1 - p_avg = 1 / sum_j (f_sj / (1 - p_gc_j)),
/// which for two sets is eq. 9. Put together: sum_i s_i (r_i y / (1 - e^(-r_i y)) - 1) = alpha, one
/// increasing convex equation in y, solved by Newton's method from above, which cannot miss (the
/// paper's repeated substitution can). A term of the sum is the space that set i takes beyond its
/// valid pages; so mixing is one of the ways to divide space, and never better than
/// [`crate::divide_space`].
///
/// # Errors
/// [`ModelError::OutOfRange`] if the over-provisioning is.
pub fn kmodal_random(
    sets: &UpdateSets,
    over_provisioning: f64,
) -> Result<RandomPlacement, ModelError> {
    const ROUNDS: usize = 200;
    check_over_provisioning(over_provisioning)?;
    let rates: Vec<f64> =
        sets.sizes().iter().zip(sets.shares()).map(|(size, share)| share / size).collect();
    // spare(u) lies between u / 2 and u, and above u - 1; the rates average to 1 over the pages. So
    // y is at most:
    let mut y = (1.0 + over_provisioning).min(2.0 * over_provisioning);
    let mut step = f64::INFINITY;
    for _ in 0..ROUNDS {
        let (mut sum, mut slope) = (0.0, 0.0);
        for (rate, size) in rates.iter().zip(sets.sizes()) {
            sum += size * spare(rate * y);
            slope += size * rate * spare_slope(rate * y);
        }
        step = (sum - over_provisioning) / slope;
        if step <= 2.0 * f64::EPSILON * y {
            let p_gc: Vec<f64> = rates.iter().map(|rate| (-rate * y).exp()).collect();
            let cost = |rate: f64, size: f64| {
                if rate > 0.0 { size * rate / (rate * y).exp_m1() } else { size / y }
            };
            let cleaning_cost: f64 =
                rates.iter().zip(sets.sizes()).map(|(&rate, &size)| cost(rate, size)).sum();
            return Ok(RandomPlacement {
                p_gc,
                p_avg: cleaning_cost / (1.0 + cleaning_cost),
                cleaning_cost,
            });
        }
        y -= step;
    }
    Err(ModelError::NotConverged { what: "random placement", rounds: ROUNDS, change: step })
}

/// The closed approximation of MULTILOG 4.2.1 ("analytic approximation"), for any number of sets:
/// the spare space is thought to be split by the shares of updates, alpha_i = f_si alpha / s_i,
/// each p_gc_i is eq. 3 at alpha_i, and p_avg weighs them by the space of each set, (s_i + f_si
/// alpha) / (1 + alpha).
///
/// The paper says that p_avg comes out slightly low, within 5 %. Against [`kmodal_random`] it is
/// never high; for two sets of sizes 0.01 ... 0.99 with f_r from 0.01 to 100 it is at most 4.3 %
/// low up to alpha = 0.3, 6.9 % up to 0.5 and 12 % up to 1.
///
/// # Errors
/// [`ModelError::OutOfRange`] if the over-provisioning is.
pub fn kmodal_random_approx(
    sets: &UpdateSets,
    over_provisioning: f64,
) -> Result<RandomPlacement, ModelError> {
    check_over_provisioning(over_provisioning)?;
    let mut p_gc = Vec::with_capacity(sets.len());
    let mut p_avg = 0.0;
    for (size, share) in sets.sizes().iter().zip(sets.shares()) {
        let p = p_gc_lru(share * over_provisioning / size);
        p_avg += p * (size + share * over_provisioning) / (1.0 + over_provisioning);
        p_gc.push(p);
    }
    Ok(RandomPlacement { p_gc, p_avg, cleaning_cost: crate::cleaning_cost(p_avg) })
}
