//! Waits of one request for another, over the time by which the other ended later.
//!
//! If a resource is busy for `length` up to the moment `begin` before another request ends, then
//! one that comes to it meanwhile waits for the rest of that: the nearer to the start it comes, the
//! longer. Over all requests that is little, but when each of them came is known; so it is not the
//! mean that is compared, but how the wait falls with the time.

use super::estimate::Estimate;

/// Standard errors, squared, by which a better fit is seen to be one.
const SEEN: f64 = 36.0;
/// Latencies that a share is found from, with and without a wait, at least.
const FEWEST: f64 = 50.0;
/// Bins that a [`Saw`] is fitted to at most.
const MOST_POINTS: usize = 120;

/// Latencies over a time, both in one unit, in bins of the time.
#[derive(Clone, Debug)]
pub struct Curve {
    low: f64,
    width: f64,
    bins: Vec<Bin>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    count: f64,
    sum: f64,
    squares: f64,
}

/// Waits of requests for a busy resource, with slope 1: see [`Curve::saw`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saw {
    /// The time from which on they wait.
    pub begin: Estimate,
    /// So much later they wait as much less: they came before it was busy. `None` if they never do.
    pub length: Option<f64>,
    /// Latency of requests that do not wait.
    pub level: f64,
}

impl Curve {
    /// A curve without latencies, from a time to a later one in so many bins.
    #[must_use]
    pub fn new(low: f64, high: f64, bins: usize) -> Self {
        Self { low, width: (high - low) / bins as f64, bins: vec![Bin::default(); bins] }
    }

    /// Adds a latency; one outside the curve does not count.
    pub fn add(&mut self, time: f64, latency: f64) {
        let index = ((time - self.low) / self.width).floor();
        if index >= 0.0
            && let Some(bin) = self.bins.get_mut(index as usize)
        {
            bin.count += 1.0;
            bin.sum += latency;
            bin.squares += latency * latency;
        }
    }

