//! Services of the drive for a scheme with copies of pages: commands that race, timers for each
//! request, the state of a die. The scheme here holds each page on two dies and is only as large as
//! these tests need; times are exact.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use crate::drive::profile;
use ssd::drive::device::{Completion, Drive, Submission};
use ssd::drive::media::{Cause, Command, CommandId, Done, FlashOp, Loser, Media, Stage, Tag};
use ssd::drive::schemes::{ReadPath, Scheme, SchemeCounters};
use ssd::drive::time::Picos;
use ssd::drive::timers::Timers;
use units::{EraseBlockId, IoOp, Lpn, Ppn};

const US: Picos = 1_000_000;
const ERASE: Picos = 3800 * US;
/// The array, the channel, and the link to the host.
const READ: Picos = 75 * US + 4096 * US / 400 + LINK;
const LINK: Picos = 4096;

/// Rule for reading the second copy.
#[derive(Clone, Copy)]
enum Rule {
    /// Never.
    Never,
    /// If the read still waits for its die after this time.
    After(Picos),
    /// At once: the first of the two reads answers.
    Race,
    /// Instead of the first, if that die is busy and the second is not.
    ByState,
}

/// A read that waits, with the data needed to read its second copy.
struct Late {
    first: CommandId,
    second: Command,
}

/// Page `n` lies in the first erase block of both dies.
struct Copies {
    rule: Rule,
    timers: Timers<Late>,
    rung: u32,
    first_pages: [Ppn; 2],
    erased: [u32; 1],
}

impl Scheme for Copies {
    fn logical_pages(&self) -> u32 {
        8
    }

    fn read(&mut self, lpn: Lpn, bytes: u32, tag: Tag, media: &mut Media) -> ReadPath {
        let [first, second] = self
            .first_pages
            .map(|page| Command::read(Ppn(page.0 + lpn.0), bytes, Cause::Host, tag));
        let is_idle = [0, 1].map(|die| media.die_state(die).work.is_none());
        if matches!(self.rule, Rule::ByState) && is_idle == [false, true] {
            media.submit(second);
            return ReadPath::Flash;
        }
        let first = media.submit_named(first);
        match self.rule {
            Rule::Race => {
                media.submit_rival(first, Loser::IsGivenUp, second, Loser::IsGivenUp);
            }
            Rule::After(patience) => {
                self.timers.set(media.now() + patience, Late { first, second });
            }
            Rule::Never | Rule::ByState => {}
        }
        ReadPath::Flash
    }

    fn next_wake(&self) -> Option<Picos> {
        self.timers.next_time()
    }

    fn wake(&mut self, media: &mut Media) {
        while let Some(late) = self.timers.take_due(media.now()) {
            self.rung += 1;
            if media.stage(late.first) == Stage::Waiting {
                media.submit_rival(late.first, Loser::IsGivenUp, late.second, Loser::IsGivenUp);
            }
        }
    }

    fn write(&mut self, _lpn: Lpn, _tag: Tag, _media: &mut Media) {
        unreachable!("these tests only read");
    }

    fn trim(&mut self, _lpn: Lpn, _media: &mut Media) {}

    fn completed(&mut self, done: &Done, _media: &mut Media) {
        assert_eq!(done.command.op, FlashOp::Erase);
        self.erased[0] += 1;
    }

    fn write_untimed(&mut self, _lpn: Lpn) {}

    fn trim_untimed(&mut self, _lpn: Lpn) {}

    fn settle(&mut self, media: &mut Media) {
        for page in self.first_pages {
            media.preset(media.layout().block_of(page), 8);
        }
    }

    fn is_quiet(&self) -> bool {
        self.timers.is_empty()
    }

    fn counters(&self) -> SchemeCounters {
        SchemeCounters::default()
    }

    fn erase_counts(&self) -> &[u32] {
        &self.erased
    }

    fn table_bytes(&self) -> usize {
        0
    }

