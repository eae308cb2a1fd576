//! A mean that is known with some error, and comparing two of them.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// A mean with the error that it is known with, both in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error, 0 or more; infinite if there was too little to estimate it from.
    pub error: f64,
    /// Degrees of freedom of the error, above 0; infinite if it is known itself.
    pub freedom: f64,
}

impl Estimate {
    /// The mean of values that do not depend on each other; of less than two, nothing is known of
    /// its error.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let (count, mean) = (values.len() as f64, mean(values));
        if values.len() < 2 {
            return Self { mean, error: f64::INFINITY, freedom: 1.0 };
        }
        let variance =
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Self { mean, error: (variance / count).sqrt(), freedom: count - 1.0 }
    }

    /// The mean of a series whose neighbours depend on each other: its error is that of the means
    /// of 24 batches.
    #[must_use]
    pub fn of_batches(series: &[f64]) -> Self {
        const BATCHES: usize = 24;
        let each = (series.len() / BATCHES).max(1);
        // What does not fill a batch is left out of the error, not of the mean.
        let batches: Vec<f64> = series.chunks_exact(each).map(mean).collect();
        Self { mean: mean(series), ..Self::of(&batches) }
    }

    /// A mean whose 95 % interval reaches so far to either side.
    #[must_use]
    pub fn within(mean: f64, half_width: f64) -> Self {
        Self { mean, error: half_width / t_quantile(0.975, f64::INFINITY), freedom: f64::INFINITY }
    }

    /// The mean that all of these have if they have the same, weighted by what is known of each;
    /// their errors are above 0.
    #[must_use]
    pub fn joined<'a>(estimates: impl IntoIterator<Item = &'a Self>) -> Self {
        let (mut weights, mut sum, mut freedom) = (0.0, 0.0, f64::INFINITY);
        for estimate in estimates {
            weights += estimate.weight();
            sum += estimate.mean * estimate.weight();
            freedom = estimate.freedom.min(freedom);
        }
        if weights == 0.0 {
            return Self { mean: 0.0, error: f64::INFINITY, freedom };
        }
        Self { mean: sum / weights, error: weights.sqrt().recip(), freedom }
    }

    /// Gives its weight in a weighted mean: one by the square of the error.
    #[must_use]
    pub fn weight(&self) -> f64 {
        (self.error * self.error).recip()
    }

    /// Half the width of the 95 % interval (Student's); infinite if the error is not known.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        if self.error.is_finite() {
            self.error * t_quantile(0.975, self.freedom)
        } else {
            f64::INFINITY
        }
    }

    /// The 95 % interval, if it is known.
    #[must_use]
    pub fn interval(&self) -> Option<[f64; 2]> {
        let half = self.half_width();
        half.is_finite().then_some([self.mean - half, self.mean + half])
    }

    /// The lower end of the 95 % interval; minus infinity if the error is not known.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.mean - self.half_width()
    }

    /// The upper end of the 95 % interval; infinite if the error is not known.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.mean + self.half_width()
    }

    /// Half the width of the 95 % interval as a share of the mean; 0 if the mean is 0.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.half_width() / self.mean.abs() }
    }

    /// The mean in standard errors.
    #[must_use]
    pub fn in_errors(&self) -> f64 {
        self.mean / self.error
    }

    /// Gives the difference to an estimate that does not depend on it.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self {
            mean: self.mean - other.mean,
            error: self.error.hypot(other.error),
            freedom: self.freedom.min(other.freedom),
        }
    }

    /// The same in another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, error: self.error * factor.abs(), ..self }
    }

    /// The same by something else, to first order in the errors (delta method); both are not zero.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        let mean = self.mean / other.mean;
        let relative = (self.error / self.mean).hypot(other.error / other.mean);
        Self { mean, error: (mean * relative).abs(), freedom: self.freedom.min(other.freedom) }
    }

    /// One by it, to first order in the error; it is not zero.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self { mean: 1.0 / self.mean, error: self.error / (self.mean * self.mean), ..self }
    }

    /// Gives the probability of a difference as large as this one if the mean is in truth not below
    /// `other`'s (one-sided, Welch 1947): small if it is clearly below.
    #[must_use]
    pub fn chance_not_below(&self, other: &Self) -> f64 {
        let error = self.error.hypot(other.error);
        let difference = self.mean - other.mean;
        if !error.is_finite() {
            return if difference < 0.0 { 0.5 } else { 1.0 };
        }
        if error == 0.0 {
            return if difference < 0.0 { 0.0 } else { 1.0 };
        }
        // Welch and Satterthwaite's degrees of freedom.
        let [a, b] = [self, other].map(|one| one.error.powi(4) / one.freedom);
        let freedom =
            if a + b > 0.0 { error.powi(4) / (a + b) } else { self.freedom.min(other.freedom) };
        t_below(difference / error, freedom.max(1.0))
    }

    /// Returns true if it lies below `other` by more than the share `margin` of it, at a level of
    /// one in twenty among `comparisons` such questions (Bonferroni).
    #[must_use]
    pub fn is_clearly_below(&self, other: &Self, margin: f64, comparisons: usize) -> bool {
        self.chance_not_below(&other.times(1.0 - margin)) < 0.05 / comparisons.max(1) as f64
    }
}

