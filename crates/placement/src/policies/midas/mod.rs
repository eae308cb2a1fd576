//! MiDAS: a chain of groups that pages go down with each relocation, whose number and sizes follow
//! from the intervals between writes.

mod hot;
mod model;

use std::collections::VecDeque;

use registry::{Args, Info};
use units::{EraseBlockId, Lpn, StreamId};

use self::hot::HotFilter;
use self::model::{Configuration, Intervals, Model};
use crate::tournament::{Tournament, Worth};
use crate::{BuildError, Context, Death, Device, Features, Placement, Previous, Pull, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "midas",
    aliases: &[],
    summary: "a chain of groups down which pages go with each relocation, and one for hot pages; \
              number and sizes from the distribution of update intervals",
    source: "Oh, Kim, Han, Kim, Lee & Noh, MiDAS, FAST 2024, as its authors implement it \
             (github.com/dgist-datalab/MiDAS, algorithm/MiDAS)",
    params: &[],
};

/// The victim policy of its authors: the oldest erase block of a group that has more space than
/// planned, else Greedy in the last group.
pub const VICTIM: &str = crate::victims::own::NAME;

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 5;

/// Most groups, including the hot one.
const MOST_GROUPS: usize = 10;

/// Number of groups of an unplanned chain.
const CHAIN: usize = 5;

/// Length of an epoch, in writes for each logical page.
const EPOCH: u64 = 4;

/// Most units of space: a unit is an erase block on small devices.
const MOST_UNITS: u32 = 512;

/// A share of valid pages that differs by more than this from the expected one is irregular.
const IRREGULAR: f64 = 0.1;

const NONE: u8 = u8::MAX;

/// The closed erase blocks of one domain.
#[derive(Debug, Default)]
struct Domain {
    /// For each group that is cleaned in order, its erase blocks from the oldest on.
    queues: Vec<VecDeque<u32>>,
    closed: u32,
}

/// Group 0 has the host's writes of hot pages, group 1 the others; survivors of a group go to the
/// next one, those of the last stay in it. Groups but the last are queues of a planned size, and
/// the first queue that exceeds its size is cleaned at its oldest erase block; if none does, Greedy
/// cleans the last group.
///
/// Sizes come from a model, once per epoch of four times the logical pages: the distribution of the
/// intervals between two writes gives the share of a queue's pages that is valid when cleaned, and
/// for the last group there is a closed form for two frequencies. Sizes are searched group by
/// group. A configuration is adopted if its expected writes are below the recent ones. If a group
/// then has another share of valid pages than expected, it and those after it become one group,
/// which is cleaned by Greedy, though its pages still go down a chain of five streams. A device
/// begins in this state.
///
/// After the code of the authors. Differences, with reasons:
///
/// - They count the intervals of one page of 100, and the short ones apart, to save memory. Where
///   few pages get many of the writes it matters whether they are in the sample; here all pages
///   are.
/// - A unit of the model is a segment there. Here at most 512 units are the whole space, or the
///   search takes too long with small erase blocks.
/// - Sizes are shares of the closed erase blocks, of each plane by itself.
/// - A hot group of other than the expected share of valid pages is a victim together with group 1,
///   but stays a stream of its own.
///
/// It is for large erase blocks, as the authors' segments are. Before anything is planned hot erase
/// blocks are cleaned by Greedy, and a page is hot if it dies within their age then: the sooner
/// they are cleaned the fewer pages are hot, until the group is about one erase block. If that is
/// small (64 pages of a million, Zipf) it is too little traffic, or too much of it is valid, for
/// the model to size the group, and what is planned around it does not last. So does the authors'
/// simulator with such segments (docs/placement.md).
///
/// State: 5 bytes a page.
#[derive(Debug)]
pub struct Midas {
    hot: HotFilter,
    intervals: Intervals,
    domains: Vec<Domain>,
    heap: Tournament,
    /// The group of each closed erase block.
    groups: Vec<u8>,
    domain_of: Vec<u16>,
    /// The planned share of space of each group that is cleaned in order.
    limits: Vec<f64>,
    /// The first group that is cleaned by Greedy.
    last: usize,
    /// True if pages go down a chain from that group on.
    is_chain: bool,
    streams: usize,
    /// The expected share of valid pages of each group, and the observed ones: sums and numbers of
    /// victims.
    expected: Vec<f64>,
    seen: Vec<(f64, f64)>,
    /// Clock at which the current configuration was adopted, while it is still to be checked.
    taken_at: Option<u64>,
    relocated: u64,
    /// The clock at the start of the epoch; then the clock and the relocations at the last look.
    epoch: u64,
    looked: (u64, u64),
    write_amplification: f64,
    logical_pages: u64,
    unit: u32,
    to_close: Vec<StreamId>,
}

