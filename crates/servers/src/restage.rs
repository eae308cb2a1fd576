//! Moving the area of a volume to a staging device, or back to the device of everything else.
//!
//! The content and the size of the volume stay. All pages are at home first, so that a buffer's
//! area is empty; a log's tables go with its area. The new area is laid out in a place that is not
//! used yet; then the header of the pages' device names it, and its first whole copy decides. A
//! crash before that leaves the volume as it was.

use block::{BlockDevice, Immediate, Part};
use devices::Access;
use layers::Area;

use crate::device::open_device;
use crate::header::{Pair, Role};
use crate::headers::{clear_headers, find, write_header};
use crate::layout::{check_room, layers_failed, refused};
use crate::overlay::Overlay;
use crate::staging::{self, Second, begin_on, same_device, write_headers};
use crate::volume::{Closed, Volume};
use crate::{Header, Staging, VolumeError};

pub(crate) const QUEUE_DEPTH: u32 = 32;
/// Growth of a header's generation with a new staging device. If one was laid out and, after a
/// crash, is not the volume's, it is so far ahead that no number of openings makes it look like the
/// present one.
const LEAP: u64 = 1 << 32;

/// Lays out the area of a volume on another device: in place of one that is lost or is to be
/// replaced, or of the area on the device itself. A volume that was closed loses nothing by that: a
/// buffer's area is empty then, and a log's tables go with it. A volume without a staging device
/// that was not closed is recovered first.
///
/// # Errors
/// [`VolumeError`]: in particular if it has a staging device and was not closed, and the content of
/// the old device may not be lost (`loses`), the area does not fit, or it holds a log's tables and
/// is lost.
pub fn restage(device: &str, staging: &Staging, loses: bool) -> Result<Header, VolumeError> {
    let (mut first, header) = opened(device)?;
    let area = match header.pair {
        Some(_) => Some(left(&mut *first, device, &header, staging, loses)?),
        None => None,
    };
    if same_device(&staging.device, device) {
        let reason = format!(
            "a staging device has to be another device; `flashwright volume change {device} \
             --no-staging` takes the one away that there is"
        );
        return Err(VolumeError::Refused { device: staging.device.clone(), reason });
    }
    let access = if staging.destroys { Access::DestroyData } else { Access::Write };
    let second = open_device(&staging.device, access, QUEUE_DEPTH)?;
    give(first, header, (device, &staging.device), second, area)
}

/// Opens the device of the pages; gives it with its header.
pub(crate) fn opened(device: &str) -> Result<(Box<dyn BlockDevice>, Header), VolumeError> {
    let mut first = open_device(device, Access::DestroyData, QUEUE_DEPTH)?;
    let header = find(&mut *first)?.header;
    let header = Volume::ready(&mut *first, header, &mut Vec::new())?;
    if let Some(Pair { role: Role::Staging, other, .. }) = &header.pair {
        let reason = format!(
            "it is the staging device of volume {}, whose pages lie on {other}: name that",
            header.uuid
        );
        return Err(refused(&*first, reason));
    }
    Ok((first, header))
}

/// Gives the content of the area on the present staging device; an empty one if that is lost.
fn left(
    first: &mut dyn BlockDevice,
    device: &str,
    header: &Header,
    staging: &Staging,
    loses: bool,
) -> Result<Area, VolumeError> {
    let (uuid, other) = (header.uuid, header.pair.as_ref().map_or("", |pair| &pair.other));
    let is_same = same_device(&staging.device, other);
    if !loses && !header.is_clean {
        return Err(refused(
            first,
            format!(
                "volume {uuid} was not closed: pages that were acknowledged may be on {other} \
                 alone; open it once with that device, or allow them to be lost"
            ),
        ));
    }
    if !loses && is_same {
        return Err(refused(first, format!("{other} is its staging device already")));
    }
    let mut header = header.clone();
    // A lost device cannot be read, and neither can one that is overwritten meanwhile.
    let mut second =
        match staging::open(device, &mut header, None, Access::DestroyData, QUEUE_DEPTH) {
            Ok(Some(second)) if !is_same => second,
            _ => return Ok(Area::empty(header.data_bytes)),
        };
    let name = first.info().name.clone();
    let mut both = staging::below(first, &header, Some((&mut *second.device, &second.header)));
    area_or_none(&name, &header, &mut both, loses)
}

