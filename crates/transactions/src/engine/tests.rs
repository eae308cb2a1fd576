//! Plays on devices whose times are known, and under the eyes of the oracle.

use block::{BlockError, Completion, Data, DeviceInfo, DeviceKind, Limits, Reply};
use proptest::prelude::*;
use registry::Spec;
use traces::accesses::{Access, BenchmarkLoad, NO_ROW, Transaction};
use units::{IoOp, SourceError};

use super::oracle::Oracle;
use super::*;
use crate::{Amount, LogSettings, Rule, Writer};

const PAGE: u32 = 4096;

/// Takes a time for each request that is drawn, or always the same; any number at a time.
struct Timed {
    info: DeviceInfo,
    now: Nanos,
    least: Nanos,
    spread: Nanos,
    rng: Pcg64Mcg,
    under_way: Vec<Completion>,
    served: Vec<(IoOp, u64)>,
}

impl Timed {
    fn new(least: Nanos, spread: Nanos, queue_depth: u32) -> Self {
        let info = DeviceInfo {
            name: "timed".to_owned(),
            model: String::new(),
            kind: DeviceKind::Memory,
            limits: Limits { capacity_bytes: 1 << 40, sector_bytes: 512, most_bytes: 1 << 30 },
            queue_depth,
            is_read_only: false,
            has_trim: false,
            zeroing_bytes: None,
            is_virtual: true,
            holds_data: false,
        };
        let (rng, under_way, served) = (Pcg64Mcg::seed_from_u64(least), Vec::new(), Vec::new());
        Self { info, now: 0, least, spread, rng, under_way, served }
    }
}

impl BlockDevice for Timed {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn outstanding(&self) -> u32 {
        self.under_way.len() as u32
    }

    fn submit(&mut self, command: Command) {
        assert!(self.outstanding() < self.info.queue_depth);
        assert_eq!(self.info.refuses(&command), None);
        let takes = self.least + self.rng.random_range(0..=self.spread);
        self.served.push((command.op, command.offset));
        let reply = Reply { id: command.id, outcome: Ok(Data::Absent) };
        let (submitted_at, completed_at) = (self.now, self.now + takes);
        self.under_way.push(Completion { reply, submitted_at, completed_at });
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        let next = self.under_way.iter().map(|c| c.completed_at).min().unwrap_or(Nanos::MAX);
        self.now = self.now.max(next.min(until));
        let now = self.now;
        completed.extend(self.under_way.extract_if(.., |c| c.completed_at <= now));
        Ok(())
    }
}

/// Transactions that are drawn from few pages, the first of them more often.
struct Drawn {
    database: Database,
    most_accesses: u32,
    writes_of_ten: u32,
    left: u64,
    rng: Pcg64Mcg,
}

fn drawn(pages: u32, most_accesses: u32, writes_of_ten: u32, left: u64, seed: u64) -> Drawn {
    let database = Database {
        name: "drawn".to_owned(),
        page_bytes: PAGE,
        pages,
        rows: 4 * pages,
        relations: Vec::new(),
        kinds: vec!["drawn"],
        scale: Vec::new(),
    };
    Drawn { database, most_accesses, writes_of_ten, left, rng: Pcg64Mcg::seed_from_u64(seed) }
}

impl TransactionSource for Drawn {
    fn database(&self) -> &Database {
        &self.database
    }

    fn transactions(&self) -> Option<u64> {
        Some(self.left)
    }

    fn next(&mut self, _client: u32, transaction: &mut Transaction) -> Result<bool, SourceError> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        transaction.think = 0;
        transaction.accesses.clear();
        for _ in 0..self.rng.random_range(0..=self.most_accesses) {
            let page = self.rng.random_range(0..self.database.pages);
            let page = if self.rng.random_range(0..3) == 0 { page % 3 } else { page };
            let is_write = self.rng.random_range(0..10) < self.writes_of_ten;
            let row = 4 * page + self.rng.random_range(0..4);
            transaction.accesses.push(Access { page, row, relation: 0, is_write, is_locked: true });
        }
        Ok(true)
    }
}

/// One client after the other reads or writes each page in turn.
struct InTurn {
    database: Database,
    next: u32,
    is_write: bool,
}

impl TransactionSource for InTurn {
    fn database(&self) -> &Database {
        &self.database
    }

    fn transactions(&self) -> Option<u64> {
        None
    }

    fn next(&mut self, _client: u32, transaction: &mut Transaction) -> Result<bool, SourceError> {
        let page = self.next;
        self.next = (page + 1) % self.database.pages;
        let (row, relation, is_write) = (NO_ROW, 0, self.is_write);
        transaction.accesses.clear();
        transaction.accesses.push(Access { page, row, relation, is_write, is_locked: true });
        Ok(true)
    }
}

