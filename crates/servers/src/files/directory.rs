//! The directory of a volume: its files, their durable state, and the way it changes.
//!
//! Four slots at the beginning of the volume hold copies of it: two of the durable generation, and
//! two of the next. A slot is written only while the other pair is durable, so that a power cut
//! leaves at least one whole copy. Each copy is valid by itself: a file's size in it covers bytes
//! that a flush had made durable before, and units that the file has given up are not given to
//! another before the copy is durable.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Failure, Store};
use bytes::Bytes;
use slab::Slab;
use units::Lifetime;

use super::format::file_bytes;
use super::format::{HEAD_BYTES, Kept, Layout, MOST_NAME_BYTES, NoSnapshot, SLOTS, Snapshot};
use super::medium::{Batch, Medium};
use super::space::{Extent, Extents, Space};
use super::{FileFound, FilesError, Reading};

/// Freed pieces of at least this size, in bytes, are trimmed below.
const TRIM_BYTES: u64 = 1 << 20;
/// Most bytes that a growing file reserves beyond the request.
const MOST_RESERVED_BYTES: u64 = 16 << 20;
/// Bytes at the beginning that are looked at: a volume with zeros there holds nothing.
const LOOKED_AT_BYTES: u64 = 1 << 20;

/// A file in memory.
struct Entry {
    /// Bytes, when it was last closed or synced.
    size: u64,
    /// Bytes that are durable, and that the directory names.
    kept_size: u64,
    extents: Extents,
    /// Number of truncations so far.
    cuts: u64,
    is_open: bool,
    /// True if it has its name; otherwise it is removed when it is closed.
    is_linked: bool,
}

struct Inner {
    entries: Slab<Entry>,
    names: BTreeMap<String, usize>,
    space: Space,
    /// Extents that were given up, and that the durable directory still names.
    freed: Vec<Extent>,
    generation: u64,
    /// The durable pair: slots 2 * pair and 2 * pair + 1.
    durable_pair: u64,
    /// True if memory differs from the durable directory.
    is_changed: bool,
}

/// State of an open file.
pub struct Opened {
    pub id: usize,
    pub size: u64,
    pub extents: Extents,
    pub cuts: u64,
}

