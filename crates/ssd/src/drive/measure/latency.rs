//! Latencies of requests, by operation and by cause of delay.

use std::ops::{Index, IndexMut};

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};
use units::{IoOp, Nanos};

use crate::drive::media::{Class, Delays};
use crate::drive::time::{PICOS_PER_NANO, Picos, nanos_of};

/// Part of a request's latency, by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delay {
    /// Everything outside the flash: the host's queue, the controller, the link.
    Queue,
    /// Wait for the channel.
    Channel,
    /// Wait while the die was busy with this.
    Die(Class),
    /// The flash commands' own time: that which an idle drive would take, too.
    Service,
    /// Repeated reads of pages that could not be decoded.
    Retry,
    /// Wait for room in the write-back buffer behind other pages on their way to flash: the delays
    /// of the page that made room in the end count for the other causes.
    Buffer,
    /// Wait until the contents of the write-back buffer were on flash: FLUSH, and writes with FUA.
    /// Time in which the last of these pages waited for cleaning, wear levelling or an erase counts
    /// for those.
    Flush,
}

impl Delay {
    /// Number of delays.
    pub const COUNT: usize = Class::COUNT + 6;

    /// All, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self::Queue; Self::COUNT];
        all[Self::Channel.number()] = Self::Channel;
        let mut class = 0;
        while class < Class::COUNT {
            let delay = Self::Die(Class::ALL[class]);
            all[delay.number()] = delay;
            class += 1;
        }
        all[Self::Service.number()] = Self::Service;
        all[Self::Buffer.number()] = Self::Buffer;
        all[Self::Flush.number()] = Self::Flush;
        all[Self::Retry.number()] = Self::Retry;
        all
    };

    /// Its index in [`Delay::ALL`].
    #[inline]
    #[must_use]
    pub const fn number(self) -> usize {
        match self {
            Self::Queue => 0,
            Self::Channel => 1,
            Self::Die(class) => 2 + class as usize,
            Self::Service => 2 + Class::COUNT,
            Self::Buffer => 3 + Class::COUNT,
            Self::Flush => 4 + Class::COUNT,
            Self::Retry => 5 + Class::COUNT,
        }
    }

    /// The name in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Channel => "channel",
            Self::Die(class) => class.name(),
            Self::Service => "service",
            Self::Buffer => "buffer",
            Self::Flush => "flush",
            Self::Retry => "read_retry",
        }
    }
}

/// A value for each [`Delay`], in the order of [`Delay::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByDelay<T>(pub [T; Delay::COUNT]);

impl<T> Index<Delay> for ByDelay<T> {
    type Output = T;

    #[inline]
    fn index(&self, delay: Delay) -> &T {
        &self.0[delay.number()]
    }
}

impl<T> IndexMut<Delay> for ByDelay<T> {
    #[inline]
    fn index_mut(&mut self, delay: Delay) -> &mut T {
        &mut self.0[delay.number()]
    }
}

impl<T: Serialize> Serialize for ByDelay<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Delay::ALL.iter().map(|delay| delay.name()).zip(&self.0))
    }
}

/// Delays of one request, in picoseconds, on its critical path: for a request of many pages, those
/// of the page that ended last.
pub type RequestDelays = ByDelay<Picos>;

impl RequestDelays {
    /// Sum of the delays.
    #[inline]
    #[must_use]
    pub fn total(&self) -> Picos {
        self.0.iter().sum()
    }

    /// Delays of a request that took `latency` and ended with a flash command whose delays are
    /// `flash`: the rest is [`Delay::Queue`]. For a request that needed no flash, such as a
    /// buffered write, that is all of it: `flash` is then `Delays::default()`. For a write that
    /// waited for room in the buffer, for `stalled` in all, `flash` has the delays in that time of
    /// the page that made room in the end, and the rest of `stalled` is [`Delay::Buffer`].
    ///
    /// # Panics
    /// If the flash command took longer than the request.
    #[inline]
    #[must_use]
    pub fn around(latency: Picos, flash: &Delays, stalled: Picos) -> Self {
        let in_flash = flash.total();
        let inside = in_flash.max(stalled);
        let mut delays = Self::default();
        let queue = latency.checked_sub(inside);
        delays[Delay::Queue] = queue.expect("a flash command lies within its request");
        delays[Delay::Channel] = flash.channel;
        for class in Class::ALL {
            delays[Delay::Die(class)] = flash.die[class as usize];
        }
        delays[Delay::Service] = flash.service;
        delays[Delay::Retry] = flash.retry;
        delays[Delay::Buffer] = inside - in_flash;
        delays
    }

