//! What a store is of and how far it is, in `fleet.json`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::TraceError;
use crate::reader::{Facts, Mark};
use crate::unpack::archive_of;
use crate::volumes::{failed, listed};
use crate::writer::Output;

/// Name of the file in a store.
pub(super) const MANIFEST: &str = "fleet.json";
const LOCK: &str = "fleet.lock";
const VERSION: u32 = 1;
/// Bytes at the start and at the end of an input that are hashed: a file of terabytes is known by
/// them and by its size.
const HASHED_BYTES: u64 = 1 << 20;

/// A file that a store is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputFile {
    /// Name without folders.
    pub(super) name: String,
    /// Bytes as it is stored.
    pub(super) bytes: u64,
    /// SHA-256 of its first and last MiB.
    pub(super) ends_sha256: String,
}

/// What the split of a store was asked for; it goes on with the same alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    pub(super) inputs: Vec<InputFile>,
    pub(super) format: Option<String>,
    pub(super) window_ns: u64,
    pub(super) skip_bad: u64,
    pub(super) by_stream: bool,
}

/// Place up to which the inputs are in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reached {
    /// Number of the input.
    pub(super) input: usize,
    /// Requests of it.
    pub(super) requests: u64,
    /// The same as a place in the file.
    pub(super) mark: Option<Mark>,
}

/// Facts of all inputs, as [`Facts`] has those of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "those of Facts")]
pub struct Told {
    pub skipped: u64,
    pub clamped_times: u64,
    pub lost_events: u64,
    pub left_out: BTreeMap<String, u64>,
    pub warnings: Vec<String>,
}

impl Told {
    /// Adds the facts of one more input.
    pub(super) fn add(&mut self, facts: &Facts) {
        self.skipped += facts.skipped;
        self.clamped_times += facts.clamped_times;
        self.lost_events += facts.lost_events;
        for (reason, records) in &facts.left_out {
            *self.left_out.entry(reason.clone().into_owned()).or_default() += records;
        }
        for warning in &facts.warnings {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
    }
}

/// Counts of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeTotals {
    /// Its number in the trace.
    pub volume: u32,
    /// Requests by operation: read, write, trim, flush.
    pub requests: [u64; 4],
    /// Bytes by operation.
    pub bytes: [u64; 4],
    /// Time of its first request, in nanoseconds since the first one of the trace.
    pub first_ns: u64,
    /// Latest time of a request.
    pub last_ns: u64,
    /// One behind the last byte named.
    pub end_bytes: u64,
    /// Files that it lies in.
    pub parts: u64,
}

/// The content of `fleet.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) version: u32,
    pub(super) complete: bool,
    pub(super) plan: Plan,
    pub(super) reached: Reached,
    /// Number of the part that is written next; those before it are in the store.
    pub(super) next_part: u64,
    /// Format of the inputs, once one was read.
    pub(super) format: Option<String>,
    /// Time of the first request on the inputs' own clock.
    pub(super) start_ns: Option<u64>,
    pub(super) told: Told,
    pub(super) volumes: Vec<VolumeTotals>,
}

impl Manifest {
    pub(super) fn of(plan: Plan) -> Self {
        Self {
            version: VERSION,
            complete: false,
            plan,
            reached: Reached::default(),
            next_part: 0,
            format: None,
            start_ns: None,
            told: Told::default(),
            volumes: Vec::new(),
        }
    }

    fn read(store: &Path) -> Result<Self, TraceError> {
        let path = store.join(MANIFEST);
        let text = fs::read(&path).map_err(failed(&path, "read"))?;
        let damaged = |reason: String| TraceError::Unusable {
            path: path.clone(),
            reason,
            right: "a store that this version wrote, or a new folder",
        };
        let found: Self = serde_json::from_slice(&text)
            .map_err(|error| damaged(format!("it is no manifest of a store: {error}")))?;
        if found.version != VERSION {
            return Err(damaged(format!("it is of version {}, not {VERSION}", found.version)));
        }
        Ok(found)
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self, store: &Path) -> Result<(), TraceError> {
        let path = store.join(MANIFEST);
        let text = serde_json::to_vec(self)
            .unwrap_or_else(|error| unreachable!("it has no keys but texts: {error}"));
        let mut output = Output::create(&path)?;
        output.write_all(&text).map_err(|source| output.failed(source))?;
        output.commit()
    }

