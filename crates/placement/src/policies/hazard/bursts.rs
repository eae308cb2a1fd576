//! Test for bursts of deaths, by the signs that best predict the next deaths of an erase block.

use super::victims::{Signs, Victims};
use crate::Device;

/// Number of erase blocks per look, evenly spread: one for `WRITES` host page writes since the last
/// look, and at least `LEAST`, so that the cost of a look per write is small.
const WRITES: u64 = 64;
const LEAST: usize = 128;

/// Observations are gathered until one of these limits is reached.
const MOST_ROWS: usize = 1024;
const MOST_DEATHS: f64 = 2000.0;

/// Number of weights: of a constant and of four signs.
const WEIGHTS: usize = 5;

/// Deaths come in bursts if the weight of recent deaths is above this.
const BURSTY: f64 = 0.08;

/// A Poisson regression of the deaths in each erase block from one look to the next on the signs
/// known before, with the logarithm as link, by iteratively reweighted least squares.
///
/// With independent deaths the mean hazard of the stream predicts all, and the recent deaths of an
/// erase block are noise; where deaths come in bursts it is the other way round. The weights tell
/// which.
#[derive(Debug, Default)]
pub struct Bursts {
    seen: Vec<(u32, Signs)>,
    at: u64,
    first: usize,
    rows: Vec<Row>,
    deaths: f64,
    /// The weight of recent deaths, smoothed.
    recent: f64,
}

/// Observation of an erase block from one look to the next.
#[derive(Clone, Copy, Debug)]
struct Row {
    before: Signs,
    /// Valid pages times host page writes.
    at_risk: f64,
    deaths: f64,
}

impl Bursts {
    /// Looks at the erase blocks. Returns true if deaths come in bursts, by all observations so
    /// far.
    pub fn look(&mut self, victims: &Victims, device: &Device) -> bool {
        let span = (device.clock - self.at) as f64;
        for &(block, before) in &self.seen {
            // An erase block that was rewritten in between tells nothing.
            let Some(now) = victims.signs(block, device) else { continue };
            if now.born == before.born && now.valid <= before.valid {
                let deaths = f64::from(before.valid - now.valid);
                self.deaths += deaths;
                self.rows.push(Row { before, at_risk: f64::from(before.valid) * span, deaths });
            }
        }
        if self.rows.len() >= MOST_ROWS || self.deaths >= MOST_DEATHS {
            if let Some(weights) = regress(&self.rows) {
                // With few deaths so far a weight may have any value.
                let recent = (weights[2] + weights[3]).clamp(-0.2, 1.0);
                self.recent += 0.3 * (recent - self.recent);
            }
            self.rows.clear();
            self.deaths = 0.0;
        }
        let blocks = device.blocks.len();
        let most = LEAST.max((span as u64 / WRITES) as usize);
        let step = blocks.div_ceil(most);
        self.seen.clear();
        self.first = (self.first + 1) % step;
        let asked = (self.first as u32..blocks as u32).step_by(step);
        self.seen.extend(asked.filter_map(|b| victims.signs(b, device).map(|signs| (b, signs))));
        self.at = device.clock;
        self.recent > BURSTY
    }
}

/// The weights that make the observed deaths most likely; `None` if too few were observed.
fn regress(rows: &[Row]) -> Option<[f64; WEIGHTS]> {
    let deaths: f64 = rows.iter().map(|row| row.deaths).sum();
    if deaths < 32.0 {
        return None;
    }
    let count = rows.len() as f64;
    let mut means = [0.0; 4];
    for row in rows {
        for (mean, &log) in means.iter_mut().zip(&row.before.logs) {
            *mean += f64::from(log) / count;
        }
    }
    let at_risk: f64 = rows.iter().map(|row| row.at_risk).sum();
    let mut weights = [0.0; WEIGHTS];
    weights[0] = (deaths / at_risk).ln();
    for _ in 0..8 {
        let mut matrix = [[0.0; WEIGHTS + 1]; WEIGHTS];
        for &Row { before, at_risk, deaths } in rows {
            let mut x = [1.0; WEIGHTS];
            for ((x, &log), mean) in x[1..].iter_mut().zip(&before.logs).zip(&means) {
                *x = f64::from(log) - mean;
            }
            let linear: f64 = x.iter().zip(&weights).map(|(x, w)| x * w).sum();
            let expected = at_risk * linear.min(0.0).exp();
            let target = linear + (deaths - expected) / expected.max(1e-9);
            for (row, &left) in matrix.iter_mut().zip(&x) {
                for (cell, &right) in row.iter_mut().zip(&x) {
                    *cell += expected * left * right;
                }
                row[WEIGHTS] += expected * left * target;
            }
        }
        // Signs that are equivalent share the weight.
        for (number, row) in matrix.iter_mut().enumerate().skip(1) {
            row[number] += 1e-3 * deaths;
        }
        let next = solve(matrix)?;
        let moved: f64 = next.iter().zip(&weights).map(|(a, b)| (a - b).abs()).sum();
        weights = next;
        if moved < 1e-4 {
            break;
        }
    }
    weights.iter().all(|weight| weight.is_finite()).then_some(weights)
}

/// Solves the equations by Gaussian elimination with the greatest pivot.
fn solve(mut rows: [[f64; WEIGHTS + 1]; WEIGHTS]) -> Option<[f64; WEIGHTS]> {
    for column in 0..WEIGHTS {
        let pivot = (column..WEIGHTS)
            .max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()))?;
        rows.swap(column, pivot);
        let lead = rows[column];
        if lead[column].abs() <= 1e-12 {
            return None;
        }
        for row in rows.iter_mut().skip(column + 1) {
            let factor = row[column] / lead[column];
            for (cell, lead) in row.iter_mut().zip(&lead).skip(column) {
                *cell -= factor * lead;
            }
        }
    }
    let mut solution = [0.0; WEIGHTS];
    for row in (0..WEIGHTS).rev() {
        let known: f64 = (row + 1..WEIGHTS).map(|c| rows[row][c] * solution[c]).sum();
        solution[row] = (rows[row][WEIGHTS] - known) / rows[row][row];
    }
    Some(solution)
}
