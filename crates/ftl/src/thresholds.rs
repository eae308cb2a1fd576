//! Time for which a die, or what stands for it, has to rest before it is given work on the side
//! (REPLICATION 4.2.2).

/// The vector t of thresholds of a die, in units of time: the rest before the first command on the
/// side of an idle period, and after each command before the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thresholds(Vec<u32>);

/// Most commands on the side in one idle period that have a threshold of their own.
const MOST: usize = 64;

impl Thresholds {
    /// The threshold of the command of this number within an idle period.
    #[must_use]
    pub fn of(&self, number: usize) -> u32 {
        self.0.get(number).or(self.0.last()).copied().unwrap_or(0)
    }

    /// Computes the thresholds from the idle periods of the last epoch, `lengths[i]` of them of i
    /// units, for commands that take `work` units each, of which `wanted` were asked for in the
    /// epoch.
    ///
    /// An idle period of i units, t <= i < t + work, makes the request that ends it wait for t +
    /// work - i. The paper seeks the t with the least expected delay. Taken literally, that is a t
    /// that no period reaches. We take the t with the least delay on both sides: the wait of the
    /// requests that end a period, for each command on the side that is done; and t itself for
    /// those commands that a request waits for, which are the share `waited_for` of all. Only those
    /// t are considered that leave room for as many commands as are wanted, one after the other in
    /// each period, or for as many as possible where that is less. Among equals the shortest is
    /// taken. For the next number the same is done with the rest of the periods and of the
    /// commands, until t and work together reach the longest period (the paper's M). Once there is
    /// room for all wanted commands, a period that goes on needs no further rest: commands come in
    /// bursts.
    #[must_use]
    pub fn of_lengths(lengths: &[u32], work: u32, wanted: u64, waited_for: f64) -> Self {
        let work = work.max(1) as usize;
        let longest = lengths.iter().rposition(|&count| count > 0);
        let end = longest.map_or(0, |longest| longest + 1);
        let (mut thresholds, mut from, mut left) = (Vec::new(), 0, wanted.max(1));
        while from < end && left > 0 && thresholds.len() < MOST {
            let Some((threshold, done)) = best(&lengths[from..end], work, left, waited_for) else {
                break;
            };
            thresholds.push(threshold as u32);
            left = left.saturating_sub(done);
            from += threshold + work;
        }
        if !thresholds.is_empty() {
            thresholds.push(0);
        }
        Self(thresholds)
    }
}

/// The threshold over the rest of idle periods, and the number of periods that reach it.
fn best(lengths: &[u32], work: usize, wanted: u64, waited_for: f64) -> Option<(usize, u64)> {
    // From each length on: periods that reach it, commands that fit into those, and the delay.
    let (mut reach, mut room, mut delay) =
        (vec![0; lengths.len() + 1], vec![0; lengths.len() + work], vec![0; lengths.len() + work]);
    for at in (0..lengths.len()).rev() {
        reach[at] = reach[at + 1] + u64::from(lengths[at]);
        room[at] = reach[at] + room[at + work];
        let overrun = (at..lengths.len().min(at + work))
            .map(|length| u64::from(lengths[length]) * (at + work - length) as u64);
        delay[at] = overrun.sum::<u64>() + delay[at + work];
    }
    let enough = wanted.clamp(1, room[0].max(1));
    (0..lengths.len())
        .filter(|&threshold| room[threshold] >= enough)
        .map(|threshold| {
            let delay = delay[threshold] as f64 / room[threshold] as f64;
            (delay + waited_for * threshold as f64, threshold)
        })
        .reduce(|least, next| if next.0 < least.0 { next } else { least })
        .map(|(_, threshold)| (threshold, reach[threshold]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(counts: &[(usize, u32)]) -> Vec<u32> {
        let mut lengths = vec![0; 256];
        counts.iter().for_each(|&(length, count)| lengths[length] = count);
        lengths
    }

    /// Waiting separates many short periods from few long ones.
    #[test]
    fn what_is_done_on_the_side_waits_out_the_short_periods() {
        let both = lengths(&[(1, 900), (2, 100), (100, 50)]);
        let first = Thresholds::of_lengths(&both, 4, 40, 0.0).of(0);
        assert!((3..3 + 4).contains(&first), "{first}");
        // More is wanted than the long periods can take: no rest is required.
        assert!(Thresholds::of_lengths(&both, 4, 2000, 0.0).of(0) < 2);
        // Within the long periods no further rest is required; the last command may not run over
        // their end.
        let all = Thresholds::of_lengths(&both, 4, 40, 0.0);
        assert_eq!((all.of(1), all.of(5)), (0, 0));
    }

    /// The other side of it: a request that waits for the command waits for the threshold, too.
    #[test]
    fn what_a_request_waits_for_waits_no_longer_than_it_saves_others() {
        let both = lengths(&[(1, 900), (2, 100), (100, 50)]);
        assert!(Thresholds::of_lengths(&both, 4, 40, 1.0).of(0) < 3);
    }

    #[test]
    fn nothing_is_waited_for_where_waiting_tells_nothing() {
        // Except for the short time that lets the last command end with the period.
        assert!(Thresholds::of_lengths(&lengths(&[(50, 100)]), 4, 10, 0.0).of(0) < 4);
        assert_eq!(Thresholds::of_lengths(&[], 4, 10, 1.0), Thresholds::default());
        assert_eq!(Thresholds::default().of(3), 0);
    }

    /// Compares with trying every threshold, for the first command.
    #[test]
    fn the_first_threshold_is_the_best_of_all() {
        let mut state = 1_u64;
        for _ in 0..200 {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as u32
            };
            let lengths: Vec<u32> = (0..40).map(|_| next() % 7).collect();
            let (work, wanted) = (1 + next() % 9, u64::from(next() % 60));
            let waited = f64::from(next() % 3) / 2.0;
            let cost = |t: usize| {
                let (mut room, mut delay) = (0, 0);
                for (length, &count) in lengths.iter().enumerate() {
                    let mut at = t;
                    while at <= length {
                        at += work as usize;
                        room += count;
                        delay += count * at.saturating_sub(length) as u32;
                    }
                }
                (u64::from(room) >= wanted.max(1))
                    .then(|| f64::from(delay) / f64::from(room) + waited * t as f64)
            };
            let least = (0..40).filter_map(cost).fold(f64::INFINITY, f64::min);
            let found = Thresholds::of_lengths(&lengths, work, wanted, waited).of(0) as usize;
            if least.is_finite() {
                assert!((cost(found).unwrap() - least).abs() < 1e-12);
            }
        }
    }
}
