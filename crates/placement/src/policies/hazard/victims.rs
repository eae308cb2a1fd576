//! Choice of victims: the erase block with the greatest gain over the whole cycle that its
//! survivors begin.

use units::EraseBlockId;

use super::pages::{PASTS, TICKS, past};
use super::ranks::Ranks;
use crate::Device;

/// Basis on which the hazard of the valid pages of an erase block is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// There is one stream: all are alike, and those with the fewest valid pages gain most.
    Alike,
    /// Deaths are independent: the hazard expected when it was written, and its own deaths since.
    ByStream,
    /// Deaths come in bursts: its own deaths, since it was written and recently.
    ByItself,
}

/// Record of an erase block: half a cache line, as a death reads one of these.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Known {
    /// Clock in the middle of the time in which it was written.
    born: u32,
    /// Number of valid pages, and the clock, at the last fall by 2 %.
    mark: (u32, u32),
    /// Clock of the last death.
    last: u32,
    /// Number of valid pages down to which deaths need no further work.
    wake: u32,
    /// Number of valid pages at which it is listed.
    list_at: u32,
    /// Logarithm of the hazard that was expected of its pages when it was written.
    expected: i16,
    /// Logarithm of the hazard of its valid pages, as estimated now.
    believed: i16,
    rank: u16,
    domain: u16,
}

/// Values in place of a rank: the erase block is open or erased, or its rank is too low to be
/// listed.
const ABSENT: u16 = u16::MAX;
const UNLISTED: u16 = u16::MAX - 1;

/// Value in place of an expected hazard: that of pages not written since the load changed, of the
/// first class; the next values are the next classes.
const STALE: i16 = i16::MIN;

/// Steps per octave of ranks and of logarithms.
const OCTAVE: f32 = 32.0;

/// Number of ranks of erase blocks that are judged by their hazard; then the lowest octave.
const RANKS: usize = 2048;
const LOWEST: f32 = -28.0;

/// The valid pages have to fall by one part in this many to count as news.
const FALL: u32 = 50;

/// The best of `LISTED` closed erase blocks is listed.
const LISTED: u32 = 16;

/// Number of erase blocks that are judged again at each choice, in turn, where time changes their
/// ranks.
const IN_TURN: usize = 32;

/// Weight of the expected hazard, as a number of deaths seen.
const WEIGHT: f32 = 16.0;

/// Most retries of a choice because the best turned out to be worse.
const TRIES: usize = 32;

/// Closed erase blocks, ordered by the gain of cleaning them.
///
/// Only the best are in lists; others are listed when they have lost enough pages. The floors below
/// which none is listed are set again at each plan, and when a domain has no listed ones left.
#[derive(Debug)]
pub struct Victims {
    ranks: Ranks,
    known: Vec<Known>,
    domains: Vec<Domain>,
    /// Indexed by valid pages: the rank of a victim's gain at hazard 1 per tick, ln(E / (1 - E) +
    /// ln(1 - E)).
    gains: Vec<i16>,
    /// Indexed by valid pages: -ln of their share.
    decay: Vec<f32>,
    judged: Judged,
    /// Logarithm of the hazard of each stream.
    streams: Vec<i16>,
    /// The same for pages that were not written since the load changed, by their class before.
    stale: [i16; PASTS],
    /// Number of valid pages of each erase block when its deaths began to count.
    whole: Vec<u32>,
    /// Host page writes per tick.
    tick: f32,
    turn: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Domain {
    closed: u32,
    /// The least rank that is listed.
    floor: u16,
}

/// Logarithm of a hazard per tick.
fn log(hazard: f32) -> i16 {
    (hazard.log2() * OCTAVE) as i16
}

impl Victims {
    pub fn new(erase_blocks: u32, pages_per_erase_block: u32, streams: usize, tick: u64) -> Self {
        let share = |valid: u32| f64::from(valid) / f64::from(pages_per_erase_block);
        let gain = |valid: u32| (1.0 / share(valid) - 1.0 + share(valid).ln()) as f32;
        let decay = |valid: u32| -share(valid).ln() as f32;
        let ranks = RANKS.max(pages_per_erase_block as usize + 1);
        let absent = Known {
            born: 0,
            mark: (0, 0),
            last: 0,
            wake: 0,
            list_at: 0,
            expected: 0,
            believed: 0,
            rank: ABSENT,
            domain: 0,
        };
        Self {
            ranks: Ranks::new(erase_blocks, ranks),
            known: vec![absent; erase_blocks as usize],
            domains: vec![Domain::default()],
            gains: (0..=pages_per_erase_block).map(|valid| log(gain(valid))).collect(),
            decay: (0..=pages_per_erase_block).map(decay).collect(),
            judged: Judged::Alike,
            streams: vec![log(1.0 / TICKS as f32); streams],
            stale: [log(1.0 / TICKS as f32); PASTS],
            whole: vec![pages_per_erase_block; erase_blocks as usize],
            tick: tick as f32,
            turn: 0,
        }
    }

