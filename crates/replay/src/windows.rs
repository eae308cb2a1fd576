//! Figures of a replay over time, in a bounded number of windows.

use units::{IoOp, Nanos};

/// Figures of the requests that ended within a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Requests, by the number of their operation.
    pub requests: [u64; IoOp::ALL.len()],
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Sum of the latencies in nanoseconds, by the number of the operation.
    pub latency_ns: [u64; IoOp::ALL.len()],
    /// Longest latency in nanoseconds, by the number of the operation.
    pub most_latency_ns: [Nanos; IoOp::ALL.len()],
    /// Greatest lateness of a request, in nanoseconds.
    pub most_late_ns: Nanos,
}

impl Window {
    fn join(&mut self, other: &Self) {
        for op in 0..IoOp::ALL.len() {
            self.requests[op] += other.requests[op];
            self.latency_ns[op] += other.latency_ns[op];
            self.most_latency_ns[op] = self.most_latency_ns[op].max(other.most_latency_ns[op]);
        }
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.most_late_ns = self.most_late_ns.max(other.most_late_ns);
    }
}

/// Windows of equal length from the start of a replay on. When there are more than
/// [`Windows::MOST`], they are joined in pairs.
#[derive(Clone, Debug)]
pub struct Windows {
    /// Length of each, in nanoseconds.
    pub each: Nanos,
    /// From the start on, without gaps.
    pub all: Vec<Window>,
}

impl Windows {
    /// Most windows.
    pub const MOST: usize = 2048;
    /// Length at first, in nanoseconds.
    pub const FIRST: Nanos = 1_000_000;

    pub(crate) fn new() -> Self {
        Self { each: Self::FIRST, all: Vec::new() }
    }

    /// The window of a time since the start.
    pub(crate) fn at(&mut self, time: Nanos) -> &mut Window {
        while time / self.each >= Self::MOST as u64 {
            let pairs = self.all.chunks(2).map(|pair| {
                let mut joined = pair[0];
                pair[1..].iter().for_each(|other| joined.join(other));
                joined
            });
            self.all = pairs.collect();
            self.each *= 2;
        }
        let number = (time / self.each) as usize;
        if number >= self.all.len() {
            self.all.resize(number + 1, Window::default());
        }
        &mut self.all[number]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_is_lost_when_windows_are_joined(
            times in prop::collection::vec(0_u64..20_000_000_000, 1..200),
        ) {
            let mut windows = Windows::new();
            for (number, time) in times.iter().enumerate() {
                let window = windows.at(*time);
                window.requests[1] += 1;
                window.latency_ns[1] += number as u64;
                window.most_latency_ns[1] = window.most_latency_ns[1].max(number as u64);
            }
            prop_assert!(windows.all.len() <= Windows::MOST);
            for (number, window) in (0_u64..).zip(&windows.all) {
                let within = |time: &&u64| **time / windows.each == number;
                prop_assert_eq!(window.requests[1], times.iter().filter(within).count() as u64);
            }
            let sum: u64 = windows.all.iter().map(|window| window.latency_ns[1]).sum();
            prop_assert_eq!(sum, (0..times.len() as u64).sum::<u64>());
            let most = windows.all.iter().map(|window| window.most_latency_ns[1]).max();
            prop_assert_eq!(most, Some(times.len() as u64 - 1));
        }
    }
}
