//! The rule beside a plain one, on logs made by hand.

use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::*;
use units::{IoOp, IoRequest, Progress};

use super::super::images::Method;
use super::super::log::built::{Built, Change};
use super::super::log::{Lsn, PAGE_BYTES, heap, rmgr, xlog};
use super::{
    Check, Figures, FileRow, Layout, Reads, Redos, Replay, Replayed, Settings, Survey, Window,
    Writes,
};

const SECOND_US: i64 = 1_000_000;
const MAGIC_17: u16 = 0xd116;
const MAGIC_15: u16 = 0xd110;

/// A step of a load.
#[derive(Clone, Copy, Debug)]
enum Step {
    Change(u32),
    Make(u32),
    Commit,
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0_u32..30).prop_map(Step::Change),
        2 => (0_u32..30).prop_map(Step::Make),
        8 => Just(Step::Commit),
        1 => Just(Step::Checkpoint),
    ]
}

/// Length of the image of a page, without its hole.
fn image_of(page: u32) -> usize {
    1000 + page as usize * 11 % 6000
}

/// The rule as one would say it: the redo point after which each page was changed last.
#[derive(Default)]
struct Plain {
    changed: HashMap<u32, u32>,
    redos: u32,
    images: u64,
}

impl Plain {
    fn needs_image(&mut self, step: Step) -> bool {
        match step {
            Step::Change(page) => {
                let before = self.changed.insert(page, self.redos);
                let needs = before != Some(self.redos);
                self.images += u64::from(needs);
                needs
            }
            Step::Make(page) => {
                self.changed.insert(page, self.redos);
                false
            }
            _ => false,
        }
    }
}

/// Writes a log as a server of version 17 does; each commit is a second after the one before.
fn write(steps: &[Step], magic: u16, folder: &Path) -> Lsn {
    let mut log = Built::new(1, magic);
    let mut plain = Plain::default();
    let from = log.lsn();
    let begin = |log: &mut Built| if magic == MAGIC_17 { log.redo() } else { log.lsn() };
    let mut redo = begin(&mut log);
    let mut second = 0;
    for step in steps {
        match *step {
            Step::Change(number) | Step::Make(number) => {
                let is_made = matches!(step, Step::Make(_));
                let has = plain.needs_image(*step);
                let image = has.then(|| (vec![1; image_of(number)], Vec::new()));
                let data = if has || is_made { Vec::new() } else { vec![2; 48] };
                let change = Change { node: 20_000, number, data, image, is_made };
                log.add(10, 0x20, &[change], &[3; 14]);
            }
            Step::Commit => {
                second += 1;
                log.commit(second * SECOND_US);
            }
            Step::Checkpoint => {
                log.checkpoint(redo);
                redo = begin(&mut log);
                plain.redos += 1;
            }
        }
    }
    log.commit((second + 1) * SECOND_US);
    log.checkpoint(redo);
    log.write(folder);
    from
}

fn settings(seconds: i64) -> Settings {
    Settings {
        checkpoint_timeout_us: seconds * SECOND_US,
        max_wal_size: 1 << 40,
        shared_buffers: None,
        ..Settings::default()
    }
}

type Played = (Figures, Check, Vec<FileRow>);

