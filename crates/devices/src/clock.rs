//! The clock of devices that live in real time.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use units::Nanos;

/// Nanoseconds since it was made (`CLOCK_MONOTONIC`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

/// A sleeping thread is woken late by some tens of microseconds: the last of a time is waited for
/// awake.
pub(crate) const AWAKE: Nanos = 60_000;

impl Clock {
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub fn now(&self) -> Nanos {
        let since = self.origin.elapsed();
        since.as_secs() * 1_000_000_000 + Nanos::from(since.subsec_nanos())
    }

    /// Waits until this time, asleep but for the last of it.
    pub fn sleep_until(&self, until: Nanos) {
        wake_promptly();
        loop {
            let left = until.saturating_sub(self.now());
            if left == 0 {
                return;
            }
            if left > AWAKE {
                std::thread::sleep(Duration::from_nanos(left - AWAKE));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// The kernel may wake a thread 50 us late to wake others with it: this thread never from now on.
pub(crate) fn wake_promptly() {
    thread_local!(static IS_PROMPT: Cell<bool> = const { Cell::new(false) });
    if !IS_PROMPT.replace(true) {
        // Where that is refused, it is late as before.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_slept_is_woken_without_slack() {
        Clock::start().sleep_until(1);
        assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1);
    }
}
