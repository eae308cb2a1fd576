//! Reads recorded transactions: of a recording, or of a log.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::Deserialize;
use traces::TraceError;
use traces::store::read_columns;
use units::Nanos;
use wal::sqlite::transactions::UNKNOWN;
use wal::sqlite::{Follow, Nature, Transactions, Written};

use super::settings::JournalModeName;

/// Files of a recording's folder.
pub(super) const TABLE: &str = "transactions.parquet";
const FACTS: &str = "sqlite.json";
/// First bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";
/// Time between commits of a log, which tells none.
const STEP: Nanos = 1_000_000;

/// Facts of a recording: `sqlite.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Facts {
    page_size: u32,
    journal_mode: JournalModeName,
    #[serde(default)]
    cache_size: Option<i64>,
    /// These are as [`Nature`] has them.
    first_page_told: bool,
    skips_freed: bool,
    auto_vacuum_full: bool,
    /// Transactions that are missing, in words.
    #[serde(default)]
    gaps: Vec<String>,
    #[serde(default)]
    not_told: Vec<String>,
}

/// Transactions, and what is known of them.
pub(super) struct Recorded {
    pub transactions: Transactions,
    pub journal_mode: JournalModeName,
    pub cache_size: Option<i64>,
    pub has_times: bool,
    pub not_told: Vec<String>,
    /// The file that they were in.
    pub file: PathBuf,
}

static COLUMNS: LazyLock<SchemaRef> = LazyLock::new(|| {
    let field = |name, kind, may_be_null| Field::new(name, kind, may_be_null);
    Arc::new(Schema::new(vec![
        field("transaction", DataType::UInt64, false),
        field("time_ns", DataType::Int64, false),
        field("page", DataType::UInt32, false),
        field("pages_before", DataType::UInt32, false),
        field("pages_after", DataType::UInt32, false),
        field("free_for", DataType::UInt32, true),
    ]))
});

/// Reads the transactions of a path.
pub(super) fn read(path: &Path) -> Result<Recorded, String> {
    let failed = |error| format!("{}: {error}", path.display());
    if path.is_dir() {
        return table(&path.join(TABLE));
    }
    let mut head = [0; 4];
    let file = File::open(path).map_err(failed)?;
    let read = (&file).read(&mut head).map_err(failed)?;
    if &head[..read] == PARQUET { table(path) } else { log(path, file) }
}

fn table(path: &Path) -> Result<Recorded, String> {
    if !path.exists() {
        let right = "the folder of `flashwright record --database sqlite FILE`";
        return Err(format!("{}: there is no such file; right would be {right}", path.display()));
    }
    let beside = path.with_file_name(FACTS);
    let text = fs::read_to_string(&beside);
    let text = text.map_err(|error| format!("{}: {error}", beside.display()))?;
    let facts: Facts =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", beside.display()))?;
    if let Some(gap) = facts.gaps.first() {
        return Err(format!(
            "{}: transactions are missing, so nothing can be said of other modes: {gap}",
            path.display()
        ));
    }
    let nature = Nature {
        is_page_one_told: facts.first_page_told,
        skips_freed: facts.skips_freed,
        is_auto_vacuum_full: facts.auto_vacuum_full,
    };
    let found = Transactions::new(facts.page_size, nature);
    let mut rows = Rows { found, open: None, pages: Vec::new(), zero: None };
    let read = read_columns(path, &COLUMNS, |_, batch| {
        rows.take(batch).map_err(|reason| TraceError::Unusable {
            path: path.to_owned(),
            reason,
            right: "transactions as `flashwright record` writes them",
        })
    });
    read.map_err(|error| error.to_string())?;
    Ok(Recorded {
        transactions: rows.finish().map_err(|error| format!("{}: {error}", path.display()))?,
        journal_mode: facts.journal_mode,
        cache_size: facts.cache_size,
        has_times: true,
        not_told: facts.not_told,
        file: path.to_owned(),
    })
}

/// Makes transactions of rows, one for each page.
struct Rows {
    found: Transactions,
    open: Option<Open>,
    pages: Vec<Written>,
    /// Time of the first: times count from it.
    zero: Option<i64>,
}

#[derive(PartialEq)]
struct Open {
    number: u64,
    time: i64,
    before: u32,
    after: u32,
}

impl Rows {
    fn take(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let number = batch.column(0).as_primitive::<UInt64Type>();
        let time = batch.column(1).as_primitive::<Int64Type>();
        let [page, before, after, free_for] =
            [2, 3, 4, 5].map(|column| batch.column(column).as_primitive::<UInt32Type>());
        for row in 0..batch.num_rows() {
            let open = Open {
                number: number.value(row),
                time: time.value(row),
                before: before.value(row),
                after: after.value(row),
            };
            if self.open.as_ref() != Some(&open) {
                let last = self.open.as_ref().map(|last| last.number);
                if last.is_some_and(|last| last >= open.number) {
                    let number = open.number;
                    return Err(format!("rows of transaction {number} disagree, or do not rise"));
                }
                self.close()?;
                self.open = Some(open);
            }
            let free_for = if free_for.is_valid(row) { free_for.value(row) } else { UNKNOWN };
            self.pages.push(Written { page: page.value(row), free_for });
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let zero = *self.zero.get_or_insert(open.time);
        let time = Nanos::try_from(open.time - zero)
            .map_err(|_| format!("transaction {} is before the first in time", open.number))?;
        let pushed = self.found.push(time, open.before, open.after, &mut self.pages);
        pushed.map_err(|error| error.to_string())
    }

    fn finish(mut self) -> Result<Transactions, String> {
        self.close()?;
        Ok(self.found)
    }
}

fn log(path: &Path, file: File) -> Result<Recorded, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let name = path.to_string_lossy();
    let Some(database) = name.strip_suffix("-wal").map(PathBuf::from) else {
        let right = "transactions.parquet of a recording, its folder, or FILE-wal beside FILE";
        return Err(failed(&format!(
            "it is no table and no log of SQLite; right would be {right}"
        )));
    };
    let of = |error: &dyn std::fmt::Display| {
        format!("{}: {error}; it is needed beside its log", database.display())
    };
    let base = File::open(&database).map_err(|error| of(&error))?;
    let none = || failed(&"byte 0: there is no header; right would be a log of SQLite");
    let opened = Follow::open(file, &base).map_err(|error| failed(&error))?;
    let mut follow = opened.ok_or_else(none)?;
    let page_bytes = follow.page_bytes().map_err(|error| failed(&error))?;
    let (mut commits, mut pages) = (Vec::new(), Vec::new());
    let look = follow.look(&mut commits, &mut pages).map_err(|error| failed(&error))?;
    follow.log().check_whole(&look).map_err(|error| failed(&error))?;
    let mut transactions = Transactions::new(page_bytes, follow.nature());
    let (mut rest, mut time) = (&pages[..], 0);
    for commit in &commits {
        let (mine, others) = rest.split_at(commit.frames as usize);
        let pushed = transactions.push(time, commit.before, commit.after, &mut mine.to_vec());
        pushed.map_err(|error| failed(&error))?;
        (rest, time) = (others, time + STEP);
    }
    Ok(Recorded {
        transactions,
        journal_mode: JournalModeName::Wal,
        cache_size: None,
        has_times: false,
        not_told: vec!["times of commits: a log has none".to_owned()],
        file: path.to_owned(),
    })
}
