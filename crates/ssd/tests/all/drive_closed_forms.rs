//! The simulated drive against closed forms: times of commands to the picosecond, throughput of
//! reads against the exact chain, against a second simulation and against bounds, bandwidth against
//! its limits, write amplification against theory and against the counting simulator.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::drive::{Endless, SplitMix, assert_within, profile, run, settings};
use registry::Spec;
use ssd::counting;
use ssd::drive::media::{Cause, Command, FlashOp, Media, Tag};
use ssd::drive::profile::Profile;
use ssd::drive::state::State;
use ssd::drive::time::Picos;
use units::{EraseBlockId, IoOp, Lpn, PageOp, Ppn, Progress, VecSource};

/// Picoseconds in a microsecond.
const US: Picos = 1_000_000;

/// 4 KiB at 100 MB/s.
const DATA: Picos = 40_960_000;

/// Two planes, 75 / 750 / 3800 us, 1 us a command, 100 MB/s: every time is a whole number of
/// picoseconds.
const CHIP: [(&str, &str); 3] = [
    ("media.planes_per_die", "2"),
    ("media.channel_mt_per_second", "100"),
    ("media.command_us", "1"),
];

fn media(changes: &[(&str, &str)]) -> Media {
    Media::new(&profile(&[&CHIP, changes].concat()).media)
}

/// Gives commands, each at its time, in this order, and returns when each is done.
fn times(media: &mut Media, commands: &[(Picos, Command)]) -> Vec<Picos> {
    let mut ends = vec![0; commands.len()];
    let mut done = Vec::new();
    let mut next = commands.iter().peekable();
    while next.peek().is_some() || media.under_way() > 0 {
        let at = next.peek().map_or(Picos::MAX, |(at, _)| *at);
        if media.next_time() <= at {
            media.step(&mut done);
            for done in done.drain(..) {
                ends[done.command.tag.number() as usize] = media.now();
                let delays = done.delays;
                let sum = delays.total();
                assert_eq!(
                    sum,
                    if done.command.cause == Cause::Host {
                        media.now() - done.issued_at
                    } else {
                        0
                    },
                    "{done:?}"
                );
            }
        } else {
            media.advance_to(at);
            media.submit(next.next().unwrap().1);
        }
    }
    ends
}

/// Commands at time 0 with tags from 0 on.
fn at_once(commands: &[Command]) -> Vec<(Picos, Command)> {
    (0..)
        .zip(commands)
        .map(|(tag, command)| (0, Command { tag: Tag::drive(tag), ..*command }))
        .collect()
}

/// A page of the chip: 32 erase blocks of 8 pages a plane.
fn page(plane: u32, block: u32, place: u32) -> Ppn {
    Ppn((plane * 32 + block) * 8 + place)
}

fn read(page: Ppn) -> Command {
    Command::read(page, 4096, Cause::Host, Tag::drive(0))
}

fn program(page: Ppn) -> Command {
    Command::program(page, 4096, Cause::Host, Tag::drive(0))
}

fn erase(page: Ppn) -> Command {
    Command::erase(page, Cause::Cleaning, Tag::drive(0))
}