/// Gives the content of the area. If that may be lost, it is empty where something in it cannot be
/// moved: pages that have rotted in a buffer's slots.
fn area_or_none(
    device: &str,
    header: &Header,
    below: &mut dyn BlockDevice,
    loses: bool,
) -> Result<Area, VolumeError> {
    match area_of(device, header, below) {
        Err(_) if loses => Ok(Area::empty(header.data_bytes)),
        area => area,
    }
}

/// Gives the content of the area. Reading it may mend something, which is kept in memory.
fn area_of(
    device: &str,
    header: &Header,
    below: &mut dyn BlockDevice,
) -> Result<Area, VolumeError> {
    let mut over = Immediate::new(Overlay::new(below));
    layers::area_of(&header.stack, &header.layer_facts(), header.seed, &mut over)
        .map_err(|error| layers_failed(device, error))
}

/// Moves the area to a second device, which is at the second of both places; the first place is
/// that of the device itself.
pub(crate) fn give(
    mut first: Box<dyn BlockDevice>,
    mut header: Header,
    (device, place): (&str, &str),
    second: Box<dyn BlockDevice>,
    area: Option<Area>,
) -> Result<Header, VolumeError> {
    let mut had = None;
    let area = if let Some(area) = area {
        area
    } else {
        if !header.is_clean {
            let volume = Volume::open_on(first, None, header, Vec::new())?;
            Closed { device: first, header, .. } = volume.close_to_devices()?;
        }
        let mut part = Part::new(&mut *first, header.data_offset, header.data_bytes)
            .in_sectors_of(header.sector_bytes);
        had = Some(capacity(device, &header, &mut part)?);
        let area = area_of(device, &header, &mut part)?;
        header.data_bytes = area.stays_bytes();
        area
    };
    let mut second = begin_on(second, place, device, &mut header)?;
    check_room(&header, &*first)?;
    let sector = u64::from(header.sector_bytes.max(second.header.sector_bytes));
    if !header.data_bytes.is_multiple_of(sector) {
        return Err(refused(
            &*second.device,
            format!(
                "its sectors are of {sector} bytes, and the pages of volume {} end at a multiple \
                 of {} alone: take a device with smaller sectors",
                header.uuid, header.sector_bytes
            ),
        ));
    }
    let both = (&mut *second.device, &second.header);
    let mut below = staging::below(&mut *first, &header, Some(both));
    layers::lay_area(&header.stack, &header.layer_facts(), header.seed, &mut below, &area)
        .map_err(|error| layers_failed(device, error))?;
    keeps_its_size(device, had, capacity(device, &header, &mut below)?)?;
    header.generation += LEAP;
    // A crash before this leaves the volume without this device.
    write_headers(&mut *first, &header, Some((&mut second.device, &mut second.header)))?;
    Ok(header)
}

/// Gives the bytes that the stack offers its users with this header, which may not be on the device
/// yet. Nothing is changed: if the stack cannot be opened so, it stays as it was.
fn capacity(
    device: &str,
    header: &Header,
    below: &mut dyn BlockDevice,
) -> Result<u64, VolumeError> {
    let mut over = Immediate::new(Overlay::new(below));
    layers::open(&header.stack, &header.layer_facts(), header.seed, &mut over)
        .map(|stack| stack.limits().capacity_bytes)
        .map_err(|error| layers_failed(device, error))
}

fn keeps_its_size(device: &str, before: Option<u64>, after: u64) -> Result<(), VolumeError> {
    match before {
        Some(before) if before != after => Err(VolumeError::Refused {
            device: device.to_owned(),
            reason: format!("its users have {before} bytes, and would have {after} then"),
        }),
        _ => Ok(()),
    }
}

/// Result of removing a staging device.
#[derive(Clone, Debug, PartialEq)]
pub struct Unstaged {
    /// Present header of the volume.
    pub header: Header,
    /// Place of the device, which has no header any more.
    pub device: String,
    /// Reason why it still has its headers, if it has.
    pub problem: Option<String>,
}

