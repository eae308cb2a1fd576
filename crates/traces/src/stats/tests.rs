//! The statistics against plain counting over the whole list of requests.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;

use super::*;

const PAGE: u64 = 4096;

/// Requests that hit few pages often, in all sizes, now and then in a row, with times that jump,
/// stand and go back.
fn requests() -> impl Strategy<Value = Vec<IoRequest>> {
    let places = (
        0u64..40,
        prop_oneof![Just(0u64), Just(1 << 21), Just(1 << 37), Just(1 << 62)],
        0u64..8192,
        1u32..40_000,
    );
    let times = (
        prop_oneof![4 => 0u64..3000, 1 => Just(0), 1 => 0u64..1 << 40],
        0u32..8,
        prop::option::weighted(0.5, 0u64..5000),
    );
    let ops = prop_oneof![
        4 => Just(IoOp::Read),
        6 => Just(IoOp::Write),
        1 => Just(IoOp::Trim),
        1 => Just(IoOp::Flush),
    ];
    let one = (ops, places, times, prop_oneof![0u32..4, Just(u32::MAX)], any::<bool>());
    prop::collection::vec(one, 0..400).prop_map(|parts| {
        let (mut requests, mut time_ns, mut ends): (Vec<IoRequest>, u64, HashMap<u32, u64>) =
            (Vec::new(), 5000, HashMap::new());
        for (op, (page, far, within, length), (step, back, latency_ns), stream, continues) in parts
        {
            time_ns =
                if back == 0 { time_ns.saturating_sub(step.min(4000)) } else { time_ns + step };
            let scattered = far + page * PAGE + within;
            let offset =
                if continues { *ends.get(&stream).unwrap_or(&scattered) } else { scattered };
            let (offset, length) = if op == IoOp::Flush { (0, 0) } else { (offset, length) };
            ends.insert(stream, offset + u64::from(length));
            requests.push(IoRequest {
                time_ns,
                op,
                offset,
                length,
                stream,
                latency_ns,
                handle: 0,
                is_fua: false,
            });
        }
        requests
    })
}

fn found(requests: &[IoRequest], options: StatsOptions, batch: usize) -> TraceStatistics {
    let mut stats = Stats::new(options);
    requests.chunks(batch).for_each(|batch| stats.feed(batch));
    stats.finish()
}

fn integer(stats: &TraceStatistics, name: &str) -> u64 {
    match stats.scalar(name) {
        Some(Number::Integer(value)) => value,
        other => panic!("`{name}` is {other:?}"),
    }
}

fn assert_ratio(stats: &TraceStatistics, name: &str, part: u64, whole: u64) {
    let expected =
        if whole == 0 { Number::Unknown } else { Number::Real(part as f64 / whole as f64) };
    assert_eq!(stats.scalar(name), Some(expected), "{name}");
}

/// Times as the statistics take them: never before the latest.
fn monotone(requests: &[IoRequest]) -> Vec<u64> {
    let mut latest = 0;
    let times = requests.iter().map(|r| {
        latest = r.time_ns.max(latest);
        latest
    });
    let times: Vec<u64> = times.collect();
    times.iter().map(|t| t - times[0]).collect()
}

fn pages(request: &IoRequest, volumes: bool) -> impl Iterator<Item = (u32, u64)> + use<> {
    let volume = if volumes { request.stream } else { 0 };
    let range = match request.op {
        IoOp::Read | IoOp::Write => {
            request.offset / PAGE..(request.offset + u64::from(request.length)).div_ceil(PAGE)
        }
        _ => 0..0,
    };
    range.map(move |page| (volume, page))
}

/// Counts in the buckets of a table with the columns from, to, count: every value must find exactly
/// one.
fn assert_histogram(stats: &TraceStatistics, table: &str, columns: [&str; 3], values: &[u64]) {
    let table = stats.table(table).unwrap();
    let [from, to, count] = columns.map(|column| table.integers(column));
    let mut expected = vec![0; from.len()];
    for value in values {
        let row = (0..from.len()).find(|&row| (from[row]..=to[row]).contains(value));
        expected[row.unwrap_or_else(|| panic!("{value} is in no bucket of {}", table.name))] += 1;
    }
    assert_eq!(count, expected, "{} {}", table.name, columns[2]);
}

