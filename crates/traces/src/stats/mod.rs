//! Statistics of a trace in one pass.
//!
//! Memory is bounded by the footprint, not by the number of requests: 12 bytes for each page that
//! is read or written, kept in chunks of 16 pages with 4 bytes of directory each below page 2^28 (1
//! TiB at 4 KiB a page), about 35 above: 12.3 to 14 bytes a page where pages lie together, at worst
//! 230 for a page that stands alone; 60 bytes a stream; and about 5 MB.

mod histogram;
mod over_time;
mod page_states;
mod report;
mod runs;
#[cfg(test)]
mod tests;
mod update_frequency;

use units::{IoOp, IoRequest, Nanos};

use histogram::{Histogram, Octaves};
use over_time::OverTime;
use page_states::{PageStates, Touch};
pub use report::{Column, Number, Table, TraceStatistics};
use runs::Runs;
use update_frequency::UpdateFrequency;

/// Requests whose pages are looked up together.
const BLOCK: usize = 64;

/// Settings of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsOptions {
    /// Bytes of a page, at least 1.
    pub page_bytes: u32,
    /// True if a stream is a disk or volume of its own, so that equal offsets of two streams are
    /// different pages.
    pub streams_are_volumes: bool,
    /// True if times only count requests. Then durations, rates and idle times are not told.
    pub timeless: bool,
}

impl Default for StatsOptions {
    fn default() -> Self {
        Self { page_bytes: 4096, streams_are_volumes: false, timeless: false }
    }
}

/// Statistics in the making: feed it all requests in the order of the trace, then finish.
///
/// # What is counted how
/// - A read or write touches every page that it overlaps; each is one page read or page write.
///   Trims and flushes touch none.
/// - Rewrite distance: page writes from one write of a page to its next, the next one included (1
///   for twice in a row).
/// - Sequential: starts where the request before it of the same stream and the same kind (read,
///   write) ended.
/// - Idle time: from the moment when all requests before have completed to the next one. A request
///   without a known latency counts as completed when it was issued; a trace that tells no latency
///   at all tells no idle times.
/// - A request with an earlier time than one before it counts as issued at the same time as the
///   latest before it, and is told by `time_reversals`.
/// - Windows of time are powers of two in nanoseconds, 200 to 400 of them once the trace is longer
///   than 400 ns.
/// - The picture counts a request where it starts. Where streams are volumes their addresses lie
///   over each other.
#[derive(Debug)]
pub struct Stats {
    options: StatsOptions,
    requests: [u64; 4],
    bytes: [u64; 4],
    sizes: [Octaves; 4],
    latencies: [Histogram; 4],
    clock: Clock,
    address_end: u64,
    runs: Runs,
    pages: PageStates,
    over_time: OverTime,
}

/// Times of requests.
#[derive(Debug)]
struct Clock {
    first_ns: Option<Nanos>,
    latest_ns: Nanos,
    completed_ns: Nanos,
    idle_ns: u64,
    reversals: u64,
    inter_arrival: Histogram,
    idle: Histogram,
}

impl Clock {
    /// Nanoseconds from the first request to this one.
    #[inline]
    fn advance(&mut self, request: &IoRequest) -> u64 {
        let Some(first_ns) = self.first_ns else {
            (self.first_ns, self.latest_ns) = (Some(request.time_ns), request.time_ns);
            self.completed_ns = request.time_ns.saturating_add(request.latency_ns.unwrap_or(0));
            return 0;
        };
        self.reversals += u64::from(request.time_ns < self.latest_ns);
        let now_ns = request.time_ns.max(self.latest_ns);
        self.inter_arrival.add(now_ns - self.latest_ns);
        if now_ns > self.completed_ns {
            self.idle.add(now_ns - self.completed_ns);
            self.idle_ns += now_ns - self.completed_ns;
        }
        self.latest_ns = now_ns;
        self.completed_ns =
            self.completed_ns.max(now_ns.saturating_add(request.latency_ns.unwrap_or(0)));
        now_ns - first_ns
    }
}

