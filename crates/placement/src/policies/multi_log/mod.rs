//! MultiLog: logs of update frequency, made at run time, with space divided by the derivative of
//! the cleaning cost.

mod estimator;
mod frequency;
mod space;

use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind};
use units::{Geometry, Lpn, StreamId};

use self::estimator::{Estimator, Oracle};
use self::frequency::Frequencies;
use crate::{BuildError, Context, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "multi_log",
    aliases: &["multilog"],
    summary: "logs by update frequency, estimated from the distance between two writes of a page; \
              space by the derivative of the cost. Its model is of random updates: sequential \
              writes are outside (MULTILOG 3.1)",
    source: "MULTILOG section 5, with its two estimators (5.1)",
    params: &[
        Param {
            name: "min_log_pages",
            kind: ParamKind::Integer { min: 0, max: 1 << 31 },
            default: "0",
            help: "least size of the last log before a new one is made, in pages; 0 means 10 MB, \
                   or 1/10000 of a smaller device, and four erase blocks at the least",
        },
        Param {
            name: "least_cluster",
            kind: ParamKind::Integer { min: 1, max: 64 },
            default: "2",
            help: "neighbouring survivors that are a cluster at the least",
        },
        Param {
            name: "sinking",
            kind: ParamKind::Choice(&["all", "excess"]),
            default: "all",
            help: "clusters of survivors that may sink: all, or only as many as there are more \
                   survivors than expected",
        },
        Param {
            name: "estimator",
            kind: ParamKind::Choice(estimator::NAMES),
            default: "lru_1",
            help: "estimator of update frequency: lru_1, from the distance between two writes of a \
                   page, or oracle, which knows it (simulations alone): then a page lies in the log \
                   of its frequency, and only space moves",
        },
    ],
};

/// The victim policy of its authors: LRU within a log.
pub const VICTIM: &str = "lru";

/// State per logical page, in bytes, with an estimator that a drive can have.
pub const BYTES_PER_PAGE: u32 = 0;

/// Greatest number of logs; MULTILOG 5.4 has no limit but the least size of a log. A log costs
/// about half an erase block of spare space for its write frontier, and as much again because space
/// is handed over in whole erase blocks. 64 are enough for frequencies that differ by 2^64.
fn most_logs(geometry: Geometry) -> usize {
    (geometry.spare_blocks() as usize / 8).clamp(1, 64)
}

/// Logs from the hottest to the coldest, one stream each. With the LRU-1 estimator a page sinks to the log below when it is
/// relocated in a cluster that chance does not explain, and rises to the log above when it is
/// updated sooner than expected. New pages go to the hottest log.
///
/// A new log is made below the last. At high occupancy pages sink more than they rise on the whole,
/// and the logs at the top run dry while new ones are made, until there are as many as the spare
/// space allows; a top log that has become smaller than the least size is joined with the next.
/// With the oracle each page lies in the log of its frequency from its first write on. The text does
/// not say so of relocations, whose cluster test asks no estimator; but that test estimates coldness
/// from survival, and under uniform updates pages would sink by chance that, their frequency being
/// known, never rise again, where MULTILOG 6.2 has MultiLog-Optimal equal to LRU.
///
/// Cleaning within a log is LRU, as in the paper, which is optimal only if updates are independent.
#[derive(Debug)]
pub struct MultiLog {
    /// Logs in use, hottest first. Log n writes to stream n.
    ladder: Vec<usize>,
    /// Index of each log in the ladder; one that was joined with the next has that one's index.
    place: Vec<u8>,
    most_logs: usize,
    left_out: usize,
    min_log_pages: u32,
    estimator: Estimator,
    sinking: Sinking,
    least_cluster: u32,
    random: Pcg64Mcg,
    clusters: Vec<(u32, u32)>,
}

/// The clusters of survivors that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sinking {
    All,
    Excess,
}