    /// Sets the basis of judgement, and the hazard per tick with which erase blocks of each stream
    /// are written from now on. Those that are closed keep their expected hazard.
    pub fn judge(&mut self, judged: Judged, hazards: &[f64], stale: [f32; PASTS], device: &Device) {
        self.judged = judged;
        self.stale = stale.map(log);
        for (stream, &hazard) in self.streams.iter_mut().zip(hazards) {
            *stream = log(hazard as f32);
        }
        self.rank_all(device);
    }

    /// Records a change of the load: closed erase blocks are judged by their deaths from now on,
    /// and by the hazard expected of pages that were written before the change.
    pub fn part(&mut self, device: &Device) {
        for (number, known) in self.known.iter_mut().enumerate() {
            if known.rank == ABSENT || device.blocks[number].valid == 0 {
                continue;
            }
            self.whole[number] = device.blocks[number].valid;
            known.born = device.clock as u32;
            if known.expected >= STALE + PASTS as i16 {
                let hazard = (f32::from(known.expected) / OCTAVE).exp2();
                known.expected = STALE + past(hazard) as i16;
            }
        }
    }

    pub fn closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        if domain >= self.domains.len() {
            self.domains.resize(domain + 1, Domain::default());
            self.ranks.add_domains(domain + 1);
        }
        self.domains[domain].closed += 1;
        let now = device.clock as u32;
        let opened = device.opened_at[block.index()];
        let known = device.block(block);
        let expected = self.streams[usize::from(known.stream)];
        self.whole[block.index()] = self.decay.len() as u32 - 1;
        self.known[block.index()] = Known {
            born: opened.wrapping_add(now.wrapping_sub(opened) / 2),
            mark: (known.valid, now),
            last: now,
            wake: 0,
            list_at: 0,
            expected,
            believed: expected,
            rank: UNLISTED,
            domain: domain as u16,
        };
        self.rank_again(block.0, device);
    }

    #[inline]
    pub fn died(&mut self, block: EraseBlockId, device: &Device) {
        let known = &mut self.known[block.index()];
        known.last = device.clock as u32;
        if device.block(block).valid <= known.wake && known.rank != ABSENT {
            self.woken(block.0, device);
        }
    }

    fn woken(&mut self, block: u32, device: &Device) {
        let known = &mut self.known[block as usize];
        let valid = device.blocks[block as usize].valid;
        if valid <= fallen(known.mark.0) {
            known.mark = (valid, device.clock as u32);
        }
        let is_listed = known.rank != UNLISTED;
        // A burst lowers the rank of an unlisted erase block; the gain that it makes with time is
        // found when its turn comes.
        if valid == 0 || is_listed || valid <= known.list_at && self.judged != Judged::ByItself {
            self.rank_again(block, device);
        } else {
            known.wake = fallen(known.mark.0).max(known.list_at);
        }
    }

    pub fn choose(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        if self.domains.get(domain).is_none_or(|domain| domain.closed == 0) {
            return None;
        }
        if self.judged == Judged::ByItself {
            for _ in 0..IN_TURN.min(self.known.len()) {
                self.turn = (self.turn + 1) % self.known.len();
                if self.known[self.turn].rank != ABSENT {
                    self.rank_again(self.turn as u32, device);
                }
            }
        }
        for _ in 0..TRIES {
            let Some(block) = self.ranks.best(domain) else {
                self.rank_all(device);
                continue;
            };
            let last = self.known[block as usize].rank;
            self.rank_again(block, device);
            let rank = self.known[block as usize].rank;
            if rank != UNLISTED && rank >= last {
                break;
            }
        }
        let block = EraseBlockId(self.ranks.best(domain)?);
        self.removed(block, domain);
        Some(block)
    }