impl Midas {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(_args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let geometry = context.geometry;
        let spare = geometry.spare_blocks() as usize;
        let streams = (spare.saturating_sub(4) / 2).min(context.most_streams).clamp(2, MOST_GROUPS);
        let blocks = geometry.erase_blocks;
        let unit = blocks.div_ceil(MOST_UNITS) * geometry.pages_per_erase_block;
        let logical = geometry.logical_pages;
        Ok(Self {
            hot: HotFilter::new(logical),
            intervals: Intervals::new(logical, unit, EPOCH * u64::from(logical)),
            domains: Vec::new(),
            heap: Tournament::new(blocks),
            groups: vec![NONE; blocks as usize],
            domain_of: vec![0; blocks as usize],
            limits: Vec::new(),
            last: 1,
            is_chain: true,
            streams,
            expected: Vec::new(),
            seen: vec![(0.0, 0.0); streams],
            taken_at: None,
            relocated: 0,
            epoch: u64::from(logical),
            looked: (0, 0),
            write_amplification: f64::INFINITY,
            logical_pages: u64::from(logical),
            unit,
            to_close: Vec::new(),
        })
    }

    /// The last group that pages go to.
    fn bottom(&self) -> usize {
        let length = if self.is_chain { CHAIN } else { 1 };
        (self.last + length).min(self.streams) - 1
    }

    /// Returns true if a group is cleaned in order. A single group beside the hot one is cleaned
    /// with it.
    fn is_queue(&self, group: usize) -> bool {
        group < self.last && self.last > 1
    }

    /// The group of an erase block, open or closed.
    fn group(&self, block: EraseBlockId, stream: StreamId) -> usize {
        match self.groups[block.index()] {
            NONE => stream.index().min(self.bottom()),
            group => usize::from(group),
        }
    }

    /// Lists a closed erase block in its group.
    fn put(&mut self, block: EraseBlockId, group: usize, device: &Device) {
        self.groups[block.index()] = group as u8;
        let domain = usize::from(self.domain_of[block.index()]);
        if self.is_queue(group) {
            let queues = &mut self.domains[domain].queues;
            queues.resize_with(queues.len().max(group + 1), VecDeque::new);
            queues[group].push_back(block.0);
        } else {
            let worth = Worth::constant(-f64::from(device.block(block).valid));
            self.heap.insert(block, domain, worth);
        }
    }

    /// Makes the groups before `last` queues, and all others one group, or a chain. Erase blocks of
    /// groups that no longer exist go to `last`.
    fn regroup(&mut self, last: usize, is_chain: bool, device: &Device) {
        let mut joined = Vec::new();
        for block in (0..self.groups.len() as u32).map(EraseBlockId) {
            let group = self.groups[block.index()];
            if group != NONE && !self.is_queue(usize::from(group)) {
                self.heap.remove(block);
                joined.push(block);
            }
        }
        for queues in self.domains.iter_mut().map(|domain| &mut domain.queues) {
            let kept = if last > 1 { last.min(queues.len()) } else { 0 };
            joined.extend(queues.drain(kept..).flatten().map(EraseBlockId));
        }
        (self.last, self.is_chain) = (last, is_chain);
        joined.into_iter().for_each(|block| self.put(block, last, device));
        let dropped = self.bottom() + 1..self.streams;
        self.to_close = dropped.map(|stream| StreamId(stream as u32)).collect();
    }