impl MultiLog {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// [`BuildError::NeedsWeights`] if the estimator is the oracle, and the context does not give
    /// the update frequencies of pages.
    ///
    /// # Panics
    /// If there is not one weight for each logical page.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let geometry = context.geometry;
        let min_log_pages = match args.integer("min_log_pages") {
            0 => min_log_pages(
                geometry.logical_pages,
                geometry.page_bytes,
                geometry.pages_per_erase_block,
            ),
            given => given as u32,
        };
        let asked = most_logs(geometry);
        let most_logs = asked.min(context.most_streams.max(1));
        let (estimator, ladder, most_used) = if args.text("estimator") == "oracle" {
            let oracle = Oracle::new(&weights_of(context)?, min_log_pages, most_logs);
            let logs = oracle.logs();
            (Estimator::Oracle(oracle), (0..logs).collect(), logs)
        } else {
            let frequencies = Frequencies::new(most_logs, geometry.logical_pages);
            (Estimator::Lru1(frequencies), vec![0], most_logs)
        };
        let place = (0..most_used).map(|log| log.min(ladder.len() - 1) as u8).collect();
        Ok(Self {
            ladder,
            place,
            most_logs: most_used,
            left_out: asked - most_logs,
            min_log_pages,
            estimator,
            sinking: if args.text("sinking") == "all" { Sinking::All } else { Sinking::Excess },
            least_cluster: args.integer("least_cluster") as u32,
            random: Pcg64Mcg::seed_from_u64(context.seed ^ 0x4d4c),
            clusters: Vec::new(),
        })
    }

    fn p_gc(log: usize, device: &Device) -> f64 {
        let space = device.streams[log];
        space::p_gc(
            f64::from(space.valid_pages),
            f64::from(space.erase_blocks) * f64::from(device.geometry.pages_per_erase_block),
        )
    }

    /// MULTILOG 5.2: the update distance is counted in updates of the page's own log since the page
    /// was last written to flash. Known is the number of all host writes since its erase block was
    /// opened, of which the log receives its share.
    fn promotes(&mut self, previous: Previous, device: &Device) -> bool {
        let log = previous.stream.index();
        let measured = f64::from(device.age_of(previous.block)) * self.estimator.share(log, device);
        let valid = f64::from(device.streams[log].valid_pages);
        // p_gc takes an exponential; without it, this is an upper bound of the expected distance.
        if measured >= valid / 2.0 {
            return false;
        }
        let expected = valid * (1.0 - Self::p_gc(log, device)) / 2.0;
        measured < expected && self.random.random::<f64>() < (expected - measured) / expected
    }

    /// Gives the log below this one. Makes it if there is none and the last log is large enough.
    fn below(&mut self, log: usize, device: &Device) -> usize {
        let place = usize::from(self.place[log]);
        let last = self.ladder[self.ladder.len() - 1];
        if place + 1 < self.ladder.len() {
            return self.ladder[place + 1];
        }
        if device.streams[last].valid_pages < self.min_log_pages {
            return last;
        }
        self.join_small_tops(device);
        // The rest of the frontier of a log that was joined with another becomes the new log's.
        let unused =
            |log: &usize| !self.ladder.contains(log) && device.streams[*log].erase_blocks <= 1;
        let Some(made) = (0..self.most_logs).find(unused) else { return last };
        self.place[made] = self.ladder.len() as u8;
        self.ladder.push(made);
        if let Estimator::Lru1(frequencies) = &mut self.estimator {
            frequencies.start(made, last);
        }
        made
    }

    fn join_small_tops(&mut self, device: &Device) {
        while self.ladder.len() > 1
            && device.streams[self.ladder[0]].valid_pages < self.min_log_pages
        {
            self.join(0);
        }
    }

    /// Joins the log at this place with the one below: it gets no more writes, and its pages belong
    /// to the other from now on.
    fn join(&mut self, place: usize) {
        self.ladder.remove(place);
        self.place
            .iter_mut()
            .filter(|other| usize::from(**other) > place)
            .for_each(|other| *other -= 1);
    }

    /// Finds the runs of neighbouring survivors as (start, end) among them, longest first.
    fn find_clusters(&mut self, offsets: &[u32]) {
        self.clusters.clear();
        let mut start = 0;
        for end in 1..=offsets.len() {
            if end == offsets.len() || offsets[end] != offsets[end - 1] + 1 {
                let cluster = (start as u32, end as u32);
                if cluster.1 - cluster.0 >= self.least_cluster {
                    self.clusters.push(cluster);
                }
                start = end;
            }
        }
        self.clusters.sort_unstable_by_key(|&(start, end)| (std::cmp::Reverse(end - start), start));
    }
}

