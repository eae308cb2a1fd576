//! MDC: cleans the erase block whose cleaning cost declines least while it waits, and writes pages
//! of about the same update frequency together.

use registry::{Args, Info, Param, ParamKind};
use units::{EraseBlockId, Lpn, StreamId};

use crate::tournament::{Tournament, Worth};
use crate::{BuildError, Context, Death, Device, Features, Place, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "mdc",
    aliases: &["min_decline"],
    summary: "victims by minimum declining cost, from the time of the penultimate update; pages \
              sorted by that time into streams",
    source: "Lomet & Luo, Efficiently Reclaiming Space in a Log Structured Store, ICDE 2021 \
             (arXiv 2005.00044)",
    params: &[Param {
        name: "groups",
        kind: ParamKind::Integer { min: 0, max: 64 },
        default: "0",
        help: "streams for host writes, and as many for relocations; 0 for what the spare space \
               carries",
    }],
};

/// The victim policy of its authors, minimum declining cost.
pub const VICTIM: &str = crate::victims::own::NAME;

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 0;

/// Most streams of each kind, if their number is not given; then the number of spare erase blocks
/// per stream.
const MOST_GROUPS: usize = 8;
const SPARE_A_GROUP: usize = 16;

/// Number of classes of ages, eight per octave.
const CLASSES: usize = 8 * 48;

/// Sums over the pages that were written to an erase block since it was opened, of the times of
/// their last update and of the one before; the means follow from them.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    last: f64,
    prior: f64,
    pages: u32,
    opened_at: u32,
}

impl Times {
    /// The mean times of the last update and of the one before.
    fn means(self) -> (f64, f64) {
        let pages = f64::from(self.pages.max(1));
        (self.last / pages, self.prior / pages)
    }
}

/// Assignment of pages to streams by age, so that all streams get as many pages.
#[derive(Debug)]
struct Sorter {
    counts: Vec<u32>,
    seen: u32,
    /// Number of pages after which the bounds are drawn again.
    window: u32,
    /// The stream of each class.
    groups: Vec<u8>,
    number: u32,
}

impl Sorter {
    fn new(number: u32, window: u32) -> Self {
        let groups = vec![0; CLASSES];
        Self { counts: vec![0; CLASSES], seen: 0, window, groups, number }
    }

    /// The group of an age, 0 for the youngest.
    fn group(&mut self, age: f64) -> u32 {
        let class = ((8.0 * age.max(1.0).log2()) as usize).min(CLASSES - 1);
        self.counts[class] += 1;
        self.seen += 1;
        if self.seen == self.window {
            self.draw();
        }
        u32::from(self.groups[class])
    }

    /// Cuts the classes into groups of the same number of pages. Halves the weight of what was seen
    /// so far.
    #[cold]
    fn draw(&mut self) {
        let all: u64 = self.counts.iter().map(|&count| u64::from(count)).sum();
        let mut below = 0;
        for (group, count) in self.groups.iter_mut().zip(&mut self.counts) {
            // The group of the page in the middle of the class.
            let middle = below + u64::from(*count) / 2;
            let of_all = u64::from(self.number) * middle / all.max(1);
            *group = of_all.min(u64::from(self.number) - 1) as u8;
            below += u64::from(*count);
            *count /= 2;
        }
        self.seen = 0;
    }
}

/// With E the share of garbage and t2 the time of the penultimate update, the update frequency of
/// an erase block is 2 / (now - t2), and the cost of cleaning it declines with waiting by (1 - E) /
/// E^2 x frequency. The victim is the one with the least decline. t2 is a mean over the pages of an
/// erase block: a page that the host writes gets as its penultimate time the mean time of last
/// updates of the erase block in which its last version lay, and survivors take both means along.
/// So no time is kept per page.
///
/// The authors sort what they write by t2, in batches of 64 segments: the writes of the host in a
/// buffer, and the survivors of 64 victims that are cleaned together. There are no batches here:
/// pages are divided as they come, into as many streams as the spare space allows, so that each
/// gets the same share of the recent ones; a sorted batch is cut into erase blocks in the same way.
/// As in their simulator (github.com/luochen01/gc-simulator) relocated pages and those of the host
/// are never in one erase block, and a page without a last version is as old as the clock.
///
/// State: 32 bytes per erase block.
#[derive(Debug)]
pub struct Mdc {
    times: Vec<Times>,
    by_host: Sorter,
    relocated: Sorter,
    /// The page that died last, and the mean time of last updates of its erase block.
    died: (u32, f64),
    groups: u32,
    victims: Tournament,
    left_out: usize,
}

