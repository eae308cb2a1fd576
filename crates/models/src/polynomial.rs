//! The polynomial for the best beta of two sets whose frequencies have a fixed ratio (MULTILOG
//! 4.2.2, "practical space allocation").

use nalgebra::{DMatrix, DVector};

use crate::{ModelError, UpdateSets, check_over_provisioning, divide_space};

/// Number of coefficients.
const TERMS: usize = 7;

/// Coefficients in the order c00, c10, c01, c11, c02, c12, c03 (first index: power of alpha,
/// second: power of s).
pub type BetaCoefficients = [f64; TERMS];

fn terms(size: f64, over_provisioning: f64) -> BetaCoefficients {
    let (s, a) = (size, over_provisioning);
    [1.0, a, s, a * s, s * s, a * s * s, s * s * s]
}

/// Spare space of the first of two sets, as a fraction of all logical pages: c00 + c10 alpha + c01
/// s + c11 alpha s + c02 s^2 + c12 alpha s^2 + c03 s^3, with s the `size` of the set.
#[must_use]
pub fn beta_polynomial(size: f64, over_provisioning: f64, coefficients: &BetaCoefficients) -> f64 {
    terms(size, over_provisioning).iter().zip(coefficients).map(|(term, c)| term * c).sum()
}

/// A fit of [`beta_polynomial`] and how good it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolynomialFit {
    /// f_r: how many times as often as the other set's pages those of the first set are updated.
    pub frequency_ratio: f64,
    /// Over-provisioning went from this ...
    pub least_over_provisioning: f64,
    /// ... to this.
    pub most_over_provisioning: f64,
    /// The least-squares coefficients.
    pub coefficients: BetaCoefficients,
    /// Root mean square of the error of beta on the grid, as a fraction of all logical pages.
    pub rmse: f64,
    /// Largest error of beta on the grid, same unit.
    pub max_error: f64,
    /// The largest cleaning cost lost by dividing space by the polynomial instead of by the best
    /// beta, as a fraction of the least cost; infinite where the polynomial gives a set no space at
    /// all.
    pub max_cost_loss: f64,
}

/// Fits [`beta_polynomial`] to the best beta ([`divide_space`]) by least squares (Householder QR),
/// over sizes 0.01, 0.02 ... 0.99 and 100 equal steps of over-provisioning between
/// `over_provisioning.0` and `.1`. The paper fixes f_r = 2 and claims an error below 0.1 % and a
/// root mean square of 0.001 "for any values of alpha, s_i", without saying over which range; its
/// figures have alpha up to 1.
///
/// # Errors
/// [`ModelError::OutOfRange`].
pub fn polynomial_fit(
    frequency_ratio: f64,
    over_provisioning: (f64, f64),
) -> Result<PolynomialFit, ModelError> {
    const STEPS: u32 = 100;
    let (least, most) = over_provisioning;
    check_over_provisioning(least)?;
    check_over_provisioning(most)?;
    ModelError::check(least < most, "least over-provisioning", least, "below the most")?;
    let mut grid = Vec::with_capacity(99 * STEPS as usize);
    for size in (1..100).map(|i| f64::from(i) / 100.0) {
        let sets = UpdateSets::two(size, frequency_ratio)?;
        for step in 0..STEPS {
            let alpha = least + (most - least) * f64::from(step) / f64::from(STEPS - 1);
            grid.push((size, alpha, divide_space(&sets, alpha)?));
        }
    }
    let rows: Vec<(BetaCoefficients, f64)> =
        grid.iter().map(|(size, alpha, best)| (terms(*size, *alpha), best.betas[0])).collect();
    let coefficients = least_squares(&rows);
    let (mut squares, mut max_error, mut max_cost_loss) = (0.0, 0.0_f64, 0.0_f64);
    for (size, alpha, best) in &grid {
        let beta = beta_polynomial(*size, *alpha, &coefficients);
        let error = (beta - best.betas[0]).abs();
        squares += error * error;
        max_error = max_error.max(error);
        let betas = [beta.clamp(0.0, *alpha), alpha - beta.clamp(0.0, *alpha)];
        let cost =
            crate::separated_cleaning_cost(&UpdateSets::two(*size, frequency_ratio)?, &betas)?;
        max_cost_loss = max_cost_loss.max(cost / best.cleaning_cost - 1.0);
    }
    Ok(PolynomialFit {
        frequency_ratio,
        least_over_provisioning: least,
        most_over_provisioning: most,
        coefficients,
        rmse: (squares / grid.len() as f64).sqrt(),
        max_error,
        max_cost_loss,
    })
}

/// Coefficients that make the sum of squared differences least.
fn least_squares(rows: &[(BetaCoefficients, f64)]) -> BetaCoefficients {
    let matrix =
        DMatrix::from_row_iterator(rows.len(), TERMS, rows.iter().flat_map(|(row, _)| *row));
    let mut right = DVector::from_iterator(rows.len(), rows.iter().map(|(_, value)| *value));
    let decomposed = matrix.qr();
    decomposed.q_tr_mul(&mut right);
    let solved = decomposed
        .r()
        .solve_upper_triangular(&right.rows(0, TERMS))
        .expect("the terms are independent");
    std::array::from_fn(|term| solved[term])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_claim_for_a_ratio_of_two() {
        let fit = polynomial_fit(2.0, (0.01, 1.0)).unwrap();
        assert!(fit.rmse < 0.001, "the published root mean square of 0.001 holds: {fit:?}");
        assert!(
            (0.002..0.003).contains(&fit.max_error),
            "the published error of 0.1 % does not, over this range: {fit:?}"
        );
        let narrow = polynomial_fit(2.0, (0.1, 0.5)).unwrap();
        assert!(narrow.rmse < 0.0003 && narrow.max_error < 0.0012, "{narrow:?}");
    }

    #[test]
    fn equal_frequencies_share_space_by_size() {
        let fit = polynomial_fit(1.0, (0.05, 0.5)).unwrap();
        assert!(fit.max_error < 1e-12 && (fit.coefficients[3] - 1.0).abs() < 1e-9);
    }

    /// The residuals of a least-squares fit are orthogonal to every column.
    #[test]
    fn residuals_are_orthogonal() {
        let points = || {
            (0..50)
                .map(|i| (f64::from(i % 7) / 7.0, f64::from(i % 11) / 11.0, f64::from(i * i % 13)))
        };
        let rows: Vec<_> = points().map(|(s, a, y)| (terms(s, a), y)).collect();
        let fitted = least_squares(&rows);
        for column in 0..TERMS {
            let dot: f64 = points()
                .map(|(s, a, y)| terms(s, a)[column] * (beta_polynomial(s, a, &fitted) - y))
                .sum();
            assert!(dot.abs() < 1e-10, "{column} {dot}");
        }
    }

    #[test]
    fn wrong_ranges_are_told() {
        assert!(
            polynomial_fit(2.0, (0.5, 0.1)).is_err() && polynomial_fit(2.0, (0.0, 0.1)).is_err()
        );
        assert!(polynomial_fit(0.0, (0.1, 0.5)).is_err());
    }
}