    /// Moves the oldest erase blocks of queues that are too long to the last group.
    fn shorten(&mut self, device: &Device) {
        for number in 0..self.domains.len() {
            for group in 0..self.domains[number].queues.len() {
                while self.is_too_long(number, group) {
                    let block = self.domains[number].queues[group].pop_front();
                    self.put(EraseBlockId(block.expect("it is long")), self.last, device);
                }
            }
        }
    }

    fn is_too_long(&self, domain: usize, group: usize) -> bool {
        let domain = &self.domains[domain];
        let limit = self.limits.get(group).map_or(0.0, |limit| limit * f64::from(domain.closed));
        domain.queues.get(group).is_some_and(|queue| queue.len() as f64 > limit.max(1.0))
    }

    fn forget_seen(&mut self) {
        self.seen.fill((0.0, 0.0));
    }

    /// Looks at the state, each time the host has written as many pages as there are logical ones.
    #[cold]
    fn look(&mut self, device: &Device) {
        let (then, relocated) = self.looked;
        let written = (device.clock - then) as f64;
        self.write_amplification = 1.0 + (self.relocated - relocated) as f64 / written;
        self.looked = (device.clock, self.relocated);
        if let Some(taken_at) = self.taken_at {
            let since = device.clock - taken_at;
            if since >= EPOCH / 2 * self.logical_pages {
                self.check(device);
            } else if since >= EPOCH / 4 * self.logical_pages {
                self.forget_seen();
            }
        }
        if device.clock >= self.epoch + EPOCH * self.logical_pages {
            self.epoch = device.clock;
            self.plan(device);
        }
    }

    /// Looks for a group whose victims are not as expected.
    fn check(&mut self, device: &Device) {
        self.taken_at = None;
        let is_irregular = |(&(sum, victims), &expected): (&(f64, f64), &f64)| {
            victims > 0.0 && (sum / victims - expected).abs() > IRREGULAR
        };
        let irregular = self.seen.iter().zip(&self.expected).position(is_irregular);
        if let Some(group) = irregular {
            self.regroup(group.max(1).min(self.last), true, device);
        }
    }

    /// Ends an epoch: plans the groups anew.
    fn plan(&mut self, device: &Device) {
        let counts = self.intervals.finish();
        let Some(hot) = self.hot.take() else { return };
        // A hot group with so many valid pages is none.
        if hot.valid > if hot.size > 1.0 { 0.18 } else { 0.3 } {
            return;
        }
        let unit = f64::from(self.unit);
        let valid: u64 = device.blocks.iter().map(|block| u64::from(block.valid)).sum();
        let closed: u32 = self.domains.iter().map(|domain| domain.closed).sum();
        let space = f64::from(closed) * f64::from(device.geometry.pages_per_erase_block) / unit;
        let model = Model {
            counts: &counts,
            space,
            valid: valid as f64 / unit,
            most_groups: self.streams - 1,
            fixed: (hot.valid > 0.2 || hot.traffic < 0.15).then_some(hot),
        };
        if let Some(best) = model.best()
            && best.sizes.len() > 1
            && best.write_amplification < self.write_amplification
        {
            self.take(&best, space, device);
        }
    }

    fn take(&mut self, best: &Configuration, space: f64, device: &Device) {
        self.regroup(best.sizes.len(), false, device);
        let queues = best.sizes.split_last().map_or(&[][..], |(_, queues)| queues);
        self.limits =
            std::iter::once(&best.hot.size).chain(queues).map(|size| size / space).collect();
        self.expected = std::iter::once(&best.hot.valid).chain(&best.valid).copied().collect();
        self.taken_at = Some(device.clock);
        self.forget_seen();
        self.shorten(device);
    }
}