    /// The same request, of whose time `waited` passed until pages of the buffer were on flash.
    /// `last` has the delays in that time of the last of these pages.
    ///
    /// # Panics
    /// If that is longer than the request's time outside the flash.
    #[must_use]
    pub fn with_flush(mut self, waited: Picos, last: &Delays) -> Self {
        let queue = self[Delay::Queue].checked_sub(waited);
        self[Delay::Queue] = queue.expect("a flush lies within its request");
        let mut rest = waited;
        for class in Class::ALL {
            if class != Class::DieBusy {
                let own = last.die[class as usize].min(rest);
                self[Delay::Die(class)] += own;
                rest -= own;
            }
        }
        self[Delay::Flush] += rest;
        self
    }
}

/// A distribution of latencies, in nanoseconds. All values are 0 without requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Number of requests.
    pub count: u64,
    /// Mean latency: exact, not from the histogram.
    pub mean: f64,
    /// Median, to 0.1 %.
    pub p50: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// 99.9th percentile.
    pub p999: Nanos,
    /// 99.99th percentile; `None` for fewer than [`LEAST_FOR_P9999`] requests.
    pub p9999: Option<Nanos>,
    /// Longest latency: exact.
    pub max: Nanos,
}

/// Summary of one [`Delay`]. Times in nanoseconds; all values are 0 without requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DelaySummary {
    /// Number of requests with this delay.
    pub delayed: u64,
    /// Share of these requests in all requests, 0 ... 1.
    pub share_of_requests: f64,
    /// Share of this delay in the sum of all latencies, 0 ... 1; over all delays these add up to 1.
    pub share_of_latency: f64,
    /// Mean over all requests, delayed or not: over all delays these add up to the mean latency.
    pub mean: f64,
    /// Median over the delayed requests, to 0.1 %.
    pub p50: Nanos,
    /// 99th percentile over the delayed requests.
    pub p99: Nanos,
    /// 99.9th percentile over the delayed requests.
    pub p999: Nanos,
    /// 99.99th percentile over the delayed requests; `None` for fewer than [`LEAST_FOR_P9999`].
    pub p9999: Option<Nanos>,
    /// Longest delay: exact.
    pub max: Nanos,
}

/// Latencies and delays of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OpSummary {
    /// The whole latency.
    pub latency: LatencySummary,
    /// The delays that it consists of.
    pub delays: ByDelay<DelaySummary>,
}

/// Latencies of all requests, by operation and delay.
///
/// Histograms have 3 significant digits and begin small; one that reaches minutes takes 0.2 MiB.
#[derive(Clone, Debug)]
pub struct Latencies {
    by_op: [OpLatencies; IoOp::ALL.len()],
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// A record without requests.
    #[must_use]
    pub fn new() -> Self {
        Self { by_op: std::array::from_fn(|_| OpLatencies::new()) }
    }

    /// Records a request.
    ///
    /// # Panics
    /// If the delays do not add up to the latency.
    #[inline]
    pub fn record(&mut self, op: IoOp, latency: Picos, delays: &RequestDelays) {
        assert!(
            delays.total() == latency,
            "a {} took {latency} ps, its delays do not add up to that: {delays:?}",
            op.name()
        );
        let found = &mut self.by_op[op as usize];
        found.latency.add(latency);
        for (distribution, picos) in found.delays.iter_mut().zip(delays.0) {
            // Most requests do not have most delays: those counts follow from the number of
            // requests, and cost nothing here.
            if picos > 0 {
                distribution.add(picos);
            }
        }
    }

    /// Number of requests recorded.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.by_op.iter().map(|found| found.latency.count()).sum()
    }

    /// Summary of one operation.
    #[must_use]
    pub fn of(&self, op: IoOp) -> OpSummary {
        self.by_op[op as usize].summary()
    }

    /// Summary of all operations together.
    #[must_use]
    pub fn all(&self) -> OpSummary {
        let mut sum = OpLatencies::new();
        self.by_op.iter().for_each(|found| sum.merge(found));
        sum.summary()
    }

    /// The latency histogram of an operation: upper end of a bucket in nanoseconds, and requests in
    /// it; ascending, without empty buckets. The ends are the same in all histograms; the last may
    /// be up to 0.1 % beyond the longest latency.
    #[must_use]
    pub fn latency_rows(&self, op: IoOp) -> Vec<(Nanos, u64)> {
        self.by_op[op as usize].latency.rows()
    }

    /// The histogram of one delay of an operation, as [`Self::latency_rows`], over the requests
    /// with that delay.
    #[must_use]
    pub fn delay_rows(&self, op: IoOp, delay: Delay) -> Vec<(Nanos, u64)> {
        self.by_op[op as usize].delays[delay.number()].rows()
    }
}

