//! Placement with knowledge of the future: the result of an offline placement at the same capacity.

use registry::{Args, Info, Param, ParamKind};
use units::{Lpn, StreamId};

use crate::{BuildError, Context, Device, Features, Future, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "future_knowledge",
    aliases: &["offline"],
    summary: "offline: each page to the stream of the time at which it will be written again",
    source: "Flashwright; streams by death time as He et al., The Unwritten Contract of Solid \
             State Drives, EuroSys 2017 (grouping by death time), with the times known",
    params: &[
        Param {
            name: "epochs",
            kind: ParamKind::Integer { min: 0, max: 4096 },
            default: "0",
            help: "streams a level; 0: as many as the spare space bears",
        },
        Param {
            name: "width",
            kind: ParamKind::Number { min: 0.0001, max: 10.0 },
            default: "0.08",
            help: "span of deaths of a stream of the finest level, as a share of the spare pages",
        },
    ],
};

/// The default victim policy.
pub const VICTIM: &str = "greedy";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 4;

/// Share of the spare erase blocks that may be open at once.
const OPEN_SHARE: f64 = 0.4;

/// Least number of open erase blocks for any sorting by death.
const LEAST_OPEN: u64 = 10;

/// Most levels, if their number is not given.
const MOST_LEVELS: u64 = 4;

/// Pages that die at about the same time are written together, so that their erase blocks empty by
/// themselves. The future is cut into epochs on an absolute grid, in levels: the finest level has
/// the next epochs, each coarser one reaches further. A page goes to the finest level that reaches
/// its death; pages cleaned later are sorted into finer ones. Pages that are never written again
/// have a stream of their own.
///
/// It is not optimal: the placement with the fewest writes under full knowledge is a packing
/// problem. But it is a possible placement, so its writes are an upper bound of the minimum.
#[derive(Debug)]
pub struct FutureKnowledge {
    future: Future,
    /// Number of pages that the host has written so far.
    written: usize,
    dies_at: Vec<u32>,
    epochs: u64,
    /// Length of an epoch of each level in host page writes, the finest first.
    spans: Vec<u64>,
}

impl FutureKnowledge {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// [`BuildError::NeedsFuture`] if the context does not know the future, and
    /// [`BuildError::NoFuture`] if it cannot be read.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let find = context.future.ok_or(BuildError::NeedsFuture(INFO.name))?;
        let future = find().map_err(|error| BuildError::NoFuture(error.to_string()))?;
        let geometry = context.geometry;
        let open = (f64::from(geometry.spare_blocks()) * OPEN_SHARE) as u64;
        let spare = f64::from(geometry.spare_blocks() * geometry.pages_per_erase_block);
        let finest = ((spare * args.number("width")) as u64).max(1);
        let all = future.deaths().len() as u64;
        let (epochs, spans) = match args.integer("epochs") {
            // Too little spare space to sort by death: only pages that die are kept apart from
            // those that never do.
            0 if open < LEAST_OPEN => (1, vec![all.max(1)]),
            0 => levels(open, finest, all),
            epochs => (epochs, grown(epochs, finest, all)),
        };
        let pages = geometry.logical_pages as usize;
        Ok(Self { future, written: 0, dies_at: vec![Future::NEVER; pages], epochs, spans })
    }

    fn stream(&self, dies_at: u32) -> StreamId {
        let never = (self.spans.len() as u64 * self.epochs) as u32;
        if dies_at == Future::NEVER {
            return StreamId(never);
        }
        let (now, death) = (self.written as u64, u64::from(dies_at));
        let level = self
            .spans
            .iter()
            .position(|span| (death / span).saturating_sub(now / span) < self.epochs)
            .unwrap_or(self.spans.len() - 1);
        let epoch = death / self.spans[level] % self.epochs;
        StreamId((level as u64 * self.epochs + epoch) as u32)
    }
}

/// Epochs per level and the spans of the levels, with at most `open` streams. Epochs are as short
/// as `finest` or, where that takes too many streams, longer. There are as few levels as possible,
/// as each costs a relocation of pages whose death is far away.
fn levels(open: u64, mut finest: u64, all: u64) -> (u64, Vec<u64>) {
    loop {
        for count in 1..=MOST_LEVELS {
            let epochs = (open.saturating_sub(1) / count).max(2);
            let spans = grown(epochs, finest, all);
            if spans.len() as u64 <= count {
                return (epochs, spans);
            }
        }
        finest *= 2;
    }
}

/// Spans from the finest on until the whole run is covered: an epoch of each level is half as long
/// as the reach of the level below.
fn grown(epochs: u64, finest: u64, all: u64) -> Vec<u64> {
    let mut spans = vec![finest];
    let mut last = finest;
    while last * epochs < all {
        last *= (epochs / 2).max(2);
        spans.push(last);
    }
    spans
}

impl Placement for FutureKnowledge {
    #[inline]
    fn features(&self) -> Features {
        Features::NONE
    }

    fn streams(&self) -> usize {
        self.spans.len() * self.epochs as usize + 1
    }

    fn relocation_targets(&self) -> usize {
        2
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, _previous: Option<Previous>, _device: &Device) -> StreamId {
        let dies_at = self.future.death(self.written);
        self.written += 1;
        self.dies_at[lpn.index()] = dies_at;
        self.stream(dies_at)
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        _device: &Device,
        to: &mut [StreamId],
    ) {
        for (to, &lpn) in to.iter_mut().zip(survivors.lpns) {
            *to = self.stream(self.dies_at[lpn as usize]);
        }
    }

    fn stream_label(&self, stream: StreamId) -> String {
        let (level, epoch) = (u64::from(stream.0) / self.epochs, u64::from(stream.0) % self.epochs);
        if level as usize == self.spans.len() {
            return "never written again".to_owned();
        }
        format!("spans of {} writes, {epoch}", self.spans[level as usize])
    }
}