fn play(
    folder: &Path,
    from: Lsn,
    settings: &Settings,
    redos: Redos,
    out: &mut dyn Writes,
) -> Played {
    let progress = Progress::default();
    let methods = [settings.wal_compression];
    let survey = Survey::of(folder, (Some(from), None), &methods, &[], &progress).unwrap();
    let (begin_us, end_us) = survey.times_us.unwrap();
    let end = survey.end.lsn;
    let (begin, from_us) = (from, begin_us - SECOND_US);
    let window = Window { from, from_us, begin, begin_us: from_us, end, end_us, segments_ahead: 1 };
    let recorded = Settings { wal_compression: Method::Off, ..settings.clone() };
    let replayed =
        Replayed { survey: &survey, window, recorded: &recorded, has_hints: true, warm: &[] };
    let layout = Layout::new(&survey.relations, survey.positions.segment_bytes, false);
    let replay = Replay::new(&replayed, settings, redos, Reads::none(), layout, out);
    replay.run(folder, &progress).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_rule_gives_each_image_that_is_there_and_no_other(
        steps in prop::collection::vec(step(), 1..400),
        is_old in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let from = write(&steps, if is_old { MAGIC_15 } else { MAGIC_17 }, folder.path());
        let (figures, check, _) = play(folder.path(), from, &settings(300), Redos::Own, &mut ());
        prop_assert_eq!((check.right, check.extra), (check.images, 0));
        prop_assert_eq!(figures.wal_bytes, check.wal_bytes as f64);
        prop_assert_eq!(figures.image_bytes, check.image_bytes as f64);
    }

    #[test]
    fn with_other_checkpoints_the_images_are_those_of_the_plain_rule(
        steps in prop::collection::vec(step(), 1..400),
        seconds in 2_i64..40,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let from = write(&steps, MAGIC_17, folder.path());
        let scheduled =
            play(folder.path(), from, &settings(seconds), Redos::Scheduled, &mut ()).0;
        let (mut plain, mut now, mut last, mut is_changed) = (Plain::default(), 0, 0, true);
        for step in steps {
            match step {
                Step::Commit => {
                    now += 1;
                    // A checkpoint is left out if nothing has happened since the last one.
                    while now >= last + seconds {
                        last += seconds;
                        plain.redos += u32::from(is_changed);
                        is_changed = false;
                    }
                    is_changed = true;
                }
                Step::Checkpoint => {}
                _ => {
                    is_changed = true;
                    plain.needs_image(step);
                }
            }
        }
        prop_assert_eq!(scheduled.images, plain.images);
    }
}

/// A log of version 15 that is made step by step.
struct Old {
    log: Built,
    from: Lsn,
    second: i64,
}

impl Old {
    fn new() -> Self {
        let log = Built::new(1, MAGIC_15);
        Self { from: log.lsn(), log, second: 0 }
    }

    fn change(number: u32, has_image: bool) -> Change {
        let image = has_image.then(|| (vec![1; image_of(number)], Vec::new()));
        let data = if has_image { Vec::new() } else { vec![2; 48] };
        Change { node: 20_000, number, data, image, is_made: false }
    }

    /// Changes ten pages, and commits.
    fn round(&mut self, has_images: bool) {
        for page in 0..10 {
            self.log.add(10, 0x20, &[Self::change(page, has_images)], &[3; 14]);
        }
        self.second += 1;
        self.log.commit(self.second * SECOND_US);
    }

    fn hint(&mut self, page: u32) {
        self.log.add(rmgr::XLOG, xlog::FPI_FOR_HINT, &[Self::change(page, true)], &[]);
    }

    /// Gives the images, those that the rule gives, and those that are not there.
    fn check(&self) -> (u64, u64, u64) {
        let folder = tempfile::tempdir().unwrap();
        self.log.write(folder.path());
        let (_, check, _) = play(folder.path(), self.from, &settings(300), Redos::Own, &mut ());
        (check.images, check.right, check.extra)
    }
}

#[test]
fn two_images_for_hints_of_one_page_are_no_sign_of_a_checkpoint() {
    let mut old = Old::new();
    old.round(true);
    old.hint(20);
    old.hint(20);
    old.round(false);
    // Here a checkpoint begins that does not end within the log, so that nothing says so.
    old.round(true);
    old.round(false);
    assert_eq!(old.check(), (22, 21, 0));
}

#[test]
fn an_image_for_hints_is_a_sign_of_a_checkpoint() {
    let mut old = Old::new();
    old.round(true);
    // As above; here hints come first.
    (0..10).for_each(|page| old.hint(page));
    old.round(false);
    assert_eq!(old.check(), (20, 20, 0));
}

/// A load that changes all of some pages in turn, a commit each.
fn round(rounds: u32) -> Vec<Step> {
    (0..rounds).flat_map(|_| (0..10).flat_map(|page| [Step::Change(page), Step::Commit])).collect()
}

