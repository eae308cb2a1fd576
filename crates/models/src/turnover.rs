//! The one variable in which every formula of MULTILOG section 4 is elementary.
//!
//! Let y be the number of host updates that a log takes for each of its logical pages while it is
//! written round once: y = (1 + alpha)(1 - p_gc). Eq. 2 then reads p_gc = e^-y, and all that
//! follows needs no Lambert W:
//!
//! - alpha = y / (1 - e^-y) - 1,
//! - cleaning cost = p_gc / (1 - p_gc) = 1 / (e^y - 1),
//! - d cleaning cost / d alpha = -1 / (e^y - 1 - y) (eq. 11's term, for one set of size 1).
//!
//! Only the way from alpha to y needs W (eq. 3). The forms below lose no digits at either end,
//! where alpha goes to 0 (e^y - 1 - y cancels) and where p_gc underflows. The tests of the crate
//! hold these identities against eq. 2 and eq. 11 as printed.

use lambert_w::lambert_w0;

/// Coefficients of a, a^2, ... in y(alpha), the inverse of the series in [`spare`].
const TURNOVER_SERIES: [f64; 9] = [
    2.0,
    -2.0 / 3.0,
    4.0 / 9.0,
    -44.0 / 135.0,
    104.0 / 405.0,
    -40.0 / 189.0,
    7_648.0 / 42_525.0,
    -2_848.0 / 18_225.0,
    31_712.0 / 229_635.0,
];

/// Below this alpha W is too near its branch point at -1/e to give all digits, and the series gives
/// them.
const SERIES_BELOW: f64 = 0.02;

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Turnover y of a log with spare space `alpha` >= 0 for each page of data (eq. 3).
pub fn turnover(alpha: f64) -> f64 {
    if alpha < SERIES_BELOW {
        alpha * polynomial(&TURNOVER_SERIES, alpha)
    } else {
        let z = 1.0 + alpha;
        z + lambert_w0(-z * (-z).exp())
    }
}

/// Spare space for each page of data that makes the turnover `y` >= 0: the inverse of [`turnover`].
pub fn spare(y: f64) -> f64 {
    if y < 0.5 {
        // y / (1 - e^-y) - 1 as the series of the Bernoulli numbers.
        let w = y * y;
        let even = [
            1.0 / 12.0,
            -1.0 / 720.0,
            1.0 / 30_240.0,
            -1.0 / 1_209_600.0,
            1.0 / 47_900_160.0,
            -691.0 / 1_307_674_368_000.0,
            1.0 / 74_724_249_600.0,
        ];
        y * 0.5 + w * polynomial(&even, w)
    } else {
        y / -(-y).exp_m1() - 1.0
    }
}

/// d [`spare`] / d y: from 1/2 at y = 0 to 1.
pub fn spare_slope(y: f64) -> f64 {
    if y > 40.0 {
        return 1.0;
    }
    if y < 1e-4 {
        return 0.5 + y / 6.0;
    }
    let grown = y.exp_m1();
    (grown + 1.0) * excess(y) / (grown * grown)
}

/// e^y - 1 - y, for `y` >= 0; its inverse is the slope of the cleaning cost.
pub fn excess(y: f64) -> f64 {
    if y < 0.5 {
        // y^2 / 2! + y^3 / 3! + ... + y^13 / 13!
        let tail = (3..=13).rev().fold(0.0, |sum, n| (1.0 + sum) * y / f64::from(n));
        0.5 * y * y * (1.0 + tail)
    } else {
        y.exp_m1() - y
    }
}

/// The `y` at which [`excess`] is e^`log_excess`. Taking the logarithm lets skews of any size
/// through without overflow.
pub fn turnover_at_excess(log_excess: f64) -> f64 {
    if log_excess > 36.0 {
        return log_excess + (1.0 + log_excess) * (-log_excess).exp();
    }
    let target = log_excess.exp();
    let mut y = if target < 2.0 {
        let s = (2.0 * target).sqrt();
        if s < 1e-3 {
            return s * (1.0 - s / 6.0 + s * s / 36.0 - s * s * s / 270.0);
        }
        s * polynomial(&[1.0, -1.0 / 6.0, 1.0 / 36.0, -1.0 / 270.0, 1.0 / 4_320.0], s)
    } else {
        let near = (1.0 + target + (1.0 + target).ln()).ln();
        (1.0 + target + near).ln()
    };
    // Halley: the error is cubed in each round, so the last step is done when the step before it
    // was below 1e-6.
    for _ in 0..8 {
        let slope = y.exp_m1();
        let miss = excess(y) - target;
        let step = miss / (slope - 0.5 * miss * (slope + 1.0) / slope);
        y -= step;
        if step.abs() <= 1e-6 * y {
            break;
        }
    }
    y
}

/// The logarithm of [`excess`], without overflow.
pub fn log_excess(y: f64) -> f64 {
    if y > 40.0 { y + (-(1.0 + y) * (-y).exp()).ln_1p() } else { excess(y).ln() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64, relative: f64) -> bool {
        (a - b).abs() <= relative * a.abs().max(b.abs())
    }

    proptest! {
        #[test]
        fn spare_is_the_inverse_of_turnover(exponent in -9.0_f64..2.0) {
            let alpha = 10f64.powf(exponent);
            prop_assert!(
                near(spare(turnover(alpha)), alpha, 2e-12),
                "{} {}",
                spare(turnover(alpha)),
                alpha
            );
        }

        #[test]
        fn excess_is_inverted(exponent in -12.0_f64..2.5) {
            let y = 10f64.powf(exponent);
            prop_assert!(near(turnover_at_excess(log_excess(y)), y, 1e-13));
        }

        #[test]
        fn slope_is_the_derivative(exponent in -3.0_f64..1.5) {
            let y = 10f64.powf(exponent);
            let h = y * 1e-4;
            prop_assert!(near((spare(y + h) - spare(y - h)) / (2.0 * h), spare_slope(y), 1e-6));
        }
    }

    #[test]
    fn branches_meet() {
        for y in [0.5, 40.0] {
            let (below, above) = (y * (1.0 - 1e-15), y * (1.0 + 1e-15));
            assert!(near(spare(below), spare(above), 1e-14));
            assert!(near(excess(below), excess(above), 1e-13));
            assert!(near(log_excess(below), log_excess(above), 1e-14));
            assert!(near(spare_slope(below), spare_slope(above), 1e-14));
        }
        assert!(near(turnover(SERIES_BELOW * (1.0 - 1e-15)), turnover(SERIES_BELOW), 1e-12));
        assert!(near(turnover_at_excess(36.0 - 1e-13), turnover_at_excess(36.0 + 1e-13), 1e-14));
    }
}
