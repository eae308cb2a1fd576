//! Player of requests on a drive whose contents are followed, with a record of the results.

use ssd::drive::device::{Completion, Contents, Drive, Found, Submission};
use ssd::drive::media::{Carried, Cause, FlashOp, Layout, MediaCounters};
use ssd::drive::profile::Profile;
use ssd::drive::schemes::{Scheme, SchemeCounters, WornOut};
use ssd::drive::time::Picos;
use ssd::drive::{DriveError, DriveVisitor, visit_drive};
use units::{IoOp, Lpn};

use super::oracle;

/// A request, and the time after which it may follow the one before it.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub op: IoOp,
    pub offset: u64,
    pub length: u32,
    pub is_fua: bool,
    pub queue: u32,
    pub gap: Picos,
}

impl Ask {
    /// A request of whole pages as soon as the depth allows.
    pub fn pages(op: IoOp, page: u32, count: u32, page_bytes: u32) -> Self {
        let (offset, length) = (u64::from(page) * u64::from(page_bytes), count * page_bytes);
        Self { op, offset, length, is_fua: false, queue: 0, gap: 0 }
    }

    pub fn flush() -> Self {
        Self { op: IoOp::Flush, offset: 0, length: 0, is_fua: false, queue: 0, gap: 0 }
    }

    /// The pages that it touches.
    pub fn touches(&self, page_bytes: u32) -> std::ops::Range<u32> {
        let page_bytes = u64::from(page_bytes);
        if self.length == 0 {
            return 0..0;
        }
        (self.offset / page_bytes) as u32
            ..(self.offset + u64::from(self.length)).div_ceil(page_bytes) as u32
    }
}

/// Beginning and end of a request, counted in submissions and completions.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub start: u64,
    /// `u64::MAX` while it is under way.
    pub end: u64,
}

/// Results of a play.
pub struct Played {
    pub asks: Vec<Ask>,
    pub spans: Vec<Span>,
    pub completions: Vec<Completion>,
    pub found: Vec<Found>,
    pub contents: Contents,
    pub layout: Layout,
    pub commands: Vec<Carried>,
    pub media: MediaCounters,
    pub scheme: SchemeCounters,
    pub erase_counts: Vec<u32>,
    pub worn_out: Option<WornOut>,
    pub elapsed: Picos,
    pub event_hash: u64,
    pub logical_pages: u32,
}

/// Plays `asks` with at most `depth` outstanding, then a FLUSH, lets the drive become quiet, and
/// reads every page. If the drive wears out it continues with the reads.
///
/// # Errors
/// If the drive cannot be made.
pub fn play(
    profile: &Profile,
    seed: u64,
    asks: &[Ask],
    depth: usize,
) -> Result<Played, DriveError> {
    play_and_keep(profile, seed, asks, depth, usize::MAX)
}

/// As [`play`], keeping only the first commands.
///
/// # Errors
/// If the drive cannot be made.
pub fn play_and_keep(
    profile: &Profile,
    seed: u64,
    asks: &[Ask],
    depth: usize,
    commands: usize,
) -> Result<Played, DriveError> {
    let pages = profile.logical_pages();
    let weights = || (0..pages).map(|page| 1.0 / f64::from(1 + page % 97)).collect();
    visit_drive(profile, seed, Some(&weights), Player { asks, depth, commands })
}

struct Player<'a> {
    asks: &'a [Ask],
    depth: usize,
    commands: usize,
}

/// Number of commands beyond which a drive is assumed to work without end.
const MOST_COMMANDS: u64 = 6_000_000;
/// Number of consecutive events without a command to the media beyond which it is assumed, too.
const MOST_IDLE_STEPS: u32 = 1_000_000;

/// Record of a play under way.
struct Log {
    asks: Vec<Ask>,
    spans: Vec<Span>,
    completions: Vec<Completion>,
    clock: u64,
    outstanding: usize,
    last_sent: Picos,
    new: Vec<Completion>,
    /// Number of commands to the media so far; then of events since the last one.
    commands: u64,
    idle_steps: u32,
}

impl Log {
    fn send<S: Scheme>(&mut self, drive: &mut Drive<S>, at: Picos, ask: Ask) {
        let handle = self.asks.len() as u32;
        self.asks.push(ask);
        self.spans.push(Span { start: self.clock, end: u64::MAX });
        self.clock += 1;
        self.outstanding += 1;
        self.last_sent = at;
        let Ask { op, offset, length, is_fua, queue, .. } = ask;
        drive.submit(
            at,
            Submission { op, offset, length, queue, priority: 0, is_fua, placement: 0, handle },
            &mut self.new,
        );
        self.take_completions(drive);
    }

    fn take_completions<S: Scheme>(&mut self, drive: &Drive<S>) {
        for completion in std::mem::take(&mut self.new) {
            let handle = completion.submission.handle as usize;
            assert_eq!(self.spans[handle].end, u64::MAX, "request {handle} is completed twice");
            assert_eq!(
                completion.completed_at,
                drive.now(),
                "a completion is told when it happens"
            );
            assert_eq!(
                completion.delays.total(),
                completion.completed_at - completion.submitted_at,
                "the delays of request {handle} add up"
            );
            self.spans[handle].end = self.clock;
            self.clock += 1;
            self.outstanding -= 1;
            self.completions.push(completion);
            let ask = self.asks[handle];
            if ask.op == IoOp::Flush || (ask.op == IoOp::Write && ask.is_fua) {
                oracle::check_durable(handle, &self.asks, &self.spans, drive);
            }
        }
    }

