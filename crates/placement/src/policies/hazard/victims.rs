//! Which erase block is cleaned: the one whose cleaning gains most over the whole cycle that its
//! survivors begin anew.

use units::EraseBlockId;

use super::heap::Heaps;
use crate::Device;

/// How the hazard of what is left in an erase block is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// There is one stream: all are alike, and the fewest valid pages gain most.
    Alike,
    /// Deaths are independent: the mean hazard of its stream.
    ByStream,
    /// Deaths come in bursts: its own, since it was written and of late.
    ByItself,
}

/// What is known of the deaths in an erase block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaths {
    /// Clock in the middle of its being written.
    born: u32,
    /// Valid pages, and the clock, at the last fall by 2 %.
    mark: (u32, u32),
    /// Clock of the last death.
    last: u32,
    /// It is judged anew when so many pages are valid.
    wake: u32,
}

/// A fall of the valid pages that counts as news.
const FALL: u32 = 50;

/// Erase blocks that are judged anew at each choice, in turn.
const IN_TURN: usize = 32;

/// The best as they were last judged, which are judged anew before a choice.
const BEST: usize = 31;

/// Closed erase blocks by what cleaning them gains.
#[derive(Debug)]
pub struct Victims {
    heaps: Heaps,
    domain: Vec<u16>,
    deaths: Vec<Deaths>,
    /// By valid pages: what a victim gains at hazard 1, E / (1 - E) + ln(1 - E).
    gains: Vec<f32>,
    /// By valid pages: -ln of their share.
    decay: Vec<f32>,
    judged: Judged,
    /// Hazard of each stream, a host page write.
    streams: Vec<f32>,
    turn: usize,
    /// The score of the last victim.
    last: f32,
}

impl Victims {
    pub fn new(erase_blocks: u32, pages_per_erase_block: u32, streams: usize) -> Self {
        let share = |valid: u32| f64::from(valid) / f64::from(pages_per_erase_block);
        let gain = |valid: u32| (1.0 / share(valid) - 1.0 + share(valid).ln()) as f32;
        let decay = |valid: u32| -share(valid).ln() as f32;
        Self {
            heaps: Heaps::new(erase_blocks),
            domain: vec![0; erase_blocks as usize],
            deaths: vec![Deaths::default(); erase_blocks as usize],
            gains: (0..=pages_per_erase_block).map(gain).collect(),
            decay: (0..=pages_per_erase_block).map(decay).collect(),
            judged: Judged::Alike,
            streams: vec![1.0; streams],
            turn: 0,
            last: 0.0,
        }
    }

    /// Each stream has this hazard from now on, a host page write, and erase blocks are judged so.
    pub fn judge(&mut self, judged: Judged, streams: &[f32], device: &Device) {
        self.judged = judged;
        self.streams.copy_from_slice(streams);
        self.last = 0.0;
        // By number, not by place: changing keys moves erase blocks about in their heaps.
        for block in 0..self.domain.len() as u32 {
            if self.heaps.contains(block) {
                self.judge_anew(usize::from(self.domain[block as usize]), block, device);
            }
        }
    }

