//! A stream of its own for translation pages, or copies, whatever the placement policy does with
//! the host's pages.

use placement::{Death, Device, Features, Place, Placement, Previous, Pull, Survivors};
use units::{Lpn, StreamId};

/// A placement policy, with one more stream for the logical pages from `first` on, which are the
/// drive's own: they hold the map, or copies. DFTL keeps data blocks and translation blocks apart
/// in the same way.
///
/// The policy sees only its own streams and pages. If a page of the host lies in a translation
/// erase block, since it was relocated when no erase block was free for it, the policy is told that
/// it lies in its first stream. [`Device`] counts translation pages with the others, and in its
/// clock, too.
#[derive(Debug)]
pub struct WithOwnStream<P> {
    policy: P,
    first: u32,
    own: StreamId,
    label: &'static str,
    lanes: u32,
    offsets: Vec<u32>,
    lpns: Vec<u32>,
    to: Vec<StreamId>,
}

impl<P: Placement> WithOwnStream<P> {
    pub(super) fn new(policy: P, first: u32, lanes: u32, label: &'static str) -> Self {
        let own = StreamId(policy.streams() as u32);
        let (offsets, lpns, to) = (Vec::new(), Vec::new(), Vec::new());
        Self { policy, first, own, label, lanes, offsets, lpns, to }
    }

    fn seen(&self, stream: StreamId) -> StreamId {
        if stream == self.own { StreamId(0) } else { stream }
    }

    /// Returns true if cleaning translation erase blocks gains an erase block in each lane, on
    /// average.
    fn has_to_give(&self, device: &Device) -> bool {
        let space = device.stream(self.own);
        let closed = space.erase_blocks.saturating_sub(2 * self.lanes);
        closed * device.geometry.pages_per_erase_block >= space.valid_pages
    }

    /// Chooses streams for survivors of both kinds: only those of the host are shown to the policy.
    #[cold]
    fn relocate_mixed(&mut self, survivors: Survivors<'_>, device: &Device, to: &mut [StreamId]) {
        self.offsets.clear();
        self.lpns.clear();
        let both = survivors.offsets.iter().zip(survivors.lpns);
        for (&offset, &lpn) in both.filter(|(_, lpn)| **lpn < self.first) {
            self.offsets.push(offset);
            self.lpns.push(lpn);
        }
        self.to.clear();
        self.to.resize(self.lpns.len(), StreamId(0));
        if !self.lpns.is_empty() {
            let stream = self.seen(survivors.stream);
            let shown = Survivors {
                block: survivors.block,
                stream,
                offsets: &self.offsets,
                lpns: &self.lpns,
            };
            self.policy.relocation_streams(shown, device, &mut self.to);
        }
        let mut chosen = self.to.iter();
        for (to, &lpn) in to.iter_mut().zip(survivors.lpns) {
            *to = if lpn >= self.first {
                self.own
            } else {
                *chosen.next().expect("one stream for each page of the host")
            };
        }
    }
}

impl<P: Placement> Placement for WithOwnStream<P> {
    #[inline]
    fn features(&self) -> Features {
        Features {
            chooses_victims: false,
            looks_ahead: false,
            has_handles: false,
            ..self.policy.features()
        }
    }

    fn streams_left_out(&self) -> usize {
        self.policy.streams_left_out()
    }

    fn pulls(&mut self, survivors: Survivors<'_>, device: &Device, pulls: &mut Vec<Pull>) {
        // Erase blocks of translation pages are not the policy's.
        if survivors.stream != self.own {
            self.policy.pulls(survivors, device, pulls);
        }
    }

    fn streams(&self) -> usize {
        self.policy.streams() + 1
    }

    fn relocation_targets(&self) -> usize {
        self.policy.relocation_targets() + 1
    }

    #[inline]
    fn host_stream(&mut self, lpn: Lpn, previous: Option<Previous>, device: &Device) -> StreamId {
        if lpn.0 >= self.first {
            return self.own;
        }
        let previous =
            previous.map(|previous| Previous { stream: self.seen(previous.stream), ..previous });
        self.policy.host_stream(lpn, previous, device)
    }

    fn relocation_streams(
        &mut self,
        survivors: Survivors<'_>,
        device: &Device,
        to: &mut [StreamId],
    ) {
        if survivors.stream == self.own || survivors.lpns.iter().any(|&lpn| lpn >= self.first) {
            self.relocate_mixed(survivors, device, to);
        } else {
            self.policy.relocation_streams(survivors, device, to);
        }
    }

    fn page_died(&mut self, death: Death, device: &Device) {
        if death.lpn.0 < self.first {
            self.policy.page_died(Death { stream: self.seen(death.stream), ..death }, device);
        }
    }

    fn page_placed(&mut self, place: Place, device: &Device) {
        if place.lpn.0 < self.first {
            self.policy.page_placed(Place { stream: self.seen(place.stream), ..place }, device);
        }
    }

    fn stream_to_close(&mut self, device: &Device) -> Option<StreamId> {
        self.policy.stream_to_close(device)
    }

    /// Translation pages are overwritten so often that their erase blocks soon hold few valid
    /// pages: they give first, if they can.
    fn donor(&mut self, needy: StreamId, device: &Device) -> usize {
        if self.has_to_give(device) {
            self.own.index()
        } else {
            self.policy.donor(self.seen(needy), device)
        }
    }

    fn stream_label(&self, stream: StreamId) -> String {
        if stream == self.own { self.label.to_owned() } else { self.policy.stream_label(stream) }
    }
}