impl Mdc {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let geometry = context.geometry;
        let spare = geometry.spare_blocks() as usize;
        let asked = match args.integer("groups") as usize {
            0 => (spare / SPARE_A_GROUP).clamp(1, MOST_GROUPS),
            groups => groups,
        };
        let groups = asked.min((context.most_streams / 2).max(1));
        let window = (geometry.logical_pages / 64).max(geometry.pages_per_erase_block);
        Ok(Self {
            times: vec![Times::default(); geometry.erase_blocks as usize],
            by_host: Sorter::new(groups as u32, window),
            relocated: Sorter::new(groups as u32, window),
            died: (u32::MAX, 0.0),
            groups: groups as u32,
            victims: Tournament::new(geometry.erase_blocks),
            left_out: 2 * (asked - groups),
        })
    }

    fn worth(&self, block: EraseBlockId, device: &Device) -> Worth {
        let valid = device.block(block).valid;
        if valid == 0 {
            return Worth::MOST;
        }
        let used = f64::from(valid) / f64::from(device.geometry.pages_per_erase_block);
        let slope = (1.0 - used).powi(2) / used;
        Worth { at_zero: -slope * self.times[block.index()].means().1, slope }
    }
}

impl Placement for Mdc {
    #[inline]
    fn features(&self) -> Features {
        Features {
            uses_previous: true,
            watches_deaths: true,
            watches_places: true,
            chooses_victims: true,
            ..Features::NONE
        }
    }

