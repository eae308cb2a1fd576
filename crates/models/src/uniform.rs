//! Uniform updates cleaned by LRU (MULTILOG 4.1), and the slope of the cleaning cost (4.2.2).

use crate::turnover::{excess, turnover};

/// Cleaning cost GC = p_gc / (1 - p_gc): relocation writes for each host write (MULTILOG table 3
/// and eq. 1). `p_gc` from 0 to 1; infinite at 1.
#[must_use]
pub fn cleaning_cost(p_gc: f64) -> f64 {
    p_gc / (1.0 - p_gc)
}

/// Write amplification 1 + GC = 1 / (1 - p_gc): page programs for each host write (MULTILOG eq. 1).
/// `p_gc` from 0 to 1.
#[must_use]
pub fn write_amplification(p_gc: f64) -> f64 {
    1.0 / (1.0 - p_gc)
}

fn assert_alpha(over_provisioning: f64) {
    assert!(
        over_provisioning >= 0.0,
        "over-provisioning is {over_provisioning}: it must be 0 or above"
    );
}

/// The chance that a page is still valid when its erase block is cleaned: uniform updates, LRU
/// victims (MULTILOG eq. 3, p_gc = -W(-z e^-z) / z with z = 1 + alpha). It is also the limit of
/// Greedy for large erase blocks (Bux and Iliadis 2010).
///
/// `over_provisioning` is a fraction, 0 or above; the result goes from 1 at 0 to 0. Relative error
/// below 1e-12 from 1e-6 to 100, of 1 - p_gc too.
///
/// # Panics
/// If `over_provisioning` is negative or not a number.
#[must_use]
pub fn p_gc_lru(over_provisioning: f64) -> f64 {
    assert_alpha(over_provisioning);
    (-turnover(over_provisioning)).exp()
}

/// MULTILOG eq. 4: p_gc of [`p_gc_lru`] without W, e^(-0.9 alpha) / (1 + alpha).
///
/// Against eq. 3 it is at most 0.0103 off (near alpha = 0.27, above it). Relative to p_gc it is up
/// to 1.94 % high below alpha = 1, and low from there on: 7 % at 2, at worst 33 % at 9.
///
/// # Panics
/// As [`p_gc_lru`].
#[must_use]
pub fn p_gc_approx(over_provisioning: f64) -> f64 {
    assert_alpha(over_provisioning);
    (-0.9 * over_provisioning).exp() / (1.0 + over_provisioning)
}

/// Cleaning cost of [`p_gc_lru`], with all digits where p_gc is near 1. Infinite at
/// over-provisioning 0.
///
/// # Panics
/// As [`p_gc_lru`].
#[must_use]
pub fn cleaning_cost_lru(over_provisioning: f64) -> f64 {
    assert_alpha(over_provisioning);
    turnover(over_provisioning).exp_m1().recip()
}

/// Write amplification of [`p_gc_lru`]. Infinite at over-provisioning 0.
///
/// # Panics
/// As [`p_gc_lru`].
#[must_use]
pub fn write_amplification_lru(over_provisioning: f64) -> f64 {
    assert_alpha(over_provisioning);
    -(-turnover(over_provisioning)).exp_m1().recip()
}

/// Derivative of the whole device's cleaning cost with respect to the space of one log: one term of
/// MULTILOG eq. 11, share W / (size (W + 1)(W + z)) with W = W(-z e^-z).
///
/// - `z`: physical pages of the log for each valid page in it (1 + beta / size), 1 or above;
/// - `update_share`: fraction of all host updates that go to this log;
/// - `size`: fraction of all logical pages that live in this log, above 0.
///
/// The unit is cleaning cost per unit of over-provisioning (one unit = as many pages as the device
/// has logical ones). Always negative or 0: more space, less cost. Take space from the log whose
/// value is nearest 0, and give it to the one whose value is most negative. Minus infinity at z =
/// 1.
///
/// # Panics
/// If `z` is below 1 or `size` is not above 0.
#[must_use]
pub fn cleaning_cost_derivative(z: f64, update_share: f64, size: f64) -> f64 {
    assert!(
        z >= 1.0 && size > 0.0,
        "z is {z} and size {size}: they must be at least 1 and above 0"
    );
    if update_share == 0.0 {
        return 0.0;
    }
    -update_share / (size * excess(turnover(z - 1.0)))
}

