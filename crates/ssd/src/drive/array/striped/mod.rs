//! Data in stripes over drives, with parity in each (RAID level 5, and DIFF-RAID's uneven parity)
//! or without (level 0).
//!
//! A write of a part of a stripe reads the data that its parity follows from, and then writes data
//! and parity; a write of a whole stripe writes all at once. Meanwhile other writes of the stripe
//! wait, and so do reads of data of a missing drive: otherwise the parity of one write would
//! overwrite that of the other. Reads of drives that are present do not wait.
//!
//! The lock covers the whole stripe, not only the rows touched, and the host keeps no data: of two
//! consecutive writes in a stripe both read and write its parity.

mod oracle;
pub(super) mod places;
mod strokes;
#[cfg(test)]
mod tests;

use units::IoOp;

use self::oracle::Oracle;
use self::places::{Drives, Places};
use self::strokes::{MOST_STROKES, Plan, Stroke, Way, plan, strokes_of};
use super::{Counts, Group, Member, StripeCounters, WritePolicy, Written};
use crate::drive::device::{Completion, Submission};
use crate::drive::load::Target;
use crate::drive::measure::{Delay, RequestDelays};
use crate::drive::time::Picos;

const NONE: u32 = u32::MAX;

/// A request of the host under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    submission: Submission,
    submitted_at: Picos,
    /// Number of jobs that have not ended.
    left: u32,
}

/// Stage of a job, by what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its turn in its stripe, or nothing yet.
    Waiting,
    /// Reads of the data that parity follows from, or that replaces a missing drive's.
    Reading,
    /// The last commands to drives.
    Ending,
}

/// Part of a request in one stripe; for a flush, on all drives.
#[derive(Clone, Copy, Debug)]
struct Job {
    request: u32,
    /// [`NONE`] for a flush.
    stripe: u32,
    stage: Stage,
    strokes: [Stroke; MOST_STROKES],
    count: u8,
    /// True if other jobs of its stripe wait for it.
    is_locked: bool,
    /// The next job that waits for the stripe.
    next: u32,
    /// Number of commands of its stage that drives have not completed.
    outstanding: u32,
}

/// A command to a drive.
#[derive(Clone, Copy, Debug)]
struct Part {
    job: u32,
    drive: u8,
    stroke: u8,
    op: IoOp,
    sent_at: Picos,
}

/// Drives with stripes over them, and the requests under way.
pub(super) struct Striped {
    drives: Vec<Box<dyn Member>>,
    places: Places,
    stripes: u32,
    writes: WritePolicy,
    missing: Drives,
    now: Picos,
    /// For each stripe: the last job that holds it or waits for it. Empty without parity.
    locks: Vec<u32>,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    outstanding: u32,
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    parts: Vec<Part>,
    free_parts: Vec<u32>,
    done: Vec<Completion>,
    counters: StripeCounters,
    written: Vec<Written>,
    oracle: Option<Box<Oracle>>,
    /// Only for tests that show the errors without locks.
    #[cfg(test)]
    pub(super) has_no_locks: bool,
}

fn put<T>(list: &mut Vec<T>, free: &mut Vec<u32>, one: T) -> u32 {
    let number = free.pop().unwrap_or(list.len() as u32);
    if let Some(place) = list.get_mut(number as usize) {
        *place = one;
    } else {
        list.push(one);
    }
    number
}

fn lowest(drives: &mut Drives) -> Option<u32> {
    let drive = drives.trailing_zeros();
    *drives &= drives.wrapping_sub(1);
    (drive < Drives::BITS).then_some(drive)
}

impl Striped {
    /// An array over drives of `capacity` bytes each, of which one may be missing. If it is
    /// audited, the contents of each drive are followed.
    pub fn new(
        drives: Vec<Box<dyn Member>>,
        places: Places,
        capacity: u64,
        writes: WritePolicy,
        missing: Option<u32>,
        is_audited: bool,
    ) -> Self {
        let stripes = (capacity / places.unit()) as u32;
        let locked = if places.has_parity() { stripes as usize } else { 0 };
        let is_followed = is_audited && places.has_parity();
        let oracle = is_followed.then(|| Box::new(Oracle::new(&places, stripes)));
        Self {
            written: vec![Written::default(); drives.len()],
            drives,
            stripes,
            writes,
            missing: missing.map_or(0, |drive| 1 << drive),
            now: 0,
            locks: vec![NONE; locked],
            requests: Vec::new(),
            free_requests: Vec::new(),
            outstanding: 0,
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            parts: Vec::new(),
            free_parts: Vec::new(),
            done: Vec::new(),
            counters: StripeCounters::default(),
            oracle,
            places,
            #[cfg(test)]
            has_no_locks: false,
        }
    }