/// The arithmetic mean; 0 of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The value below which Student's t lies with this probability; of infinitely many degrees of
/// freedom, the normal law's.
///
/// # Panics
/// If the probability is not inside 0 ... 1 or the degrees of freedom are not positive.
#[must_use]
pub fn t_quantile(probability: f64, freedom: f64) -> f64 {
    if freedom.is_infinite() {
        Normal::standard().inverse_cdf(probability)
    } else {
        student(freedom).inverse_cdf(probability)
    }
}

/// The probability that Student's t lies below a value.
fn t_below(value: f64, freedom: f64) -> f64 {
    student(freedom).cdf(value)
}

fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom are positive")
}

/// The 95 % interval of a share of which `hits` of `trials` were seen (Wilson 1927); all of 0 ... 1
/// without trials.
#[must_use]
pub fn share_interval(hits: u64, trials: u64) -> [f64; 2] {
    const Z: f64 = 1.959_963_985;
    if trials == 0 {
        return [0.0, 1.0];
    }
    let (n, share) = (trials as f64, hits as f64 / trials as f64);
    let centre = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    // At the ends they are the share itself, but for what rounding makes of them.
    [(centre - half).clamp(0.0, share), (centre + half).clamp(share, 1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_student() {
        let estimate = Estimate::of(&[9.0, 10.0, 11.0, 10.0]);
        // t(0.975, 3) = 3.182; the standard error is sqrt(2/3)/2.
        assert!((estimate.half_width() - 3.182_446 * (2.0f64 / 3.0).sqrt() / 2.0).abs() < 1e-4);
        assert_eq!(estimate.mean, 10.0);
        assert!(
            Estimate::of(&[]).interval().is_none() && Estimate::of(&[1.0]).interval().is_none()
        );
        let known = Estimate { mean: 10.0, error: 1.0, freedom: f64::INFINITY };
        assert!((known.half_width() - 1.959_964).abs() < 1e-5);
    }

    #[test]
    fn what_is_known_better_counts_for_more() {
        let of = |mean, error| Estimate { mean, error, freedom: 10.0 };
        let joined =
            Estimate::joined(&[of(10.0, 1.0), of(13.0, 0.5_f64.sqrt()), of(7.0, f64::INFINITY)]);
        assert!(
            (joined.mean - 12.0).abs() < 1e-12
                && (joined.error - 3.0_f64.recip().sqrt()).abs() < 1e-12,
            "{joined:?}"
        );
        assert_eq!(Estimate::joined(&[]).error, f64::INFINITY);
        let more = of(10.0, 3.0).minus(&of(4.0, 4.0));
        assert!((more.mean - 6.0).abs() < 1e-12 && (more.in_errors() - 1.2).abs() < 1e-12);
    }

    #[test]
    fn below_is_told_only_where_it_is_clear() {
        let at = |mean| Estimate { mean, error: 1.0, freedom: 19.0 };
        assert!(at(90.0).is_clearly_below(&at(100.0), 0.02, 9));
        assert!(!at(97.0).is_clearly_below(&at(100.0), 0.02, 9));
        assert!(!at(101.0).is_clearly_below(&at(100.0), 0.0, 1));
        let unknown = Estimate { error: f64::INFINITY, ..at(10.0) };
        assert!(!unknown.is_clearly_below(&at(100.0), 0.0, 1));
        // Two that are equal are told apart in half of all cases at the level of one half.
        assert!((at(100.0).chance_not_below(&at(100.0)) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn ratios_and_inverses_keep_the_relative_error() {
        let [a, b] =
            [(6.0, 0.3), (2.0, 0.1)].map(|(mean, error)| Estimate { mean, error, freedom: 10.0 });
        let ratio = a.over(b);
        assert!(
            (ratio.mean - 3.0).abs() < 1e-12
                && (ratio.error - 3.0 * 0.05 * 2f64.sqrt()).abs() < 1e-12
        );
        assert!((b.inverse().error - 0.025).abs() < 1e-12);
    }

    #[test]
    fn shares_never_leave_their_range() {
        assert_eq!(share_interval(0, 0), [0.0, 1.0]);
        let [low, high] = share_interval(0, 100);
        assert!(low == 0.0 && high > 0.03 && high < 0.04);
        let [low, high] = share_interval(50, 100);
        assert!((low - 0.4038).abs() < 1e-3 && (high - 0.5962).abs() < 1e-3);
    }
}
