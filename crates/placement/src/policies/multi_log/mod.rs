//! MultiLog: logs of update frequency, made at run time, with space divided by the derivative of the cleaning cost.

mod frequency;
pub(super) mod space;

use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::{Geometry, Lpn, StreamId};

use self::frequency::Frequencies;
use crate::{BuildError, Context, Device, Placement, Previous, Survivors};

/// What the registry knows.
pub const INFO: Info = Info {
    name: "multi_log",
    aliases: &["multilog"],
    summary: "logs by update frequency, estimated from the distance between two writes of a page; space by the derivative of the cost",
    source: "MULTILOG section 5, with the LRU-1 estimator",
    params: &[Param {
        name: "min_log_pages",
        kind: ParamKind::Integer { min: 0, max: 1 << 31 },
        default: "0",
        help: "least size of the last log before a new one is made, in pages; 0 means 10 MB, or 1/10000 of a smaller device",
    }],
};

/// The victim policy of its authors: LRU within a log.
pub const VICTIM: &str = "lru";

/// Greatest number of logs. A log costs the spare space about an erase block for its write frontier, so that a small device has fewer;
/// 64 are enough for frequencies that differ by 2^64.
pub(super) fn most_logs(geometry: Geometry) -> usize {
    (geometry.spare_blocks() as usize / 8).clamp(1, 64)
}

/// Logs from the hottest to the coldest; a page sinks to the log below when it is relocated in a cluster that chance does not explain,
/// and rises to the log above when it is updated sooner than expected.
///
/// A new log is made below the last. At high occupancy chance alone makes clusters, so that on the whole pages sink more than they rise
/// and the logs on top run dry while new ones are made; a top log that has become smaller than the least size is joined with the next.
#[derive(Debug)]
pub struct MultiLog {
    /// Streams of the logs in use, hottest first.
    ladder: Vec<StreamId>,
    /// Place in the ladder of each stream; a stream whose log was joined with the next has that one's place.
    place: Vec<u8>,
    most_logs: usize,
    min_log_pages: u32,
    frequencies: Frequencies,
    random: Pcg64Mcg,
    clusters: Vec<(u16, u16)>,
}

impl MultiLog {
    /// The policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let geometry = context.geometry;
        let min_log_pages = match args.integer("min_log_pages") {
            0 => min_log_pages(geometry.logical_pages, geometry.page_bytes, geometry.pages_per_erase_block),
            given => given as u32,
        };
        let most_logs = most_logs(geometry);
        Ok(Self {
            ladder: vec![StreamId(0)],
            place: vec![0; most_logs],
            most_logs,
            min_log_pages,
            frequencies: Frequencies::new(most_logs, geometry.logical_pages),
            random: Pcg64Mcg::seed_from_u64(context.seed ^ 0x4d4c),
            clusters: Vec::new(),
        })
    }

    fn p_gc(&self, log: StreamId, device: &Device) -> f64 {
        let space = device.stream(log);
        space::p_gc(f64::from(space.valid_pages), f64::from(space.erase_blocks) * f64::from(device.geometry.pages_per_erase_block))
    }

    /// MULTILOG 5.2: the update distance is counted in updates of the page's own log, since the page was last written to flash; what is
    /// known is the number of all host writes since its erase block was opened, of which the log receives its share.
    fn promotes(&mut self, previous: Previous, device: &Device) -> bool {
        let measured = f64::from(device.age_of(previous.block)) * self.frequencies.share(previous.stream, device);
        let valid = f64::from(device.stream(previous.stream).valid_pages);
        let expected = valid * (1.0 - self.p_gc(previous.stream, device)) / 2.0;
        measured < expected && self.random.random::<f64>() < (expected - measured) / expected
    }

    /// The log below a place, made if there is none and the last is large enough.
    fn below(&mut self, place: usize, device: &Device) -> StreamId {
        let last = self.ladder[self.ladder.len() - 1];
        if place + 1 < self.ladder.len() {
            return self.ladder[place + 1];
        }
        if device.stream(last).valid_pages < self.min_log_pages {
            return last;
        }
        self.join_small_tops(device);
        let unused = |&stream: &StreamId| !self.ladder.contains(&stream) && device.stream(stream).erase_blocks == 0;
        let Some(made) = (0..self.most_logs as u32).map(StreamId).find(unused) else { return last };
        self.place[made.index()] = self.ladder.len() as u8;
        self.ladder.push(made);
        self.frequencies.start(made, last);
        made
    }

    fn join_small_tops(&mut self, device: &Device) {
        while self.ladder.len() > 1 && device.stream(self.ladder[0]).valid_pages < self.min_log_pages {
            self.ladder.remove(0);
            self.place.iter_mut().for_each(|place| *place = place.saturating_sub(1));
        }
    }
}

