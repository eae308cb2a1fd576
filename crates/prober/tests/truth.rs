//! The prober finds the inside of simulated drives: the short form. The long one, with a table over
//! 200 drives, is `cargo run -p flashwright-prober --example truth`.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

#[path = "truth/drives.rs"]
mod drives;
#[path = "truth/hybrids.rs"]
mod hybrids;

use block::BlockDevice as _;

use devices::{Simulated, SimulatedSettings};
use drives::{Drive, Said};
use prober::{Bench, Finding, Known, Region, Settings, Verdict};
use ssd::drive::profile;
use ssd::drive::state::State;
use units::Progress;

/// Probes a built-in profile, and gives the findings of the experiments.
fn probe(name: &str, experiments: &[&str]) -> Known {
    let (profile, progress) = (profile::load(name).unwrap(), Progress::default());
    let mut device = Simulated::new(
        name,
        &profile,
        SimulatedSettings { state: State::Filled, seed: 1 },
        &progress,
    )
    .unwrap();
    let region = Region { offset: 0, length: device.info().limits.capacity_bytes.min(1 << 30) };
    let settings = Settings { region, seed: 1, may_write: true, budget: 20_000_000_000 };
    let mut bench = Bench::new(&mut device, settings, &progress);
    let mut known = Known::default();
    for name in experiments {
        let (experiment, args) = prober::find(name).unwrap();
        let finding = experiment.run(&mut bench, &args, &known).unwrap();
        known.add(finding);
    }
    known
}

/// Drives that map by erase blocks, and every rule of a write buffer: the short form of the program
/// `hybrids`.
#[test]
fn nothing_is_sure_and_wrong_of_drives_with_logs_and_buffers() {
    let (mut sure, mut all) = (0, 0);
    for number in 0..36 {
        let drive = hybrids::Hybrid::random(number, 5, 0.02);
        for said in drive.probe(60) {
            let is_mistaken = said.is_sure() && !said.is_right();
            assert!(!is_mistaken, "{}: {said:?}", drive.line());
            (sure, all) = (sure + usize::from(said.is_sure()), all + 1);
        }
    }
    assert!(sure * 6 > all, "{sure} of {all} values are sure");
}

#[test]
fn random_drives_are_seen_through() {
    // One of each chunk size and some more, with little and much noise in turn.
    let numbers: Vec<u64> = (0..12).collect();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let halves = numbers.chunks(6).map(|part| {
            scope.spawn(move || {
                let of = |&number: &u64| {
                    let drive = Drive::random(number, 3, if number % 2 == 0 { 0.05 } else { 0.2 });
                    let said = drive.probe(20);
                    (drive, said)
                };
                part.iter().map(of).collect::<Vec<_>>()
            })
        });
        let halves: Vec<_> = halves.collect();
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    let count = |question: fn(&drives::Answers) -> &Said| {
        let right = answers.iter().filter(|(_, said)| question(said).is_right).count();
        let mistaken =
            answers.iter().find(|(_, said)| !question(said).is_right && question(said).is_sure);
        assert!(mistaken.is_none(), "sure and wrong: {mistaken:?}");
        right
    };
    assert!(count(|said| &said.chunk) >= 11);
    assert!(count(|said| &said.degree) >= 11);
    assert!(count(|said| &said.mapping) >= 11);
    assert!(count(|said| &said.layout) >= 10);
}

/// On channels faster than the link, two reads of one size at a time show nothing: a short read
/// that would overtake a long one does.
#[test]
fn channels_faster_than_the_link_are_seen() {
    // 13 channels of 3 dies and 1179 MB/s behind a link of 550 MB/s; 11 channels of one die and 800
    // MB/s behind 270 MB/s.
    for (number, text) in [(59, "13 x 3"), (50, "11 x 1")] {
        let drive = Drive::random(number, 1, 0.05);
        assert!(!drive.are_channels_seen());
        let said = drive.probe(60).layout;
        assert!(said.is_right && said.is_sure && said.text == text, "{said:?}");
    }
}

/// Not the mean tells in much noise, but which of two reads ends first, and how what follows
/// depends on when the one before ended.
#[test]
fn dies_on_a_fast_channel_are_seen_in_much_noise() {
    // Pages of 2048 bytes; of one sector, behind a cache that answers some of the reads; of one
    // sector; and in cache mode, with transfers so short that few reads tell when they end.
    for (number, noise, text) in
        [(154, 0.2, "8 x 2"), (36, 0.05, "14 x 3"), (1, 0.2, "3 x 2"), (23, 0.05, "5 x 4")]
    {
        let drive = Drive::random(number, 1, noise);
        assert!(!drive.are_channels_seen());
        let said = drive.probe(60).layout;
        assert!(said.is_right && said.is_sure && said.text == text, "{number}: {said:?}");
    }
}

/// If dies read on while they send, for too short to be seen, a shared channel keeps reads waiting
/// earlier than dies do. (This was sure, and wrong.)
#[test]
fn dies_that_read_on_hide_no_channel() {
    let drive = Drive::random(156, 53, 0.05);
    assert_eq!((drive.domains, drive.sub_domains), (7, 3));
    let said = drive.probe(60).layout;
    assert!(said.is_right || !said.is_sure, "{said:?}");
}

