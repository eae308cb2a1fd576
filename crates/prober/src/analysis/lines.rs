//! Straight lines through measured means, in several pieces where one does not fit (after SCHEDULER
//! section 4.3.4).

use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::estimate::t_quantile;

/// A mean measured at one place: x and y are in any units, and what is made of them is in these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Datum {
    /// Its place.
    pub x: f64,
    /// The mean.
    pub y: f64,
    /// Error of y (one standard deviation), more than 0.
    pub error: f64,
}

/// A line y = slope x + at_zero over a part of the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Its beginning: the breakpoint, or the first datum.
    pub from: f64,
    /// Its end: the breakpoint, or the last datum. Of two pieces that do not meet, the breakpoint
    /// lies in the middle between the last datum of the one and the first of the other.
    pub to: f64,
    /// y by x, in a unit of y for each one of x.
    pub slope: f64,
    /// y at x = 0, if the line went on.
    pub at_zero: f64,
    /// 95 % interval of the slope.
    pub slope_interval: [f64; 2],
    /// 95 % interval of y at 0.
    pub at_zero_interval: [f64; 2],
}

/// The best fit of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Its pieces, from left to right.
    pub pieces: Vec<Piece>,
    /// True if they meet.
    pub is_continuous: bool,
    /// Sum of the squares of the deviations in units of the errors.
    pub chi_square: f64,
    /// Data less parameters.
    pub freedom: usize,
    /// Schwarz's criterion (BIC 1978) for errors that are known: the least is the best.
    pub bic: f64,
    /// Share of the variance of y that it explains, without weights.
    pub r_squared: f64,
    /// Greatest deviation of a datum as a share of it.
    pub worst_deviation: f64,
}

impl Fit {
    /// Its y at x; beyond the ends the nearest piece goes on.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        let piece = self
            .pieces
            .iter()
            .find(|piece| x <= piece.to)
            .or(self.pieces.last())
            .expect("a fit has a piece");
        piece.slope * x + piece.at_zero
    }

    /// Gives the probability of deviations as large as these if the model is right (chi square):
    /// small if it does not fit.
    #[must_use]
    pub fn chance(&self) -> f64 {
        if self.freedom == 0 {
            return 1.0;
        }
        let law = ChiSquared::new(self.freedom as f64).expect("degrees of freedom are positive");
        1.0 - law.cdf(self.chi_square)
    }

    /// Returns true if the deviations are no larger than the errors allow, at a level of one in
    /// twenty.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.chance() >= 0.05
    }
}

/// Data that a piece needs: with two a line says nothing.
const LEAST_DATA: usize = 3;
/// Places between neighbouring data at which pieces that meet may do so.
const BETWEEN: usize = 4;

/// The best straight line.
///
/// # Panics
/// If there are fewer than two data, not in order of x, or an error is not positive.
#[must_use]
pub fn line(data: &[Datum]) -> Fit {
    check(data);
    fit(data, &[], false).expect("two data at different places make a line")
}

/// The best of all models of one to `most_pieces` (at most 3) lines, which meet or do not, by
/// Schwarz's criterion. Each piece holds three data or more.
///
/// # Panics
/// As [`line`].
#[must_use]
pub fn segmented(data: &[Datum], most_pieces: usize) -> Fit {
    let mut best = line(data);
    for pieces in 2..=most_pieces.min(3) {
        for is_continuous in [false, true] {
            let places = if is_continuous { meeting_places(data) } else { gaps(data) };
            for breaks in choices(&places, pieces - 1) {
                if let Some(found) = fit(data, &breaks, is_continuous)
                    && found.bic < best.bic
                {
                    best = found;
                }
            }
        }
    }
    best
}

fn check(data: &[Datum]) {
    assert!(data.len() >= 2, "a line needs two data, not {}", data.len());
    assert!(data.windows(2).all(|pair| pair[0].x < pair[1].x), "data are in order of x");
    assert!(
        data.iter().all(|datum| datum.error > 0.0 && datum.error.is_finite()),
        "errors are positive"
    );
}

