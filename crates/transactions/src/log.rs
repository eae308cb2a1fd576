//! The log of a database: its appended and its durable part. It does no I/O.

/// Settings of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Bytes of its region, which it goes round in: at least four blocks.
    pub region_bytes: u64,
    /// Bytes of the record of one changed page.
    pub record_bytes: u32,
    /// Commits that wait together share a write; otherwise each is written by itself.
    pub is_grouped: bool,
    /// A flush follows each write: without it a commit is as durable as the device's cache is.
    pub is_flushed: bool,
}

/// Bytes of a commit's record.
const COMMIT_BYTES: u64 = 34;

/// Places in the log count bytes from its start on, for ever; in the region they go round.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    settings: LogSettings,
    block_bytes: u64,
    appended: u64,
    durable: u64,
    /// The write under way, if there is one, makes it durable up to here.
    writing_to: Option<u64>,
    /// Nothing before it is needed any more: the changes are in their pages.
    redo: u64,
}

/// A part of the log that is written, in bytes of its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogWrite {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Log {
    /// An empty log that is written in blocks of `block_bytes` bytes.
    #[must_use]
    pub fn new(settings: LogSettings, block_bytes: u32) -> Self {
        let block_bytes = u64::from(block_bytes);
        let region_bytes = settings.region_bytes / block_bytes * block_bytes;
        let settings = LogSettings { region_bytes, ..settings };
        Self { settings, block_bytes, appended: 0, durable: 0, writing_to: None, redo: 0 }
    }

    /// Gives its settings.
    #[must_use]
    pub fn settings(&self) -> LogSettings {
        self.settings
    }

    /// The record of a changed page; from where to where it reaches.
    pub fn change(&mut self) -> (u64, u64) {
        self.append(u64::from(self.settings.record_bytes))
    }

    /// The record of a commit; where it ends.
    pub fn commit(&mut self) -> u64 {
        self.append(COMMIT_BYTES).1
    }

    fn append(&mut self, bytes: u64) -> (u64, u64) {
        let from = self.appended;
        self.appended += bytes;
        (from, self.appended)
    }

    /// Returns true if the log has room for the record of a changed page, and behind it for the
    /// commits of `clients` clients. Whoever changes a page waits until it has: so all that was
    /// appended can be written.
    #[must_use]
    pub fn has_room(&self, clients: u32) -> bool {
        let reserve = u64::from(clients) * COMMIT_BYTES + 2 * self.block_bytes;
        let end = self.appended + u64::from(self.settings.record_bytes) + reserve;
        end <= self.redo + self.settings.region_bytes
    }

    /// The smallest region, in bytes, that `clients` clients can work with.
    #[must_use]
    pub fn least_bytes(clients: u32, record_bytes: u32, block_bytes: u32) -> u64 {
        let each = COMMIT_BYTES + u64::from(record_bytes);
        8 * u64::from(block_bytes) + 4 * u64::from(clients) * each
    }

    /// Its end.
    #[must_use]
    pub fn appended(&self) -> u64 {
        self.appended
    }

    /// Gives the place up to which it is durable.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// From where on it is needed after a power cut.
    #[must_use]
    pub fn redo(&self) -> u64 {
        self.redo
    }

    /// The pages that were changed before `to` are on the device.
    pub fn is_redone_to(&mut self, to: u64) {
        self.redo = self.redo.max(to);
    }

    /// Returns true if half of the region was filled since the redo point: time for a checkpoint.
    #[must_use]
    pub fn wants_checkpoint(&self) -> bool {
        (self.appended - self.redo) * 2 >= self.settings.region_bytes
    }

    /// Begins to write up to `to`, or to its end if commits are grouped. `None` if a write is under
    /// way, or there is no room before a checkpoint ends; all of it at most, up to the region's
    /// end, and what is left comes with the next.
    pub fn begin_write(&mut self, to: u64) -> Option<LogWrite> {
        let to = if self.settings.is_grouped { self.appended } else { to.min(self.appended) };
        if self.writing_to.is_some() || to <= self.durable {
            return None;
        }
        let region = self.settings.region_bytes;
        let room = self.redo / self.block_bytes * self.block_bytes + region;
        let first = self.durable / self.block_bytes * self.block_bytes;
        let end_of_round = (first / region + 1) * region;
        let last = to.min(room).min(end_of_round);
        if last <= self.durable {
            return None;
        }
        self.writing_to = Some(last);
        let length = (last - first).next_multiple_of(self.block_bytes);
        Some(LogWrite { offset: first % region, length })
    }

    /// The write ended.
    pub fn end_write(&mut self) {
        if let Some(to) = self.writing_to.take() {
            self.durable = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(region_bytes: u64, is_grouped: bool) -> Log {
        let settings =
            LogSettings { region_bytes, record_bytes: 100, is_grouped, is_flushed: true };
        Log::new(settings, 512)
    }

    #[test]
    fn commits_that_wait_are_written_together() {
        let mut log = log(4096, true);
        let first = log.commit();
        assert_eq!(log.begin_write(first), Some(LogWrite { offset: 0, length: 512 }));
        let (second, third) = (log.commit(), log.commit());
        assert_eq!(log.begin_write(second), None, "one write at a time");
        log.end_write();
        assert_eq!(log.durable(), first);
        // The block that was not full is written again.
        assert_eq!(log.begin_write(second), Some(LogWrite { offset: 0, length: 512 }));
        log.end_write();
        assert_eq!(log.durable(), third);
    }

    #[test]
    fn without_groups_each_commit_is_written_by_itself() {
        let mut log = log(4096, false);
        let (first, second) = (log.commit(), log.commit());
        log.begin_write(first);
        log.end_write();
        assert_eq!(log.durable(), first);
        log.begin_write(second);
        log.end_write();
        assert_eq!(log.durable(), second);
    }

    #[test]
    fn nothing_that_is_needed_is_overwritten() {
        let mut log = log(2048, true);
        let mut to = 0;
        for _ in 0..30 {
            to = log.change().1;
        }
        assert!(log.wants_checkpoint());
        assert_eq!(log.begin_write(to), Some(LogWrite { offset: 0, length: 2048 }));
        log.end_write();
        assert_eq!(log.begin_write(to), None, "the region is full");
        log.is_redone_to(1500);
        assert_eq!(log.begin_write(to), Some(LogWrite { offset: 0, length: 1024 }));
        log.end_write();
        assert_eq!(log.durable(), 3000);
    }
}