/// Mean and standard deviation of the time of a read without data, over 20,000 reads: within 4
/// standard errors of what was asked for.
#[test]
fn noise_is_as_wide_as_asked_for_and_repeats_with_its_seed() {
    let times_with = |seed| -> Vec<f64> {
        let mut media =
            media(&[("media.time_noise", "0.2"), ("media.command_us", "0")]).with_seed(seed);
        let read = Command { bytes: 0, ..read(page(0, 0, 0)) };
        let mut one = || {
            let from = media.now();
            (times(&mut media, &[(from, Command { tag: Tag::drive(0), ..read })])[0] - from) as f64
        };
        (0..20_000).map(|_| one()).collect()
    };
    let all = times_with(1);
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let deviation =
        (all.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
    let read = (75 * US) as f64;
    assert!((mean / read - 1.0).abs() < 4.0 * 0.2 / 141.0, "{mean}");
    assert!((deviation / read - 0.2).abs() < 4.0 * 0.2 / 200.0, "{deviation}");
    assert_eq!(all, times_with(1));
    assert_ne!(all, times_with(2));
}

#[test]
fn one_command_takes_command_array_and_transfer() {
    let one = |command| times(&mut media(&[]), &at_once(&[command]))[0];
    assert_eq!(one(read(page(0, 0, 0))), (1 + 75) * US + DATA);
    assert_eq!(one(Command { bytes: 512, ..read(page(0, 0, 0)) }), (1 + 75) * US + 5_120_000);
    assert_eq!(one(program(page(0, 0, 0))), US + DATA + 750 * US);
    assert_eq!(one(erase(page(0, 0, 0))), (1 + 3800) * US);
    assert_eq!(
        one(Command::copy_back(page(0, 1, 0), page(0, 0, 0), Cause::Cleaning, Tag::drive(0))),
        (1 + 75 + 750) * US
    );
}

#[test]
fn a_die_does_one_after_the_other() {
    let commands =
        [program(page(0, 0, 0)), read(page(0, 0, 0)), erase(page(1, 0, 0)), program(page(1, 0, 0))];
    let (p, r, e) = (751 * US + DATA, 76 * US + DATA, 3801 * US);
    assert_eq!(times(&mut media(&[]), &at_once(&commands)), [p, p + r, p + r + e, p + r + e + p]);
}

#[test]
fn dies_share_their_channel_and_nothing_else() {
    let keys = [("media.dies_per_package", "2"), ("media.planes_per_die", "1")];
    // Both arrays work at once; the second command waits for the first, the second transfer for the
    // first.
    let found = times(&mut media(&keys), &at_once(&[read(page(0, 0, 0)), read(page(1, 0, 0))]));
    assert_eq!(found, [76 * US + DATA, 76 * US + 2 * DATA]);
    let found =
        times(&mut media(&keys), &at_once(&[program(page(0, 0, 0)), program(page(1, 0, 0))]));
    assert_eq!(found, [751 * US + DATA, 752 * US + 2 * DATA]);
    let own = [("media.channels", "2"), ("media.planes_per_die", "1")];
    let found = times(&mut media(&own), &at_once(&[read(page(0, 0, 0)), read(page(1, 0, 0))]));
    assert_eq!(found, [76 * US + DATA, 76 * US + DATA]);
}

#[test]
fn page_types_take_turns() {
    let keys = [("media.read_us", "[50,70,90]"), ("media.program_us", "[400,900,2000]")];
    let pages: Vec<Command> = (0..8).map(|place| program(page(0, 0, place))).collect();
    let found = times(&mut media(&keys), &at_once(&pages));
    let types = [400, 900, 2000, 400, 900, 2000, 400, 900].map(|us| (1 + us) * US + DATA);
    let sums: Vec<Picos> = types
        .iter()
        .scan(0, |sum, time| {
            *sum += time;
            Some(*sum)
        })
        .collect();
    assert_eq!(found, sums);
    for (place, us) in [(0, 50), (1, 70), (2, 90), (3, 50), (7, 70)] {
        assert_eq!(
            times(&mut media(&keys), &at_once(&[read(page(0, 0, place))])),
            [(1 + us) * US + DATA]
        );
    }
    // A copy-back reads at the speed of its source and programs at that of its target.
    let copy = Command::copy_back(page(0, 1, 2), page(0, 0, 1), Cause::Cleaning, Tag::drive(0));
    assert_eq!(times(&mut media(&keys), &at_once(&[copy])), [(1 + 90 + 900) * US]);
    let mlc = [("media.program_us", "[200,800]")];
    assert_eq!(
        times(&mut media(&mlc), &at_once(&[program(page(0, 0, 0)), program(page(0, 0, 1))])),
        [201 * US + DATA, 1002 * US + 2 * DATA]
    );
}

#[test]
fn planes_work_together_where_they_may() {
    let on = [("media.multi_plane", "true")];
    let pair = |a, b| times(&mut media(&on), &at_once(&[erase(page(0, 9, 0)), a, b]));
    let start = 3801 * US;
    // Both commands are sent, both arrays read, then one page after the other goes out.
    assert_eq!(
        pair(read(page(0, 0, 3)), read(page(1, 0, 5)))[1..],
        [start + 77 * US + DATA, start + 77 * US + 2 * DATA]
    );
    assert_eq!(
        pair(program(page(0, 0, 0)), program(page(1, 4, 0)))[1..],
        [start + 752 * US + 2 * DATA; 2]
    );
    assert_eq!(pair(erase(page(0, 1, 0)), erase(page(1, 0, 0)))[1..], [start + 3802 * US; 2]);
    // Not at different places, not on one plane, not different operations.
    let one_by_one = [start + 751 * US + DATA, start + 1502 * US + 2 * DATA];
    assert_eq!(pair(program(page(0, 0, 0)), program(page(1, 0, 1)))[1..], one_by_one);
    assert_eq!(pair(program(page(0, 0, 0)), program(page(0, 0, 1)))[1..], one_by_one);
    assert_eq!(
        pair(program(page(0, 0, 0)), erase(page(1, 0, 0)))[1..],
        [start + 751 * US + DATA, start + 4552 * US + DATA]
    );
    let off = times(&mut media(&[]), &at_once(&[program(page(0, 0, 0)), program(page(1, 0, 0))]));
    assert_eq!(off, [751 * US + DATA, 1502 * US + 2 * DATA]);
}

#[test]
fn cache_mode_hides_the_shorter_of_array_and_channel() {
    let on = ("media.cache_mode", "true");
    // The data of the next program comes while the array is busy: then it only takes the array's
    // time.
    let pages: Vec<Command> = (0..8).map(|place| program(page(0, 0, place))).collect();
    let found = times(&mut media(&[on]), &at_once(&pages));
    let first = 751 * US + DATA;
    assert_eq!(found, (0..8).map(|i| first + i * 750 * US).collect::<Vec<_>>());
    // As long as the channel is slower than the array, it is the other way round: the array waits
    // for data.
    let found = times(&mut media(&[on, ("media.program_us", "[20]")]), &at_once(&pages));
    assert_eq!(found, (1..=8).map(|i| i * (US + DATA) + 20 * US).collect::<Vec<_>>());
    // The array reads the next page, once its command is sent, while the last one goes out.
    let pages: Vec<Command> = (0..5).map(|place| read(page(0, 0, place))).collect();
    let found = times(&mut media(&[on]), &at_once(&pages));
    assert_eq!(found[..4], (1..5).map(|i| i * 76 * US + US + DATA).collect::<Vec<_>>());
    assert_eq!(found[4], 5 * 76 * US + DATA);
    let found = times(&mut media(&[on, ("media.read_us", "[25]")]), &at_once(&pages));
    assert_eq!(found[..4], (1..5).map(|i| 26 * US + i * (US + DATA)).collect::<Vec<_>>());
    assert_eq!(found[4], 26 * US + 4 * US + 5 * DATA);
}

#[test]
fn reads_interrupt_programs_and_erases() {
    let keys = [("media.suspend", "true"), ("media.suspend_us", "5")];
    let read_time = 76 * US + DATA;
    let run = |command, reads: &[Picos]| {
        let first = (0, Command { tag: Tag::drive(0), ..command });
        let reads = (1..)
            .zip(reads)
            .map(|(tag, &at)| (at, Command { tag: Tag::drive(tag), ..read(page(1, 0, 0)) }));
        times(&mut media(&keys), &std::iter::once(first).chain(reads).collect::<Vec<_>>())
    };
    let alone = 751 * US + DATA;
    let there_and_back = 10 * US + read_time;
    assert_eq!(
        run(program(page(0, 0, 0)), &[100 * US]),
        [alone + there_and_back, 105 * US + read_time]
    );
    assert_eq!(
        run(erase(page(0, 0, 0)), &[1000 * US]),
        [3801 * US + there_and_back, 1005 * US + read_time]
    );
    // Two reads at once interrupt once; two apart, twice.
    let twice = run(program(page(0, 0, 0)), &[100 * US, 100 * US]);
    assert_eq!(
        twice,
        [alone + 10 * US + 2 * read_time, 105 * US + read_time, 105 * US + 2 * read_time]
    );
    let apart = run(program(page(0, 0, 0)), &[100 * US, 400 * US]);
    assert_eq!(apart, [alone + 2 * there_and_back, 105 * US + read_time, 405 * US + read_time]);
    // Not while the data still comes, and not when it is nearly done.
    assert_eq!(run(program(page(0, 0, 0)), &[10 * US])[1], alone + read_time);
    assert_eq!(run(program(page(0, 0, 0)), &[alone - 4 * US]), [alone, alone + read_time]);
}

/// The second read waits for the end of the program, which was interrupted as often as it may be.
#[test]
fn a_program_is_interrupted_no_more_often_than_it_may_be() {
    let run = |most: &str| {
        let keys = [
            ("media.suspend", "true"),
            ("media.suspend_us", "5"),
            ("media.most_suspensions", most),
        ];
        let other = Command { tag: Tag::drive(1), ..read(page(1, 0, 0)) };
        let last = Command { tag: Tag::drive(2), ..other };
        let first = (0, program(page(0, 0, 0)));
        times(&mut media(&keys), &[first, (100 * US, other), (400 * US, last)])
    };
    let (alone, read_time) = (751 * US + DATA, 76 * US + DATA);
    let there_and_back = 10 * US + read_time;
    let end = alone + there_and_back;
    assert_eq!(run("1"), [end, 105 * US + read_time, end + read_time]);
    assert_eq!(run("2"), [end + there_and_back, 105 * US + read_time, 405 * US + read_time]);
}

#[test]
fn reads_may_overtake_what_waits() {
    let commands = [program(page(0, 0, 0)), program(page(0, 0, 1)), read(page(1, 0, 0))];
    let (p, r) = (751 * US + DATA, 76 * US + DATA);
    assert_eq!(times(&mut media(&[]), &at_once(&commands)), [p, 2 * p, 2 * p + r]);
    assert_eq!(
        times(&mut media(&[("media.order", "reads_first")]), &at_once(&commands)),
        [p, 2 * p + r, p + r]
    );
}

#[test]
fn a_million_transfers_lose_no_fraction_of_a_nanosecond() {
    let mut media = Media::new(&profile(&[("media.channel_mt_per_second", "1200")]).media);
    media.preset(EraseBlockId(0), 8);
    let mut done = Vec::new();
    for _ in 0..1_000_000 {
        media.submit(read(page(0, 0, 0)));
        media.step(&mut done);
        media.step(&mut done);
        done.clear();
    }
    assert_eq!(media.counters().of(FlashOp::Read), 1_000_000);
    let exact = 1e6 * 4096.0 / 1200e6 * 1e12;
    assert_within(
        media.channel_busy(0) as f64,
        exact,
        1e-6,
        "a million transfers of 4 KiB at 1200 MT/s x 8",
    );
    assert_within(
        (media.now() - 1_000_000 * 75 * US) as f64,
        exact,
        1e-6,
        "the same from the clock",
    );
}

/// `dies` dies on as many channels, without any time outside of them: nothing is shared.
fn separate_dies(dies: u32) -> Profile {
    let mut profile =
        profile(&[("media.channels", &dies.to_string()), ("media.erase_blocks_per_plane", "64")]);
    profile.interface.link_mb_per_second = f64::INFINITY;
    profile
}

/// Reads a second in units of dies: how many are busy.
fn busy_dies(profile: &Profile, depth: u32, service: Picos) -> f64 {
    // A number of logical pages that divides by the dies would be drawn exactly evenly; what is
    // over is below 0.1 %.
    let outcome = run(
        &settings(profile, State::Filled, depth, 400_000),
        Endless::random(IoOp::Read, profile, 11),
    );
    outcome.iops() * service as f64 * 1e-12
}

/// The exact mean number of busy dies when all service times are equal, and all customers began at
/// once.
///
/// Then every completion falls on a multiple of the service time, so that the state after each is a
/// Markov chain: of each die that has customers one leaves, and all that left choose their next die
/// at random. (Becchetti et al., "Self-stabilizing repeated balls-into-bins", SPAA 2015, study this
/// chain; it has no product form.) States are the sorted numbers of customers; the stationary
/// distribution is found by going through the chain until nothing changes.
fn exact_busy_dies(dies: usize, depth: usize) -> f64 {
    type States = BTreeMap<Vec<u8>, f64>;
    let throw = |states: States| {
        let mut next = States::new();
        for (state, chance) in states {
            for die in 0..dies {
                let mut state = state.clone();
                state[die] += 1;
                state.sort_unstable();
                *next.entry(state).or_default() += chance / dies as f64;
            }
        }
        next
    };
    let all_at_one = [vec![0; dies - 1], vec![depth as u8]].concat();
    let mut steps: BTreeMap<Vec<u8>, States> = BTreeMap::new();
    let mut states = States::from([(all_at_one, 1.0)]);
    let mut busy = 0.0;
    for _ in 0..2000 {
        let mut next = States::new();
        for (state, chance) in &states {
            let reached = steps.entry(state.clone()).or_insert_with(|| {
                let leaving = state.iter().filter(|&&customers| customers > 0).count();
                let mut rest: Vec<u8> =
                    state.iter().map(|customers| customers.saturating_sub(1)).collect();
                rest.sort_unstable();
                (0..leaving).fold(States::from([(rest, 1.0)]), |states, _| throw(states))
            });
            reached
                .iter()
                .for_each(|(state, part)| *next.entry(state.clone()).or_default() += chance * part);
        }
        let before = busy;
        busy = next
            .iter()
            .map(|(state, chance)| {
                chance * state.iter().filter(|&&customers| customers > 0).count() as f64
            })
            .sum();
        states = next;
        if f64::abs(busy - before) < 1e-12 {
            return busy;
        }
    }
    panic!("the chain of {depth} customers at {dies} dies did not settle");
}

#[test]
fn random_reads_over_dies_follow_the_exact_chain() {
    // Two customers meet with a chance of 1 / n: (2 - 1 / n) dies are busy.
    for dies in [2, 4, 8] {
        assert_within(
            exact_busy_dies(dies, 2),
            2.0 - 1.0 / dies as f64,
            1e-9,
            "the chain of two customers",
        );
    }
    let service = 75 * US + 4096_u64.pow(2).div_ceil(4096) * 1_000_000 / 333 + 1;
    for (dies, depth) in
        [(1, 1), (1, 8), (2, 2), (4, 1), (4, 4), (4, 12), (8, 2), (8, 4), (8, 8), (8, 12)]
    {
        let found = busy_dies(&separate_dies(dies), depth, service);
        let exact = exact_busy_dies(dies as usize, depth as usize);
        assert_within(found, exact, 0.005, &format!("{dies} dies at depth {depth}"));
    }
}

#[test]
fn throughput_keeps_within_its_bounds() {
    let service = 75 * US + 12_300_301;
    let mut last = 0.0;
    for depth in [1, 2, 3, 4, 6, 8, 16, 32, 128, 1000] {
        let found = busy_dies(&separate_dies(16), depth, service);
        assert!(
            found <= f64::from(depth.min(16)) * 1.000_001,
            "at depth {depth}, {found} dies are busy"
        );
        assert!(
            found >= last,
            "more outstanding reads are not slower: {found} at depth {depth} after {last}"
        );
        // With exponential service, whose network has a product form; equal service times leave
        // fewer dies idle.
        let exponential = 16.0 * f64::from(depth) / f64::from(depth + 15);
        assert!(
            found >= 0.999 * exponential,
            "at depth {depth}, {found} dies are busy, not {exponential}"
        );
        last = found;
    }
    assert!(last > 0.98 * 16.0, "in the end all dies are busy: {last}");
    // One by one: not a picosecond besides the service.
    let outcome = run(
        &settings(&separate_dies(16), State::Filled, 1, 1000),
        Endless::random(IoOp::Read, &separate_dies(16), 11),
    );
    assert_eq!(outcome.elapsed, 1000 * service);
}

/// A second simulation, written for this test alone: a heap of events, customers that choose a die
/// at random, wait there in order, are read, then wait for the channel in order, and keep the die
/// until they are through. Returns customers a second.
fn second_simulation(
    channels: usize,
    dies_of_channel: usize,
    depth: usize,
    array: Picos,
    transfer: Picos,
    customers: u64,
) -> f64 {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Read,
        Sent,
    }
    let dies = channels * dies_of_channel;
    let mut random = SplitMix(77);
    let mut waiting = vec![VecDeque::new(); dies];
    let mut bus = vec![VecDeque::new(); channels];
    let mut events = BinaryHeap::new();
    let mut done = 0;
    let mut arrivals: Vec<usize> = (0..depth).map(|_| random.below(dies as u32) as usize).collect();
    let mut now = 0;
    loop {
        for die in arrivals.drain(..) {
            waiting[die].push_back(());
            if waiting[die].len() == 1 {
                events.push(Reverse((now + array, Event::Read, die)));
            }
        }
        let Some(Reverse((at, event, die))) = events.pop() else {
            unreachable!("customers never leave")
        };
        now = at;
        let channel = die / dies_of_channel;
        match event {
            Event::Read => {
                bus[channel].push_back(die);
                if bus[channel].len() == 1 {
                    events.push(Reverse((now + transfer, Event::Sent, die)));
                }
            }
            Event::Sent => {
                bus[channel].pop_front();
                if let Some(&next) = bus[channel].front() {
                    events.push(Reverse((now + transfer, Event::Sent, next)));
                }
                waiting[die].pop_front();
                if !waiting[die].is_empty() {
                    events.push(Reverse((now + array, Event::Read, die)));
                }
                done += 1;
                if done == customers {
                    return done as f64 / (now as f64 * 1e-12);
                }
                arrivals.push(random.below(dies as u32) as usize);
            }
        }
    }
}