impl Stats {
    /// No requests yet.
    ///
    /// # Panics
    /// If a page has 0 bytes.
    #[must_use]
    pub fn new(options: StatsOptions) -> Self {
        assert!(options.page_bytes > 0, "a page has at least 1 byte");
        let clock = Clock {
            first_ns: None,
            latest_ns: 0,
            completed_ns: 0,
            idle_ns: 0,
            reversals: 0,
            inter_arrival: Histogram::new(),
            idle: Histogram::new(),
        };
        Self {
            options,
            requests: [0; 4],
            bytes: [0; 4],
            sizes: std::array::from_fn(|_| Octaves::new()),
            latencies: std::array::from_fn(|_| Histogram::new()),
            clock,
            address_end: 0,
            runs: Runs::new(),
            pages: PageStates::new(),
            over_time: OverTime::new(),
        }
    }

    /// Takes the next requests of the trace.
    pub fn feed(&mut self, requests: &[IoRequest]) {
        for block in requests.chunks(BLOCK) {
            self.bring_pages_near(block);
            for request in block {
                self.take(request);
            }
        }
    }

    fn bring_pages_near(&mut self, block: &[IoRequest]) {
        let (mut places, mut count) = ([0; BLOCK], 0);
        for request in block
            .iter()
            .filter(|request| request.length > 0 && matches!(request.op, IoOp::Read | IoOp::Write))
        {
            let volume = self.volume(request.stream);
            places[count] =
                self.pages.locate(volume, request.offset / u64::from(self.options.page_bytes));
            count += 1;
        }
        self.pages.bring_near(&places[..count]);
    }

    /// Number of the volume, 0 for all streams if they are not volumes.
    #[inline]
    fn volume(&mut self, stream: u32) -> u32 {
        if self.options.streams_are_volumes { self.runs.stream(stream) as u32 } else { 0 }
    }

    #[inline]
    fn take(&mut self, request: &IoRequest) {
        let kind = request.op as usize;
        let length = u64::from(request.length);
        self.requests[kind] += 1;
        self.bytes[kind] += length;
        if let Some(latency_ns) = request.latency_ns {
            self.latencies[kind].add(latency_ns);
        }
        let now_ns = self.clock.advance(request);
        let volume = self.volume(request.stream);
        let index = self.over_time.window(now_ns);
        let OverTime { windows, shift, picture } = &mut self.over_time;
        let window = &mut windows[index];
        window.requests[kind] += 1;
        window.bytes[kind] += length;
        self.runs.stream(request.stream);
        if length == 0 {
            return;
        }
        self.sizes[kind].add(length);
        let is_write = match request.op {
            IoOp::Read => false,
            IoOp::Write => true,
            IoOp::Trim | IoOp::Flush => return,
        };
        self.runs.add(request, is_write);
        picture.add(index, request.offset, is_write);
        let last_byte = request.offset.saturating_add(length - 1);
        self.address_end = self.address_end.max(last_byte.saturating_add(1));
        let page_bytes = u64::from(self.options.page_bytes);
        let touch = Touch { now_ns, is_write };
        self.pages.make_room(now_ns, *shift);
        self.pages.touch(
            volume,
            request.offset / page_bytes,
            last_byte / page_bytes,
            touch,
            |class| window.first_touches[class] += 1,
        );
    }

    /// Gives the statistics of all requests.
    #[must_use]
    pub fn finish(mut self) -> TraceStatistics {
        self.runs.close();
        let updates = UpdateFrequency::new(self.pages.write_counts());
        let mut scalars = self.count_scalars();
        scalars.extend(self.page_scalars(&updates));
        scalars.extend(self.time_scalars());
        let mut tables = vec![
            self.size_table(),
            self.run_table(),
            updates.skew(),
            updates.histogram(),
            self.distance_table(),
        ];
        tables.extend([self.window_table(), self.picture_table()]);
        if !self.options.timeless {
            tables.push(time_table("inter_arrival", &self.clock.inter_arrival));
        }
        if self.tells_idle_times() {
            tables.extend([time_table("idle", &self.clock.idle), self.latency_table()]);
        }
        TraceStatistics { scalars, tables }
    }

