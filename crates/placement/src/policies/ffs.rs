//! FFS: relocated pages apart from host writes, cleaned by cost and benefit.

use registry::{Args, Info};
use units::{Lpn, StreamId};

use super::separate::{self, Separate};
use crate::{BuildError, Context, Device, Features, Placement, Previous, Survivors};

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "ffs",
    aliases: &[],
    summary: "`separate` with Cost-Benefit: a flash file system's cleaning, with cold data apart",
    source: "Kawaguchi, Nishioka & Motoda, USENIX 1995, \"separate segment cleaning\"",
    params: &[],
};

/// The victim policy of its authors.
pub const VICTIM: &str = "cost_benefit";

/// State per logical page, in bytes.
pub const BYTES_PER_PAGE: u32 = 0;

/// The placement of [`Separate`], whose authors use Greedy. The FFS paper cleans by age x (1 - u) /
/// 2u, with the age of an erase block since its last invalidation.
#[derive(Debug)]
pub struct Ffs(Separate);

impl Ffs {
    /// Makes the policy; this cannot fail.
    ///
    /// # Errors
    /// None.
    pub fn build(args: &Args, context: &Context<'_>) -> Result<Self, BuildError> {
        debug_assert!(separate::INFO.params.is_empty());
        Separate::build(args, context).map(Self)
    }
}

impl Placement for Ffs {
    #[inline]
    fn features(&self) -> Features {
        self.0.features()
    }

    fn streams(&self) -> usize {
        self.0.streams()
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        self.0.host_stream(lpn, previous, device)
    }

    #[inline]
    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        self.0.relocation_streams(survivors, device, to);
    }

    fn stream_label(&self, stream: StreamId) -> String {
        self.0.stream_label(stream)
    }
}