pub struct Directory {
    pub medium: Arc<dyn Medium>,
    pub layout: Layout,
    inner: Mutex<Inner>,
    /// True if something was written since the last flush began.
    is_dirty: AtomicBool,
    flushing: Mutex<()>,
    /// Failure for which nothing can be made durable any more.
    broken: Mutex<Option<Failure>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Newest directory that is whole, the number of its slot, and notes on damage.
type Newest = (Snapshot, u64, Vec<String>);

/// Gives the layout of a volume; none if it has no room for files. One that was resized keeps the
/// sizes of units and slots with which it was made.
pub fn layout_of(
    capacity_bytes: u64,
    sector_bytes: u32,
    owner: [u8; 16],
    read: &mut Reading<'_>,
) -> Option<Layout> {
    let own = Layout::of(capacity_bytes, sector_bytes)?;
    Some(written_layout(own, owner, read).unwrap_or(own))
}

/// Gives the layout of an existing directory, if there is a copy of one.
fn written_layout(own: Layout, owner: [u8; 16], read: &mut Reading<'_>) -> Option<Layout> {
    let (capacity_bytes, sector_bytes) = (own.capacity_bytes, own.sector_bytes);
    let mut bytes = vec![0; sector_bytes as usize];
    own.slot_sizes().find_map(|slot_bytes| {
        (0..SLOTS).map(|number| number * u64::from(slot_bytes)).find_map(|at| {
            let is_there = at + u64::from(sector_bytes) <= capacity_bytes;
            let written = is_there && read(at, &mut bytes).is_ok();
            let written = written.then(|| own.written(&bytes, owner)).flatten();
            written.filter(|layout| layout.slot_bytes == slot_bytes)
        })
    })
}

/// Finds the directory: none if the volume holds nothing.
///
/// # Errors
/// [`FilesError`] if it holds something else.
pub fn find(
    layout: Layout,
    owner: [u8; 16],
    read: &mut Reading<'_>,
) -> Result<Option<Newest>, FilesError> {
    let (mut newest, mut notes): (Option<(Snapshot, u64)>, Vec<_>) = (None, Vec::new());
    let mut looked_at = vec![0; layout.slot_bytes as usize];
    let mut is_empty = true;
    for slot in 0..SLOTS {
        let at = layout.slot(slot);
        let decoded = match read_copy(layout, at, &mut looked_at, read) {
            Ok(bytes) => Snapshot::decode(bytes, layout, owner, slot),
            Err(failure) => Err(NoSnapshot::Other(failure.to_string())),
        };
        match decoded {
            Ok(snapshot) => {
                if newest.as_ref().is_none_or(|(held, _)| snapshot.generation > held.generation) {
                    newest = Some((snapshot, slot));
                }
            }
            Err(NoSnapshot::Zeros) => {}
            Err(NoSnapshot::Unknown(reason)) => return Err(FilesError::Refused(reason)),
            Err(NoSnapshot::Other(reason)) => {
                is_empty &= at >= LOOKED_AT_BYTES;
                notes.push(format!("copy {slot} of the directory of files: {reason}"));
            }
        }
    }
    match newest {
        Some((snapshot, slot)) => Ok(Some((snapshot, slot, notes))),
        None if is_empty => Ok(None),
        None => Err(FilesError::Refused(format!(
            "the volume holds something else than files of SQLite ({}); a volume made by \
             `flashwright volume create` is empty",
            notes.first().map_or("", String::as_str)
        ))),
    }
}

/// Reads a copy of the directory into a buffer of a slot's bytes, and nothing behind the copy,
/// which is not needed. Reads all of the slot if there is no copy.
fn read_copy<'a>(
    layout: Layout,
    at: u64,
    bytes: &'a mut [u8],
    read: &mut Reading<'_>,
) -> Result<&'a [u8], Failure> {
    let sector = layout.sector_bytes as usize;
    read(at, &mut bytes[..sector])?;
    let length = Snapshot::length(&bytes[..sector]).next_multiple_of(sector);
    let end = if (1..=bytes.len()).contains(&length) { length } else { bytes.len() };
    if end > sector {
        read(at + sector as u64, &mut bytes[sector..end])?;
    }
    Ok(&bytes[..end])
}

/// Writes the directory of a volume that nothing else uses once more, for the second of both
/// owners, to the pair of slots that is not durable: a reader of the first owner still finds the
/// other pair. Returns true if there is a directory.
///
/// # Errors
/// [`FilesError`] if there is one that cannot be used, or a command failed.
pub fn give_owner(
    capacity_bytes: u64,
    sector_bytes: u32,
    (from, to): ([u8; 16], [u8; 16]),
    store: &mut Store<'_>,
) -> Result<bool, FilesError> {
    let mut read = |at: u64, to: &mut [u8]| store.read(at, to);
    let written = Layout::of(capacity_bytes, sector_bytes)
        .and_then(|own| written_layout(own, from, &mut read));
    let Some(layout) = written else { return Ok(false) };
    let mut beginning = vec![0; sector_bytes as usize];
    // Something else may have been written over the files, leaving later copies as they were.
    if read(0, &mut beginning).is_ok() && !Snapshot::may_begin_with(&beginning) {
        return Ok(false);
    }
    let Some((mut snapshot, slot, _)) = find(layout, from, &mut read)? else { return Ok(false) };
    snapshot.generation += 1;
    let pair = 1 - slot / 2;
    for slot in [2 * pair, 2 * pair + 1] {
        let mut bytes = snapshot.encode(layout, to, slot);
        bytes.resize(bytes.len().next_multiple_of(sector_bytes as usize), 0);
        store.write(layout.slot(slot), &bytes)?;
    }
    store.flush()?;
    Ok(true)
}

impl Inner {
    fn empty(layout: Layout) -> Self {
        Self {
            entries: Slab::new(),
            names: BTreeMap::new(),
            space: Space::new(layout.units),
            freed: Vec::new(),
            generation: 0,
            durable_pair: 1,
            is_changed: true,
        }
    }