#[test]
fn an_image_is_at_the_first_change_after_each_checkpoint_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let from = write(&round(30), MAGIC_17, folder.path());
    let images =
        |seconds| play(folder.path(), from, &settings(seconds), Redos::Scheduled, &mut ()).0.images;
    // 300 seconds; each round takes ten of them, so that each checkpoint has ten images.
    assert_eq!(images(1000), 10);
    assert_eq!(images(100), 10 * 3);
    assert_eq!(images(50), 10 * 6);
    let none = Settings { full_page_writes: false, ..settings(1000) };
    let without = play(folder.path(), from, &none, Redos::Scheduled, &mut ()).0;
    assert_eq!((without.images, without.image_bytes), (0, 0.0));
    let with = play(folder.path(), from, &settings(1000), Redos::Scheduled, &mut ()).0;
    let lengths: usize = (0..10).map(|page| image_of(page) + 5).sum();
    // Instead of its image a change has data, of as many bytes as others of its kind.
    assert_eq!(with.wal_bytes - without.wal_bytes, lengths as f64 - 10.0 * 48.0);
    let zstd = Settings { wal_compression: Method::Zstd, ..settings(1000) };
    let small = play(folder.path(), from, &zstd, Redos::Scheduled, &mut ()).0;
    assert!(small.image_bytes < with.image_bytes / 10.0, "{}", small.image_bytes);
}

#[test]
fn a_log_that_is_too_long_starts_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let steps: Vec<_> = (0..6000).flat_map(|number| [Step::Change(number), Step::Commit]).collect();
    let from = write(&steps, MAGIC_17, folder.path());
    let small = Settings { max_wal_size: 4 << 20, ..settings(100_000) };
    let figures = play(folder.path(), from, &small, Redos::Scheduled, &mut ()).0;
    // 4 MiB over 1.9 are two segments of 1 MiB.
    let wanted = figures.wal_bytes as u64 / (2 << 20);
    assert!(figures.checkpoints.abs_diff(wanted) <= 1, "{} {wanted}", figures.checkpoints);
}

#[derive(Default)]
struct Kept(Vec<(bool, IoRequest)>);

impl Writes for Kept {
    fn take(&mut self, is_log: bool, request: IoRequest) {
        self.0.push((is_log, request));
    }
}

#[test]
fn each_commit_writes_whole_pages_and_flushes_and_checkpoints_write_data() {
    let folder = tempfile::tempdir().unwrap();
    let from = write(&round(30), MAGIC_17, folder.path());
    let all = Settings { shared_buffers: Some(100), ..settings(100) };
    let mut kept = Kept::default();
    let (figures, _, files) = play(folder.path(), from, &all, Redos::Scheduled, &mut kept);
    let requests = kept.0;
    assert!(requests.is_sorted_by_key(|(_, request)| request.time_ns));
    let bytes = |is_log: bool| -> u64 {
        let mine = requests.iter().filter(|(log, one)| *log == is_log && one.op == IoOp::Write);
        mine.map(|(_, one)| u64::from(one.length)).sum()
    };
    assert_eq!(bytes(true), figures.log_file_bytes + figures.log_made_bytes);
    let pages: u64 = figures.data_pages.unwrap().iter().sum();
    // Ten pages at each of three checkpoints, the last of which the end does not leave whole: what
    // it has written is still the kernel's.
    assert!((20..=30).contains(&pages), "{pages}");
    assert_eq!(bytes(false), 20 * PAGE_BYTES as u64);
    assert!(figures.log_flushes >= figures.commits);
    for (is_log, request) in requests.iter().filter(|(_, one)| one.op == IoOp::Write) {
        let file = &files[request.stream as usize];
        assert_eq!(file.relation.is_none(), *is_log);
        assert!(request.offset >= file.offset);
        let end = request.offset + u64::from(request.length);
        assert!(end <= file.offset + file.length, "{request:?} {file:?}");
    }
    let off = Settings { synchronous_commit: false, ..all.clone() };
    let off = play(folder.path(), from, &off, Redos::Scheduled, &mut ()).0;
    let differ = off.log_flushes.abs_diff(figures.log_flushes);
    assert!(differ < 5, "commits are further apart than 200 ms: {differ}");
    let slow = Settings { flush_us: 10 * SECOND_US, ..all };
    let slow = play(folder.path(), from, &slow, Redos::Scheduled, &mut ()).0;
    assert!(slow.log_flushes < figures.log_flushes / 4, "commits wait for a flush together");
}

