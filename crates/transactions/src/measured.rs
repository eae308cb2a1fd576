//! Measurements made while transactions play.

use block::Telemetry;
use hdrhistogram::Histogram;
use units::Nanos;

/// Kind of a client's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The processor works for it.
    Cpu,
    /// It waits for a lock.
    Lock,
    /// It waits for a frame that somebody uses.
    Frame,
    /// It waits for the write of the page that it wants to replace.
    WriteBack,
    /// It waits for the page that it needs.
    Read,
    /// It waits for the log.
    Log,
    /// It waits to be restarted.
    Restart,
    /// It thinks, or has nothing to do.
    Think,
}

impl Wait {
    /// Number of kinds.
    pub const KINDS: usize = Self::Think as usize + 1;
}

/// Requests of one kind.
#[derive(Clone, Debug)]
pub struct IoFigures {
    /// Time from sending to completion, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Bytes.
    pub bytes: u64,
    /// Requests that took longer than [`crate::Settings::blocked`].
    pub blocked: u64,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that were restarted.
    pub restarts: u64,
    /// Sum of the response times of those that committed, in nanoseconds.
    pub response: u64,
    /// The longest of them.
    pub longest: u64,
}

/// Windows over time, of which pairs are merged when there are too many.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    each: Nanos,
    all: Vec<Window>,
}

impl Windows {
    const FIRST: Nanos = 100_000_000;
    const MOST: usize = 256;

    fn at(&mut self, time: Nanos) -> &mut Window {
        while time / self.each >= Self::MOST as u64 {
            let merged = self.all.chunks(2).map(|pair| {
                pair.iter().fold(Window::default(), |sum, one| Window {
                    committed: sum.committed + one.committed,
                    restarts: sum.restarts + one.restarts,
                    response: sum.response + one.response,
                    longest: sum.longest.max(one.longest),
                })
            });
            self.all = merged.collect();
            self.each *= 2;
        }
        let at = (time / self.each) as usize;
        if at >= self.all.len() {
            self.all.resize(at + 1, Window::default());
        }
        &mut self.all[at]
    }
}

/// Measurements of a play. Times are of the device's clock, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Time from the end of the warm-up to the end of the play.
    pub elapsed: Nanos,
    /// Transactions that committed.
    pub committed: u64,
    /// Number of restarts because of a conflict.
    pub restarts: u64,
    /// Response times of transactions that committed, by kind: from the first begin to the commit,
    /// with restarts and the waits before them.
    pub response: Vec<Histogram<u64>>,
    /// Time from the last begin to the commit: without attempts that were in vain.
    pub last_attempt: Histogram<u64>,
    /// Waits for locks, by their length.
    pub lock_waits: Histogram<u64>,
    /// Page accesses of committed transactions and of others, and those that found their page.
    pub accesses: u64,
    /// See [`Self::accesses`].
    pub hits: u64,
    /// Requests by kind: reads, writes of dirty victims, writes of the background writer and of
    /// checkpoints, writes of the log.
    pub io: [IoFigures; 4],
    /// Checkpoints that ended.
    pub checkpoints: u64,
    /// Time of all clients together, by [`Wait`].
    pub waited: [Nanos; Wait::KINDS],
    /// Telemetry of the device over the measured time.
    pub device: Telemetry,
    /// Transactions and time of the warm-up.
    pub warm_up: (u64, Nanos),
    windows: Windows,
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are allowed")
}

pub(crate) fn record(histogram: &mut Histogram<u64>, value: u64) {
    histogram.record(value).expect("the histogram grows with what it holds");
}

impl Measured {
    pub(crate) fn new(kinds: usize) -> Self {
        let io = || IoFigures { latency: histogram(), bytes: 0, blocked: 0 };
        Self {
            elapsed: 0,
            committed: 0,
            restarts: 0,
            response: (0..kinds).map(|_| histogram()).collect(),
            last_attempt: histogram(),
            lock_waits: histogram(),
            accesses: 0,
            hits: 0,
            io: [io(), io(), io(), io()],
            checkpoints: 0,
            waited: [0; Wait::KINDS],
            device: Telemetry::default(),
            warm_up: (0, 0),
            windows: Windows { each: Windows::FIRST, all: Vec::new() },
        }
    }

    pub(crate) fn commits(&mut self, at: Nanos, kind: u8, response: Nanos, last: Nanos) {
        self.committed += 1;
        record(&mut self.response[usize::from(kind)], response);
        record(&mut self.last_attempt, last);
        let window = self.windows.at(at);
        window.committed += 1;
        window.response += response;
        window.longest = window.longest.max(response);
    }

    pub(crate) fn restarts(&mut self, at: Nanos) {
        self.restarts += 1;
        self.windows.at(at).restarts += 1;
    }

    /// Response times of all kinds together.
    #[must_use]
    pub fn all_responses(&self) -> Histogram<u64> {
        let mut all = histogram();
        for one in &self.response {
            all.add(one).expect("the histogram grows with what it holds");
        }
        all
    }

    /// Mean of the worst one in a hundred, in nanoseconds, rounded up to whole transactions; 0
    /// without any.
    #[must_use]
    pub fn mean_of_worst_percent(histogram: &Histogram<u64>) -> f64 {
        let of = histogram.len().div_ceil(100);
        let (mut left, mut sum) = (of, 0.0);
        let classes: Vec<(u64, u64)> = histogram
            .iter_recorded()
            .map(|class| (class.value_iterated_to(), class.count_since_last_iteration()))
            .collect();
        for (value, count) in classes.into_iter().rev() {
            let taken = count.min(left);
            sum += histogram.median_equivalent(value) as f64 * taken as f64;
            left -= taken;
        }
        if of == 0 { 0.0 } else { sum / of as f64 }
    }

    /// Nanoseconds of a window, and the windows from the end of the warm-up on.
    #[must_use]
    pub fn windows(&self) -> (Nanos, &[Window]) {
        (self.windows.each, &self.windows.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_percent_is_of_whole_transactions() {
        let mut all = histogram();
        (1..=200).for_each(|value| record(&mut all, value));
        assert_eq!(Measured::mean_of_worst_percent(&all), 199.5);
        assert_eq!(Measured::mean_of_worst_percent(&histogram()), 0.0);
    }

    #[test]
    fn windows_merge_and_lose_nothing() {
        let mut measured = Measured::new(1);
        for second in 0..1000u64 {
            measured.commits(second * 1_000_000_000, 0, 5, 5);
        }
        let (each, windows) = measured.windows();
        assert!(windows.len() <= Windows::MOST && each * 256 > 999_000_000_000);
        assert_eq!(windows.iter().map(|w| w.committed).sum::<u64>(), 1000);
    }
}
