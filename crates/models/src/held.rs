//! The bound for pages that do not hold data all the time.

use crate::error::ModelError;
use crate::{UpdateSets, divide_space};

/// Frequencies within this factor of each other share a set; the cost differs by far less (see
/// [`crate::Binning::Exact`]).
const RATIO: f64 = 1.001;

/// [`crate::cleaning_cost_bound`] for a workload with trims: the least cleaning cost of pages with
/// these update `weights`, of which each holds data only during the fraction `held` (0 to 1) of all
/// host writes. One result for each of `over_provisionings`, which count from all pages, held or
/// not (above 0, at most 100).
///
/// While a page holds no data its place on the flash is spare space. So Algorithm 1 is applied to
/// the pages that are held on average, H of N: page i takes held_i / H of the logical space, is
/// updated weight_i / held_i times as often as that place alone suggests, and the physical space
/// (1 + alpha) N leaves (1 + alpha) N / H - 1 to divide. Pages that are never held are left out,
/// and so are their writes. MULTILOG has no trims; the extension is ours, and exact when whether a
/// page is held does not depend on what else is written.
///
/// # Errors
/// [`ModelError`] if the lists differ in length, an entry is out of range, no page is both held and
/// updated, or an over-provisioning is out of range.
pub fn cleaning_cost_bound_of_held(
    weights: &[f64],
    held: &[f64],
    over_provisionings: &[f64],
) -> Result<Vec<f64>, ModelError> {
    if weights.len() != held.len() {
        return Err(ModelError::Lengths {
            first: "update weights",
            first_length: weights.len(),
            second: "held",
            second_length: held.len(),
        });
    }
    check(weights, "update weights", f64::INFINITY, "finite and 0 or above")?;
    check(held, "held", 1.0, "from 0 to 1")?;
    let (sizes, shares) = sets(weights, held);
    let pages_held: f64 = sizes.iter().sum();
    let all_shares: f64 = shares.iter().sum();
    if all_shares <= 0.0 || all_shares.is_nan() {
        return Err(ModelError::NoUpdates { pages: weights.len() });
    }
    let sizes: Vec<f64> = sizes.iter().map(|size| size / pages_held).collect();
    let shares: Vec<f64> = shares.iter().map(|share| share / all_shares).collect();
    let sets = UpdateSets::new(&sizes, &shares)?;
    let of_all = |alpha: f64| {
        let spare = (1.0 + alpha) * weights.len() as f64 / pages_held - 1.0;
        divide_space(&sets, spare).map(|division| division.cleaning_cost)
    };
    over_provisionings.iter().map(|&alpha| of_all(alpha)).collect()
}

fn check(
    entries: &[f64],
    what: &'static str,
    most: f64,
    right: &'static str,
) -> Result<(), ModelError> {
    match entries.iter().position(|&value| !(value >= 0.0 && value.is_finite() && value <= most)) {
        None => Ok(()),
        Some(index) => {
            Err(ModelError::EntryOutOfRange { what, index, value: entries[index], right })
        }
    }
}

/// Pages held on average and weight of each set of like frequency, idle pages last.
fn sets(weights: &[f64], held: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let frequencies = || {
        weights
            .iter()
            .zip(held)
            .filter(|&(_, &held)| held > 0.0)
            .map(|(&weight, &held)| (weight / held, held))
    };
    let updated =
        || frequencies().map(|(frequency, _)| frequency).filter(|&frequency| frequency > 0.0);
    let (hottest, coldest) =
        (updated().fold(0.0, f64::max), updated().fold(f64::INFINITY, f64::min));
    let place = |frequency: f64| ((hottest / frequency).ln() / RATIO.ln()).max(0.0) as usize;
    let idle = if hottest > 0.0 { place(coldest) + 1 } else { 0 };
    let mut sizes = vec![0.0; idle + 1];
    let mut shares = vec![0.0; idle + 1];
    for (frequency, held) in frequencies() {
        let set = if frequency > 0.0 { place(frequency).min(idle - 1) } else { idle };
        sizes[set] += held;
        shares[set] += frequency * held;
    }
    let used: Vec<usize> = (0..=idle).filter(|&set| sizes[set] > 0.0).collect();
    (used.iter().map(|&set| sizes[set]).collect(), used.iter().map(|&set| shares[set]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Binning, cleaning_cost_bound, cleaning_cost_lru};

    #[test]
    fn pages_that_are_always_held_give_the_plain_bound() {
        let weights: Vec<f64> = (1..=5000).map(|rank| 1.0 / f64::from(rank)).collect();
        let plain = cleaning_cost_bound(&weights, 0.2, Binning::Exact).unwrap().cleaning_cost;
        let held = cleaning_cost_bound_of_held(&weights, &vec![1.0; 5000], &[0.2]).unwrap();
        assert!((held[0] / plain - 1.0).abs() < 1e-5, "{} {plain}", held[0]);
    }

    #[test]
    fn pages_that_are_never_held_are_spare_space() {
        let mut held = vec![1.0; 1000];
        held[500..].fill(0.0);
        let found = cleaning_cost_bound_of_held(&[1.0; 1000], &held, &[0.1]).unwrap();
        assert!((found[0] / cleaning_cost_lru(1.2) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn bad_lists_are_told() {
        let told = |weights: &[f64], held: &[f64]| {
            cleaning_cost_bound_of_held(weights, held, &[0.1]).unwrap_err().to_string()
        };
        assert!(told(&[1.0], &[1.5]).contains("held"));
        assert!(told(&[f64::NAN], &[1.0]).contains("update weights"));
        assert!(told(&[1.0], &[]).contains("held"));
        assert!(matches!(
            cleaning_cost_bound_of_held(&[0.0], &[1.0], &[0.1]),
            Err(ModelError::NoUpdates { .. })
        ));
    }
}
