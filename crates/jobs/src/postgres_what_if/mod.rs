//! `postgres_what_if`: what other settings of a recorded PostgreSQL would have written.

mod facts;
mod fitting;
mod outcome;
mod settings;
mod traces;

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustc_hash::FxHashMap;
use units::Progress;
use wal::postgres::images::Method;
use wal::postgres::log::{Lsn, Relation};
use wal::postgres::model::{
    Check, Figures, Known, Layout, Reads, Redos, Replay, ReplayError, Replayed, Settings, Survey,
    Window, calibrate,
};

use crate::JobError;
use crate::job::{Found, Job};
use crate::values::{Factor, Micros, Share};
use facts::{RelationFacts, Server};
use outcome::{Amounts, CandidateFigures, Recorded, SelfCheck};
use traces::Tracing;

pub use outcome::WhatIf;
pub use settings::{Candidate, Compression, Fitted, PostgresWhatIf};

/// Name of the traces of the settings as they were recorded.
const RECORDED: &str = "recorded";

impl Job for PostgresWhatIf {
    type Outcome = WhatIf;

    fn run(&self, progress: &Progress) -> Result<Found<WhatIf>, JobError> {
        self.check()?;
        let prepared = Prepared::new(self, progress)?;
        let outcome = prepared.outcome(self, progress)?;
        Ok(Found { outcome, tables: Vec::new(), texts: Vec::new() })
    }
}

impl PostgresWhatIf {
    fn check(&self) -> Result<(), JobError> {
        if self.log.is_empty() {
            let right = "right would be a folder of segments, such as wal of a recording";
            return Err(JobError::at("log", format!("no log is given; {right}")));
        }
        if self.flushes.is_some() && self.flush_time.is_some() {
            let what = "a flush takes flush_time, or as long as so many flushes say: not both";
            return Err(JobError::at("flushes", what));
        }
        if self.fitted.is_some() && (self.flushes.is_some() || self.flush_time.is_some()) {
            let what = "it has the time of a flush: give neither flushes nor flush_time";
            return Err(JobError::at("fitted", what));
        }
        let recorded = self.as_recorded.as_ref();
        if recorded
            .is_some_and(|one| one.pace.or(one.disk_time).is_some() || one.busy_page.is_some())
        {
            let what = "pace, disk_time and busy_page are beside the recording's, so it has none; \
                        give them to a candidate";
            return Err(JobError::at("as_recorded", what));
        }
        for (number, one) in self.candidates.iter().enumerate() {
            let at = format!("candidates[{number}].name");
            let name = &one.name;
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.=+".contains(c);
            if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
                let right = "right would be letters, digits and any of -_.=+";
                return Err(JobError::at(&at, format!("`{name}` is no name; {right}")));
            }
            let is_again = self.candidates[..number].iter().any(|other| other.name == *name);
            if is_again || name == RECORDED {
                let what = format!("`{name}` is taken: each candidate has a name of its own");
                return Err(JobError::at(&at, what));
            }
            let size = one.max_wal_size.filter(|size| size.0 < 2 << 20);
            if size.is_some() {
                let what = "max_wal_size is below two segments; write 64Mi or more";
                return Err(JobError::at(&format!("candidates[{number}].max_wal_size"), what));
            }
            if one.pace.is_some_and(|pace| !PACES.contains(&pace.0)) {
                let what =
                    "right would be a pace from 0.01 to 100: the log is gone through as often";
                return Err(JobError::at(&format!("candidates[{number}].pace"), what));
            }
        }
        Ok(())
    }
}

/// Bytes that a replay holds for a page of the relations and for a buffer, and what all that go on
/// at a time may hold.
const BYTES_OF_PAGE: u64 = 18;
const BYTES_OF_BUFFER: u64 = 10;
const MOST_BYTES: u64 = 400 << 20;

/// Passes through the log for one candidate.
const PACES: std::ops::RangeInclusive<f64> = 0.01..=100.0;

fn failed(error: ReplayError) -> JobError {
    match error {
        ReplayError::Cancelled(cancelled) => cancelled.into(),
        other => JobError::at("log", other),
    }
}

/// A way to go through the log.
struct Run<'a> {
    /// Name of its traces.
    name: &'a str,
    settings: Settings,
    redos: Redos,
    /// Of reads beside changes; none for no reads.
    factor: Option<f64>,
    /// Commits of the recorded time.
    commits: u64,
    /// Folder of its traces, and whether the log has a disk of its own.
    traces: Option<(&'a str, bool)>,
}

