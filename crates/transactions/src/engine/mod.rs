//! The loop: clients that can go on, then the device.

mod clients;
mod io;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use block::{BlockDevice, Command, Telemetry};
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use traces::accesses::{Database, TransactionSource};
use units::lists::NONE;
use units::{Nanos, Progress};

use clients::Client;
use io::{Checkpoint, Io, WaitsForLog};

use crate::locks::Locks;
use crate::log::Log;
use crate::measured::{Measured, Wait};
use crate::observer::Observer;
use crate::pool::Pool;
use crate::{Granularity, PlayError, Settings, Unfit};

/// Plays transactions until their source ends or as much was played as asked. What was measured up
/// to then comes beside what ended it early.
///
/// On a device in virtual time the same inputs give the same outcome. Progress counts transactions
/// that commit, the warm-up's among them; milliseconds of the device's clock if their number is not
/// limited.
pub fn play(
    device: &mut dyn BlockDevice,
    source: &mut dyn TransactionSource,
    settings: &Settings,
    progress: &Progress,
) -> (Measured, Result<(), PlayError>) {
    play_observed(device, source, settings, progress, &mut ())
}

/// As [`play`], while somebody watches.
pub fn play_observed<O: Observer>(
    device: &mut dyn BlockDevice,
    source: &mut dyn TransactionSource,
    settings: &Settings,
    progress: &Progress,
    observer: &mut O,
) -> (Measured, Result<(), PlayError>) {
    match Engine::new(device, source, settings, progress, observer) {
        Ok(mut engine) => {
            let played = engine.run();
            engine.end_measuring();
            let played = if played.is_ok() { engine.let_end() } else { played };
            (engine.measured, played)
        }
        Err(error) => (Measured::new(1), Err(error)),
    }
}

/// In real time somebody may want the play to stop while the device is silent.
const LONGEST_WAIT: Nanos = 200_000_000;
/// Transactions between two reports of progress.
const REPORT: u64 = 64;

struct Engine<'a, O> {
    device: &'a mut dyn BlockDevice,
    source: &'a mut dyn TransactionSource,
    settings: &'a Settings,
    progress: &'a Progress,
    observer: &'a mut O,
    page_bytes: u32,
    clients: Vec<Client>,
    /// Clients that still have something to do.
    alive: u32,
    pool: Pool,
    locks: Locks,
    log: Option<Log>,
    /// First byte of the log's region on the device.
    log_offset: u64,
    /// Clients that can go on.
    ready: VecDeque<u32>,
    timers: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Commands under way, by their ids.
    slots: Vec<Io>,
    free_slots: Vec<u32>,
    unsent: VecDeque<Command>,
    most_outstanding: u32,
    /// Clients that wait for the page of a frame: the first of each frame, the next of each client.
    first_waiter: Vec<u32>,
    next_waiter: Vec<u32>,
    /// Clients that wait for any frame.
    starved: VecDeque<u32>,
    waiting_for_log: Vec<(u64, WaitsForLog)>,
    /// Clients that wait for room in the log.
    waiting_for_room: Vec<u32>,
    checkpoint: Option<Checkpoint>,
    woken: Vec<u32>,
    cold: Vec<u32>,
    now: Nanos,
    next_age: u64,
    rng: Pcg64Mcg,
    /// Mean response time so far, in nanoseconds: what is waited for before a restart.
    mean_response: f64,
    measured: Measured,
    /// Begin of the measured part, once the warm-up is over.
    since: Option<Nanos>,
    started: Nanos,
    warmed: u64,
    reported: u64,
    before: Telemetry,
    has_ended: bool,
}

fn unusable(what: Unfit, reason: String, right: impl Into<String>) -> PlayError {
    PlayError::Unusable { what, reason, right: right.into() }
}

