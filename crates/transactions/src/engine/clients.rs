//! Steps of a client.

use std::cmp::Reverse;

use rand::Rng as _;
use traces::accesses::{Access, NO_ROW, Transaction};
use units::Nanos;
use units::lists::NONE;

use super::Engine;
use super::io::{For, WaitsForLog};
use crate::locks::Answer;
use crate::measured::{Wait, record};
use crate::observer::Observer;
use crate::{Granularity, PlayError};

/// Phase of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It takes its next transaction.
    Next,
    /// It begins that transaction, for the first time or again.
    Begin,
    /// It locks the page or row of the next access.
    Lock,
    /// It has the lock, and needs the page.
    Fix,
    /// It has pinned the page.
    Use,
    /// The processor is done with it.
    Used,
    /// It has committed.
    Committed,
    /// There is nothing more for it.
    Done,
}

pub(super) struct Client {
    pub phase: Phase,
    pub transaction: Transaction,
    /// The access it is at.
    pub at: usize,
    pub first_began: Nanos,
    pub began: Nanos,
    /// The frame of the page it uses.
    pub frame: u32,
    /// The frame whose page was written so that it could have it.
    pub preferred: u32,
    /// It changed something in this attempt.
    pub has_written: bool,
    /// End of its commit's record.
    pub commit_lsn: u64,
    /// The page it needs was not in the pool.
    pub has_missed: bool,
    pub wait: Wait,
    pub wait_since: Nanos,
}

impl Client {
    pub fn new(now: Nanos) -> Self {
        Self {
            phase: Phase::Next,
            transaction: Transaction::default(),
            at: 0,
            first_began: now,
            began: now,
            frame: NONE,
            preferred: NONE,
            has_written: false,
            commit_lsn: 0,
            has_missed: false,
            wait: Wait::Think,
            wait_since: now,
        }
    }
}

/// Shortest time before a restart, in nanoseconds: never none, or two could chase each other for
/// ever in the same moment.
const LEAST_DELAY: f64 = 1000.0;
/// Share of each response time in the mean that restarts wait for.
const SMOOTHING: f64 = 0.01;

