//! Resizing of a volume. It is opened and closed first, so that all its pages are at home. Then the
//! layers give the changes ([`layers::resize`]); these are noted between the first header and the
//! stack's part, and a header is marked. From then on each opening of the volume makes the changes,
//! however often it is interrupted (`docs/formats/volume.md`).

mod used;

use std::path::Path;

use block::{BlockDevice, Limits, Part};
use devices::Access;
use layers::LayerError;
use units::Progress;

use crate::changes::{Note, begin, finish};
use crate::device::open_device;
use crate::headers::{About, find, write_header};
use crate::layout::{ALIGN_BYTES, LEAST_BYTES, layers_failed, refused};
use crate::volume::{Closed, Opening, Volume};
use crate::{HEADER_BYTES, Header, Pair, Role, VolumeError};

/// Arguments of a resize.
#[derive(Clone, Debug)]
pub struct Resizing {
    /// The device, as [`devices::open`] takes it.
    pub device: String,
    /// Bytes of the device, or of the part of it that the volume takes: a multiple of 4096. Without
    /// it, all bytes that the device has now.
    pub size_bytes: Option<u64>,
    /// True if data beyond the new end may be lost.
    pub destroys: bool,
}

/// Result of a resize.
#[derive(Clone, Debug, PartialEq)]
pub struct Resized {
    /// Present header.
    pub header: Header,
    /// Bytes that its users had before.
    pub before_bytes: u64,
    /// Bytes that its users have now.
    pub capacity_bytes: u64,
}

/// Resizes a volume. A file grows or shrinks with it; of a block device more or less is used. A
/// volume that was not closed is recovered first. The progress counts bytes that are read to find
/// out if they hold data.
///
/// # Errors
/// [`VolumeError`]: in particular if data lies beyond the new end, with the smallest possible size,
/// or if a layer of the stack cannot be resized. The volume is unchanged then, unless a command
/// failed while its layout changed: then the next opening goes on with that.
pub fn resize(wanted: &Resizing, progress: &Progress) -> Result<Resized, VolumeError> {
    let spec = &wanted.device;
    let path = Path::new(spec.trim());
    let is_file = path.is_file();
    let before = find(&mut *open_device(spec, Access::ReadOnly, 1)?)?.device_bytes;
    let size = wanted.size_bytes.unwrap_or(before);
    let wrong = |reason: String| VolumeError::Refused { device: spec.clone(), reason };
    if !size.is_multiple_of(HEADER_BYTES as u64) && wanted.size_bytes.is_some() {
        return Err(wrong(format!("a size of {size} bytes is not a multiple of {HEADER_BYTES}")));
    }
    if size > before && !is_file {
        return Err(wrong(format!(
            "it has {before} bytes, and only a file can be made larger: give --size {before} or \
             less, or none to take all"
        )));
    }
    if size > before {
        devices::resize_file(path, size)?;
    }
    let resized = on_device(wanted, size, is_file, progress);
    match &resized {
        // A refused resize has changed nothing; one that is noted needs the file as it is.
        Err(error) if size > before && error.is_wrong_use() && !is_under_way(spec) => {
            devices::resize_file(path, before)?;
        }
        Ok(_) if size < before && is_file => devices::resize_file(path, size)?,
        _ => {}
    }
    resized
}

fn is_under_way(device: &str) -> bool {
    let about = open_device(device, Access::ReadOnly, 1).and_then(|mut device| find(&mut *device));
    about.is_ok_and(|about| about.header.is_resizing())
}

fn on_device(
    wanted: &Resizing,
    size: u64,
    is_file: bool,
    progress: &Progress,
) -> Result<Resized, VolumeError> {
    let depth = Opening::new("").queue_depth;
    let device = open_device(&wanted.device, Access::DestroyData, depth)?;
    let (mut device, mut resized) = resize_on(device, size, wanted.destroys, progress)?;
    if is_file && size < device.info().limits.capacity_bytes {
        // The file is about to end there: the last header has to lie before that.
        let header = &mut resized.header;
        header.generation += 1;
        header.device_bytes = size;
        write_header(&mut *device, header)?;
    }
    Ok(resized)
}

