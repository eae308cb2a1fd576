//! The clock of a load that comes faster, or slower, than it was recorded.

use super::replay::Window;

/// Maps times of a recording to those of a load at another pace.
///
/// All that is measured by a clock stays as it is: the timeouts of checkpoints, the rounds of
/// writers, how long the kernel holds pages back. So a load at twice the pace changes a page twice
/// as often before it is written. As much time counts as was recorded: a faster load goes through
/// the recorded part of the log again, a slower one ends within it. What comes before that part
/// comes as it was recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    window: Window,
    pace: f64,
    /// Passes through the recorded part that are over.
    passes: i64,
}

impl Clock {
    /// `pace`: commits a second over those of the recording, above 0.
    pub fn new(window: Window, pace: f64) -> Self {
        Self { window, pace, passes: 0 }
    }

    /// Time of what happened at a recorded time, in the pass that goes on.
    pub fn at(&self, recorded_us: i64) -> i64 {
        let begin_us = self.window.begin_us;
        if recorded_us < begin_us && self.passes == 0 {
            return recorded_us;
        }
        let passed_us = self.passes * self.recorded_us() + recorded_us - begin_us;
        begin_us + if self.is_other() { (passed_us as f64 / self.pace) as i64 } else { passed_us }
    }

    /// True if a time lies behind the end; never at the recorded pace, at which all of the log
    /// counts.
    pub fn is_behind_end(&self, time_us: i64) -> bool {
        self.is_other() && time_us > self.window.end_us
    }

    /// Begins another pass through the recorded part of the log; false if the time is over.
    pub fn again(&mut self) -> bool {
        let goes_on = self.is_other()
            && self.recorded_us() > 0
            && self.at(self.window.end_us) < self.window.end_us;
        self.passes += i64::from(goes_on);
        goes_on
    }

    fn recorded_us(&self) -> i64 {
        self.window.end_us - self.window.begin_us
    }

    fn is_other(&self) -> bool {
        (self.pace - 1.0).abs() > f64::EPSILON
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::log::Lsn;
    use super::*;

    fn window(length_us: i64) -> Window {
        let begin_us = 20_000_000;
        let (lsn, end_us) = (Lsn(0), begin_us + length_us);
        Window { from: lsn, from_us: 0, begin: lsn, begin_us, end: lsn, end_us, segments_ahead: 1 }
    }

    #[test]
    fn a_pace_of_n_goes_n_times_through_the_recorded_part_in_the_same_time() {
        for length_us in [60_000_000, 60_000_001] {
            for pace in [2.0, 3.0, 4.0, 50.0] {
                let mut clock = Clock::new(window(length_us), pace);
                let mut passes = 1;
                while clock.again() {
                    passes += 1;
                }
                assert_eq!(f64::from(passes), pace);
                assert_eq!(clock.at(window(length_us).end_us), window(length_us).end_us);
            }
        }
    }

    #[test]
    fn what_comes_before_comes_as_recorded() {
        for pace in [0.5, 1.0, 4.0] {
            let mut clock = Clock::new(window(60_000_000), pace);
            assert_eq!(clock.at(5_000_000), 5_000_000);
            assert_eq!(clock.at(20_000_000), 20_000_000);
            let after = clock.at(44_000_000) - 20_000_000;
            assert_eq!(after as f64, 24_000_000.0 / pace);
            assert_eq!(clock.again(), pace > 1.0);
        }
    }
}
