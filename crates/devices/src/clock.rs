//! The clock of devices that live in real time.

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