#[test]
fn a_background_writer_that_waits_for_its_disk_writes_less_and_backends_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let steps: Vec<_> = (0..3000).flat_map(|number| [Step::Change(number), Step::Commit]).collect();
    let from = write(&steps, MAGIC_17, folder.path());
    let pages = |background_page_us| {
        let settings =
            Settings { shared_buffers: Some(100), background_page_us, ..settings(100_000) };
        let found = play(folder.path(), from, &settings, Redos::Scheduled, &mut ()).0;
        found.data_pages.unwrap()
    };
    let [_, ready, few] = pages(0);
    // A second for each commit, and ten for each page that it writes.
    let [_, held_up, many] = pages(10 * SECOND_US);
    let on_disk = |times, least_us| {
        let slow = Settings { background_page_us: 10 * SECOND_US, ..settings(100_000) };
        slow.on_disk(times, least_us).background_page_us
    };
    assert_eq!(on_disk(0.5, 0), 5 * SECOND_US, "a disk that is twice as fast");
    assert_eq!(on_disk(0.5, 7 * SECOND_US), 7 * SECOND_US, "and is never idle");
    assert!(held_up < ready / 4, "{held_up} of {ready}");
    assert!(many > few && (many + held_up).abs_diff(few + ready) < 10, "{few} {many}");
}

#[test]
fn the_next_checkpoint_begins_after_the_one_before_it_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let from = write(&round(30), MAGIC_17, folder.path());
    let found = |seconds| {
        let all = Settings { sync_us: seconds * SECOND_US, ..settings(100) };
        let figures = play(folder.path(), from, &all, Redos::Scheduled, &mut ()).0;
        (figures.checkpoints, figures.images)
    };
    // They are due each 100 of 300 seconds, and the first begins after 100.
    assert_eq!((found(0), found(50)), ((3, 30), (3, 30)));
    assert_eq!(found(150), (2, 30));
    assert_eq!(found(250), (1, 20));
    let slow = Settings { sync_us: 8 * SECOND_US, ..settings(100) };
    assert_eq!(slow.on_disk(0.25, 0).sync_us, 2 * SECOND_US);
}

#[test]
fn at_another_pace_what_is_due_by_a_clock_comes_for_more_commits_or_for_fewer() {
    let folder = tempfile::tempdir().unwrap();
    let from = write(&round(30), MAGIC_17, folder.path());
    let at_pace = |pace| {
        let all = Settings { shared_buffers: Some(100), ..settings(30) }.at_pace(pace);
        let mut kept = Kept::default();
        let found = play(folder.path(), from, &all, Redos::Scheduled, &mut kept).0;
        assert!(kept.0.is_sorted_by_key(|(_, request)| request.time_ns));
        let last = kept.0.last().unwrap().1.time_ns;
        assert!(last as f64 <= found.seconds * 1e9, "as much time counts as was recorded");
        found
    };
    let as_recorded = at_pace(1.0);
    for pace in [0.25, 0.5, 2.0, 3.7, 8.0] {
        let found = at_pace(pace);
        let commits = as_recorded.commits as f64 * pace;
        assert!((found.commits as f64 - commits).abs() <= 1.0 + pace, "{pace}: {found:?}");
        assert_eq!(found.seconds, as_recorded.seconds);
        // Each checkpoint finds ten pages, as thirty commits and more come between two of them.
        let pages = |one: &Figures| one.data_pages.unwrap()[0] as f64;
        let is_often = pace >= 1.0;
        let beside = pages(&found) / pages(&as_recorded);
        assert!(!is_often || (beside - 1.0).abs() < 0.11, "{pace}: {beside}");
        let each = |one: &Figures| one.image_bytes / one.commits as f64;
        let ratio = each(&found) / each(&as_recorded) * pace;
        assert!(!is_often || (0.8..1.2).contains(&ratio), "{pace}: {ratio}");
    }
}

