//! Goes through the log once more, as another setting would have written it.

use std::path::Path;

use units::Progress;

use super::super::images::Images;
use super::super::log::{Lsn, Reader, Record};
use super::clock::Clock;
use super::failure::ReplayError;
use super::figures::{Check, Figures};
use super::hot_updates::HotUpdates;
use super::layout::{FileRow, Layout, Writes, flush};
use super::log_file::{Amounts, LogFile, To};
use super::page_cache::{LOOK_US, PageCache};
use super::passes::Passes;
use super::pool::Pool;
use super::reads::Reads;
use super::relations::Relations;
use super::rule::Rule;
use super::settings::Settings;
use super::survey::Survey;

/// The checkpointer looks again after this time (`CheckpointWriteDelay`).
const CHECKPOINTER_US: i64 = 100_000;
/// Records between two reports of progress.
const REPORT_RECORDS: u64 = 4096;
/// From this version on a checkpoint has a record at its redo point, of so many bytes.
const REDO_VERSION: u32 = 17;
const REDO_BYTES: f64 = 30.0;
const CHECKPOINT_BYTES: u32 = 114;
const NEVER: i64 = i64::MAX;

/// The part of a log that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// A redo point, from which on the log is replayed.
    pub from: Lsn,
    /// Time of that, in microseconds since 2000.
    pub from_us: i64,
    /// First record that counts.
    pub begin: Lsn,
    /// Time of that.
    pub begin_us: i64,
    /// Records from here on do not count.
    pub end: Lsn,
    /// Time of that.
    pub end_us: i64,
    /// Files of the log that wait to be used at the beginning.
    pub segments_ahead: u32,
}

/// Redo points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redos {
    /// Those of the recording.
    Own,
    /// Those that the settings make.
    Scheduled,
}

/// A log that is replayed, with what was the same for all settings.
#[derive(Clone, Copy)]
pub struct Replayed<'a> {
    /// What it holds.
    pub survey: &'a Survey,
    /// The part that counts.
    pub window: Window,
    /// Settings of the recording.
    pub recorded: &'a Settings,
    /// True if changes of hints alone are logged.
    pub has_hints: bool,
    /// Relations that were used before: first page and number of pages.
    pub warm: &'a [(u32, u32)],
}

/// Data pages, and the checkpoint that writes them.
struct Data {
    pool: Pool,
    kernel: PageCache,
    /// Pages of the checkpoint.
    todo: Vec<u32>,
    done: usize,
    out: Vec<u32>,
    /// By file: written since its last flush.
    is_written: Vec<bool>,
}

/// A checkpoint that goes on.
#[derive(Clone, Copy)]
struct Checkpoint {
    redo: Lsn,
    began_us: i64,
    /// Time at which all that it has written is durable; `NEVER` while it writes.
    ends_us: i64,
}

/// What is kept while a log is gone through.
struct Through {
    images: Images,
    relations: Relations,
    pages: Vec<(u32, usize)>,
    passes: Passes,
    hot_updates: HotUpdates,
    /// The redo point of the recording that comes next.
    next_redo: usize,
    /// True if the recording's last checkpoint may not have ended.
    may_be_open: bool,
}

/// A log that is gone through.
pub struct Replay<'a> {
    survey: &'a Survey,
    settings: &'a Settings,
    window: Window,
    clock: Clock,
    redos: Redos,
    layout: Layout,
    writes: &'a mut dyn Writes,
    reads: Reads,
    rule: Rule,
    data: Option<Data>,
    log: LogFile,
    amounts: Amounts,
    /// Place in the log that is written, without headers of pages.
    at: u64,
    now_us: i64,
    next_background_us: i64,
    next_log_us: i64,
    next_checkpointer_us: i64,
    next_kernel_us: i64,
    last_redo: Lsn,
    last_redo_us: i64,
    checkpoint: Option<Checkpoint>,
    /// True if the next checkpoint waits for the end of that one.
    is_redo_due: bool,
    is_counted: bool,
    figures: Figures,
}