    pub fn removed(&mut self, block: EraseBlockId, domain: usize) {
        let rank = std::mem::replace(&mut self.known[block.index()].rank, ABSENT);
        if rank != UNLISTED {
            self.ranks.remove(domain, rank, block.0);
        }
        self.domains[domain].closed -= 1;
    }

    /// Ranks a closed erase block, and lists it if its rank is high enough.
    fn rank_again(&mut self, block: u32, device: &Device) {
        if self.judged == Judged::ByStream {
            self.known[block as usize].believed = self.believed(block, device);
        }
        let rank = self.rank(block, device);
        self.put(block, rank, device);
    }

    fn put(&mut self, block: u32, rank: u16, device: &Device) {
        let known = &mut self.known[block as usize];
        let domain = usize::from(known.domain);
        let floor = self.domains[domain].floor;
        let rank = if rank < floor { UNLISTED } else { rank };
        if rank != known.rank {
            if known.rank != UNLISTED {
                self.ranks.remove(domain, known.rank, block);
            }
            if rank != UNLISTED {
                self.ranks.insert(domain, rank, block);
            }
            known.rank = rank;
        }
        let valid = device.blocks[block as usize].valid;
        if rank != UNLISTED {
            known.wake = valid.saturating_sub(1);
            return;
        }
        let size = self.gains.len() as u32 - 1;
        known.list_at = match self.judged {
            Judged::Alike => size.saturating_sub(u32::from(floor)),
            Judged::ByStream => {
                let lowest = (LOWEST * OCTAVE) as i32;
                let needed = i32::from(floor) + lowest + i32::from(known.believed);
                let enough = |gain: &i16| i32::from(*gain) >= needed;
                (self.gains.partition_point(enough) as u32).saturating_sub(1)
            }
            Judged::ByItself => 0,
        };
        // An unlisted erase block was just found not good enough: look again at its next loss at
        // the earliest.
        known.list_at = known.list_at.min(valid.saturating_sub(1));
        known.wake = fallen(known.mark.0).max(known.list_at);
    }

    /// Sets the floors so that the best of each domain are listed.
    #[cold]
    fn rank_all(&mut self, device: &Device) {
        let ranks = RANKS.max(self.gains.len()).next_multiple_of(64);
        let mut counts = vec![0u32; self.domains.len() * ranks];
        for block in 0..self.known.len() as u32 {
            let known = self.known[block as usize];
            if known.rank == ABSENT {
                continue;
            }
            if known.rank != UNLISTED {
                self.ranks.remove(usize::from(known.domain), known.rank, block);
                self.known[block as usize].rank = UNLISTED;
            }
            if self.judged == Judged::ByStream {
                self.known[block as usize].believed = self.believed(block, device);
            }
            let rank = self.rank(block, device);
            counts[usize::from(known.domain) * ranks + usize::from(rank)] += 1;
        }
        for (domain, counts) in self.domains.iter_mut().zip(counts.chunks(ranks)) {
            let mut listed = 0;
            let enough = counts.iter().rposition(|&count| {
                listed += count;
                listed >= domain.closed.div_ceil(LISTED)
            });
            domain.floor = enough.unwrap_or(0) as u16;
        }
        for block in 0..self.known.len() as u32 {
            if self.known[block as usize].rank != ABSENT {
                let rank = self.rank(block, device);
                self.put(block, rank, device);
            }
        }
    }

    /// Rank of an erase block by the gain of cleaning it.
    fn rank(&self, block: u32, device: &Device) -> u16 {
        let valid = device.blocks[block as usize].valid;
        let highest = self.gains.len().max(RANKS) as u16 - 1;
        if valid == 0 {
            return highest;
        }
        let gain = i32::from(self.gains[valid as usize]);
        let lowest = (LOWEST * OCTAVE) as i32;
        let rank = match self.judged {
            Judged::Alike => self.gains.len() as i32 - 1 - valid as i32,
            Judged::ByStream => gain - i32::from(self.known[block as usize].believed) - lowest,
            Judged::ByItself => {
                let (own, recent) = self.own_hazards(block, device);
                gain - i32::from(log((own * recent).sqrt() * self.tick)) - lowest
            }
        };
        rank.clamp(0, i32::from(highest) - 1) as u16
    }

