//! Common part of the log-block schemes: host pages, the queue of writes that wait for a merge, and
//! untimed writes.
//!
//! A scheme's [`Rules`] decide where a page goes and which merge makes room; [`Hybrid`] carries
//! that out, with commands or at once. Both take the same decisions.
//!
//! Not modelled: bad erase blocks and endurance (erases are counted); static wear levelling
//! (superblocks are taken least erased first, but data that never changes stays in place); the
//! reads and writes of the mapping tables themselves, which are small enough for DRAM; merges in
//! idle time (BAST and FAST merge on demand only).

use std::collections::VecDeque;
use std::fmt;

use registry::Args;
use units::Lpn;

use super::log_maps::{LogMaps, MAPS_IN_MEMORY};
use super::merge::{Core, Work};
use super::superblock::NONE;
use super::{ReadPath, Scheme, SchemeCounters};
use crate::drive::media::{Cause, Command, Done, FlashOp, Media, Tag};

/// The decisions of a log-block scheme.
pub trait Rules: fmt::Debug + Send {
    /// Places a page and returns the place. `None` if it has to wait: then works are under way, or
    /// are begun here.
    fn put(&mut self, core: &mut Core, lpn: u32) -> Option<u32>;

    /// Called before all waiting pages are tried again, oldest first.
    fn begin_pass(&mut self) {}

    /// Called when a work is done. The map and the superblocks are updated already.
    fn ended(&mut self, core: &mut Core, work: &Work);

    /// Begins works that should go on even if no page waits.
    fn go_on(&mut self, _core: &mut Core) {}

    /// Returns true if a log belongs to this logical superblock.
    fn has_log(&self, logical: u32) -> bool;

    /// Memory of the tables in bytes.
    fn table_bytes(&self) -> usize;

    /// Checks the tables against the superblocks.
    ///
    /// # Errors
    /// The contradiction.
    fn audit(&self, core: &Core) -> Result<(), String>;
}

/// A page write that waits for room.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    lpn: u32,
    tag: Tag,
    /// True if it was trimmed since: it is programmed, as its tag was promised, but holds nothing.
    trimmed: bool,
}

/// A log-block scheme.
#[derive(Debug)]
pub struct Hybrid<R> {
    core: Core,
    rules: R,
    maps: LogMaps,
    queue: VecDeque<Waiting>,
    /// Swapped with the queue at each pass, so that no pass allocates.
    tried: VecDeque<Waiting>,
    /// Number of writes in the queue by logical superblock: they stay in order among themselves.
    queued: Vec<u32>,
    /// One bit per logical page, set if its newest version is in the queue.
    is_waiting: Vec<u64>,
    /// Number of the last pass in which a logical superblock had to wait.
    blocked_in: Vec<u32>,
    pass: u32,
    ended: Vec<Work>,
}

impl<R: Rules> Hybrid<R> {
    /// An empty drive.
    pub(super) fn new(core: Core, rules: R, args: &Args) -> Self {
        let logical = core.blocks.logical_superblocks() as usize;
        Self {
            is_waiting: vec![0; core.blocks.logical_pages().div_ceil(64) as usize],
            queued: vec![0; logical],
            blocked_in: vec![0; logical],
            queue: VecDeque::new(),
            tried: VecDeque::new(),
            pass: 0,
            ended: Vec::new(),
            maps: LogMaps::new(args.integer(MAPS_IN_MEMORY.name) as usize),
            core,
            rules,
        }
    }

    #[inline]
    fn waits(&self, lpn: u32) -> bool {
        self.is_waiting[(lpn / 64) as usize] >> (lpn % 64) & 1 == 1
    }

    fn set_waits(&mut self, lpn: u32, waits: bool) {
        let (word, bit) = (&mut self.is_waiting[(lpn / 64) as usize], 1u64 << (lpn % 64));
        *word = if waits { *word | bit } else { *word & !bit };
    }

    fn submit(&self, op: FlashOp, place: u32, bytes: u32, tag: Tag, media: &mut Media) {
        let page = self.core.blocks.page(place);
        media.submit(Command { op, cause: Cause::Host, page, from: page, bytes, tag });
    }

    fn program(&mut self, place: u32, tag: Tag, media: &mut Media) {
        self.maps.load(&self.core, place, media);
        self.submit(FlashOp::Program, place, self.core.blocks.layout().page_bytes, tag, media);
    }

    /// Gives the commands of works that were decided, and continues with works that their ends
    /// allow.
    fn run(&mut self, media: &mut Media) {
        loop {
            let mut ended = std::mem::take(&mut self.ended);
            self.core.begin(media, &mut ended);
            let is_done = ended.is_empty();
            ended.iter().for_each(|work| self.end(work));
            ended.clear();
            self.ended = ended;
            if is_done {
                break;
            }
            self.try_waiting(media);
        }
        assert!(
            self.queue.is_empty() || self.core.active() > 0,
            "{} page writes wait for a merge that never comes",
            self.queue.len()
        );
    }

    fn end(&mut self, work: &Work) {
        self.rules.ended(&mut self.core, work);
        if work.logical != NONE {
            self.put_aside_if_empty(work.logical);
        }
    }