fn gaps(data: &[Datum]) -> Vec<f64> {
    data.windows(2).map(|pair| f64::midpoint(pair[0].x, pair[1].x)).collect()
}

fn meeting_places(data: &[Datum]) -> Vec<f64> {
    let between = |pair: &[Datum]| {
        let (from, to) = (pair[0].x, pair[1].x);
        (0..BETWEEN)
            .map(move |step| from + (to - from) * step as f64 / BETWEEN as f64)
            .collect::<Vec<_>>()
    };
    data.windows(2).skip(1).flat_map(between).collect()
}

/// All ways to choose one or two of the places.
fn choices(places: &[f64], count: usize) -> Vec<Vec<f64>> {
    match count {
        1 => places.iter().map(|&place| vec![place]).collect(),
        _ => (0..places.len())
            .flat_map(|first| {
                places[first + 1..].iter().map(move |&second| vec![places[first], second])
            })
            .collect(),
    }
}

/// The model with these breaks; `None` if a piece has too few data or the data do not determine it.
fn fit(data: &[Datum], breaks: &[f64], is_continuous: bool) -> Option<Fit> {
    let pieces = breaks.len() + 1;
    let edges = [&[f64::NEG_INFINITY], breaks, &[f64::INFINITY]].concat();
    if pieces > 1 {
        let held = |piece: usize| {
            data.iter()
                .filter(|datum| edges[piece] <= datum.x && datum.x <= edges[piece + 1])
                .count()
        };
        if (0..pieces).any(|piece| held(piece) < LEAST_DATA) {
            return None;
        }
    }
    let row = |x: f64| -> Vec<f64> {
        if is_continuous {
            return [1.0, x]
                .into_iter()
                .chain(breaks.iter().map(|place| (x - place).max(0.0)))
                .collect();
        }
        let mine = breaks.iter().filter(|&&place| x > place).count();
        (0..pieces).flat_map(|piece| if piece == mine { [1.0, x] } else { [0.0, 0.0] }).collect()
    };
    let rows: Vec<Vec<f64>> = data.iter().map(|datum| row(datum.x)).collect();
    let (coefficients, covariance) = least_squares(data, &rows)?;
    let fitted: Vec<f64> = rows.iter().map(|row| dot(row, &coefficients)).collect();
    let chi_square: f64 = data
        .iter()
        .zip(&fitted)
        .map(|(datum, fitted)| ((datum.y - fitted) / datum.error).powi(2))
        .sum();
    let parameters = coefficients.len() + breaks.len();
    let freedom = data.len().saturating_sub(parameters);
    // Where the data scatter more than their errors say, the intervals widen with them (Birge
    // 1932).
    let scale = if freedom > 0 { (chi_square / freedom as f64).max(1.0).sqrt() } else { 1.0 };
    let reach = scale * t_quantile(0.975, freedom.max(1) as f64);
    let within = |combination: &[f64]| {
        let value = dot(combination, &coefficients);
        let variance: f64 = combination
            .iter()
            .zip(&covariance)
            .map(|(&factor, row)| factor * dot(row, combination))
            .sum();
        let half = reach * variance.max(0.0).sqrt();
        (value, [value - half, value + half])
    };
    let (first, last) = (data[0].x, data[data.len() - 1].x);
    let made = (0..pieces).map(|piece| {
        let (slope_of, zero_of) = combinations(piece, breaks, is_continuous);
        let ((slope, slope_interval), (at_zero, at_zero_interval)) =
            (within(&slope_of), within(&zero_of));
        Piece {
            from: edges[piece].max(first),
            to: edges[piece + 1].min(last),
            slope,
            at_zero,
            slope_interval,
            at_zero_interval,
        }
    });
    Some(Fit {
        pieces: made.collect(),
        is_continuous,
        chi_square,
        freedom,
        bic: chi_square + parameters as f64 * (data.len() as f64).ln(),
        r_squared: r_squared(data, &fitted),
        worst_deviation: data
            .iter()
            .zip(&fitted)
            .map(|(datum, fitted)| (fitted / datum.y - 1.0).abs())
            .fold(0.0, f64::max),
    })
}

