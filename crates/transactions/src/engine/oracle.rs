//! A plain model of what transactions may see, which watches a play.

use std::collections::{HashMap, HashSet};

use crate::observer::Observer;

#[derive(Default)]
struct Attempt {
    /// Its reads: a thing and the version that was there.
    reads: Vec<(u32, u64)>,
    /// Its changes: a thing and the version before.
    writes: Vec<(u32, u64)>,
    last_lsn: u64,
}

#[derive(Clone, Default)]
struct Page {
    /// Changes: the ends of their records.
    changes: Vec<u64>,
    /// Number of changes, from the first, that a write under way contains, if there is one.
    writing: Option<usize>,
    written: usize,
}

/// Checks everything that it sees against what it knows.
pub(super) struct Oracle {
    frames: usize,
    has_log: bool,
    region: u64,
    holders: HashMap<u32, Vec<(u32, bool)>>,
    attempts: HashMap<u32, Attempt>,
    /// The version of each thing, and of those that are not committed whose they are.
    versions: HashMap<u32, u64>,
    uncommitted: HashMap<u32, u32>,
    next_version: u64,
    pages: HashMap<u32, Page>,
    resident: HashSet<u32>,
    durable: u64,
    pub commits: u64,
    pub restarts: u64,
    pub redo: u64,
}

impl Oracle {
    pub fn new(frames: u32, region: Option<u64>) -> Self {
        Self {
            frames: frames as usize,
            has_log: region.is_some(),
            region: region.unwrap_or(0),
            holders: HashMap::new(),
            attempts: HashMap::new(),
            versions: HashMap::new(),
            uncommitted: HashMap::new(),
            next_version: 1,
            pages: HashMap::new(),
            resident: HashSet::new(),
            durable: 0,
            commits: 0,
            restarts: 0,
            redo: 0,
        }
    }

    fn end(&mut self, client: u32) -> Attempt {
        for holders in self.holders.values_mut() {
            holders.retain(|(holder, _)| *holder != client);
        }
        self.uncommitted.retain(|_, owner| *owner != client);
        self.attempts.remove(&client).expect("it began")
    }
}

impl Observer for Oracle {
    fn locked(&mut self, client: u32, lock: u32, is_exclusive: bool) {
        let holders = self.holders.entry(lock).or_default();
        for &(other, is_others) in holders.iter().filter(|(other, _)| *other != client) {
            assert!(
                !is_exclusive && !is_others,
                "clients {client} and {other} hold {lock} at the same time"
            );
        }
        holders.push((client, is_exclusive));
    }

    fn began(&mut self, client: u32) {
        let before = self.attempts.insert(client, Attempt::default());
        assert!(before.is_none(), "client {client} begins twice");
    }

    fn accessed(&mut self, client: u32, page: u32, row: u32, is_write: bool, lsn: u64) {
        assert!(self.resident.contains(&page), "page {page} is not in the pool");
        if row == u32::MAX {
            return;
        }
        let version = self.versions.get(&row).copied().unwrap_or(0);
        if let Some(&owner) = self.uncommitted.get(&row) {
            assert_eq!(owner, client, "it sees what another has not committed");
        }
        let attempt = self.attempts.get_mut(&client).expect("it began");
        if !is_write {
            attempt.reads.push((row, version));
            return;
        }
        attempt.writes.push((row, version));
        attempt.last_lsn = lsn;
        self.versions.insert(row, self.next_version);
        self.next_version += 1;
        self.uncommitted.insert(row, client);
        self.pages.entry(page).or_default().changes.push(lsn);
    }

    fn committed(&mut self, client: u32, lsn: u64) {
        let attempt = self.end(client);
        self.commits += 1;
        // In the order of commits: what it read is what is committed now, or what it changed later.
        for (row, version) in attempt.reads {
            let own = attempt.writes.iter().find(|(changed, _)| *changed == row);
            let now = own.map_or_else(
                || self.versions.get(&row).copied().unwrap_or(0),
                |(_, before)| *before,
            );
            assert!(version >= now, "client {client} read an old version of {row}");
        }
        if self.has_log && !attempt.writes.is_empty() {
            assert!(attempt.last_lsn < lsn && lsn <= self.durable, "it can be lost");
        }
    }

    fn restarted(&mut self, client: u32) {
        let attempt = self.end(client);
        self.restarts += 1;
        for (row, before) in attempt.writes.into_iter().rev() {
            self.versions.insert(row, before);
        }
    }

    fn write_begins(&mut self, page: u32) {
        let page = self.pages.entry(page).or_default();
        assert!(page.writing.is_none(), "two writes of a page are under way");
        assert!(!self.has_log || page.changes.last() <= Some(&self.durable), "before its log");
        page.writing = Some(page.changes.len());
    }

    fn write_ends(&mut self, page: u32) {
        let page = self.pages.get_mut(&page).expect("it began");
        page.written = page.writing.take().expect("it began");
    }

    fn replaced(&mut self, old: Option<u32>, page: u32) {
        if let Some(old) = old {
            assert!(self.resident.remove(&old));
            let about = self.pages.get(&old).cloned().unwrap_or_default();
            assert_eq!(about.written, about.changes.len(), "page {old} is lost");
        }
        assert!(self.resident.insert(page) && self.resident.len() <= self.frames);
    }

    fn log_is_durable(&mut self, to: u64, redo: u64) {
        assert!(self.durable <= to && self.redo <= redo && to <= redo + self.region);
        (self.durable, self.redo) = (to, redo);
        for (number, page) in &self.pages {
            let lost = page.changes[page.written..].iter().find(|lsn| **lsn <= redo);
            assert_eq!(lost, None, "a change of page {number} is neither there nor in the log");
        }
    }
}