#[test]
fn random_reads_with_shared_channels_agree_with_a_second_simulation() {
    // 333 MB/s: little contention. 100 MB/s: half a read is transfer, the channel limits. 1200
    // MB/s: hardly any.
    for (channels, dies, speed) in
        [(2, 4, "333"), (2, 4, "100"), (8, 2, "333"), (4, 8, "1200"), (1, 8, "100")]
    {
        let mut profile = profile(&[
            ("media.channels", &channels.to_string()),
            ("media.dies_per_package", &dies.to_string()),
            ("media.channel_mt_per_second", speed),
        ]);
        profile.interface.link_mb_per_second = f64::INFINITY;
        let transfer = (4096.0 / (speed.parse::<f64>().unwrap() * 1e6) * 1e12_f64).ceil() as Picos;
        for depth in [1, 4, 16, 64] {
            let found = run(
                &settings(&profile, State::Filled, depth, 300_000),
                Endless::random(IoOp::Read, &profile, 5),
            )
            .iops();
            let other =
                second_simulation(channels, dies, depth as usize, 75 * US, transfer, 300_000);
            assert_within(
                found,
                other,
                0.01,
                &format!("{channels} channels of {dies} dies, {speed} MT/s, depth {depth}"),
            );
        }
    }
}

#[test]
fn sequential_reads_and_writes_reach_the_channels_the_link_and_the_dies() {
    let drive = |changes: &[(&str, &str)]| {
        let sizes = [
            ("media.channels", "4"),
            ("media.dies_per_package", "8"),
            ("media.erase_blocks_per_plane", "1024"),
            ("cleaning.start_below_free", "0"),
        ];
        profile(&[&sizes, changes].concat())
    };
    let bandwidth = |profile: &Profile, op, state, length| {
        let mut settings = settings(profile, state, 16, 6000);
        settings.warm_up_requests = 1000;
        run(&settings, Endless::sequential(op, profile, length)).bytes_per_second()
    };
    let slow_channels =
        drive(&[("media.channel_mt_per_second", "40"), ("interface.link_mb_per_second", "1e6")]);
    assert_within(
        bandwidth(&slow_channels, IoOp::Read, State::Filled, 16),
        160e6,
        0.01,
        "4 channels of 40 MB/s",
    );
    let slow_link = drive(&[
        ("interface.kind", "sata"),
        ("interface.queue_depth", "32"),
        ("interface.link_mb_per_second", "250"),
    ]);
    assert_within(
        bandwidth(&slow_link, IoOp::Read, State::Filled, 16),
        250e6,
        0.01,
        "a link of 250 MB/s",
    );
    let buffered = [
        ("interface.link_mb_per_second", "60"),
        ("write_buffer.bytes", "1Mi"),
        ("write_buffer.in_flight_pages", "64"),
    ];
    assert_within(
        bandwidth(&drive(&buffered), IoOp::Write, State::Fresh, 8),
        60e6,
        0.01,
        "writes over a link of 60 MB/s",
    );
    // 32 dies program 4 KiB in 750 us and the transfer; the link and the channels could do more.
    // Pages go round the planes, one each.
    let transfer = 4096.0 / 333e6;
    let dies = 32.0 * 4096.0 / (750e-6 + transfer);
    assert_within(
        bandwidth(&drive(&[]), IoOp::Write, State::Fresh, 16),
        dies,
        0.01,
        "32 dies that program",
    );
}