impl Placement for Midas {
    #[inline]
    fn features(&self) -> Features {
        // It pulls nothing: this only makes the FTL report victims without survivors.
        Features {
            uses_previous: true,
            watches_deaths: true,
            chooses_victims: true,
            closes_early: true,
            pulls: true,
            ..Features::NONE
        }
    }

    fn streams(&self) -> usize {
        self.streams
    }

    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        if device.clock >= self.looked.0 + self.logical_pages {
            self.look(device);
        }
        if device.clock >= self.epoch {
            self.intervals.write(lpn.0, device.clock - self.epoch);
        }
        let last = previous.map(|previous| {
            let group = self.group(previous.block, previous.stream);
            (group as u8, device.age_of(previous.block))
        });
        let unit = f64::from(self.unit / device.geometry.pages_per_erase_block);
        let space = f64::from(device.stream(StreamId(0)).erase_blocks) / unit;
        let is_hot = self.hot.write(lpn.0, last, device.clock, space);
        StreamId(u32::from(!is_hot))
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        _device: &Device,
        to: &mut [StreamId],
    ) {
        self.relocated += survivors.lpns.len() as u64;
        let group = self.group(survivors.block, survivors.stream);
        if group <= 1 {
            survivors.lpns.iter().for_each(|&lpn| self.hot.relocated(lpn));
        }
        to.fill(StreamId((group + 1).min(self.bottom()) as u32));
    }

    fn pulls(&mut self, survivors: Survivors<'_>, device: &Device, _pulls: &mut Vec<Pull>) {
        let group = self.group(survivors.block, survivors.stream);
        self.groups[survivors.block.index()] = NONE;
        let size = f64::from(device.geometry.pages_per_erase_block);
        let valid = survivors.lpns.len() as f64 / size;
        let (sum, victims) = self.seen[group];
        self.seen[group] = (sum + valid, victims + 1.0);
        if group == 0 {
            self.hot.cleaned(device.age_of(survivors.block), valid);
        }
    }

    #[inline]
    fn page_died(&mut self, death: Death, device: &Device) {
        if death.is_trimmed {
            self.hot.forget(death.lpn.0);
        }
        let valid = device.block(death.block).valid;
        self.heap.set(death.block, || Worth::constant(-f64::from(valid)));
    }

    fn stream_to_close(&mut self, _device: &Device) -> Option<StreamId> {
        self.to_close.pop()
    }

    fn block_closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        if self.domains.len() <= domain {
            self.domains.resize_with(domain + 1, Domain::default);
        }
        self.domains[domain].closed += 1;
        self.domain_of[block.index()] = domain as u16;
        let group = usize::from(device.block(block).stream).min(self.bottom());
        self.put(block, group, device);
    }

    fn choose_victim(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        let groups = self.domains.get(domain)?.queues.len();
        let long = (0..groups).find(|&group| self.is_too_long(domain, group));
        let of_queue = long.and_then(|group| self.domains[domain].queues[group].pop_front());
        let block = of_queue.map(EraseBlockId).or_else(|| self.heap.choose(domain, device));
        let block = block.or_else(|| {
            let mut queues = self.domains[domain].queues.iter_mut();
            queues.find_map(VecDeque::pop_front).map(EraseBlockId)
        })?;
        self.domains[domain].closed -= 1;
        Some(block)
    }

    fn victim_removed(&mut self, block: EraseBlockId, domain: usize, _device: &Device) {
        let group = usize::from(self.groups[block.index()]);
        if self.is_queue(group) {
            self.domains[domain].queues[group].retain(|&other| other != block.0);
        } else {
            self.heap.remove(block);
        }
        self.domains[domain].closed -= 1;
    }

    fn stream_label(&self, stream: StreamId) -> String {
        let kind = if stream.0 == 0 { " (hot)" } else { "" };
        format!("group {}{kind}", stream.0)
    }
}

#[cfg(test)]
mod tests {
    use registry::Spec;
    use units::{EraseBlockId, Geometry, StreamId};

    use super::model::{Configuration, Hot};
    use super::{INFO, Midas};
    use crate::{Block, Context, Device, Placement as _, Survivors};

