//! An open file: consecutive writes go to the volume as one write of whole sectors, which is not
//! waited for before that is necessary.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use block::Failure;
use bytes::{Bytes, BytesMut};
use units::Lifetime;

use super::FilesError;
use super::directory::{Directory, Opened};
use super::medium::Batch;
use super::space::Extents;

/// Bytes that are collected before they are written.
const RUN_BYTES: usize = 1 << 20;
/// Most writes under way.
const MOST_UNDER_WAY: usize = 32;

/// An open file, which is shared by all who have it open.
pub struct File {
    directory: Arc<Directory>,
    pub(super) id: usize,
    state: RwLock<State>,
}

struct State {
    /// Bytes of the file, with those that are only in memory.
    size: u64,
    extents: Extents,
    /// Number of truncations so far.
    cuts: u64,
    /// Last write that was not sent: its first byte, and the bytes.
    run_start: u64,
    run: BytesMut,
    /// Sector in the middle of which the last run ended: a write that follows there needs no read.
    edge: Option<(u64, Bytes)>,
    /// Writes that were sent and not waited for: first byte, byte behind.
    under_way: Vec<(u64, u64)>,
    batch: Arc<Batch>,
    /// Lifetime hint of writes.
    lifetime: Lifetime,
    /// Failure of a write: no reads or writes are taken before all have closed the file.
    failed: Option<Failure>,
}

impl State {
    fn run_end(&self) -> u64 {
        self.run_start + self.run.len() as u64
    }

    fn is_under_way(&self, from: u64, to: u64) -> bool {
        self.under_way.iter().any(|&(start, end)| start < to && from < end)
    }

    fn check(&self) -> Result<(), FilesError> {
        self.failed.clone().map_or(Ok(()), |failure| Err(failure.into()))
    }
}

/// Outcome of trying a read.
enum Read {
    Done(usize),
    /// The bytes are in memory, or on their way.
    NeedsSettling,
}

impl File {
    pub(super) fn new(directory: Arc<Directory>, opened: Opened) -> Self {
        let Opened { id, size, extents, cuts } = opened;
        let state = State {
            size,
            extents,
            cuts,
            run_start: 0,
            run: BytesMut::new(),
            edge: None,
            under_way: Vec::new(),
            batch: Arc::default(),
            lifetime: Lifetime::NotSet,
            failed: None,
        };
        Self { directory, id, state: RwLock::new(state) }
    }

    fn sector(&self) -> u64 {
        u64::from(self.directory.layout.sector_bytes)
    }

    fn shared(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives its bytes.
    pub fn size(&self) -> u64 {
        self.shared().size
    }

    /// Sets the lifetime hint of writes from now on, for all who have it open.
    pub fn expect(&self, lifetime: Lifetime) {
        self.alone().lifetime = lifetime;
    }

    /// Reads from a byte on; gives the number of bytes that were there.
    ///
    /// # Errors
    /// [`FilesError`] if they cannot be read, or have rotted.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<usize, FilesError> {
        loop {
            // The shared lock has to be released before the exclusive one is taken.
            let tried = self.try_read(&self.shared(), offset, to)?;
            match tried {
                Read::Done(bytes) => return Ok(bytes),
                Read::NeedsSettling => {
                    let mut state = self.alone();
                    self.send_run(&mut state, true)?;
                    self.settle(&mut state)?;
                }
            }
        }
    }

    fn try_read(&self, state: &State, offset: u64, to: &mut [u8]) -> Result<Read, FilesError> {
        state.check()?;
        let end = state.size.min(offset.saturating_add(to.len() as u64));
        if end <= offset {
            return Ok(Read::Done(0));
        }
        let to = &mut to[..(end - offset) as usize];
        if !state.run.is_empty() && state.run_start < end && offset < state.run_end() {
            if offset < state.run_start || end > state.run_end() {
                return Ok(Read::NeedsSettling);
            }
            let from = (offset - state.run_start) as usize;
            to.copy_from_slice(&state.run[from..from + to.len()]);
            return Ok(Read::Done(to.len()));
        }
        let sector = self.sector();
        let (first, last) = (offset / sector * sector, end.next_multiple_of(sector));
        if state.is_under_way(first, last) {
            return Ok(Read::NeedsSettling);
        }
        for (at, place, length) in self.pieces(&state.extents, first, last) {
            let data = self.directory.medium.read(place, length as u32)?;
            let (from, until) = (offset.max(at), end.min(at + length));
            let data = data.slice((from - at) as usize..(until - at) as usize);
            data.copy_to(&mut to[(from - offset) as usize..(until - offset) as usize]);
        }
        Ok(Read::Done(to.len()))
    }

