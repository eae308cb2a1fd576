//! Properties of every pattern, and the sequence of each.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const CAPACITY: u64 = 1 << 20;

fn draw(source: &mut dyn RequestSource, count: usize) -> Vec<IoRequest> {
    let mut requests = vec![IoRequest::NOTHING; count];
    let filled = source.fill(&mut requests).unwrap();
    requests.truncate(filled);
    requests
}

fn take(text: &str, count: usize) -> Vec<IoRequest> {
    draw(parse(text, 3, CAPACITY, 512).unwrap().as_mut(), count)
}

/// Offsets in units of 4 KiB.
fn pages(text: &str, count: usize) -> Vec<u64> {
    take(text, count).iter().map(|request| request.offset / 4096).collect()
}

fn error(text: &str) -> String {
    parse(text, 3, CAPACITY, 512).err().expect("it is wrong").to_string()
}

#[test]
fn each_pattern_has_its_sequence() {
    assert_eq!(pages("sequential(range=12Ki,offset=8Ki)", 5), [2, 3, 4, 2, 3]);
    assert_eq!(pages("stride(distance=16Ki,range=40Ki)", 5), [0, 4, 8, 0, 4]);
    assert_eq!(pages("ordered(direction=descending,range=16Ki)", 6), [3, 2, 1, 0, 3, 2]);
    assert_eq!(pages("ordered(gap=4Ki,range=20Ki)", 5), [0, 2, 4, 0, 2]);
    assert_eq!(pages("ordered(gap=4Ki,range=24Ki,direction=descending)", 4), [4, 2, 0, 4]);
    assert_eq!(pages("in_place(offset=4Ki)", 3), [1, 1, 1]);
    // STABLEBUFFER's example of partitioned writes, 1, 50, 2, 51, ..., with two parts of 4 pages;
    // the rest of the range is not used.
    assert_eq!(pages("partitioned(ways=2,range=36Ki)", 10), [0, 4, 1, 5, 2, 6, 3, 7, 0, 4]);
}

#[test]
fn random_requests_reach_every_place_and_no_other() {
    let found: BTreeSet<u64> = pages("random(range=64Ki,offset=64Ki)", 1000).into_iter().collect();
    assert_eq!(found, (16..32).collect());
    let misaligned: BTreeSet<u64> = take("random(range=16Ki,align=512,shift=1Ki)", 1000)
        .iter()
        .map(|request| request.offset)
        .collect();
    assert_eq!(misaligned, (2..=24).map(|sector| sector * 512).collect());
}

#[test]
fn shuffled_requests_reach_every_place_before_any_again() {
    let found = pages("shuffled(range=64Ki,offset=64Ki)", 16 * 50);
    let orders: BTreeSet<&[u64]> = found.chunks(16).collect();
    assert_eq!(orders.len(), 50);
    for order in orders {
        assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), (16..32).collect());
    }
    assert_eq!(pages("shuffled(range=4Ki)", 3), [0, 0, 0]);
}

#[test]
fn a_focused_area_stays_or_moves() {
    assert!(pages("focused(area=32Ki)", 100).iter().all(|&page| page < 8));
    let moving = pages("focused(area=32Ki,hold=50)", 50 * 40);
    let areas: Vec<u64> = moving.chunks(50).map(|held| held[0] / 8).collect();
    assert!(
        moving.chunks(50).zip(&areas).all(|(held, area)| held.iter().all(|page| page / 8 == *area))
    );
    assert!(areas.iter().collect::<BTreeSet<_>>().len() > 10, "{areas:?}");
}

#[test]
fn reads_are_drawn_apart_from_addresses() {
    let shares = ["0", "1", "0.25"].map(|reads| take(&format!("random(reads={reads})"), 8000));
    let reads =
        |requests: &[IoRequest]| requests.iter().filter(|request| request.op == IoOp::Read).count();
    assert_eq!((reads(&shares[0]), reads(&shares[1])), (0, 8000));
    assert!((1850..2150).contains(&reads(&shares[2])));
    for share in &shares[1..] {
        assert!(share.iter().zip(&shares[0]).all(|(one, other)| one.offset == other.offset));
    }
}

#[test]
fn bursts_are_followed_by_pauses() {
    let times: Vec<u64> =
        take("sequential(burst=2,pause_us=1.5)", 5).iter().map(|request| request.time_ns).collect();
    assert_eq!(times, [0, 0, 1500, 1500, 3000]);
    let pattern = Pattern::parse("io:sequential(burst=2,pause_us=1.5,requests=5)", 1).unwrap();
    assert_eq!(
        (pattern.has_times(), pattern.duration_ns(), pattern.requests()),
        (true, Some(3000), Some(5))
    );
    assert!(!Pattern::parse("sequential", 1).unwrap().has_times());
}

#[test]
fn zones_are_trimmed_and_written_in_order_several_at_a_time() {
    for next in ["random", "turns"] {
        let text = format!("zones(zone=16Ki,active=3,range=128Ki,next={next})");
        let requests = take(&text, 400);
        let mut written = [4_u64; 8];
        let mut trims = 0;
        for request in &requests {
            let (zone, place) = (request.offset / 16384, request.offset % 16384 / 4096);
            let pages = &mut written[zone as usize];
            if request.op == IoOp::Trim {
                assert_eq!((place, request.length, *pages), (0, 16384, 4), "{next}: {request:?}");
                (*pages, trims) = (0, trims + 1);
            } else {
                assert_eq!((place, request.length), (*pages, 4096), "{next}: {request:?}");
                *pages += 1;
            }
            assert!(written.iter().filter(|&&pages| pages < 4).count() <= 3);
        }
        // Four writes a zone, and a trim.
        assert!((78..=83).contains(&trims), "{next}: {trims}");
        assert!(written.iter().any(|&pages| pages > 0));
    }
    assert_eq!(
        error("zones(zone=512Ki,active=2)"),
        "`zones`: active=2 is not below 2, the zones of the range"
    );
}

