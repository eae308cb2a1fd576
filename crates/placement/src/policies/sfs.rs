//! SFS: pages of the same hotness, writes over age, in the same group; groups are found by
//! clustering the erase blocks.

use registry::{Args, Info, Param, ParamKind};
use units::{EraseBlockId, Lpn, PageOp, StreamId};

use crate::tournament::{Tournament, Worth};
use crate::{BuildError, Context, Death, Device, Features, Place, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "sfs",
    aliases: &[],
    summary: "groups of the same hotness, writes over age, found by clustering the erase blocks; \
              victims by garbage over cost and hotness",
    source: "Min, Kim, Cho, Lee & Eom, FAST 2012",
    params: &[Param {
        name: "groups",
        kind: ParamKind::Integer { min: 1, max: 64 },
        default: "6",
        help: "segment groups; 6 are those of SepBIT's comparison",
    }],
};

/// The victim policy of its authors, cost-hotness.
pub const VICTIM: &str = crate::victims::own::NAME;

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 8;

/// Most rounds of a clustering ("three times at most").
const ROUNDS: usize = 3;

/// Centres move at the earliest when the host has written one part in this many of the erase
/// blocks since their last move.
const PART: u64 = 16;

/// Ticks in which every page is written once: the number of the tick fits into 32 bits until pages
/// have been written 2^14 times.
const TICKS: u32 = 1 << 18;

/// Record of a page. If it has no writes, the policy did not see it placed.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    writes: u32,
    /// Tick of the last write.
    at: u32,
}

/// Sums over the valid pages of an erase block.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    writes: u64,
    at: u64,
}

/// The hotness of a page is its number of writes over the time since the last of them, that of an
/// erase block the mean number of its valid pages over their mean age. Each page that is written or
/// relocated goes to the group whose centre is nearest to its hotness. Centres are those of a
/// k-means clustering of the erase blocks by hotness, which goes on from the last ones. A victim
/// has the greatest (1 - u) / (2 u h), with u the share of valid pages and h the hotness.
///
/// After the authors' text and the implementation by SepBIT's authors (github.com/fallfish/sepbit,
/// `trace_replay`: `SFS.java`, `CostHotness.java`). Differences, with reasons:
///
/// - The authors hold back writes and survivors in memory until a group fills a segment. A flash
///   device may not wait; each group has an erase block open.
/// - A page without a history has its file's hotness in the text. Files are not known here; it is
///   as hot as can be, as in SepBIT's reading.
/// - A victim's share of garbage is at least the spare share of the device, if there is such a one.
///   SepBIT's simulator has this floor for all policies. Without it erase blocks are cleaned that
///   are very cold and all but full, again and again.
/// - Centres are moved at a cleaning, as in SepBIT's reading, but only if as many pages as a
///   sixteenth of the erase blocks were written since they were moved last: all erase blocks are
///   looked at. The less often, the fewer relocations (docs/placement.md has both).
///
/// State: 8 bytes per page.
#[derive(Debug)]
pub struct Sfs {
    pages: Vec<Page>,
    sums: Vec<Sums>,
    /// Hottest first.
    centres: Vec<f64>,
    hotness: Vec<f64>,
    /// The erase block that was written last, by group.
    open: Vec<u32>,
    /// Host page writes per tick.
    tick: u64,
    /// The clock at which the centres may be moved again.
    next_move: u64,
    victims: Tournament,
    /// Most valid pages of a victim that has enough garbage.
    floor: u32,
    left_out: usize,
}