    /// Latencies that count.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.bins.iter().map(|bin| bin.count).sum()
    }

    /// Time in the middle of each bin that has any, and the bin.
    fn points(&self) -> impl Iterator<Item = (f64, &Bin)> {
        let at = |index: usize| self.low + (index as f64 + 0.5) * self.width;
        self.bins
            .iter()
            .enumerate()
            .filter(|(_, bin)| bin.count > 0.0)
            .map(move |(index, bin)| (at(index), bin))
    }

    /// Gives the share of a wait for something that is busy for `length` from `begin` on; 1 is the
    /// whole wait. It is the coefficient of a regression on that wait, beside a level and a trend,
    /// within `reach` of it. `None` if too little was measured.
    #[must_use]
    pub fn share(&self, begin: f64, length: f64, reach: f64) -> Option<Estimate> {
        let (mut normal, mut right, mut squares, mut inside) = ([[0.0; 3]; 3], [0.0; 3], 0.0, 0.0);
        let (from, to) = (begin - reach, begin + length + reach);
        let near: Vec<(f64, &Bin)> =
            self.points().filter(|(time, _)| (from..to).contains(time)).collect();
        let level = near.iter().map(|(_, bin)| bin.sum).sum::<f64>()
            / near.iter().map(|(_, bin)| bin.count).sum::<f64>().max(1.0);
        for (time, bin) in near {
            let since = time - begin;
            let wait = if since > 0.0 && since < length { since } else { 0.0 };
            inside += if wait > 0.0 { bin.count } else { 0.0 };
            let row = [1.0, (since - length / 2.0) / (reach + length), wait / length];
            let sum = bin.sum - bin.count * level;
            squares += bin.squares - 2.0 * level * bin.sum + bin.count * level * level;
            for (index, &one) in row.iter().enumerate() {
                right[index] += one * sum;
                for (entry, &other) in normal[index].iter_mut().zip(&row) {
                    *entry += bin.count * one * other;
                }
            }
        }
        let count = normal[0][0];
        let (solution, inverse) = last_of_three(normal, right)?;
        let left =
            squares - solution.iter().zip(&right).map(|(one, other)| one * other).sum::<f64>();
        let error = (left.max(0.0) / (count - 3.0).max(1.0) * inverse).sqrt();
        let are_many = inside > FEWEST && count - inside > FEWEST;
        (are_many && error > 0.0).then(|| Estimate {
            mean: solution[2] / length,
            error: error / length,
            freedom: count - 3.0,
        })
    }

    /// Joins bins to no more than [`MOST_POINTS`]: times, means and counts; and the variance within
    /// them.
    fn coarse(&self) -> (Vec<[f64; 3]>, f64) {
        let each = self.bins.len().div_ceil(MOST_POINTS);
        let (mut points, mut within, mut count) = (Vec::new(), 0.0, 0.0);
        for (index, bins) in self.bins.chunks(each).enumerate() {
            let of = |part: fn(&Bin) -> f64| bins.iter().map(part).sum::<f64>();
            let (number, sum, squares) =
                (of(|bin| bin.count), of(|bin| bin.sum), of(|bin| bin.squares));
            if number > 0.0 {
                let time = self.low + (index as f64 + 0.5) * each as f64 * self.width;
                points.push([time, sum / number, number]);
                within += squares - sum * sum / number;
                count += number - 1.0;
            }
        }
        (points, within / f64::max(count, 1.0))
    }

    /// Finds from when on requests wait if they surely wait for one thing, and whether they came
    /// before it from some time on. Without waiting they take `level`. `None` if it does not show.
    #[must_use]
    pub fn saw(&self, level: f64) -> Option<Saw> {
        let (points, variance) = self.coarse();
        let count: f64 = points.iter().map(|point| point[2]).sum();
        let (first, last) = (points.first()?[0], points.last()?[0]);
        let step = (last - first) / MOST_POINTS as f64;
        if step <= 0.0 || variance <= 0.0 {
            return None;
        }
        let fit = |begin: f64, length: f64| misfit(&points, begin, length, level);
        let scan = |from: f64, to: f64, step: f64, misfit: &dyn Fn(f64) -> f64| {
            let times = (0..=((to - from) / step) as usize).map(|index| from + index as f64 * step);
            times
                .map(|time| (misfit(time), time))
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .unwrap_or((f64::INFINITY, from))
        };
        let finer = |best: f64, misfit: &dyn Fn(f64) -> f64| {
            scan(best - step, best + step, step / 16.0, misfit)
        };
        let without = |begin: f64| fit(begin, f64::INFINITY);
        // If all wait, they may do so from any time on that lies before them.
        let (straight, _) = scan(first - level, first, step, &without);
        let (_, begin) = scan(first, last, step, &without);
        let (simple, begin) = finer(begin, &without);
        // What comes early waits less by as much as it was early: a begin that lies below all times
        // is one, too.
        let mut cut = (f64::INFINITY, 0.0, 0.0);
        for end in (1..MOST_POINTS).map(|index| first + index as f64 * step) {
            let of_length = |length: f64| fit(end - length, length);
            let (misfit, length) = scan(2.0 * step, last - first + level, step, &of_length);
            if misfit < cut.0 {
                cut = (misfit, end, length);
            }
        }
        let flat = fit(f64::INFINITY, f64::INFINITY);
        let error = 2.5 * (variance / count).sqrt();
        let saw = |begin: f64, length: Option<f64>| Saw {
            begin: Estimate { mean: begin, error, freedom: f64::INFINITY },
            length,
            level,
        };
        if simple.min(straight) - cut.0 > SEEN * variance && cut.0 < 0.2 * flat {
            let (_, end, length) = cut;
            let (_, length) = finer(length, &|length: f64| fit(end - length, length));
            let (_, end) = finer(end, &|end: f64| fit(end - length, length));
            return Some(saw(end - length, Some(length)));
        }
        let is_seen = straight - simple > SEEN * variance
            && flat - simple > SEEN * variance
            && simple < 0.2 * flat + points.len() as f64 * 2.0 * variance;
        is_seen.then(|| saw(begin, None))
    }
}