/// Gives a volume a new layout over the first `size` bytes of its device.
pub(crate) fn resize_on(
    mut device: Box<dyn BlockDevice>,
    size: u64,
    destroys: bool,
    progress: &Progress,
) -> Result<(Box<dyn BlockDevice>, Resized), VolumeError> {
    let About { header, notes, .. } = find(&mut *device)?;
    if let Some(Pair { role: Role::Staging, other, .. }) = &header.pair {
        let reason = format!(
            "it is the staging device of volume {}, whose pages lie on {other}, and is resized by \
             nothing: `flashwright volume change --new-staging` puts a larger one in its place",
            header.uuid
        );
        return Err(refused(&*device, reason));
    }
    if header.pair.is_some() {
        return Err(refused(
            &*device,
            "it has a staging device, and cannot be resized: take that away first (`flashwright \
             volume change --no-staging`), and give it again afterwards"
                .to_owned(),
        ));
    }
    let mut volume = Volume::open_found(device, header, notes)?;
    let new = new_size(&mut volume, size, destroys, progress)?;
    let before_bytes = volume.capacity_bytes();
    let Closed { mut device, mut header, .. } = volume.close_to_devices()?;
    if new.data_bytes != header.data_bytes {
        let mut part = Part::new(&mut *device, header.data_offset, header.data_bytes)
            .in_sectors_of(header.sector_bytes);
        let changes =
            layers::resize(&header.stack, &header.facts, header.seed, &mut part, new.data_bytes)
                .map_err(|error| layers_failed(&device.info().name, error))?;
        let note = Note { data_bytes: new.data_bytes, changes };
        take_all(&mut *device, &mut header)?;
        begin(&mut *device, &mut header, &note)?;
        header = finish(&mut *device, &header)?;
    } else {
        take_all(&mut *device, &mut header)?;
    }
    Ok((device, Resized { header, before_bytes, capacity_bytes: new.capacity_bytes }))
}

/// New sizes of the stack's part, and of its users.
struct NewSize {
    data_bytes: u64,
    capacity_bytes: u64,
}

/// Finds out if a volume can have this size, without changing it.
fn new_size(
    volume: &mut Volume,
    size: u64,
    destroys: bool,
    progress: &Progress,
) -> Result<NewSize, VolumeError> {
    let header = volume.header().clone();
    let limits = volume.limits_below();
    let name = volume.device().info().name.clone();
    let refused = |reason: String| VolumeError::Refused { device: name.clone(), reason };
    let capacity = |data_bytes: u64| {
        let limits = Limits { capacity_bytes: data_bytes, ..limits };
        layers::capacity(&header.stack, &header.facts, header.seed, limits)
    };
    // This fails if its layers cannot be resized at all.
    capacity(header.data_bytes).map_err(|error| layers_failed(&name, error))?;
    let end = match size.checked_sub(LEAST_BYTES) {
        Some(_) => Header::last_place(size) / ALIGN_BYTES * ALIGN_BYTES,
        None => 0,
    };
    let data_bytes = end.saturating_sub(header.data_offset);
    let new = match data_bytes {
        0 => None,
        _ => match capacity(data_bytes) {
            Ok(capacity_bytes) => Some(NewSize { data_bytes, capacity_bytes }),
            Err(LayerError::TooSmall { .. } | LayerError::Refused { .. })
                if data_bytes < header.data_bytes =>
            {
                None
            }
            Err(error) => return Err(layers_failed(&name, error)),
        },
    };
    let keeps_all = new.as_ref().is_some_and(|new| new.capacity_bytes >= volume.capacity_bytes());
    if let Some(new) = new {
        let used = if keeps_all {
            0
        } else {
            used::bytes(volume, new.capacity_bytes, destroys, progress)?
        };
        if used <= new.capacity_bytes {
            return Ok(new);
        }
        let least = smallest(&header, used, capacity);
        let of_files = used::bytes(volume, new.capacity_bytes, true, progress)?;
        let way = if of_files <= new.capacity_bytes {
            format!(" (add --destroy-data {name} to lose what lies beyond)")
        } else {
            String::new()
        };
        return Err(refused(format!(
            "its users' data reaches byte {used}, and {size} bytes would leave them {}{way}: the \
             smallest possible size is {least}",
            new.capacity_bytes
        )));
    }
    let used = used::bytes(volume, 0, destroys, progress)?;
    let least = smallest(&header, used.max(1), capacity);
    Err(refused(format!(
        "{size} bytes are too few for its header and its layers: the smallest possible size is \
         {least}"
    )))
}

/// Finds the smallest size of a device on which the stack gives `needed` bytes, in steps of 1 MiB.
fn smallest(
    header: &Header,
    needed: u64,
    capacity: impl Fn(u64) -> Result<u64, LayerError>,
) -> u64 {
    let is_enough = |steps: u64| capacity(steps * ALIGN_BYTES).is_ok_and(|bytes| bytes >= needed);
    let (mut below, mut enough) = (0, header.data_bytes / ALIGN_BYTES);
    while enough - below > 1 {
        let middle = below.midpoint(enough);
        if is_enough(middle) {
            enough = middle;
        } else {
            below = middle;
        }
    }
    let size = header.data_offset + enough * ALIGN_BYTES + HEADER_BYTES as u64;
    size.max(LEAST_BYTES)
}

/// Moves the last header to the end of the device, if that has grown or shrunk. So one of both
/// copies is found whatever happens to the other.
fn take_all(device: &mut dyn BlockDevice, header: &mut Header) -> Result<(), VolumeError> {
    let capacity = device.info().limits.capacity_bytes;
    if header.device_bytes != capacity {
        header.device_bytes = capacity;
        header.generation += 1;
        write_header(device, header)?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
