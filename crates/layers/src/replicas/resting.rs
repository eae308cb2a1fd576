//! When a replica is written: once its partition has rested for long enough (REPLICATION 4.2.2).

use std::collections::VecDeque;

use ftl::Thresholds;
use units::Nanos;

use super::pages::Replica;
use super::patience::Kind;
use crate::Data;

/// Lengths of idle periods that are counted apart, in units; the last includes all longer ones.
const LENGTHS: usize = 1024;
/// Most replicas that wait for one partition.
const MOST_WAITING: usize = 16;
const NEVER: Nanos = Nanos::MAX;

/// A replica that waits to be written.
#[derive(Debug)]
pub struct Due {
    pub page: u64,
    pub replica: Replica,
    pub data: Data,
    /// True if a blocked read made it; a write of the host waits for all others.
    pub is_of_read: bool,
}

/// Times of a kind of command in this epoch, in nanoseconds, and their number.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    sum: Nanos,
    count: u64,
}

impl Times {
    fn mean(self, otherwise: Nanos) -> Nanos {
        self.sum.checked_div(self.count).unwrap_or(otherwise)
    }
}

/// What a partition does.
#[derive(Debug, Default)]
struct Partition {
    waiting: VecDeque<Due>,
    /// Commands under way: replicas that are written, and all others.
    replicas: u32,
    requested: u32,
    /// Time since which nothing but replicas was requested; since which nothing is under way; from
    /// which on a request waits for a replica that is written.
    rests_since: Nanos,
    idle_since: Nanos,
    kept_since: Option<Nanos>,
    /// Idle periods by their length in units.
    lengths: Vec<u32>,
    thresholds: Thresholds,
    /// Replicas wanted in this epoch, those of them that a write of the host may wait for, and
    /// those that were begun in this idle period.
    wanted: u64,
    waited_for: u64,
    begun: usize,
    look_at: Nanos,
}

/// The replicas that wait, and what is known of how long partitions rest.
///
/// REPLICATION 4.2.2: each partition has a queue, and a vector of thresholds that is computed at
/// the end of each epoch from the histogram of its idle periods. The unit of time is the mean time
/// of a read in the epoch before, so that there are thresholds from the third epoch on. Before, a
/// replica waits for what is under way alone. Other than in the paper, reads of replicas are sent at once: a
/// request that is blocked waits for them.
#[derive(Debug)]
pub struct Resting {
    /// None if replicas are written at once.
    epoch: Option<Nanos>,
    end: Nanos,
    /// Units in which lengths are counted, and in which thresholds are.
    unit: Nanos,
    step: Nanos,
    times: [Times; 2],
    partitions: Vec<Partition>,
    waiting: usize,
    /// Time in which requests waited for replicas that were written.
    interference: Nanos,
}

impl Resting {
    pub fn new(epoch: Option<Nanos>, partitions: u32) -> Self {
        let partition = || Partition { look_at: NEVER, ..Partition::default() };
        Self {
            epoch,
            end: 0,
            unit: 0,
            step: 0,
            times: [Times::default(); 2],
            partitions: (0..partitions).map(|_| partition()).collect(),
            waiting: 0,
            interference: 0,
        }
    }

    /// Gives the most bytes of its tables, and of the replicas that wait.
    pub const fn most_bytes(partitions: u64, page_bytes: u64) -> (u64, u64) {
        let waiting = MOST_WAITING as u64;
        let each = size_of::<Partition>() as u64 + 4 * LENGTHS as u64;
        let tables = partitions * (each + 2 * waiting * size_of::<Due>() as u64);
        (tables, partitions * waiting * page_bytes)
    }

    /// Gives its memory without the replicas' bytes.
    pub fn bytes(&self) -> u64 {
        let each = |one: &Partition| {
            size_of::<Partition>()
                + 4 * one.lengths.capacity()
                + one.waiting.capacity() * size_of::<Due>()
        };
        self.partitions.iter().map(each).sum::<usize>() as u64
    }

    /// Returns true if replicas wait for partitions to rest.
    pub const fn is_on(&self) -> bool {
        self.epoch.is_some()
    }

    pub const fn interference(&self) -> Nanos {
        self.interference
    }

    /// Number of replicas that wait.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Notes that a command is sent to a partition.
    pub fn begins(&mut self, partition: u32, is_replica: bool, now: Nanos) {
        self.look_at_epoch(now);
        let unit = self.unit;
        let one = &mut self.partitions[partition as usize];
        if is_replica {
            one.replicas += 1;
            one.begun += 1;
            return;
        }
        if one.requested == 0
            && let Some(length) = now.saturating_sub(one.rests_since).checked_div(unit)
        {
            one.lengths.resize(LENGTHS, 0);
            one.lengths[(length as usize).min(LENGTHS - 1)] += 1;
        }
        if one.replicas > 0 {
            one.kept_since.get_or_insert(now);
        }
        one.requested += 1;
    }

    /// Notes that a command has ended in a partition.
    pub fn ends(&mut self, partition: u32, is_replica: bool, now: Nanos) {
        let one = &mut self.partitions[partition as usize];
        if is_replica {
            one.replicas -= 1;
            if one.replicas == 0 {
                self.interference += one.kept_since.take().map_or(0, |since| now - since);
            }
        } else {
            one.requested -= 1;
            if one.requested == 0 {
                (one.rests_since, one.begun) = (now, 0);
            }
        }
        if one.requested + one.replicas == 0 {
            one.idle_since = now;
        }
    }

    /// Notes how long a command took.
    pub fn took(&mut self, kind: Kind, time: Nanos) {
        let times = &mut self.times[kind as usize];
        times.sum += time;
        times.count += 1;
    }