    pub fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        let now = device.clock as u32;
        let opened = device.opened_at[block.index()];
        let born = opened.wrapping_add(now.wrapping_sub(opened) / 2);
        let valid = device.block(block).valid;
        self.deaths[block.index()] = Deaths { born, mark: (valid, now), last: now, wake: 0 };
        self.domain[block.index()] = domain as u16;
        let score = self.score(block.0, device);
        self.heaps.insert(domain, block.0, score);
        self.set_wake(block.0, valid, score);
    }

    #[inline]
    pub fn died(&mut self, block: EraseBlockId, device: &Device) {
        if !self.heaps.contains(block.0) {
            return;
        }
        let deaths = &mut self.deaths[block.index()];
        let valid = device.block(block).valid;
        deaths.last = device.clock as u32;
        let marked = deaths.mark.0;
        if valid + marked.div_ceil(FALL) <= marked {
            deaths.mark = (valid, device.clock as u32);
        }
        if valid <= deaths.wake {
            self.judge_anew(usize::from(self.domain[block.index()]), block.0, device);
        }
    }

    pub fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        let heap = self.heaps.of(domain);
        if heap.is_empty() {
            return None;
        }
        if self.judged == Judged::ByItself {
            let size = heap.len();
            for _ in 0..IN_TURN.min(size) {
                self.turn = (self.turn + 1) % size;
                let block = self.heaps.of(domain)[self.turn];
                self.judge_anew(domain, block, device);
            }
            for place in (0..BEST.min(size)).rev() {
                let block = self.heaps.of(domain)[place];
                self.judge_anew(domain, block, device);
            }
        }
        let block = self.heaps.of(domain)[0];
        self.last = self.heaps.key(block);
        self.heaps.remove(domain, block);
        Some(EraseBlockId(block))
    }

    pub fn removed(&mut self, block: EraseBlockId, domain: usize) {
        self.heaps.remove(domain, block.0);
    }

    fn judge_anew(&mut self, domain: usize, block: u32, device: &Device) {
        let score = self.score(block, device);
        if score != self.heaps.key(block) {
            self.heaps.change(domain, block, score);
        }
        self.set_wake(block, device.blocks[block as usize].valid, score);
    }

    /// Near the best every death counts; far from it only news do.
    #[inline]
    fn set_wake(&mut self, block: u32, valid: u32, score: f32) {
        let near = score > 0.7 * self.last;
        let step = if near { 1 } else { (valid / FALL).max(1) };
        self.deaths[block as usize].wake = valid.saturating_sub(step);
    }

    /// What cleaning an erase block gains, in any unit.
    fn score(&self, block: u32, device: &Device) -> f32 {
        let known = device.blocks[block as usize];
        if known.valid == 0 {
            return f32::INFINITY;
        }
        match self.judged {
            Judged::Alike => self.decay[known.valid as usize],
            Judged::ByStream => {
                self.gains[known.valid as usize] / self.streams[usize::from(known.stream)]
            }
            Judged::ByItself => {
                let (own, recent) = self.own_hazards(block, device);
                self.gains[known.valid as usize] / (own * recent).sqrt()
            }
        }
    }

    /// Its hazard since it was written, and of late, a host page write.
    fn own_hazards(&self, block: u32, device: &Device) -> (f32, f32) {
        let deaths = &self.deaths[block as usize];
        let now = device.clock as u32;
        let valid = device.blocks[block as usize].valid;
        let since = |then: u32| now.wrapping_sub(then).max(1) as f32;
        // Half a death more than were seen: none seen does not mean that there are none.
        let half = 0.5 / valid as f32;
        let own = (self.decay[valid as usize] + half) / since(deaths.born);
        let (then, at) = deaths.mark;
        let recent =
            (self.decay[valid as usize] - self.decay[then as usize] + half) / since(at);
        (own, recent)
    }

    /// What may tell the next deaths of an erase block.
    pub fn signs(&self, block: u32, device: &Device) -> Option<Signs> {
        let valid = device.blocks[block as usize].valid;
        if !self.heaps.contains(block) || valid == 0 {
            return None;
        }
        let (own, recent) = self.own_hazards(block, device);
        let since = (device.clock as u32).wrapping_sub(self.deaths[block as usize].last).max(1);
        let stream = self.streams[usize::from(device.blocks[block as usize].stream)];
        let born = self.deaths[block as usize].born;
        Some(Signs { valid, born, logs: [own.ln(), recent.ln(), -(since as f32).ln(), stream.ln()] })
    }
}

/// What may tell how many pages of an erase block die next.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    pub valid: u32,
    /// Tells whether the erase block was written anew.
    pub born: u32,
    /// Logarithms of its own hazard, of that of late, of the inverse of the time since the last
    /// death, and of its stream's hazard.
    pub logs: [f32; 4],
}
