//! When the requests of a flow are sent.

use units::Nanos;

/// When the next request of a flow is sent. None is ever sent before the one that comes before it.
///
/// SCHEDULER section 7.4 replays one by one, first "without consider the time interval between two
/// consecutive IOs", then with waiting that "is calculated by the timestamps in the original IO
/// trace". A trace's timestamps are those of sending, so an interval here is from the sending of
/// one request to the sending of the next. From the end of one to the sending of the next would add
/// the device's own time to every interval: the same trace on the same device would then take
/// longer than it did when it was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At its time divided by `factor`, from the start on, however late the device is: what comes
    /// late does not delay what follows.
    Open {
        /// How many times as fast as the source says: above 0.
        factor: f64,
    },
    /// So many outstanding, each followed by the next after some time to think. 1 without it is one
    /// by one.
    Closed {
        /// Requests outstanding, at least 1.
        depth: u32,
        /// From the end of one to the start of the next in its place, in nanoseconds.
        think: Nanos,
    },
    /// When the source's interval from the request before it, divided by `factor`, has passed since
    /// that one was sent, and fewer than `depth` are outstanding: what comes late delays all that
    /// follows.
    Intervals {
        /// Requests outstanding at most, at least 1.
        depth: u32,
        /// How many times as fast as the source the intervals are: above 0.
        factor: f64,
    },
    /// So many sent together, and the next as many when all of these have ended: nothing else of
    /// the flow is under way beside a burst. All but the first of a burst are sent so long after
    /// its start as the source's times say; these ascend within a burst.
    Bursts {
        /// Requests sent together, at least 1.
        size: u32,
    },
}

impl Pace {
    /// At the times of the source.
    pub const OPEN: Self = Self::Open { factor: 1.0 };

    /// So many outstanding, without time to think.
    #[must_use]
    pub const fn closed(depth: u32) -> Self {
        Self::Closed { depth, think: 0 }
    }

    /// Whether requests have times at which they are due.
    #[must_use]
    pub fn is_timed(self) -> bool {
        matches!(self, Self::Open { .. } | Self::Intervals { .. })
    }

    /// Requests outstanding at a time, if the pace says it; otherwise 1.
    #[must_use]
    pub fn depth(self) -> u32 {
        match self {
            Self::Closed { depth, .. }
            | Self::Intervals { depth, .. }
            | Self::Bursts { size: depth } => depth,
            Self::Open { .. } => 1,
        }
    }

    /// # Panics
    /// If it does not go on.
    pub(crate) fn check(self) {
        let factor = match self {
            Self::Open { factor } | Self::Intervals { factor, .. } => factor,
            Self::Closed { .. } | Self::Bursts { .. } => 1.0,
        };
        let goes_on = factor > 0.0 && factor.is_finite() && self.depth() > 0;
        assert!(goes_on, "a pace goes on: {self:?}");
    }
}

/// A time of a source at another speed.
#[must_use]
pub fn scaled(time: Nanos, factor: f64) -> Nanos {
    // Whole nanoseconds are exact up to 2^53, 104 days.
    if factor == 1.0 { time } else { (time as f64 / factor) as Nanos }
}
