//! Rules for flows side by side: each request is sent once and in order, at the pace of its flow,
//! the highest priority first, and no room is left unused.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use player::{Flow, Flows, Lookahead, Pace, Turn};
use proptest::prelude::*;
use units::{IoOp, IoRequest, VecRequests};

const TICKS: u64 = 1000;

fn request(number: u64, time_ns: u64, op: IoOp) -> IoRequest {
    IoRequest {
        time_ns,
        op,
        offset: number,
        length: 1,
        stream: 0,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    }
}

fn source(requests: &[IoRequest]) -> Lookahead {
    Lookahead::new(Box::new(VecRequests::new(requests.into())), 7)
}

/// A request that was sent: its flow, its number, and the times at which it was sent, due and
/// ended.
#[derive(Clone, Copy, Debug)]
struct Sent {
    flow: u32,
    request: IoRequest,
    at: u64,
    due: Option<u64>,
    ended: u64,
}

/// Plays flows on a device that takes `room` requests, each for `takes` ticks.
fn played(flows: Vec<Flow>, room: usize, takes: u64) -> Vec<Sent> {
    let mut flows = Flows::<Lookahead, TICKS>::new(flows, u64::MAX, u64::MAX);
    let (mut now, mut sent, mut under_way) = (0, Vec::<Sent>::new(), BinaryHeap::new());
    flows.start(now).unwrap();
    loop {
        match flows.next(now, under_way.len() < room, true).unwrap() {
            Turn::Send(flow, request, due) => {
                under_way.push(Reverse((now + takes, sent.len())));
                sent.push(Sent { flow, request, at: now, due, ended: now + takes });
            }
            Turn::Wait { until, is_full, is_unread } => {
                assert!(!is_unread);
                let next = under_way.peek().map_or(u64::MAX, |&Reverse((at, _))| at);
                let until = if is_full { u64::MAX } else { until };
                if next.min(until) == u64::MAX {
                    return sent;
                }
                now = next.min(until);
                while under_way.peek().is_some_and(|&Reverse((at, _))| at <= now) {
                    let Reverse((at, number)) = under_way.pop().unwrap();
                    let Sent { flow, request, .. } = sent[number];
                    flows.ended(flow, request.op, at).unwrap();
                }
            }
        }
    }
}

fn pace() -> impl Strategy<Value = Pace> {
    prop_oneof![
        Just(Pace::OPEN),
        Just(Pace::Open { factor: 2.0 }),
        (1_u32..5, 0_u64..30).prop_map(|(depth, think)| Pace::Closed { depth, think }),
        (1_u32..5).prop_map(|depth| Pace::Intervals { depth, factor: 1.0 }),
        (1_u32..5).prop_map(|size| Pace::Bursts { size }),
    ]
}

fn flow() -> impl Strategy<Value = (Vec<IoRequest>, Pace, u8)> {
    let requests = prop::collection::vec((0_u64..20, 0_u8..8), 0..40).prop_map(|all| {
        let mut time = 0;
        let one = |(number, (gap, op)): (usize, (u64, u8))| {
            time += gap;
            request(number as u64, time, if op == 0 { IoOp::Flush } else { IoOp::Write })
        };
        all.into_iter().enumerate().map(one).collect()
    });
    (requests, pace(), 0_u8..3)
}

/// Number of these requests that were under way at a time.
fn under_way(sent: &[Sent], at: u64) -> usize {
    sent.iter().filter(|one| one.at <= at && at < one.ended).count()
}

