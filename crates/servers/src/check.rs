//! Check of a volume, without changing it.

use block::{BlockDevice, BlockError, Immediate, Part, Store};
use devices::Access;
use layers::Driver;
use units::{Cancelled, Progress};

use crate::files::{self, FilesFound};
use crate::headers::find;
use crate::layout::layers_failed;
use crate::overlay::{Missing, Overlay};
use crate::staging::{self, Second};
use crate::{About, VolumeError, changes};

/// Bytes that are read at a time.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes of a stand-in for a staging device that is missing: more than any volume has there.
const MISSING_BYTES: u64 = 1 << 50;
/// Places that are named one by one; more are only counted.
const MOST_NAMED: usize = 100;

/// Result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The volume.
    pub about: About,
    /// Sectors of the device that recovery would write: 0 if the volume was closed.
    pub recovery_sectors: u64,
    /// Bytes that its users have, all of which were read.
    pub read_bytes: u64,
    /// Bytes of them that could not be read.
    pub bad_bytes: u64,
    /// Places that cannot be read: first byte, length, reason. At most 100 places.
    pub bad: Vec<(u64, u64, String)>,
    /// Files of SQLite that it holds; none if it holds something else, or nothing.
    pub files: Option<FilesFound>,
}

/// Opens the volume in memory as if it were recovered, and reads all of it: all that its layers
/// have checksums of is verified. The device, and its staging device, which is at `staging` or at
/// its last place, are only read; the device must not be in use, and is held meanwhile. The
/// progress counts bytes.
///
/// # Errors
/// [`VolumeError`] if it cannot be opened at all.
pub fn check(
    device: &str,
    staging: Option<&str>,
    progress: &Progress,
) -> Result<Found, VolumeError> {
    let (mut found, recovery_sectors) =
        over(device, staging, false, progress, |shown, name, about| {
            let header = &about.header;
            let stack = layers::open(&header.stack, &header.layer_facts(), header.seed, shown)
                .map_err(|error| layers_failed(name, error))?;
            let mut driver = Driver::new(shown, stack);
            read_all(&mut driver, about, progress, |_, _| Ok(()))
        })?;
    found.recovery_sectors = recovery_sectors;
    Ok(found)
}

/// Does something over the stack's part of a volume, with writes kept in memory; gives with the
/// result the number of sectors written. If the staging device is missing and `may_miss` allows it,
/// reads of its part fail.
pub(crate) fn over<T>(
    named: &str,
    staging: Option<&str>,
    may_miss: bool,
    progress: &Progress,
    work: impl FnOnce(&mut dyn BlockDevice, &str, About) -> Result<T, VolumeError>,
) -> Result<(T, u64), VolumeError> {
    let mut opening = devices::Opening::new(named, Access::ReadOnly);
    (opening.holds_data, opening.alone) = (true, true);
    opening.queue_depth = 32;
    let mut device = devices::open_watched(&opening, progress)?;
    let mut about = find(&mut *device)?;
    about.staging = staging::look(named, &about.header, staging, &mut about.notes);
    let second = match staging::open(named, &mut about.header, staging, Access::ReadOnly, 32) {
        Err(error) if may_miss && about.staging.is_some() => {
            about.notes.push(error.to_string());
            None
        }
        opened => opened?,
    };
    let header = &about.header;
    let name = device.info().name.clone();
    let missing = if second.is_none() && header.pair.is_some() { MISSING_BYTES } else { 0 };
    let (second, own) = match second {
        Some(Second { device, header, .. }) => (Some(device), Some(header)),
        None => (None, None),
    };
    let resized = header.is_resizing().then(|| changes::noted(&mut *device, header)).transpose()?;
    let mut laid = header.clone();
    if let Some(note) = &resized {
        laid.data_bytes = note.data_bytes.max(header.data_bytes);
    }
    let mut below = staging::below(device, &laid, second.zip(own.as_ref()));
    let mut below = Immediate::new(Missing::new(&mut below, missing));
    let mut over = Immediate::new(Overlay::new(&mut below));
    let mut bytes = over.info().limits.capacity_bytes;
    if let Some(note) = resized {
        bytes = note.data_bytes;
        changes::apply(&note.changes, &mut Store::new(&mut over))
            .map_err(|failure| BlockError::Failed { name: name.clone(), failure })?;
    }
    let done = work(&mut Part::new(&mut over, 0, bytes), &name, about)?;
    Ok((done, over.changed_sectors()))
}

/// Reads all that a stack offers, and hands each piece on; zeros stand for unreadable bytes.
pub(crate) fn read_all(
    driver: &mut dyn BlockDevice,
    about: About,
    progress: &Progress,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), VolumeError>,
) -> Result<Found, VolumeError> {
    let capacity = driver.info().limits.capacity_bytes;
    progress.set_total(capacity);
    let mut found = Found {
        about,
        recovery_sectors: 0,
        read_bytes: 0,
        bad_bytes: 0,
        bad: Vec::new(),
        files: None,
    };
    let mut bytes = vec![0; STEP_BYTES.min(capacity) as usize];
    while found.read_bytes < capacity {
        let length = STEP_BYTES.min(capacity - found.read_bytes);
        let bytes = &mut bytes[..length as usize];
        let at = found.read_bytes;
        read(driver, at, bytes, &mut found);
        take(at, bytes)?;
        found.read_bytes += length;
        progress.advance(length).map_err(|Cancelled| devices::DeviceError::Cancelled(Cancelled))?;
    }
    let (sector, owner) = (found.about.header.sector_bytes, *found.about.header.uuid.as_bytes());
    let mut read = |at: u64, to: &mut [u8]| Store::new(driver).read(at, to);
    // Anything but a directory of files is unknown here.
    found.files = files::look(capacity, sector, owner, &mut read).ok().flatten();
    Ok(found)
}

/// Reads a range; where that fails, its halves, down to sectors.
fn read(device: &mut dyn BlockDevice, offset: u64, to: &mut [u8], found: &mut Found) {
    let Err(failure) = Store::new(device).read(offset, to) else { return };
    let sector = device.info().limits.sector_bytes as usize;
    // A poisoned layer answers nothing more: asking for each sector would tell nothing.
    let is_whole = to.len() <= sector || matches!(failure, block::Failure::Poisoned { .. });
    if !is_whole {
        let half = (to.len() / sector).div_ceil(2) * sector;
        let (first, second) = to.split_at_mut(half);
        read(device, offset, first, found);
        if !second.is_empty() {
            read(device, offset + half as u64, second, found);
        }
        return;
    }
    to.fill(0);
    let length = to.len() as u64;
    found.bad_bytes += length;
    let reason = failure.reason();
    match found.bad.last_mut() {
        Some((first, bytes, why)) if *first + *bytes == offset && *why == reason => {
            *bytes += length;
        }
        _ => {
            if found.bad.len() < MOST_NAMED {
                found.bad.push((offset, length, reason));
            }
        }
    }
}