#[test]
fn a_load_that_goes_on_changes_other_pages_of_those_that_are_changed_seldom() {
    let folder = tempfile::tempdir().unwrap();
    // Half of the changes are of one page, half of pages that are changed once; then the relation
    // is known to have four times as many.
    let seldom = |number| [Step::Change(0), Step::Change(number), Step::Commit];
    let mut steps: Vec<_> = (1..250).flat_map(seldom).collect();
    steps.extend([Step::Make(1000), Step::Commit]);
    let from = write(&steps, MAGIC_17, folder.path());
    let images = |pace| {
        let all = Settings { shared_buffers: Some(2000), ..settings(1000) }.at_pace(pace);
        play(folder.path(), from, &all, Redos::Scheduled, &mut ()).0.images
    };
    assert_eq!(images(1.0), 250);
    // Of 1,000 pages four draws of 249 leave a share of (1 - 1/1000)^(4 * 249), or 37 %.
    let four = images(4.0);
    assert!((580..680).contains(&four), "{four}");
}

/// Bytes of log of 100 transactions at a pace. In each a row is updated in its own page, one leaves
/// its page, and one comes; the last two have an entry of an index.
fn bytes_of_updates(pace: f64, own: u8, is_large: bool) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Built::new(1, MAGIC_17);
    let from = log.lsn();
    let redo = log.redo();
    let page =
        |node, number, bytes| Change { node, number, data: vec![2; bytes], ..Change::default() };
    for number in 0..100 {
        let new = page(20_000, 100 + number / 10, 100);
        log.add(rmgr::HEAP, own, &[page(20_000, 120 + number, 50)], &[3; 14]);
        log.add(rmgr::HEAP, heap::UPDATE, &[new, page(20_000, number, 0)], &[3; 14]);
        log.add(rmgr::BTREE, 0, &[page(20_001, number, 1000)], &[3; 2]);
        log.add(rmgr::HEAP, 0, &[page(20_002, number, 100)], &[3; 3]);
        log.add(rmgr::BTREE, 0, &[page(20_003, number, 1000)], &[3; 2]);
        log.commit(i64::from(number + 1) * SECOND_US);
    }
    if is_large {
        log.add(rmgr::HEAP, 0, &[page(20_000, 5000, 0)], &[3; 3]);
    }
    log.checkpoint(redo);
    log.write(folder.path());
    let off = Settings { full_page_writes: false, ..settings(1000) }.at_pace(pace);
    play(folder.path(), from, &off, Redos::Scheduled, &mut ()).0.wal_bytes
}

#[test]
fn a_load_that_goes_on_finds_room_where_rows_have_left_and_changes_no_index() {
    let [once, thrice] = [1.0, 3.0].map(|pace| bytes_of_updates(pace, heap::HOT_UPDATE, false));
    // Half of the log is entries of the rows that leave: of further passes none is written, and
    // all of those that come are.
    assert!((240_000.0..300_000.0).contains(&once), "{once}");
    assert!((1.9..2.3).contains(&(thrice / once)), "{thrice} of {once}");
}

#[test]
fn a_load_that_goes_on_finds_no_room_in_pages_that_none_has_left() {
    let [once, thrice] = [1.0, 3.0].map(|pace| bytes_of_updates(pace, heap::HOT_UPDATE, true));
    assert!((2.8..3.05).contains(&(thrice / once)), "{thrice} of {once}");
}

#[test]
fn updates_of_indexed_columns_go_on_changing_the_index() {
    let [once, thrice] = [1.0, 3.0].map(|pace| bytes_of_updates(pace, heap::UPDATE, false));
    assert!((2.9..3.05).contains(&(thrice / once)), "{thrice} of {once}");
}
