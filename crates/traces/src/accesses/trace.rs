//! A trace of page accesses in memory.

use std::collections::BTreeMap;
use std::path::Path;

use rustc_hash::FxHashMap;
use units::{Nanos, SourceError};

use super::file::{Event, Rows, malformed};
use super::{Access, Database, NO_ROW, Relation, Transaction, TransactionSource};
use crate::error::TraceError;
use crate::open::hash_file;
use crate::writer::SourceFile;

/// Counts of the file of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Transactions that committed: those that are played.
    pub committed: u64,
    /// Transactions that were rolled back: they are left out.
    pub aborted: u64,
    /// Transactions that had no end in the file: they are left out.
    pub unfinished: u64,
    /// Reads of those that are played.
    pub reads: u64,
    /// Writes of those that are played.
    pub writes: u64,
}

/// A trace of page accesses, whole in memory: 12 bytes an access. Transactions are given out in the
/// order in which they began, whoever asks.
#[derive(Clone, Debug)]
pub struct AccessTrace {
    database: Database,
    accesses: Vec<Access>,
    /// End of each transaction's accesses, and the think time before it.
    ends: Vec<(u64, Nanos)>,
    next: usize,
    is_repeated: bool,
    counts: TraceCounts,
    source: SourceFile,
}

/// A transaction while its rows are read.
#[derive(Default)]
struct Open {
    think: Nanos,
    accesses: Vec<Access>,
    is_committed: bool,
}

impl AccessTrace {
    /// Reads the file. With `is_repeated` it begins again at its end.
    ///
    /// # Errors
    /// [`TraceError`] where a row is not what such a trace has, or nothing was committed.
    pub fn load(path: &Path, is_repeated: bool) -> Result<Self, TraceError> {
        let mut rows = Rows::open(path)?;
        let mut read = Reading { relations: rows.relations.clone(), ..Reading::default() };
        while rows.next_batch(|row, number, event| {
            read.take(number, event).map_err(|(reason, right)| malformed(path, row, reason, right))
        })? {}
        let Reading { relations, open, order, aborted, .. } = read;
        let committed: Vec<&Open> =
            order.iter().filter_map(|number| open.get(number)).filter(|o| o.is_committed).collect();
        if committed.is_empty() {
            let right = "a trace in which transactions begin and commit";
            return Err(malformed(path, rows.rows, "no transaction commits", right));
        }
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let (database, firsts) = database_of(path, name, rows.page_bytes, relations)?;
        let mut counts = TraceCounts {
            committed: committed.len() as u64,
            aborted,
            unfinished: (open.len() - committed.len()) as u64,
            ..TraceCounts::default()
        };
        let (mut accesses, mut ends) = (Vec::new(), Vec::with_capacity(committed.len()));
        for one in committed {
            for access in &one.accesses {
                let (place, first_page, is_index) = firsts[&u32::from(access.relation)];
                let page = first_page + access.page;
                let is_locked = !is_index;
                accesses.push(Access { page, relation: place, is_locked, ..*access });
                *(if access.is_write { &mut counts.writes } else { &mut counts.reads }) += 1;
            }
            ends.push((accesses.len() as u64, one.think));
        }
        let source = hash_file(path)?;
        Ok(Self { database, accesses, ends, next: 0, is_repeated, counts, source })
    }

    /// Gives the counts of the file.
    #[must_use]
    pub fn counts(&self) -> TraceCounts {
        self.counts
    }

    /// The file, with its hash.
    #[must_use]
    pub fn source(&self) -> &SourceFile {
        &self.source
    }
}

/// The part of the file that has been read so far. Relations without metadata are tables, as large
/// as their last page that occurs.
#[derive(Default)]
struct Reading {
    relations: BTreeMap<u32, Relation>,
    open: FxHashMap<u64, Open>,
    order: Vec<u64>,
    ended: rustc_hash::FxHashSet<u64>,
    aborted: u64,
}

impl Reading {
    fn take(&mut self, number: u64, event: Event) -> Result<(), (String, &'static str)> {
        if let Event::Begin { think } = event {
            if self.ended.contains(&number) || self.open.contains_key(&number) {
                let reason = format!("transaction {number} begins twice");
                return Err((reason, "a number of its own for each transaction"));
            }
            self.order.push(number);
            self.open.insert(number, Open { think, ..Open::default() });
            return Ok(());
        }
        let Some(one) = self.open.get_mut(&number).filter(|one| !one.is_committed) else {
            let reason = format!("transaction {number} has not begun, or has ended");
            return Err((reason, "a begin before whatever it does, and nothing behind its end"));
        };
        match event {
            Event::Begin { .. } => unreachable!("it was taken above"),
            Event::Commit => {
                one.is_committed = true;
                self.ended.insert(number);
            }
            Event::Abort => {
                self.open.remove(&number);
                self.ended.insert(number);
                self.aborted += 1;
            }
            Event::Access { relation, page, row, is_write } => {
                let about = self.relations.entry(relation).or_insert_with(|| Relation {
                    name: format!("relation {relation}"),
                    is_index: false,
                    first_page: 0,
                    pages: 0,
                });
                about.pages = about.pages.max(page.saturating_add(1));
                let relation = relation as u16;
                let access = Access { page, row, relation, is_write, is_locked: true };
                one.accesses.push(access);
            }
        }
        Ok(())
    }
}

/// A relation's place among those of the database, its first page, and whether it is an index.
type Firsts = BTreeMap<u32, (u16, u32, bool)>;

/// Lays the relations one after the other.
fn database_of(
    path: &Path,
    name: String,
    page_bytes: u32,
    relations: BTreeMap<u32, Relation>,
) -> Result<(Database, Firsts), TraceError> {
    let (mut pages, mut firsts) = (0u64, Firsts::new());
    let mut placed = Vec::new();
    for (number, mut relation) in relations {
        let first_page = pages as u32;
        relation.first_page = first_page;
        pages += u64::from(relation.pages);
        if pages >= u64::from(NO_ROW) {
            let reason = format!("relations of {pages} pages");
            return Err(malformed(path, 0, reason, "less than 2^32 - 1 in all"));
        }
        firsts.insert(number, (placed.len() as u16, first_page, relation.is_index));
        placed.push(relation);
    }
    let database = Database {
        name,
        page_bytes,
        pages: pages as u32,
        rows: 0,
        relations: placed,
        kinds: vec!["transaction"],
        scale: Vec::new(),
    };
    Ok((database, firsts))
}

impl TransactionSource for AccessTrace {
    fn database(&self) -> &Database {
        &self.database
    }

    fn transactions(&self) -> Option<u64> {
        (!self.is_repeated).then_some(self.ends.len() as u64)
    }

    fn next(&mut self, _client: u32, transaction: &mut Transaction) -> Result<bool, SourceError> {
        if self.next == self.ends.len() {
            if !self.is_repeated {
                return Ok(false);
            }
            self.next = 0;
        }
        let from = if self.next == 0 { 0 } else { self.ends[self.next - 1].0 };
        let (to, think) = self.ends[self.next];
        self.next += 1;
        (transaction.kind, transaction.think) = (0, think);
        transaction.accesses.clear();
        transaction.accesses.extend_from_slice(&self.accesses[from as usize..to as usize]);
        Ok(true)
    }
}