/// Refuses settings that do not fit the device or the database.
fn check(
    device: &dyn BlockDevice,
    database: &Database,
    settings: &Settings,
) -> Result<(), PlayError> {
    let (info, sector) = (device.info(), device.info().limits.sector_bytes);
    let page = database.page_bytes;
    if settings.clients == 0 || settings.pool_pages == 0 {
        let reason = "no clients, or a pool without pages".to_owned();
        return Err(unusable(Unfit::Clients, reason, "one or more"));
    }
    if !page.is_multiple_of(sector) || page > info.limits.most_bytes {
        let reason = format!(
            "pages of {page} bytes on {}, whose sectors have {sector} and requests up to {}",
            info.name, info.limits.most_bytes
        );
        return Err(unusable(Unfit::Device, reason, "whole sectors"));
    }
    let log = settings.log.map_or(0, |log| log.region_bytes);
    let (need, have) = (database.bytes() + log, settings.length);
    if need > have {
        let reason = format!(
            "the database and its log have {need} bytes, and there are {have} on {}",
            info.name
        );
        let right = "a smaller database, or a larger device";
        return Err(unusable(Unfit::Database, reason, right));
    }
    if let Some(log) = settings.log {
        let least = Log::least_bytes(settings.clients, log.record_bytes, page);
        if log.region_bytes < least {
            let reason = format!("a log of {} bytes", log.region_bytes);
            let right = format!("at least {least} for that many clients");
            return Err(unusable(Unfit::Log, reason, right));
        }
    }
    if settings.locks == Granularity::Row && database.rows == 0 {
        let reason = format!("locks on rows, and {} does not tell them", database.name);
        return Err(unusable(Unfit::Locks, reason, "locks on pages"));
    }
    if info.holds_data {
        let reason = format!("{} holds data, and transactions bring none", info.name);
        return Err(unusable(Unfit::Device, reason, "a device that is only measured"));
    }
    Ok(())
}

impl<'a, O: Observer> Engine<'a, O> {
    fn new(
        device: &'a mut dyn BlockDevice,
        source: &'a mut dyn TransactionSource,
        settings: &'a Settings,
        progress: &'a Progress,
        observer: &'a mut O,
    ) -> Result<Self, PlayError> {
        let database = source.database();
        check(device, database, settings)?;
        let (page_bytes, pages, kinds) =
            (database.page_bytes, database.pages, database.kinds.len());
        let log_offset = settings.offset + database.bytes();
        let clients = settings.clients;
        let pages_per_part = (settings.part_bytes / page_bytes).max(1);
        let pool = Pool::new(&settings.buffer, settings.pool_pages, pages, pages_per_part)?;
        let now = device.now();
        let most_outstanding = device.info().queue_depth;
        let engine = Self {
            device,
            source,
            settings,
            progress,
            observer,
            page_bytes,
            clients: (0..clients).map(|_| Client::new(now)).collect(),
            alive: clients,
            pool,
            locks: Locks::new(clients, settings.rule),
            log: settings.log.map(|log| Log::new(log, page_bytes)),
            log_offset,
            ready: (0..clients).collect(),
            timers: BinaryHeap::with_capacity(clients as usize + 1),
            slots: Vec::new(),
            free_slots: Vec::new(),
            unsent: VecDeque::new(),
            most_outstanding,
            first_waiter: vec![NONE; settings.pool_pages as usize],
            next_waiter: vec![NONE; clients as usize],
            starved: VecDeque::new(),
            waiting_for_log: Vec::new(),
            waiting_for_room: Vec::new(),
            checkpoint: None,
            woken: Vec::new(),
            cold: Vec::new(),
            now,
            next_age: 0,
            rng: Pcg64Mcg::seed_from_u64(settings.seed ^ 0x7265_7374),
            mean_response: 1e6,
            measured: Measured::new(kinds),
            since: None,
            started: now,
            warmed: 0,
            reported: 0,
            before: Telemetry::default(),
            has_ended: false,
        };
        Ok(engine)
    }