impl<O: Observer> Engine<'_, O> {
    fn client(&mut self, client: u32) -> &mut Client {
        &mut self.clients[client as usize]
    }

    /// Goes on until the client has to wait.
    pub(super) fn advance(&mut self, client: u32) -> Result<(), PlayError> {
        loop {
            let goes_on = match self.client(client).phase {
                Phase::Next => self.take_next(client)?,
                Phase::Begin => self.begin(client),
                Phase::Lock => self.lock(client),
                Phase::Fix => self.fix(client),
                Phase::Use => self.use_page(client),
                Phase::Used => self.used(client),
                Phase::Committed => self.committed(client),
                Phase::Done => false,
            };
            if !goes_on || self.has_ended {
                return Ok(());
            }
        }
    }

    fn take_next(&mut self, client: u32) -> Result<bool, PlayError> {
        let own = &mut self.clients[client as usize];
        if !self.source.next(client, &mut own.transaction).map_err(PlayError::Source)? {
            own.phase = Phase::Done;
            self.alive -= 1;
            self.waits(client, Wait::Think);
            return Ok(false);
        }
        let think = own.transaction.think;
        own.phase = Phase::Begin;
        own.first_began = self.now + think;
        self.next_age += 1;
        self.locks.begin(client, self.next_age);
        if think == 0 {
            return Ok(true);
        }
        self.waits(client, Wait::Think);
        self.timers.push(Reverse((self.now + think, client)));
        Ok(false)
    }

    fn begin(&mut self, client: u32) -> bool {
        self.waits(client, Wait::Cpu);
        let now = self.now;
        let own = self.client(client);
        (own.phase, own.at, own.began, own.has_written) = (Phase::Lock, 0, now, false);
        self.observer.began(client);
        true
    }

    /// Gives the page or row that an access has to lock.
    fn lock_of(&self, access: &Access) -> Option<u32> {
        match self.settings.locks {
            Granularity::Page if access.is_locked => Some(access.page),
            Granularity::Row if access.is_locked && access.row != NO_ROW => Some(access.row),
            _ => None,
        }
    }

    fn lock(&mut self, client: u32) -> bool {
        let own = &self.clients[client as usize];
        let Some(access) = own.transaction.accesses.get(own.at).copied() else {
            return self.commit(client);
        };
        self.client(client).phase = Phase::Fix;
        let Some(lock) = self.lock_of(&access) else { return true };
        match self.locks.request(client, lock, access.is_write) {
            Answer::Granted => {
                self.observer.locked(client, lock, access.is_write);
                true
            }
            Answer::Waits => {
                self.waits(client, Wait::Lock);
                false
            }
            Answer::Restart => {
                self.restart(client);
                false
            }
        }
    }

    /// Gives up everything, waits, and begins again. What it changed needs no undoing by pages: old
    /// versions of rows lie beside new ones, as in PostgreSQL. The wait is drawn from an
    /// exponential distribution whose mean is the mean response time (Agrawal, Carey & Livny 1987).
    fn restart(&mut self, client: u32) {
        self.observer.restarted(client);
        self.let_go(client);
        if let Some(since) = self.since {
            self.measured.restarts(self.now - since);
        }
        let uniform = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let delay = (-(1.0 - uniform).ln() * self.mean_response).max(LEAST_DELAY);
        self.client(client).phase = Phase::Begin;
        self.waits(client, Wait::Restart);
        self.timers.push(Reverse((self.now + delay as Nanos, client)));
    }

    fn let_go(&mut self, client: u32) {
        let mut woken = std::mem::take(&mut self.woken);
        self.locks.release_all(client, &mut woken);
        for client in woken.drain(..) {
            let own = &self.clients[client as usize];
            let access = own.transaction.accesses[own.at];
            if self.since.is_some() {
                record(&mut self.measured.lock_waits, self.now - own.wait_since);
            }
            if let Some(lock) = self.lock_of(&access) {
                self.observer.locked(client, lock, access.is_write);
            }
            self.waits(client, Wait::Cpu);
            self.ready.push_back(client);
        }
        self.woken = woken;
    }

    /// Gets the page of its access into the pool, and pins it.
    fn fix(&mut self, client: u32) -> bool {
        let own = &self.clients[client as usize];
        let page = own.transaction.accesses[own.at].page;
        if let Some(frame) = self.pool.find(page) {
            if self.pool.is_reading(frame) {
                self.wait_for_page(client, frame);
                return false;
            }
            self.pin(client, frame);
            return true;
        }
        let preferred = std::mem::replace(&mut self.client(client).preferred, NONE);
        let is_free = preferred != NONE && self.pool.is_available(preferred);
        let Some(frame) = (if is_free { Some(preferred) } else { self.pool.choose() }) else {
            self.waits(client, Wait::Frame);
            self.starved.push_back(client);
            return false;
        };
        if self.pool.is_available(frame) {
            self.client(client).has_missed = true;
            let old = self.pool.begin_read(frame, page);
            self.observer.replaced(old, page);
            self.wait_for_page(client, frame);
            self.read(frame, page);
        } else {
            self.waits(client, Wait::WriteBack);
            self.write_back(frame, For::Client(client));
        }
        false
    }

    fn wait_for_page(&mut self, client: u32, frame: u32) {
        self.client(client).has_missed = true;
        self.waits(client, Wait::Read);
        self.next_waiter[client as usize] = self.first_waiter[frame as usize];
        self.first_waiter[frame as usize] = client;
    }

    pub(super) fn pin(&mut self, client: u32, frame: u32) {
        self.pool.pin(frame);
        let own = self.client(client);
        let is_hit = !std::mem::take(&mut own.has_missed);
        (own.frame, own.phase, own.preferred) = (frame, Phase::Use, NONE);
        if self.since.is_some() {
            self.measured.accesses += 1;
            self.measured.hits += u64::from(is_hit);
        }
    }

    fn use_page(&mut self, client: u32) -> bool {
        self.waits(client, Wait::Cpu);
        self.client(client).phase = Phase::Used;
        if self.settings.cpu == 0 {
            return true;
        }
        self.timers.push(Reverse((self.now + self.settings.cpu, client)));
        false
    }

    fn used(&mut self, client: u32) -> bool {
        let own = &self.clients[client as usize];
        let (access, frame) = (own.transaction.accesses[own.at], own.frame);
        let mut lsn = 0;
        if access.is_write {
            if self.log.as_ref().is_some_and(|log| !log.has_room(self.settings.clients)) {
                self.waits(client, Wait::Log);
                self.waiting_for_room.push(client);
                self.begin_checkpoint();
                return false;
            }
            let (from, to) = self.log.as_mut().map_or((0, 0), crate::Log::change);
            self.pool.changed(frame, from, to);
            self.client(client).has_written = true;
            lsn = to;
        }
        self.observer.accessed(client, access.page, access.row, access.is_write, lsn);
        let own = self.client(client);
        (own.at, own.phase, own.frame) = (own.at + 1, Phase::Lock, NONE);
        if self.pool.unpin(frame) {
            self.feed();
        }
        true
    }

    /// Lets those try again that found no frame.
    pub(super) fn feed(&mut self) {
        self.ready.extend(self.starved.drain(..));
    }

    /// Its last access is done.
    fn commit(&mut self, client: u32) -> bool {
        self.client(client).phase = Phase::Committed;
        if !self.clients[client as usize].has_written {
            return true;
        }
        let Some(log) = &mut self.log else { return true };
        let lsn = log.commit();
        let wants_checkpoint = log.wants_checkpoint();
        self.client(client).commit_lsn = lsn;
        self.waits(client, Wait::Log);
        self.waiting_for_log.push((lsn, WaitsForLog::Client(client)));
        self.write_log();
        if wants_checkpoint {
            self.begin_checkpoint();
        }
        false
    }

    fn committed(&mut self, client: u32) -> bool {
        self.observer.committed(client, self.clients[client as usize].commit_lsn);
        self.let_go(client);
        let own = &self.clients[client as usize];
        let (response, last) = (self.now - own.first_began, self.now - own.began);
        self.mean_response += SMOOTHING * (response as f64 - self.mean_response);
        match self.since {
            Some(since) => {
                self.measured.commits(self.now - since, own.transaction.kind, response, last);
            }
            None => self.warmed += 1,
        }
        self.waits(client, Wait::Cpu);
        self.client(client).phase = Phase::Next;
        self.look();
        true
    }
}