    /// Sends requests and lets the drive work until all are done, or it is worn out.
    fn play<S: Scheme>(&mut self, drive: &mut Drive<S>, asks: &[Ask], depth: usize) {
        let mut asks = asks.iter().copied().peekable();
        let was_worn_out = drive.worn_out().is_some();
        while was_worn_out || drive.worn_out().is_none() {
            let due = match asks.peek() {
                Some(ask) if self.outstanding < depth => drive.now().max(self.last_sent + ask.gap),
                _ => Picos::MAX,
            };
            match drive.next_time() {
                Some(next) if next <= due => {
                    let commands = drive.media().counters().total();
                    assert!(
                        commands < MOST_COMMANDS,
                        "{commands} commands for {} requests: the drive works without end",
                        self.asks.len()
                    );
                    let is_idle = commands == self.commands;
                    self.idle_steps = if is_idle { self.idle_steps + 1 } else { 0 };
                    self.commands = commands;
                    assert!(
                        self.idle_steps < MOST_IDLE_STEPS,
                        "{MOST_IDLE_STEPS} events without a command: the drive works without end"
                    );
                    drive.step(&mut self.new);
                    self.take_completions(drive);
                }
                _ => match asks.next_if(|_| due < Picos::MAX) {
                    Some(ask) => self.send(drive, due, ask),
                    None => break,
                },
            }
        }
    }
}

impl DriveVisitor for Player<'_> {
    type Output = Played;

    fn visit<S: Scheme>(self, mut drive: Drive<S>) -> Played {
        drive.follow(self.commands);
        let mut log = Log {
            asks: Vec::new(),
            spans: Vec::new(),
            completions: Vec::new(),
            clock: 1,
            outstanding: 0,
            last_sent: 0,
            new: Vec::new(),
            commands: 0,
            idle_steps: 0,
        };
        log.play(&mut drive, self.asks, self.depth);
        let logical_pages = drive.scheme().logical_pages();
        let page_bytes = drive.media().layout().page_bytes;
        let is_worn_out = drive.worn_out().is_some();
        if !is_worn_out {
            log.play(&mut drive, &[Ask::flush()], 1);
            check_quiet(&drive, &log);
        }
        let reads: Vec<Ask> =
            (0..logical_pages).map(|page| Ask::pages(IoOp::Read, page, 1, page_bytes)).collect();
        log.play(&mut drive, &reads, log.outstanding + 4);
        if !is_worn_out {
            check_quiet(&drive, &log);
        }
        drive.scheme().audit().unwrap();
        check_accounts(&drive);
        let media = drive.media();
        Played {
            found: drive.contents().unwrap().clone().take_found(),
            contents: drive.contents().unwrap().clone(),
            layout: media.layout().clone(),
            commands: media.witness().unwrap().commands().to_vec(),
            media: *media.counters(),
            scheme: drive.scheme().counters(),
            erase_counts: drive.scheme().erase_counts().to_vec(),
            worn_out: drive.worn_out(),
            elapsed: drive.now(),
            event_hash: media.event_hash(),
            asks: log.asks,
            spans: log.spans,
            completions: log.completions,
            logical_pages,
        }
    }
}

fn check_quiet<S: Scheme>(drive: &Drive<S>, log: &Log) {
    let first = log.spans.iter().position(|span| span.end == u64::MAX);
    assert_eq!(
        log.outstanding,
        0,
        "every request is completed, but {first:?} is not; {:?}",
        drive.worn_out()
    );
    assert_eq!(drive.outstanding(), 0, "the drive knows of it");
    assert!(drive.scheme().is_quiet(), "the scheme is quiet");
    assert_eq!(drive.media().under_way(), 0, "no command is left");
    assert_eq!(
        (drive.write_buffer().waiting(), drive.write_buffer().in_flight()),
        (0, 0),
        "FLUSH empties the buffer"
    );
    drive.scheme().audit().unwrap();
}

/// Checks that busy and idle time of each die add up to all time, and that no channel was busy for
/// longer.
fn check_accounts<S: Scheme>(drive: &Drive<S>) {
    let media = drive.media();
    for die in 0..media.layout().dies() {
        let busy: Picos = FlashOp::ALL
            .iter()
            .flat_map(|&op| Cause::ALL.map(|cause| media.time_on(die, op, cause)))
            .sum();
        assert_eq!(busy + media.time_idle(die), drive.now(), "the times of die {die} add up");
    }
    for channel in 0..media.layout().channels {
        // Transfers that are scheduled for a command under way may lie ahead.
        assert!(
            media.under_way() > 0 || media.channel_busy(channel) <= drive.now(),
            "channel {channel} has no more time than there is"
        );
    }
}

impl Played {
    /// The request that wrote the data that a read of a page found in one sector.
    pub fn writer(&self, found: &Found, sector: u32) -> Option<usize> {
        self.contents.writer(found.content, sector).map(|(handle, _)| handle as usize)
    }

    pub fn found(&self, handle: usize, lpn: Lpn) -> &Found {
        let mut all =
            self.found.iter().filter(|found| found.handle == handle as u32 && found.lpn == lpn);
        let found =
            all.next().unwrap_or_else(|| panic!("read {handle} did not find page {}", lpn.0));
        assert!(all.next().is_none(), "read {handle} found page {} twice", lpn.0);
        found
    }
}