    /// Tries all waiting writes again, in order. If one of a logical superblock still has to wait,
    /// later ones of the same do too.
    fn try_waiting(&mut self, media: &mut Media) {
        self.pass += 1;
        self.rules.begin_pass();
        std::mem::swap(&mut self.queue, &mut self.tried);
        while let Some(write) = self.tried.pop_front() {
            let (logical, _) = self.core.blocks.split(write.lpn);
            let is_blocked = self.blocked_in[logical as usize] == self.pass;
            let Some(place) =
                (if is_blocked { None } else { self.rules.put(&mut self.core, write.lpn) })
            else {
                self.blocked_in[logical as usize] = self.pass;
                self.queue.push_back(write);
                continue;
            };
            self.queued[logical as usize] -= 1;
            self.program(place, write.tag, media);
            if write.trimmed {
                self.core.blocks.forget(write.lpn);
            } else if self.queued[logical as usize] == 0
                || !self.tried.iter().any(|later| later.lpn == write.lpn && !later.trimmed)
            {
                // Writes that were put back into the queue are of other logical superblocks, or
                // they would have kept this one waiting.
                self.set_waits(write.lpn, false);
            }
            self.put_aside_if_empty(logical);
        }
        self.rules.go_on(&mut self.core);
    }

    fn put_aside_if_empty(&mut self, logical: u32) {
        let superblock = self.core.blocks.data(logical);
        if superblock != NONE
            && self.core.blocks.valid(superblock) == 0
            && self.queued[logical as usize] == 0
            && !self.core.is_merging(logical)
            && !self.rules.has_log(logical)
        {
            self.core.blocks.put_aside(logical);
        }
    }
}

impl<R: Rules> Scheme for Hybrid<R> {
    fn logical_pages(&self) -> u32 {
        self.core.blocks.logical_pages()
    }

    fn read(&mut self, lpn: Lpn, bytes: u32, tag: Tag, media: &mut Media) -> ReadPath {
        if self.waits(lpn.0) {
            return ReadPath::Memory;
        }
        let place = self.core.blocks.place(lpn.0);
        if place == NONE {
            return ReadPath::Unmapped;
        }
        if !media.is_programmed(self.core.blocks.page(place)) {
            return ReadPath::Memory;
        }
        self.submit(FlashOp::Read, place, bytes, tag, media);
        ReadPath::Flash
    }

    fn write(&mut self, lpn: Lpn, tag: Tag, media: &mut Media) {
        self.core.blocks.counters.host_page_writes += 1;
        let (logical, _) = self.core.blocks.split(lpn.0);
        let is_blocked = self.queued[logical as usize] > 0;
        match if is_blocked { None } else { self.rules.put(&mut self.core, lpn.0) } {
            Some(place) => self.program(place, tag, media),
            None => {
                self.queue.push_back(Waiting { lpn: lpn.0, tag, trimmed: false });
                self.queued[logical as usize] += 1;
                self.set_waits(lpn.0, true);
            }
        }
        self.run(media);
    }

    fn trim(&mut self, lpn: Lpn, _media: &mut Media) {
        let waits = self.waits(lpn.0);
        if waits {
            self.set_waits(lpn.0, false);
            self.queue
                .iter_mut()
                .filter(|write| write.lpn == lpn.0)
                .for_each(|write| write.trimmed = true);
        }
        if self.core.blocks.forget(lpn.0) || waits {
            self.core.blocks.counters.trimmed_pages += 1;
            self.put_aside_if_empty(self.core.blocks.split(lpn.0).0);
        }
    }

    fn completed(&mut self, done: &Done, media: &mut Media) {
        if LogMaps::is_own(done.command.tag) {
            return;
        }
        if let Some(work) = self.core.completed(done, media) {
            self.end(&work);
            self.try_waiting(media);
            self.run(media);
        }
    }

    fn trim_untimed(&mut self, lpn: Lpn) {
        if self.core.blocks.forget(lpn.0) {
            self.core.blocks.counters.trimmed_pages += 1;
            self.put_aside_if_empty(self.core.blocks.split(lpn.0).0);
        }
    }

    fn write_untimed(&mut self, lpn: Lpn) {
        self.core.blocks.counters.host_page_writes += 1;
        loop {
            let is_put = self.rules.put(&mut self.core, lpn.0).is_some();
            let had_work = self.core.active() > 0;
            while self.core.active() > 0 {
                let mut ended = std::mem::take(&mut self.ended);
                self.core.carry_out(&mut ended);
                ended.iter().for_each(|work| self.end(work));
                ended.clear();
                self.ended = ended;
                self.rules.begin_pass();
                self.rules.go_on(&mut self.core);
            }
            if is_put {
                break;
            }
            assert!(had_work, "logical page {} waits for a merge that never comes", lpn.0);
        }
    }

    fn settle(&mut self, media: &mut Media) {
        self.core.blocks.settle(media);
    }

    fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.core.active() == 0
    }

    fn counters(&self) -> SchemeCounters {
        self.core.blocks.counters
    }

    fn erase_counts(&self) -> &[u32] {
        self.core.blocks.erase_counts()
    }

    fn table_bytes(&self) -> usize {
        let queues = (self.queue.capacity() + self.tried.capacity()) * size_of::<Waiting>();
        let own = 4 * (self.queued.len() + self.blocked_in.len()) + 8 * self.is_waiting.len();
        self.core.table_bytes() + self.rules.table_bytes() + queues + own
    }

    fn audit(&self) -> Result<(), String> {
        let mut queued = vec![0; self.queued.len()];
        for write in &self.queue {
            queued[self.core.blocks.split(write.lpn).0 as usize] += 1;
            if !write.trimmed && !self.waits(write.lpn) {
                return Err(format!("logical page {} is in the queue, but not marked", write.lpn));
            }
        }
        if queued != self.queued {
            return Err("the counts of waiting writes are wrong".to_owned());
        }
        self.core.audit()?;
        self.rules.audit(&self.core)
    }
}
