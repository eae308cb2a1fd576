//! Placement by the host: a reclaim unit handle for each placement handle (NVMe FDP).

use placement::{Device, Features, Placement, Previous, Survivors};
use units::{EraseBlockId, Lpn, StreamId};

use crate::drive::profile::{FdpConfig, Isolation};
use crate::drive::schemes::fdp::{FdpCounts, FdpEvents, HandleCounts};

/// The placement policy of a drive with FDP: pages go where the host says.
///
/// The first streams are the reclaim units that handles refer to. They are followed by those for
/// data that the controller moves: one for all handles under initial isolation, one for each handle
/// under persistent isolation, so that pages of two handles never share a reclaim unit. Victims are
/// chosen among all reclaim units: the standard leaves that to the controller.
#[derive(Clone, Debug)]
pub struct ByHandle {
    handles: u8,
    is_persistent: bool,
    at_hand: u8,
}

impl ByHandle {
    /// Makes the policy of a profile with handles.
    #[must_use]
    pub fn new(config: &FdpConfig) -> Self {
        Self {
            handles: config.handles as u8,
            is_persistent: config.isolation == Isolation::Persistently,
            at_hand: 0,
        }
    }

    /// The handle of a stream; `None` for moved data of all handles.
    fn handle_of(&self, stream: u32) -> Option<usize> {
        let handles = u32::from(self.handles);
        (stream < handles || self.is_persistent).then(|| (stream % handles) as usize)
    }
}

impl Placement for ByHandle {
    #[inline]
    fn features(&self) -> Features {
        Features { has_handles: true, ..Features::NONE }
    }

    fn streams(&self) -> usize {
        usize::from(self.handles) * if self.is_persistent { 2 } else { 1 }
            + usize::from(!self.is_persistent)
    }

    #[inline]
    fn set_handle(&mut self, handle: u8) {
        self.at_hand = if handle < self.handles { handle } else { 0 };
    }

    #[inline]
    fn host_stream(&mut self, _lpn: Lpn, _previous: Option<Previous>, _: &Device) -> StreamId {
        StreamId(u32::from(self.at_hand))
    }

    fn relocation_streams(&mut self, survivors: Survivors<'_>, _: &Device, to: &mut [StreamId]) {
        let own = self.handle_of(survivors.stream.0).unwrap_or(0) as u32;
        let of_handle = if self.is_persistent { own } else { 0 };
        to.fill(StreamId(u32::from(self.handles) + of_handle));
    }

    fn stream_label(&self, stream: StreamId) -> String {
        match self.handle_of(stream.0) {
            Some(handle) if stream.0 < u32::from(self.handles) => format!("handle {handle}"),
            Some(handle) => format!("moved of handle {handle}"),
            None => "moved".to_owned(),
        }
    }
}

/// Counters by handle.
#[derive(Debug)]
pub(super) struct Record {
    policy: ByHandle,
    events: FdpEvents,
    /// The handle that the host named last; then the one that it stands for.
    named: u8,
    host_page_writes: Vec<u64>,
    /// Indexed by the stream of the reclaim unit that pages were moved out of.
    relocated_pages: Vec<u64>,
    /// The current reclaim unit of each handle.
    unit: Vec<u32>,
    /// The last reclaim unit of each handle that was padded.
    padded: Vec<u32>,
}

impl Record {
    pub fn new(config: &FdpConfig) -> Self {
        let policy = ByHandle::new(config);
        let handles = config.handles as usize;
        Self {
            events: FdpEvents::default(),
            named: 0,
            host_page_writes: vec![0; handles],
            relocated_pages: vec![0; policy.streams()],
            unit: vec![u32::MAX; handles],
            padded: vec![u32::MAX; handles],
            policy,
        }
    }

    /// Sets the handle of the pages that come from now on.
    pub fn set_handle(&mut self, handle: u8) {
        self.named = handle;
        self.policy.set_handle(handle);
    }

    /// The handle of the pages that come.
    pub fn named(&self) -> u8 {
        self.named
    }

    /// Records a page of the host, with the handle that was set.
    pub fn came(&mut self) {
        self.events.invalid_placement_identifiers += u64::from(self.named >= self.policy.handles);
    }

