//! Which writes are part of a long sequential run.

/// Runs that are followed at a time.
const RUNS: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
struct SequentialRun {
    end: u64,
    bytes: u64,
    used: u64,
}

/// Follows the runs of adjacent writes that go on at the same time, the most recent ones.
#[derive(Debug)]
pub struct Sequential {
    least_bytes: u64,
    runs: [SequentialRun; RUNS],
    writes: u64,
}

impl Sequential {
    /// Runs count from this many bytes on.
    pub fn new(least_bytes: u64) -> Self {
        Self {
            least_bytes,
            runs: [SequentialRun { end: u64::MAX, bytes: 0, used: 0 }; RUNS],
            writes: 0,
        }
    }

    /// A write comes: whether its run is long enough with it.
    pub fn is_long(&mut self, offset: u64, length: u32) -> bool {
        self.writes += 1;
        let place = self.runs.iter().position(|run| run.end == offset).unwrap_or_else(|| {
            let oldest = (0..RUNS).min_by_key(|&place| self.runs[place].used).unwrap_or(0);
            self.runs[oldest].bytes = 0;
            oldest
        });
        let run = &mut self.runs[place];
        *run = SequentialRun {
            end: offset + u64::from(length),
            bytes: run.bytes + u64::from(length),
            used: self.writes,
        };
        run.bytes >= self.least_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_long_once_they_have_enough_bytes_even_between_others() {
        let mut sequential = Sequential::new(3000);
        let mut long = Vec::new();
        for step in 0..4 {
            long.push(sequential.is_long(step * 1000, 1000));
            assert!(!sequential.is_long(1_000_000 + step * 5000, 1000), "steps of 5000 are no run");
        }
        assert_eq!(long, [false, false, true, true]);
        assert!(sequential.is_long(77, 3000), "one long write");
    }

    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut sequential = Sequential::new(200);
        assert!(!sequential.is_long(0, 100));
        for other in 1..=RUNS as u64 {
            sequential.is_long(other * 10_000, 100);
        }
        assert!(!sequential.is_long(100, 100));
        assert!(sequential.is_long(200, 100));
    }
}