impl Run<'_> {
    /// The recording itself, without traces.
    const fn as_recorded(settings: Settings, factor: Option<f64>, commits: u64) -> Self {
        Self { name: RECORDED, settings, redos: Redos::Own, factor, commits, traces: None }
    }
}

/// The next run that nobody has taken, with its number.
fn taken<'a, 'b>(next: &AtomicUsize, runs: &'a [Run<'b>]) -> Option<(usize, &'a Run<'b>)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    runs.get(at).map(|run| (at, run))
}

/// A log that was looked through, and what is known of its server.
struct Prepared {
    survey: Survey,
    window: Window,
    recorded: Settings,
    server: Option<Server>,
    known: Vec<Known>,
    has_hints: bool,
    warm: Vec<(u32, u32)>,
    remarks: Vec<String>,
}

impl Prepared {
    fn new(asked: &PostgresWhatIf, progress: &Progress) -> Result<Self, JobError> {
        let flush_s = asked.flush_time.map(|time| time.0);
        let found = if asked.as_recorded.is_some() && asked.facts.is_none() {
            None
        } else {
            Some(Server::read(&asked.log, asked.facts.as_deref())?)
        };
        let (mut from, mut until) = (None, None);
        if let Some((path, server)) = &found {
            if let Some(gap) = &server.gap {
                return Err(JobError::at("log", format!("the log is not whole: {gap}")));
            }
            from = Some(server.redo(path)?.0);
            until = Some(server.end.lsn(path, "end.lsn")?);
        }
        let known = found.as_ref().map_or_else(Vec::new, |(_, server)| server.known());
        let pages: Vec<_> = known.iter().map(|one| (one.relation, one.pages)).collect();
        let methods = asked.candidates.iter().filter_map(|one| one.wal_compression);
        let methods: Vec<_> = methods.map(Method::from).collect();
        let server = found.as_ref().map(|(_, server)| server);
        set_total(asked, server, progress);
        let folder = Path::new(&asked.log);
        let survey = Survey::of(folder, (from, until), &methods, &pages, progress);
        let mut survey = survey.map_err(failed)?;
        let mut recorded = match &found {
            Some((_, server)) => server.settings(flush_s),
            None => Settings {
                wal_compression: survey.method,
                flush_us: (flush_s.unwrap_or_default() * 1e6) as i64,
                shared_buffers: None,
                ..Settings::default()
            },
        };
        if let Some(given) = &asked.as_recorded {
            recorded = given.over(&recorded);
        }
        if let Some(fitted) = &asked.fitted {
            recorded.flush_us = fitted.flush_us.0.round() as i64;
        }
        let window = match &found {
            Some((path, server)) => window_of(path, server, &survey)?,
            None => window_of_all(asked, &survey)?,
        };
        let server = found.map(|(_, server)| server);
        let has_hints = server.as_ref().map_or(survey.has_hints, |server| {
            server.has_checksums || server.settings.wal_log_hints
        });
        let warm = warm_of(&mut survey, &known, server.as_ref());
        let mut prepared =
            Self { survey, window, recorded, server, known, has_hints, warm, remarks: Vec::new() };
        prepared.check_candidates(asked)?;
        Ok(prepared)
    }

    fn check_candidates(&mut self, asked: &PostgresWhatIf) -> Result<(), JobError> {
        for (number, one) in asked.candidates.iter().enumerate() {
            let settings = one.over(&self.recorded);
            if settings.full_page_writes && !self.recorded.full_page_writes {
                let what = "the recording has full_page_writes=off, so that no image tells how \
                            long images are; record with full_page_writes=on";
                let at = format!("candidates[{number}].full_page_writes");
                return Err(JobError::at(&at, what));
            }
        }
        Ok(())
    }