    fn send(&mut self, number: u32, drive: u32, stroke: u8, op: IoOp) {
        let job = &mut self.jobs[number as usize];
        job.outstanding += 1;
        let rows = job.strokes[stroke as usize];
        let stripe = job.stripe;
        let part = Part { job: number, drive: drive as u8, stroke, op, sent_at: self.now };
        let part = put(&mut self.parts, &mut self.free_parts, part);
        let of = self.requests[job.request as usize].submission;
        let (offset, length) = if stripe == NONE {
            (0, 0)
        } else {
            (u64::from(stripe) * self.places.unit() + u64::from(rows.from), rows.to - rows.from)
        };
        let submission = Submission { op, offset, length, handle: part, ..of };
        self.drives[drive as usize].as_target().submit(self.now, submission, &mut self.done);
    }

    fn send_all(&mut self, number: u32, mut drives: Drives, stroke: u8, op: IoOp) {
        while let Some(drive) = lowest(&mut drives) {
            self.send(number, drive, stroke, op);
        }
    }

    /// Starts a job, whose turn has come if it needed one.
    fn start(&mut self, number: u32) {
        let job = self.jobs[number as usize];
        let op = self.requests[job.request as usize].submission.op;
        let parity = self.places.parity_of(job.stripe);
        if let Some(oracle) = &mut self.oracle {
            oracle.begin(number, job.stripe);
            if op != IoOp::Read {
                let strokes = &job.strokes[..job.count as usize];
                let is_trim = op == IoOp::Trim;
                oracle.begin_write(&self.places, parity, job.stripe, strokes, is_trim);
            }
        }
        if op == IoOp::Read {
            return self.start_read(number);
        }
        let mut is_reading = false;
        for stroke in 0..job.count {
            let plan = self.plan(&job.strokes[stroke as usize], parity);
            if op == IoOp::Write {
                self.count(&plan, job.strokes[stroke as usize].data);
            }
            is_reading |= plan.reads != 0;
            self.counters.extra_reads += u64::from(plan.reads.count_ones());
            self.send_all(number, plan.reads, stroke, IoOp::Read);
        }
        self.jobs[number as usize].stage = Stage::Reading;
        if !is_reading {
            self.end(number, parity);
        }
    }

    fn plan(&self, stroke: &Stroke, parity: u32) -> Plan {
        let parity = self.places.has_parity().then_some(parity);
        plan(stroke.data, parity, self.places.all(), self.missing, self.writes)
    }

    fn count(&mut self, plan: &Plan, data: Drives) {
        match plan.way {
            Way::Full if self.places.has_parity() => self.counters.full_stripe_writes += 1,
            Way::ReadModify => self.counters.read_modify_writes += 1,
            Way::Reconstruct => self.counters.reconstruct_writes += 1,
            Way::Full | Way::WithoutParity => {}
        }
        let is_degraded = plan.way == Way::WithoutParity || data & self.missing != 0;
        self.counters.degraded_writes += u64::from(is_degraded);
    }

    fn start_read(&mut self, number: u32) {
        let job = self.jobs[number as usize];
        self.jobs[number as usize].stage = Stage::Ending;
        for stroke in 0..job.count {
            let data = job.strokes[stroke as usize].data;
            let is_rebuilt = data & self.missing != 0;
            let drives = if is_rebuilt { self.places.all() & !self.missing } else { data };
            if is_rebuilt {
                self.counters.degraded_reads += 1;
                self.counters.extra_reads += u64::from((drives & !data).count_ones());
            }
            self.send_all(number, drives, stroke, IoOp::Read);
        }
    }

