//! The settings of a server that change what it writes.

use super::super::images::Method;

/// Settings, by their names in `postgresql.conf`.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// In microseconds.
    pub checkpoint_timeout_us: i64,
    /// In bytes.
    pub max_wal_size: u64,
    /// In bytes.
    pub min_wal_size: u64,
    /// In bytes.
    pub wal_keep_size: u64,
    /// From above 0 to 1.
    pub checkpoint_completion_target: f64,
    /// Images at the first change of a page after a redo point.
    pub full_page_writes: bool,
    /// Compression of images.
    pub wal_compression: Method,
    /// In pages; without it data pages are not modelled.
    pub shared_buffers: Option<u32>,
    /// A commit waits until it is durable.
    pub synchronous_commit: bool,
    /// In microseconds. Taken as if there were always `commit_siblings` others.
    pub commit_delay_us: i64,
    /// In microseconds.
    pub wal_writer_delay_us: i64,
    /// In microseconds.
    pub bgwriter_delay_us: i64,
    /// Pages that the background writer writes at a time at most; 0 switches it off.
    pub bgwriter_lru_maxpages: u32,
    /// Its guess of what will be needed, over the mean of late.
    pub bgwriter_lru_multiplier: f64,
    /// Time that the background writer needs for a page, in microseconds: it asks its disk for what
    /// it has written, and waits there if the disk is busy.
    pub background_page_us: i64,
    /// Share that the background writer writes of the dirty pages that it comes to, above 0 and at
    /// most 1: the log does not tell which of them somebody holds or has just used.
    pub background_share: f64,
    /// Time that a flush of the log takes, in microseconds: commits meanwhile wait for the next.
    pub flush_us: i64,
    /// Time that a checkpoint waits at its end for what it has written, in microseconds. The next
    /// one begins after it, and the log goes on meanwhile.
    pub sync_us: i64,
    /// Commits a second over those of the recording, above 0.
    pub pace: f64,
}

impl Default for Settings {
    /// Those of a server that nobody has set up.
    fn default() -> Self {
        Self {
            checkpoint_timeout_us: 300_000_000,
            max_wal_size: 1 << 30,
            min_wal_size: 80 << 20,
            wal_keep_size: 0,
            checkpoint_completion_target: 0.9,
            full_page_writes: true,
            wal_compression: Method::Off,
            shared_buffers: Some((128 << 20) / 8192),
            synchronous_commit: true,
            commit_delay_us: 0,
            wal_writer_delay_us: 200_000,
            bgwriter_delay_us: 200_000,
            bgwriter_lru_maxpages: 100,
            bgwriter_lru_multiplier: 2.0,
            background_page_us: 0,
            background_share: 1.0,
            flush_us: 0,
            sync_us: 0,
            pace: 1.0,
        }
    }
}

impl Settings {
    /// The same under a load that comes `pace` times as fast, above 0. As many commits as before
    /// share a flush: clients that wait for it are faster as flushes are.
    #[must_use]
    pub fn at_pace(self, pace: f64) -> Self {
        Self { pace, flush_us: (self.flush_us as f64 / pace) as i64, ..self }
    }

    /// The same on a disk that holds up checkpoints and the background writer `times` as long,
    /// above 0, and the writer for `least_us` a page at least.
    #[must_use]
    pub fn on_disk(self, times: f64, least_us: i64) -> Self {
        let longer = |time_us: i64| (time_us as f64 * times) as i64;
        Self {
            background_page_us: longer(self.background_page_us).max(least_us),
            sync_us: longer(self.sync_us),
            ..self
        }
    }

    /// Segments after which a checkpoint begins (`CalculateCheckpointSegments`).
    #[must_use]
    pub fn checkpoint_segments(&self, segment_bytes: u64) -> u64 {
        let segments = (self.max_wal_size / segment_bytes) as f64;
        ((segments / (1.0 + self.checkpoint_completion_target)) as u64).max(1)
    }
}
