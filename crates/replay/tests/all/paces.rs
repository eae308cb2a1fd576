//! Properties of every replay, on devices in virtual time: each request is sent once and in order,
//! never early, never too many at a time.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::support::{Fixed, Settings, Watched, drive, played, request};
use proptest::prelude::*;
use replay::{Pace, ReplayError};
use units::{IoOp, IoRequest, Nanos, Progress};

/// Requests with growing times.
fn trace() -> impl Strategy<Value = Vec<IoRequest>> {
    let one = (0_u64..300_000, 0_u8..4, 0_u64..4000, 1_u32..40);
    prop::collection::vec(one, 1..120).prop_map(|all| {
        let mut time_ns = 0;
        let request = |(number, (gap, op, sector, sectors)): (usize, (u64, u8, u64, u32))| {
            time_ns += if number == 0 { 0 } else { gap };
            let op = IoOp::from_number(op).unwrap();
            let (offset, length) =
                if op == IoOp::Flush { (0, 0) } else { (sector * 512, sectors * 512) };
            request(time_ns, op, offset, length)
        };
        all.into_iter().enumerate().map(request).collect()
    })
}

fn pace() -> impl Strategy<Value = Pace> {
    let factor = prop::sample::select(vec![0.25, 1.0, 3.0]);
    prop_oneof![
        factor.clone().prop_map(|factor| Pace::Open { factor }),
        (1_u32..9).prop_map(Pace::closed),
        (1_u32..9, factor).prop_map(|(depth, factor)| Pace::Intervals { depth, factor }),
    ]
}

fn scaled(time: Nanos, factor: f64) -> Nanos {
    (time as f64 / factor) as Nanos
}

proptest! {
    #[test]
    fn a_replay_keeps_to_its_trace_and_its_pace(all in trace(), pace in pace()) {
        let mut device = Watched::new(drive());
        let done =
            played(&mut device, &all, Settings { pace, keeps_going: false }, &Progress::default());
        prop_assert!(done.ended.is_none(), "{:?}", done.ended);
        let shapes: Vec<_> =
            all.iter().map(|request| (request.op, request.offset, request.length)).collect();
        prop_assert_eq!(device.shapes(), shapes);
        let found = &done.measured;
        prop_assert_eq!(
            (found.requests(), found.sent, device.ended.len()),
            (all.len() as u64, all.len() as u64, all.len())
        );
        prop_assert_eq!(found.timekeeping.most_outstanding, device.most);
        let windows: u64 =
            found.windows.all.iter().map(|window| window.requests.iter().sum::<u64>()).sum();
        prop_assert_eq!(windows, all.len() as u64);
        let sent: Vec<Nanos> = device.sent.iter().map(|(time, _)| *time).collect();
        match pace {
            Pace::Open { factor } => {
                for (time, request) in sent.iter().zip(&all) {
                    // Time stands still but for waiting, and the drive takes more requests than
                    // there are.
                    prop_assert_eq!(*time, sent[0] + scaled(request.time_ns, factor));
                }
                prop_assert_eq!(
                    (found.lateness.len(), found.lateness.max(), found.held.len()),
                    (all.len() as u64, 0, 0)
                );
            }
            Pace::Closed { depth, .. } => {
                prop_assert!(device.most <= depth);
                prop_assert_eq!(found.lateness.len(), 0);
            }
            Pace::Intervals { depth, factor } => {
                prop_assert!(device.most <= depth);
                for (times, pair) in sent.windows(2).zip(all.windows(2)) {
                    let least = scaled(pair[1].time_ns - pair[0].time_ns, factor);
                    prop_assert!(times[1] - times[0] >= least);
                }
                prop_assert_eq!(found.lateness.len(), all.len() as u64);
            }
            Pace::Bursts { .. } => unreachable!("no replay sends bursts"),
        }
    }

    /// Without waiting a closed loop is as busy as it may be: each request is sent when the one
    /// `depth` before it has ended.
    #[test]
    fn a_closed_loop_is_never_idle(count in 1_u64..60, depth in 1_u32..9, takes in 1_u64..1000) {
        let all: Vec<IoRequest> = (0..count)
            .map(|number| request(number * 1_000_000, IoOp::Read, number * 512, 512))
            .collect();
        let mut device = Watched::new(Fixed::new(takes, 64));
        let done = played(
            &mut device,
            &all,
            Settings { pace: Pace::closed(depth), keeps_going: false },
            &Progress::default(),
        );
        prop_assert_eq!(done.measured.elapsed, count.div_ceil(u64::from(depth)) * takes);
        let most = u64::from(done.measured.timekeeping.most_outstanding);
        prop_assert_eq!(most, count.min(u64::from(depth)));
    }
}

/// Flushes that are outstanding together are made one by the kernel, and overtaken by what follows.
#[test]
fn nothing_follows_a_flush_in_a_closed_loop_before_its_end() {
    let op = |number: u64| if number % 5 == 3 { IoOp::Flush } else { IoOp::Write };
    let length = |number| if op(number) == IoOp::Flush { 0 } else { 512 };
    let all: Vec<IoRequest> =
        (0..50).map(|number| request(number, op(number), 0, length(number))).collect();
    for depth in [1, 4, 16] {
        let mut device = Watched::new(Fixed::new(1000, 64));
        let settings = Settings { pace: Pace::closed(depth), keeps_going: false };
        let done = played(&mut device, &all, settings, &Progress::default());
        assert_eq!((done.measured.requests(), device.sent.len()), (50, 50));
        for pair in device.sent.windows(2).filter(|pair| pair[0].1.op == IoOp::Flush) {
            assert!(pair[1].0 >= pair[0].0 + 1000, "{pair:?}");
        }
    }
    let mut device = Watched::new(Fixed::new(1000, 64));
    let settings = Settings { pace: Pace::OPEN, keeps_going: false };
    played(&mut device, &all, settings, &Progress::default());
    assert!(
        device.sent.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1),
        "in an open loop the clock alone counts"
    );
}