fn check_pace(all: &[IoRequest], pace: Pace, sent: &[Sent]) -> Result<(), TestCaseError> {
    for (number, one) in sent.iter().enumerate() {
        let due = match pace {
            Pace::Open { factor } => Some((all[number].time_ns as f64 / factor) as u64 * TICKS),
            Pace::Intervals { .. } => {
                let before = number.checked_sub(1).map(|before| (sent[before].at, all[before]));
                let interval = |(at, before): (u64, IoRequest)| {
                    at + (all[number].time_ns - before.time_ns) * TICKS
                };
                Some(before.map_or(0, interval))
            }
            Pace::Closed { .. } | Pace::Bursts { .. } => None,
        };
        prop_assert_eq!(one.due, due);
        prop_assert!(due.is_none_or(|due| one.at >= due));
        match pace {
            Pace::Closed { depth, .. } | Pace::Intervals { depth, .. } => {
                prop_assert!(under_way(&sent[..=number], one.at) <= depth as usize);
            }
            Pace::Bursts { size } => {
                let begin = number - number % size as usize;
                let last_end = sent[..begin].iter().map(|one| one.ended).max();
                prop_assert!(last_end.is_none_or(|end| one.at >= end), "a burst is alone");
            }
            Pace::Open { .. } => {}
        }
        if let Pace::Closed { depth, think } = pace
            && let Some(before) = number.checked_sub(depth as usize)
        {
            let mut ends: Vec<u64> = sent[..number].iter().map(|one| one.ended).collect();
            ends.sort_unstable();
            prop_assert!(one.at >= ends[before] + think * TICKS, "who thinks does not send");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn each_flow_keeps_to_its_source_and_its_pace(
        given in prop::collection::vec(flow(), 1..4),
        room in 1_usize..9,
        takes in 1_u64..50_000,
    ) {
        let flow = |(all, pace, priority): &(Vec<IoRequest>, Pace, u8)| {
            Flow::new(source(all), *pace).with_priority(*priority)
        };
        let sent = played(given.iter().map(flow).collect(), room, takes);
        for (number, (all, pace, _)) in (0..).zip(&given) {
            let own: Vec<Sent> =
                sent.iter().filter(|one| one.flow == number).copied().collect();
            let requests: Vec<_> = own.iter().map(|one| one.request).collect();
            prop_assert_eq!(&requests, all);
            check_pace(all, *pace, &own)?;
        }
        for (number, one) in sent.iter().enumerate() {
            prop_assert!(under_way(&sent[..=number], one.at) <= room);
            // A request that waited for room had none before: another one ended just then.
            if one.due.is_some_and(|due| due < one.at) && given.len() == 1 {
                prop_assert!(sent.iter().any(|other| other.ended == one.at));
            }
        }
    }
}

#[test]
fn the_highest_priority_goes_first_where_there_is_not_room_for_all() {
    let all: Vec<_> = (0..50).map(|number| request(number, 0, IoOp::Read)).collect();
    let flow = |priority| Flow::new(source(&all), Pace::closed(4)).with_priority(priority);
    let sent = played(vec![flow(1), flow(7), flow(7)], 4, 100);
    let last = |flow| sent.iter().rposition(|one| one.flow == flow).unwrap();
    let first = sent.iter().position(|one| one.flow == 0).unwrap();
    assert!(first > last(1).min(last(2)), "it only gets what the others leave");
    assert!(last(1).abs_diff(last(2)) < 8, "equals take turns");
    let equal = played(vec![flow(1), flow(1), flow(1)], 4, 100);
    assert!(equal.iter().position(|one| one.flow == 2).unwrap() < 12);
}

#[test]
fn what_follows_a_flush_waits_for_it_where_that_is_asked_for() {
    let op = |number| if number % 3 == 1 { IoOp::Flush } else { IoOp::Write };
    let all: Vec<_> = (0..30).map(|number| request(number, 0, op(number))).collect();
    for pace in [Pace::closed(8), Pace::Intervals { depth: 8, factor: 1.0 }] {
        let sent = played(vec![Flow::new(source(&all), pace).waiting_for_flushes()], 64, 100);
        assert_eq!(sent.len(), 30);
        for pair in sent.windows(2).filter(|pair| pair[0].request.op == IoOp::Flush) {
            assert!(pair[1].at >= pair[0].ended, "{pair:?}");
        }
        let free = played(vec![Flow::new(source(&all), pace)], 64, 100);
        assert!(
            free.windows(2)
                .any(|pair| { pair[0].request.op == IoOp::Flush && pair[1].at < pair[0].ended })
        );
    }
}

#[test]
fn what_is_beside_others_ends_with_them() {
    let few: Vec<_> = (0..5).map(|number| request(number, number * 3, IoOp::Read)).collect();
    let many: Vec<_> = (0..500).map(|number| request(number, 0, IoOp::Read)).collect();
    let beside = || Flow::new(source(&many), Pace::closed(1)).beside();
    for pace in [Pace::OPEN, Pace::closed(2), Pace::Intervals { depth: 1, factor: 0.5 }] {
        let sent = played(vec![Flow::new(source(&few), pace), beside()], 8, 1000);
        let own = || sent.iter().filter(|one| one.flow == 0);
        let end = own().map(|one| one.ended).max().unwrap();
        assert_eq!(own().count(), 5);
        assert!(sent.len() < 60 && sent.iter().all(|one| one.at < end), "{pace:?}: {sent:?}");
    }
    assert!(played(vec![Flow::new(source(&[]), Pace::OPEN), beside()], 8, 1000).is_empty());
}

#[test]
fn nothing_is_sent_at_or_after_the_end_nor_more_than_asked_for() {
    let all: Vec<_> = (0..50).map(|number| request(number, number * 10, IoOp::Read)).collect();
    let mut flows = Flows::<Lookahead>::new(vec![Flow::new(source(&all), Pace::OPEN)], 3, 1000);
    flows.start(0).unwrap();
    let sends =
        |flows: &mut Flows, now| matches!(flows.next(now, true, true).unwrap(), Turn::Send(..));
    assert!(sends(&mut flows, 0) && !sends(&mut flows, 9) && sends(&mut flows, 10));
    assert!(sends(&mut flows, 40) && !sends(&mut flows, 41), "three, and then no more");
    assert_eq!((flows.next_due(), flows.sent(), flows.outstanding()), (u64::MAX, 3, 3));
    let mut flows = Flows::<Lookahead>::new(vec![Flow::new(source(&all), Pace::OPEN)], 99, 15);
    flows.start(0).unwrap();
    assert!(sends(&mut flows, 0) && sends(&mut flows, 14) && !sends(&mut flows, 30));
    assert_eq!(flows.next_due(), u64::MAX);
}