/// 2 planes, so that reserve and write frontiers take little: 5 erase blocks or so of many
/// thousands.
fn large(blocks: u32, over_provisioning: f64, victim: &str) -> Profile {
    profile(&[
        ("media.channels", "2"),
        ("media.erase_blocks_per_plane", &blocks.to_string()),
        ("media.pages_per_erase_block", "64"),
        ("ftl.over_provisioning", &over_provisioning.to_string()),
        ("ftl.victim", victim),
    ])
}

/// Over a part with time, after so many untimed turns of the physical pages that what it was filled
/// with is forgotten.
fn timed_write_amplification(profile: &Profile, expected: f64) -> f64 {
    let overwrites = (8.0 * (1.0 + profile.ftl.over_provisioning) / expected).max(1.5);
    let outcome = run(
        &settings(profile, State::Aged { overwrites }, 32, 250_000),
        Endless::random(IoOp::Write, profile, 3),
    );
    outcome.write_amplification
}

fn counted_write_amplification(profile: &Profile) -> f64 {
    let geometry = profile.layout().geometry(profile.logical_pages());
    let settings = counting::CountingSettings {
        geometry,
        placement: Spec::parse("none").unwrap(),
        victim: Spec::parse(&profile.ftl.victim).unwrap(),
        start: counting::Start::Filled,
        seed: 1,
        repeat: 1,
        audit: false,
    };
    let mut random = SplitMix(9);
    let pages = geometry.logical_pages;
    let operations: Vec<PageOp> =
        (0..6 * u64::from(pages)).map(|_| PageOp::write(Lpn(random.below(pages)))).collect();
    let outcome = counting::simulate(
        &settings,
        &Vec::new,
        &mut VecSource::new(pages, operations.into()),
        &Progress::default(),
    )
    .unwrap();
    outcome.write_amplification
}

