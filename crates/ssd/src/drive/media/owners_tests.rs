//! Commands that are given up or race, the state of a die, and the exact times of all that.

use units::{EraseBlockId, Ppn};

use super::*;
use crate::drive::profile::{CommandOrder, MediaConfig};

pub(super) const US: Picos = 1_000_000;
/// Of the media below: command and address, transfer of a page, and the operations.
pub(super) const COMMAND: Picos = US;
const TRANSFER: Picos = 4096 * US / 40;
pub(super) const READ: Picos = COMMAND + 25 * US + TRANSFER;
const PROGRAM: Picos = COMMAND + TRANSFER + 200 * US;
pub(super) const ERASE: Picos = COMMAND + 1500 * US;

/// Two channels with a die each, so that neither waits for the other.
pub(super) fn config() -> MediaConfig {
    MediaConfig {
        channels: 2,
        packages_per_channel: 1,
        dies_per_package: 1,
        planes_per_die: 1,
        erase_blocks_per_plane: 8,
        pages_per_erase_block: 8,
        page_bytes: 4096,
        slices: 1,
        pages_per_read: 1,
        pages_per_program: 1,
        part_read_us: Vec::new(),
        most_suspensions: 16,
        read_us: vec![25.0],
        program_us: vec![200.0],
        erase_us: 1500.0,
        command_us: 1.0,
        channel_mt_per_second: 40.0,
        channel_bits: 8,
        multi_plane: false,
        cache_mode: false,
        copy_back: false,
        suspend: false,
        suspend_at_points: false,
        suspend_us: 0.0,
        order: CommandOrder::Fifo,
        endurance_cycles: 0,
        endurance_spread: 0.0,
        factory_bad_share: 0.0,
        read_retry_mean: Vec::new(),
        read_retry_cycles: Vec::new(),
        worn_cycles: 0,
        time_noise: 0.0,
    }
}

struct Bench {
    media: Media,
    /// The first page of an erase block on each die: written, and erased.
    written: [Ppn; 2],
    erased: [Ppn; 2],
}

impl Bench {
    fn new(config: &MediaConfig) -> Self {
        let mut media = Media::new(config);
        media.follow(1000);
        let layout = media.layout().clone();
        let on_die = |die: u32, number: usize| {
            let of_die = (0..layout.erase_blocks())
                .map(EraseBlockId)
                .filter(|&block| layout.die_of_plane(layout.plane_of(block)) == die);
            of_die.clone().nth(number).unwrap()
        };
        for die in 0..2 {
            media.preset(on_die(die, 0), 8);
        }
        let pages = |number| [0, 1].map(|die| layout.page_at(on_die(die, number), 0));
        Self { written: pages(0), erased: pages(1), media }
    }

    fn read(&mut self, die: usize, place: u32, tag: Tag) -> CommandId {
        self.media.submit_named(self.reading(die, place, tag))
    }

    fn reading(&self, die: usize, place: u32, tag: Tag) -> Command {
        Command::read(Ppn(self.written[die].0 + place), 4096, Cause::Host, tag)
    }

    fn programming(&mut self, die: usize, place: u32, tag: Tag) -> Command {
        let page = Ppn(self.erased[die].0 + place);
        if !tag.is_scheme() {
            self.media.witness_mut().unwrap().brings(tag.number(), 1000 + tag.number());
        }
        Command::program(page, 4096, Cause::Host, tag)
    }

    fn program(&mut self, die: usize, place: u32, tag: Tag) -> CommandId {
        let command = self.programming(die, place, tag);
        self.media.submit_named(command)
    }

    /// Steps to the end: the tag and time of each report.
    fn ends(&mut self) -> Vec<(Tag, Picos)> {
        let mut ends = Vec::new();
        let mut done = Vec::new();
        while self.media.under_way() > 0 {
            self.media.step(&mut done);
            ends.extend(done.drain(..).map(|done| (done.command.tag, self.media.now())));
        }
        assert_eq!(self.media.next_time(), NEVER, "nothing is left to happen");
        ends
    }