/// A small rise that is clear, where reads that overtake say that a shared channel would show more:
/// nothing is sure. (It was, and wrong.)
#[test]
fn channels_that_two_experiments_tell_differently_are_not_sure() {
    let drive = Drive::random(16, 67, 0.05);
    assert_eq!((drive.domains, drive.sub_domains), (4, 1));
    let said = drive.probe(60).layout;
    assert!(said.is_right || !said.is_sure, "{said:?}");
}

/// Pages of two types make the scores of all models alike; that boundaries are alike was measured,
/// too.
#[test]
fn large_chunks_of_two_types_of_pages_are_sure() {
    let drive = Drive::random(71, 1, 0.2);
    assert_eq!((drive.chunk_bytes, drive.profile.media.read_us.len()), (65_536, 2));
    let said = drive.probe(60);
    assert!(said.chunk.is_right && said.chunk.is_sure, "{:?}", said.chunk);
    assert!(said.layout.is_right && said.layout.is_sure, "{:?}", said.layout);
}

/// In cache mode a command waits for the data of the read before: where it does so in one unit and
/// not in two, these share no channel.
#[test]
fn one_die_on_a_channel_shows_by_what_waits_for_data() {
    let drive = Drive::random(2, 1, 0.05);
    assert_eq!((drive.profile.media.page_bytes, drive.sub_domains), (512, 1));
    let said = drive.probe(60).layout;
    assert!(said.is_right && said.is_sure, "{said:?}");
}

/// Channels that take about as long as dies or longer look alike in cache mode, whatever is read:
/// that must not be sure. (All but the first were, and wrong.)
#[test]
fn dies_hidden_behind_their_channel_are_not_sure() {
    for (number, campaign, noise, units) in [
        (128, 1, 0.05, (5, 4)),
        (185, 7, 0.05, (14, 3)),
        (119, 41, 0.2, (9, 4)),
        (179, 41, 0.2, (3, 4)),
    ] {
        let drive = Drive::random(number, campaign, noise);
        assert_eq!((drive.domains, drive.sub_domains), units);
        let said = drive.probe(60).layout;
        assert!(said.is_right || !said.is_sure, "{number}: {said:?}");
    }
}

#[test]
fn the_x25e_is_what_parallelism_found() {
    let known = probe("intel-x25e", &["chunk_size", "interleaving", "mapping"]);
    for (key, number) in [
        ("chunk_bytes", 4096.0),
        ("page_bytes", 4096.0),
        ("domains", 10.0),
        ("sub_domains", 2.0),
        ("parallel_units", 20.0),
    ] {
        let value = known.value(key).unwrap();
        assert_eq!(
            (value.number, value.verdict),
            (Some(number), Verdict::Sure),
            "{key}: {}",
            value.why
        );
    }
    let mapping = known.value("mapping").unwrap();
    assert_eq!(
        (mapping.word.as_deref(), mapping.verdict),
        (Some("write_order"), Verdict::Sure),
        "{}",
        mapping.why
    );
    figures_2_to_4(known.findings());
}

/// The dips of PARALLELISM figures 2, 3 and 4 are where it shows them.
fn figures_2_to_4(findings: &[Finding]) {
    let curve = |chart: &str, series: &str| {
        let charts = findings.iter().flat_map(|finding| &finding.charts);
        let chart = charts.into_iter().find(|other| other.name == chart).unwrap();
        let series = chart.series.iter().find(|other| other.name == series).unwrap();
        series.points.iter().map(|point| (point.x as u64, point.y)).collect::<Vec<_>>()
    };
    let mean = |points: &[(u64, f64)], keep: &dyn Fn(u64) -> bool| {
        let kept: Vec<f64> = points.iter().filter(|(x, _)| keep(*x)).map(|(_, y)| *y).collect();
        kept.iter().sum::<f64>() / kept.len() as f64
    };
    // Figure 2: four sectors that lie half in either chunk are read faster.
    let four = curve("latency_over_offset", "4 sectors");
    assert!(mean(&four, &|x| x % 8 == 6) < 0.9 * mean(&four, &|x| x % 8 == 0));
    // Figure 3: two jobs are slow where they skip 10 n - 1 chunks; four where they skip 20 n - 1
    // most of all.
    let (two, four) =
        (curve("bandwidth_over_stride", "2 jobs"), curve("bandwidth_over_stride", "4 jobs"));
    assert!(mean(&two, &|x| x % 10 == 9) < 0.85 * mean(&two, &|x| x % 10 != 9));
    assert!(mean(&four, &|x| x % 20 == 19) < 0.95 * mean(&four, &|x| x % 20 == 9));
    // Figure 4: writing at random takes the dips away, and reading in the order of the writes
    // brings them back.
    let (address, order) =
        (curve("stride_by_address", "2 jobs"), curve("stride_by_write_order", "2 jobs"));
    assert!(mean(&address, &|x| x % 10 == 9) > 0.97 * mean(&address, &|x| x % 10 != 9));
    assert!(mean(&order, &|x| x % 10 == 9) < 0.85 * mean(&order, &|x| x % 10 != 9));
}

#[test]
fn a_drive_without_command_queue_gives_no_sure_answers() {
    let known = probe("mtron-pro-7500", &["chunk_size", "interleaving", "mapping"]);
    let values = known.findings().iter().flat_map(|finding| &finding.values);
    let sure: Vec<_> = values.filter(|value| value.verdict == Verdict::Sure).collect();
    assert!(sure.is_empty(), "{sure:?}");
}