    /// The expected hazard, corrected by the deaths since: as if the expectation came from some
    /// deaths that had been seen before (a gamma prior).
    fn believed(&self, block: u32, device: &Device) -> i16 {
        let known = &self.known[block as usize];
        let valid = device.blocks[block as usize].valid as usize;
        let whole = self.whole[block as usize] as usize;
        let seen = (whole - valid) as f32;
        let ticks = (device.clock as u32).wrapping_sub(known.born) as f32 / self.tick;
        let expected = self.expected(known.expected);
        if valid == 0 {
            return expected;
        }
        let expected = (f32::from(expected) / OCTAVE).exp2();
        let decay = self.decay[valid] - self.decay[whole];
        let lived = if seen > 0.0 { seen / decay } else { valid as f32 } * ticks;
        log((WEIGHT + seen) / (WEIGHT / expected + lived))
    }

    /// The hazard that was expected of an erase block.
    fn expected(&self, expected: i16) -> i16 {
        let past = expected.wrapping_sub(STALE) as usize;
        if past < PASTS { self.stale[past] } else { expected }
    }

    /// Hazards of the erase block by its own deaths, since it was written and recently, per host
    /// page write.
    fn own_hazards(&self, block: u32, device: &Device) -> (f32, f32) {
        let known = &self.known[block as usize];
        let now = device.clock as u32;
        let valid = device.blocks[block as usize].valid;
        let since = |then: u32| now.wrapping_sub(then).max(1) as f32;
        // Half a death is added: no deaths seen does not mean a hazard of zero.
        let half = 0.5 / valid as f32;
        let whole = self.whole[block as usize] as usize;
        let own = (self.decay[valid as usize] - self.decay[whole] + half) / since(known.born);
        let (then, at) = known.mark;
        let recent = (self.decay[valid as usize] - self.decay[then as usize] + half) / since(at);
        (own, recent)
    }

    /// Signs of an erase block that may predict its next deaths; `None` if it is not closed, or
    /// empty.
    pub fn signs(&self, block: u32, device: &Device) -> Option<Signs> {
        let valid = device.blocks[block as usize].valid;
        let known = &self.known[block as usize];
        if known.rank == ABSENT || valid == 0 {
            return None;
        }
        let (own, recent) = self.own_hazards(block, device);
        let since = (device.clock as u32).wrapping_sub(known.last).max(1);
        let expected = f32::from(self.expected(known.expected)) / OCTAVE * std::f32::consts::LN_2;
        let logs = [own.ln(), recent.ln(), -(since as f32).ln(), expected - self.tick.ln()];
        Some(Signs { valid, born: known.born, logs })
    }
}

/// The number of valid pages at which a fall from `valid` counts as news.
fn fallen(valid: u32) -> u32 {
    valid - valid.div_ceil(FALL)
}

/// Signs that may predict how many pages of an erase block die next.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    pub valid: u32,
    /// Clock in the middle of the time in which it was written: another value means that it was
    /// rewritten.
    pub born: u32,
    /// Logarithms of its own hazard, of its recent hazard, of the inverse of the time since the
    /// last death, and of the expected hazard, per host page write.
    pub logs: [f32; 4],
}

#[cfg(test)]
mod tests {
    use units::{EraseBlockId, Geometry};

    use super::{Judged, PASTS, Victims};
    use crate::{Block, Device};

    const PAGES: u32 = 64;
    const HOT: f64 = 0.1;
    const COLD: f64 = 0.001;
    const STALE: [f32; PASTS] = [0.001; PASTS];

    /// Erase blocks 0 of stream 0, and 1 of stream 1, half of whose pages die at once.
    fn two_half_dead(victims: &mut Victims) -> Device {
        let geometry = Geometry::with_over_provisioning(4096, PAGES, 64 * 64, 0.2).expect("valid");
        let mut device = Device::new(geometry, 2);
        victims.judge(Judged::ByStream, &[COLD, HOT], STALE, &device);
        for number in 0..2 {
            device.blocks[number] = Block { valid: PAGES, stream: number as u16 };
            victims.closed(EraseBlockId(number as u32), 0, &device);
        }
        device.clock += 100;
        for _ in 0..PAGES / 2 {
            for number in 0..2 {
                device.blocks[number].valid -= 1;
                victims.died(EraseBlockId(number as u32), &device);
            }
        }
        device
    }