#[derive(Clone, Debug)]
struct OpLatencies {
    latency: Distribution,
    delays: [Distribution; Delay::COUNT],
}

impl OpLatencies {
    fn new() -> Self {
        Self { latency: Distribution::default(), delays: Default::default() }
    }

    fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.delays.iter_mut().zip(&other.delays).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    fn summary(&self) -> OpSummary {
        let of_all = &self.latency;
        let count = of_all.count();
        let [p50, p99, p999, p9999] = of_all.quantiles(QUANTILES);
        let latency = LatencySummary {
            count,
            mean: ratio(of_all.sum_ns(), count as f64),
            p50,
            p99,
            p999,
            p9999: of_enough(count, p9999),
            max: nanos_of(of_all.max),
        };
        let of_delay = |delay: &Distribution| {
            let [p50, p99, p999, p9999] = delay.quantiles(QUANTILES);
            DelaySummary {
                delayed: delay.count(),
                share_of_requests: ratio(delay.count() as f64, count as f64),
                share_of_latency: ratio(delay.sum_ns(), of_all.sum_ns()),
                mean: ratio(delay.sum_ns(), count as f64),
                p50,
                p99,
                p999,
                p9999: of_enough(delay.count(), p9999),
                max: nanos_of(delay.max),
            }
        };
        OpSummary { latency, delays: ByDelay(self.delays.each_ref().map(of_delay)) }
    }
}

/// The quantiles of a summary.
const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

/// Least number of requests for a 99.99th percentile: with fewer it would be the longest latency.
pub const LEAST_FOR_P9999: u64 = 10_000;

fn of_enough(count: u64, p9999: Nanos) -> Option<Nanos> {
    (count >= LEAST_FOR_P9999).then_some(p9999)
}

/// 0 if `whole` is 0: a run without requests shows no NaN.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Requests by latency, exact below 2^[`EXACT`] ns, then 2^([`EXACT`] - 1) steps to a factor of
/// two: the buckets of a [`Histogram`] of 3 significant digits, which is made from them in the end.
/// They are counted here for speed, as each request counts in several of these.
///
/// Sum and maximum are kept besides in picoseconds, since buckets round.
#[derive(Clone, Debug, Default)]
struct Distribution {
    /// As many as the greatest latency so far needs.
    buckets: Vec<u64>,
    sum: u128,
    max: Picos,
}

const EXACT: u32 = 11;
const STEPS: usize = 1 << (EXACT - 1);

/// The bucket of a latency.
#[inline]
const fn bucket_of(nanos: Nanos) -> usize {
    let shift = (nanos | ((1 << EXACT) - 1)).ilog2() - (EXACT - 1);
    shift as usize * STEPS + (nanos >> shift) as usize
}

/// The least latency of a bucket.
const fn least_of(bucket: usize) -> Nanos {
    if bucket < 2 * STEPS {
        return bucket as Nanos;
    }
    let shift = bucket / STEPS - 1;
    ((bucket - shift * STEPS) as Nanos) << shift
}