    /// Takes a replica for a partition. Gives it back if too many wait.
    pub fn insert(&mut self, partition: u32, due: Due) -> Result<(), Due> {
        let one = &mut self.partitions[partition as usize];
        one.wanted += 1;
        one.waited_for += u64::from(!due.is_of_read);
        if one.waiting.len() == MOST_WAITING {
            return Err(due);
        }
        one.waiting.push_back(due);
        self.waiting += 1;
        Ok(())
    }

    /// Gives the next replica that may be written to a partition now; else notes when to look.
    pub fn next(&mut self, partition: u32, now: Nanos) -> Option<Due> {
        let step = self.step;
        let one = &mut self.partitions[partition as usize];
        one.look_at = NEVER;
        if one.waiting.is_empty() || one.requested + one.replicas > 0 {
            return None;
        }
        let at = one.idle_since + Nanos::from(one.thresholds.of(one.begun)) * step;
        if at > now {
            one.look_at = at;
            return None;
        }
        self.waiting -= 1;
        one.waiting.pop_front()
    }

    /// Gives the time at which a partition that rests may be written to.
    pub fn next_look(&self) -> Option<Nanos> {
        if self.waiting == 0 {
            return None;
        }
        self.partitions.iter().map(|one| one.look_at).min().filter(|&at| at != NEVER)
    }

    /// Gives a partition whose time has come.
    pub fn due(&self, now: Nanos) -> Option<u32> {
        let place = self.partitions.iter().position(|one| one.look_at <= now)?;
        Some(place as u32)
    }

    /// Computes the thresholds anew at the end of an epoch.
    fn look_at_epoch(&mut self, now: Nanos) {
        let Some(epoch) = self.epoch.filter(|_| now >= self.end) else { return };
        let [read, write] = self.times.map(|times| times.mean(0));
        let unit = self.unit;
        for one in &mut self.partitions {
            if unit > 0 {
                let work = write.max(unit).div_ceil(unit) as u32;
                let waited_for = one.waited_for as f64 / one.wanted.max(1) as f64;
                one.thresholds = Thresholds::of_lengths(&one.lengths, work, one.wanted, waited_for);
            }
            one.lengths.fill(0);
            (one.wanted, one.waited_for) = (0, 0);
        }
        self.step = unit;
        self.unit = if read > 0 { read } else { unit };
        self.times = [Times::default(); 2];
        self.end = now + epoch;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn due(page: u64) -> Due {
        Due {
            page,
            replica: Replica { slot: 0, version: 1, is_written: false },
            data: Data::Absent,
            is_of_read: true,
        }
    }

    /// Lets a partition be asked for a read of a millisecond, and rest for so long after it.
    fn work(resting: &mut Resting, now: &mut Nanos, rest: Nanos) {
        resting.begins(0, false, *now);
        *now += MS;
        resting.ends(0, false, *now);
        resting.took(Kind::Read, MS);
        *now += rest;
    }

    /// Many short periods and a few long ones, through two epochs.
    fn learned() -> (Resting, Nanos) {
        let (mut resting, mut now) = (Resting::new(Some(1_000 * MS), 2), 0);
        for number in 0..600 {
            resting.took(Kind::Write, 4 * MS);
            if number % 20 == 0 {
                resting.insert(0, due(number)).ok();
                resting.next(0, now);
            }
            work(&mut resting, &mut now, if number % 20 == 0 { 60 * MS } else { 2 * MS });
        }
        while resting.next(0, now + 1_000 * MS).is_some() {}
        (resting, now)
    }

    #[test]
    fn a_replica_waits_out_the_short_periods() {
        let (mut resting, mut now) = learned();
        work(&mut resting, &mut now, 0);
        resting.insert(0, due(7)).unwrap();
        assert!(resting.next(0, now).is_none(), "a short period may have begun");
        let at = resting.next_look().unwrap();
        assert!((now + 2 * MS..now + 8 * MS).contains(&at), "{} ms", (at - now) / MS);
        // A request ends the period; it begins again.
        resting.begins(0, false, now + MS);
        assert!(resting.next(0, at).is_none());
        resting.ends(0, false, at + MS);
        assert!(resting.next(0, at + MS).is_none());
        let later = resting.next_look().unwrap();
        assert_eq!(later - (at + MS), at - now);
        assert_eq!(resting.due(later), Some(0));
        assert_eq!(resting.next(0, later).unwrap().page, 7);
        assert_eq!((resting.waiting(), resting.next_look()), (0, None));
    }

    #[test]
    fn without_an_epoch_behind_it_only_what_is_under_way_is_waited_for() {
        let mut resting = Resting::new(Some(1_000 * MS), 2);
        resting.begins(1, false, 5);
        resting.insert(1, due(3)).unwrap();
        assert!(resting.next(1, 6).is_none());
        assert_eq!(resting.next_look(), None, "its end is when to look");
        resting.ends(1, false, 7);
        assert_eq!(resting.next(1, 7).unwrap().page, 3);
    }

    #[test]
    fn a_request_that_comes_while_a_replica_is_written_waits_for_it() {
        let mut resting = Resting::new(Some(MS), 2);
        resting.begins(0, true, 0);
        resting.begins(0, false, 3 * MS);
        resting.begins(0, false, 4 * MS);
        resting.ends(0, true, 5 * MS);
        assert_eq!(resting.interference(), 2 * MS);
        for number in 0..MOST_WAITING as u64 {
            resting.insert(0, due(number)).unwrap();
        }
        assert!(resting.insert(0, due(99)).is_err(), "so many wait and no more");
    }
}
