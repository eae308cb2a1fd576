//! Devices that say what they were sent.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test program uses a part; a test may panic"
)]

use std::collections::{BTreeMap, BTreeSet};

use block::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, DeviceKind, Limits, Reply,
};
use devices::{Simulated, SimulatedSettings};
use replay::{Fit, Fitted, Pace, Played, Playing, Region, Remap, Totals, flow, play};
use ssd::drive::profile;
use ssd::drive::state::State;
use units::{IoOp, IoRequest, Nanos, Progress, VecRequests};

/// A device that notes when it was sent what, and how much was outstanding.
pub struct Watched<D> {
    pub inner: D,
    pub sent: Vec<(Nanos, Command)>,
    pub ended: Vec<Completion>,
    pub most: u32,
}

impl<D: BlockDevice> Watched<D> {
    pub fn new(inner: D) -> Self {
        Self { inner, sent: Vec::new(), ended: Vec::new(), most: 0 }
    }

    /// Operation, offset and length of all that was sent.
    pub fn shapes(&self) -> Vec<(IoOp, u64, u32)> {
        self.sent.iter().map(|(_, command)| (command.op, command.offset, command.length)).collect()
    }
}

impl<D: BlockDevice> BlockDevice for Watched<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn now(&mut self) -> Nanos {
        self.inner.now()
    }

    fn outstanding(&self) -> u32 {
        self.inner.outstanding()
    }

    fn submit(&mut self, command: Command) {
        self.sent.push((self.inner.now(), command.clone()));
        self.inner.submit(command);
        self.most = self.most.max(self.inner.outstanding());
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        let before = completed.len();
        let waited = self.inner.wait(until, completed);
        self.ended.extend_from_slice(&completed[before..]);
        waited
    }
}

/// A device in virtual time on which everything takes equally long, and some requests fail.
pub struct Fixed {
    info: DeviceInfo,
    now: Nanos,
    takes: Nanos,
    /// Each so many-th request fails; 0 for none.
    pub fails_each: u64,
    count: u64,
    /// By end and number: start and command.
    under_way: BTreeMap<(Nanos, u64), (Nanos, Command)>,
    failing: BTreeSet<u64>,
}

impl Fixed {
    pub fn new(takes: Nanos, queue_depth: u32) -> Self {
        let info = DeviceInfo {
            name: "fixed".to_owned(),
            model: String::new(),
            kind: DeviceKind::Simulated,
            limits: Limits { capacity_bytes: 1 << 30, sector_bytes: 512, most_bytes: 1 << 20 },
            queue_depth,
            is_read_only: false,
            has_trim: true,
            zeroing_bytes: None,
            is_virtual: true,
            holds_data: false,
        };
        Self {
            info,
            now: 7_000,
            takes,
            fails_each: 0,
            count: 0,
            under_way: BTreeMap::new(),
            failing: BTreeSet::new(),
        }
    }
}

impl BlockDevice for Fixed {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn outstanding(&self) -> u32 {
        self.under_way.len() as u32
    }

    fn submit(&mut self, command: Command) {
        assert!(self.outstanding() < self.info.queue_depth);
        self.count += 1;
        if self.fails_each > 0 && self.count.is_multiple_of(self.fails_each) {
            self.failing.insert(self.count);
        }
        self.under_way.insert((self.now + self.takes, self.count), (self.now, command));
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        let next = self.under_way.first_key_value().map_or(Nanos::MAX, |((end, _), _)| *end);
        assert!(next < Nanos::MAX || until < Nanos::MAX, "something is waited for");
        self.now = self.now.max(next.min(until));
        while let Some(first) =
            self.under_way.first_entry().filter(|first| first.key().0 <= self.now)
        {
            let ((completed_at, number), (submitted_at, command)) = first.remove_entry();
            let is_broken = self.failing.contains(&number);
            let outcome =
                if is_broken { Err(command.failed("it is broken")) } else { Ok(Data::Absent) };
            completed.push(Completion {
                reply: Reply { id: command.id, outcome },
                submitted_at,
                completed_at,
            });
        }
        Ok(())
    }
}

/// A small simulated drive.
pub fn drive() -> Simulated {
    let changes = [
        "media.channels=2",
        "media.packages_per_channel=1",
        "media.erase_blocks_per_plane=32",
        "ftl.over_provisioning=1",
    ];
    let profile = profile::load("a16").unwrap().with_overrides(&changes).unwrap();
    Simulated::new(
        "sim:a16",
        &profile,
        SimulatedSettings { state: State::Fresh, seed: 1 },
        &Progress::default(),
    )
    .unwrap()
}

pub fn request(time_ns: Nanos, op: IoOp, offset: u64, length: u32) -> IoRequest {
    IoRequest { time_ns, op, offset, length, stream: 0, latency_ns: None, handle: 0, is_fua: false }
}

/// Gives the totals of the requests, as far as placing them needs them.
pub fn totals(all: &[IoRequest]) -> Totals {
    let end_bytes =
        all.iter().map(|request| request.offset + u64::from(request.length)).max().unwrap_or(0);
    Totals { end_bytes, unit_bytes: 512, by_op: [0, 1, 0, 0], ..Totals::default() }
}

/// Settings of [`played`].
#[derive(Clone, Copy)]
pub struct Settings {
    pub pace: Pace,
    pub keeps_going: bool,
}

/// Plays requests on all of a device.
pub fn played(
    device: &mut dyn BlockDevice,
    all: &[IoRequest],
    settings: Settings,
    progress: &Progress,
) -> Played {
    let region = Region { offset: 0, length: device.info().limits.capacity_bytes };
    let fit = Fit::new(&totals(all), device.info(), region, Remap::Fold).unwrap();
    let source = Fitted::new(Box::new(VecRequests::new(all.to_vec().into())), fit);
    let Settings { pace, keeps_going } = settings;
    play(
        device,
        vec![flow(Box::new(source), pace)],
        &Playing { keeps_going, ..Playing::whole(progress) },
    )
}