    /// Gives the places of a range: first byte in the file, on the volume, and number of bytes.
    fn pieces(&self, extents: &Extents, first: u64, end: u64) -> Vec<(u64, u64, u64)> {
        let layout = self.directory.layout;
        let unit = u64::from(layout.unit_bytes);
        let (mut at, mut pieces) = (first, Vec::new());
        while at < end {
            let (place, units) = extents.place(at / unit);
            let within = at % unit;
            // A read or write is no longer than a run.
            let length = (end - at).min(units * unit - within).min(RUN_BYTES as u64);
            pieces.push((at, layout.unit(place) + within, length));
            at += length;
        }
        pieces
    }

    /// Writes; durable after [`File::sync`]. Bytes between the end of the file and the first one
    /// become zero.
    ///
    /// # Errors
    /// [`FilesError`]: in particular if there is no room. If a write fails later, the next read,
    /// write or sync fails with that error.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), FilesError> {
        if data.is_empty() {
            return Ok(());
        }
        let mut state = self.alone();
        state.check()?;
        self.reach(&mut state, offset.saturating_add(data.len() as u64), true)?;
        self.fill(&mut state, offset)?;
        self.put(&mut state, offset, data)
    }

    /// Makes sure that there is room for `bytes`.
    fn reach(&self, state: &mut State, bytes: u64, reserves: bool) -> Result<(), FilesError> {
        if self.directory.layout.units_for(bytes) > state.extents.units() {
            let more = self.directory.allocate(self.id, bytes, reserves)?;
            more.into_iter().for_each(|extent| state.extents.push(extent));
        }
        Ok(())
    }

    /// Writes zeros from the end up to a byte behind it.
    fn fill(&self, state: &mut State, end: u64) -> Result<(), FilesError> {
        while state.size < end {
            let length = (end - state.size).min(RUN_BYTES as u64) as usize;
            self.put(state, state.size, &vec![0; length])?;
        }
        Ok(())
    }

    /// Writes where there is room and no gap.
    fn put(&self, state: &mut State, offset: u64, data: &[u8]) -> Result<(), FilesError> {
        let continues =
            !state.run.is_empty() && (state.run_start..=state.run_end()).contains(&offset);
        if !continues {
            self.send_run(state, true)?;
            state.run_start = offset;
        }
        let from = (offset - state.run_start) as usize;
        let within = data.len().min(state.run.len() - from);
        state.run[from..from + within].copy_from_slice(&data[..within]);
        state.run.extend_from_slice(&data[within..]);
        state.size = state.size.max(offset + data.len() as u64);
        if state.run.len() >= RUN_BYTES { self.send_run(state, false) } else { Ok(()) }
    }

    /// Sends the collected bytes: whole sectors, completed with the file's bytes around them. Bytes
    /// that do not fill the last sector are kept, unless `is_all`.
    fn send_run(&self, state: &mut State, is_all: bool) -> Result<(), FilesError> {
        let (sector, start, end) = (self.sector(), state.run_start, state.run_end());
        let first = start / sector * sector;
        let last = if is_all { end.next_multiple_of(sector) } else { end / sector * sector };
        if state.run.is_empty() || last <= start {
            return Ok(());
        }
        if state.is_under_way(first, last) {
            self.settle(state)?;
        }
        let mut bytes = BytesMut::with_capacity((last - first) as usize);
        if first < start {
            let around = self.around(state, first)?;
            bytes.extend_from_slice(&around[..(start - first) as usize]);
        }
        let taken = end.min(last);
        let mut edge = None;
        if taken < last {
            let at = last - sector;
            let behind =
                if end < state.size { self.around(state, at)? } else { Bytes::from_static(&[]) };
            bytes.extend_from_slice(&state.run);
            bytes.extend_from_slice(behind.get((end - at) as usize..).unwrap_or_default());
            bytes.resize((last - first) as usize, 0);
            edge = Some(at);
        } else {
            bytes.extend_from_slice(&state.run[..(taken - start) as usize]);
        }
        let bytes = bytes.freeze();
        state.edge = edge.map(|at| (at, bytes.slice((at - first) as usize..)));
        state.run = BytesMut::from(&state.run[(taken - start) as usize..]);
        state.run_start = taken;
        self.send(state, first, &bytes)
    }

    fn send(&self, state: &mut State, first: u64, bytes: &Bytes) -> Result<(), FilesError> {
        let last = first + bytes.len() as u64;
        for (at, place, length) in self.pieces(&state.extents, first, last) {
            let from = (at - first) as usize;
            let piece = bytes.slice(from..from + length as usize);
            self.directory.medium.write(place, piece, state.lifetime, &state.batch);
            state.under_way.push((at, at + length));
        }
        if state.under_way.len() >= MOST_UNDER_WAY { self.settle(state) } else { Ok(()) }
    }

    /// Gives a sector of the file of which only a part is written.
    fn around(&self, state: &mut State, at: u64) -> Result<Bytes, FilesError> {
        if let Some((_, bytes)) = state.edge.as_ref().filter(|&&(edge, _)| edge == at) {
            return Ok(bytes.clone());
        }
        let sector = self.sector();
        if state.is_under_way(at, at + sector) {
            self.settle(state)?;
        }
        let (_, place, _) = self.pieces(&state.extents, at, at + sector)[0];
        let data = self.directory.medium.read(place, sector as u32)?;
        Ok(data.joined().unwrap_or_default())
    }

    /// Waits for the writes that were sent.
    fn settle(&self, state: &mut State) -> Result<(), FilesError> {
        state.check()?;
        if state.under_way.is_empty() {
            return Ok(());
        }
        let outcome = self.directory.medium.settle(&state.batch);
        state.under_way.clear();
        self.directory.wrote();
        if let Err(failure) = outcome {
            state.edge = None;
            state.failed = Some(failure.clone());
            return Err(failure.into());
        }
        Ok(())
    }

    /// Makes durable all that was written to it before.
    ///
    /// # Errors
    /// [`FilesError`], also of writes before.
    pub fn sync(&self) -> Result<(), FilesError> {
        loop {
            let (size, cuts) = {
                let mut state = self.alone();
                state.check()?;
                self.send_run(&mut state, true)?;
                self.settle(&mut state)?;
                (state.size, state.cuts)
            };
            if self.directory.sync(self.id, size, cuts)? {
                return Ok(());
            }
        }
    }

    /// Sets its length to `size` bytes: bytes behind are given up, missing ones become zero.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn truncate(&self, size: u64) -> Result<(), FilesError> {
        let mut state = self.alone();
        state.check()?;
        if size >= state.size {
            self.reach(&mut state, size, false)?;
            return self.fill(&mut state, size);
        }
        self.send_run(&mut state, true)?;
        self.settle(&mut state)?;
        self.directory.cut(self.id, size);
        state.extents.truncate(self.directory.layout.units_for(size));
        state.edge = None;
        state.cuts += 1;
        state.size = size;
        Ok(())
    }

    /// Makes sure that it can grow to `bytes`.
    ///
    /// # Errors
    /// [`FilesError::Full`] if there is no room.
    pub fn reserve(&self, bytes: u64) -> Result<(), FilesError> {
        let mut state = self.alone();
        state.check()?;
        self.reach(&mut state, bytes, false)
    }

    /// Sends the rest and waits for it; gives the size.
    pub(super) fn finish(&self) -> (u64, Result<(), FilesError>) {
        let mut state = self.alone();
        let mut outcome = state.check().and_then(|()| self.send_run(&mut state, true));
        // Even after a failure nothing may be under way when units get other owners.
        let settled = self.directory.medium.settle(&state.batch);
        if !state.under_way.is_empty() {
            state.under_way.clear();
            self.directory.wrote();
        }
        outcome = outcome.and(settled.map_err(FilesError::from));
        (state.size, outcome)
    }
}
