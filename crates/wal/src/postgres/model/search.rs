//! Finds what a model has to be told for it to count what was counted.

/// Passes at most.
const TRIES: u32 = 9;
/// A count that is right to this share is right.
const NEAR: f64 = 0.01;
/// The second value is at most so many times the first, or that part of it.
const FIRST_STEP: f64 = 8.0;

/// What is looked for, above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Least and most.
    pub range: (f64, f64),
    /// The value that is tried first.
    pub guess: f64,
    /// True if more is counted with a greater value, false if less is.
    pub rises: bool,
    /// Of values that count alike the last that was tried is taken, which is next to what is known;
    /// otherwise the first.
    pub takes_last: bool,
}

impl Search {
    /// Finds the value with which `count` comes to `target`, or the nearest that was tried.
    ///
    /// By the secant method on logarithms. Where that leaves the bracket of what is known to be too
    /// little and too much, by halving.
    ///
    /// # Errors
    /// What `count` says.
    pub fn find<E>(
        self,
        target: u64,
        mut count: impl FnMut(f64) -> Result<u64, E>,
    ) -> Result<f64, E> {
        let (mut low, mut high) = (self.range.0.ln(), self.range.1.ln());
        let sign = if self.rises { 1.0 } else { -1.0 };
        let mut at = self.guess.max(self.range.0).ln().clamp(low, high);
        let mut before: Option<(f64, f64)> = None;
        let mut best = (f64::INFINITY, at);
        for _ in 0..TRIES {
            let found = count(at.exp())?;
            // Above 0 where the value is too great.
            let off = sign * (found.max(1) as f64 / target.max(1) as f64).ln();
            if off.abs() < best.0 || (self.takes_last && off.abs() <= best.0) {
                best = (off.abs(), at);
            }
            if off.abs() < NEAR || high - low < NEAR {
                break;
            }
            *(if off > 0.0 { &mut high } else { &mut low }) = at;
            let next = match before {
                None => at - off.clamp(-FIRST_STEP.ln(), FIRST_STEP.ln()),
                Some((x, y)) => at - off * (at - x) / (off - y),
            };
            before = Some((at, off));
            // A step of no length, or one beyond what is known, tells nothing.
            at = if next > low && next < high { next } else { f64::midpoint(low, high) };
        }
        Ok(best.1.exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(search: Search, target: u64, count: impl Fn(f64) -> u64) -> (f64, u32) {
        let mut passes = 0;
        let found = search.find::<()>(target, |value| {
            passes += 1;
            Ok(count(value))
        });
        (found.unwrap(), passes)
    }

    #[test]
    fn a_count_that_falls_as_commits_share_flushes_is_met_in_a_few_passes() {
        // A flush, and the time until the next commit.
        let count = |flush_us: f64| (60e6 / (flush_us + 700.0)) as u64;
        for wanted_us in [20.0, 300.0, 5e3, 4e5] {
            let search =
                Search { range: (10.0, 1e6), guess: 100.0, rises: false, takes_last: true };
            let (found, passes) = passes(search, count(wanted_us), count);
            let off = count(found) as f64 / count(wanted_us) as f64 - 1.0;
            assert!(off.abs() < 0.01 && passes <= 6, "{wanted_us}: {found} after {passes}");
        }
    }

    #[test]
    fn a_count_that_rises_is_met_too_and_one_out_of_reach_ends_at_the_nearest() {
        let count = |factor: f64| 5000 + (90_000.0 * factor) as u64;
        let search = Search { range: (0.01, 4.0), guess: 1.0, rises: true, takes_last: false };
        let (found, passes_of_it) = passes(search, 20_000, count);
        assert!((found - 0.1667).abs() < 0.01 && passes_of_it <= 5, "{found} {passes_of_it}");
        let (found, passes_of_it) = passes(search, 1_000_000, count);
        assert!(found > 3.5 && passes_of_it <= TRIES, "{found}");
    }

    #[test]
    fn of_values_that_count_alike_it_is_that_next_to_what_is_known() {
        // Below a delay that commits wait anyway the time of a flush makes no difference.
        let count = |flush_us: f64| if flush_us < 1000.0 { 1000 } else { 500 };
        let search = Search { range: (10.0, 1e6), guess: 660.0, rises: false, takes_last: true };
        let (found, _) = passes(search, 1100, count);
        assert!(found < 11.0, "{found}");
    }

    #[test]
    fn no_guess_and_no_target_leave_the_range() {
        let count = |value: f64| (1e6 / value) as u64;
        for guess in [f64::NAN, -1.0, 0.0, f64::INFINITY] {
            for target in [0, 1, 1000, u64::MAX] {
                let search = Search { range: (10.0, 1e6), guess, rises: false, takes_last: true };
                let (found, _) = passes(search, target, count);
                assert!((9.99..1.001e6).contains(&found), "{guess}, {target}: {found}");
            }
        }
    }

    #[test]
    fn steps_are_found_by_halving() {
        let count = |value: f64| if value < 777.0 { 1000 } else { 10 };
        let search = Search { range: (10.0, 1e6), guess: 10.0, rises: false, takes_last: true };
        let (found, passes) = passes(search, 500, count);
        assert!((500.0..777.0).contains(&found) && passes <= TRIES, "{found}");
    }
}
