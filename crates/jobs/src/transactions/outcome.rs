//! Outcome of `transactions`: each figure is declared here, and nowhere else.

use std::collections::BTreeMap;

use ::transactions::{IoFigures, Measured, Wait};
use arrow_array::RecordBatch;
use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use schemars::JsonSchema;
use serde::Serialize;
use ssd::drive::measure::LEAST_FOR_P9999;
use traces::accesses;

use super::settings::Locks;
use crate::JobError;
use crate::figures::{About, Flash, LayerCounters, Replication, named, replication};
use crate::tables::{Columns, column, table};

type Tables = Vec<(&'static str, RecordBatch)>;
type Class = IterationValue<u64>;

/// Outcome of transactions on a device. Times are of the device's clock.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TransactionsPlayed {
    /// Database of the transactions.
    pub database: Database,
    /// Counts of a trace; none of a benchmark.
    pub counts: Option<Counts>,
    /// SHA-256 of the file of a trace; none of a benchmark.
    pub source_sha256: Option<String>,
    /// Name, kind and limits of the device, as it reports them.
    pub about: About,
    /// First byte of the region that they were played in.
    pub offset_bytes: u64,
    /// Bytes of the region.
    pub length_bytes: u64,
    /// Unit that was locked.
    pub locks: Locks,
    /// Pages of the buffer pool.
    pub pool_pages: u32,
    /// Reason for an end before what was asked for: `stopped`, `failed`.
    pub ended: Option<String>,
    /// Error that ended it.
    pub error: Option<String>,
    /// Figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures of the measured part.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Figures {
    /// Measured time.
    pub seconds: f64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions a second.
    pub transactions_per_second: f64,
    /// Number of restarts because of a conflict.
    pub restarts: u64,
    /// Restarts for each transaction that committed.
    pub restarts_per_transaction: f64,
    /// Response times, from the first begin to the commit, with restarts and the waits before them.
    pub response_ns: Times,
    /// Times from the last begin to the commit: without attempts that were in vain.
    pub last_attempt_ns: Times,
    /// Waits for locks.
    pub lock_wait_ns: Times,
    /// Response times by kind of transaction.
    pub by_kind: BTreeMap<String, Times>,
    /// Page accesses of committed transactions and of others.
    pub accesses: u64,
    /// Those that found their page in the pool.
    pub hits: u64,
    /// Requests by kind.
    pub io_ns: Io,
    /// Checkpoints that ended.
    pub checkpoints: u64,
    /// Shares of the clients' time.
    pub client_share: ClientShare,
    /// Shares of the time of all dies, by cause, and idle; none if they are not known.
    pub die_share: Option<BTreeMap<String, f64>>,
    /// Operations of the flash; none if they are not known.
    pub flash: Option<Flash>,
    /// Statistics of page copies, if the drive makes some.
    pub replication: Option<Replication>,
    /// The counters of each layer over the measured part, from the top down; levels as they are at
    /// its end.
    pub layers: Vec<LayerCounters>,
    /// Transactions that were played before.
    pub warm_up_transactions: u64,
    /// Time that these took.
    pub warm_up_seconds: f64,
}

impl Figures {
    /// Figures of what so many clients did, by kind of transaction.
    pub(super) fn of(measured: &Measured, kinds: &[&str], clients: u32) -> Self {
        let seconds = measured.elapsed as f64 / 1e9;
        let committed = measured.committed;
        let by_kind = kinds.iter().zip(&measured.response);
        let copies = measured.device.copies.as_ref();
        let layers = measured.device.layers.iter().map(|work| LayerCounters {
            layer: work.layer.to_owned(),
            counters: named(work.counts.iter().map(|count| (count.name, count.value))),
        });
        Self {
            seconds,
            committed,
            transactions_per_second: if seconds > 0.0 { committed as f64 / seconds } else { 0.0 },
            restarts: measured.restarts,
            restarts_per_transaction: measured.restarts as f64 / committed.max(1) as f64,
            response_ns: (&measured.all_responses()).into(),
            last_attempt_ns: (&measured.last_attempt).into(),
            lock_wait_ns: (&measured.lock_waits).into(),
            by_kind: by_kind.map(|(&name, times)| (name.to_owned(), times.into())).collect(),
            accesses: measured.accesses,
            hits: measured.hits,
            io_ns: (&measured.io).into(),
            checkpoints: measured.checkpoints,
            client_share: ClientShare::of(measured, clients),
            die_share: die_share(measured),
            flash: measured.device.flash.map(Into::into),
            replication: copies.map(|copies| replication(copies, measured.elapsed)),
            layers: layers.collect(),
            warm_up_transactions: measured.warm_up.0,
            warm_up_seconds: measured.warm_up.1 as f64 / 1e9,
        }
    }
}

