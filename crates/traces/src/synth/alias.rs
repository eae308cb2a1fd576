//! Draws one of a few outcomes of given probability in constant time.

/// Walker's alias table as Vose builds it (A. J. Walker, ACM TOMS 3(3), 1977; M. D. Vose, IEEE TSE
/// 17(9), 1991).
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    columns: Vec<Column>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    /// Of 64 random bits, those below it keep the column's own outcome.
    keep_below: u64,
    own: u32,
    other: u32,
}

impl Alias {
    /// A table of outcomes 0, 1, ... with probabilities in proportion to these masses.
    pub(crate) fn new(masses: &[f64]) -> Self {
        let total: f64 = masses.iter().sum();
        assert!(
            !masses.is_empty() && total > 0.0 && masses.iter().all(|&m| m >= 0.0),
            "masses must be at least 0, and not all 0"
        );
        let count = masses.len();
        let mut scaled: Vec<f64> = masses.iter().map(|m| m / total * count as f64).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..count).partition(|&i| scaled[i] < 1.0);
        let mut columns: Vec<Column> =
            (0..count as u32).map(|i| Column { keep_below: u64::MAX, own: i, other: i }).collect();
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            columns[poor] = Column {
                keep_below: super::threshold(scaled[poor]),
                own: poor as u32,
                other: rich as u32,
            };
            scaled[rich] -= 1.0 - scaled[poor];
            if scaled[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        // What is left differs from a full column by rounding alone, unless its mass is 0: then it
        // must not be drawn.
        let heaviest = (0..count).max_by(|&a, &b| masses[a].total_cmp(&masses[b])).unwrap_or(0);
        for index in small {
            if masses[index] == 0.0 {
                columns[index] =
                    Column { keep_below: 0, own: index as u32, other: heaviest as u32 };
            }
        }
        Self { columns }
    }

    /// The outcome for 64 random bits.
    #[inline]
    pub(crate) fn pick(&self, random: u64) -> usize {
        let wide = u128::from(random) * self.columns.len() as u128;
        let column = self.columns[(wide >> 64) as usize];
        (if (wide as u64) < column.keep_below { column.own } else { column.other }) as usize
    }

    /// The probability of each outcome as the table has it: what a test holds against the masses.
    #[cfg(test)]
    pub(super) fn probabilities(&self) -> Vec<f64> {
        let mut result = vec![0.0; self.columns.len()];
        let share = 1.0 / self.columns.len() as f64;
        for column in &self.columns {
            let keep = column.keep_below as f64 / 2f64.powi(64);
            result[column.own as usize] += keep * share;
            result[column.other as usize] += (1.0 - keep) * share;
        }
        result
    }
}
