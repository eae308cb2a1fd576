//! Detection of changes of the load, after which what was learned before is forgotten.

use super::cells::{KEPT, Surprise};
use super::pages::TICKS;

/// A surprise beyond this many times the usual one lowers the weight of the past, and one beyond
/// twice that is a change.
const UNUSUAL: f32 = 4.0;

/// Surprises up to this, in nats per death, are harmless.
const HARMLESS: f32 = 0.003;

/// Total surprise in nats that may still be chance: there are dozens of looks per footprint.
const CHANCE: f32 = 16.0;

/// Weight of a look in the usual surprise.
const WEIGHT: f32 = 0.05;

/// After a change of the load, learned hazards are wrong for as long as they are remembered. The
/// surprise of the deaths shows that; but on real loads deaths always surprise, some two orders of
/// magnitude more than on a stationary one, and forgetting all the time costs up to 5 % there. So a
/// surprise is compared with the usual one: the geometric mean of earlier surprises, over some
/// footprints.
#[derive(Debug)]
pub struct Shifts {
    usual: f32,
    looks: f32,
    /// Weight of earlier observations at the next plan.
    pub kept: f32,
    /// The tick of the last change: observations of a page count only from then on.
    pub changed_at: u32,
}

impl Default for Shifts {
    fn default() -> Self {
        Self { usual: 0.0, looks: 0.0, kept: KEPT, changed_at: 0 }
    }
}

impl Shifts {
    /// Greatest surprise, in nats per death, that is not unusual.
    fn unusual(&self) -> f32 {
        HARMLESS + if self.looks > 0.0 { UNUSUAL * self.usual.exp() } else { 1.0 }
    }

    /// Returns true if a surprise shows that the load has changed. Never for a footprint after a
    /// change: too little has been learned by then.
    pub fn is_change(&self, surprise: Surprise, tick: u32) -> bool {
        let by_chance = CHANCE / surprise.deaths;
        let is_beyond = surprise.nats > 2.0 * self.unusual() + by_chance;
        self.looks > 0.0 && is_beyond && tick - self.changed_at > TICKS
    }

    /// Updates the usual surprise, and the weight of the past at the next plan.
    pub fn look(&mut self, surprise: Surprise, tick: u32) {
        // Before each page was written once on average, nothing was learned that may be wrong.
        if tick <= TICKS {
            return;
        }
        let (surprise, unusual) = (surprise.nats, self.unusual());
        self.looks += 1.0;
        let weight = WEIGHT.max(1.0 / self.looks);
        self.usual += weight * (surprise.max(HARMLESS / UNUSUAL).ln() - self.usual);
        self.kept = KEPT * (unusual / surprise.max(unusual));
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Shifts, Surprise, TICKS};

    /// The looks at which a change was detected, of these surprises after the first footprint.
    fn changes(surprises: impl IntoIterator<Item = f32>) -> Vec<usize> {
        let mut shifts = Shifts::default();
        let mut changes = Vec::new();
        for (look, nats) in surprises.into_iter().enumerate() {
            let surprise = Surprise { nats, deaths: 1000.0 };
            let tick = TICKS + 1 + 100 * look as u32;
            if shifts.is_change(surprise, tick) {
                shifts.changed_at = tick;
                changes.push(look);
            }
            shifts.look(surprise, tick);
        }
        changes
    }

    #[test]
    fn a_change_is_more_than_the_usual_surprise() {
        let calm = |look: u32| 0.001 * f32::from(u8::from(look.is_multiple_of(3)));
        assert_eq!(changes((0..100).map(calm)), []);
        assert_eq!(changes((0..100).map(|look| if look == 60 { 0.3 } else { calm(look) })), [60]);
        let varied = |look: u32| if look.is_multiple_of(5) { 0.8 } else { 0.2 };
        assert_eq!(changes((0..100).map(varied)), []);
    }

    /// Hazards learned of a new load are wrong at first, and that is no change of the load.
    #[test]
    fn a_change_is_seen_once() {
        let surprises = (0..100).map(|look| if (60..70).contains(&look) { 0.3 } else { 0.0 });
        assert_eq!(changes(surprises), [60]);
        let twice = [40, 40 + TICKS as usize / 100 + 1];
        let surprises = (0..100).map(|look| if twice.contains(&look) { 3.0 } else { 0.0 });
        assert_eq!(changes(surprises), twice);
    }

    #[test]
    fn a_surprise_of_few_deaths_is_no_change() {
        let mut shifts = Shifts::default();
        shifts.look(Surprise { nats: 0.0, deaths: 1000.0 }, TICKS + 1);
        let is_change = |deaths| shifts.is_change(Surprise { nats: 0.1, deaths }, TICKS + 100);
        assert!(!is_change(100.0));
        assert!(is_change(1000.0));
    }

    #[test]
    fn the_past_counts_less_as_far_as_it_misleads() {
        let mut shifts = Shifts::default();
        for look in 1..50 {
            shifts.look(Surprise { nats: 0.0, deaths: 1.0 }, TICKS + look);
            assert!((shifts.kept - KEPT).abs() < 1e-6);
        }
        shifts.look(Surprise { nats: 0.5, deaths: 1.0 }, TICKS + 50);
        assert!(shifts.kept < 0.05, "{}", shifts.kept);
    }
}