    /// Makes the state of a directory that was read; units reserved beyond the files' sizes are
    /// free.
    fn of(layout: Layout, snapshot: Snapshot, slot: u64) -> Result<Self, FilesError> {
        let mut inner = Self::empty(layout);
        (inner.generation, inner.durable_pair) = (snapshot.generation, slot / 2);
        inner.is_changed = false;
        for (name, Kept { size, mut extents }) in snapshot.files {
            extents.truncate(layout.units_for(size));
            if !extents.list().iter().all(|&extent| inner.space.claim(extent)) {
                let reason = format!("`{name}` has units that another file has, too");
                return Err(FilesError::Refused(reason));
            }
            inner.add(name, size, extents);
        }
        Ok(inner)
    }

    fn add(&mut self, name: String, size: u64, extents: Extents) -> usize {
        let entry =
            Entry { size, kept_size: size, extents, cuts: 0, is_open: false, is_linked: true };
        let id = self.entries.insert(entry);
        self.names.insert(name, id);
        id
    }

    fn snapshot(&self) -> Snapshot {
        let kept = |(name, &id): (&String, &usize)| {
            let entry = &self.entries[id];
            (name.clone(), Kept { size: entry.kept_size, extents: entry.extents.clone() })
        };
        Snapshot { generation: self.generation, files: self.names.iter().map(kept).collect() }
    }

    fn encoded_bytes(&self) -> usize {
        let entries = self.names.iter().map(|(name, &id)| (name, &self.entries[id]));
        HEAD_BYTES
            + entries.map(|(name, e)| file_bytes(name, e.extents.list().len())).sum::<usize>()
    }

    /// Gives up the units of a file that is not open and has no name.
    fn remove(&mut self, id: usize) {
        let entry = self.entries.remove(id);
        self.freed.extend_from_slice(entry.extents.list());
    }
}

impl Directory {
    /// Opens the directory; with `makes` an empty one is made where the volume holds nothing.
    pub fn open(medium: Arc<dyn Medium>, makes: bool) -> Result<(Self, Vec<String>), FilesError> {
        let (capacity, sector) = (medium.capacity_bytes(), medium.sector_bytes());
        // Writes of a process that was killed may be in a cache only: what is read below has to
        // stay.
        medium.flush()?;
        let mut read = |at: u64, to: &mut [u8]| {
            let data = medium.read(at, to.len() as u32)?;
            data.copy_to(to);
            Ok(())
        };
        let layout = layout_of(capacity, sector, medium.owner(), &mut read).ok_or_else(|| {
            FilesError::Refused(format!("a volume of {capacity} bytes has no room for files"))
        })?;
        let found = find(layout, medium.owner(), &mut read)?;
        let is_new = found.is_none();
        let (inner, notes) = match found {
            Some((snapshot, slot, notes)) => (Inner::of(layout, snapshot, slot)?, notes),
            None if makes => (Inner::empty(layout), Vec::new()),
            None => return Err(FilesError::NoFile("the volume holds no files".to_owned())),
        };
        let directory = Self {
            medium,
            layout,
            inner: Mutex::new(inner),
            is_dirty: AtomicBool::new(false),
            flushing: Mutex::new(()),
            broken: Mutex::new(None),
        };
        if is_new {
            // It is one sector, which is written or not: nothing can be left half made.
            directory.commit(&mut lock(&directory.inner))?;
        }
        Ok((directory, notes))
    }

    /// Fails if nothing can be made durable any more.
    pub fn check(&self) -> Result<(), FilesError> {
        lock(&self.broken).clone().map_or(Ok(()), |failure| Err(FilesError::Broken(failure)))
    }

    fn breaks(&self, failure: Failure) -> FilesError {
        let first = lock(&self.broken).get_or_insert(failure).clone();
        FilesError::Broken(first)
    }

    /// Notes that writes have ended that the next flush has to cover.
    pub fn wrote(&self) {
        self.is_dirty.store(true, Ordering::SeqCst);
    }

    /// Makes durable what had ended before. If another flush is under way, it waits for that.
    fn flush(&self) -> Result<(), FilesError> {
        let _one = lock(&self.flushing);
        self.check()?;
        if !self.is_dirty.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        self.medium.flush().map_err(|failure| self.breaks(failure))
    }

