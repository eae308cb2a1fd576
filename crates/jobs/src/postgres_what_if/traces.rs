//! The writes of a candidate, as traces in the canonical store.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use rustc_hash::FxHashMap;
use traces::store::{StoreWriter, TableWriter};
use traces::{Facts, Origin, Output, TraceError, TraceWriter};
use units::IoRequest;
use wal::postgres::log::Relation;
use wal::postgres::model::{FileRow, Writes};

use super::facts::RelationFacts;
use super::outcome::Traces;
use crate::JobError;

const FORKS: [&str; 4] = ["", "_fsm", "_vm", "_init"];
const FORK_NAMES: [&str; 4] = ["", "free space map", "visibility map", "initial fork"];
/// Tables of the system have lower numbers.
const FIRST_USER_OID: u32 = 16_384;
/// Tablespaces that have no folder of their own.
const DEFAULT_SPACE: u32 = 1663;
const GLOBAL_SPACE: u32 = 1664;
const BATCH: usize = 4096;
const FILES: &str = ".files.parquet";
const CREATED_BY: &[u8] = b"flashwright ";
const MOST_FOOTER: u64 = 64 << 20;

/// A trace that is written.
struct File {
    path: PathBuf,
    writer: Box<dyn TraceWriter>,
    waiting: Vec<IoRequest>,
}

/// Refuses a path at which something is that no earlier run of ours wrote.
fn check_output(path: &Path) -> Result<(), JobError> {
    let shown = path.display();
    let wrong = |what: String| JobError::at("traces", format!("{shown}: {what}"));
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| wrong(error.to_string()))?,
    };
    let is_ours = about.is_file()
        && (about.len() == 0 || is_ours(path).map_err(|error| wrong(error.to_string()))?);
    let right = "is there, and no file that Flashwright wrote: choose another folder, or remove it";
    if is_ours { Ok(()) } else { Err(wrong(right.to_owned())) }
}

/// True of a Parquet file whose footer says that we wrote it.
fn is_ours(path: &Path) -> io::Result<bool> {
    let file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut end = [0; 8];
    let Some(at) = length.checked_sub(8) else { return Ok(false) };
    file.read_exact_at(&mut end, at)?;
    let footer = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    if end[4..] != *b"PAR1" || footer > at.min(MOST_FOOTER) {
        return Ok(false);
    }
    let mut bytes = vec![0; footer as usize];
    file.read_exact_at(&mut bytes, at - footer)?;
    Ok(bytes.windows(CREATED_BY.len()).any(|part| part == CREATED_BY))
}

impl File {
    fn new(path: PathBuf) -> Result<Self, JobError> {
        check_output(&path)?;
        let origin = Origin { format: "postgres_what_if".to_owned(), ..Origin::default() };
        let output = Output::create(&path).map_err(|error| wrong(&error))?;
        let writer = StoreWriter::new(output, 1, &origin).map_err(|error| wrong(&error))?;
        Ok(Self { path, writer: Box::new(writer), waiting: Vec::with_capacity(BATCH) })
    }

