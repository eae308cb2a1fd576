//! Routing requests to the buffers of their volumes, and handing these over to be written.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::Path;

use rustc_hash::FxBuildHasher;
use units::{IoOp, IoRequest};

use super::buffers::{Block, Buffers};
use super::reading::Batch;
use super::writing::{Task, Writers};
use crate::error::TraceError;
use crate::fleet::manifest::{Manifest, VolumeTotals};
use crate::volumes::failed;

/// Numbers of volumes below this are found in a table, others by a hash.
const NEAR_VOLUMES: usize = 1 << 20;
const NONE: u32 = u32::MAX;

/// Places of volumes by their numbers.
struct Places {
    near: Vec<u32>,
    far: HashMap<u32, u32, FxBuildHasher>,
    /// The volume that was asked for last, and its place: most requests follow one of their volume.
    last: (u32, u32),
}

impl Places {
    fn new() -> Self {
        Self { near: vec![NONE; NEAR_VOLUMES], far: HashMap::default(), last: (0, NONE) }
    }

    /// Place of a volume; `next` if it is new, with `true`.
    #[inline]
    fn of(&mut self, volume: u32, next: u32) -> (usize, bool) {
        if self.last.0 == volume && self.last.1 != NONE {
            return (self.last.1 as usize, false);
        }
        let (place, is_new) = match self.near.get_mut(volume as usize) {
            Some(place) if *place == NONE => {
                *place = next;
                (next, true)
            }
            Some(place) => (*place, false),
            None => match self.far.entry(volume) {
                Entry::Occupied(place) => (*place.get(), false),
                Entry::Vacant(place) => (*place.insert(next), true),
            },
        };
        self.last = (volume, place);
        (place as usize, is_new)
    }
}

/// Takes the batches of a trace and keeps a store.
pub(super) struct Router<'a> {
    store: &'a Path,
    manifest: Manifest,
    places: Places,
    buffers: Buffers,
    writers: Writers<'a>,
}

impl<'a> Router<'a> {
    pub(super) fn new(
        store: &'a Path,
        manifest: Manifest,
        memory_bytes: u64,
        writers: Writers<'a>,
    ) -> Self {
        let (mut places, mut buffers) = (Places::new(), Buffers::new(memory_bytes));
        for (place, volume) in manifest.volumes.iter().enumerate() {
            places.of(volume.volume, place as u32);
            buffers.add_volume();
        }
        Self { store, manifest, places, buffers, writers }
    }

    /// Takes the next requests, and gives back their memory.
    pub(super) fn take(&mut self, mut batch: Batch) -> Result<Batch, TraceError> {
        if self.manifest.format.is_none() && !batch.requests.is_empty() {
            self.manifest.format = Some(batch.format.to_owned());
            self.manifest.start_ns = batch.start_ns;
        }
        for request in &batch.requests {
            self.route(request)?;
        }
        if let Some((reached, told)) = batch.due.take() {
            self.manifest.reached = reached;
            self.manifest.told = told;
            self.manifest.complete = batch.is_last;
            self.checkpoint()?;
        }
        Ok(batch)
    }

    /// The manifest as it was written last.
    pub(super) fn into_manifest(self) -> Manifest {
        self.manifest
    }

    #[inline]
    fn route(&mut self, request: &IoRequest) -> Result<(), TraceError> {
        let volumes = &mut self.manifest.volumes;
        let (place, is_new) = self.places.of(request.stream, volumes.len() as u32);
        if is_new {
            volumes.push(VolumeTotals {
                volume: request.stream,
                requests: [0; IoOp::ALL.len()],
                bytes: [0; IoOp::ALL.len()],
                first_ns: request.time_ns,
                last_ns: 0,
                end_bytes: 0,
                parts: 0,
            });
            self.buffers.add_volume();
        }
        let totals = &mut volumes[place];
        let op = request.op as usize;
        totals.requests[op] += 1;
        totals.bytes[op] += u64::from(request.length);
        totals.first_ns = totals.first_ns.min(request.time_ns);
        totals.last_ns = totals.last_ns.max(request.time_ns);
        let end = request.offset.saturating_add(u64::from(request.length));
        totals.end_bytes = totals.end_bytes.max(end);
        if self.buffers.needs_block(place) {
            self.extend(place)?;
        }
        self.buffers.push(place, request);
        Ok(())
    }

    /// Gives a volume a block; if too much is held, hands over the volumes that have most, so that
    /// parts are large.
    #[cold]
    fn extend(&mut self, place: usize) -> Result<(), TraceError> {
        if self.buffers.is_full() {
            for volume in self.buffers.largest_first() {
                self.hand_over(volume)?;
                if self.buffers.is_roomy() {
                    break;
                }
            }
        }
        while !self.buffers.extend(place) {
            self.buffers.give_back(self.writers.blocks()?);
        }
        Ok(())
    }

    /// Hands over what is held of a volume, to be written: a part for each window that it lies in.
    fn hand_over(&mut self, place: usize) -> Result<(), TraceError> {
        let window_ns = self.manifest.plan.window_ns;
        let blocks = self.buffers.take(place);
        let mut windows = BTreeSet::new();
        let (mut from, mut until) = (1, 0);
        for time in blocks.iter().flat_map(Block::times) {
            if time < from || time >= until {
                from = time / window_ns * window_ns;
                until = from.saturating_add(window_ns);
                windows.insert(time / window_ns);
            }
        }
        let parts: Vec<(u64, u64)> = windows.into_iter().zip(self.manifest.next_part..).collect();
        let volume = &mut self.manifest.volumes[place];
        volume.parts += parts.len() as u64;
        self.manifest.next_part += parts.len() as u64;
        self.writers.take(Task {
            volume: volume.volume,
            parts,
            blocks,
            format: self.manifest.format.clone().unwrap_or_default(),
            start_ns: self.manifest.start_ns,
        })
    }

    /// Writes all that is held, and notes how far it is.
    fn checkpoint(&mut self) -> Result<(), TraceError> {
        for volume in self.buffers.filled().collect::<Vec<_>>() {
            self.hand_over(volume)?;
        }
        self.buffers.give_back(self.writers.finish()?);
        // The manifest says that parts are there: they have to be, whatever happens next.
        let root = File::open(self.store).map_err(failed(self.store, "open"))?;
        rustix::fs::syncfs(&root).map_err(|error| failed(self.store, "sync")(error.into()))?;
        self.manifest.write(self.store)
    }
}
