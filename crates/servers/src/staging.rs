//! Staging device, a second device of a volume with the area of a layer: finding it, comparing it
//! with the first, and changing it.
//!
//! Both devices have headers with the volume's UUID and their roles. Their generations grow
//! together, in three steps: the staging device's header gets the next one and tells that the
//! change is not settled; then the other device's header gets it; then the staging device's header
//! tells that it is settled. So a staging device is never behind, and it is ahead by one step at
//! most, and only while it tells so: in any other case one of both is an older copy.

use std::path::Path;

use block::{BlockDevice, Part, Spanned};
use devices::{Access, DeviceError};

use crate::device::open_device;
use crate::header::{Pair, Role};
use crate::headers::{StagingFound, find, find_of, write_header};
use crate::layout::plan;
use crate::memory::Depth;
use crate::{Header, Staging, VolumeError};

/// A staging device that belongs to a volume.
pub(crate) struct Second {
    pub device: Box<dyn BlockDevice>,
    pub header: Header,
    /// Notes on damage.
    pub notes: Vec<String>,
}

/// Stack's part of the device, with that of the staging device behind it.
pub(crate) type Below = Spanned<Part<Box<dyn BlockDevice>>>;

/// Joins both to one device.
pub(crate) fn below<D: BlockDevice>(
    device: D,
    header: &Header,
    second: Option<(D, &Header)>,
) -> Spanned<Part<D>> {
    let part = |device, header: &Header| {
        Part::new(device, header.data_offset, header.data_bytes).in_sectors_of(header.sector_bytes)
    };
    Spanned::new(part(device, header), second.map(|(device, header)| part(device, header)))
}

/// Gives a path as headers keep it: absolute, as the next program may run in another folder.
pub(crate) fn absolute(device: &str) -> String {
    if device.contains('(') {
        return device.to_owned();
    }
    let whole = std::path::absolute(device);
    whole.ok().and_then(|path| path.to_str().map(str::to_owned)).unwrap_or(device.to_owned())
}

pub(crate) fn same_device(one: &str, other: &str) -> bool {
    let whole = |device: &str| Path::new(device).canonicalize().ok();
    one == other || whole(one).is_some_and(|path| Some(path) == whole(other))
}

/// Opens the device that an area is to lie on, with its new header, and notes its place in the
/// header of the other.
///
/// # Errors
/// [`VolumeError`]: in particular if it holds something that may not be destroyed.
pub(crate) fn begin(
    staging: &Staging,
    depth: impl Into<Depth>,
    device: &str,
    header: &mut Header,
) -> Result<Second, VolumeError> {
    if same_device(&staging.device, device) {
        let reason = "a staging device has to be another device".to_owned();
        return Err(VolumeError::Refused { device: staging.device.clone(), reason });
    }
    let access = if staging.destroys { Access::DestroyData } else { Access::Write };
    let second = open_device(&staging.device, access, depth)?;
    begin_on(second, &staging.device, device, header)
}

/// Does the same on a device that is open, and is at `place`.
pub(crate) fn begin_on(
    second: Box<dyn BlockDevice>,
    place: &str,
    device: &str,
    header: &mut Header,
) -> Result<Second, VolumeError> {
    let pair = |role, other: &str| Some(Pair { role, is_settled: true, other: absolute(other) });
    header.pair = pair(Role::Homes, place);
    let mut own = plan(&header.stack, &Default::default(), &*second)?;
    (own.uuid, own.seed, own.created_unix_s) = (header.uuid, header.seed, header.created_unix_s);
    own.pair = pair(Role::Staging, device);
    Ok(Second { device: second, header: own, notes: Vec::new() })
}

/// Opens the other device by the path in a header, which anyone who can write to the device may
/// have changed: therefore only plain paths are opened, and not, for example, an emulated drive
/// whose data file would be created.
pub(crate) fn open_noted(
    place: &str,
    access: Access,
    depth: impl Into<Depth>,
) -> Result<Box<dyn BlockDevice>, VolumeError> {
    if !place.starts_with('/') {
        let reason = "it is no whole path, and is not opened because a header names it".to_owned();
        return Err(VolumeError::Refused { device: place.to_owned(), reason });
    }
    open_device(place, access, depth)
}