/// Gives the combinations of the coefficients that make the slope and the value at zero of a piece.
fn combinations(piece: usize, breaks: &[f64], is_continuous: bool) -> (Vec<f64>, Vec<f64>) {
    if !is_continuous {
        let mut combinations = (vec![0.0; 2 * breaks.len() + 2], vec![0.0; 2 * breaks.len() + 2]);
        combinations.0[2 * piece + 1] = 1.0;
        combinations.1[2 * piece] = 1.0;
        return combinations;
    }
    let bent = |value: &dyn Fn(f64) -> f64| {
        breaks
            .iter()
            .enumerate()
            .map(|(index, &at)| if index < piece { value(at) } else { 0.0 })
            .collect()
    };
    let slope: Vec<f64> = bent(&|_| 1.0);
    let at_zero: Vec<f64> = bent(&|at| -at);
    ([vec![0.0, 1.0], slope].concat(), [vec![1.0, 0.0], at_zero].concat())
}

fn r_squared(data: &[Datum], fitted: &[f64]) -> f64 {
    let mean = data.iter().map(|datum| datum.y).sum::<f64>() / data.len() as f64;
    let total: f64 = data.iter().map(|datum| (datum.y - mean).powi(2)).sum();
    let left: f64 = data.iter().zip(fitted).map(|(datum, fitted)| (datum.y - fitted).powi(2)).sum();
    if total == 0.0 { 1.0 } else { 1.0 - left / total }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Weighted least squares: coefficients and their covariance; `None` if the rows do not determine
/// them.
fn least_squares(data: &[Datum], rows: &[Vec<f64>]) -> Option<(Vec<f64>, Vec<Vec<f64>>)> {
    let count = rows[0].len();
    // Columns differ by orders of magnitude (1, sectors): scaled to length 1 they keep the normal
    // equations well conditioned.
    let weighted =
        |column: usize| rows.iter().zip(data).map(move |(row, datum)| row[column] / datum.error);
    let lengths: Vec<f64> = (0..count)
        .map(|column| weighted(column).map(|value| value * value).sum::<f64>().sqrt())
        .collect();
    if lengths.contains(&0.0) {
        return None;
    }
    let entry = |a: usize, b: usize| {
        weighted(a).zip(weighted(b)).map(|(a, b)| a * b).sum::<f64>() / (lengths[a] * lengths[b])
    };
    let normal: Vec<Vec<f64>> =
        (0..count).map(|a| (0..count).map(|b| entry(a, b)).collect()).collect();
    let inverse = inverse(normal)?;
    let right: Vec<f64> = (0..count)
        .map(|a| {
            weighted(a).zip(data).map(|(value, datum)| value * datum.y / datum.error).sum::<f64>()
                / lengths[a]
        })
        .collect();
    let coefficients = (0..count).map(|a| dot(&inverse[a], &right) / lengths[a]).collect();
    let covariance = (0..count)
        .map(|a| (0..count).map(|b| inverse[a][b] / (lengths[a] * lengths[b])).collect())
        .collect();
    Some((coefficients, covariance))
}

/// The inverse of a small symmetric matrix with ones on its diagonal (Gauss and Jordan, with
/// pivots).
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let count = matrix.len();
    for (index, row) in matrix.iter_mut().enumerate() {
        row.extend((0..count).map(|column| f64::from(u8::from(column == index))));
    }
    for column in 0..count {
        let pivot = (column..count)
            .max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        if matrix[pivot][column].abs() < 1e-12 {
            return None;
        }
        matrix.swap(column, pivot);
        let by = matrix[column][column];
        matrix[column].iter_mut().for_each(|value| *value /= by);
        let pivot_row = matrix[column].clone();
        for (_, row) in matrix.iter_mut().enumerate().filter(|(index, _)| *index != column) {
            let factor = row[column];
            row.iter_mut().zip(&pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    Some(matrix.into_iter().map(|row| row[count..].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTORS: [f64; 12] =
        [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];

    /// A share of one in fifty of error, and a disturbance within it that is the same in each run.
    fn data(law: impl Fn(f64) -> f64, disturbed: f64) -> Vec<Datum> {
        let disturbance = |index: usize| 1.0 + disturbed * (((index * 7) % 5) as f64 - 2.0) / 2.0;
        SECTORS
            .iter()
            .enumerate()
            .map(|(index, &x)| Datum { x, y: law(x) * disturbance(index), error: 0.02 * law(x) })
            .collect()
    }

    #[test]
    fn one_line_is_found_exactly() {
        let found = segmented(&data(|x| 4.0247 * x + 41.3, 0.0), 3);
        assert_eq!(found.pieces.len(), 1);
        let Piece { slope, at_zero, slope_interval, at_zero_interval, .. } = found.pieces[0];
        assert!((slope - 4.0247).abs() < 1e-9 && (at_zero - 41.3).abs() < 1e-8, "{found:?}");
        assert!(
            slope_interval[0] < 4.0247 && 4.0247 < slope_interval[1] && at_zero_interval[0] < 41.3
        );
        assert!(found.fits() && found.r_squared > 1.0 - 1e-9 && found.worst_deviation < 1e-9);
    }

    #[test]
    fn noise_makes_no_pieces_and_the_truth_lies_in_the_intervals() {
        let found = segmented(&data(|x| 4.0 * x + 60.0, 0.02), 3);
        assert_eq!(found.pieces.len(), 1, "{found:?}");
        let Piece { slope_interval, at_zero_interval, .. } = found.pieces[0];
        assert!(
            slope_interval[0] < 4.0
                && 4.0 < slope_interval[1]
                && at_zero_interval[0] < 60.0
                && 60.0 < at_zero_interval[1]
        );
    }

    #[test]
    fn pieces_that_do_not_meet_are_told_from_those_that_do() {
        // SCHEDULER eq. 4.4: it steps up after 128 sectors.
        let step = |x: f64| if x <= 128.0 { 7298.8 } else { 4.6076 * x + 7900.0 };
        let found = segmented(&data(step, 0.0), 3);
        assert!(found.pieces.len() == 2 && !found.is_continuous, "{found:?}");
        assert!(
            found.pieces[0].slope.abs() < 1e-6 && (found.pieces[1].slope - 4.6076).abs() < 1e-6
        );
        assert!(found.pieces[0].to > 128.0 && found.pieces[0].to < 256.0);
        let bend = |x: f64| 60.0 + 30.0 * x.min(16.0) + 4.0 * (x - 16.0).max(0.0);
        let found = segmented(&data(bend, 0.0), 3);
        assert!(found.pieces.len() == 2 && found.is_continuous, "{found:?}");
        assert!(
            (found.pieces[0].to - 16.0).abs() < 1e-9 && (found.pieces[1].slope - 4.0).abs() < 1e-6,
            "{found:?}"
        );
        assert!(
            (found.at(16.0) - 540.0).abs() < 1e-6 && (found.at(4096.0) - bend(4096.0)).abs() < 1e-3
        );
    }

    #[test]
    fn what_is_no_line_does_not_fit_one() {
        let found = line(&data(|x| 100.0 * x.sqrt(), 0.0));
        assert!(!found.fits() && found.worst_deviation > 0.2, "{found:?}");
        let few = &data(|x| 2.0 * x + 1.0, 0.0)[..2];
        assert!(line(few).fits() && segmented(few, 3).pieces.len() == 1);
    }
}