/// Squared distances of points from a wait with slope 1 from `begin` on that is `length` less from
/// so much later on.
fn misfit(points: &[[f64; 3]], begin: f64, length: f64, level: f64) -> f64 {
    let of = |&[time, mean, count]: &[f64; 3]| {
        let since = time - begin;
        let wait = if since <= 0.0 {
            0.0
        } else if since < length {
            since
        } else {
            since - length
        };
        count * (mean - level - wait).powi(2)
    };
    points.iter().map(of).sum()
}

/// Solves three equations, symmetric ones: the solution, and the last entry of the inverse.
fn last_of_three(matrix: [[f64; 3]; 3], right: [f64; 3]) -> Option<([f64; 3], f64)> {
    let [[a, b, c], [_, d, e], [_, _, f]] = matrix;
    let (of_a, of_b, of_c) = (d * f - e * e, c * e - b * f, b * e - c * d);
    let determinant = a * of_a + b * of_b + c * of_c;
    if determinant.abs() < 1e-9 * (a * d * f).abs() || determinant == 0.0 {
        return None;
    }
    let inverse = [
        [of_a, of_b, of_c],
        [of_b, a * f - c * c, b * c - a * e],
        [of_c, b * c - a * e, a * d - b * b],
    ];
    let solution = inverse.map(|row| {
        row.iter().zip(&right).map(|(one, other)| one * other).sum::<f64>() / determinant
    });
    Some((solution, inverse[2][2] / determinant))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_distr::{Distribution as _, Normal};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// So many latencies with noise of 20, at times about 0 that vary by 10.
    fn curve(count: usize, wait: impl Fn(f64) -> f64) -> Curve {
        let mut random = Pcg64Mcg::seed_from_u64(9);
        let normal = Normal::new(0.0, 20.0).unwrap();
        let mut curve = Curve::new(-30.0, 30.0, 300);
        for _ in 0..count {
            let time: f64 = (0..4).map(|_| random.random_range(-8.0..8.0)).sum();
            curve.add(time, 100.0 + wait(time) + normal.sample(&mut random));
        }
        curve
    }

    fn busy(begin: f64, length: f64) -> impl Fn(f64) -> f64 {
        move |time| if time > begin && time < begin + length { time - begin } else { 0.0 }
    }

    #[test]
    fn a_short_wait_is_seen_where_its_mean_is_not() {
        // One in twelve waits, for 1 on average: 0.08 of all, with an error of 0.03.
        let [waiting, free] = [curve(400_000, busy(1.0, 2.0)), curve(400_000, |_| 0.0)]
            .map(|curve| curve.share(1.0, 2.0, 10.0).unwrap());
        assert!(
            (waiting.mean - 1.0).abs() < 4.0 * waiting.error && waiting.in_errors() > 6.0,
            "{waiting:?}"
        );
        assert!(free.mean.abs() < 4.0 * free.error && free.error < 0.15, "{free:?}");
    }

    #[test]
    fn what_keeps_one_waiting_is_found() {
        let endless = curve(20_000, |time| (time + 1.5).max(0.0)).saw(100.0).unwrap();
        assert!(
            (endless.begin.mean + 1.5).abs() < 4.0 * endless.begin.error
                && endless.length.is_none(),
            "{endless:?}"
        );
        let ends =
            curve(20_000, |time| if time < 4.0 { (time + 8.0).max(0.0) } else { time - 4.0 })
                .saw(100.0)
                .unwrap();
        assert!(
            (ends.length.unwrap() - 12.0).abs() < 1.0 && (ends.begin.mean + 8.0).abs() < 1.0,
            "{ends:?}"
        );
    }

    #[test]
    fn nothing_is_found_where_all_wait_or_none() {
        assert_eq!(curve(20_000, |time| time + 40.0).saw(100.0), None);
        assert_eq!(curve(20_000, |_| 0.0).saw(100.0), None);
    }
}