fn check_counts(requests: &[IoRequest], stats: &TraceStatistics) {
    let of = |op: IoOp| requests.iter().filter(move |r| r.op == op);
    for (op, count, bytes) in [
        (IoOp::Read, "reads", "read_bytes"),
        (IoOp::Write, "writes", "write_bytes"),
        (IoOp::Trim, "trims", "trim_bytes"),
    ] {
        assert_eq!(integer(stats, count), of(op).count() as u64);
        assert_eq!(integer(stats, bytes), of(op).map(|r| u64::from(r.length)).sum::<u64>());
        let sizes: Vec<u64> = of(op).map(|r| u64::from(r.length)).collect();
        assert_histogram(stats, "request_sizes", ["from_bytes", "to_bytes", count], &sizes);
        let latencies: Vec<u64> = of(op).filter_map(|r| r.latency_ns).collect();
        if stats.table("latency").is_some() || !latencies.is_empty() {
            assert_histogram(stats, "latency", ["from_ns", "to_ns", count], &latencies);
        }
    }
    assert_eq!(integer(stats, "flushes"), of(IoOp::Flush).count() as u64);
    assert_eq!(integer(stats, "requests"), requests.len() as u64);
    assert_eq!(
        integer(stats, "streams"),
        requests.iter().map(|r| r.stream).collect::<BTreeSet<_>>().len() as u64
    );
    let (reads, writes) = (of(IoOp::Read).count() as u64, of(IoOp::Write).count() as u64);
    assert_ratio(stats, "read_share_of_requests", reads, reads + writes);
    for (op, share, runs) in [
        (IoOp::Read, "sequential_share_of_reads", "read_runs"),
        (IoOp::Write, "sequential_share_of_writes", "write_runs"),
    ] {
        let mut by_stream: BTreeMap<u32, Vec<&IoRequest>> = BTreeMap::new();
        of(op).for_each(|r| by_stream.entry(r.stream).or_default().push(r));
        let follows = |a: &&IoRequest, b: &&IoRequest| a.offset + u64::from(a.length) == b.offset;
        let lengths: Vec<u64> = by_stream
            .values()
            .flat_map(|list| list.chunk_by(follows))
            .map(|run| run.len() as u64)
            .collect();
        assert_ratio(stats, share, lengths.iter().map(|l| l - 1).sum(), of(op).count() as u64);
        assert_histogram(
            stats,
            "sequential_runs",
            ["from_requests", "to_requests", runs],
            &lengths,
        );
    }
}

fn check_pages(requests: &[IoRequest], volumes: bool, stats: &TraceStatistics) {
    let touched =
        |op: IoOp| requests.iter().filter(move |r| r.op == op).flat_map(move |r| pages(r, volumes));
    let (read, written): (BTreeSet<_>, BTreeSet<_>) =
        (touched(IoOp::Read).collect(), touched(IoOp::Write).collect());
    assert_eq!(integer(stats, "footprint_read_pages"), read.len() as u64);
    assert_eq!(integer(stats, "footprint_written_pages"), written.len() as u64);
    assert_eq!(integer(stats, "footprint_pages"), read.union(&written).count() as u64);
    assert_eq!(integer(stats, "page_reads"), touched(IoOp::Read).count() as u64);
    let total = touched(IoOp::Write).count() as u64;
    assert_eq!(integer(stats, "page_writes"), total);

    let (mut last, mut counts, mut distances) = (HashMap::new(), HashMap::new(), Vec::new());
    for (number, page) in touched(IoOp::Write).enumerate() {
        *counts.entry(page).or_insert(0u64) += 1;
        distances.extend(last.insert(page, number).map(|before| (number - before) as u64));
    }
    assert_histogram(
        stats,
        "rewrite_distance",
        ["from_page_writes", "to_page_writes", "rewrites"],
        &distances,
    );
    let mut counts: Vec<u64> = counts.into_values().collect();
    assert_histogram(stats, "updates_per_page", ["updates_from", "updates_to", "pages"], &counts);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let skew = stats.table("skew").unwrap();
    assert!(skew.integers("pages").windows(2).all(|w| w[0] < w[1]));
    assert_eq!(skew.integers("pages").last(), Some(&(counts.len() as u64)));
    for (&pages, &writes) in skew.integers("pages").iter().zip(skew.integers("page_writes")) {
        assert_eq!(
            writes,
            counts[..pages as usize].iter().sum::<u64>(),
            "writes of the {pages} hottest pages"
        );
    }
    let hottest = (0.2 * counts.len() as f64).round() as usize;
    assert_ratio(
        stats,
        "update_share_of_hottest_20_percent",
        counts[..hottest].iter().sum(),
        total,
    );
}

