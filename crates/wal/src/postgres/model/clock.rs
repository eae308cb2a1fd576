//! The clock of a load that comes faster, or slower, than it was recorded.

use super::replay::Window;

/// Maps times of a recording to those of a load at another pace.
///
/// All that is measured by a clock stays as it is: the timeouts of checkpoints, the rounds of
/// writers, how long the kernel holds pages back. So a load at twice the pace changes a page twice
/// as often before it is written. As much time counts as was recorded: a faster load goes through
/// the recorded part of the log again, a slower one ends within it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    window: Window,
    pace: f64,
    /// Time of the passes through the recorded part that are over, all but the last.
    passed_us: i64,
}

impl Clock {
    /// `pace`: commits a second over those of the recording, above 0.
    pub fn new(window: Window, pace: f64) -> Self {
        Self { window, pace, passed_us: 0 }
    }

    /// Time of what happened at a recorded time, in the pass that goes on.
    pub fn at(&self, recorded_us: i64) -> i64 {
        self.window.from_us + self.passed_us + self.shortened(recorded_us - self.window.from_us)
    }

    /// When it begins to count.
    pub fn begin_us(&self) -> i64 {
        self.window.from_us + self.shortened(self.window.begin_us - self.window.from_us)
    }

    /// When it ends.
    pub fn end_us(&self) -> i64 {
        self.begin_us() + self.window.end_us - self.window.begin_us
    }

    /// True if a time lies behind the end; never at the recorded pace, at which all of the log
    /// counts.
    pub fn is_behind_end(&self, time_us: i64) -> bool {
        self.is_other() && time_us > self.end_us()
    }

    /// Begins another pass through the recorded part of the log; false if the time is over.
    pub fn again(&mut self) -> bool {
        let goes_on = self.is_other() && self.at(self.window.end_us) < self.end_us();
        if goes_on {
            self.passed_us += self.shortened(self.window.end_us - self.window.begin_us).max(1);
        }
        goes_on
    }

    fn is_other(&self) -> bool {
        (self.pace - 1.0).abs() > f64::EPSILON
    }

    fn shortened(&self, time_us: i64) -> i64 {
        if self.is_other() { (time_us as f64 / self.pace) as i64 } else { time_us }
    }
}