    fn replayed(&self) -> Replayed<'_> {
        Replayed {
            survey: &self.survey,
            window: self.window,
            recorded: &self.recorded,
            has_hints: self.has_hints,
            warm: &self.warm,
        }
    }

    /// True if some of the settings have fewer buffers than pages.
    fn has_reads(&self, asked: &PostgresWhatIf) -> bool {
        let pages = self.survey.relations.pages();
        let of_candidates = asked.candidates.iter().map(|one| one.over(&self.recorded));
        let mut buffers = of_candidates.map(|one| one.shared_buffers);
        let is_small = |buffers: Option<u32>| buffers.is_some_and(|buffers| buffers < pages);
        is_small(self.recorded.shared_buffers) || buffers.any(is_small)
    }

    /// Reads beside changes, over those that the server counted; `None` if nothing tells them.
    fn reads(
        &self,
        asked: &PostgresWhatIf,
        commits: u64,
        progress: &Progress,
    ) -> Result<Option<f64>, JobError> {
        if !self.has_reads(asked) {
            return Ok(None);
        }
        let known = asked.fitted.as_ref().and_then(|fitted| fitted.reads);
        if let Some(reads) = known {
            return Ok(Some(reads.0));
        }
        let pages = self.survey.relations.pages();
        let is_small = self.recorded.shared_buffers.is_some_and(|buffers| buffers < pages);
        let is_fresh = self.server.as_ref().is_some_and(Server::is_fresh);
        if self.known.is_empty() || !(is_small || is_fresh) {
            return Ok(None);
        }
        let folder = Path::new(&asked.log);
        calibrate(&self.replayed(), &self.known, commits, folder, progress).map_err(failed)
    }

    fn replay(
        &self,
        log: &str,
        run: &Run<'_>,
        progress: &Progress,
    ) -> Result<(Figures, Check, Option<outcome::Traces>), JobError> {
        let mut relations = self.survey.relations.clone();
        let reads = run.factor.map_or_else(Reads::none, |factor| {
            Reads::new(&self.known, &mut relations, run.commits, factor)
        });
        let segment_bytes = self.survey.positions.segment_bytes;
        let is_log_apart = run.traces.is_some_and(|(_, is_log_apart)| is_log_apart);
        let layout = Layout::new(&self.survey.relations, segment_bytes, is_log_apart);
        let tracing = run.traces.map(|(folder, apart)| Tracing::new(folder, run.name, apart));
        let mut tracing = tracing.transpose()?;
        let mut none = ();
        let writes: &mut dyn wal::postgres::model::Writes = match &mut tracing {
            Some(tracing) => tracing,
            None => &mut none,
        };
        let replayed = self.replayed();
        let replay = Replay::new(&replayed, &run.settings, run.redos, reads, layout, writes);
        let (figures, check, files) = replay.run(Path::new(log), progress).map_err(failed)?;
        let server = self.server.as_ref();
        let relations: FxHashMap<Relation, &RelationFacts> = server
            .into_iter()
            .flat_map(|server| &server.relations)
            .map(|one| (one.relation(), one))
            .collect();
        let traces = tracing.map(|tracing| tracing.finish(&files, &relations)).transpose()?;
        Ok((figures, check, traces))
    }

    /// Replays that go on at a time: as many as the machine has processors, and memory for.
    fn at_a_time(&self) -> usize {
        let pages = u64::from(self.survey.relations.pages()) * BYTES_OF_PAGE;
        let buffers = u64::from(self.recorded.shared_buffers.unwrap_or(0)) * BYTES_OF_BUFFER;
        let most = (MOST_BYTES / (pages + buffers).max(1)).max(1);
        thread::available_parallelism().map_or(1, usize::from).min(most as usize)
    }

    /// Replays several at a time. Once one has failed, no other begins.
    fn replay_all(
        &self,
        log: &str,
        runs: &[Run<'_>],
        progress: &Progress,
    ) -> Result<Vec<(Figures, Check, Option<outcome::Traces>)>, JobError> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some((at, run)) = taken(&next, runs) {
                let found = self.replay(log, run, progress);
                if found.is_err() {
                    next.store(runs.len(), Ordering::Relaxed);
                }
                done.push((at, found));
            }
            done
        };
        let threads = self.at_a_time().min(runs.len());
        let mut all: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
            joined.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        all.sort_unstable_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, found)| found).collect()
    }

    /// Finds the commits, and reads beside changes, and makes the settings as recorded whole.
    fn fit(
        &mut self,
        asked: &PostgresWhatIf,
        progress: &Progress,
    ) -> Result<(u64, Option<f64>), JobError> {
        let commits = if let Some(fitted) = &asked.fitted {
            fitted.commits
        } else {
            let run = Run::as_recorded(self.recorded.clone(), None, 0);
            let (figures, check, _) = self.replay(&asked.log, &run, progress)?;
            self.check_rule(asked, &check)?;
            figures.commits
        };
        let (factor, flush_us) = if self.at_a_time() > 1 {
            thread::scope(|scope| {
                let flush_us = scope.spawn(|| self.flush_us(asked, commits, progress));
                let factor = self.reads(asked, commits, progress);
                (factor, flush_us.join().unwrap_or_else(|panic| resume_unwind(panic)))
            })
        } else {
            (self.reads(asked, commits, progress), self.flush_us(asked, commits, progress))
        };
        let factor = factor?;
        self.recorded.flush_us = flush_us?;
        if factor.is_none() && self.has_reads(asked) {
            self.remarks.push(
                "Reads beside changes are not known, as the recording tells none: with fewer \
                 buffers than all pages, more data pages are written than said."
                    .to_owned(),
            );
        }
        self.fit_background(asked, (factor, commits), progress)?;
        Ok((commits, factor))
    }

    fn outcome(mut self, asked: &PostgresWhatIf, progress: &Progress) -> Result<WhatIf, JobError> {
        let (commits, factor) = self.fit(asked, progress)?;
        let traces = asked.traces.as_deref().map(|folder| (folder, asked.log_apart));
        let mut runs = vec![Run::as_recorded(self.recorded.clone(), factor, commits)];
        // The first call has written it.
        runs[0].traces = traces.filter(|_| asked.fitted.is_none());
        runs.extend(asked.candidates.iter().map(|one| Run {
            name: &one.name,
            settings: one.over(&self.recorded),
            redos: Redos::Scheduled,
            factor,
            commits,
            traces,
        }));
        let mut replayed = self.replay_all(&asked.log, &runs, progress)?.into_iter();
        let Some((figures, check, traces)) = replayed.next() else {
            unreachable!("the first is as recorded")
        };
        self.check_rule(asked, &check)?;
        let candidates = runs[1..].iter().zip(replayed).map(|(run, (figures, _, traces))| {
            let lost = lost(&run.settings);
            CandidateFigures {
                name: run.name.to_owned(),
                amounts: Amounts::from(&figures),
                lost,
                traces,
            }
        });
        let candidates = candidates.collect();
        let again = self.survey.recompressed;
        let self_check = SelfCheck {
            images: check.images,
            right: check.right,
            extra: check.extra,
            bytes_error: figures.wal_bytes / check.wal_bytes.max(1) as f64 - 1.0,
            recompressed: again.images,
            recompressed_error: again.own_bytes as f64 / again.bytes.max(1) as f64
                - f64::from(u8::from(again.bytes > 0)),
        };
        let found = self.found(&figures, &check);
        Ok(WhatIf {
            self_check,
            fitted: Fitted {
                flush_us: Micros(self.recorded.flush_us as f64),
                background_page_us: Micros(self.recorded.background_page_us as f64),
                background_share: Share(self.recorded.background_share),
                reads: factor.map(Factor),
                commits,
            },
            recorded: Recorded { found, modelled: Amounts::from(&figures), traces },
            candidates,
            log_end: self.log_end(),
            remarks: self.remarks,
        })
    }

    fn check_rule(&self, asked: &PostgresWhatIf, check: &Check) -> Result<(), JobError> {
        let most = asked.most_wrong.0;
        if check.wrong() <= most {
            return Ok(());
        }
        let Check { images, right, extra, .. } = *check;
        let redos = self.survey.redos.len();
        Err(JobError::at(
            "log",
            format!(
                "of {images} images the rule gives {right}, and {extra} that are not there, with \
                 the {redos} redo points of the log: what other settings would have written cannot \
                 be said if more than {:.3} % are wrong; a base backup, or full_page_writes that \
                 was changed meanwhile, would be a reason",
                most * 100.0
            ),
        ))
    }

    /// What the log holds, and what the server counted.
    fn found(&self, figures: &Figures, check: &Check) -> Amounts {
        let counted = self.server.as_ref().map(|one| one.counted.clone()).unwrap_or_default();
        Amounts {
            wal_bytes: check.wal_bytes,
            images: check.images,
            image_bytes: check.image_bytes,
            log_file_bytes: counted.log_file_bytes,
            log_made_bytes: None,
            log_flushes: counted.log_flushes,
            data_pages: counted.data_pages,
            checkpoint_pages: counted.checkpoint_pages,
            background_pages: counted.background_pages,
            page_reads: counted.page_reads,
            commits: figures.commits,
            seconds: figures.seconds,
            checkpoints: figures.checkpoints,
            guessed_images: 0,
        }
    }

    fn log_end(&self) -> String {
        let end = &self.survey.end;
        let (path, offset, lsn) = (end.path.display(), end.offset, end.lsn);
        let torn = end.torn.as_ref().map_or_else(String::new, |torn| {
            format!("; it is torn there, as that of a server that runs or was killed: {torn}")
        });
        format!("the log ends at LSN {lsn}, {path}, offset {offset}{torn}")
    }
}