    fn with_latency(&self) -> u64 {
        self.latencies.iter().map(Histogram::total).sum()
    }

    fn tells_idle_times(&self) -> bool {
        !self.options.timeless && self.with_latency() > 0
    }

    fn count_scalars(&self) -> Vec<(&'static str, Number)> {
        let [reads, writes, trims, flushes] = self.requests;
        let [read_bytes, write_bytes, trim_bytes, _] = self.bytes;
        let [sequential_reads, sequential_writes] = self.runs.continuing;
        vec![
            ("requests", Number::Integer(self.requests.iter().sum())),
            ("reads", Number::Integer(reads)),
            ("writes", Number::Integer(writes)),
            ("trims", Number::Integer(trims)),
            ("flushes", Number::Integer(flushes)),
            ("read_bytes", Number::Integer(read_bytes)),
            ("write_bytes", Number::Integer(write_bytes)),
            ("trim_bytes", Number::Integer(trim_bytes)),
            ("read_share_of_requests", ratio(reads, reads + writes)),
            ("read_share_of_bytes", ratio(read_bytes, read_bytes + write_bytes)),
            ("mean_read_bytes", ratio(read_bytes, reads)),
            ("mean_write_bytes", ratio(write_bytes, writes)),
            ("streams", Number::Integer(self.runs.streams())),
            ("sequential_share_of_reads", ratio(sequential_reads, reads)),
            ("sequential_share_of_writes", ratio(sequential_writes, writes)),
            ("address_end_bytes", Number::Integer(self.address_end)),
        ]
    }

    fn page_scalars(&self, updates: &UpdateFrequency) -> Vec<(&'static str, Number)> {
        let page_bytes = u64::from(self.options.page_bytes);
        let [all, read, written] = self.pages.footprint();
        let bytes = |pages: u64| Number::Integer(pages.saturating_mul(page_bytes));
        vec![
            ("page_bytes", Number::Integer(page_bytes)),
            ("page_reads", Number::Integer(self.pages.page_reads)),
            ("page_writes", Number::Integer(self.pages.page_writes)),
            ("footprint_pages", Number::Integer(all)),
            ("footprint_read_pages", Number::Integer(read)),
            ("footprint_written_pages", Number::Integer(written)),
            ("footprint_bytes", bytes(all)),
            ("footprint_written_bytes", bytes(written)),
            ("mean_updates_per_written_page", ratio(self.pages.page_writes, written)),
            ("update_share_of_hottest_1_percent", real(updates.share_of_hottest(0.01))),
            ("update_share_of_hottest_20_percent", real(updates.share_of_hottest(0.2))),
            ("rewrite_distance_told_apart_up_to", Number::Integer(self.pages.open_distance() - 1)),
        ]
    }

    fn time_scalars(&self) -> Vec<(&'static str, Number)> {
        let Clock { first_ns, latest_ns, idle_ns, reversals, inter_arrival, .. } = &self.clock;
        let duration_ns = first_ns.map_or(0, |first_ns| latest_ns - first_ns);
        let timeless = self.options.timeless;
        let told = |number: Number| if timeless { Number::Unknown } else { number };
        let per_second = |count: u64| {
            told(if duration_ns == 0 {
                Number::Unknown
            } else {
                Number::Real(count as f64 * 1e9 / duration_ns as f64)
            })
        };
        let quantile = |share: f64| {
            told(inter_arrival.quantile(share).map_or(Number::Unknown, Number::Integer))
        };
        vec![
            ("duration_ns", told(Number::Integer(duration_ns))),
            ("time_reversals", Number::Integer(*reversals)),
            ("requests_per_second", per_second(self.requests.iter().sum())),
            ("reads_per_second", per_second(self.requests[0])),
            ("writes_per_second", per_second(self.requests[1])),
            ("read_bytes_per_second", per_second(self.bytes[0])),
            ("write_bytes_per_second", per_second(self.bytes[1])),
            ("inter_arrival_ns_p50", quantile(0.5)),
            ("inter_arrival_ns_p99", quantile(0.99)),
            (
                "inter_arrival_ns_max",
                told(inter_arrival.largest().map_or(Number::Unknown, Number::Integer)),
            ),
            (
                "idle_ns",
                if self.tells_idle_times() { Number::Integer(*idle_ns) } else { Number::Unknown },
            ),
            (
                "idle_share_of_time",
                if self.tells_idle_times() {
                    ratio(*idle_ns, duration_ns)
                } else {
                    Number::Unknown
                },
            ),
            ("requests_with_latency", Number::Integer(self.with_latency())),
            ("window_ns", Number::Integer(1 << self.over_time.shift)),
            ("picture_row_bytes", Number::Integer(1 << self.over_time.picture.shift)),
        ]
    }