    /// Writes both copies of the pair that is not durable. They are durable with the next flush.
    fn write_slots(&self, inner: &mut Inner) -> Result<(), FilesError> {
        self.check()?;
        inner.generation += 1;
        let (snapshot, sector) = (inner.snapshot(), self.layout.sector_bytes as usize);
        let batch = Arc::new(Batch::default());
        let pair = 1 - inner.durable_pair;
        for slot in [2 * pair, 2 * pair + 1] {
            let mut bytes = snapshot.encode(self.layout, self.medium.owner(), slot);
            bytes.resize(bytes.len().next_multiple_of(sector), 0);
            assert!(bytes.len() <= self.layout.slot_bytes as usize, "it was made to fit");
            // Two of four places are overwritten each time.
            let (place, bytes) = (self.layout.slot(slot), Bytes::from(bytes));
            self.medium.write(place, bytes, Lifetime::Short, &batch);
        }
        self.medium.settle(&batch).map_err(|failure| self.breaks(failure))?;
        self.wrote();
        Ok(())
    }

    /// Makes the directory durable as it is, and before that all writes to files. If this fails,
    /// nothing can be made durable any more: it is unknown then which pair is whole.
    fn commit(&self, inner: &mut Inner) -> Result<(), FilesError> {
        self.flush()?;
        if !inner.is_changed {
            return Ok(());
        }
        self.write_slots(inner)?;
        self.flush()?;
        inner.is_changed = false;
        inner.durable_pair = 1 - inner.durable_pair;
        for extent in std::mem::take(&mut inner.freed) {
            let bytes = u64::from(extent.units) * u64::from(self.layout.unit_bytes);
            if bytes >= TRIM_BYTES {
                // It helps the layers below, and nothing depends on it.
                let _ = self.medium.trim(self.layout.unit(extent.start), bytes);
            }
            inner.space.release(extent);
        }
        Ok(())
    }

    /// Opens a file that is not open; with `makes` it is made if it does not exist.
    pub fn open_file(&self, name: &str, makes: bool) -> Result<Opened, FilesError> {
        let mut inner = lock(&self.inner);
        let id = match inner.names.get(name) {
            Some(&id) => id,
            None if makes => {
                if name.len() > MOST_NAME_BYTES {
                    let reason = format!("names have at most {MOST_NAME_BYTES} bytes");
                    return Err(FilesError::Refused(reason));
                }
                self.has_room(&inner, file_bytes(name, 1))?;
                inner.is_changed = true;
                inner.add(name.to_owned(), 0, Extents::default())
            }
            None => return Err(FilesError::NoFile(format!("there is no file `{name}`"))),
        };
        let entry = &mut inner.entries[id];
        entry.is_open = true;
        Ok(Opened { id, size: entry.size, extents: entry.extents.clone(), cuts: entry.cuts })
    }

    /// Returns true if there is a file of this name.
    pub fn has(&self, name: &str) -> bool {
        lock(&self.inner).names.contains_key(name)
    }

    /// Gives the bytes of a file that is closed.
    pub fn size_of(&self, name: &str) -> Option<u64> {
        let inner = lock(&self.inner);
        inner.names.get(name).map(|&id| inner.entries[id].size)
    }

    /// Gives the number of the file of this name.
    pub fn id_of(&self, name: &str) -> Option<usize> {
        lock(&self.inner).names.get(name).copied()
    }

    fn has_room(&self, inner: &Inner, more: usize) -> Result<(), FilesError> {
        if inner.encoded_bytes() + more <= self.layout.slot_bytes as usize {
            return Ok(());
        }
        Err(FilesError::Full(format!(
            "the directory of {} bytes has no room for more pieces of files",
            self.layout.slot_bytes
        )))
    }