/// [`cleaning_cost_derivative`] with the paper's replacement -W(-z e^-z) ~ e^(-0.9 (z - 1))
/// (MULTILOG 4.2.2, "optimal cleaning policy"): one exponential, no W. Same arguments, unit, sign
/// and panics.
///
/// It is up to 17 % too steep below z = 2, and too flat above: by 9 % at z = 3, 22 % at z = 5.
/// Decisions depend on the ratio between two logs.
#[must_use]
pub fn cleaning_cost_derivative_approx(z: f64, update_share: f64, size: f64) -> f64 {
    assert!(
        z >= 1.0 && size > 0.0,
        "z is {z} and size {size}: they must be at least 1 and above 0"
    );
    if update_share == 0.0 {
        return 0.0;
    }
    let spare = z - 1.0;
    let w = (-0.9 * spare).exp();
    // 1 - w by exp_m1, because w is near 1 exactly where the choice matters most.
    let rest = -(-0.9 * spare).exp_m1();
    -update_share * w / (size * rest * (spare + rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lambert_w::lambert_w0;
    use proptest::prelude::*;

    /// 1 - p_gc from eq. 2 by bisection. In q = 1 - p_gc eq. 2 is -ln(1 - q) = (1 + alpha) q; below
    /// q = 0.1 both sides are compared after taking q away, term by term, since they agree in their
    /// leading digits.
    fn q_by_bisection(alpha: f64) -> f64 {
        let excess = |q: f64| {
            if q < 0.1 {
                let tail: f64 = (2..40).rev().map(|n| q.powi(n - 1) / f64::from(n)).sum();
                tail - alpha
            } else {
                -(-q).ln_1p() / q - 1.0 - alpha
            }
        };
        let (mut low, mut high) = (1e-300_f64, 1.0_f64);
        for _ in 0..2000 {
            let middle = if high > 2.0 * low { (low * high).sqrt() } else { 0.5 * (low + high) };
            if excess(middle) < 0.0 { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }

    /// p_gc from eq. 2 by bisection over ln p: p is far below the spacing of numbers near 1 when
    /// alpha is large.
    fn p_by_bisection(alpha: f64) -> f64 {
        let (mut low, mut high) = (-1000.0_f64, 0.0_f64);
        for _ in 0..2000 {
            let middle = 0.5 * (low + high);
            // f(p) = p - e^(-(1+alpha)(1-p)) is negative between the two solutions, p_gc and 1, and
            // positive below p_gc.
            if middle > -(1.0 + alpha) * (1.0 - middle.exp()) {
                high = middle;
            } else {
                low = middle;
            }
        }
        (0.5 * (low + high)).exp()
    }

    fn relative(a: f64, b: f64) -> f64 {
        (a - b).abs() / b.abs()
    }

    proptest! {
        #[test]
        fn eq_2_is_solved_to_ten_digits(exponent in -6.0_f64..2.0) {
            let alpha = 10f64.powf(exponent);
            let q = q_by_bisection(alpha);
            if alpha < 2.0 {
                prop_assert!(relative(1.0 / write_amplification_lru(alpha), q) < 1e-12);
                prop_assert!(relative(cleaning_cost_lru(alpha), (1.0 - q) / q) < 1e-10);
                prop_assert!(relative(p_gc_lru(alpha), 1.0 - q) < 1e-10);
            } else {
                let p = p_by_bisection(alpha);
                prop_assert!(relative(p_gc_lru(alpha), p) < 1e-10);
                prop_assert!(relative(cleaning_cost_lru(alpha), cleaning_cost(p)) < 1e-10);
            }
        }

        #[test]
        fn more_space_costs_less(exponent in -6.0_f64..1.9, more in 0.001_f64..1.0) {
            let alpha = 10f64.powf(exponent);
            let larger = alpha * (1.0 + more);
            prop_assert!(p_gc_lru(larger) < p_gc_lru(alpha));
            prop_assert!(cleaning_cost_lru(larger) < cleaning_cost_lru(alpha));
            prop_assert!(p_gc_approx(larger) < p_gc_approx(alpha));
            prop_assert!(
                cleaning_cost_derivative(1.0 + larger, 0.3, 0.1)
                    > cleaning_cost_derivative(1.0 + alpha, 0.3, 0.1)
            );
            prop_assert!(
                cleaning_cost_derivative_approx(1.0 + larger, 0.3, 0.1)
                    > cleaning_cost_derivative_approx(1.0 + alpha, 0.3, 0.1)
            );
        }

        #[test]
        fn derivative_is_eq_11_and_the_slope(
            alpha in 0.05_f64..5.0,
            share in 0.01_f64..1.0,
            size in 0.01_f64..1.0,
        ) {
            let z = 1.0 + alpha;
            let w = lambert_w0(-z * (-z).exp());
            let printed = share * w / (size * (w + 1.0) * (w + z));
            let ours = cleaning_cost_derivative(z, share, size);
            prop_assert!(relative(ours, printed) < 1e-9);
            let step = 1e-5 * size;
            let cost = |beta: f64| share * cleaning_cost_lru(beta / size);
            let slope = (cost(alpha * size + step) - cost(alpha * size - step)) / (2.0 * step);
            prop_assert!(relative(ours, slope) < 1e-5);
        }
    }

    #[test]
    fn limits() {
        assert!((p_gc_lru(0.0) - 1.0).abs() < f64::EPSILON);
        assert!(cleaning_cost_lru(0.0).is_infinite());
        assert!(p_gc_lru(1e4) == 0.0 && cleaning_cost_lru(1e4) == 0.0);
        assert!(cleaning_cost_derivative(1.0, 0.5, 0.5) == f64::NEG_INFINITY);
        assert!(cleaning_cost_derivative_approx(1.0, 0.5, 0.5) == f64::NEG_INFINITY);
        assert!(cleaning_cost_derivative(1.5, 0.0, 0.5) == 0.0);
    }

    #[test]
    fn eq_4_is_as_near_as_its_docs_say() {
        let alphas = || (1..=10_000).map(|i| f64::from(i) * 1e-3);
        assert!(alphas().all(|a| (p_gc_approx(a) - p_gc_lru(a)).abs() < 0.0103));
        let off = |a: f64| p_gc_approx(a) / p_gc_lru(a) - 1.0;
        assert!(alphas().filter(|a| *a <= 1.0).all(|a| (0.0..0.0195).contains(&off(a))));
        assert!(alphas().filter(|a| *a >= 1.1).all(|a| (-0.335..0.0).contains(&off(a))));
    }

    #[test]
    fn approximate_slope_is_as_near_as_its_docs_say() {
        let off = |z: f64| {
            cleaning_cost_derivative_approx(z, 1.0, 1.0) / cleaning_cost_derivative(z, 1.0, 1.0)
                - 1.0
        };
        assert!(
            (1..=1_000)
                .map(|i| off(1.0 + f64::from(i) * 1e-3))
                .all(|off| (0.0..0.171).contains(&off))
        );
        assert!((off(3.0) + 0.09).abs() < 0.01 && (off(5.0) + 0.22).abs() < 0.01);
    }

    #[test]
    fn write_amplification_matches_the_issue() {
        for (alpha, expected) in [(0.1, 5.677), (0.2, 3.188), (0.3, 2.364)] {
            assert!((write_amplification_lru(alpha) - expected).abs() < 5e-4);
            assert!(
                relative(write_amplification(p_gc_lru(alpha)), write_amplification_lru(alpha))
                    < 1e-12
            );
        }
    }
}
