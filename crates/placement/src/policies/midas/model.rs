//! Model of the relocations of a configuration of groups, from the intervals between writes of a
//! page, and search for the configuration that relocates least.

/// Intervals between two writes of the same page over an epoch.
#[derive(Debug)]
pub struct Intervals {
    /// Last write of each page in this epoch, in steps from 1 on; the highest bit is set if it was
    /// written once.
    last: Vec<u32>,
    /// Number of intervals by length, in units; the last entry holds all longer ones.
    counts: Vec<u64>,
    /// Writes per step: the steps of an epoch fit into 31 bits.
    step: u64,
    /// Writes per unit.
    unit: u64,
}

const ONCE: u32 = 1 << 31;

impl Intervals {
    /// For an epoch of `writes` writes.
    pub fn new(logical_pages: u32, unit: u32, writes: u64) -> Self {
        Self {
            last: vec![0; logical_pages as usize],
            counts: vec![0; writes.div_ceil(u64::from(unit)) as usize + 1],
            step: (writes >> 30).max(1),
            unit: u64::from(unit),
        }
    }

    /// Records that the host writes a page; `write` is the number of the write within the epoch.
    #[inline]
    pub fn write(&mut self, lpn: u32, write: u64) {
        let now = (write / self.step) as u32 + 1;
        let last = std::mem::replace(&mut self.last[lpn as usize], now);
        if last == 0 {
            self.last[lpn as usize] = now | ONCE;
            return;
        }
        let interval = u64::from(now.saturating_sub(last & !ONCE)) * self.step / self.unit;
        let longest = self.counts.len() - 1;
        self.counts[(interval as usize).min(longest)] += 1;
    }

    /// Ends the epoch and gives the number of intervals of each length. Longer intervals fit less
    /// often into an epoch, which is corrected; pages that were written once count as the longest.
    pub fn finish(&mut self) -> Vec<f64> {
        let once = self.last.iter().filter(|&&last| last & ONCE != 0).count();
        let units = self.counts.len();
        let corrected = |(interval, &count): (usize, &u64)| {
            let count = count as f64;
            if interval == 0 {
                return count;
            }
            let left = (units % interval) as f64 / interval as f64 + 0.5;
            count * (1.0 + left * interval as f64 / units as f64)
        };
        let mut counts: Vec<f64> = self.counts.iter().enumerate().map(corrected).collect();
        counts[units - 1] += once as f64;
        self.last.fill(0);
        self.counts.fill(0);
        counts
    }
}

/// Properties of the hot group, observed or planned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hot {
    /// Share of the host's writes that go there.
    pub traffic: f64,
    /// Size in units of space.
    pub size: f64,
    /// Share of valid pages in its victims.
    pub valid: f64,
}

/// A configuration and its expected results.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub hot: Hot,
    /// Space of each group after the hot one, in units; the last has the rest.
    pub sizes: Vec<f64>,
    /// Share of valid pages in the victims of each of those groups.
    pub valid: Vec<f64>,
    pub write_amplification: f64,
}

/// The load and the available space.
#[derive(Debug)]
pub struct Model<'a> {
    /// Number of intervals by length, in units.
    pub counts: &'a [f64],
    /// Units of space.
    pub space: f64,
    /// Units of valid pages.
    pub valid: f64,
    /// Most groups after the hot one.
    pub most_groups: usize,
    /// The observed hot group, if its size is not to be planned.
    pub fixed: Option<Hot>,
}

/// Greatest size of the hot group that is tried, in units.
const MOST_HOT: usize = 30;

/// Least gain in write amplification for which the first search enlarges the hot group.
const HOT_GAIN: f64 = 0.05;

/// Number of passes of the second phase.
const PASSES: usize = 4;