/// Removes the staging device of a volume: its area is laid out on the device of everything else, a
/// buffer's behind the pages, a log's before the segments. A volume that was not closed is
/// recovered first. The staging device, which is at `given` or at its last place, is needed for
/// that, unless its content may be lost (`loses`).
///
/// # Errors
/// [`VolumeError`]: in particular if there is no room behind the pages; the error names the bytes
/// that are missing.
pub fn unstage(device: &str, given: Option<&str>, loses: bool) -> Result<Unstaged, VolumeError> {
    let (first, mut header) = opened(device)?;
    let Some(Pair { other, .. }) = header.pair.clone() else {
        let reason = "it has no staging device: all of it lies on the device itself".to_owned();
        return Err(refused(&*first, reason));
    };
    let place = given.map_or(other, str::to_owned);
    let second = match staging::open(device, &mut header, given, Access::DestroyData, QUEUE_DEPTH) {
        Ok(second) => second,
        Err(_) if loses => None,
        Err(error) => return Err(error),
    };
    let (header, second) = take(first, header, second, loses)?;
    let cleared = second.map_or_else(
        || Err("it was left alone".to_owned()),
        |mut second| clear_headers(&mut *second.device).map_err(|error| error.to_string()),
    );
    Ok(Unstaged { header, device: place, problem: cleared.err() })
}

/// Moves the area to the device of everything else; the second device, which still has its headers,
/// is not used any more.
pub(crate) fn take(
    mut first: Box<dyn BlockDevice>,
    mut header: Header,
    mut second: Option<Second>,
    loses: bool,
) -> Result<(Header, Option<Second>), VolumeError> {
    let device = first.info().name.clone();
    let (mut had, mut area) = (None, Area::empty(header.data_bytes));
    if second.is_some() {
        if !header.is_clean {
            let volume = Volume::open_on(first, second, header, Vec::new())?;
            Closed { device: first, header, second } = volume.close_to_devices()?;
        }
        if let Some(second) = &mut second {
            let both = (&mut *second.device, &second.header);
            let mut below = staging::below(&mut *first, &header, Some(both));
            area = area_or_none(&device, &header, &mut below, loses)?;
            had = Some(capacity(&device, &header, &mut below)?);
        }
    }
    let behind = second.as_ref().map_or(0, |second| second.header.generation);
    let laid = laid_out_behind(&*first, &header)?;
    let mut part =
        Part::new(&mut *first, laid.data_offset, laid.data_bytes).in_sectors_of(laid.sector_bytes);
    layers::lay_area(&laid.stack, &laid.layer_facts(), laid.seed, &mut part, &area)
        .map_err(|error| layers_failed(&device, error))?;
    keeps_its_size(&device, had, capacity(&device, &laid, &mut part)?)?;
    let header = Header { generation: laid.generation.max(behind) + 1, ..laid };
    // A crash before this leaves the volume with its staging device.
    write_header(&mut *first, &header)?;
    Ok((header, second))
}

/// Gives the header of a volume whose area lies on the device of everything else. A device that has
/// grown is used as a whole, if that is needed.
fn laid_out_behind(first: &dyn BlockDevice, header: &Header) -> Result<Header, VolumeError> {
    let limits = first.info().limits;
    let Header { stack, seed, data_offset, data_bytes, uuid, .. } = header;
    let bytes = layers::bytes_with_area(stack, &header.facts, *seed, limits, *data_bytes)
        .map_err(|error| layers_failed(&first.info().name, error))?;
    let fits = |device_bytes| data_offset + bytes <= Header::last_place(device_bytes);
    let device_bytes = match header.device_bytes {
        as_made if fits(as_made) => as_made,
        _ => limits.capacity_bytes,
    };
    if !fits(device_bytes) {
        let missing = data_offset + bytes - Header::last_place(device_bytes);
        return Err(refused(
            first,
            format!(
                "the staging area of volume {uuid} needs {} bytes behind its pages, and {missing} \
                 are missing there: make the device so much larger first",
                bytes - data_bytes
            ),
        ));
    }
    Ok(Header { pair: None, data_bytes: bytes, device_bytes, ..header.clone() })
}

#[cfg(test)]
#[path = "restage_tests.rs"]
pub(crate) mod tests;