fn settings(clients: u32, pool_pages: u32) -> Settings {
    Settings {
        clients,
        pool_pages,
        buffer: Spec::parse("lru").unwrap(),
        locks: Granularity::Page,
        rule: Rule::Detect,
        cpu: 0,
        log: None,
        writer: None,
        blocked: 800_000,
        part_bytes: 4 * PAGE,
        offset: 0,
        length: 1 << 40,
        seed: 1,
        warm_up: Amount { transactions: 0, time: 0 },
        measured: Amount { transactions: u64::MAX, time: Nanos::MAX },
    }
}

fn log(region_bytes: u64) -> LogSettings {
    LogSettings { region_bytes, record_bytes: 100, is_grouped: true, is_flushed: true }
}

fn in_turn(device: &mut Timed, is_write: bool, settings: &Settings) -> Measured {
    let database = drawn(100, 0, 0, 0, 0).database;
    let mut source = InTurn { database, next: 0, is_write };
    let (measured, played) = play(device, &mut source, settings, &Progress::default());
    played.unwrap();
    measured
}

fn for_transactions(mut settings: Settings, warm_up: u64, transactions: u64) -> Settings {
    settings.warm_up = Amount { transactions: warm_up, time: Nanos::MAX };
    settings.measured.transactions = transactions;
    settings
}

#[test]
fn a_page_that_is_not_there_costs_a_read() {
    let settings = for_transactions(settings(1, 10), 0, 50);
    let found = in_turn(&mut Timed::new(1000, 0, 8), false, &settings);
    assert_eq!((found.elapsed, found.committed, found.hits), (50_000, 50, 0));
}

#[test]
fn a_dirty_victim_is_written_before_the_read() {
    // As soon as the pool is full each access is a write and a read, one after the other.
    let settings = for_transactions(settings(1, 10), 10, 50);
    let mut device = Timed::new(1000, 0, 8);
    let found = in_turn(&mut device, true, &settings);
    assert_eq!((found.elapsed, found.committed), (100_000, 50));
    let pair = [(IoOp::Write, 0), (IoOp::Read, 10 * u64::from(PAGE))];
    assert_eq!(device.served[10..12], pair);
    assert_eq!(
        (found.waited[Wait::Read as usize], found.waited[Wait::WriteBack as usize]),
        (50_000, 50_000)
    );
}

#[test]
fn a_background_writer_takes_the_writes_away() {
    let mut settings = for_transactions(settings(1, 10), 100, 50);
    settings.writer = Some(Writer { interval: 500, pages: 5 });
    let found = in_turn(&mut Timed::new(1000, 0, 8), true, &settings);
    assert_eq!((found.elapsed, found.io[1].latency.len()), (50_000, 0));
    assert!(found.io[2].latency.len() >= 50);
}

#[test]
fn pages_that_fit_are_read_once() {
    let settings = for_transactions(settings(1, 100), 100, 1000);
    let found = in_turn(&mut Timed::new(1000, 0, 8), false, &settings);
    assert_eq!((found.hits, found.elapsed), (1000, 0));
}

#[test]
fn clients_share_the_device_and_their_time_adds_up() {
    let settings = for_transactions(settings(5, 50), 0, 100);
    let found = in_turn(&mut Timed::new(1000, 0, 8), false, &settings);
    assert_eq!(found.elapsed, 20_000);
    assert_eq!(found.waited.iter().sum::<u64>(), 5 * 20_000);
}

#[test]
fn a_commit_waits_for_the_log_and_its_flush() {
    let mut settings = for_transactions(settings(1, 100), 100, 20);
    settings.log = Some(log(1 << 20));
    let found = in_turn(&mut Timed::new(1000, 0, 8), true, &settings);
    assert_eq!((found.elapsed, found.waited[Wait::Log as usize]), (40_000, 40_000));
    assert_eq!(found.io[3].latency.len(), 20);
}

#[test]
fn grouped_commits_share_a_write() {
    let write = |is_grouped| {
        let mut settings = for_transactions(settings(8, 100), 100, 200);
        settings.log = Some(LogSettings { is_grouped, ..log(1 << 20) });
        in_turn(&mut Timed::new(1000, 0, 8), true, &settings).elapsed
    };
    assert_eq!(write(false), 400_000);
    assert!(write(true) <= 2 * 400_000 / 8);
}

