//! SepBIT: six classes by the time at which a page is likely to die.

use registry::{Args, Info};
use units::{Lpn, StreamId};

use crate::{BuildError, Context, Device, Features, Placement, Previous, Pull, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "sepbit",
    aliases: &["sep_bit"],
    summary: "host writes by how long the last version lived, relocated pages by their age; six \
              classes",
    source: "Wang, Zhao, Li, Yang, Lee, Bao & Luo, FAST 2022, algorithm 1",
    params: &[],
};

/// The victim policy of its authors: Cost-Benefit by the age of the segment.
pub const VICTIM: &str = "cost_benefit(age=closed)";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 4;

/// Class 1 of the paper: host writes whose last version lived for a short time.
const SHORT_LIVED: StreamId = StreamId(0);
/// Class 2: the other host writes.
const LONG_LIVED: StreamId = StreamId(1);
/// Class 3: pages relocated from class 1.
const FROM_SHORT_LIVED: StreamId = StreamId(2);
/// Class 4, followed by 5 and 6: other relocated pages, by age.
const RELOCATED: u32 = 3;

/// Ages at which the next of the last three classes begins, in mean lives of class 1's segments.
const AGES: [u64; 2] = [4, 16];

/// Classes of the paper.
const CLASSES: usize = 6;

/// Number of segments of class 1 over which their mean life is taken.
const SEGMENTS: u64 = 16;

/// Lives and ages are counted in host page writes. The threshold is the mean life of the last
/// sixteen erase blocks of class 1 that were cleaned, and infinite until then. Pages written for
/// the first time have no last version, and count as long-lived.
///
/// The time of the last host write is kept for each page, 4 bytes. The authors keep it beside the
/// data, and for class 1 in a queue in memory, which is smaller and leads to the same decisions.
/// They clean when a share of the space is garbage, whereas the device here cleans when it is full.
/// Where there is no room for six streams the last classes are joined.
#[derive(Debug)]
pub struct SepBit {
    written_at: Vec<u32>,
    /// The mean life of segments of class 1; `None` is infinite.
    threshold: Option<u64>,
    lives: u64,
    segments: u64,
    /// Number of streams that there is room for.
    classes: usize,
}

impl SepBit {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(_args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        Ok(Self {
            written_at: vec![0; context.geometry.logical_pages as usize],
            threshold: None,
            lives: 0,
            segments: 0,
            classes: CLASSES.min(context.most_streams.max(1)),
        })
    }
}

impl SepBit {
    /// The stream of a class, which it shares with others if there is no room.
    #[inline]
    fn stream(&self, class: StreamId) -> StreamId {
        StreamId(class.0.min(self.classes as u32 - 1))
    }
}

impl Placement for SepBit {
    #[inline]
    fn features(&self) -> Features {
        // It pulls nothing: this only makes the FTL report victims without survivors.
        Features { uses_previous: true, pulls: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        self.classes
    }

    fn streams_left_out(&self) -> usize {
        CLASSES - self.classes
    }

    fn relocation_targets(&self) -> usize {
        2
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        let now = device.clock as u32;
        let lived = u64::from(now.wrapping_sub(self.written_at[lpn.index()]));
        self.written_at[lpn.index()] = now;
        let is_short = previous.is_some() && self.threshold.is_none_or(|most| lived < most);
        if is_short { SHORT_LIVED } else { self.stream(LONG_LIVED) }
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        if survivors.stream == SHORT_LIVED {
            to.fill(self.stream(FROM_SHORT_LIVED));
            return;
        }
        for (to, &lpn) in to.iter_mut().zip(survivors.lpns) {
            let written_at = self.written_at[lpn as usize];
            let age = u64::from((device.clock as u32).wrapping_sub(written_at));
            let is_beyond =
                |times: &u64| self.threshold.is_some_and(|threshold| age >= times * threshold);
            let class = RELOCATED + AGES.iter().filter(|times| is_beyond(times)).count() as u32;
            *to = self.stream(StreamId(class));
        }
    }

    fn pulls(&mut self, survivors: Survivors<'_>, device: &Device, _pulls: &mut Vec<Pull>) {
        if survivors.stream != SHORT_LIVED {
            return;
        }
        self.lives += u64::from(device.age_of(survivors.block));
        self.segments += 1;
        if self.segments == SEGMENTS {
            self.threshold = Some(self.lives / SEGMENTS);
            (self.lives, self.segments) = (0, 0);
        }
    }

    fn stream_label(&self, stream: StreamId) -> String {
        let what = match stream.0 {
            0 => "short-lived",
            1 => "long-lived",
            2 => "relocated short-lived",
            _ => "relocated",
        };
        format!("class {} ({what})", stream.0 + 1)
    }
}
