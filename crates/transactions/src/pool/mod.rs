//! The buffer pool: which page is in which frame. It does no I/O.

mod policies;

use registry::{Info, Param, ParamKind, Spec, SpecError};
use units::lists::NONE;

use policies::Policy;

/// All ways to choose a victim.
pub static BUFFERS: &[Info] = &[
    Info {
        name: "lru",
        aliases: &[],
        summary: "the page that was not used for longest",
        source: "",
        params: &[],
    },
    Info {
        name: "clock",
        aliases: &["second_chance"],
        summary: "a hand goes round and takes the first page that was not used since it came by",
        source: "Corbato, 1968; PostgreSQL's has counters up to 5",
        params: &[Param {
            name: "most",
            kind: ParamKind::Integer { min: 1, max: 255 },
            default: "1",
            help: "how often a page can be passed after its uses: 5 is PostgreSQL's",
        }],
    },
    Info {
        name: "cflru_e",
        aliases: &[],
        summary: "among those not used for longest a clean page, else the dirty one whose erase \
                  block is erased least",
        source: "Yoo, Lee, Ryu & Bahn, ICCSA 2007; with REPLICATION 5.4's blocking probability in \
                 the place of the erase frequency",
        params: &[Param {
            name: "window",
            kind: ParamKind::Number { min: 0.0, max: 1.0 },
            default: "50%",
            help: "share of the frames among which it looks; the papers do not say how large",
        }],
    },
];

/// Numbers of blocked requests to each part of the device as large as an erase block.
#[derive(Clone, Debug)]
pub struct Blocking {
    pages_per_part: u32,
    /// Blocked requests and all requests, by part.
    counts: Vec<(u32, u32)>,
}

impl Blocking {
    fn new(pages: u32, pages_per_part: u32) -> Self {
        let parts = pages.div_ceil(pages_per_part) as usize;
        Self { pages_per_part, counts: vec![(0, 0); parts] }
    }

    fn note(&mut self, page: u32, is_blocked: bool) {
        let (blocked, all) = &mut self.counts[(page / self.pages_per_part) as usize];
        (*blocked, *all) = (*blocked + u32::from(is_blocked), *all + 1);
    }

    /// REPLICATION 4.1: blocked accesses over all; 0 before the first.
    fn of(&self, page: u32) -> f64 {
        let (blocked, all) = self.counts[(page / self.pages_per_part) as usize];
        if all == 0 { 0.0 } else { f64::from(blocked) / f64::from(all) }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    page: u32,
    pins: u16,
    is_used: bool,
    is_dirty: bool,
    /// It is being read into, or written from.
    is_reading: bool,
    is_writing: bool,
    /// End of the log record of its last change, and begin of the first one since it was clean.
    lsn: u64,
    first_lsn: u64,
}

/// Frames, and the pages in them.
pub struct Pool {
    frame_of: Vec<u32>,
    frames: Vec<Frame>,
    free: Vec<u32>,
    policy: Policy,
    blocking: Option<Blocking>,
}

impl Pool {
    /// Makes a pool of `frames` frames, for a database of `pages` pages, `pages_per_part` of which
    /// are as large as an erase block.
    ///
    /// # Errors
    /// [`SpecError`] if there is no such way to choose victims.
    ///
    /// # Panics
    /// If there are no frames.
    pub fn new(
        spec: &Spec,
        frames: u32,
        pages: u32,
        pages_per_part: u32,
    ) -> Result<Self, SpecError> {
        assert!(frames > 0, "a pool has a frame");
        let info = registry::find("buffer", BUFFERS, |info| info, spec)?;
        let args = info.accept(spec)?;
        let policy = match info.name {
            "clock" => Policy::clock(frames, args.integer("most") as u8),
            "cflru_e" => Policy::cflru_e(frames, args.number("window")),
            _ => Policy::lru(frames),
        };
        let blocking = (info.name == "cflru_e").then(|| Blocking::new(pages, pages_per_part));
        Ok(Self {
            frame_of: vec![NONE; pages as usize],
            frames: vec![Frame::default(); frames as usize],
            free: (0..frames).rev().collect(),
            policy,
            blocking,
        })
    }