#[test]
fn a_transaction_that_was_restarted_counts_its_first_begin() {
    let mut settings = settings(4, 3);
    (settings.rule, settings.locks) = (Rule::NoWait, Granularity::Page);
    let mut source = drawn(5, 4, 5, 2000, 3);
    let mut device = Timed::new(1000, 500, 8);
    let (found, played) = play(&mut device, &mut source, &settings, &Progress::default());
    played.unwrap();
    assert_eq!(found.committed, 2000);
    assert!(found.restarts > 100, "{} restarts", found.restarts);
    assert!(found.all_responses().mean() > 1.1 * found.last_attempt.mean());
}

#[test]
fn what_does_not_fit_is_told() {
    let refused = |change: fn(&mut Settings)| {
        let mut settings = settings(2, 10);
        change(&mut settings);
        let mut source = drawn(100, 4, 5, 10, 3);
        let mut device = Timed::new(1000, 0, 8);
        let (_, played) = play(&mut device, &mut source, &settings, &Progress::default());
        played.unwrap_err().to_string()
    };
    assert_eq!(
        refused(|settings| settings.length = 4096),
        "the database and its log have 409600 bytes, and there are 4096 on timed; right would be a \
         smaller database, or a larger device"
    );
    assert!(refused(|settings| settings.log = Some(log(4096))).contains("a log of 4096 bytes"));
    assert!(refused(|settings| settings.pool_pages = 0).contains("a pool without pages"));
    assert!(
        refused(|settings| settings.buffer = Spec::parse("mru").unwrap())
            .contains("known are: lru, clock, cflru_e")
    );
}

#[test]
fn the_same_inputs_give_the_same_outcome_on_a_simulated_drive() {
    let run = || {
        let profile = ssd::drive::profile::load("replication-table-2").unwrap();
        let profile = profile.with_overrides(&["media.erase_blocks_per_plane=256"]).unwrap();
        let state = ssd::drive::state::State::Fresh;
        let drive = devices::SimulatedSettings { state, seed: 1 };
        let progress = Progress::default();
        let mut device = devices::Simulated::new("small", &profile, drive, &progress).unwrap();
        let mut source = BenchmarkLoad::parse("tpcb(bytes=16M)").unwrap().source(10, 1);
        let bytes = source.database().bytes();
        crate::load(&mut device, 0, bytes, &progress).unwrap();
        let mut settings = for_transactions(settings(10, 64), 500, 3000);
        settings.locks = Granularity::Row;
        let (found, played) = play(&mut device, &mut *source, &settings, &progress);
        played.unwrap();
        let dies = found.device.dies.clone().unwrap();
        let busy: u64 = dies.by_cause.iter().map(|(_, time)| time).sum();
        assert!(busy > 0 && busy <= u64::from(dies.dies) * found.elapsed + 5_000_000);
        (found.elapsed, found.restarts, found.all_responses().max(), busy, device.now())
    };
    assert_eq!(run(), run());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn transactions_keep_their_promises(
        seed in any::<u64>(),
        clients in 1u32..9,
        frames in 1u32..12,
        pages in 3u32..20,
        rule in prop::sample::select(vec![Rule::Detect, Rule::WaitDie, Rule::NoWait]),
        by_row in any::<bool>(),
        buffer in prop::sample::select(vec!["lru", "clock(most=3)", "cflru_e"]),
        logged in prop::sample::select(vec![None, Some(false), Some(true)]),
        has_writer in any::<bool>(),
        cpu in prop::sample::select(vec![0u64, 300]),
        depth in 1u32..9,
    ) {
        let mut settings = settings(clients, frames);
        settings.buffer = Spec::parse(buffer).unwrap();
        (settings.rule, settings.cpu, settings.seed) = (rule, cpu, seed);
        settings.locks = if by_row { Granularity::Row } else { Granularity::Page };
        settings.log = logged.map(|is_grouped| LogSettings { is_grouped, ..log(64 << 10) });
        settings.writer = has_writer.then_some(Writer { interval: 5000, pages: 2 });
        let transactions = 600;
        let mut source = drawn(pages, 6, 5, transactions, seed);
        let mut device = Timed::new(1 + seed % 1000, 2000, depth);
        let mut oracle = Oracle::new(frames, settings.log.map(|log| log.region_bytes));
        let (found, played) = play_observed(
            &mut device, &mut source, &settings, &Progress::default(), &mut oracle,
        );
        prop_assert!(played.is_ok(), "{:?}", played);
        prop_assert_eq!((found.committed, oracle.commits), (transactions, transactions));
        prop_assert_eq!(found.restarts, oracle.restarts);
        prop_assert_eq!(found.waited.iter().sum::<u64>(), u64::from(clients) * found.elapsed);
        prop_assert!(settings.log.is_none() || oracle.redo > 0, "no checkpoint came");
    }
}