impl Model<'_> {
    /// Gives the configuration with the least expected relocation; `None` if none can be judged.
    pub fn best(&self) -> Option<Configuration> {
        let mut best = self.first()?;
        let mut longer = best.clone();
        while longer.sizes.len() < self.most_groups {
            longer.sizes.push(0.0);
            let last = longer.sizes.len() - 2;
            let Some(found) = self.resized(&longer, last, None) else { break };
            longer = found;
            if longer.write_amplification < best.write_amplification {
                best = longer.clone();
            }
        }
        for _ in 0..PASSES {
            self.resize_hot(&mut best);
            for number in 0..self.most_groups - 1 {
                let mut tried = best.clone();
                if number + 1 >= tried.sizes.len() {
                    tried.sizes.push(0.0);
                }
                let at_most = Some(best.write_amplification);
                match self.resized(&tried, number, at_most) {
                    Some(found) => best = found,
                    None if number + 1 >= best.sizes.len() => break,
                    None => {}
                }
            }
        }
        Some(best)
    }

    /// Gives the best configuration with one group beside the hot one.
    fn first(&self) -> Option<Configuration> {
        if let Some(hot) = self.fixed {
            return self.judge(hot.size, &[self.space - hot.size]);
        }
        let mut best: Option<Configuration> = None;
        for size in 1..MOST_HOT {
            let size = size as f64;
            if best.as_ref().is_some_and(|best| size < best.hot.size) {
                continue;
            }
            let found = self.judge(size, &[self.space - size]);
            let Some(found) = found else { break };
            if best.as_ref().is_some_and(|best| {
                found.write_amplification >= best.write_amplification - HOT_GAIN
            }) {
                break;
            }
            best = Some(found);
        }
        best
    }

    fn resize_hot(&self, best: &mut Configuration) {
        if self.fixed.is_some() {
            return;
        }
        for size in 1..MOST_HOT {
            let mut sizes = best.sizes.clone();
            let others: f64 = sizes[..sizes.len() - 1].iter().sum();
            let size = size as f64;
            *sizes.last_mut().expect("there is a last group") = self.space - size - others;
            match self.judge(size, &sizes) {
                Some(found) if found.write_amplification < best.write_amplification => {
                    *best = found;
                }
                Some(_) => {}
                None => break,
            }
        }
    }

    /// Gives the configuration with the best size of a group, if it is better than `at_most`. The
    /// last group gives or takes the space.
    fn resized(
        &self,
        of: &Configuration,
        number: usize,
        at_most: Option<f64>,
    ) -> Option<Configuration> {
        let mut sizes = of.sizes.clone();
        let last = sizes.len() - 1;
        sizes[last] += sizes[number];
        sizes[number] = 0.0;
        let mut best: Option<Configuration> = None;
        while sizes[last] > self.space / 10.0 {
            sizes[last] -= 1.0;
            sizes[number] += 1.0;
            let Some(found) = self.judge(of.hot.size, &sizes) else { break };
            let least = best.as_ref().map(|best| best.write_amplification).or(at_most);
            if least.is_none_or(|least| found.write_amplification < least) {
                best = Some(found);
            }
        }
        best
    }

    /// Gives the expected results of these sizes; `None` if pages stay longer in a group than an
    /// epoch shows.
    fn judge(&self, hot_size: f64, sizes: &[f64]) -> Option<Configuration> {
        let mut all: f64 = self.counts.iter().sum();
        let (hot, mut from, mut past, mut held) = self.hot_group(hot_size, all)?;
        let mut sizes = sizes.to_vec();
        let last = sizes.len() - 1;
        sizes[last] -= hot.size - hot_size;
        all -= self.counts[..from].iter().sum::<f64>();
        let mut rate = 1.0 - hot.traffic * (1.0 - hot.valid);
        let mut moved = hot.traffic * hot.valid;
        let mut valid = Vec::with_capacity(sizes.len());
        for &size in &sizes[..last] {
            let until = past + (size - 0.5) / rate;
            let mut died = 0.0;
            if until >= 0.97 * self.counts.len() as f64 || all <= 0.0 {
                return None;
            }
            while (from as f64) < until {
                died += self.counts[from];
                held += (1.0 - died / all) * rate;
                from += 1;
            }
            valid.push(1.0 - died / all);
            all -= died;
            past = until;
            rate *= valid[valid.len() - 1];
            moved += rate;
        }
        let left = self.valid - held;
        if left <= 0.0 || rate <= 0.0 || sizes[last] <= left {
            return None;
        }
        let of_last = 1.0 - 1.0 / self.last_group(from, sizes[last] / left);
        valid.push(of_last);
        moved += rate * of_last / (1.0 - of_last);
        Some(Configuration { hot, sizes, valid, write_amplification: 1.0 + moved })
    }

    /// The hot group of a size: its properties, the first interval and the time after it, and the
    /// valid pages of the younger groups.
    fn hot_group(&self, size: f64, all: f64) -> Option<(Hot, usize, f64, f64)> {
        let (mut died, mut held) = (0.0, 0.0);
        if let Some(hot) = self.fixed {
            let time = ((hot.size - 0.5) / hot.traffic).max(0.0);
            let until = time as usize + 1;
            for count in self.counts.get(..until)? {
                died += count;
                held += (1.0 - died / all) * hot.traffic;
            }
            return Some((hot, until, time, held));
        }
        for (interval, count) in self.counts.iter().enumerate() {
            died += count;
            held += 1.0 - died / all;
            let time = (interval + 1) as f64;
            let taken = (time * died / all).round();
            if taken >= size {
                let hot = Hot { traffic: died / all, size: taken, valid: 0.0 };
                return Some((hot, interval + 1, time, held));
            }
        }
        None
    }

    /// Write amplification of the last group, given its space relative to its valid pages. Its
    /// pages have two frequencies, and lie in segments that are cleaned in order (Desnoyers, SYSTOR
    /// 2012). The hotter ones have less than 0.7 of the mean interval.
    fn last_group(&self, from: usize, space: f64) -> f64 {
        let sums = |until: f64| {
            let all = self.counts.iter().enumerate().skip(from);
            let shorter = all.take_while(|(interval, _)| *interval as f64 <= until);
            shorter.fold((0.0, 0.0), |(writes, pages), (interval, count)| {
                (writes + count, pages + count * interval as f64)
            })
        };
        let (writes, pages) = sums(f64::INFINITY);
        let (of_writes, of_pages) = sums(0.7 * pages / writes);
        let (writes, pages) = (of_writes / writes, of_pages / pages);
        let class = |writes: f64, pages: f64, amplification: f64| {
            if writes > 0.0 && pages > 0.0 {
                writes / ((writes * space / (pages * amplification)).exp_m1())
            } else {
                0.0
            }
        };
        let excess = |amplification: f64| {
            let hot = class(writes, pages, amplification);
            1.0 + hot + class(1.0 - writes, 1.0 - pages, amplification) - amplification
        };
        let (mut low, mut high) = (1.0, 2.0);
        while excess(high) > 0.0 && high < 1e4 {
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if excess(middle) > 0.0 { low = middle } else { high = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::{Hot, Intervals, Model};

    /// Half of the writes are of pages that are written again after 10 units, half after 300.
    fn two_kinds() -> Vec<f64> {
        let mut counts = vec![0.0; 801];
        (counts[10], counts[300]) = (1000.0, 1000.0);
        counts
    }

    /// Valid pages: 5 units of the first kind and 150 of the second.
    fn model(counts: &[f64], fixed: Option<Hot>) -> Model<'_> {
        Model { counts, space: 200.0, valid: 155.0, most_groups: 9, fixed }
    }

    #[test]
    fn intervals_are_counted_in_units() {
        let mut intervals = Intervals::new(8, 4, 32);
        for (write, lpn) in [0, 1, 0, 2, 3, 4, 0, 1, 1].into_iter().enumerate() {
            intervals.write(lpn, write as u64);
        }
        // 2 and 4 writes of page 0, 6 and 1 of page 1, and three pages that were written once.
        assert_eq!(intervals.counts[..3], [2, 2, 0]);
        let counts = intervals.finish();
        assert_eq!(counts[0], 2.0);
        assert!(counts[1] > 2.0, "some did not fit into the epoch: {counts:?}");
        assert_eq!(counts[8], 3.0);
        assert_eq!(intervals.finish().iter().sum::<f64>(), 0.0, "a new epoch");
    }

    /// One frequency: cleaned in order, as a circular log with 0.25 spare.
    #[test]
    fn a_last_group_of_one_frequency_is_a_circular_log() {
        let mut counts = vec![0.0; 801];
        counts[100] = 1000.0;
        let found = model(&counts, None).last_group(0, 1.25);
        assert!((found - models::write_amplification_lru(0.25)).abs() < 1e-3, "{found}");
    }

    /// A queue that is longer than 10 units keeps the half of its pages that live longer.
    #[test]
    fn a_queue_holds_what_outlives_it() {
        let counts = two_kinds();
        let none = Hot { traffic: 1e-9, size: 0.0, valid: 0.0 };
        let model = model(&counts, Some(none));
        let judged = model.judge(0.0, &[12.0, 188.0]).expect("it can be judged");
        assert!((judged.valid[0] - 0.5).abs() < 1e-6, "{judged:?}");
        let judged = model.judge(0.0, &[8.0, 192.0]).expect("it can be judged");
        assert!(judged.valid[0] > 0.99, "too short: {judged:?}");
    }

    /// The best configuration keeps both kinds apart, which a single group does not.
    #[test]
    fn the_search_finds_what_relocates_less() {
        let counts = two_kinds();
        let model = model(&counts, None);
        let best = model.best().expect("it can be judged");
        let none = Hot { traffic: 1e-9, size: 0.0, valid: 0.0 };
        let alone = super::Model { fixed: Some(none), ..model }.judge(0.0, &[200.0]);
        let alone = alone.expect("it can be judged").write_amplification;
        assert!(best.write_amplification < 0.8 * alone, "{best:?}, alone {alone}");
        assert!((best.hot.traffic - 0.5).abs() < 0.01, "{best:?}");
    }
}
