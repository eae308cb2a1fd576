//! Logs by lifetime, where the host gives hints of it (`hints=yes`).

use placement::{Device, Features, Placement, Previous, Survivors};
use units::{Lifetime, Lpn, StreamId};

/// The placement policy of a volume that takes hints: a page goes to the log of the lifetime that
/// its write was given, and what cleaning moves stays in its log, so that pages of two lifetimes
/// never meet in a segment. A drive with FDP does the same with persistently isolated handles.
///
/// The number of a log is the lifetime's handle: the first is of writes without a hint.
#[derive(Clone, Debug, Default)]
pub(super) struct ByLifetime {
    at_hand: u8,
}

impl Placement for ByLifetime {
    #[inline]
    fn features(&self) -> Features {
        Features { has_handles: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        Lifetime::ALL.len()
    }

    #[inline]
    fn set_handle(&mut self, handle: u8) {
        self.at_hand = handle;
    }

    #[inline]
    fn host_stream(&mut self, _lpn: Lpn, _previous: Option<Previous>, _: &Device) -> StreamId {
        StreamId(u32::from(self.at_hand))
    }

    fn relocation_streams(&mut self, survivors: Survivors<'_>, _: &Device, to: &mut [StreamId]) {
        to.fill(survivors.stream);
    }

    fn stream_label(&self, stream: StreamId) -> String {
        lifetime_of(self, stream).name().to_owned()
    }
}

/// Gives the expected lifetime of the pages in a log.
pub(super) fn lifetime_of(policy: &impl Placement, stream: StreamId) -> Lifetime {
    let lifetime = policy.features().has_handles.then(|| Lifetime::of_handle(stream.0 as u8));
    lifetime.flatten().unwrap_or_default()
}