/// One request each 100 ns on a device that takes 1000 for each and four at a time: it falls behind
/// by the tenth.
#[test]
fn what_comes_late_in_an_open_loop_is_told_by_how_much_and_why() {
    let all: Vec<IoRequest> =
        (0..40).map(|number| request(number * 100, IoOp::Write, number * 512, 512)).collect();
    let mut device = Watched::new(Fixed::new(1000, 4));
    let settings = Settings { pace: Pace::OPEN, keeps_going: false };
    let done = played(&mut device, &all, settings, &Progress::default());
    // Four at 0, 100, 200, 300; then four every 1000.
    let late: Vec<Nanos> =
        (0_u64..40).map(|number| number / 4 * 1000 + number % 4 * 100 - number * 100).collect();
    let found = &done.measured;
    assert!(
        found.lateness.equivalent(found.lateness.max(), *late.iter().max().unwrap()),
        "{}",
        found.lateness.max()
    );
    assert_eq!(found.lateness.count_at(0), 4);
    assert_eq!(found.held.len(), 36, "each that was late waited for room");
    let latency = &found.by_op[IoOp::Write as usize].latency;
    assert_eq!((latency.min(), latency.max()), (1000, 1000));
    let response = &found.by_op[IoOp::Write as usize].response;
    assert!(response.equivalent(response.max(), 1000 + late[39]), "{}", response.max());
    assert_eq!(found.elapsed, 9 * 1000 + 300 + 1000);
}

/// On a device slower than the trace, intervals are kept and lateness is not made up for; a faster
/// one takes as long as the trace.
#[test]
fn waiting_keeps_intervals_and_not_the_clock() {
    let all: Vec<IoRequest> =
        (0..5).map(|number| request(number * 1000, IoOp::Read, 0, 512)).collect();
    let settings =
        |factor| Settings { pace: Pace::Intervals { depth: 1, factor }, keeps_going: false };
    for (takes, factor, elapsed) in [
        (10, 1.0, 4_010),
        (1_000, 1.0, 5_000),
        (5_000, 1.0, 25_000),
        (10, 4.0, 1_010),
        (10, 0.5, 8_010),
    ] {
        let mut device = Fixed::new(takes, 64);
        let done = played(&mut device, &all, settings(factor), &Progress::default());
        assert_eq!(done.measured.elapsed, elapsed, "{takes} ns at {factor}");
        let late = &done.measured.lateness;
        assert!(
            late.equivalent(late.max(), takes.saturating_sub((1000.0 / factor) as u64)),
            "{takes} ns at {factor}: {}",
            late.max()
        );
    }
}

#[test]
fn a_request_that_fails_ends_a_replay_or_is_counted() {
    let all: Vec<IoRequest> =
        (0..20).map(|number| request(0, IoOp::Write, number * 512, 512)).collect();
    for (keeps_going, depth) in [(false, 1), (true, 1), (true, 4)] {
        let mut device = Fixed::new(100, 64);
        device.fails_each = 3;
        let settings = Settings { pace: Pace::closed(depth), keeps_going };
        let done = played(&mut device, &all, settings, &Progress::default());
        let failed: u64 = done.measured.failures.values().map(|failure| failure.requests).sum();
        if keeps_going {
            assert!(done.ended.is_none());
            assert_eq!((done.measured.requests(), failed, done.measured.sent), (14, 6, 20));
            let first = &done.measured.failures[&("write", "it is broken".to_owned())].first;
            assert_eq!(
                first,
                "device `fixed`: write of 512 bytes at byte 1024 failed: it is broken"
            );
        } else {
            assert!(matches!(done.ended, Some(ReplayError::Device(_))));
            assert_eq!((done.measured.requests(), done.measured.sent, failed), (2, 3, 0));
        }
    }
}

#[test]
fn a_replay_that_is_stopped_keeps_what_it_measured() {
    let all: Vec<IoRequest> =
        (0..5000).map(|number| request(number, IoOp::Write, number % 100 * 4096, 4096)).collect();
    let progress = Progress::default();
    progress.cancel();
    let mut device = drive();
    let settings = Settings { pace: Pace::closed(4), keeps_going: false };
    let done = played(&mut device, &all, settings, &progress);
    assert!(matches!(done.ended, Some(ReplayError::Cancelled(_))));
    assert_eq!(done.measured.requests(), done.measured.sent);
    assert!(done.measured.sent > 0 && done.measured.sent < 5000);
    assert_eq!(block::BlockDevice::outstanding(&device), 0);
}

#[test]
fn the_same_replay_takes_the_same_time() {
    let all: Vec<IoRequest> = (0..3000)
        .map(|number| request(number * 2000, IoOp::Write, number * 7919 % 500 * 4096, 4096))
        .collect();
    let settings = Settings { pace: Pace::Open { factor: 2.0 }, keeps_going: false };
    let run = || {
        let mut device = Watched::new(drive());
        let done = played(&mut device, &all, settings, &Progress::default());
        (done.measured.elapsed, device.ended)
    };
    assert_eq!(run(), run());
}