impl<'a> Replay<'a> {
    /// Prepares to go through a log as `settings` would write it.
    #[must_use]
    pub fn new(
        replayed: &Replayed<'a>,
        settings: &'a Settings,
        redos: Redos,
        mut reads: Reads,
        layout: Layout,
        writes: &'a mut dyn Writes,
    ) -> Self {
        let Replayed { survey, window, recorded, has_hints, warm } = *replayed;
        let files = layout.data_files();
        let data = settings.shared_buffers.map(|buffers| {
            let mut pool = Pool::new(buffers, survey.relations.pages(), settings);
            reads.warm(&mut pool, warm);
            let kernel = PageCache::new(survey.relations.pages(), files);
            let is_written = vec![false; files];
            Data { pool, kernel, todo: Vec::new(), done: 0, out: Vec::new(), is_written }
        });
        let at = survey.positions.position(window.from);
        Self {
            survey,
            settings,
            window,
            clock: Clock::new(window, settings.pace),
            redos,
            layout,
            writes,
            reads,
            rule: Rule::new(settings, recorded, survey, has_hints),
            data,
            log: LogFile::new(survey.positions, window.from, window.segments_ahead),
            amounts: Amounts::default(),
            at,
            now_us: window.from_us,
            next_background_us: window.from_us + settings.bgwriter_delay_us,
            next_log_us: window.from_us + settings.wal_writer_delay_us,
            next_checkpointer_us: NEVER,
            next_kernel_us: window.from_us + LOOK_US,
            last_redo: window.from,
            last_redo_us: window.from_us,
            checkpoint: None,
            is_redo_due: false,
            is_counted: false,
            figures: Figures::default(),
        }
    }