    /// Gives a file room for `bytes`, and some more if `reserves`; returns its new extents.
    pub fn allocate(
        &self,
        id: usize,
        bytes: u64,
        reserves: bool,
    ) -> Result<Vec<Extent>, FilesError> {
        let mut inner = lock(&self.inner);
        let inner = &mut *inner;
        let held = inner.entries[id].extents.units();
        let needed = self.layout.units_for(bytes).saturating_sub(held);
        if needed == 0 {
            return Ok(Vec::new());
        }
        let reserve = if reserves { (bytes / 8).min(MOST_RESERVED_BYTES) } else { 0 };
        let wanted = needed + reserve / u64::from(self.layout.unit_bytes);
        let after = inner.entries[id].extents.list().last().map(|last| last.end());
        let mut taken = inner.space.allocate(wanted, after);
        taken = taken.or_else(|| inner.space.allocate(needed, after));
        if taken.is_none() && !inner.freed.is_empty() {
            // Units that were given up can be had as soon as that is durable.
            self.commit(inner)?;
            taken = inner.space.allocate(needed, after);
        }
        let Some(taken) = taken else {
            return Err(FilesError::Full(format!(
                "{needed} units of {} bytes are needed, and {} are free",
                self.layout.unit_bytes,
                inner.space.free_units()
            )));
        };
        if let Err(error) = self.has_room(inner, taken.len() * 8) {
            taken.into_iter().for_each(|extent| inner.space.release(extent));
            return Err(error);
        }
        taken.iter().for_each(|&extent| inner.entries[id].extents.push(extent));
        Ok(taken)
    }

    /// Truncates a file to this size, durably with the next commit at the latest.
    pub fn cut(&self, id: usize, size: u64) {
        let mut inner = lock(&self.inner);
        let inner = &mut *inner;
        let entry = &mut inner.entries[id];
        entry.cuts += 1;
        entry.size = size;
        entry.kept_size = entry.kept_size.min(size);
        inner.freed.extend(entry.extents.truncate(self.layout.units_for(size)));
        inner.is_changed = true;
    }

    /// Makes the content of a file durable as it was when it had `size` bytes and had been cut so
    /// often. Returns false, and does nothing, if it was cut meanwhile.
    pub fn sync(&self, id: usize, size: u64, cuts: u64) -> Result<bool, FilesError> {
        let mut inner = lock(&self.inner);
        let entry = &mut inner.entries[id];
        if entry.cuts != cuts {
            return Ok(false);
        }
        entry.size = size;
        if entry.kept_size != size {
            entry.kept_size = size;
            inner.is_changed |= inner.entries[id].is_linked;
        }
        if inner.is_changed {
            self.commit(&mut inner)?;
            return Ok(true);
        }
        drop(inner);
        self.flush()?;
        Ok(true)
    }

    /// Deletes a file's name, durably when it returns.
    pub fn delete(&self, name: &str) -> Result<(), FilesError> {
        let mut inner = lock(&self.inner);
        let Some(id) = inner.names.remove(name) else {
            return Err(FilesError::NoFile(format!("there is no file `{name}`")));
        };
        inner.entries[id].is_linked = false;
        if !inner.entries[id].is_open {
            inner.remove(id);
        }
        inner.is_changed = true;
        self.commit(&mut inner)
    }

    /// Notes that a file is not open any more.
    pub fn close_file(&self, id: usize, size: u64) {
        let mut inner = lock(&self.inner);
        let inner = &mut *inner;
        let entry = &mut inner.entries[id];
        entry.is_open = false;
        if !entry.is_linked {
            inner.remove(id);
            return;
        }
        entry.size = size;
        let reserved = entry.extents.truncate(self.layout.units_for(size));
        inner.is_changed |= !reserved.is_empty();
        inner.freed.extend(reserved);
    }

    /// Makes everything durable. All files are closed.
    pub fn close(&self) -> Result<(), FilesError> {
        let mut inner = lock(&self.inner);
        let inner = &mut *inner;
        for (_, entry) in &mut inner.entries {
            inner.is_changed |= entry.kept_size != entry.size;
            entry.kept_size = entry.size;
        }
        self.commit(inner)
    }

    /// Gives the files, by name.
    pub fn list(&self) -> Vec<FileFound> {
        let inner = lock(&self.inner);
        let of = |(name, &id): (&String, &usize)| FileFound {
            name: name.clone(),
            bytes: inner.entries[id].size,
        };
        inner.names.iter().map(of).collect()
    }

    /// Gives the bytes that no file has.
    pub fn free_bytes(&self) -> u64 {
        lock(&self.inner).space.free_units() * u64::from(self.layout.unit_bytes)
    }
}
