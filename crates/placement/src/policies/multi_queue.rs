//! Multi-queue stream management: chunks of pages by the logarithm of their writes.

use registry::{Args, Info, Param, ParamKind};
use units::{Lpn, StreamId};

use crate::{BuildError, Context, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "multi_queue",
    aliases: &["mq", "auto_stream"],
    summary: "chunks of neighbouring pages by the logarithm of their writes; relocated pages apart",
    source: "Yang, Pandurangan, Choi & Balakrishnan, AutoStream, SYSTOR 2017 (multi-queue), as \
             SepBIT's authors implement it (Wang et al., FAST 2022; github.com/fallfish/sepbit, \
             MultiQueue.java)",
    params: &[
        Param {
            name: "chunk_pages",
            kind: ParamKind::Integer { min: 1, max: 1 << 20 },
            default: "256",
            help: "neighbouring logical pages that are one chunk: 1 MiB of pages of 4 KiB",
        },
        Param {
            name: "queues",
            kind: ParamKind::Integer { min: 1, max: 63 },
            default: "5",
            help: "queues, each of its own stream; relocated pages have one more",
        },
    ],
};

/// Cost-Benefit by the age of the segment, which SepBIT's authors use for all placements.
/// AutoStream was made for SSDs with streams, whose cleaning is unknown.
pub const VICTIM: &str = "cost_benefit(age=closed)";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 4;

/// A chunk that was written n times is in queue ln n, rounded down, and so are its pages that the
/// host writes. Relocated pages go to a stream of their own, as streams of the host mean nothing to
/// the cleaning of a drive.
///
/// The paper was not available; this follows SepBIT's authors. There a chunk falls by a queue if it
/// is not written for as long as the mean interval of the hottest one. That has no effect: a chunk
/// is put in the queue of its count at its next write, before anything asks for its queue. So the
/// state needed for that is left out here. Counts never fall either, and where all chunks are
/// written often all are in the last queue.
///
/// State: 4 bytes per chunk.
#[derive(Debug)]
pub struct MultiQueue {
    writes: Vec<u32>,
    chunk_pages: u32,
    queues: u32,
    left_out: usize,
}

impl MultiQueue {
    /// Makes the policy for this device.
    ///
    /// # Errors
    /// None.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        let asked = args.integer("queues") as usize;
        let queues = asked.min(context.most_streams.saturating_sub(1).max(1));
        let chunk_pages = args.integer("chunk_pages") as u32;
        let chunks = context.geometry.logical_pages.div_ceil(chunk_pages);
        Ok(Self {
            writes: vec![0; chunks as usize],
            chunk_pages,
            queues: queues as u32,
            left_out: asked - queues,
        })
    }
}

impl Placement for MultiQueue {
    #[inline]
    fn features(&self) -> Features {
        Features::NONE
    }

    fn streams(&self) -> usize {
        self.queues as usize + 1
    }

    fn streams_left_out(&self) -> usize {
        self.left_out
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, _previous: Option<Previous>, _device: &Device) -> StreamId {
        let writes = &mut self.writes[(lpn.0 / self.chunk_pages) as usize];
        *writes = writes.saturating_add(1);
        StreamId((f64::from(*writes).ln() as u32).min(self.queues - 1))
    }

    fn relocation_streams(
        &mut self,
        _survivors: Survivors<'_>,
        _device: &Device,
        to: &mut [StreamId],
    ) {
        to.fill(StreamId(self.queues));
    }

    fn stream_label(&self, stream: StreamId) -> String {
        if stream.0 == self.queues { "relocated".to_owned() } else { format!("queue {}", stream.0) }
    }
}

#[cfg(test)]
mod tests {
    use registry::Spec;
    use units::{Geometry, Lpn};

    use super::{INFO, MultiQueue};
    use crate::{Context, Device, Placement as _};

    /// All pages of a chunk count, in powers of e.
    #[test]
    fn queues_follow_the_logarithm_of_a_chunks_writes() {
        let geometry = Geometry::with_over_provisioning(4096, 16, 16 * 64, 0.25).expect("valid");
        let spec = Spec::parse("multi_queue(chunk_pages=4)").expect("a spec");
        let args = INFO.accept(&spec).expect("parameters");
        let mut queues = MultiQueue::build(&args, &Context::new(geometry, 1)).expect("a policy");
        let device = Device::new(geometry, 6);
        let streams: Vec<u32> =
            (0..200).map(|number| queues.host_stream(Lpn(number % 4), None, &device).0).collect();
        let first = [1, 2, 3, 4].map(|queue| streams.iter().position(|&stream| stream == queue));
        assert_eq!(first, [2, 7, 20, 54].map(Some), "3, 8, 21 and 55 writes");
        assert_eq!(queues.host_stream(Lpn(4), None, &device).0, 0, "another chunk");
    }
}