fn check_write_amplification(victim: &str, p_gc: impl Fn(f64) -> f64) {
    for (over_provisioning, blocks) in
        [(0.07, 8192), (0.1, 8192), (0.2, 4096), (0.3, 4096), (0.5, 4096)]
    {
        let profile = large(blocks, over_provisioning, victim);
        let theory = 1.0 / (1.0 - p_gc(over_provisioning));
        let found = timed_write_amplification(&profile, theory);
        assert_within(
            found,
            theory,
            0.01,
            &format!("write amplification of {victim} at {over_provisioning} and theory"),
        );
        let counted = counted_write_amplification(&profile);
        assert_within(
            found,
            counted,
            0.01,
            &format!(
                "write amplification of {victim} at {over_provisioning} and the counting simulator"
            ),
        );
    }
}

#[test]
fn write_amplification_of_fifo_is_that_of_theory() {
    check_write_amplification("lru", models::p_gc_lru);
}

#[test]
fn write_amplification_of_greedy_is_that_of_the_mean_field() {
    check_write_amplification("greedy", |alpha| models::p_gc_greedy(alpha, 64).unwrap());
}

#[test]
fn write_amplification_of_d_choices_is_that_of_the_mean_field() {
    check_write_amplification("d_choices(d=5)", |alpha| {
        models::p_gc_d_choices(alpha, 64, 5).unwrap()
    });
}
