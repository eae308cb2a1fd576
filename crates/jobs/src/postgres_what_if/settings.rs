//! The options of `postgres_what_if`: each is declared here, and nowhere else.

use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wal::postgres::images::Method;

use crate::values::{Factor, Micros, Seconds, Share, Size};

/// Says from the log of a PostgreSQL server what other settings would have written: log, images of
/// pages, data pages, and the writes themselves as traces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct PostgresWhatIf {
    /// A folder of segments of the log, such as `wal` of a recording.
    #[schemars(extend("argument" = true, "metavar" = "LOG"))]
    pub log: String,
    /// What is known of the server: `server.json` of a recording. [default: ../server.json beside
    /// LOG]
    #[schemars(extend("group" = "Recording", "metavar" = "FILE"))]
    pub facts: Option<String>,
    /// Settings of the recording, instead of the facts: all that is not given is PostgreSQL's own
    /// default. The log counts from its first redo point to its end.
    #[schemars(extend("group" = "Recording"))]
    pub as_recorded: Option<Candidate>,
    /// Time that a flush of the log takes, where the recording does not tell it: fsync was off, or
    /// track_wal_io_timing. [default: none]
    #[schemars(extend("group" = "Recording", "metavar" = "S"))]
    pub flush_time: Option<Seconds>,
    /// Find that time, so that N flushes of the log follow for the settings as recorded.
    #[schemars(extend("group" = "Recording", "metavar" = "N"))]
    pub flushes: Option<u64>,
    /// What an earlier call found for this recording by trying, as `fitted` of its outcome: it is
    /// taken, and not found again; nor is a trace of the settings as recorded written.
    #[schemars(extend("group" = "Recording"))]
    pub fitted: Option<Fitted>,
    /// Settings that might be: each has a name, and what is not given is as it was recorded.
    #[schemars(extend("group" = "Candidates"))]
    pub candidates: Vec<Candidate>,
    /// Write the writes of each candidate, and of the settings as recorded, there: NAME.parquet as
    /// a trace and NAME.files.parquet.
    #[schemars(extend("group" = "Results", "metavar" = "DIR"))]
    pub traces: Option<String>,
    /// Write the log's writes to NAME.log.parquet, with addresses of a disk of their own.
    #[schemars(extend("group" = "Results"))]
    pub log_apart: bool,
    /// Refuse a log of which the rule for images gets more than this share wrong.
    #[schemars(extend("group" = "Results", "metavar" = "SHARE"))]
    pub most_wrong: Share,
}

impl Default for PostgresWhatIf {
    fn default() -> Self {
        Self {
            log: String::new(),
            facts: None,
            as_recorded: None,
            flush_time: None,
            flushes: None,
            fitted: None,
            candidates: Vec::new(),
            traces: None,
            log_apart: false,
            most_wrong: Share(0.01),
        }
    }
}

/// What was found by trying, so that the settings as recorded write what the server counted. Other
/// settings have the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// Microseconds that a flush of the log takes: as given, as the server counted it, or found.
    pub flush_us: Micros,
    /// Microseconds that the background writer takes for a page.
    pub background_page_us: Micros,
    /// Share that the background writer writes of the dirty pages that it comes to.
    pub background_share: Share,
    /// Reads beside the changes in the log over those that the server counted; null where all pages
    /// fit into the buffers, or nothing tells it.
    pub reads: Option<Factor>,
    /// Commits of the recorded time.
    pub commits: u64,
}

/// Settings of a server, by their names in `postgresql.conf`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Candidate {
    /// Its name, and that of its traces.
    pub name: String,
    /// Time between the redo points of two checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_timeout: Option<Seconds>,
    /// Bytes of log that start a checkpoint before that: `4Gi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_wal_size: Option<Size>,
    /// Share of the time between checkpoints over which their writes are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_completion_target: Option<Share>,
    /// Images of pages at their first change after a redo point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_page_writes: Option<bool>,
    /// Compression of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_compression: Option<Compression>,
    /// Bytes of the server's own buffers: `1Gi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_buffers: Option<Size>,
    /// Whether a commit waits until it is durable; false: flushed each wal_writer_delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synchronous_commit: Option<bool>,
    /// Time that a commit waits for others to be flushed with it: `200us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_delay: Option<Micros>,
    /// Commits a second over those of the recording, from 0.01 to 100: what is due by a clock comes
    /// for more of them, or for fewer. As much time counts as was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Factor>,
    /// Time that the disk takes for a data page over that in the recording: where the disk held up
    /// the background writer, one that is faster does so for less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_time: Option<Factor>,
    /// Least time that the background writer takes for a page: a disk that is never idle takes its
    /// pages in turn with what others write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_page: Option<Micros>,
}

/// Method of `wal_compression`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Compression {
    /// None.
    Off,
    /// PostgreSQL's own.
    #[serde(alias = "on")]
    Pglz,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl From<Compression> for Method {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::Off => Self::Off,
            Compression::Pglz => Self::Pglz,
            Compression::Lz4 => Self::Lz4,
            Compression::Zstd => Self::Zstd,
        }
    }
}

impl Candidate {
    /// Settings with what is given here instead.
    pub(super) fn over(
        &self,
        recorded: &wal::postgres::model::Settings,
    ) -> wal::postgres::model::Settings {
        let us = |seconds: Seconds| (seconds.0 * 1e6) as i64;
        let mut found = recorded.clone();
        if let Some(timeout) = self.checkpoint_timeout {
            found.checkpoint_timeout_us = us(timeout).max(1);
        }
        if let Some(size) = self.max_wal_size {
            found.max_wal_size = size.0;
        }
        if let Some(target) = self.checkpoint_completion_target {
            found.checkpoint_completion_target = target.0;
        }
        if let Some(is_on) = self.full_page_writes {
            found.full_page_writes = is_on;
        }
        if let Some(compression) = self.wal_compression {
            found.wal_compression = compression.into();
        }
        if let Some(size) = self.shared_buffers {
            found.shared_buffers = Some(u32::try_from(size.0 / 8192).unwrap_or(u32::MAX));
        }
        if let Some(is_on) = self.synchronous_commit {
            found.synchronous_commit = is_on;
        }
        if let Some(delay) = self.commit_delay {
            found.commit_delay_us = delay.0 as i64;
        }
        let busy_us = self.busy_page.map_or(0, |time| time.0 as i64);
        found.at_pace(factor(self.pace)).on_disk(factor(self.disk_time), busy_us)
    }
}

fn factor(given: Option<Factor>) -> f64 {
    given.map_or(1.0, |factor| factor.0)
}
