//! No placement: one write frontier for everything.

use registry::{Args, Info};
use units::{Lpn, StreamId};

use crate::{BuildError, Context, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "none",
    aliases: &["single"],
    summary: "one stream for host and relocation writes",
    source: "MULTILOG 4.1 (log-structured random placement)",
    params: &[],
};

/// The victim policy of its authors.
pub const VICTIM: &str = "greedy";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 0;

/// One stream.
#[derive(Debug)]
pub struct NoPlacement;

impl NoPlacement {
    /// Makes the policy; this cannot fail.
    ///
    /// # Errors
    /// None.
    pub fn build(_args: &Args, _context: &Context<'_>) -> Result<Self, BuildError> {
        Ok(Self)
    }
}

impl Placement for NoPlacement {
    #[inline]
    fn features(&self) -> Features {
        Features::NONE
    }

    fn streams(&self) -> usize {
        1
    }

    #[inline]
    fn host_stream(
        &mut self,
        _lpn: Lpn,
        _previous: Option<Previous>,
        _device: &Device,
    ) -> StreamId {
        StreamId(0)
    }

    #[inline]
    fn relocation_streams(
        &mut self,
        _survivors: Survivors<'_>,
        _device: &Device,
        to: &mut [StreamId],
    ) {
        to.fill(StreamId(0));
    }

    fn stream_label(&self, _stream: StreamId) -> String {
        "all".to_owned()
    }
}