    fn busy(&self, die: u32) -> Picos {
        FlashOp::ALL
            .iter()
            .flat_map(|&op| Cause::ALL.map(|cause| self.media.time_on(die, op, cause)))
            .sum()
    }

    fn in_vain(&self) -> u64 {
        self.media.counters().in_vain.iter().flatten().sum()
    }
}

fn tag(number: u32) -> Tag {
    Tag::drive(number)
}

/// The owner of parts hears once, of the last; the idea taken out, it would hear of each.
#[test]
fn of_parts_the_last_is_reported() {
    let mut bench = Bench::new(&config());
    // The second die is busy with another read first.
    let before = bench.read(1, 1, tag(9));
    let wanted = Ppn(bench.written[0].0 + 5);
    let part = |die| Command { cause: Cause::Reconstruction, ..bench.reading(die, 2, tag(1)) };
    let parts = [part(0), part(1)];
    bench.media.submit_parts(wanted, parts);
    assert_eq!(bench.media.stage(before), Stage::Running);
    assert_eq!(bench.ends(), [(tag(9), READ), (tag(1), 2 * READ)]);
    assert_eq!((bench.media.counters().of(FlashOp::Read), bench.in_vain()), (3, 0));
    let witness = bench.media.witness().unwrap();
    let parts = witness.commands().iter().filter(|carried| carried.command.is_part());
    assert!(parts.clone().all(|carried| carried.command.from == wanted) && parts.count() == 2);
}

#[test]
fn one_that_waits_vanishes_and_what_is_behind_it_moves_up() {
    let mut bench = Bench::new(&config());
    let ids = [0, 1, 2, 3].map(|number| bench.read(0, number, tag(number)));
    assert_eq!(bench.media.give_up(ids[1]), Stage::Waiting);
    assert_eq!(bench.media.under_way(), 3);
    assert_eq!(bench.media.give_up(ids[1]), Stage::Ended);
    assert_eq!(bench.ends(), [(tag(0), READ), (tag(2), 2 * READ), (tag(3), 3 * READ)]);
    assert_eq!(
        (bench.media.counters().vanished, bench.in_vain(), bench.media.counters().total()),
        (1, 0, 3)
    );
    assert_eq!(bench.busy(0), 3 * READ);
}

#[test]
fn the_last_and_the_only_one_that_waits_vanish() {
    let mut bench = Bench::new(&config());
    let ids = [0, 1, 2].map(|number| bench.read(0, number, tag(number)));
    assert_eq!(bench.media.give_up(ids[2]), Stage::Waiting);
    assert_eq!(bench.media.give_up(ids[1]), Stage::Waiting);
    bench.read(0, 3, tag(3));
    assert_eq!(bench.ends(), [(tag(0), READ), (tag(3), 2 * READ)]);
}

#[test]
fn one_that_runs_goes_on_and_nobody_hears_of_it() {
    let mut bench = Bench::new(&config());
    let first = bench.read(0, 0, tag(0));
    bench.read(0, 1, tag(1));
    assert_eq!(bench.media.stage(first), Stage::Running);
    assert_eq!(bench.media.give_up(first), Stage::Running);
    assert_eq!(
        (bench.media.stage(first), bench.media.give_up(first)),
        (Stage::Ended, Stage::Ended)
    );
    assert_eq!(bench.ends(), [(tag(1), 2 * READ)]);
    assert_eq!(bench.media.counters().in_vain[FlashOp::Read as usize][Cause::Host as usize], 1);
    assert_eq!(
        (
            bench.in_vain(),
            bench.media.counters().vanished,
            bench.media.counters().of(FlashOp::Read)
        ),
        (1, 0, 2)
    );
    assert_eq!(bench.busy(0), 2 * READ);
}

