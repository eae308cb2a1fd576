//! Pace of a flow: the times at which its requests are sent.

use units::Nanos;

/// Rule for the time at which the next request of a flow is sent. Requests are never sent before
/// the one that precedes them.
///
/// SCHEDULER section 7.3.3 replays one by one, first "without consider the time interval between two
/// consecutive IOs", then with waiting that "is calculated by the timestamps in the original IO
/// trace". A trace's timestamps are those of sending, so an interval here is from the sending of
/// one request to the sending of the next. Counting from the end of one request would add the
/// device's own time to every interval: the same trace on the same device would then take longer
/// than it did when it was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At the request's time divided by `factor`, counted from the start, however slow the device
    /// is: a late request does not delay later ones.
    Open {
        /// Speed relative to the source's times: above 0.
        factor: f64,
    },
    /// This many outstanding, each followed by the next after some time to think. A depth of 1
    /// without think time is one by one.
    Closed {
        /// Requests outstanding, at least 1.
        depth: u32,
        /// Time from the end of a request to the start of its successor, in nanoseconds.
        think: Nanos,
    },
    /// When the source's interval from the previous request, divided by `factor`, has passed since
    /// that one was sent, and fewer than `depth` are outstanding: a late request delays all later
    /// ones.
    Intervals {
        /// Most requests outstanding, at least 1.
        depth: u32,
        /// Speed relative to the source's intervals: above 0.
        factor: f64,
    },
    /// This many sent together, and the next as many when all of these have ended: no other request
    /// of the flow is under way during a burst. The source's times are offsets from the start of
    /// the burst, for all requests but its first; they ascend within a burst.
    Bursts {
        /// Requests sent together, at least 1.
        size: u32,
    },
}

impl Pace {
    /// At the times of the source.
    pub const OPEN: Self = Self::Open { factor: 1.0 };

    /// Keeps `depth` requests outstanding, without think time.
    #[must_use]
    pub const fn closed(depth: u32) -> Self {
        Self::Closed { depth, think: 0 }
    }

    /// Returns true if requests have times at which they are due.
    #[must_use]
    pub fn is_timed(self) -> bool {
        matches!(self, Self::Open { .. } | Self::Intervals { .. })
    }

    /// Most requests outstanding, if the pace limits them; otherwise 1.
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
    /// If a factor is not above 0, or a depth or size is 0.
    pub(crate) fn check(self) {
        let factor = match self {
            Self::Open { factor } | Self::Intervals { factor, .. } => factor,
            Self::Closed { .. } | Self::Bursts { .. } => 1.0,
        };
        let goes_on = factor > 0.0 && factor.is_finite() && self.depth() > 0;
        assert!(goes_on, "a pace goes on: {self:?}");
    }
}

/// Scales a time of a source to another speed.
#[must_use]
pub fn scaled(time: Nanos, factor: f64) -> Nanos {
    // Whole nanoseconds are exact up to 2^53, 104 days.
    if factor == 1.0 { time } else { (time as f64 / factor) as Nanos }
}