/// Opens the staging device of a volume, which is at `given` or at the place in its header; none if
/// it has none.
///
/// # Errors
/// [`VolumeError`] if it is not there, or belongs to another volume, or one of both devices is an
/// older copy.
pub(crate) fn open(
    device: &str,
    header: &mut Header,
    given: Option<&str>,
    access: Access,
    depth: impl Into<Depth>,
) -> Result<Option<Second>, VolumeError> {
    let wrong = |reason| VolumeError::Refused { device: device.to_owned(), reason };
    let uuid = header.uuid;
    let Some(Pair { role, other, .. }) = &mut header.pair else {
        return match given {
            None => Ok(None),
            Some(given) => Err(wrong(format!(
                "volume {uuid} has no staging device, and {given} is given as one"
            ))),
        };
    };
    if *role == Role::Staging {
        return Err(wrong(format!(
            "it is the staging device of volume {uuid}, whose pages lie on {other}: name that"
        )));
    }
    let place = given.unwrap_or(other).to_owned();
    if same_device(&place, device) {
        return Err(wrong(format!(
            "it holds the pages of volume {uuid}, and is given as its staging device, too: the \
             last one was {other}"
        )));
    }
    let depth = depth.into();
    let opened = match given {
        Some(_) => open_device(&place, access, depth),
        None => open_noted(&place, access, depth),
    };
    let second = opened.map_err(|error| {
        wrong(format!(
            "volume {uuid} needs its staging device, and {error}; say where it is by --staging; if \
             it is lost, `flashwright volume change --new-staging` gives a stable_buffer that was \
             closed another one, and `flashwright volume info --salvage` copies out what is left of \
             a log"
        ))
    })?;
    open_on(second, (device, &place), header, given.is_some()).map(Some)
}

/// Does the same with the open device at `place`; the place is noted in the header if it was given.
pub(crate) fn open_on(
    mut second: Box<dyn BlockDevice>,
    (device, place): (&str, &str),
    header: &mut Header,
    is_given: bool,
) -> Result<Second, VolumeError> {
    let wrong = |reason| VolumeError::Refused { device: device.to_owned(), reason };
    let uuid = header.uuid;
    let found = find_of(&mut *second, Some(uuid)).map_err(|error| {
        wrong(format!("the staging device of volume {uuid} is wanted, and {error}"))
    })?;
    let notes = found.notes.iter().map(|note| format!("{place}: {note}")).collect();
    let own = found.header;
    if own.uuid != uuid || own.pair.as_ref().is_none_or(|pair| pair.role != Role::Staging) {
        let what = match &own.pair {
            Some(Pair { role: Role::Staging, .. }) => "that",
            Some(Pair { role: Role::Homes, .. }) => "the other device",
            None => "a volume of one device,",
        };
        return Err(wrong(format!(
            "the staging device of volume {uuid} is wanted, and {place} is {what} of {}",
            own.uuid
        )));
    }
    let sector = u64::from(header.sector_bytes.max(own.sector_bytes));
    if [header.data_bytes, own.data_bytes].iter().any(|bytes| !bytes.is_multiple_of(sector)) {
        return Err(wrong(format!(
            "the parts of volume {uuid} are not of whole sectors of {sector} bytes, the larger of \
             both devices"
        )));
    }
    compare(header, &own).map_err(|older| wrong(older.told(device, place, header, &own)))?;
    if is_given && let Some(pair) = &mut header.pair {
        let kept = std::mem::replace(&mut pair.other, absolute(place));
        // It only tells where to look first: without room for it, the old place stays.
        if Header::room(&header.stack, &header.facts, header.pair.as_ref()).is_err()
            && let Some(pair) = &mut header.pair
        {
            pair.other = kept;
        }
    }
    Ok(Second { device: second, header: own, notes })
}

/// Checks that a device may be destroyed alone: a staging device only if no volume needs it.
///
/// # Errors
/// [`VolumeError`] if its volume needs it, or may need it.
pub(crate) fn is_left(device: &str, own: &Header) -> Result<(), VolumeError> {
    let Some(Pair { role: Role::Staging, other, .. }) = &own.pair else { return Ok(()) };
    let refused = |more: String| VolumeError::Refused {
        device: device.to_owned(),
        reason: format!(
            "it is the staging device of volume {}, whose pages lie on {other}{more}",
            own.uuid
        ),
    };
    let mut homes = match open_noted(other, Access::ReadOnly, 1) {
        Err(VolumeError::Device(DeviceError::Spec { .. })) => return Ok(()),
        opened => opened.map_err(|error| refused(format!(", and {error}")))?,
    };
    let header = match find_of(&mut *homes, Some(own.uuid)) {
        Err(VolumeError::NoVolume { .. }) => return Ok(()),
        found => found.map_err(|error| refused(format!(", and {error}")))?.header,
    };
    let is_homes = header.pair.as_ref().is_some_and(|pair| pair.role == Role::Homes);
    if header.uuid != own.uuid || !is_homes {
        return Ok(());
    }
    let named = header.pair.as_ref().is_some_and(|pair| same_device(&pair.other, device));
    match compare(&header, own) {
        Ok(()) => {}
        // The volume has a different one now.
        Err(Older::Staging) => return Ok(()),
        Err(Older::Homes) if !named => return Ok(()),
        Err(older) => {
            let why = older.told(other, device, &header, own);
            return Err(refused(format!("; {why}")));
        }
    }
    Err(refused(format!(
        ": `flashwright volume change {other} --destroy --destroy-data {other}` destroys both, \
         and `flashwright volume change {other} --no-staging` takes this one away and keeps the \
         data"
    )))
}