    /// Frames.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The frame that holds a page, or is being filled with it.
    #[inline]
    #[must_use]
    pub fn find(&self, page: u32) -> Option<u32> {
        let frame = self.frame_of[page as usize];
        (frame != NONE).then_some(frame)
    }

    /// The page in a frame.
    #[inline]
    #[must_use]
    pub fn page(&self, frame: u32) -> u32 {
        self.frames[frame as usize].page
    }

    /// Returns true if the page of a frame is not there yet.
    #[inline]
    #[must_use]
    pub fn is_reading(&self, frame: u32) -> bool {
        self.frames[frame as usize].is_reading
    }

    /// Returns true if a frame's page differs from the device's.
    #[inline]
    #[must_use]
    pub fn is_dirty(&self, frame: u32) -> bool {
        self.frames[frame as usize].is_dirty
    }

    /// Returns true if a frame's page is on its way to the device.
    #[inline]
    #[must_use]
    pub fn is_writing(&self, frame: u32) -> bool {
        self.frames[frame as usize].is_writing
    }

    /// End of the log record of a frame's last change.
    #[inline]
    #[must_use]
    pub fn lsn(&self, frame: u32) -> u64 {
        self.frames[frame as usize].lsn
    }

    /// Begin of the log record of the first change that the device does not have, if there is one.
    #[inline]
    #[must_use]
    pub fn first_lsn(&self, frame: u32) -> Option<u64> {
        let frame = &self.frames[frame as usize];
        frame.is_dirty.then_some(frame.first_lsn)
    }

    /// Uses a page that is there: it stays until it is let go.
    #[inline]
    pub fn pin(&mut self, frame: u32) {
        debug_assert!(!self.frames[frame as usize].is_reading, "its page is not there yet");
        self.frames[frame as usize].pins += 1;
        self.policy.touched(frame);
    }

    /// Lets it go. Returns true if nobody uses it any more.
    #[inline]
    pub fn unpin(&mut self, frame: u32) -> bool {
        let pins = &mut self.frames[frame as usize].pins;
        *pins -= 1;
        *pins == 0
    }

    /// Its page was changed, by the log record that reaches from `from` to `to`.
    #[inline]
    pub fn changed(&mut self, frame: u32, from: u64, to: u64) {
        let frame = &mut self.frames[frame as usize];
        if !frame.is_dirty {
            (frame.is_dirty, frame.first_lsn) = (true, from);
        }
        frame.lsn = to;
    }

    /// A frame for another page: a free one, or the victim, which may be dirty. `None` if all are
    /// in use.
    pub fn choose(&mut self) -> Option<u32> {
        if let Some(&frame) = self.free.last() {
            return Some(frame);
        }
        let frames = &self.frames;
        let blocking = self.blocking.as_ref();
        self.policy.victim(
            |frame| is_idle(&frames[frame as usize]),
            |frame| frames[frame as usize].is_dirty,
            |frame| blocking.map_or(0.0, |b| b.of(frames[frame as usize].page)),
        )
    }

    /// Returns true if a frame can take another page at once.
    #[must_use]
    pub fn is_available(&self, frame: u32) -> bool {
        let about = &self.frames[frame as usize];
        !about.is_used || (is_idle(about) && !about.is_dirty)
    }

    /// Begins to fill a frame with a page; gives the one that it held.
    ///
    /// # Panics
    /// If it is not available, or the page has a frame.
    pub fn begin_read(&mut self, frame: u32, page: u32) -> Option<u32> {
        assert!(self.is_available(frame), "frame {frame} is in use, or holds what is not written");
        assert_eq!(self.frame_of[page as usize], NONE, "page {page} has a frame");
        let old = self.frames[frame as usize];
        if old.is_used {
            self.frame_of[old.page as usize] = NONE;
            self.policy.removed(frame);
        } else {
            self.free.retain(|&free| free != frame);
        }
        self.frame_of[page as usize] = frame;
        self.frames[frame as usize] =
            Frame { page, is_used: true, is_reading: true, ..Frame::default() };
        self.policy.inserted(frame);
        old.is_used.then_some(old.page)
    }

    /// Its page is there.
    pub fn end_read(&mut self, frame: u32) {
        self.frames[frame as usize].is_reading = false;
    }