fn check_time(requests: &[IoRequest], volumes: bool, stats: &TraceStatistics) {
    let times = monotone(requests);
    assert_eq!(integer(stats, "duration_ns"), times.last().copied().unwrap_or(0));
    let gaps: Vec<u64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    assert_histogram(stats, "inter_arrival", ["from_ns", "to_ns", "count"], &gaps);
    let completed =
        |up_to: usize| (0..up_to).map(|i| times[i] + requests[i].latency_ns.unwrap_or(0)).max();
    let idle: Vec<u64> = (1..times.len())
        .filter_map(|i| times[i].checked_sub(completed(i)?).filter(|&gap| gap > 0))
        .collect();
    if requests.iter().any(|r| r.latency_ns.is_some()) {
        assert_histogram(stats, "idle", ["from_ns", "to_ns", "count"], &idle);
        assert_eq!(integer(stats, "idle_ns"), idle.iter().sum::<u64>());
    } else {
        assert_eq!((stats.scalar("idle_ns"), stats.table("idle")), (Some(Number::Unknown), None));
    }

    let width = integer(stats, "window_ns");
    let windows = stats.table("over_time").unwrap();
    let count = windows.integers("start_ns").len() as u64;
    assert_eq!(count, times.last().map_or(0, |last| last / width + 1));
    assert!(count <= 400 && (width == 1 || count > 200), "{count} windows of {width} ns");
    for (row, &start) in windows.integers("start_ns").iter().enumerate() {
        let inside: Vec<&IoRequest> = requests
            .iter()
            .zip(&times)
            .filter(|(_, t)| (start..start + width).contains(t))
            .map(|(r, _)| r)
            .collect();
        let distinct: BTreeSet<_> = inside.iter().flat_map(|r| pages(r, volumes)).collect();
        assert_eq!(
            windows.integers("distinct_pages")[row],
            distinct.len() as u64,
            "distinct pages in window {row}"
        );
        let writes: Vec<&&IoRequest> = inside.iter().filter(|r| r.op == IoOp::Write).collect();
        assert_eq!(windows.integers("writes")[row], writes.len() as u64);
        assert_eq!(
            windows.integers("write_bytes")[row],
            writes.iter().map(|r| u64::from(r.length)).sum::<u64>()
        );
        assert_eq!(
            windows.integers("flushes")[row],
            inside.iter().filter(|r| r.op == IoOp::Flush).count() as u64
        );
    }

    let height = integer(stats, "picture_row_bytes");
    let mut cells: BTreeMap<(u64, u64), [u64; 2]> = BTreeMap::new();
    for (request, time) in
        requests.iter().zip(&times).filter(|(r, _)| matches!(r.op, IoOp::Read | IoOp::Write))
    {
        cells.entry((time / width * width, request.offset / height * height)).or_default()
            [request.op as usize] += 1;
    }
    let picture = stats.table("picture").unwrap();
    let columns = ["start_ns", "from_byte", "reads", "writes"].map(|name| picture.integers(name));
    let found: BTreeMap<(u64, u64), [u64; 2]> = (0..columns[0].len())
        .map(|i| ((columns[0][i], columns[1][i]), [columns[2][i], columns[3][i]]))
        .collect();
    assert_eq!(found, cells);
    let rows: BTreeSet<u64> = cells.keys().map(|key| key.1 / height).collect();
    if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
        assert!(
            last - first < 200 && (height == 512 || last - first >= 99),
            "rows {first} to {last} of {height} bytes"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn every_figure_equals_plain_counting(
        requests in requests(),
        streams_are_volumes: bool,
        batch in 1usize..100,
    ) {
        let options =
            StatsOptions { page_bytes: PAGE as u32, streams_are_volumes, timeless: false };
        let stats = found(&requests, options, batch);
        check_counts(&requests, &stats);
        check_pages(&requests, streams_are_volumes, &stats);
        check_time(&requests, streams_are_volumes, &stats);
        prop_assert_eq!(&stats, &found(&requests, options, 1000));
    }
}

/// Times that grow from nanoseconds to years: windows double again and again, and the pages' stamps
/// are made coarser twice.
#[test]
fn windows_stay_exact_from_nanoseconds_to_centuries() {
    let mut requests = Vec::new();
    let mut time_ns = 0u64;
    for step in 0..6000u64 {
        time_ns += (time_ns / 150).max(step % 3);
        let offset = (step * step % 37) * PAGE;
        requests.push(IoRequest {
            time_ns,
            op: IoOp::ALL[(step % 2) as usize],
            offset,
            length: 6000,
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        });
    }
    assert!(time_ns > 1 << 62, "{time_ns} ns");
    let stats = found(&requests, StatsOptions::default(), 7);
    check_time(&requests, false, &stats);
    check_pages(&requests, false, &stats);
}

#[test]
fn a_trace_without_times_tells_none() {
    let request = IoRequest {
        time_ns: 3,
        op: IoOp::Write,
        offset: 0,
        length: 4096,
        stream: 0,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    };
    let stats = found(&[request; 3], StatsOptions { timeless: true, ..StatsOptions::default() }, 2);
    for name in ["duration_ns", "requests_per_second", "inter_arrival_ns_p50", "idle_ns"] {
        assert_eq!(stats.scalar(name), Some(Number::Unknown), "{name}");
    }
    assert!(stats.table("idle").is_none());
    assert_eq!(integer(&stats, "page_writes"), 3);
}

#[test]
fn addresses_at_the_very_end_are_counted() {
    let last = IoRequest {
        time_ns: 0,
        op: IoOp::Read,
        offset: u64::MAX - 4095,
        length: 4096,
        stream: 0,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    };
    let stats = found(
        &[last, IoRequest { offset: 0, ..last }],
        StatsOptions { page_bytes: 1, ..StatsOptions::default() },
        1,
    );
    assert_eq!(integer(&stats, "footprint_pages"), 8192);
}