/// Gives the reason why a device, or a file, is needed, by the headers on it and on the device that
/// it belongs to; none if nothing durable names it. If that cannot be found out, it is needed.
#[must_use]
pub fn needed(device: &str) -> Option<String> {
    let mut opened = match open_device(device, Access::ReadOnly, 1) {
        Ok(opened) => opened,
        Err(error) => return Some(error.to_string()),
    };
    let header = match find(&mut *opened) {
        Ok(about) => about.header,
        Err(VolumeError::NoVolume { .. }) => return None,
        Err(error) => return Some(error.to_string()),
    };
    drop(opened);
    match &header.pair {
        Some(Pair { role: Role::Staging, .. }) => {
            is_left(device, &header).err().map(|error| error.to_string())
        }
        _ => Some(format!("{device}: it has volume {}", header.uuid)),
    }
}

/// The device that is an older copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Older {
    Homes,
    Staging,
}

impl Older {
    fn told(self, device: &str, place: &str, header: &Header, own: &Header) -> String {
        let (old, new, at) = match self {
            Self::Homes => (header, own, device),
            Self::Staging => (own, header, place),
        };
        let uuid = header.uuid;
        format!(
            "{at} is an older copy of its part of volume {uuid}: it was changed last at opening \
             {} (generation {}), and the other device at opening {} (generation {}); what was \
             written in between is not on both",
            old.openings, old.generation, new.openings, new.generation
        )
    }
}

/// Checks that both headers are of the same moment, or of a change that was interrupted.
///
/// # Errors
/// The device that is older.
pub(crate) fn compare(homes: &Header, staging: &Header) -> Result<(), Older> {
    let is_settled = staging.pair.as_ref().is_none_or(|pair| pair.is_settled);
    match staging.generation.checked_sub(homes.generation) {
        Some(0) => Ok(()),
        Some(1) if !is_settled => Ok(()),
        Some(_) => Err(Older::Homes),
        None => Err(Older::Staging),
    }
}

/// Writes the header, and that of the staging device, if there is one, with the same generation.
///
/// # Errors
/// [`VolumeError`].
pub(crate) fn write_headers(
    device: &mut dyn BlockDevice,
    header: &Header,
    second: Option<(&mut Box<dyn BlockDevice>, &mut Header)>,
) -> Result<(), VolumeError> {
    let Some((other, own)) = second else { return write_header(device, header) };
    (own.generation, own.openings) = (header.generation, header.openings);
    own.is_clean = header.is_clean;
    for (is_settled, is_last) in [(false, false), (true, true)] {
        if let Some(pair) = &mut own.pair {
            pair.is_settled = is_settled;
        }
        write_header(&mut **other, own)?;
        if !is_last {
            write_header(device, header)?;
        }
    }
    Ok(())
}

/// Describes the staging device of a volume, with notes on damage; none if it has none.
pub(crate) fn look(
    device: &str,
    header: &Header,
    given: Option<&str>,
    notes: &mut Vec<String>,
) -> Option<StagingFound> {
    let pair = header.pair.as_ref().filter(|pair| pair.role == Role::Homes)?;
    let place = given.unwrap_or(&pair.other).to_owned();
    let opened = open(device, &mut header.clone(), given, Access::ReadOnly, 1);
    Some(match opened {
        Ok(Some(second)) => {
            notes.extend(second.notes);
            StagingFound {
                device: place,
                device_bytes: second.device.info().limits.capacity_bytes,
                data_bytes: second.header.data_bytes,
                problem: None,
            }
        }
        Ok(None) => return None,
        Err(error) => StagingFound {
            device: place,
            device_bytes: 0,
            data_bytes: 0,
            problem: Some(error.to_string()),
        },
    })
}

#[cfg(test)]
#[path = "staging_tests.rs"]
mod tests;
