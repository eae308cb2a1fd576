//! A placement policy behind an SLC cache: it places what leaves the cache.

use placement::{Death, Device, Features, Place, Placement, Previous, Pull, Survivors};
use units::{EraseBlockId, Lpn, StreamId};

/// A placement policy, with one more stream for the pages of the cache if there is one.
///
/// The scheme writes to the cache by itself. A page that leaves it is for the policy one that the
/// host writes for the first time: what lies in the cache has no place of the policy's yet.
#[derive(Debug)]
pub struct BehindCache<P> {
    policy: P,
    own: Option<StreamId>,
}

impl<P: Placement> BehindCache<P> {
    /// The policy behind a cache, or alone.
    pub fn new(policy: P, has_cache: bool) -> Self {
        let own = has_cache.then(|| StreamId(policy.streams() as u32));
        Self { policy, own }
    }

    /// The stream of the cache.
    pub fn cache_stream(&self) -> Option<StreamId> {
        self.own
    }
}

impl<P: Placement> Placement for BehindCache<P> {
    #[inline]
    fn features(&self) -> Features {
        self.policy.features()
    }

    fn streams(&self) -> usize {
        self.policy.streams() + usize::from(self.own.is_some())
    }

    fn streams_left_out(&self) -> usize {
        self.policy.streams_left_out()
    }

    fn relocation_targets(&self) -> usize {
        self.policy.relocation_targets()
    }

    #[inline]
    fn set_handle(&mut self, handle: u8) {
        self.policy.set_handle(handle);
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        let previous = previous.filter(|previous| Some(previous.stream) != self.own);
        self.policy.host_stream(lpn, previous, device)
    }

    fn most_ahead(&self) -> usize {
        self.policy.most_ahead()
    }

    fn look_ahead(&mut self, writes: &[(Lpn, Option<Previous>)], device: &Device) {
        self.policy.look_ahead(writes, device);
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        if Some(survivors.stream) != self.own {
            return self.policy.relocation_streams(survivors, device, to);
        }
        for (to, &lpn) in to.iter_mut().zip(survivors.lpns) {
            *to = self.policy.host_stream(Lpn(lpn), None, device);
        }
    }

    fn pulls(&mut self, survivors: Survivors<'_>, device: &Device, pulls: &mut Vec<Pull>) {
        if Some(survivors.stream) != self.own {
            self.policy.pulls(survivors, device, pulls);
        }
    }

    fn donor(&mut self, needy: StreamId, device: &Device) -> usize {
        self.policy.donor(needy, device)
    }

    #[inline]
    fn page_died(&mut self, death: Death, device: &Device) {
        if Some(death.stream) != self.own {
            self.policy.page_died(death, device);
        }
    }

    #[inline]
    fn page_placed(&mut self, place: Place, device: &Device) {
        if Some(place.stream) == self.own {
            return;
        }
        let stream_of = |block| StreamId(u32::from(device.block(block).stream));
        let from = place.from.filter(|&from| Some(stream_of(from)) != self.own);
        self.policy.page_placed(Place { from, ..place }, device);
    }

    fn stream_to_close(&mut self, device: &Device) -> Option<StreamId> {
        self.policy.stream_to_close(device)
    }

    fn block_closed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.policy.block_closed(block, domain, device);
    }

    fn choose_victim(&mut self, domain: usize, device: &Device) -> Option<EraseBlockId> {
        self.policy.choose_victim(domain, device)
    }

    fn victim_removed(&mut self, block: EraseBlockId, domain: usize, device: &Device) {
        self.policy.victim_removed(block, domain, device);
    }

    fn domains(&self) -> usize {
        // Its erase blocks are never in the index, but told of there.
        self.policy.domains() + usize::from(self.own.is_some() && self.features().per_stream)
    }

    fn stream_label(&self, stream: StreamId) -> String {
        if Some(stream) == self.own {
            "SLC cache".to_owned()
        } else {
            self.policy.stream_label(stream)
        }
    }
}