    /// Records that a page of the host was given a place.
    pub fn wrote(&mut self, stream: StreamId, unit: u32) {
        self.host_page_writes[stream.index()] += 1;
        if self.unit[stream.index()] != unit {
            self.unit[stream.index()] = unit;
            self.events.units_begun += 1;
        }
    }

    /// Records that a page of a reclaim unit was left unwritten.
    pub fn padded(&mut self, stream: u32, unit: u32) {
        if let Some(padded) = self.padded.get_mut(stream as usize)
            && *padded != unit
        {
            *padded = unit;
            self.events.units_not_fully_written += 1;
        }
    }

    /// Records that a victim is cleaned.
    pub fn cleans(&mut self, survivors: u32) {
        self.events.media_reallocated += u64::from(survivors > 0);
    }

    /// Records that a survivor has left a victim of a stream.
    pub fn moved(&mut self, stream: u32) {
        self.relocated_pages[stream as usize] += 1;
    }

    /// The counters, with the current state.
    pub fn counts(
        &self,
        device: &Device,
        is_in_use: &[bool],
        room: impl Fn(StreamId) -> u32,
    ) -> FdpCounts {
        let handles = usize::from(self.policy.handles);
        // The last entry is for units that belong to no handle.
        let mut all = vec![HandleCounts::default(); handles + 1];
        let place = |stream: u32| self.policy.handle_of(stream).unwrap_or(handles);
        for (stream, &pages) in (0..).zip(&self.relocated_pages) {
            all[place(stream)].relocated_pages += pages;
        }
        for block in (0..device.blocks.len()).filter(|&block| is_in_use[block]) {
            let block = device.block(EraseBlockId(block as u32));
            let counts = &mut all[place(u32::from(block.stream))];
            counts.reclaim_units += 1;
            counts.valid_pages += u64::from(block.valid);
        }
        for (handle, &pages) in self.host_page_writes.iter().enumerate() {
            all[handle].host_page_writes = pages;
            all[handle].available_pages = room(StreamId(handle as u32));
        }
        let relocated = all.pop().filter(|_| !self.policy.is_persistent);
        FdpCounts {
            events: self.events,
            handles: all,
            relocated,
            unit_pages: device.geometry.pages_per_erase_block,
        }
    }
}

#[cfg(test)]
mod tests {
    use placement::{Context, build_victim};
    use registry::Spec;
    use units::Geometry;

    use super::*;
    use ftl::PageMapped;

    /// Number of reclaim units with pages of more than one handle, after random writes of pages
    /// that change their handle now and then.
    fn mixed_units(isolation: Isolation) -> usize {
        const PAGES: u32 = 4000;
        let geometry = Geometry::with_over_provisioning(4096, 32, u64::from(PAGES), 0.3).unwrap();
        let config = FdpConfig { handles: 3, isolation };
        let policy = ByHandle::new(&config);
        let context = Context::new(geometry, 1);
        let victims = build_victim(&Spec::parse("greedy").unwrap(), &context, 1).unwrap();
        let mut ftl = PageMapped::new(geometry, "by handle", policy, victims).unwrap();
        let mut handle_of = vec![0; PAGES as usize];
        let mut random = 1_u64;
        for number in 0..20 * PAGES {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let lpn = if number < PAGES { number } else { (random >> 33) as u32 % PAGES };
            let handle = if random >> 60 == 0 { (random >> 50) as u8 % 3 } else { lpn as u8 % 3 };
            ftl.set_handle(handle);
            ftl.write(Lpn(lpn), 0);
            handle_of[lpn as usize] = handle;
        }
        ftl.audit().unwrap();
        assert!(ftl.counters().relocated_pages > u64::from(PAGES), "much was moved");
        assert_eq!(ftl.counters().spilled_pages, 0, "nothing went where it does not belong");
        let mut held = vec![0_u8; geometry.erase_blocks as usize];
        for (lpn, handle) in (0..PAGES).zip(handle_of) {
            held[(ftl.lookup(Lpn(lpn)).unwrap().0 / 32) as usize] |= 1 << handle;
        }
        held.iter().filter(|handles| handles.count_ones() > 1).count()
    }

    #[test]
    fn persistently_isolated_pages_never_meet_those_of_another_handle() {
        assert_eq!(mixed_units(Isolation::Persistently), 0);
        assert!(mixed_units(Isolation::Initially) > 10, "what is moved is mixed");
    }
}