    fn size_table(&self) -> Table {
        let [reads, writes, trims, _] = &self.sizes;
        let rows = Octaves::rows([reads, writes, trims])
            .map(|(lower, upper, [reads, writes, trims])| [lower, upper, reads, writes, trims]);
        Table::of_integers(
            "request_sizes",
            ["from_bytes", "to_bytes", "reads", "writes", "trims"],
            rows,
        )
    }

    fn run_table(&self) -> Table {
        let [reads, writes] = &self.runs.lengths;
        let rows = Octaves::rows([reads, writes])
            .map(|(lower, upper, [reads, writes])| [lower, upper, reads, writes]);
        Table::of_integers(
            "sequential_runs",
            ["from_requests", "to_requests", "read_runs", "write_runs"],
            rows,
        )
    }

    fn distance_table(&self) -> Table {
        let open = self.pages.open_distance();
        let rows = Octaves::rows([&self.pages.rewrite_distances]);
        // The last class is open: it holds all longer distances too.
        let rows = rows.map(|(lower, upper, [rewrites])| {
            [lower, if lower == open { u64::MAX } else { upper }, rewrites]
        });
        Table::of_integers(
            "rewrite_distance",
            ["from_page_writes", "to_page_writes", "rewrites"],
            rows,
        )
    }

    fn window_table(&self) -> Table {
        let OverTime { shift, windows, .. } = &self.over_time;
        let names = [
            "start_ns",
            "reads",
            "writes",
            "trims",
            "flushes",
            "read_bytes",
            "write_bytes",
            "distinct_pages",
        ];
        let rows = windows.iter().zip(self.over_time.distinct_pages()).enumerate().map(
            |(index, (window, distinct))| {
                let [reads, writes, trims, flushes] = window.requests;
                [
                    (index as u64) << shift,
                    reads,
                    writes,
                    trims,
                    flushes,
                    window.bytes[0],
                    window.bytes[1],
                    distinct,
                ]
            },
        );
        Table::of_integers("over_time", names, rows)
    }

    fn picture_table(&self) -> Table {
        let OverTime { shift, picture, .. } = &self.over_time;
        let rows = picture.filled().map(|(window, offset, [reads, writes])| {
            [window << shift, offset, u64::from(reads), u64::from(writes)]
        });
        Table::of_integers("picture", ["start_ns", "from_byte", "reads", "writes"], rows)
    }

    fn latency_table(&self) -> Table {
        let [reads, writes, trims, flushes] = &self.latencies;
        let rows = Histogram::rows([reads, writes, trims, flushes]);
        let rows = rows.map(|(lower, upper, [reads, writes, trims, flushes])| {
            [lower, upper, reads, writes, trims, flushes]
        });
        Table::of_integers(
            "latency",
            ["from_ns", "to_ns", "reads", "writes", "trims", "flushes"],
            rows,
        )
    }
}

fn time_table(name: &'static str, histogram: &Histogram) -> Table {
    Table::of_integers(
        name,
        ["from_ns", "to_ns", "count"],
        Histogram::rows([histogram]).map(|(lower, upper, [count])| [lower, upper, count]),
    )
}

fn ratio(part: u64, whole: u64) -> Number {
    if whole == 0 { Number::Unknown } else { Number::Real(part as f64 / whole as f64) }
}

fn real(value: Option<f64>) -> Number {
    value.map_or(Number::Unknown, Number::Real)
}