impl Sfs {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let geometry = context.geometry;
        let asked = args.integer("groups") as usize;
        let groups = asked.min(context.most_streams.max(1));
        let used = f64::from(geometry.logical_pages) / f64::from(geometry.physical_pages());
        Ok(Self {
            pages: vec![Page::default(); geometry.logical_pages as usize],
            sums: vec![Sums::default(); geometry.erase_blocks as usize],
            centres: vec![0.0; groups],
            open: vec![u32::MAX; groups],
            hotness: Vec::with_capacity(geometry.erase_blocks as usize),
            tick: u64::from(geometry.logical_pages.div_ceil(TICKS)),
            next_move: 0,
            victims: Tournament::new(geometry.erase_blocks),
            floor: (used * f64::from(geometry.pages_per_erase_block)) as u32,
            left_out: asked - groups,
        })
    }

    /// Hotness of a page: writes over age in ticks. A page that was written in this tick is half a
    /// tick old.
    fn hotness(&self, lpn: u32, device: &Device) -> f64 {
        let page = self.pages[lpn as usize];
        if page.writes == 0 {
            return f64::INFINITY;
        }
        let age = ((device.clock / self.tick) as u32).wrapping_sub(page.at);
        f64::from(page.writes) / (f64::from(age) + 0.5)
    }

    /// The group whose centre is nearest.
    fn group(&self, hotness: f64) -> StreamId {
        // The centres are sorted: the first one that is nearer than the next, colder one.
        let pairs = self.centres.windows(2);
        let is_nearer = |pair: &[f64]| hotness - pair[1] >= pair[0] - hotness;
        let group = pairs.take_while(|pair| !is_nearer(pair)).count();
        StreamId(group as u32)
    }

    /// Garbage over cost and hotness; negative below the floor, then by garbage alone.
    fn worth(&self, block: EraseBlockId, device: &Device) -> Worth {
        let (valid, sums) = (device.block(block).valid, self.sums[block.index()]);
        if valid == 0 {
            return Worth::MOST;
        }
        if valid > self.floor {
            return Worth::constant(-f64::from(valid));
        }
        let used = f64::from(valid) / f64::from(device.geometry.pages_per_erase_block);
        let gain = (1.0 - used) / (2.0 * used * sums.writes.max(1) as f64);
        Worth { at_zero: -gain * sums.at as f64, slope: gain * f64::from(valid) / self.tick as f64 }
    }

    fn forget(&mut self, page: Page, block: EraseBlockId) {
        let sums = &mut self.sums[block.index()];
        sums.writes -= u64::from(page.writes);
        sums.at -= u64::from(page.at);
    }

    /// Clusters the erase blocks that are full and hold valid pages.
    fn move_centres(&mut self, device: &Device) {
        let now = (device.clock / self.tick) as f64;
        self.hotness.clear();
        let blocks = (0_u32..).zip(self.sums.iter().zip(&device.blocks));
        let closed = blocks.filter(|(number, (sums, block))| {
            sums.writes > 0 && self.open.get(usize::from(block.stream)) != Some(number)
        });
        self.hotness.extend(closed.map(|(_, (sums, block))| {
            let ages = f64::from(block.valid) * (now + 0.5) - sums.at as f64;
            sums.writes as f64 / ages.max(0.5)
        }));
        let mut clusters = vec![(0.0, 0_u32); self.centres.len()];
        for _ in 0..ROUNDS {
            clusters.fill((0.0, 0));
            for &hotness in &self.hotness {
                let (sum, count) = &mut clusters[self.group(hotness).index()];
                *sum += hotness;
                *count += 1;
            }
            let mean =
                |&(sum, count): &(f64, u32)| if count == 0 { 0.0 } else { sum / f64::from(count) };
            self.centres.clear();
            self.centres.extend(clusters.iter().map(mean));
            self.centres.sort_unstable_by(|a, b| b.total_cmp(a));
        }
    }
}

impl Placement for Sfs {
    #[inline]
    fn features(&self) -> Features {
        Features {
            watches_deaths: true,
            watches_places: true,
            chooses_victims: true,
            ..Features::NONE
        }
    }

    fn streams(&self) -> usize {
        self.centres.len()
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    fn relocation_targets(&self) -> usize {
        2.min(self.centres.len())
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, _previous: Option<Previous>, device: &Device) -> StreamId {
        self.group(self.hotness(lpn.0, device))
    }

    #[inline]
    fn fetch(&self, operations: &[PageOp]) {
        let pages = operations.iter().map(|operation| self.pages[operation.lpn().index()].writes);
        std::hint::black_box(pages.fold(0, u32::wrapping_add));
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        if device.clock >= self.next_move {
            self.next_move = device.clock + u64::from(device.geometry.erase_blocks) / PART;
            self.move_centres(device);
        }
        for (to, &lpn) in to.iter_mut().zip(survivors.lpns) {
            *to = self.group(self.hotness(lpn, device));
        }
    }

    #[inline]
    fn page_died(&mut self, death: Death, device: &Device) {
        let page = self.pages[death.lpn.index()];
        self.forget(page, death.block);
        if death.is_trimmed {
            self.pages[death.lpn.index()] = Page::default();
        }
        self.update(death.block, device);
    }

    #[inline]
    fn page_placed(&mut self, place: Place, device: &Device) {
        let mut page = self.pages[place.lpn.index()];
        match place.from {
            Some(from) => self.forget(page, from),
            None => page.at = (device.clock / self.tick) as u32,
        }
        // A page that the policy did not see placed counts as written once, long ago.
        if place.from.is_none() || page.writes == 0 {
            page.writes = page.writes.saturating_add(1);
        }
        self.pages[place.lpn.index()] = page;
        if let Some(open) = self.open.get_mut(place.stream.index()) {
            *open = place.block.0;
        }
        let sums = &mut self.sums[place.block.index()];
        sums.writes += u64::from(page.writes);
        sums.at += u64::from(page.at);
    }

    fn block_closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.victims.insert(block, domain, self.worth(block, device));
    }

    fn choose_victim(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        self.victims.choose(domain, device)
    }

    fn victim_removed(&mut self, block: EraseBlockId, _domain: usize, _device: &Device) {
        self.victims.remove(block);
    }

    fn stream_label(&self, stream: StreamId) -> String {
        format!("group {}{}", stream.0, if stream.0 == 0 { " (hottest)" } else { "" })
    }
}

