//! When requests are sent.

use units::Nanos;

/// When the next request of a trace is sent. None is ever sent before the one that comes before it
/// in the trace.
///
/// SCHEDULER section 7.4 replays one by one, first "without consider the time interval between two
/// consecutive IOs", then with waiting that "is calculated by the timestamps in the original IO
/// trace". A trace's timestamps are those of sending, so an interval here is from the sending of
/// one request to the sending of the next. From the end of one to the sending of the next would add
/// the device's own time to every interval: the same trace on the same device would then take
/// longer than it did when it was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At its time in the trace divided by `factor`, from the start of the replay, however late the
    /// device is: what comes late does not delay what follows.
    Open {
        /// How many times as fast as recorded: above 0.
        factor: f64,
    },
    /// As soon as fewer than `depth` are outstanding, and no flush is: the kernel makes one of
    /// flushes that are outstanding together, and has them overtaken by what follows, so that the
    /// device would get another sequence than the trace's. With a `waiting` not before the trace's
    /// interval from the request before it, divided by that factor, has passed since that one was
    /// sent: what comes late delays all that follows.
    Closed {
        /// Requests outstanding, at least 1; 1 is one by one.
        depth: u32,
        /// How many times as fast as recorded the intervals are: above 0. `None` is without
        /// waiting.
        waiting: Option<f64>,
    },
}

impl Pace {
    /// Whether requests have times at which they are due.
    #[must_use]
    pub fn is_timed(self) -> bool {
        match self {
            Self::Open { .. } => true,
            Self::Closed { waiting, .. } => waiting.is_some(),
        }
    }

    /// Most requests outstanding on a device that takes `queue_depth`.
    #[must_use]
    pub fn most_outstanding(self, queue_depth: u32) -> u32 {
        match self {
            Self::Open { .. } => queue_depth,
            Self::Closed { depth, .. } => depth.min(queue_depth),
        }
    }
}

/// A time of a trace at another speed.
pub(crate) fn scaled(time: Nanos, factor: f64) -> Nanos {
    // Whole nanoseconds are exact up to 2^53, 104 days.
    if factor == 1.0 { time } else { (time as f64 / factor) as Nanos }
}