    /// Begins to write a dirty page: what is changed from now on makes it dirty again.
    pub fn begin_write(&mut self, frame: u32) {
        let frame = &mut self.frames[frame as usize];
        debug_assert!(frame.is_dirty && frame.is_writing, "it is marked before");
        frame.is_dirty = false;
    }

    /// Marks a dirty page as about to be written: it is no victim until it was.
    pub fn mark_writing(&mut self, frame: u32) {
        let frame = &mut self.frames[frame as usize];
        debug_assert!(frame.is_dirty && !frame.is_writing);
        frame.is_writing = true;
    }

    /// It was written.
    pub fn end_write(&mut self, frame: u32) {
        self.frames[frame as usize].is_writing = false;
    }

    /// Notes whether a request for a page was blocked.
    pub fn note(&mut self, page: u32, is_blocked: bool) {
        if let Some(blocking) = &mut self.blocking {
            blocking.note(page, is_blocked);
        }
    }

    /// The first `most` dirty frames in the order in which they would be victims, among the first
    /// `among`, which nobody uses or writes.
    pub fn coldest_dirty(&self, most: usize, among: usize, out: &mut Vec<u32>) {
        out.clear();
        self.policy.in_order(among, |frame| {
            let about = &self.frames[frame as usize];
            if out.len() < most && about.is_dirty && is_idle(about) {
                out.push(frame);
            }
        });
    }
}

fn is_idle(frame: &Frame) -> bool {
    frame.pins == 0 && !frame.is_reading && !frame.is_writing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(spec: &str, frames: u32) -> Pool {
        Pool::new(&Spec::parse(spec).unwrap(), frames, 100, 4).unwrap()
    }

    /// Uses pages in order and gives the victims.
    fn victims(pool: &mut Pool, uses: &[(u32, bool)]) -> Vec<u32> {
        let mut victims = Vec::new();
        for &(page, is_write) in uses {
            let frame = pool.find(page).unwrap_or_else(|| {
                let frame = pool.choose().unwrap();
                if pool.is_dirty(frame) {
                    pool.mark_writing(frame);
                    pool.begin_write(frame);
                    pool.end_write(frame);
                }
                victims.extend(pool.begin_read(frame, page));
                pool.end_read(frame);
                frame
            });
            pool.pin(frame);
            if is_write {
                pool.changed(frame, 0, 0);
            }
            pool.unpin(frame);
        }
        victims
    }

    fn reads(pages: &[u32]) -> Vec<(u32, bool)> {
        pages.iter().map(|&page| (page, false)).collect()
    }

    #[test]
    fn lru_takes_what_was_not_used_for_longest() {
        assert_eq!(victims(&mut pool("lru", 3), &reads(&[1, 2, 3, 1, 4, 2])), [2, 3]);
    }

    #[test]
    fn clock_passes_what_was_used_once() {
        // All are marked: the hand goes once round and takes the first; 2 and 3 are not marked any
        // more then, 2 is again when it was used.
        assert_eq!(victims(&mut pool("clock", 3), &reads(&[1, 2, 3, 4, 2, 5])), [1, 3]);
    }

    #[test]
    fn cflru_takes_clean_pages_first() {
        let uses = [(1, true), (2, false), (3, false), (4, false), (5, false)];
        assert_eq!(victims(&mut pool("cflru_e(window=1)", 3), &uses), [2, 3]);
        // Without a window it is LRU.
        assert_eq!(victims(&mut pool("cflru_e(window=0)", 3), &uses), [1, 2]);
    }

    #[test]
    fn cflru_e_takes_the_dirty_page_that_is_blocked_least() {
        let mut pool = pool("cflru_e(window=1)", 3);
        let uses = [(1, true), (5, true), (9, true)];
        victims(&mut pool, &uses);
        for page in [1, 9] {
            pool.note(page, true);
        }
        assert_eq!(victims(&mut pool, &[(13, true)]), [5]);
    }

    #[test]
    fn pinned_frames_are_no_victims() {
        let mut pool = pool("lru", 2);
        victims(&mut pool, &reads(&[1, 2]));
        pool.pin(pool.find(2).unwrap());
        pool.pin(pool.find(1).unwrap());
        assert_eq!(pool.choose(), None);
        pool.unpin(pool.find(2).unwrap());
        assert_eq!(pool.choose(), pool.find(2));
    }
}