    fn streams(&self) -> usize {
        2 * self.groups as usize
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    #[inline]
    fn host_stream(&mut self, _lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        let prior = previous.map_or(0.0, |previous| self.times[previous.block.index()].means().0);
        StreamId(self.by_host.group(device.clock as f64 - prior))
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        let (_, prior) = self.times[survivors.block.index()].means();
        let age = device.clock as f64 - prior;
        for to in to {
            *to = StreamId(self.groups + self.relocated.group(age));
        }
    }

    #[inline]
    fn page_died(&mut self, death: Death, device: &Device) {
        if !death.is_trimmed {
            self.died = (death.lpn.0, self.times[death.block.index()].means().0);
        }
        let worth = self.worth(death.block, device);
        self.victims.set(death.block, || worth);
    }

    #[inline]
    fn page_placed(&mut self, place: Place, device: &Device) {
        let (last, prior) = match place.from {
            Some(from) => self.times[from.index()].means(),
            None if self.died.0 == place.lpn.0 => (device.clock as f64, self.died.1),
            None => (device.clock as f64, 0.0),
        };
        self.died.0 = u32::MAX;
        let times = &mut self.times[place.block.index()];
        let opened_at = device.opened_at[place.block.index()];
        if times.opened_at != opened_at {
            *times = Times { opened_at, ..Times::default() };
        }
        times.last += last;
        times.prior += prior;
        times.pages += 1;
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
        let kind = if stream.0 < self.groups { "host writes" } else { "relocated" };
        let group = stream.0 % self.groups;
        format!("{kind} {group}{}", if group == 0 { " (hottest)" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use registry::Spec;
    use units::{EraseBlockId, Geometry, Lpn, StreamId};

    use super::{INFO, Mdc, Sorter};
    use crate::{Block, Context, Death, Device, Place, Placement as _};

    const PAGES: u32 = 16;

    fn made() -> (Mdc, Device) {
        let geometry = Geometry::with_over_provisioning(4096, PAGES, 16 * 64, 0.25).expect("valid");
        let args = INFO.accept(&Spec::parse("mdc").expect("a spec")).expect("parameters");
        let mdc = Mdc::build(&args, &Context::new(geometry, 1)).expect("a policy");
        (mdc, Device::new(geometry, 2))
    }

    fn open(device: &mut Device, block: u32) {
        device.blocks[block as usize] = Block { valid: 0, stream: 0 };
        device.opened_at[block as usize] = device.clock as u32;
    }

    fn place(mdc: &mut Mdc, device: &mut Device, block: u32, lpn: u32, from: Option<u32>) {
        device.blocks[block as usize].valid += 1;
        let (lpn, block) = (Lpn(lpn), EraseBlockId(block));
        let from = from.map(EraseBlockId);
        mdc.page_placed(Place { lpn, block, stream: StreamId(0), from }, device);
        device.clock += u64::from(from.is_none());
    }

    fn die(mdc: &mut Mdc, device: &mut Device, block: u32, lpn: u32) {
        device.blocks[block as usize].valid -= 1;
        let (lpn, block) = (Lpn(lpn), EraseBlockId(block));
        let death = Death { lpn, block, offset: 0, stream: StreamId(0), is_trimmed: false };
        mdc.page_died(death, device);
    }

    /// The time of the penultimate update is the mean time of the last updates where the page lay,
    /// and survivors take both means along.
    #[test]
    fn times_go_along_with_pages() {
        let (mut mdc, mut device) = made();
        open(&mut device, 0);
        (0..16).for_each(|lpn| place(&mut mdc, &mut device, 0, lpn, None));
        assert_eq!(mdc.times[0].means(), (7.5, 0.0));
        device.clock = 100;
        open(&mut device, 1);
        for lpn in 0..4 {
            die(&mut mdc, &mut device, 0, lpn);
            place(&mut mdc, &mut device, 1, lpn, None);
        }
        assert_eq!(mdc.times[1].means(), (101.5, 7.5));
        open(&mut device, 2);
        place(&mut mdc, &mut device, 2, 0, Some(1));
        place(&mut mdc, &mut device, 2, 9, Some(0));
        assert_eq!(mdc.times[2].means(), ((101.5 + 7.5) / 2.0, 7.5 / 2.0));
        // The times of an erase block before its erase are forgotten.
        device.clock = 300;
        open(&mut device, 1);
        place(&mut mdc, &mut device, 1, 900, None);
        assert_eq!(mdc.times[1].means(), (300.0, 0.0));
    }

    /// With half of it garbage (1 - E) / E^2 is 2, with three fourths 4 / 9: up to 4.5 times the
    /// update frequency outweighs that.
    #[test]
    fn the_cost_of_the_victim_declines_least() {
        for (prior, victim) in [(999.0 - 4.4 * 99.0, 1), (999.0 - 4.6 * 99.0, 0)] {
            let (mut mdc, mut device) = made();
            for block in 0..2 {
                open(&mut device, block);
                (0..16).for_each(|lpn| place(&mut mdc, &mut device, block, 16 * block + lpn, None));
            }
            mdc.times[0].prior = 16.0 * prior;
            mdc.times[1].prior = 16.0 * 900.0;
            (0..8).for_each(|lpn| die(&mut mdc, &mut device, 0, lpn));
            (16..28).for_each(|lpn| die(&mut mdc, &mut device, 1, lpn));
            for block in 0..2 {
                mdc.block_closed(EraseBlockId(block), 0, &device);
            }
            device.clock = 999;
            assert_eq!(mdc.choose_victim(0, &device), Some(EraseBlockId(victim)));
        }
    }

    /// Ages occur with very different frequencies, and each group still gets as many pages.
    #[test]
    fn groups_get_as_many_pages_each() {
        let mut sorter = Sorter::new(4, 1000);
        let age = |number: u32| 1.02_f64.powi((number * 37 % 1000) as i32);
        let mut counts = [0_u32; 4];
        (0..3000).for_each(|number| counts[sorter.group(age(number)) as usize] += 1);
        counts.fill(0);
        (0..1000).for_each(|number| counts[sorter.group(age(number)) as usize] += 1);
        assert!(counts.iter().all(|count| (240..=260).contains(count)), "{counts:?}");
        assert!(sorter.group(2.0) < sorter.group(1e8), "the youngest first");
    }
}