impl Sfs {
    #[inline]
    fn update(&mut self, block: EraseBlockId, device: &Device) {
        let worth = self.worth(block, device);
        self.victims.set(block, || worth);
    }
}

#[cfg(test)]
mod tests {
    use registry::Spec;
    use units::{EraseBlockId, Geometry, Lpn, StreamId};

    use super::{INFO, Sfs};
    use crate::{Block, Context, Death, Device, Place, Placement as _};

    const PAGES: u32 = 16;

    fn made(spec: &str) -> (Sfs, Device) {
        let geometry = Geometry::with_over_provisioning(4096, PAGES, 16 * 64, 0.25).expect("valid");
        let args = INFO.accept(&Spec::parse(spec).expect("a spec")).expect("parameters");
        let sfs = Sfs::build(&args, &Context::new(geometry, 1)).expect("a policy");
        (sfs, Device::new(geometry, 6))
    }

    /// Writes pages to an erase block and closes it.
    fn write(sfs: &mut Sfs, device: &mut Device, block: u32, lpns: impl Iterator<Item = u32>) {
        device.blocks[block as usize] = Block { valid: 0, stream: 0 };
        for lpn in lpns {
            device.blocks[block as usize].valid += 1;
            let place = Place {
                lpn: Lpn(lpn),
                block: EraseBlockId(block),
                stream: StreamId(0),
                from: None,
            };
            sfs.page_placed(place, device);
            device.clock += 1;
        }
        sfs.block_closed(EraseBlockId(block), 0, device);
    }

    fn die(sfs: &mut Sfs, device: &mut Device, block: u32, lpn: u32) {
        device.blocks[block as usize].valid -= 1;
        let (lpn, block) = (Lpn(lpn), EraseBlockId(block));
        let death = Death { lpn, block, offset: 0, stream: StreamId(0), is_trimmed: false };
        sfs.page_died(death, device);
    }

    #[test]
    fn hotness_is_writes_over_age() {
        let (mut sfs, mut device) = made("sfs");
        write(&mut sfs, &mut device, 0, 0..16);
        die(&mut sfs, &mut device, 0, 3);
        write(&mut sfs, &mut device, 1, [3].into_iter());
        device.clock += 20;
        // Two writes, 21 writes of the host ago; one write, 37 ago.
        assert_eq!(sfs.hotness(3, &device), 2.0 / 21.5);
        assert_eq!(sfs.hotness(0, &device), 1.0 / 37.5);
        assert_eq!(sfs.hotness(900, &device), f64::INFINITY, "it has no history");
        assert_eq!(sfs.sums[0].writes, 15, "the sum is that of what is valid");
    }

    #[test]
    fn pages_go_to_the_nearest_centre() {
        let (mut sfs, _) = made("sfs(groups=3)");
        sfs.centres = vec![8.0, 4.0, 0.0];
        let groups =
            [9.0, 6.1, 5.9, 2.1, 1.9, 0.0, f64::INFINITY].map(|hotness| sfs.group(hotness).0);
        assert_eq!(groups, [0, 0, 1, 1, 2, 2, 0]);
    }

    /// Erase blocks of two kinds: two of three groups move to their means.
    #[test]
    fn centres_move_to_the_clusters_of_erase_blocks() {
        let (mut sfs, mut device) = made("sfs(groups=2)");
        for block in 0..8 {
            write(&mut sfs, &mut device, block, 16 * block..16 * (block + 1));
        }
        device.clock = 1_000_000;
        for block in 8..12 {
            write(&mut sfs, &mut device, block, 16 * block..16 * (block + 1));
        }
        for _ in 0..4 {
            sfs.move_centres(&device);
        }
        assert_eq!(sfs.group(1e-6), StreamId(1));
        assert_eq!(sfs.group(1.0 / 32.0), StreamId(0));
        assert!(sfs.centres[0] > 0.01 && sfs.centres[1] < 1e-5, "{:?}", sfs.centres);
    }

    /// At equal garbage, the colder is the victim. Less garbage than the spare share is not enough,
    /// however cold the rest is.
    #[test]
    fn victims_are_cold_and_have_garbage() {
        let (mut sfs, mut device) = made("sfs");
        for block in 0..3 {
            write(&mut sfs, &mut device, block, 16 * block..16 * (block + 1));
            device.clock += 10_000;
        }
        for (block, dead) in [(0, 2), (1, 8), (2, 8)] {
            (0..dead).for_each(|number| die(&mut sfs, &mut device, block, 16 * block + number));
        }
        assert_eq!(sfs.choose_victim(0, &device), Some(EraseBlockId(1)));
        assert_eq!(sfs.choose_victim(0, &device), Some(EraseBlockId(2)));
        assert_eq!(sfs.choose_victim(0, &device), Some(EraseBlockId(0)), "there is no other");
        assert_eq!(sfs.choose_victim(0, &device), None);
    }
}