/// Shares of the time of all dies, by cause, and idle.
fn die_share(measured: &Measured) -> Option<BTreeMap<String, f64>> {
    let dies = measured.device.dies.as_ref()?;
    let all = (measured.elapsed * u64::from(dies.dies)).max(1) as f64;
    let mut idle = 1.0;
    let mut found = BTreeMap::new();
    for (name, time) in &dies.by_cause {
        let share = *time as f64 / all;
        idle -= share;
        found.insert((*name).to_owned(), share);
    }
    // An operation counts when it ends: those that began before the measured part count whole.
    found.insert("idle".to_owned(), idle.max(0.0));
    Some(found)
}

/// Tables of what was measured: windows of time, and the classes of response times by kind.
pub(super) fn tables(measured: &Measured, kinds: &[&str]) -> Result<Tables, JobError> {
    let all = [("windows", windows(measured)), ("response", classes(measured, kinds))];
    let tables = all.into_iter().map(|(name, columns)| Ok((name, table(columns)?)));
    let tables: Result<Tables, JobError> = tables.collect();
    Ok(tables?.into_iter().filter(|(_, table)| table.num_rows() > 0).collect())
}

/// The last window is as long as the play left it, so that counts over `seconds` are rates there,
/// too.
fn windows(measured: &Measured) -> Columns {
    let (each, all) = measured.windows();
    let starts = || (0..all.len() as u64).map(|number| number * each);
    let left = |start: u64| measured.elapsed.saturating_sub(start).clamp(1, each);
    let means = all.iter().map(|one| one.response as f64 / one.committed.max(1) as f64);
    vec![
        column("seconds", starts().map(|start| left(start) as f64 / 1e9)),
        column("start_s", starts().map(|start| start as f64 / 1e9)),
        column("committed", all.iter().map(|one| one.committed)),
        column("restarts", all.iter().map(|one| one.restarts)),
        column("mean_response_ns", means),
        column("max_response_ns", all.iter().map(|one| one.longest)),
    ]
}

/// The classes of the histograms of response times that hold something.
fn classes(measured: &Measured, kinds: &[&str]) -> Columns {
    let named = kinds.iter().zip(&measured.response);
    let rows: Vec<_> = named
        .flat_map(|(&kind, times)| times.iter_recorded().map(move |class| (kind, times, class)))
        .collect();
    let value = |class: &Class| class.value_iterated_to();
    vec![
        column("kind", rows.iter().map(|(kind, ..)| *kind)),
        column("from_ns", rows.iter().map(|(_, times, one)| times.lowest_equivalent(value(one)))),
        column("to_ns", rows.iter().map(|(_, times, one)| times.highest_equivalent(value(one)))),
        column("count", rows.iter().map(|(.., one)| one.count_since_last_iteration())),
    ]
}

/// A database.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Database {
    /// Its name, as it was given.
    pub name: String,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of all relations.
    pub pages: u32,
    /// Its bytes.
    pub bytes: u64,
    /// Rows that are numbered; 0 if none is.
    pub rows: u32,
    /// Kinds of transaction.
    pub kinds: Vec<String>,
    /// Quantities from which its size follows.
    pub scale: BTreeMap<String, u64>,
    /// Tables and indexes; none if they are not known.
    pub relations: Vec<Relation>,
}

/// A table or an index.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Relation {
    /// Its name.
    pub name: String,
    /// True if it is an index.
    pub is_index: bool,
    /// Its first page.
    pub first_page: u32,
    /// Its pages.
    pub pages: u32,
}

