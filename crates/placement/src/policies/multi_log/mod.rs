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

/// Write frontiers of a log: one for host writes, one for relocated pages.
const STREAMS: usize = 2;

/// Greatest number of logs. A log costs the spare space about an erase block for its write frontiers, and as much again because space is
/// handed over in whole erase blocks; so a log is made for each 32 spare erase blocks at most, which holds that cost to a few percent. 64
/// are enough for frequencies that differ by 2^64.
pub(super) fn most_logs(geometry: Geometry) -> usize {
    (geometry.spare_blocks() as usize / 32).clamp(1, 64)
}

/// Logs from the hottest to the coldest; a page sinks to the log below when it is relocated in a cluster that chance does not explain,
/// and rises to the log above when it is updated sooner than expected.
///
/// What is relocated within a log is packed into erase blocks of its own ("pack and store them together", 5.2), so that cold pages
/// gather there. A new log is made below the last. At high occupancy pages sink more than they rise on the whole, and the logs on top run
/// dry while new ones are made; a top log that has become smaller than the least size is joined with the next.
#[derive(Debug)]
pub struct MultiLog {
    /// Logs in use, hottest first. Log n writes to streams 2 n (host) and 2 n + 1 (relocated).
    ladder: Vec<usize>,
    /// Place in the ladder of each log; one that was joined with the next has that one's place.
    place: Vec<u8>,
    most_logs: usize,
    min_log_pages: u32,
    frequencies: Frequencies,
    random: Pcg64Mcg,
    clusters: Vec<(u16, u16)>,
}

fn log_of(stream: StreamId) -> usize {
    stream.index() / STREAMS
}

fn host_stream_of(log: usize) -> StreamId {
    StreamId((log * STREAMS) as u32)
}