fn set_total(asked: &PostgresWhatIf, server: Option<&Server>, progress: &Progress) {
    let files = std::fs::read_dir(&asked.log).into_iter().flatten().flatten();
    let bytes: u64 = files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum();
    let counted = server.and_then(|server| server.counted.background_pages);
    let of_background = u64::from(counted.is_some_and(|pages| pages > 0));
    // Mostly they are found in so many passes.
    let of_fits = 4 * (1 + u64::from(asked.flushes.is_some()) + of_background);
    let fits = if asked.fitted.is_some() { 0 } else { 1 + of_fits };
    let paces = asked.candidates.iter().map(|one| one.pace.map_or(1.0, |pace| pace.0));
    let passes: u64 = paces.map(|pace| pace.ceil() as u64).sum();
    progress.set_total(bytes * (2 + fits + passes));
}

/// The recorded part of a log.
fn window_of(path: &Path, server: &Server, survey: &Survey) -> Result<Window, JobError> {
    let (from, redo_us) = server.redo(path)?;
    let (begin, end) = (server.begin.lsn(path, "begin.lsn")?, server.end.lsn(path, "end.lsn")?);
    if survey.end.lsn < end {
        let at = survey.end.lsn;
        let (file, offset) = (survey.end.path.display(), survey.end.offset);
        let what = format!(
            "{file}: offset {offset}: the log ends at LSN {at}, before {end}, the end of the \
             recording; the segments from there on are missing"
        );
        return Err(JobError::at("log", what));
    }
    let begin_us = server.begin.time_us();
    let first_us = survey.times_us.map_or(begin_us, |(first, _)| first);
    let from_us = redo_us.unwrap_or(first_us).min(begin_us);
    let end_us = server.end.time_us();
    let segments_ahead = server.segments_ahead.unwrap_or(4);
    Ok(Window { from, from_us, begin: begin.max(from), begin_us, end, end_us, segments_ahead })
}

