//! Whether the load has changed, so that what was learned before it is forgotten.

use super::cells::KEPT;
use super::pages::TICKS;

/// A surprise beyond this many times the usual one makes the past count less, and one beyond twice
/// that is a change.
const UNUSUAL: f32 = 4.0;

/// Surprises up to this, in nats a death, do no harm.
const HARMLESS: f32 = 0.003;

/// Weight of a look in what is usual.
const WEIGHT: f32 = 0.05;

/// What is learned is wrong after a change, and keeps being so for as long as it is remembered. How
/// surprising deaths are shows that; but on real loads they always are, some two orders of
/// magnitude more than on a stationary one, and to forget all the time costs up to 5 % there. So a
/// surprise is held against what is usual: the geometric mean of those before it, which lasts some
/// footprints.
#[derive(Debug)]
pub struct Shifts {
    usual: f32,
    looks: f32,
    /// The weight of what was learned before, at the next plan.
    pub kept: f32,
    /// The tick from which on what is seen of a page may count.
    pub changed_at: u32,
    last_look: u32,
}

impl Default for Shifts {
    fn default() -> Self {
        Self { usual: 0.0, looks: 0.0, kept: KEPT, changed_at: 0, last_look: 0 }
    }
}

impl Shifts {
    /// Whether the load has changed since the last look.
    pub fn look(&mut self, surprise: f32, tick: u32) -> bool {
        let before = std::mem::replace(&mut self.last_look, tick);
        // Before each page was written once on average nothing was learned that may be wrong.
        if tick <= TICKS {
            return false;
        }
        let unusual = HARMLESS + if self.looks > 0.0 { UNUSUAL * self.usual.exp() } else { 1.0 };
        self.looks += 1.0;
        let weight = WEIGHT.max(1.0 / self.looks);
        self.usual += weight * (surprise.max(HARMLESS / UNUSUAL).ln() - self.usual);
        self.kept = KEPT * (unusual / surprise.max(unusual));
        let has_changed = surprise > 2.0 * unusual;
        if has_changed {
            self.changed_at = before;
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Shifts, TICKS};

    /// The looks at which a change was seen, of these surprises after the first footprint.
    fn changes(surprises: impl IntoIterator<Item = f32>) -> Vec<usize> {
        let mut shifts = Shifts::default();
        let looks = surprises.into_iter().enumerate();
        looks
            .filter(|&(look, surprise)| shifts.look(surprise, TICKS + 1 + 100 * look as u32))
            .map(|(look, _)| look)
            .collect()
    }

    #[test]
    fn a_change_is_more_than_the_usual_surprise() {
        let calm = |look: u32| 0.001 * f32::from(u8::from(look.is_multiple_of(3)));
        assert_eq!(changes((0..100).map(calm)), []);
        assert_eq!(changes((0..100).map(|look| if look == 60 { 0.3 } else { calm(look) })), [60]);
        let varied = |look: u32| if look.is_multiple_of(5) { 0.8 } else { 0.2 };
        assert_eq!(changes((0..100).map(varied)), []);
    }

    #[test]
    fn the_past_counts_less_as_far_as_it_misleads() {
        let mut shifts = Shifts::default();
        for look in 1..50 {
            shifts.look(0.0, TICKS + look);
            assert!((shifts.kept - KEPT).abs() < 1e-6);
        }
        shifts.look(0.5, TICKS + 50);
        assert!(shifts.kept < 0.05, "{}", shifts.kept);
        assert_eq!(shifts.changed_at, TICKS + 49);
    }
}
