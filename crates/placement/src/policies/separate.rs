//! Host writes apart from relocated pages.

use registry::{Args, Info};
use units::{Lpn, StreamId};

use crate::{BuildError, Context, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "separate",
    aliases: &["host_relocated", "sep_gc"],
    summary: "host writes in one stream, relocated pages in another",
    source: "Van Houdt, Performance Evaluation 2014 (double write frontier); known as SepGC",
    params: &[],
};

/// The victim policy of its authors.
pub const VICTIM: &str = "greedy";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 0;

const HOST: StreamId = StreamId(0);
const RELOCATED: StreamId = StreamId(1);

/// Two streams.
#[derive(Debug)]
pub struct Separate;

impl Separate {
    /// Makes the policy; this cannot fail.
    ///
    /// # Errors
    /// None.
    pub fn build(_args: &Args, _context: &Context<'_>) -> Result<Self, BuildError> {
        Ok(Self)
    }
}

impl Placement for Separate {
    #[inline]
    fn features(&self) -> Features {
        Features::NONE
    }

    fn streams(&self) -> usize {
        2
    }

    #[inline]
    fn host_stream(
        &mut self,
        _lpn: Lpn,
        _previous: Option<Previous>,
        _device: &Device,
    ) -> StreamId {
        HOST
    }

    #[inline]
    fn relocation_streams(
        &mut self,
        _survivors: Survivors<'_>,
        _device: &Device,
        to: &mut [StreamId],
    ) {
        to.fill(RELOCATED);
    }

    fn stream_label(&self, stream: StreamId) -> String {
        if stream == HOST { "host" } else { "relocated" }.to_owned()
    }
}