    fn victims() -> Victims {
        Victims::new(80, PAGES, 2, 1)
    }

    #[test]
    fn of_equal_erase_blocks_the_colder_is_the_victim() {
        let mut victims = victims();
        let device = two_half_dead(&mut victims);
        assert_eq!(victims.choose(0, &device), Some(EraseBlockId(0)));
        assert_eq!(victims.choose(0, &device), Some(EraseBlockId(1)));
        assert_eq!(victims.choose(0, &device), None);
    }

    /// When space is planned again, a stream may get other pages. Once, erase blocks written before
    /// were judged by what the stream writes now, and cold ones were never cleaned.
    #[test]
    fn what_an_erase_block_was_written_for_outlasts_the_plan() {
        let mut victims = victims();
        let device = two_half_dead(&mut victims);
        victims.judge(Judged::ByStream, &[HOT, COLD], STALE, &device);
        assert_eq!(victims.choose(0, &device), Some(EraseBlockId(0)));
    }

    /// The expected hazard may be wrong; an erase block must not be kept for ever because of it.
    #[test]
    fn deaths_correct_what_was_expected() {
        let mut victims = victims();
        let mut device = two_half_dead(&mut victims);
        device.clock += 1_000_000;
        victims.judge(Judged::ByStream, &[COLD, HOT], STALE, &device);
        let expected = victims.known[1].expected;
        assert!(victims.known[1].believed < expected - 5 * 32, "not a 32nd of what was expected");
    }

    /// After a change of the load the expected hazard is void, and only deaths since then count.
    #[test]
    fn erase_blocks_of_before_a_change_are_judged_by_their_deaths_since() {
        let mut victims = victims();
        let mut device = two_half_dead(&mut victims);
        victims.part(&device);
        victims.judge(Judged::ByStream, &[COLD, HOT], STALE, &device);
        let believed = |victims: &Victims| [0, 1].map(|block| victims.believed(block, &device));
        assert_eq!(believed(&victims)[0], believed(&victims)[1]);
        device.clock += 10;
        device.blocks[1].valid /= 2;
        assert!(victims.believed(1, &device) > victims.believed(0, &device) + 16);
    }

    #[test]
    fn empty_erase_blocks_come_first_and_removed_ones_never() {
        for judged in [Judged::Alike, Judged::ByStream, Judged::ByItself] {
            let mut victims = victims();
            let mut device = two_half_dead(&mut victims);
            victims.judge(judged, &[COLD, HOT], STALE, &device);
            while device.blocks[1].valid > 0 {
                device.blocks[1].valid -= 1;
                victims.died(EraseBlockId(1), &device);
            }
            assert_eq!(victims.choose(0, &device), Some(EraseBlockId(1)), "{judged:?}");
            victims.removed(EraseBlockId(0), 0);
            assert_eq!(victims.choose(0, &device), None, "{judged:?}");
        }
    }

    /// Unlisted erase blocks are found when none is listed any more, in each domain.
    #[test]
    fn every_closed_erase_block_is_chosen_once() {
        for judged in [Judged::Alike, Judged::ByStream, Judged::ByItself] {
            let mut victims = victims();
            let geometry =
                Geometry::with_over_provisioning(4096, PAGES, 64 * 64, 0.2).expect("valid");
            let mut device = Device::new(geometry, 2);
            victims.judge(judged, &[COLD, HOT], STALE, &device);
            for number in 0..70 {
                device.clock += 64;
                device.blocks[number] = Block { valid: PAGES, stream: number as u16 % 2 };
                victims.closed(EraseBlockId(number as u32), number % 3, &device);
                for _ in 0..number % 64 {
                    device.blocks[number].valid -= 1;
                    victims.died(EraseBlockId(number as u32), &device);
                }
            }
            let mut chosen: Vec<u32> = (0..3)
                .flat_map(|domain| {
                    let all = std::iter::from_fn(|| victims.choose(domain, &device));
                    all.map(|block| block.0).collect::<Vec<_>>()
                })
                .collect();
            chosen.sort_unstable();
            assert_eq!(chosen, (0..70).collect::<Vec<_>>(), "{judged:?}");
        }
    }
}