#[test]
fn exponential_gaps_have_their_mean_and_no_memory() {
    let requests = take("random(pause_us=10,gaps=exponential)", 20_000);
    let gaps: Vec<f64> =
        requests.windows(2).map(|pair| (pair[1].time_ns - pair[0].time_ns) as f64).collect();
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let longer = gaps.iter().filter(|&&gap| gap > 20_000.0).count() as f64 / count;
    assert!((mean / 10_000.0 - 1.0).abs() < 0.03, "mean {mean}");
    assert!((longer / (-2.0_f64).exp() - 1.0).abs() < 0.06, "share above twice the mean {longer}");
    let pattern = Pattern::parse("random(pause_us=10,gaps=exponential,requests=5)", 1).unwrap();
    assert_eq!((pattern.has_times(), pattern.duration_ns()), (true, None));
}

#[test]
fn wrong_addresses_say_what_would_be_right() {
    assert_eq!(
        error("nothing"),
        "unknown request pattern `nothing`; known are: sequential, random, shuffled, stride, \
         focused, partitioned, ordered, in_place, zones"
    );
    assert_eq!(
        error("random(size=100)"),
        "`random`: size=100 is not a multiple of 512, the bytes of a sector"
    );
    assert_eq!(
        error("random(offset=1Mi)"),
        "`random`: offset=1048576 is not less than the 1048576 bytes of the drive"
    );
    assert_eq!(
        error("random(range=2Mi)"),
        "`random`: range=2097152 is not at most 1048576: the drive has so many bytes from the \
         offset on"
    );
    assert_eq!(
        error("random(range=4Ki,shift=512)"),
        "`random`: size=4096 is not at most 3584: the range has so many bytes"
    );
    assert_eq!(
        error("focused"),
        "`focused`: area=8388608 is not at most 1048576, the bytes of the range"
    );
    assert_eq!(
        error("focused(area=512)"),
        "`focused`: area=512 is not at least 4096, the size of a request"
    );
    assert_eq!(
        error("partitioned(ways=4,range=12Ki)"),
        "`partitioned`: ways=4 is not at most 3: a part of the range has to hold a request"
    );
    assert_eq!(
        error("stride(distance=6Ki)"),
        "`stride`: distance=6144 is not a multiple of 4096, the alignment of requests"
    );
}

proptest! {
    #[test]
    fn every_pattern_keeps_its_promises(
        which in 0..REGISTRY.len(),
        seed in any::<u64>(),
        size in 1_u64..20,
        align in 0_u64..20,
        shift in 0_u64..9,
        offset in 0_u64..100,
        range in 400_u64..1900,
        reads in 0_u32..3,
        count in 1_u64..300,
        chunk in 1_usize..70,
    ) {
        let name = REGISTRY[which].info.name;
        let [size, align, shift, offset, range] =
            [size, align, shift, offset, range].map(|sectors| sectors * 512);
        let unit = if align == 0 { size } else { align };
        let own = match name {
            "stride" => format!("distance={},", 3 * unit),
            "focused" => format!("area={},hold=7,", size.next_multiple_of(unit) + 2 * unit),
            "ordered" => format!("gap={unit},direction=descending,"),
            "zones" => format!("zone={},active=2,", 3 * size.next_multiple_of(unit)),
            _ => String::new(),
        };
        let common = format!(
            "size={size},align={align},shift={shift},offset={offset},range={range},\
             requests={count}"
        );
        let text = format!("{name}({own}{common},reads={})", f64::from(reads) / 2.0);
        let mut source = parse(&text, seed, CAPACITY, 512).unwrap();
        let all = draw(source.as_mut(), count as usize + 5);
        prop_assert_eq!(all.len() as u64, count);
        prop_assert_eq!(source.requests(), Some(count));
        prop_assert!(draw(source.as_mut(), 5).is_empty());
        for request in &all {
            prop_assert!(
                request.offset >= offset + shift && request.offset + size <= offset + range,
                "{}: {:?}",
                text,
                request
            );
            prop_assert!(
                (request.offset - offset - shift).is_multiple_of(unit),
                "{}: {:?}",
                text,
                request
            );
            if request.op != IoOp::Trim {
                prop_assert_eq!(u64::from(request.length), size);
            }
        }
        // In pieces it is the same, the second time too, and from another source.
        for mut again in [source, parse(&text, seed, CAPACITY, 512).unwrap()] {
            again.rewind().unwrap();
            let mut pieces = Vec::new();
            loop {
                let piece = draw(again.as_mut(), chunk);
                if piece.is_empty() {
                    break;
                }
                pieces.extend(piece);
            }
            prop_assert!(pieces == all);
        }
    }
}

#[test]
fn writes_carry_the_handle_of_their_pattern() {
    let handles = |text: &str| -> BTreeSet<u8> {
        take(text, 50).iter().map(|request| request.handle).collect()
    };
    assert_eq!(handles("random(handle=7)"), BTreeSet::from([7]));
    assert_eq!(handles("random"), BTreeSet::from([0]));
    // A trim belongs to no handle.
    assert_eq!(handles("zones(zone=32Ki,handle=3)"), BTreeSet::from([0, 3]));
    assert!(error("random(handle=128)").contains("127"), "{}", error("random(handle=128)"));
}