#[test]
fn an_end_that_was_reported_is_not_given_up_though_its_slot_is_used_again() {
    let mut bench = Bench::new(&config());
    let first = bench.read(0, 0, tag(0));
    assert_eq!(bench.ends(), [(tag(0), READ)]);
    assert_eq!(bench.media.give_up(first), Stage::Ended);
    let second = bench.read(0, 0, tag(0));
    assert_eq!(
        (bench.media.give_up(first), bench.media.stage(second)),
        (Stage::Ended, Stage::Running)
    );
    assert_eq!(bench.ends(), [(tag(0), 2 * READ)]);
}

#[test]
fn a_program_that_vanishes_leaves_its_page_erased_and_passed_over() {
    let mut bench = Bench::new(&config());
    bench.program(0, 0, tag(0));
    let second = bench.program(0, 1, tag(1));
    bench.program(0, 2, tag(2));
    assert_eq!(bench.media.give_up(second), Stage::Waiting);
    assert_eq!(bench.ends(), [(tag(0), PROGRAM), (tag(2), 2 * PROGRAM)]);
    let page = |place| Ppn(bench.erased[0].0 + place);
    let contents = [0, 1, 2, 3].map(|place| bench.media.witness().unwrap().content(page(place)));
    assert_eq!(contents, [1000, NOTHING, 1002, NOTHING]);
    assert!(bench.media.is_programmed(page(1)) && !bench.media.is_programmed(page(3)));
}

/// The tag is used again while the program that had it still runs: each page gets what it was to
/// get.
#[test]
fn a_program_that_runs_without_an_owner_still_brings_its_data() {
    let mut bench = Bench::new(&config());
    let first = bench.program(0, 0, tag(7));
    assert_eq!(bench.media.give_up(first), Stage::Running);
    bench.media.witness_mut().unwrap().brings(7, 5);
    let again = Command::program(bench.erased[1], 4096, Cause::Host, tag(7));
    bench.media.submit(again);
    assert_eq!(bench.ends(), [(tag(7), PROGRAM)]);
    let contents = bench.erased.map(|page| bench.media.witness().unwrap().content(page));
    assert_eq!(contents, [1007, 5]);
}

#[test]
#[should_panic(expected = "an erase is not given up")]
fn an_erase_is_not_given_up() {
    let mut bench = Bench::new(&config());
    let erase =
        bench.media.submit_named(Command::erase(bench.written[0], Cause::Cleaning, Tag::scheme(0)));
    bench.media.give_up(erase);
}

#[test]
fn the_first_of_two_is_reported_and_the_other_vanishes() {
    let mut bench = Bench::new(&config());
    bench.media.submit(Command::erase(bench.erased[0], Cause::Cleaning, Tag::scheme(0)));
    let slow = bench.read(0, 0, tag(1));
    let quick = bench.media.submit_rival(
        slow,
        Loser::IsGivenUp,
        bench.reading(1, 0, tag(1)),
        Loser::IsGivenUp,
    );
    assert_eq!(
        (bench.media.stage(slow), bench.media.stage(quick)),
        (Stage::Waiting, Stage::Running)
    );
    assert_eq!(bench.ends(), [(tag(1), READ), (Tag::scheme(0), ERASE)]);
    assert_eq!((bench.media.counters().vanished, bench.in_vain(), bench.busy(0)), (1, 0, ERASE));
}

#[test]
fn the_first_of_two_is_reported_and_the_other_ends_in_vain() {
    let mut bench = Bench::new(&config());
    let first = bench.read(0, 0, tag(1));
    bench.media.advance_to(10 * US);
    bench.media.submit_rival(
        first,
        Loser::IsGivenUp,
        bench.reading(1, 0, tag(1)),
        Loser::IsGivenUp,
    );
    assert_eq!(bench.ends(), [(tag(1), READ)]);
    assert_eq!(bench.media.now(), 10 * US + READ);
    assert_eq!((bench.in_vain(), bench.media.counters().vanished), (1, 0));
    assert_eq!([bench.busy(0), bench.busy(1)], [READ, READ]);
}