    /// Sends data and parity to the drives, after everything was read that had to be read before.
    fn end(&mut self, number: u32, parity: u32) {
        let job = self.jobs[number as usize];
        self.jobs[number as usize].stage = Stage::Ending;
        let op = self.requests[job.request as usize].submission.op;
        for stroke in 0..job.count {
            let rows = job.strokes[stroke as usize];
            let mut writes = self.plan(&rows, parity).writes;
            let bytes = u64::from(rows.to - rows.from);
            while let Some(drive) = lowest(&mut writes) {
                if op == IoOp::Write {
                    let written = &mut self.written[drive as usize];
                    let to = if drive == parity {
                        &mut written.parity_bytes
                    } else {
                        &mut written.data_bytes
                    };
                    *to += bytes;
                }
                self.send(number, drive, stroke, op);
            }
        }
    }

    fn part_done(&mut self, done: &Completion, completed: &mut Vec<Completion>) {
        let number = done.submission.handle;
        let part = self.parts[number as usize];
        self.free_parts.push(number);
        let job = &mut self.jobs[part.job as usize];
        job.outstanding -= 1;
        let job = *job;
        let parity = self.places.parity_of(job.stripe);
        self.follow(&part, &job, parity);
        if job.outstanding > 0 {
            return;
        }
        if job.stage == Stage::Reading {
            return self.end(part.job, parity);
        }
        self.job_done(&part, &job, parity, done, completed);
    }

    /// Tells the oracle that a drive has completed a command.
    fn follow(&mut self, part: &Part, job: &Job, parity: u32) {
        let Some(oracle) = &mut self.oracle else { return };
        if job.stripe == NONE {
            return;
        }
        let (drive, stripe) = (u32::from(part.drive), job.stripe);
        let rows = &job.strokes[part.stroke as usize];
        if part.op != IoOp::Read {
            return oracle.write(&self.places, parity, part.job, drive, stripe, rows);
        }
        oracle.read(part.job, drive, stripe, rows);
        let is_asked = job.stage == Stage::Ending && rows.data & (1 << drive) != 0;
        if is_asked {
            oracle.found(&self.places, part.job, drive, stripe, rows, false);
        }
    }

    fn job_done(
        &mut self,
        part: &Part,
        job: &Job,
        parity: u32,
        done: &Completion,
        completed: &mut Vec<Completion>,
    ) {
        let number = part.job;
        let request = self.requests[job.request as usize];
        let strokes = &job.strokes[..job.count as usize];
        if let Some(oracle) = self.oracle.as_mut().filter(|_| job.stripe != NONE) {
            if request.submission.op != IoOp::Read {
                oracle.end_write(&self.places, parity, job.stripe, strokes);
            }
            for rows in strokes.iter().filter(|_| request.submission.op == IoOp::Read) {
                let mut lost = rows.data & self.missing;
                while let Some(drive) = lowest(&mut lost) {
                    oracle.found(&self.places, number, drive, job.stripe, rows, true);
                }
            }
        }
        self.free_jobs.push(number);
        if job.is_locked {
            self.unlock(number, job);
        }
        let left = &mut self.requests[job.request as usize].left;
        *left -= 1;
        if *left == 0 {
            let mut delays = done.delays;
            // The host cannot tell how the time at other drives before the last command was spent.
            delays[Delay::Queue] += part.sent_at - request.submitted_at;
            self.request_done(job.request, done.completed_at, delays, completed);
        }
    }

    fn request_done(
        &mut self,
        number: u32,
        completed_at: Picos,
        delays: RequestDelays,
        completed: &mut Vec<Completion>,
    ) {
        let Request { submission, submitted_at, .. } = self.requests[number as usize];
        self.free_requests.push(number);
        self.outstanding -= 1;
        completed.push(Completion { submission, submitted_at, completed_at, delays });
    }

    fn unlock(&mut self, number: u32, job: &Job) {
        let lock = &mut self.locks[job.stripe as usize];
        if *lock == number {
            *lock = NONE;
        } else {
            self.start(job.next);
        }
    }

    /// Starts a job, or lets it wait for its stripe.
    fn queue(&mut self, number: u32) {
        let job = &mut self.jobs[number as usize];
        #[cfg(test)]
        if self.has_no_locks {
            job.is_locked = false;
        }
        if !job.is_locked {
            return self.start(number);
        }
        let lock = &mut self.locks[job.stripe as usize];
        let before = std::mem::replace(lock, number);
        if before == NONE {
            return self.start(number);
        }
        self.counters.stripe_waits += 1;
        self.jobs[before as usize].next = number;
    }

