//! Shares of the dies' time, by cause.

use crate::drive::media::{Cause, FlashOp, Media};
use crate::drive::time::Picos;

/// Busy time of a die in picoseconds, by [`FlashOp`] and [`Cause`]. Time in which several planes of
/// a die work counts once.
pub type BusyTime = [[Picos; Cause::ALL.len()]; FlashOp::ALL.len()];

/// Busy time of each die so far.
#[must_use]
pub fn busy_times(media: &Media) -> Vec<BusyTime> {
    let of_die = |die| FlashOp::ALL.map(|op| Cause::ALL.map(|cause| media.time_on(die, op, cause)));
    (0..media.layout().dies()).map(of_die).collect()
}

/// Shares of the time of a die, or of all dies, 0 ... 1, which add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DieShare {
    /// Shares of work, in the order of [`Cause::ALL`].
    pub by_cause: [f64; Cause::ALL.len()],
    /// Share of idle time.
    pub idle: f64,
}

impl DieShare {
    /// Computes the shares of one die over `elapsed`. If no time has passed, it was idle.
    ///
    /// # Panics
    /// If it was busy for longer than that: two operations were counted at the same time.
    #[must_use]
    pub fn of(busy: &BusyTime, elapsed: Picos) -> Self {
        Self::total(std::slice::from_ref(busy), elapsed)
    }

    /// Computes the shares of all dies together over `elapsed`.
    ///
    /// # Panics
    /// If a die was busy for longer than that.
    #[must_use]
    pub fn total(dies: &[BusyTime], elapsed: Picos) -> Self {
        let mut by_cause = [0_u128; Cause::ALL.len()];
        for (die, busy) in dies.iter().enumerate() {
            let sum: u128 = busy.iter().flatten().map(|&picos| u128::from(picos)).sum();
            assert!(
                sum <= u128::from(elapsed),
                "of {elapsed} ps, die {die} of {} was busy for {sum} ps: {busy:?}",
                dies.len()
            );
            for of_op in busy {
                by_cause.iter_mut().zip(of_op).for_each(|(sum, &picos)| *sum += u128::from(picos));
            }
        }
        let all = u128::from(elapsed) * dies.len() as u128;
        if all == 0 {
            return Self { by_cause: [0.0; Cause::ALL.len()], idle: 1.0 };
        }
        let idle = (all - by_cause.iter().sum::<u128>()) as f64 / all as f64;
        let share = Self { by_cause: by_cause.map(|sum| sum as f64 / all as f64), idle };
        assert!(
            (share.busy() + idle - 1.0).abs() < 1e-9,
            "the shares of the dies' time do not add up: {share:?}"
        );
        share
    }

    /// The shares by name: of each cause, and of idle time.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        Cause::ALL.iter().map(|cause| cause.name()).zip(self.by_cause).chain([("idle", self.idle)])
    }

    /// Share of all work.
    #[must_use]
    pub fn busy(&self) -> f64 {
        self.by_cause.iter().sum()
    }

    /// Share of the work that the host did not ask for.
    #[must_use]
    pub fn internal(&self) -> f64 {
        Cause::ALL
            .into_iter()
            .filter(|&cause| cause != Cause::Host)
            .map(|cause| self.by_cause[cause as usize])
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn busy(op: FlashOp, cause: Cause, picos: Picos) -> BusyTime {
        let mut busy = BusyTime::default();
        busy[op as usize][cause as usize] = picos;
        busy
    }

    #[test]
    fn shares_are_by_cause() {
        let mut die = busy(FlashOp::Read, Cause::Host, 100);
        die[FlashOp::Program as usize][Cause::Host as usize] = 150;
        die[FlashOp::Erase as usize][Cause::Cleaning as usize] = 125;
        die[FlashOp::CopyBack as usize][Cause::WearLevelling as usize] = 25;
        die[FlashOp::Read as usize][Cause::Mapping as usize] = 100;
        let expected =
            DieShare { by_cause: [0.25, 0.1, 0.125, 0.025, 0.0, 0.0, 0.0, 0.0], idle: 0.5 };
        let found = DieShare::of(&die, 1000);
        assert_eq!(found, expected);
        assert!((found.busy() - 0.5).abs() < 1e-12 && (found.internal() - 0.25).abs() < 1e-12);
        let total = DieShare::total(&[die, BusyTime::default()], 1000);
        assert_eq!((total.by_cause[Cause::Host as usize], total.idle), (0.125, 0.75));
    }

    #[test]
    fn without_time_or_dies_all_is_idle() {
        for share in [DieShare::of(&BusyTime::default(), 0), DieShare::total(&[], 1000)] {
            assert_eq!((share.busy(), share.idle), (0.0, 1.0));
        }
    }

    #[test]
    #[should_panic(expected = "of 99 ps, die 1 of 2 was busy for 100 ps")]
    fn a_die_busier_than_time_allows_is_a_bug() {
        let _ = DieShare::total(&[BusyTime::default(), busy(FlashOp::Read, Cause::Host, 100)], 99);
    }

    proptest! {
        #[test]
        fn shares_add_up(
            dies in prop::collection::vec(
                prop::array::uniform4(prop::array::uniform8(0..1_u64 << 57)),
                0..20,
            ),
        ) {
            let share = DieShare::total(&dies, 1 << 62);
            prop_assert!((share.busy() + share.idle - 1.0).abs() < 1e-12);
            prop_assert!(share.idle >= 0.0);
        }
    }
}