    fn take(&mut self, request: IoRequest) -> Result<(), TraceError> {
        self.waiting.push(request);
        if self.waiting.len() == BATCH {
            self.writer.write(&self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<String, TraceError> {
        self.writer.write(&self.waiting)?;
        self.writer.finish(&Facts::default())?;
        Ok(self.path.to_string_lossy().into_owned())
    }
}

/// The traces of a candidate.
pub(super) struct Tracing {
    folder: PathBuf,
    name: String,
    data: File,
    log: Option<File>,
    failed: Option<TraceError>,
}

fn wrong(error: &TraceError) -> JobError {
    JobError::at("traces", error)
}

impl Tracing {
    /// Begins the traces of a name in a folder, which is made.
    pub fn new(folder: &str, name: &str, is_log_apart: bool) -> Result<Self, JobError> {
        let folder = PathBuf::from(folder);
        let made = fs::create_dir_all(&folder);
        made.map_err(|error| JobError::at("traces", format!("{}: {error}", folder.display())))?;
        let file = |end: &str| File::new(folder.join(format!("{name}{end}")));
        check_output(&folder.join(format!("{name}{FILES}")))?;
        let log = if is_log_apart { Some(file(".log.parquet")?) } else { None };
        let data = file(".parquet")?;
        Ok(Self { folder, name: name.to_owned(), data, log, failed: None })
    }

    /// Ends them, and writes the files that they name.
    pub fn finish(
        self,
        files: &[FileRow],
        relations: &FxHashMap<Relation, &RelationFacts>,
    ) -> Result<Traces, JobError> {
        if let Some(error) = self.failed {
            return Err(wrong(&error));
        }
        let path = self.folder.join(format!("{}{FILES}", self.name));
        write_files(&path, files, relations).map_err(|error| wrong(&error))?;
        let trace = self.data.finish().map_err(|error| wrong(&error))?;
        let log = self.log.map(File::finish).transpose().map_err(|error| wrong(&error))?;
        Ok(Traces { trace, log, files: path.to_string_lossy().into_owned() })
    }
}

impl Writes for Tracing {
    fn take(&mut self, is_log: bool, request: IoRequest) {
        let file =
            if is_log { self.log.as_mut().unwrap_or(&mut self.data) } else { &mut self.data };
        if self.failed.is_none() {
            self.failed = file.take(request).err();
        }
    }
}

/// Path, name and purpose of a file.
fn named(
    file: &FileRow,
    relations: &FxHashMap<Relation, &RelationFacts>,
) -> (String, Option<String>, String) {
    let Some((relation, fork)) = file.relation else {
        return (format!("pg_wal/place {}", file.part), None, "wal".to_owned());
    };
    let known = relations.get(&relation);
    let plain = match relation.space {
        GLOBAL_SPACE => format!("global/{}", relation.node),
        DEFAULT_SPACE => format!("base/{}/{}", relation.database, relation.node),
        space => format!("pg_tblspc/{space}/{}/{}", relation.database, relation.node),
    };
    let path = known.map_or(plain, |known| known.path.clone());
    let part = if file.part > 0 { format!(".{}", file.part) } else { String::new() };
    let fork = usize::from(fork).min(FORKS.len() - 1);
    let path = format!("{path}{}{part}", FORKS[fork]);
    let name = known.map(|known| known.name.clone());
    if fork > 0 {
        let name = name.map(|name| format!("{name} ({})", FORK_NAMES[fork]));
        return (path, name, "other".to_owned());
    }
    let unknown = if relation.node < FIRST_USER_OID { "catalog" } else { "other" };
    let purpose = known.map_or_else(|| unknown.to_owned(), |known| known.purpose.clone());
    (path, name, purpose)
}

fn write_files(
    path: &Path,
    files: &[FileRow],
    relations: &FxHashMap<Relation, &RelationFacts>,
) -> Result<(), TraceError> {
    let named: Vec<_> = files.iter().map(|file| named(file, relations)).collect();
    let columns: [(&str, ArrayRef); 6] = [
        ("file", Arc::new(UInt32Array::from_iter_values(files.iter().map(|file| file.number)))),
        ("path", Arc::new(StringArray::from_iter_values(named.iter().map(|one| &one.0)))),
        ("purpose", Arc::new(StringArray::from_iter_values(named.iter().map(|one| &one.2)))),
        ("name", Arc::new(StringArray::from_iter(named.iter().map(|one| one.1.as_ref())))),
        ("offset", Arc::new(UInt64Array::from_iter_values(files.iter().map(|file| file.offset)))),
        ("length", Arc::new(UInt64Array::from_iter_values(files.iter().map(|file| file.length)))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, name == "name")),
    );
    let batch = batch.unwrap_or_else(|error| unreachable!("all columns are as long: {error}"));
    let mut writer = TableWriter::new(path, batch.schema(), &["file"])?;
    writer.write(&batch)?;
    writer.finish().map(|_| ())
}