fn relocation_stream_of(log: usize) -> StreamId {
    StreamId((log * STREAMS + STREAMS - 1) as u32)
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
            ladder: vec![0],
            place: vec![0; most_logs],
            most_logs,
            min_log_pages,
            frequencies: Frequencies::new(most_logs, geometry.logical_pages),
            random: Pcg64Mcg::seed_from_u64(context.seed ^ 0x4d4c),
            clusters: Vec::new(),
        })
    }

    fn p_gc(log: usize, device: &Device) -> f64 {
        let space = space::of_log(log, STREAMS, device);
        space::p_gc(f64::from(space.valid_pages), f64::from(space.erase_blocks) * f64::from(device.geometry.pages_per_erase_block))
    }

    /// MULTILOG 5.2: the update distance is counted in updates of the page's own log, since the page was last written to flash; what is
    /// known is the number of all host writes since its erase block was opened, of which the log receives its share.
    fn promotes(&mut self, previous: Previous, device: &Device) -> bool {
        let log = log_of(previous.stream);
        let measured = f64::from(device.age_of(previous.block)) * self.frequencies.share(log, device);
        let valid = f64::from(space::of_log(log, STREAMS, device).valid_pages);
        let expected = valid * (1.0 - Self::p_gc(log, device)) / 2.0;
        measured < expected && self.random.random::<f64>() < (expected - measured) / expected
    }

    /// The log below a place, made if there is none and the last is large enough.
    fn below(&mut self, place: usize, device: &Device) -> usize {
        let last = self.ladder[self.ladder.len() - 1];
        if place + 1 < self.ladder.len() {
            return self.ladder[place + 1];
        }
        if space::of_log(last, STREAMS, device).valid_pages < self.min_log_pages {
            return last;
        }
        self.join_small_tops(device);
        // What is left in the frontiers of a log that was joined with another becomes the new log's.
        let unused = |log: &usize| !self.ladder.contains(log) && space::of_log(*log, STREAMS, device).erase_blocks <= STREAMS as u32;
        let Some(made) = (0..self.most_logs).find(unused) else { return last };
        self.place[made] = self.ladder.len() as u8;
        self.ladder.push(made);
        self.frequencies.start(made, last);
        made
    }

    fn join_small_tops(&mut self, device: &Device) {
        while self.ladder.len() > 1 && space::of_log(self.ladder[0], STREAMS, device).valid_pages < self.min_log_pages {
            self.join(0);
        }
    }

    /// The log at this place and the one below become one: it takes no more writes, and what it holds is the other's from now on.
    fn join(&mut self, place: usize) {
        self.ladder.remove(place);
        self.place.iter_mut().filter(|other| usize::from(**other) > place).for_each(|other| *other -= 1);
    }

    /// The runs of neighbouring survivors as (start, end) among them, longest first.
    fn find_clusters(&mut self, offsets: &[u16]) {
        self.clusters.clear();
        let mut start = 0;
        for end in 1..=offsets.len() {
            if end == offsets.len() || offsets[end] != offsets[end - 1] + 1 {
                self.clusters.push((start as u16, end as u16));
                start = end;
            }
        }
        self.clusters.sort_unstable_by_key(|&(start, end)| (std::cmp::Reverse(end - start), start));
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
    const STREAMS_PER_DOMAIN: u32 = STREAMS as u32;

    fn streams(&self) -> usize {
        STREAMS * self.most_logs
    }

    fn relocation_targets(&self) -> usize {
        2
    }

    #[inline]
    fn host_stream(&mut self, _lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        let Some(previous) = previous else { return host_stream_of(self.ladder[0]) };
        let log = log_of(previous.stream);
        self.frequencies.count(log, device);
        let place = usize::from(self.place[log]);
        let rises = place > 0 && self.promotes(previous, device);
        host_stream_of(self.ladder[place - usize::from(rises)])
    }

    /// MULTILOG 5.2: cold pages "increase the percentage of valid pages of a block compared to the expected p_gc fraction", and the
    /// chance that a cluster of n valid pages is there by accident is p_gc^n. So clusters, the longest first, sink with probability 1 - p_gc^n
    /// until no more survivors are left than expected.
    ///
    /// The text does not say which clusters are put to that test. If all were, at high occupancy most survivors of a uniform load would
    /// sink, against its claim of "a low false positive rate", and logs be made without end.
    fn relocation_streams(&mut self, survivors: Survivors<'_>, device: &Device, to: &mut [StreamId]) {
        let log = log_of(survivors.stream);
        let p_gc = Self::p_gc(log, device);
        let place = usize::from(self.place[log]);
        to.fill(relocation_stream_of(self.ladder[place]));
        let mut excess = to.len() as f64 - p_gc * f64::from(device.geometry.pages_per_erase_block);
        if excess < 1.0 {
            return;
        }
        self.find_clusters(survivors.offsets);
        for index in 0..self.clusters.len() {
            let (start, end) = self.clusters[index];
            if excess < 1.0 {
                break;
            }
            let by_chance = p_gc.powi(i32::from(end - start));
            if self.random.random::<f64>() >= by_chance {
                // Asked for each cluster, since the log may only now be made.
                let below = relocation_stream_of(self.below(place, device));
                let sinking = usize::from(end - start);
                to[usize::from(start)..usize::from(start) + sinking].fill(below);
                excess -= sinking as f64;
            }
        }
    }

    fn donor(&mut self, needy: StreamId, device: &Device) -> usize {
        let share = |log: usize| self.frequencies.share(log, device);
        let is_joined = |log: &usize| !self.ladder.contains(log) && space::of_log(*log, STREAMS, device).erase_blocks > STREAMS as u32;
        if let Some(joined) = (0..self.most_logs).find(is_joined) {
            return joined;
        }
        let log = log_of(needy);
        let place = usize::from(self.place[log]);
        let neighbours = self.ladder[place.saturating_sub(1)..(place + 2).min(self.ladder.len())].iter().copied();
        let donor = space::donor(neighbours, STREAMS, device, share);
        donor.or_else(|| space::donor(self.ladder.iter().copied(), STREAMS, device, share)).unwrap_or(log)
    }

    fn stream_label(&self, stream: StreamId) -> String {
        let kind = if stream.index().is_multiple_of(STREAMS) { "host" } else { "relocated" };
        match self.ladder.iter().position(|&log| log == log_of(stream)) {
            Some(place) => format!("log {place}{}, {kind}", if place == 0 { " (hottest)" } else { "" }),
            None => format!("joined log, {kind}"),
        }
    }
}