#[test]
fn of_two_that_end_at_once_one_is_reported() {
    let mut bench = Bench::new(&config());
    let first = bench.read(0, 0, tag(1));
    bench.media.submit_rival(
        first,
        Loser::IsGivenUp,
        bench.reading(1, 0, tag(1)),
        Loser::IsGivenUp,
    );
    assert_eq!(bench.ends(), [(tag(1), READ)]);
    assert_eq!((bench.media.counters().of(FlashOp::Read), bench.in_vain()), (2, 1));
}

#[test]
fn any_number_may_race_and_on_one_die_too() {
    let mut bench = Bench::new(&config());
    bench.read(1, 7, tag(9));
    let first = bench.read(0, 0, tag(1));
    let second = bench.media.submit_rival(
        first,
        Loser::IsGivenUp,
        bench.reading(1, 0, tag(1)),
        Loser::IsGivenUp,
    );
    bench.media.submit_rival(
        second,
        Loser::IsGivenUp,
        bench.reading(0, 1, tag(1)),
        Loser::IsGivenUp,
    );
    bench.read(0, 2, tag(2));
    assert_eq!(bench.ends(), [(tag(1), READ), (tag(9), READ), (tag(2), 2 * READ)]);
    // At equal times the lower die comes first: the second still waits behind the read before it.
    assert_eq!((bench.media.counters().vanished, bench.in_vain()), (2, 0));
}

/// A page is written to two dies: the write is done with the first, the other goes on, and its end
/// is the scheme's.
#[test]
fn the_loser_may_go_on_under_another_tag() {
    let mut bench = Bench::new(&config());
    bench.read(0, 0, tag(9));
    let slow = bench.program(0, 0, tag(1));
    let goes_on = Loser::GoesOn(Tag::scheme(4));
    let quick = bench.programming(1, 0, tag(1));
    bench.media.submit_rival(slow, goes_on, quick, goes_on);
    assert_eq!(bench.ends(), [(tag(9), READ), (tag(1), PROGRAM), (Tag::scheme(4), READ + PROGRAM)]);
    assert_eq!((bench.in_vain(), bench.media.counters().vanished), (0, 0));
    assert_eq!(bench.erased.map(|page| bench.media.witness().unwrap().content(page)), [1001, 1001]);
}

#[test]
fn who_is_left_alone_in_a_race_is_reported() {
    let mut bench = Bench::new(&config());
    let first = bench.read(0, 0, tag(1));
    let rival = bench.media.submit_rival(
        first,
        Loser::IsGivenUp,
        bench.reading(1, 0, tag(1)),
        Loser::IsGivenUp,
    );
    assert_eq!(bench.media.give_up(first), Stage::Running);
    assert_eq!(bench.media.stage(rival), Stage::Running);
    assert_eq!(bench.ends(), [(tag(1), READ)]);
    assert_eq!(bench.in_vain(), 1);
    assert!(bench.media.apart.is_empty());
}

#[test]
fn a_rival_of_one_that_has_ended_is_alone() {
    let mut bench = Bench::new(&config());
    let first = bench.read(0, 0, tag(1));
    assert_eq!(bench.ends(), [(tag(1), READ)]);
    bench.media.submit_rival(
        first,
        Loser::IsGivenUp,
        bench.reading(1, 0, tag(2)),
        Loser::IsGivenUp,
    );
    assert_eq!(bench.ends(), [(tag(2), 2 * READ)]);
    assert!(bench.media.apart.is_empty());
}