impl Distribution {
    #[inline]
    fn add(&mut self, picos: Picos) {
        self.sum += u128::from(picos);
        self.max = self.max.max(picos);
        let bucket = bucket_of(nanos_of(picos));
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        } else {
            self.reach(bucket);
        }
    }

    /// Counts a latency in a bucket that does not exist yet.
    #[cold]
    #[inline(never)]
    fn reach(&mut self, bucket: usize) {
        self.buckets.resize(bucket + 1, 0);
        self.buckets[bucket] = 1;
    }

    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
    }

    fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    fn sum_ns(&self) -> f64 {
        self.sum as f64 / PICOS_PER_NANO as f64
    }

    fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).expect("3 significant digits are within 0 ... 5");
        for (bucket, &count) in self.buckets.iter().enumerate().filter(|&(_, &count)| count > 0) {
            histogram
                .record_n(least_of(bucket), count)
                .expect("a histogram that grows takes any latency");
        }
        histogram
    }

    /// The latencies at these quantiles. They are limited to the maximum, as a bucket's upper end
    /// may lie beyond it, which would look odd beside the exact maximum.
    fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Nanos; N] {
        let histogram = self.histogram();
        shares.map(|share| histogram.value_at_quantile(share).min(nanos_of(self.max)))
    }

    fn rows(&self) -> Vec<(Nanos, u64)> {
        self.histogram()
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delays(queue: Picos, cleaning: Picos, service: Picos) -> RequestDelays {
        let mut delays = RequestDelays::default();
        delays[Delay::Queue] = queue;
        delays[Delay::Die(Class::Cleaning)] = cleaning;
        delays[Delay::Service] = service;
        delays
    }

    #[test]
    fn names_and_order_agree() {
        let json = serde_json::to_string(&ByDelay([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]))
            .unwrap();
        let expected: Vec<_> = Delay::ALL
            .iter()
            .map(|delay| format!("\"{}\":{}", delay.name(), delay.number()))
            .collect();
        assert_eq!(json, format!("{{{}}}", expected.join(",")));
        let names = [
            "queue",
            "channel",
            "die_busy",
            "cleaning",
            "wear_levelling",
            "parity",
            "folding",
            "replication",
            "reconstruction",
            "erase",
            "service",
            "buffer",
            "flush",
            "read_retry",
        ];
        assert_eq!(Delay::ALL.map(Delay::name), names);
    }

    #[test]
    fn nothing_recorded_is_zero_everywhere() {
        let latencies = Latencies::new();
        assert_eq!(latencies.requests(), 0);
        assert_eq!(latencies.all(), OpSummary::default());
        assert_eq!(latencies.of(IoOp::Read), OpSummary::default());
        assert!(latencies.latency_rows(IoOp::Read).is_empty());
        assert!(latencies.delay_rows(IoOp::Write, Delay::Die(Class::Erase)).is_empty());
    }

    #[test]
    fn requests_without_latency_show_no_nan() {
        let mut latencies = Latencies::new();
        latencies.record(IoOp::Trim, 0, &RequestDelays::default());
        let all = latencies.all();
        assert_eq!(all.latency, LatencySummary { count: 1, ..LatencySummary::default() });
        assert_eq!(all.delays, ByDelay::default());
    }

    #[test]
    fn means_and_shares_are_exact() {
        let mut latencies = Latencies::new();
        latencies.record(IoOp::Read, 75_833, &delays(0, 0, 75_833));
        latencies.record(IoOp::Read, 100_000, &delays(500, 24_500, 75_000));
        latencies.record(IoOp::Write, 900_000, &delays(150_000, 0, 750_000));
        let read = latencies.of(IoOp::Read);
        assert_eq!(read.latency.count, 2);
        assert!((read.latency.mean - 87.9165).abs() < 1e-9);
        assert_eq!((read.latency.p50, read.latency.max), (76, 100));
        assert_eq!(
            (
                read.delays[Delay::Die(Class::Cleaning)].delayed,
                read.delays[Delay::Die(Class::Cleaning)].share_of_requests
            ),
            (1, 0.5)
        );
        assert!((read.delays[Delay::Die(Class::Cleaning)].mean - 12.25).abs() < 1e-9);
        assert!(
            (read.delays[Delay::Die(Class::Cleaning)].share_of_latency - 24_500.0 / 175_833.0)
                .abs()
                < 1e-12
        );
        assert_eq!(read.delays[Delay::Die(Class::Erase)], DelaySummary::default());
        let all = latencies.all();
        assert_eq!(
            (all.latency.count, all.latency.max, all.delays[Delay::Queue].delayed),
            (3, 900, 2)
        );
        assert_eq!(latencies.requests(), 3);
        assert_eq!(latencies.of(IoOp::Flush), OpSummary::default());
    }

    #[test]
    fn the_rest_around_a_flash_command_is_queue() {
        let flash = Delays { die: [1, 2, 3, 0, 0, 0, 0, 4], channel: 5, retry: 0, service: 6 };
        let found = RequestDelays::around(30, &flash, 0);
        assert_eq!(
            RequestDelays::around(30, &flash, 25),
            ByDelay([5, 5, 1, 2, 3, 0, 0, 0, 0, 4, 6, 4, 0, 0])
        );
        assert_eq!(found, ByDelay([9, 5, 1, 2, 3, 0, 0, 0, 0, 4, 6, 0, 0, 0]));
        assert_eq!(
            RequestDelays::around(30, &Delays::default(), 0),
            ByDelay([30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        );
    }

    #[test]
    fn a_flush_is_its_own_cause_beside_what_the_drive_did_for_itself() {
        let last = Delays { die: [1, 2, 3, 0, 0, 0, 0, 4], channel: 5, retry: 0, service: 6 };
        let around = RequestDelays::around(30, &Delays::default(), 0);
        assert_eq!(
            around.with_flush(25, &last),
            ByDelay([5, 0, 0, 2, 3, 0, 0, 0, 0, 4, 0, 0, 16, 0])
        );
        assert_eq!(
            around.with_flush(25, &Delays::default()),
            ByDelay([5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0])
        );
        // The page's waits before the flush came are not the flush's.
        assert_eq!(
            around.with_flush(4, &last),
            ByDelay([26, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        );
    }

    #[test]
    #[should_panic(expected = "a flush lies within its request")]
    fn a_flush_longer_than_its_request_is_a_bug() {
        let around = RequestDelays::around(5, &Delays::default(), 0);
        let _ = around.with_flush(6, &Delays::default());
    }

    #[test]
    #[should_panic(expected = "lies within its request")]
    fn a_flash_command_longer_than_its_request_is_a_bug() {
        let _ = RequestDelays::around(5, &Delays { service: 6, ..Delays::default() }, 0);
    }

    #[test]
    #[should_panic(expected = "do not add up")]
    fn delays_that_do_not_add_up_are_a_bug() {
        Latencies::new().record(IoOp::Read, 10, &delays(1, 2, 3));
    }

    #[test]
    fn buckets_are_those_of_the_histogram() {
        let histogram: Histogram<u64> = Histogram::new(3).unwrap();
        for power in 0..62 {
            for nanos in [0, 1, (1 << power) - 1, 1 << power, (1 << power) + (1 << power) / 3] {
                let bucket = bucket_of(nanos);
                assert_eq!(bucket_of(least_of(bucket)), bucket);
                assert_eq!(least_of(bucket), histogram.lowest_equivalent(nanos));
            }
        }
    }

    /// A quantile by sorting: the value that this share of the values does not exceed.
    fn sorted_quantile(values: &[Picos], quantile: f64) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let rank = ((quantile * sorted.len() as f64).ceil() as usize).max(1);
        nanos_of(sorted[rank - 1]) as f64
    }

    proptest! {
        #[test]
        fn agrees_with_sorting(
            requests in prop::collection::vec(
                (0..4_usize, 0..50_000_u64, 0..4_000_000_000_u64, 1..90_000_000_u64),
                1..300,
            ),
        ) {
            let mut latencies = Latencies::new();
            for &(op, queue, cleaning, service) in &requests {
                let cleaning = if cleaning % 3 == 0 { cleaning } else { 0 };
                latencies.record(
                    IoOp::ALL[op],
                    queue + cleaning + service,
                    &delays(queue, cleaning, service),
                );
            }
            for (number, op) in IoOp::ALL.into_iter().enumerate() {
                let whole: Vec<Picos> = requests
                    .iter()
                    .filter(|r| r.0 == number)
                    .map(|&(_, queue, cleaning, service)| {
                        queue + service + if cleaning % 3 == 0 { cleaning } else { 0 }
                    })
                    .collect();
                let found = latencies.of(op);
                prop_assert_eq!(found.latency.count, whole.len() as u64);
                if whole.is_empty() {
                    prop_assert_eq!(found, OpSummary::default());
                    continue;
                }
                for (quantile, value) in [
                    (0.5, found.latency.p50),
                    (0.99, found.latency.p99),
                    (0.999, found.latency.p999),
                ] {
                    let exact = sorted_quantile(&whole, quantile);
                    prop_assert!(
                        (value as f64 - exact).abs() <= exact * 1e-3,
                        "{quantile}: {value} is not {exact}"
                    );
                }
                prop_assert_eq!(found.latency.max, nanos_of(whole.iter().copied().max().unwrap()));
                let mean = whole.iter().sum::<u64>() as f64 / 1e3 / whole.len() as f64;
                prop_assert!((found.latency.mean - mean).abs() <= mean * 1e-12);
                let shares: f64 = found.delays.0.iter().map(|delay| delay.share_of_latency).sum();
                let means: f64 = found.delays.0.iter().map(|delay| delay.mean).sum();
                prop_assert!((shares - 1.0).abs() < 1e-12 && (means - mean).abs() <= mean * 1e-12);
                let rows = latencies.latency_rows(op);
                prop_assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
                prop_assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), whole.len() as u64);
            }
            prop_assert_eq!(latencies.all().latency.count, requests.len() as u64);
        }
    }
}