    /// Checks that a store goes on with a plan, and says what is different.
    fn check(&self, store: &Path, plan: &Plan) -> Result<(), TraceError> {
        let mine = &self.plan;
        let names = |plan: &Plan| {
            let names: Vec<&str> = plan.inputs.iter().map(|one| one.name.as_str()).collect();
            names.join(", ")
        };
        let reason = if names(mine) != names(plan) {
            format!("it is a store of {}, not of {}", names(mine), names(plan))
        } else if let Some((had, _)) =
            mine.inputs.iter().zip(&plan.inputs).find(|(had, now)| had != now)
        {
            format!("it is a store of another {}: its content has changed", had.name)
        } else if mine.window_ns != plan.window_ns {
            let [had, now] = [mine, plan].map(|plan| plan.window_ns as f64 / 1e9);
            format!("its windows are of {had} s, not of {now} s")
        } else if mine != plan {
            "it was begun with another format, or other lines to skip".to_owned()
        } else {
            return Ok(());
        };
        Err(TraceError::Unusable {
            path: store.to_owned(),
            reason,
            right: "the same inputs and options, or a new folder",
        })
    }
}

/// A store that nobody else writes.
pub(super) struct Claimed {
    /// Keeps the lock.
    _lock: File,
    pub(super) manifest: Manifest,
}

/// Makes a folder a store, or goes on with the one that it is.
pub(super) fn claim(store: &Path, plan: Plan) -> Result<Claimed, TraceError> {
    fs::create_dir_all(store).map_err(failed(store, "create"))?;
    let is_store = || store.join(MANIFEST).is_file();
    // Also that of a split which was killed before it had written the first manifest.
    let unfinished = format!(".{MANIFEST}.");
    let is_ours = |path: &Path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name == LOCK || name.starts_with(&unfinished))
    };
    if !is_store() && !listed(store)?.iter().all(|path| is_ours(path)) {
        return Err(TraceError::Unusable {
            path: store.to_owned(),
            reason: "the folder is not empty, and no store of a split".to_owned(),
            right: "a new or empty folder",
        });
    }
    let path = store.join(LOCK);
    let lock = File::options().write(true).create(true).truncate(false).open(&path);
    let lock = lock.map_err(failed(&path, "create"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            return Err(TraceError::Unusable {
                path: store.to_owned(),
                reason: "another split is writing it".to_owned(),
                right: "to wait for its end, or another folder",
            });
        }
        Err(fs::TryLockError::Error(error)) => return Err(failed(&path, "lock")(error)),
    }
    let manifest = if is_store() {
        let found = Manifest::read(store)?;
        if found.next_part == 0 && found.reached == Reached::default() {
            // Nothing is in it: a first try may have had another format, or lines to skip.
            let new = Manifest::of(plan);
            new.write(store)?;
            new
        } else {
            found.check(store, &plan)?;
            found
        }
    } else {
        let new = Manifest::of(plan);
        new.write(store)?;
        new
    };
    Ok(Claimed { _lock: lock, manifest })
}

/// What an input is known by.
pub(super) fn input_file(path: &Path) -> Result<InputFile, TraceError> {
    let open = || {
        let mut file = File::open(archive_of(path))?;
        let bytes = file.metadata()?.len();
        let mut hash = Sha256::new();
        let mut part = Vec::new();
        (&mut file).take(HASHED_BYTES).read_to_end(&mut part)?;
        hash.update(&part);
        part.clear();
        file.seek(SeekFrom::Start(bytes.saturating_sub(HASHED_BYTES)))?;
        file.read_to_end(&mut part)?;
        hash.update(&part);
        Ok((bytes, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
    };
    let (bytes, ends_sha256) = open().map_err(failed(path, "open"))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(InputFile { name, bytes, ends_sha256 })
}