/// Groups of planes, cache mode and interruptions: whatever a command is in, its stage is known and
/// giving it up leaves the others alone.
#[test]
fn planes_cache_and_interruptions_know_their_commands() {
    for features in 0..8 {
        let config = MediaConfig {
            planes_per_die: 2,
            multi_plane: features & 1 != 0,
            cache_mode: features & 2 != 0,
            suspend: features & 4 != 0,
            suspend_us: 5.0,
            ..config()
        };
        for given_up in 0..8 {
            for steps in 0..12 {
                let mut bench = Bench::new(&config);
                let ids: Vec<CommandId> = (0..8)
                    .map(|number| {
                        if number < 4 {
                            bench.program(0, number, tag(number))
                        } else {
                            bench.read(0, number, tag(number))
                        }
                    })
                    .collect();
                let mut done = Vec::new();
                for _ in 0..steps {
                    if bench.media.next_time() != NEVER {
                        bench.media.step(&mut done);
                    }
                }
                let mut told: Vec<u32> =
                    done.iter().map(|done: &Done| done.command.tag.number()).collect();
                let has_ended = told.contains(&(given_up as u32));
                let stage = bench.media.give_up(ids[given_up]);
                assert_eq!(stage == Stage::Ended, has_ended);
                told.extend(bench.ends().iter().map(|(tag, _)| tag.number()));
                told.sort_unstable();
                let expected: Vec<u32> =
                    (0..8).filter(|&number| has_ended || number != given_up as u32).collect();
                assert_eq!(told, expected);
                let counted = (bench.media.counters().vanished, bench.in_vain());
                assert_eq!(
                    counted,
                    (u64::from(stage == Stage::Waiting), u64::from(stage == Stage::Running))
                );
            }
        }
    }
}

#[test]
fn the_state_of_a_die_says_what_it_does_until_when_and_what_waits() {
    let mut bench = Bench::new(&config());
    let rests = DieState {
        work: None,
        since: 0,
        until: None,
        suspended: None,
        waiting_first: 0,
        waiting: 0,
    };
    assert_eq!([bench.media.die_state(0), bench.media.die_state(1)], [rests, rests]);
    bench.media.advance_to(3 * US);
    bench.read(0, 0, tag(0));
    bench.program(0, 0, tag(1));
    let reads = DieState {
        work: Some((FlashOp::Read, Cause::Host)),
        since: 3 * US,
        until: Some(3 * US + COMMAND + 25 * US),
        waiting: 1,
        ..rests
    };
    assert_eq!([bench.media.die_state(0), bench.media.die_state(1)], [reads, rests]);
    let mut done = Vec::new();
    bench.media.step(&mut done);
    assert_eq!(bench.media.die_state(0), DieState { until: Some(3 * US + READ), ..reads });
    bench.media.step(&mut done);
    let begun = 3 * US + READ;
    let programs = DieState {
        work: Some((FlashOp::Program, Cause::Host)),
        since: begun,
        until: Some(begun + PROGRAM),
        waiting: 0,
        ..rests
    };
    assert_eq!(bench.media.die_state(0), programs);
    bench.ends();
    assert_eq!(bench.media.die_state(0), DieState { since: begun + PROGRAM, ..rests });
    assert_eq!(bench.media.idle_since(0), Some(begun + PROGRAM));
}

#[test]
fn the_state_of_a_die_shows_what_reads_interrupted() {
    let mut bench = Bench::new(&MediaConfig { suspend: true, suspend_us: 5.0, ..config() });
    bench.media.submit(Command::erase(bench.erased[0], Cause::Cleaning, Tag::scheme(0)));
    bench.media.advance_to(101 * US);
    bench.read(0, 0, tag(0));
    bench.read(0, 1, tag(1));
    let state = bench.media.die_state(0);
    assert_eq!(state.work, Some((FlashOp::Read, Cause::Host)));
    assert_eq!(state.suspended, Some((FlashOp::Erase, Cause::Cleaning, 1400 * US)));
    assert_eq!((state.since, state.until), (101 * US, Some(101 * US + 5 * US + COMMAND + 25 * US)));
    assert_eq!((state.waiting_first, state.waiting), (1, 0));
}