    fn audit(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Two dies, each on a channel; the first erases for cleaning from time 0 on, if it `is_busy`.
fn copies(rule: Rule, is_busy: bool) -> Drive<Copies> {
    let profile = profile(&[("media.channels", "2"), ("media.channel_mt_per_second", "400")]);
    let media = Media::new(&profile.media);
    let layout = media.layout();
    let block = |die: u32, number: usize| {
        let of_die = (0..layout.erase_blocks())
            .map(EraseBlockId)
            .filter(|&b| layout.die_of_plane(layout.plane_of(b)) == die);
        layout.page_at(of_die.collect::<Vec<_>>()[number], 0)
    };
    let first_pages = [block(0, 0), block(1, 0)];
    let to_erase = block(0, 1);
    let mut drive = Drive::new(
        &profile,
        Copies { rule, timers: Timers::default(), rung: 0, first_pages, erased: [0] },
        media,
    );
    drive.settle();
    if is_busy {
        drive.media_mut().submit(Command::erase(to_erase, Cause::Cleaning, Tag::scheme(0)));
    }
    drive
}

fn read(pages: std::ops::Range<u64>) -> Submission {
    let length = (pages.end - pages.start) as u32 * 4096;
    Submission {
        op: IoOp::Read,
        offset: pages.start * 4096,
        length,
        queue: 0,
        priority: 0,
        is_fua: false,
        placement: 0,
        handle: 0,
    }
}

/// Steps until there are no more events.
fn completions(drive: &mut Drive<Copies>) -> Vec<Completion> {
    let mut completed = Vec::new();
    while drive.next_time().is_some() {
        drive.step(&mut completed);
    }
    assert!(
        completed.iter().all(|done| done.delays.total() == done.completed_at - done.submitted_at)
    );
    assert_eq!(
        (drive.outstanding(), drive.media().under_way(), drive.scheme().is_quiet()),
        (0, 0, true)
    );
    completed
}

/// End of a read of one page at time 0; then the numbers of reads of the flash, of those in vain,
/// and of those that vanished.
fn one_read(rule: Rule, is_busy: bool) -> (Picos, u64, u64, u64) {
    let mut drive = copies(rule, is_busy);
    drive.submit(0, read(0..1), &mut Vec::new());
    let completed = completions(&mut drive);
    let counters = drive.media().counters();
    let in_vain = counters.in_vain.iter().flatten().sum();
    assert_eq!(completed.len(), 1);
    (completed[0].completed_at, counters.of(FlashOp::Read), in_vain, counters.vanished)
}

#[test]
fn a_second_copy_answers_while_the_first_waits_for_an_erase() {
    assert_eq!(one_read(Rule::Never, true), (ERASE + READ, 1, 0, 0));
    assert_eq!(one_read(Rule::Race, true), (READ, 1, 0, 1));
    assert_eq!(one_read(Rule::ByState, true), (READ, 1, 0, 0));
    assert_eq!(one_read(Rule::After(200 * US), true), (200 * US + READ, 1, 0, 1));
    // Patience beyond the erase: by then the read is under way.
    assert_eq!(one_read(Rule::After(ERASE + US), true), (ERASE + READ, 1, 0, 0));
}

#[test]
fn a_second_copy_costs_a_read_or_nothing_when_none_waits() {
    assert_eq!(one_read(Rule::Never, false), (READ, 1, 0, 0));
    assert_eq!(one_read(Rule::Race, false), (READ, 2, 1, 0));
    assert_eq!(one_read(Rule::ByState, false), (READ, 1, 0, 0));
    assert_eq!(one_read(Rule::After(200 * US), false), (READ, 1, 0, 0));
}

/// The read begins at the very time at which its timer rings: events of the media come before the
/// scheme is woken.
#[test]
fn a_timer_at_the_end_of_the_wait_finds_the_read_begun() {
    assert_eq!(one_read(Rule::After(ERASE), true), (ERASE + READ, 1, 0, 0));
    // A picosecond earlier, it is read twice, and the second copy is first by that picosecond.
    assert_eq!(one_read(Rule::After(ERASE - 1), true), (ERASE - 1 + READ, 2, 1, 0));
}

#[test]
fn each_page_of_each_request_has_a_timer_of_its_own() {
    let mut drive = copies(Rule::After(200 * US), true);
    let mut completed = Vec::new();
    drive.submit(0, read(0..2), &mut completed);
    while drive.next_time().is_some_and(|at| at < 100 * US) {
        drive.step(&mut completed);
    }
    drive.submit(100 * US, read(2..3), &mut completed);
    completed.extend(completions(&mut drive));
    let on_die = READ - LINK;
    let times: Vec<(u64, Picos)> =
        completed.iter().map(|done| (done.submission.offset / 4096, done.completed_at)).collect();
    // The second die reads them one after another: pages 0 and 1 from 200 us on, page 2 when both
    // are read.
    assert_eq!(times, [(0, 200 * US + 2 * on_die + LINK), (2, 200 * US + 3 * on_die + LINK)]);
    assert_eq!((drive.scheme().rung, drive.media().counters().vanished), (3, 3));
}

#[test]
fn the_same_twice_is_the_same_hash() {
    let hash = || {
        let mut drive = copies(Rule::After(50 * US), true);
        let mut completed = Vec::new();
        for number in 0..8 {
            drive.submit(0, read(number..number + 1), &mut completed);
        }
        completed.extend(completions(&mut drive));
        assert_eq!(completed.len(), 8);
        drive.media().event_hash()
    };
    assert_eq!(hash(), hash());
}