    fn made() -> (Midas, Device) {
        let geometry = Geometry::with_over_provisioning(4096, 16, 16 * 200, 0.25).expect("valid");
        let args = INFO.accept(&Spec::parse("midas").expect("a spec")).expect("parameters");
        let midas = Midas::build(&args, &Context::new(geometry, 1)).expect("a policy");
        (midas, Device::new(geometry, 10))
    }

    fn close(midas: &mut Midas, device: &mut Device, blocks: std::ops::Range<u32>, group: u16) {
        for block in blocks {
            device.blocks[block as usize] = Block { valid: 16 - block % 4, stream: group };
            midas.block_closed(EraseBlockId(block), 0, device);
        }
    }

    /// The group that the survivors of an erase block go to.
    fn below(midas: &mut Midas, device: &Device, block: u32) -> u32 {
        let stream = StreamId(u32::from(device.blocks[block as usize].stream));
        let (offsets, lpns) = (&[0][..], &[7][..]);
        let survivors = Survivors { block: EraseBlockId(block), stream, offsets, lpns };
        let mut to = [StreamId(0)];
        midas.relocation_streams(survivors, device, &mut to);
        midas.pulls(survivors, device, &mut Vec::new());
        to[0].0
    }

    /// Two queues, of 5 and 20 % of the space, and a last group.
    fn planned() -> (Midas, Device) {
        let (mut midas, mut device) = made();
        close(&mut midas, &mut device, 0..20, 0);
        close(&mut midas, &mut device, 20..60, 1);
        close(&mut midas, &mut device, 60..100, 4);
        let hot = Hot { traffic: 0.5, size: 5.0, valid: 0.0 };
        let (sizes, valid) = (vec![20.0, 75.0], vec![0.6, 0.8]);
        let best = Configuration { hot, sizes, valid, write_amplification: 1.5 };
        midas.take(&best, 100.0, &device);
        (midas, device)
    }

    #[test]
    fn pages_go_down_a_chain_before_anything_is_planned() {
        let (mut midas, mut device) = made();
        for (group, expected) in [1, 2, 3, 4, 5, 5].into_iter().enumerate() {
            let block = group as u32;
            close(&mut midas, &mut device, block..block + 1, group as u16);
            assert_eq!(below(&mut midas, &device, block), expected);
        }
        let (mut midas, mut device) = made();
        close(&mut midas, &mut device, 0..3, 0);
        close(&mut midas, &mut device, 3..6, 1);
        assert_eq!(midas.choose_victim(0, &device), Some(EraseBlockId(3)), "by Greedy");
    }

    /// All existing erase blocks belong to the last group; queues fill again, and are cleaned at
    /// their oldest.
    #[test]
    fn a_queue_that_is_too_long_is_cleaned_at_its_oldest() {
        let (mut midas, mut device) = planned();
        assert_eq!(below(&mut midas, &device, 3), 2, "it is of the last group now");
        close(&mut midas, &mut device, 120..145, 1);
        assert_eq!(midas.choose_victim(0, &device).map(|block| block.0 % 4), Some(3), "by Greedy");
        close(&mut midas, &mut device, 145..155, 1);
        let victim = midas.choose_victim(0, &device).expect("a victim");
        assert_eq!(victim, EraseBlockId(120), "more than a fifth");
        assert_eq!(below(&mut midas, &device, victim.0), 2);
    }

    /// A group that is not as expected and those after it are one chain.
    #[test]
    fn an_irregular_group_is_joined_with_those_after_it() {
        for (seen, expected) in [(0.65, 2), (0.8, 1)] {
            let (mut midas, mut device) = planned();
            close(&mut midas, &mut device, 120..130, 1);
            midas.seen[1] = (10.0 * seen, 10.0);
            midas.seen[2] = (10.0 * 0.8, 10.0);
            midas.check(&device);
            assert_eq!((midas.last, midas.is_chain), (expected, expected == 1), "{seen}");
        }
    }
}