    fn run(&mut self) -> Result<(), PlayError> {
        let limits = (self.settings.warm_up, self.settings.measured);
        let transactions = limits.0.transactions.saturating_add(limits.1.transactions);
        if limits.1.transactions < u64::MAX {
            let there_are = self.source.transactions().unwrap_or(u64::MAX);
            self.progress.set_total(transactions.min(there_are));
        } else if limits.1.time < Nanos::MAX {
            self.progress.set_total((limits.0.time.saturating_add(limits.1.time)) / 1_000_000);
        }
        if let Some(writer) = self.settings.writer {
            self.timers.push(Reverse((self.now + writer.interval, self.settings.clients)));
        }
        self.look();
        let mut completed = Vec::with_capacity(64);
        while !self.has_ended {
            while let Some(client) = self.ready.pop_front() {
                self.advance(client)?;
                if self.has_ended {
                    return Ok(());
                }
            }
            if self.alive == 0 {
                return Ok(());
            }
            let until = self.wake_up();
            assert!(
                until < Nanos::MAX || self.device.outstanding() > 0,
                "{} clients wait for nothing: a bug",
                self.alive
            );
            self.device.wait(until, &mut completed)?;
            self.now = self.device.now();
            for completion in completed.drain(..) {
                self.completed(completion)?;
            }
            self.ring();
            self.look();
            self.report()?;
        }
        Ok(())
    }

    /// Until when to wait for the device at the latest.
    fn wake_up(&self) -> Nanos {
        let timer = self.timers.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at);
        let (begin, amount) = match self.since {
            None => (self.started, self.settings.warm_up),
            Some(since) => (since, self.settings.measured),
        };
        let until = timer.min(begin.saturating_add(amount.time));
        if self.device.info().is_virtual { until } else { until.min(self.now + LONGEST_WAIT) }
    }

    /// Lets those go on whose time has come.
    fn ring(&mut self) {
        while let Some(&Reverse((at, client))) = self.timers.peek()
            && at <= self.now
        {
            self.timers.pop();
            if client < self.settings.clients {
                self.ready.push_back(client);
            } else if let Some(writer) = self.settings.writer {
                self.write_cold(writer.pages);
                self.timers.push(Reverse((self.now + writer.interval, client)));
            }
        }
    }

    /// Begins to measure when the warm-up is over, and ends when the measured part is.
    fn look(&mut self) {
        if self.since.is_none() {
            let warm_up = self.settings.warm_up;
            let passed = self.now - self.started;
            if self.warmed >= warm_up.transactions || passed >= warm_up.time {
                self.begin_measuring();
            }
        }
        if let Some(since) = self.since {
            let most = self.settings.measured;
            self.has_ended |=
                self.measured.committed >= most.transactions || self.now - since >= most.time;
        }
    }

    fn begin_measuring(&mut self) {
        self.measured.warm_up = (self.warmed, self.now - self.started);
        self.since = Some(self.now);
        self.before = self.device.telemetry();
        for client in &mut self.clients {
            client.wait_since = self.now;
        }
    }

    fn end_measuring(&mut self) {
        if self.since.is_none() {
            self.begin_measuring();
        }
        let since = self.since.unwrap_or(self.now);
        self.measured.elapsed = self.now - since;
        for client in 0..self.settings.clients {
            let wait = self.clients[client as usize].wait;
            self.waits(client, wait);
        }
        self.measured.device = self.device.telemetry().since(&self.before);
    }

    /// Waits for what is outstanding, so that the device can be used again.
    fn let_end(&mut self) -> Result<(), PlayError> {
        let mut completed = Vec::new();
        while self.device.outstanding() > 0 {
            self.device.wait(Nanos::MAX, &mut completed)?;
            completed.clear();
        }
        Ok(())
    }

    fn report(&mut self) -> Result<(), PlayError> {
        let done = if self.settings.measured.transactions < u64::MAX {
            self.warmed + self.measured.committed
        } else {
            (self.now - self.started) / 1_000_000
        };
        if done >= self.reported + REPORT || !self.device.info().is_virtual {
            self.progress.advance(done - self.reported)?;
            self.reported = done;
        }
        Ok(())
    }

    /// From now on a client's time goes to this.
    fn waits(&mut self, client: u32, wait: Wait) {
        let own = &mut self.clients[client as usize];
        if self.since.is_some() {
            self.measured.waited[own.wait as usize] += self.now - own.wait_since;
        }
        (own.wait, own.wait_since) = (wait, self.now);
    }
}