/// Least number of pages of a log. MULTILOG 5.4 sets 10 MB for a device of 100 GB, a
/// ten-thousandth. On a smaller device 10 MB would put very different frequencies into one log, so
/// that share is kept instead; a log needs at least four erase blocks to be cleaned by itself.
fn min_log_pages(logical_pages: u32, page_bytes: u32, pages_per_erase_block: u32) -> u32 {
    (10_000_000 / page_bytes).min(logical_pages / 10_000).max(4 * pages_per_erase_block)
}

/// The update frequency of each logical page, in any unit.
fn weights_of(context: &Context<'_>) -> Result<Vec<f64>, BuildError> {
    let weights =
        context.page_weights.ok_or(BuildError::NeedsWeights("multi_log(estimator=oracle)"))?();
    let pages = context.geometry.logical_pages as usize;
    assert_eq!(weights.len(), pages, "one weight for each logical page");
    Ok(weights)
}

impl Placement for MultiLog {
    #[inline]
    fn features(&self) -> Features {
        Features { per_stream: true, uses_previous: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        self.most_logs
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    fn relocation_targets(&self) -> usize {
        match self.estimator {
            Estimator::Lru1(_) => 2,
            Estimator::Oracle(_) => 1,
        }
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        match &mut self.estimator {
            Estimator::Lru1(frequencies) => {
                frequencies.count(previous.map(|previous| previous.stream.index()), device);
            }
            Estimator::Oracle(oracle) => return StreamId(oracle.log_of(lpn) as u32),
        }
        let Some(previous) = previous else { return StreamId(self.ladder[0] as u32) };
        let log = previous.stream.index();
        let place = usize::from(self.place[log]);
        let rises = place > 0 && self.promotes(previous, device);
        StreamId(self.ladder[place - usize::from(rises)] as u32)
    }

    /// MULTILOG 5.2: a cluster of n neighbouring survivors is there by chance with probability
    /// p_gc^n, and sinks with the complement of that. The text speaks of two and more, so a
    /// survivor without neighbours stays: it would sink with 1 - p_gc, against the "low false
    /// positive rate" of the text. The parameter `sinking` sets which clusters are tested: `all`,
    /// or the longest until no more survivors are left than p_gc expects ("cold pages increase the
    /// percentage of valid pages of a block compared to the expected p_gc fraction").
    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        if let Estimator::Oracle(_) = self.estimator {
            return to.fill(survivors.stream);
        }
        let log = survivors.stream.index();
        let p_gc = Self::p_gc(log, device);
        to.fill(StreamId(self.ladder[usize::from(self.place[log])] as u32));
        let mut beyond_expected =
            to.len() as f64 - p_gc * f64::from(device.geometry.pages_per_erase_block);
        if self.sinking == Sinking::Excess && beyond_expected < 1.0 {
            return;
        }
        self.find_clusters(survivors.offsets);
        for index in 0..self.clusters.len() {
            let (start, end) = self.clusters[index];
            if self.sinking == Sinking::Excess && beyond_expected < 1.0 {
                break;
            }
            let by_chance = p_gc.powi((end - start) as i32);
            if self.random.random::<f64>() >= by_chance {
                // Called for each cluster, since it may be the first that needs the log below.
                let below = StreamId(self.below(log, device) as u32);
                to[start as usize..end as usize].fill(below);
                beyond_expected -= f64::from(end - start);
            }
        }
    }

    fn donor(&mut self, needy: StreamId, device: &Device) -> usize {
        let share = |log: usize| self.estimator.share(log, device);
        let is_joined =
            |log: &usize| !self.ladder.contains(log) && device.streams[*log].erase_blocks > 1;
        if let Some(joined) = (0..self.most_logs).find(is_joined) {
            return joined;
        }
        let log = needy.index();
        let place = usize::from(self.place[log]);
        let neighbours = self.ladder[place.saturating_sub(1)..(place + 2).min(self.ladder.len())]
            .iter()
            .copied();
        let donor = space::donor(neighbours, device, share);
        donor.or_else(|| space::donor(self.ladder.iter().copied(), device, share)).unwrap_or(log)
    }

    fn stream_label(&self, stream: StreamId) -> String {
        match self.ladder.iter().position(|&log| log == stream.index()) {
            Some(0) => "log 0 (hottest)".to_owned(),
            Some(place) => format!("log {place}"),
            None => "joined log".to_owned(),
        }
    }
}