    fn add_job(&mut self, request: u32, stripe: u32, strokes: ([Stroke; MOST_STROKES], u8)) -> u32 {
        let (strokes, count) = strokes;
        let op = self.requests[request as usize].submission.op;
        let data = strokes[..count as usize].iter().fold(0, |all, rows| all | rows.data);
        let changes_or_rebuilds = op != IoOp::Read || data & self.missing != 0;
        let is_locked = stripe != NONE && self.places.has_parity() && changes_or_rebuilds;
        self.requests[request as usize].left += 1;
        let (stage, next, outstanding) = (Stage::Waiting, NONE, 0);
        let job = Job { request, stripe, stage, strokes, count, is_locked, next, outstanding };
        put(&mut self.jobs, &mut self.free_jobs, job)
    }

    fn flush(&mut self, request: u32) {
        let job = self.add_job(request, NONE, ([Stroke::default(); MOST_STROKES], 0));
        self.jobs[job as usize].stage = Stage::Ending;
        self.send_all(job, self.places.all() & !self.missing, 0, IoOp::Flush);
    }

    fn submit_request(&mut self, request: u32) {
        let Submission { op, offset, length, .. } = self.requests[request as usize].submission;
        if op == IoOp::Flush {
            return self.flush(request);
        }
        let bytes = self.places.stripe_bytes();
        let (mut start, end) = (offset, offset + u64::from(length));
        assert!(
            length > 0 && end <= bytes * u64::from(self.stripes),
            "a {} of {length} bytes at byte {offset} lies outside the array, or is empty",
            op.name()
        );
        // A job that ends at once must not end the request before the other jobs exist.
        self.requests[request as usize].left = 1;
        while start < end {
            let stripe = (start / bytes) as u32;
            let base = u64::from(stripe) * bytes;
            let until = end.min(base + bytes);
            let is_whole = start == base && until == base + bytes;
            if op != IoOp::Trim || is_whole || !self.places.has_parity() {
                let parity = self.places.parity_of(stripe);
                let strokes = strokes_of(&self.places, parity, start - base, until - base);
                let job = self.add_job(request, stripe, strokes);
                self.queue(job);
            } else {
                self.counters.partial_trims += 1;
            }
            start = until;
        }
        self.requests[request as usize].left -= 1;
    }

    /// Handles the completions of drives, and all that follows from them, until there are no more.
    fn settle(&mut self, completed: &mut Vec<Completion>) {
        let mut next = 0;
        while next < self.done.len() {
            let done = self.done[next];
            next += 1;
            self.part_done(&done, completed);
        }
        self.done.clear();
    }
}

impl Target for Striped {
    fn now(&self) -> Picos {
        self.now
    }

    fn submit(&mut self, at: Picos, submission: Submission, completed: &mut Vec<Completion>) {
        self.now = at;
        self.outstanding += 1;
        let request = Request { submission, submitted_at: at, left: 0 };
        let number = put(&mut self.requests, &mut self.free_requests, request);
        self.submit_request(number);
        if self.requests[number as usize].left == 0 {
            self.request_done(number, at, RequestDelays::default(), completed);
        }
        self.settle(completed);
    }

    fn next_time(&self) -> Option<Picos> {
        self.drives.iter().filter_map(|drive| drive.next_time()).min()
    }

    fn step_at(&mut self, next: Picos, completed: &mut Vec<Completion>) {
        self.now = next;
        let drive = self.drives.iter_mut().find(|drive| drive.next_time() == Some(next));
        let Some(drive) = drive else { return };
        drive.as_target().step_at(next, &mut self.done);
        self.settle(completed);
    }
}

impl Group for Striped {
    fn drives(&self) -> &[Box<dyn Member>] {
        &self.drives
    }

    fn drives_mut(&mut self) -> &mut [Box<dyn Member>] {
        &mut self.drives
    }

    fn counts(&self) -> Counts {
        Counts { stripes: self.counters, ..Counts::default() }
    }

    fn written(&self) -> Vec<Written> {
        self.written.clone()
    }

    fn outstanding(&self) -> u32 {
        self.outstanding
    }

    fn audit(&self) -> Result<(), String> {
        let Some(oracle) = &self.oracle else { return Ok(()) };
        let mut oracle = oracle.clone();
        oracle.check(&self.places, self.stripes, self.missing);
        oracle.fault().map_or(Ok(()), |fault| Err(fault.to_owned()))
    }
}
