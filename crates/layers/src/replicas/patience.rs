//! When a command counts as blocked: D = 2 C_W (REPLICATION table 1).

use units::Nanos;

/// Writes from which on their times are a measurement.
const LEAST_WRITES: u32 = 32;
/// Writes after which each of those before counts for half.
const REMEMBERED: u32 = 1024;
/// Classes of times for each doubling.
const PER_DOUBLING: u32 = 8;
const CLASSES: usize = 64 * PER_DOUBLING as usize;

/// The patience D: given, or twice the measured time of a write that nothing blocks.
///
/// The paper's C_W is the time of a write "without cleaning", which its simulator knows. Here it is
/// the lower quartile of the times of writes to homes: it holds as long as one write in four is
/// not blocked, where a mean would follow the blocked ones.
#[derive(Debug)]
pub struct Patience {
    fixed: Option<Nanos>,
    /// From an earlier life of the volume, until there are enough writes.
    noted: Option<Nanos>,
    counts: Vec<u32>,
    writes: u32,
    measured: Option<Nanos>,
}

impl Patience {
    /// `noted` is the time of a write as it was measured before; 0 if it was not.
    pub fn new(fixed: Option<Nanos>, noted: Nanos) -> Self {
        let noted = (noted > 0).then_some(noted);
        Self { fixed, noted, counts: vec![0; CLASSES], writes: 0, measured: None }
    }

    /// D; none as long as nothing is known, and then nothing counts as blocked.
    pub fn get(&self) -> Option<Nanos> {
        // A device without latency is not blocked by its own clock's step.
        const LEAST: Nanos = 1_000;
        self.fixed.or_else(|| self.write_ns().map(|time| (2 * time).max(LEAST)))
    }

    /// C_W, in nanoseconds.
    pub fn write_ns(&self) -> Option<Nanos> {
        self.measured.or(self.noted)
    }

    /// A write took so long, from sending to its end.
    pub fn took(&mut self, time: Nanos) {
        if self.writes == REMEMBERED {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.writes = self.counts.iter().sum();
        }
        self.counts[class_of(time)] += 1;
        self.writes += 1;
        if self.writes >= LEAST_WRITES && self.writes.is_multiple_of(8) {
            let (mut seen, quarter) = (0, self.writes.div_ceil(4));
            let class = self.counts.iter().position(|count| {
                seen += count;
                seen >= quarter
            });
            self.measured = class.map(end_of);
        }
    }
}

/// Times are divided by their highest bits.
fn class_of(time: Nanos) -> usize {
    let time = time.max(u64::from(PER_DOUBLING));
    let doubling = time.ilog2() - PER_DOUBLING.ilog2();
    let part = (time >> doubling) as u32 - PER_DOUBLING;
    (doubling * PER_DOUBLING + part) as usize
}

/// The time at which a class ends.
fn end_of(class: usize) -> Nanos {
    let (doubling, part) = (class as u32 / PER_DOUBLING, class as u32 % PER_DOUBLING);
    u64::from(PER_DOUBLING + part + 1) << doubling
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_its_times() {
        for time in [8, 9, 15, 16, 100, 250_000, 9_999_999, 1 << 40] {
            let end = end_of(class_of(time));
            assert!(end > time && end as f64 <= 1.13 * time as f64 + 1.0, "{time}: {end}");
        }
    }

    /// The mean of these is beyond 3 ms: it would be no sign of anything that they take 0.1 ms.
    #[test]
    fn patience_is_twice_a_write_that_nothing_blocks() {
        let mut patience = Patience::new(None, 0);
        for number in 0..LEAST_WRITES {
            assert_eq!(patience.get(), None);
            patience.took(if number % 3 == 0 { 10_000_000 } else { 100_000 });
        }
        let found = patience.get().unwrap();
        assert!((200_000..=226_000).contains(&found), "{found}");
        // It follows a device that has become slower.
        (0..20_000).for_each(|_| patience.took(400_000));
        let found = patience.get().unwrap();
        assert!((800_000..=904_000).contains(&found), "{found}");
    }

    #[test]
    fn what_is_given_or_noted_needs_no_measurement() {
        assert_eq!(Patience::new(Some(7_000), 9).get(), Some(7_000));
        assert_eq!(Patience::new(None, 100_000).get(), Some(200_000));
    }
}