/// The part of a log from its first redo point on.
fn window_of_all(asked: &PostgresWhatIf, survey: &Survey) -> Result<Window, JobError> {
    let from = survey.redos.iter().find(|redo| **redo >= survey.first).copied();
    let from = from.ok_or_else(|| {
        let what = "no checkpoint begins in it, from which on it is known which pages have images";
        JobError::at("log", format!("{}: {what}; record for longer", asked.log))
    })?;
    let (from_us, end_us) = survey.times_us.ok_or_else(|| {
        JobError::at("log", format!("{}: no transaction commits in it", asked.log))
    })?;
    Ok(Window {
        from,
        from_us,
        begin: from,
        begin_us: from_us,
        end: Lsn(survey.end.lsn.0),
        end_us,
        segments_ahead: 4,
    })
}

/// Relations whose pages are taken to be in the buffers at the beginning.
fn warm_of(survey: &mut Survey, known: &[Known], server: Option<&Server>) -> Vec<(u32, u32)> {
    if server.is_none_or(Server::is_fresh) {
        return Vec::new();
    }
    let mut warm = Vec::new();
    for one in known.iter().filter(|one| one.accesses > 0 && one.pages > 0) {
        let number = survey.relations.find(one.relation, 0);
        if let Some(fork) = survey.relations.forks().get(number) {
            warm.push((fork.base, one.pages.min(fork.pages)));
        }
    }
    warm
}

/// What durability settings give up.
fn lost(settings: &Settings) -> String {
    let mut lost = Vec::new();
    if !settings.synchronous_commit {
        let ms = 3 * settings.wal_writer_delay_us / 1000;
        lost.push(format!(
            "a crash loses up to {ms} ms of commits that were confirmed; the database stays \
             consistent"
        ));
    }
    if !settings.full_page_writes {
        lost.push(
            "a page that a power cut tears stays torn, unless the device writes 8 KiB as a whole"
                .to_owned(),
        );
    }
    if lost.is_empty() { "none".to_owned() } else { lost.join("; ") }
}