impl From<&accesses::Database> for Database {
    fn from(found: &accesses::Database) -> Self {
        let relations = found.relations.iter().map(|relation| Relation {
            name: relation.name.clone(),
            is_index: relation.is_index,
            first_page: relation.first_page,
            pages: relation.pages,
        });
        Self {
            name: found.name.clone(),
            page_bytes: found.page_bytes,
            pages: found.pages,
            bytes: found.bytes(),
            rows: found.rows,
            kinds: found.kinds.iter().map(|&kind| kind.to_owned()).collect(),
            scale: found.scale.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
            relations: relations.collect(),
        }
    }
}

/// Counts of a trace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Counts {
    /// Transactions that commit.
    pub committed: u64,
    /// Transactions that were rolled back: they are left out.
    pub aborted: u64,
    /// Transactions without an end: they are left out.
    pub unfinished: u64,
    /// Reads of those that are played.
    pub reads: u64,
    /// Writes of those that are played.
    pub writes: u64,
}

impl From<accesses::TraceCounts> for Counts {
    fn from(found: accesses::TraceCounts) -> Self {
        let accesses::TraceCounts { committed, aborted, unfinished, reads, writes } = found;
        Self { committed, aborted, unfinished, reads, writes }
    }
}

/// Distribution of times, in nanoseconds: all are 0 where nothing was measured. Percentiles are
/// upper ends of classes, at most 0.1 % too large.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Times {
    /// Number of them.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile; none of too few.
    pub p9999: Option<u64>,
    /// The longest.
    pub max: u64,
    /// Mean of the worst one in a hundred.
    pub worst_percent_mean: f64,
}

impl From<&Histogram<u64>> for Times {
    fn from(histogram: &Histogram<u64>) -> Self {
        let quantile = |share| histogram.value_at_quantile(share);
        Self {
            count: histogram.len(),
            mean: if histogram.is_empty() { 0.0 } else { histogram.mean() },
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: (histogram.len() >= LEAST_FOR_P9999).then(|| quantile(0.9999)),
            max: histogram.max(),
            worst_percent_mean: Measured::mean_of_worst_percent(histogram),
        }
    }
}

/// Requests of the clients and the background writer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Io {
    /// Reads of pages.
    pub read: Requests,
    /// Writes of dirty victims.
    pub write_back: Requests,
    /// Writes of the background writer and of checkpoints.
    pub background_write: Requests,
    /// Writes of the log.
    pub log: Requests,
}

impl From<&[IoFigures; 4]> for Io {
    fn from([read, write_back, background_write, log]: &[IoFigures; 4]) -> Self {
        Self {
            read: read.into(),
            write_back: write_back.into(),
            background_write: background_write.into(),
            log: log.into(),
        }
    }
}

/// Requests of one kind: their times from sending to completion.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Requests {
    /// Their times.
    #[serde(flatten)]
    pub times: Times,
    /// Those that took longer than `blocked`.
    pub blocked: u64,
}

impl From<&IoFigures> for Requests {
    fn from(figures: &IoFigures) -> Self {
        Self { times: (&figures.latency).into(), blocked: figures.blocked }
    }
}

/// Shares of the clients' time; they add up to 1.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClientShare {
    /// The processor works.
    pub cpu: f64,
    /// It waits for a lock.
    pub lock: f64,
    /// It waits for a frame of the pool that somebody uses.
    pub frame: f64,
    /// It waits until a dirty victim is written.
    pub write_back: f64,
    /// It waits for a page to be read.
    pub read: f64,
    /// It waits for the log.
    pub log: f64,
    /// It waits to be restarted.
    pub restart: f64,
    /// It thinks, or has nothing to do.
    pub think: f64,
}

impl ClientShare {
    /// Shares of the time that so many clients had.
    pub(super) fn of(measured: &Measured, clients: u32) -> Self {
        let all = (measured.elapsed * u64::from(clients)).max(1) as f64;
        let share = |wait: Wait| measured.waited[wait as usize] as f64 / all;
        Self {
            cpu: share(Wait::Cpu),
            lock: share(Wait::Lock),
            frame: share(Wait::Frame),
            write_back: share(Wait::WriteBack),
            read: share(Wait::Read),
            log: share(Wait::Log),
            restart: share(Wait::Restart),
            think: share(Wait::Think),
        }
    }
}
