//! Looking whether a volume is whole, without changing it.

use block::{BlockDevice, BlockError, Immediate, Part, Store};
use devices::Access;
use layers::Driver;
use units::{Cancelled, Progress};

use crate::files::{self, FilesFound};
use crate::found::find;
use crate::overlay::Overlay;
use crate::staging::{self, Second};
use crate::volume::layers_failed;
use crate::{About, VolumeError, resize};

/// Bytes that are read at a time.
const STEP_BYTES: u64 = 1 << 20;
/// Places that are named one by one; more are only counted.
const MOST_NAMED: usize = 100;

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The volume.
    pub about: About,
    /// Sectors of the device that recovery would write: 0 where the volume was closed.
    pub recovery_sectors: u64,
    /// Bytes that its users have, all of which were read.
    pub read_bytes: u64,
    /// Bytes of them that could not be read.
    pub bad_bytes: u64,
    /// What cannot be read: first byte, length, why. At most 100 places.
    pub bad: Vec<(u64, u64, String)>,
    /// Files of SQLite that it holds; none if it holds something else, or nothing.
    pub files: Option<FilesFound>,
}

/// Opens the volume as if it were recovered, in memory, and reads all of it: whatever its layers
/// have checksums of is verified. The device, and its staging device, which is at `staging` or
/// where it was last, are only read; the device must not be in use, and is held meanwhile. The
/// progress counts bytes.
///
/// # Errors
/// [`VolumeError`] if it cannot be opened at all.
pub fn check(
    device: &str,
    staging: Option<&str>,
    progress: &Progress,
) -> Result<Found, VolumeError> {
    let named = device;
    let mut opening = devices::Opening::new(device, Access::ReadOnly);
    (opening.holds_data, opening.alone) = (true, true);
    opening.queue_depth = 32;
    let mut device = devices::open_watched(&opening, progress)?;
    let mut about = find(&mut *device)?;
    about.staging = staging::look(named, &about.header, staging, &mut about.notes);
    let second = staging::open(named, &mut about.header, staging, Access::ReadOnly, 32)?;
    let header = &about.header;
    let name = device.info().name.clone();
    let (second, own) = match second {
        Some(Second { device, header, .. }) => (Some(device), Some(header)),
        None => (None, None),
    };
    let resized = header.is_resizing().then(|| resize::noted(&mut *device, header)).transpose()?;
    let mut laid = header.clone();
    if let Some(note) = &resized {
        laid.data_bytes = note.data_bytes.max(header.data_bytes);
    }
    let mut below = staging::below(device, &laid, second.zip(own.as_ref()));
    let mut over = Immediate::new(Overlay::new(&mut below));
    let mut bytes = over.info().limits.capacity_bytes;
    if let Some(note) = resized {
        bytes = note.data_bytes;
        resize::apply(&note.changes, &mut Store::new(&mut over))
            .map_err(|failure| BlockError::Failed { name: name.clone(), failure })?;
    }
    let mut shown = Part::new(&mut over, 0, bytes);
    let stack = layers::open(&header.stack, &header.layer_facts(), header.seed, &mut shown)
        .map_err(|error| layers_failed(&name, error))?;
    let mut driver = Driver::new(&mut shown, stack);
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
    while found.read_bytes < capacity {
        let length = STEP_BYTES.min(capacity - found.read_bytes);
        read(&mut driver, found.read_bytes, length, &mut found);
        found.read_bytes += length;
        progress.advance(length).map_err(|Cancelled| devices::DeviceError::Cancelled(Cancelled))?;
    }
    let (sector, owner) = (found.about.header.sector_bytes, *found.about.header.uuid.as_bytes());
    let mut read = |at: u64, to: &mut [u8]| Store::new(&mut driver).read(at, to);
    // What is no directory of files is something else: of that nothing is known here.
    found.files = files::look(capacity, sector, owner, &mut read).ok().flatten();
    drop(driver);
    found.recovery_sectors = over.changed_sectors();
    Ok(found)
}

/// Reads a range; where that fails, its halves, down to sectors.
fn read(device: &mut dyn BlockDevice, offset: u64, length: u64, found: &mut Found) {
    let mut bytes = vec![0; length as usize];
    let Err(failure) = Store::new(device).read(offset, &mut bytes) else { return };
    let sector = u64::from(device.info().limits.sector_bytes);
    // What is poisoned answers nothing more: to ask for each sector would tell nothing.
    let is_whole = length <= sector || matches!(failure, block::Failure::Poisoned { .. });
    if !is_whole {
        let half = (length / sector).div_ceil(2) * sector;
        read(device, offset, half, found);
        if half < length {
            read(device, offset + half, length - half, found);
        }
        return;
    }
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