/// MULTILOG 5.4 sets 10 MB for a device of 100 GB, a ten-thousandth. On a smaller device 10 MB would put very different frequencies into
/// one log, so that share is kept instead; four erase blocks are the least with which a log can be cleaned by itself.
pub(super) fn min_log_pages(logical_pages: u32, page_bytes: u32, pages_per_erase_block: u32) -> u32 {
    (10_000_000 / page_bytes).min(logical_pages / 10_000).max(4 * pages_per_erase_block)
}

impl Placement for MultiLog {
    const PER_STREAM: bool = true;
    const USES_PREVIOUS: bool = true;

    fn streams(&self) -> usize {
        self.most_logs
    }

    fn relocation_targets(&self) -> usize {
        2
    }

    #[inline]
    fn host_stream(&mut self, _lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        let Some(previous) = previous else { return self.ladder[0] };
        self.frequencies.count(previous.stream, device);
        let place = usize::from(self.place[previous.stream.index()]);
        if place > 0 && self.promotes(previous, device) { self.ladder[place - 1] } else { self.ladder[place] }
    }

    fn relocation_streams(&mut self, survivors: Survivors<'_>, device: &Device, to: &mut [StreamId]) {
        let p_gc = self.p_gc(survivors.stream, device);
        let place = usize::from(self.place[survivors.stream.index()]);
        let stays = self.ladder[place];
        to.fill(stays);
        let expected = p_gc * f64::from(device.geometry.pages_per_erase_block);
        let mut excess = to.len() as f64 - expected;
        if excess < 1.0 {
            return;
        }
        self.clusters.clear();
        let mut start = 0u16;
        for end in 1..=to.len() {
            if end == to.len() || survivors.offsets[end] != survivors.offsets[end - 1] + 1 {
                self.clusters.push((start, end as u16));
                start = end as u16;
            }
        }
        self.clusters.sort_unstable_by_key(|&(start, end)| (std::cmp::Reverse(end - start), start));
        for index in 0..self.clusters.len() {
            let (start, end) = self.clusters[index];
            let length = end - start;
            if excess < 1.0 {
                break;
            }
            let by_chance = p_gc.powi(i32::from(length));
            if self.random.random::<f64>() >= by_chance {
                // Asked for each cluster, since the log may only now be made.
                let below = self.below(place, device);
                let moved = usize::from(length).min(excess as usize);
                to[usize::from(start)..usize::from(start) + moved].fill(below);
                excess -= moved as f64;
            }
        }
    }

    fn donor(&mut self, needy: StreamId, device: &Device) -> StreamId {
        let share = |log: StreamId| self.frequencies.share(log, device);
        let joined = (0..self.most_logs as u32).map(StreamId).find(|log| device.stream(*log).erase_blocks > 1 && !self.ladder.contains(log));
        if let Some(joined) = joined {
            return joined;
        }
        let place = usize::from(self.place[needy.index()]);
        let neighbours = self.ladder[place.saturating_sub(1)..(place + 2).min(self.ladder.len())].iter().copied();
        space::donor(neighbours, device, share).or_else(|| space::donor(self.ladder.iter().copied(), device, share)).unwrap_or(needy)
    }

    fn stream_label(&self, stream: StreamId) -> String {
        match self.ladder.iter().position(|&log| log == stream) {
            Some(place) => format!("log {place}{}", if place == 0 { " (hottest)" } else { "" }),
            None => "joined log".to_owned(),
        }
    }
}