    /// Goes through the log.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn run(
        mut self,
        folder: &Path,
        progress: &Progress,
    ) -> Result<(Figures, Check, Vec<FileRow>), ReplayError> {
        let pages = if self.settings.pace > 1.0 { self.survey.relations.pages() } else { 0 };
        let mut through = Through {
            images: Images::new().map_err(|error| ReplayError::Other(error.to_string()))?,
            // Each replay has its own numbers: those of the survey are looked up here.
            relations: self.survey.relations.clone(),
            pages: Vec::with_capacity(64),
            passes: Passes::new(pages),
            hot_updates: HotUpdates::new(pages, self.survey.relations.forks().len()),
            next_redo: self.survey.redos.partition_point(|redo| *redo <= self.window.from),
            may_be_open: self.redos == Redos::Own && self.survey.version < REDO_VERSION,
        };
        let mut first = self.window.from;
        while self.pass(first, folder, &mut through, progress)? && self.clock.again() {
            first = self.window.begin;
            through.passes.again();
            through.hot_updates.again();
        }
        self.advance(self.window.end_us);
        Ok(self.finish())
    }

    /// Goes through the log once, from a record on; false if the time was over before its end.
    fn pass(
        &mut self,
        first: Lsn,
        folder: &Path,
        through: &mut Through,
        progress: &Progress,
    ) -> Result<bool, ReplayError> {
        let window = self.window;
        let mut reader = Reader::open(folder, Some(first), Some(window.end))?.read_before();
        let (mut records, mut reported) = (0_u64, first);
        while let Some(record) = reader.next()? {
            records += 1;
            if records.is_multiple_of(REPORT_RECORDS) {
                progress.advance(record.lsn.0.saturating_sub(reported.0))?;
                reported = record.lsn;
            }
            if record.lsn < first {
                continue;
            }
            if record.lsn >= window.begin && !self.is_counted {
                self.begin();
            }
            if let Some(recorded_us) = record.time_us() {
                let time_us = self.clock.at(recorded_us);
                if self.clock.is_behind_end(time_us) {
                    return Ok(false);
                }
                self.advance(time_us);
            }
            self.take(&record, through);
        }
        Ok(true)
    }

    /// Takes a record of the log.
    fn take(&mut self, record: &Record<'_>, through: &mut Through) {
        let redos = &self.survey.redos;
        while self.redos == Redos::Own
            && redos.get(through.next_redo).is_some_and(|redo| *redo <= record.lsn)
        {
            through.next_redo += 1;
            self.redo();
        }
        through.pages.clear();
        for block in record.blocks {
            let (page, fork) = through.relations.page(block);
            let of = &through.relations.forks()[fork];
            let page = through.passes.page(page, of, record.transaction(), block.will_init());
            through.pages.push((page, fork));
        }
        let is_again = through.passes.is_again();
        if !through.hot_updates.take(record, &mut through.pages, is_again) {
            return;
        }
        self.record(record, &through.pages, &mut through.images);
        let is_last = through.next_redo >= redos.len();
        if through.may_be_open && is_last && self.rule.is_unexplained {
            // The last checkpoint has not ended, so that no record tells its redo point.
            through.may_be_open = false;
            self.rule.check.right += 1;
            self.redo();
            self.rule.began_before(&through.pages);
        }
    }

    /// From now on it counts.
    fn begin(&mut self) {
        self.advance(self.window.begin_us);
        self.is_counted = true;
        self.rule.check = Check::default();
        self.figures = Figures::default();
        self.amounts = Amounts::default();
        if let Some(data) = &mut self.data {
            data.pool.misses = 0;
        }
    }

    fn finish(mut self) -> (Figures, Check, Vec<FileRow>) {
        self.figures.log_file_bytes = self.amounts.bytes;
        self.figures.log_made_bytes = self.amounts.made_bytes;
        self.figures.log_flushes = self.amounts.flushes;
        self.figures.seconds = (self.window.end_us - self.window.begin_us) as f64 / 1e6;
        self.figures.page_reads = self.data.as_ref().map(|data| data.pool.misses);
        if self.data.is_some() && self.figures.data_pages.is_none() {
            self.figures.data_pages = Some([0; 3]);
        }
        let files = self.layout.files(self.log.places());
        (self.figures, self.rule.check, files)
    }

    fn end(&self) -> Lsn {
        self.survey.positions.end_lsn(self.at)
    }

    fn record(&mut self, record: &Record<'_>, pages: &[(u32, usize)], images: &mut Images) {
        if self.is_counted {
            self.rule.check.wal_bytes += record.bytes.len() as u64;
        }
        let is_replaced = record.is_of_checkpoint() && self.redos == Redos::Scheduled;
        let written = self.rule.write(record, pages, self.survey, images);
        if let Some(written) = written.filter(|_| !is_replaced) {
            if self.is_counted {
                self.figures.wal_bytes += written.bytes;
                self.figures.images += u64::from(written.images);
                self.figures.image_bytes += written.image_bytes;
                self.figures.guessed_images += u64::from(written.guessed);
            }
            self.append(written.bytes);
        }
        for (at, (block, (page, _))) in record.blocks.iter().zip(pages).enumerate() {
            let Some(data) = &mut self.data else { break };
            // An update that stays names its page twice.
            if at > 0 && pages[at - 1].0 == *page {
                continue;
            }
            if let Some(left) = data.pool.touch(*page, true, block.will_init()) {
                self.page(left, 2);
            }
        }
        if record.is_commit() {
            self.figures.commits += u64::from(self.is_counted);
            self.commit();
        }
    }

    fn commit(&mut self) {
        let end = self.end();
        self.log.commit(self.now_us, end, self.settings);
        if self.log.waiting.is_some_and(|time| time <= self.now_us) {
            self.flush_commits();
        }
        if let Some(mut data) = self.data.take() {
            let mut reads = std::mem::replace(&mut self.reads, Reads::none());
            let mut out = std::mem::take(&mut data.out);
            out.clear();
            reads.of_commit(&mut data.pool, |page| out.push(page));
            self.data = Some(data);
            for page in &out {
                self.page(*page, 2);
            }
            self.reads = reads;
            if let Some(data) = &mut self.data {
                data.out = out;
            }
        }
    }

    /// Puts a record of so many bytes into the log; a checkpoint begins where the log is too long.
    fn append(&mut self, bytes: f64) {
        let before = self.at;
        self.at += (bytes.round() as u64 + 7) & !7;
        let in_segment = self.survey.positions.in_segment();
        if before / in_segment == self.at / in_segment || self.redos == Redos::Own {
            return;
        }
        let segment = |lsn: Lsn| lsn.0 / self.survey.positions.segment_bytes;
        let passed = segment(self.end()) - segment(self.last_redo);
        let most = self.settings.checkpoint_segments(self.survey.positions.segment_bytes);
        if passed >= most {
            self.redo();
        }
    }

    /// Everything that happens until a time.
    fn advance(&mut self, to_us: i64) {
        loop {
            let due_us = match self.redos {
                Redos::Scheduled if !self.is_redo_due => {
                    self.last_redo_us + self.settings.checkpoint_timeout_us
                }
                Redos::Own | Redos::Scheduled => NEVER,
            };
            let ends_us = self.checkpoint.map_or(NEVER, |checkpoint| checkpoint.ends_us);
            let background_us = if self.data.is_some() { self.next_background_us } else { NEVER };
            let flush_us = self.log.waiting.unwrap_or(NEVER);
            let next = due_us
                .min(ends_us)
                .min(background_us)
                .min(flush_us)
                .min(self.next_log_us)
                .min(self.next_checkpointer_us)
                .min(self.next_kernel_us);
            if next > to_us {
                break;
            }
            self.now_us = self.now_us.max(next);
            if next == flush_us {
                self.flush_commits();
            } else if next == ends_us {
                self.end_checkpoint();
            } else if next == due_us {
                self.redo();
            } else if next == self.next_checkpointer_us {
                self.next_checkpointer_us = next + CHECKPOINTER_US;
                self.write_checkpoint(false);
            } else if next == self.next_kernel_us {
                self.next_kernel_us = next + LOOK_US;
                if let Some(data) = &mut self.data {
                    data.kernel.look(next);
                }
                self.put();
            } else if next == background_us {
                let took_us = self.clean() * self.settings.background_page_us;
                self.next_background_us = next + self.settings.bgwriter_delay_us + took_us;
            } else {
                self.next_log_us = next + self.settings.wal_writer_delay_us;
                let end = self.end();
                self.log_to(|log, settings, to| log.background(end, settings, to));
            }
        }
        self.now_us = self.now_us.max(to_us);
    }

    fn time_ns(&self) -> u64 {
        ((self.now_us - self.window.begin_us).max(0) as u64) * 1000
    }

    fn log_to(&mut self, what: impl FnOnce(&mut LogFile, &Settings, &mut To<'_>)) {
        let time_ns = self.is_counted.then(|| self.time_ns());
        let mut to = To {
            layout: &self.layout,
            writes: &mut *self.writes,
            time_ns,
            amounts: &mut self.amounts,
        };
        what(&mut self.log, self.settings, &mut to);
    }

    fn flush_commits(&mut self) {
        let now_us = self.now_us;
        self.log_to(|log, settings, to| log.flush_commits(now_us, settings, to));
    }

    /// The server writes a data page, by one of three.
    fn page(&mut self, page: u32, by: usize) {
        let file = self.layout.file_of(page);
        if self.is_counted {
            self.figures.data_pages.get_or_insert_default()[by] += 1;
        }
        if let Some(data) = &mut self.data {
            data.is_written[file as usize] = true;
            data.kernel.write(page, file, by, self.now_us);
        }
        self.put();
    }

    /// Puts on the disk what the kernel writes.
    fn put(&mut self) {
        let (time_ns, is_counted) = (self.time_ns(), self.is_counted);
        let Some(data) = &mut self.data else { return };
        data.kernel.requests(&self.layout, time_ns, |request| {
            if is_counted {
                self.writes.take(false, request);
            }
        });
    }

    /// A round of the background writer; gives the pages that it writes.
    fn clean(&mut self) -> i64 {
        let Some(data) = &mut self.data else { return 0 };
        let mut out = std::mem::take(&mut data.out);
        out.clear();
        data.pool.clean(&mut out);
        for page in &out {
            self.page(*page, 1);
        }
        let pages = out.len() as i64;
        if let Some(data) = &mut self.data {
            data.out = out;
        }
        pages
    }

    /// A checkpoint begins, or is due once the one before it has ended. That one writes on at once,
    /// as the log is ahead of it; of the recording's own it is over.
    fn redo(&mut self) {
        self.write_checkpoint(true);
        if self.checkpoint.is_some() {
            if self.redos == Redos::Scheduled {
                self.is_redo_due = true;
                return;
            }
            self.end_checkpoint();
        }
        let redo = self.end();
        self.last_redo_us = self.now_us;
        if redo == self.last_redo && self.redos == Redos::Scheduled {
            // Nothing has happened since the last one.
            return;
        }
        self.last_redo = redo;
        self.figures.checkpoints += u64::from(self.is_counted);
        if self.redos == Redos::Scheduled && self.survey.version >= REDO_VERSION {
            self.add_record(REDO_BYTES);
        }
        self.rule.redo();
        self.checkpoint = Some(Checkpoint { redo, began_us: self.now_us, ends_us: NEVER });
        self.next_checkpointer_us = self.now_us;
        if let Some(data) = &mut self.data {
            data.done = 0;
            data.pool.begin_checkpoint(&mut data.todo);
        }
    }

    fn add_record(&mut self, bytes: f64) {
        if self.is_counted {
            self.figures.wal_bytes += bytes;
        }
        self.at += (bytes as u64 + 7) & !7;
    }

    /// Writes pages until the checkpoint is on schedule (`IsCheckpointOnSchedule`), or all.
    fn write_checkpoint(&mut self, is_urgent: bool) {
        let Some(checkpoint) = self.checkpoint.filter(|one| one.ends_us == NEVER) else { return };
        let segment_bytes = self.survey.positions.segment_bytes;
        let segments = self.settings.checkpoint_segments(segment_bytes) * segment_bytes;
        let by_log = (self.end().0 - checkpoint.redo.0) as f64 / segments as f64;
        let passed_us = (self.now_us - checkpoint.began_us) as f64;
        let by_time = passed_us / self.settings.checkpoint_timeout_us as f64;
        let share = by_log.max(by_time) / self.settings.checkpoint_completion_target;
        let all = self.data.as_ref().map_or(0, |data| data.todo.len());
        let upto =
            if is_urgent { all } else { (share * all as f64).ceil().min(all as f64) as usize };
        while let Some(data) = &mut self.data
            && data.done < upto
        {
            let page = data.todo[data.done];
            data.done += 1;
            if data.pool.checkpoint(page) {
                self.page(page, 0);
            }
        }
        if self.data.as_ref().is_none_or(|data| data.done == all) {
            self.sync_checkpoint(checkpoint);
        }
    }

    /// All is written, and goes to the disk.
    fn sync_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.next_checkpointer_us = NEVER;
        let time_ns = self.time_ns();
        for file in 0..self.layout.data_files() {
            let Some(data) = &mut self.data else { break };
            if std::mem::take(&mut data.is_written[file]) {
                data.kernel.sync(file);
                self.put();
                if self.is_counted {
                    self.writes.take(false, flush(time_ns, file as u32));
                }
            }
        }
        let ends_us = self.now_us + self.settings.sync_us;
        self.checkpoint = Some(Checkpoint { ends_us, ..checkpoint });
        if self.settings.sync_us == 0 {
            self.end_checkpoint();
        }
    }

    fn end_checkpoint(&mut self) {
        let Some(Checkpoint { redo, .. }) = self.checkpoint.take() else { return };
        if self.redos == Redos::Scheduled {
            let bytes = self.survey.checkpoint_bytes;
            self.add_record(f64::from(if bytes > 0 { bytes } else { CHECKPOINT_BYTES }));
        }
        let end = self.end();
        self.log_to(|log, settings, to| log.checkpoint(redo, end, settings, to));
        if std::mem::take(&mut self.is_redo_due) {
            self.redo();
        }
    }
}
