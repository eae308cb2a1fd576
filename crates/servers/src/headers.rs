//! Finds the headers on a device, checks them against it, and writes them.

use block::{BlockDevice, BlockError, Failure, Store};
use serde::Serialize;
use uuid::Uuid;

use crate::header::NoHeader;
use crate::layout::{LEAST_BYTES, refused};
use crate::{HEADER_BYTES, Header, VolumeError, VolumeMemory};

/// Description of a volume, found without opening it.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// The valid header.
    pub header: Header,
    /// Bytes of the device now.
    pub device_bytes: u64,
    /// Notes for a reader: a damaged copy, a device of another size.
    pub notes: Vec<String>,
    /// Its staging device, if it has one and that was asked for.
    pub staging: Option<StagingFound>,
    /// The most memory that it takes, if that was asked for.
    pub memory: Option<VolumeMemory>,
    /// Its present user, if that was asked for and there is one.
    pub user: Option<String>,
}

/// Description of the staging device of a volume, found without opening it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StagingFound {
    /// Place where it was looked for.
    pub device: String,
    /// Bytes of the device; 0 if it does not belong to the volume.
    pub device_bytes: u64,
    /// Bytes of the stack's part on it.
    pub data_bytes: u64,
    /// Reason why the volume cannot be opened with it; none if it can.
    pub problem: Option<String>,
}

/// Finds the headers at both ends: the newer whole one is valid.
pub(crate) fn find(device: &mut dyn BlockDevice) -> Result<About, VolumeError> {
    find_of(device, None)
}

/// Finds the headers; if they are of different volumes, the one with this UUID is valid.
pub(crate) fn find_of(
    device: &mut dyn BlockDevice,
    wanted: Option<Uuid>,
) -> Result<About, VolumeError> {
    let device_bytes = device.info().limits.capacity_bytes;
    let name = device.info().name.clone();
    if device_bytes < LEAST_BYTES {
        let reason = format!("it has {device_bytes} bytes");
        return Err(VolumeError::NoVolume { device: name, reason });
    }
    let first = read_header(device, 0, false)?;
    // If the device has grown, only the first copy tells the place of the last one.
    let made_with = first.as_ref().map_or(device_bytes, |header| header.device_bytes);
    let last_place = Header::last_place(made_with.max(LEAST_BYTES));
    let last = if last_place + HEADER_BYTES as u64 <= device_bytes {
        read_header(device, last_place, true)?
    } else {
        Err(NoHeader::Damaged("nothing: the device ends before it".to_owned()))
    };
    let mut notes = Vec::new();
    let header = match (first, last) {
        (Ok(first), Ok(last)) if first.uuid == last.uuid => {
            if first.generation >= last.generation {
                first
            } else {
                last
            }
        }
        (Ok(first), Ok(last)) if Some(last.uuid) == wanted => {
            notes.push(format!("the header at byte 0 is of another volume, {}", first.uuid));
            last
        }
        (Ok(first), Ok(last)) => {
            notes.push(format!(
                "the header at byte {last_place} is of another volume, {}",
                last.uuid
            ));
            first
        }
        (Ok(header), Err(error)) => {
            notes.push(format!("at byte {last_place} should be a header: {}", error.reason()));
            header
        }
        (Err(error), Ok(header)) => {
            notes.push(format!("at byte 0 should be a header: {}", error.reason()));
            header
        }
        (Err(first), Err(last)) => {
            let reason =
                format!("at byte 0: {}; at byte {last_place}: {}", first.reason(), last.reason());
            return Err(VolumeError::NoVolume { device: name, reason });
        }
    };
    judge(device, &header, &mut notes)?;
    if header.is_resizing() {
        notes.push("a resize was cut short: opening the volume finishes it".to_owned());
    }
    Ok(About { header, device_bytes, notes, staging: None, memory: None, user: None })
}

/// Checks that a header fits the device on which it was found.
fn judge(
    device: &dyn BlockDevice,
    header: &Header,
    notes: &mut Vec<String>,
) -> Result<(), VolumeError> {
    let limits = device.info().limits;
    let sector = u64::from(header.sector_bytes);
    let end = header.data_offset.checked_add(header.data_bytes);
    if header.sector_bytes == 0 || !header.sector_bytes.is_multiple_of(limits.sector_bytes) {
        let (name, here) = (&device.info().name, limits.sector_bytes);
        return Err(refused(
            device,
            format!(
                "it was made with sectors of {sector} bytes, and what it lies on now has {here}: \
                 of a file `losetup --find --show --sector-size {sector} {name}` makes a device \
                 with such, and a disk has to be attached with them, or the volume be copied there \
                 in a file",
            ),
        ));
    }
    if header.sector_bytes != limits.sector_bytes {
        notes.push(format!(
            "it was made with sectors of {sector} bytes and keeps them; those of what it lies on \
             now have {}, so that a power cut may tear one of the volume's",
            limits.sector_bytes
        ));
    }
    let Some(end) = end.filter(|_| {
        header.data_bytes > 0
            && header.data_offset.is_multiple_of(sector)
            && header.data_bytes.is_multiple_of(sector)
    }) else {
        return Err(refused(device, "its header says that its data lies nowhere".to_owned()));
    };
    let is_between_headers = header.device_bytes >= LEAST_BYTES
        && header.data_offset >= HEADER_BYTES as u64
        && end <= Header::last_place(header.device_bytes);
    if !is_between_headers {
        return Err(refused(
            device,
            "its header says that its data lies where the headers are".to_owned(),
        ));
    }
    if limits.capacity_bytes < end {
        return Err(refused(
            device,
            format!(
                "the device has shrunk from {} to {} bytes, and the volume's data ends at {end}: \
                 give the device its size back",
                header.device_bytes, limits.capacity_bytes
            ),
        ));
    }
    if limits.capacity_bytes != header.device_bytes {
        notes.push(format!(
            "the device had {} bytes when the volume was made and has {} now; the volume keeps \
             its size",
            header.device_bytes, limits.capacity_bytes
        ));
    }
    Ok(())
}

fn read_header(
    device: &mut dyn BlockDevice,
    place: u64,
    is_last: bool,
) -> Result<Result<Header, NoHeader>, VolumeError> {
    let mut bytes = [0; HEADER_BYTES];
    let name = device.info().name.clone();
    match Store::new(device).read(place, &mut bytes) {
        Ok(()) => Ok(Header::decode(&bytes, is_last)),
        // The other copy may be readable.
        Err(failure @ Failure::Io { .. }) => Ok(Err(NoHeader::Damaged(failure.to_string()))),
        Err(failure) => Err(BlockError::Failed { name, failure }.into()),
    }
}

/// Writes both copies, one after the other, so that one is whole whatever happens. If the device
/// has shrunk, the last one has no place.
pub(crate) fn write_header(
    device: &mut dyn BlockDevice,
    header: &Header,
) -> Result<(), VolumeError> {
    let last = Header::last_place(header.device_bytes);
    if last + HEADER_BYTES as u64 <= device.info().limits.capacity_bytes {
        write(device, last, &header.encode(true))?;
    }
    write(device, 0, &header.encode(false))
}

/// Writes bytes, durably when it returns.
pub(crate) fn write(
    device: &mut dyn BlockDevice,
    place: u64,
    bytes: &[u8],
) -> Result<(), VolumeError> {
    let name = device.info().name.clone();
    let mut store = Store::new(device);
    let written = store.write(place, bytes).and_then(|()| store.flush());
    Ok(written.map_err(|failure| BlockError::Failed { name, failure })?)
}

pub(crate) fn clear_headers(device: &mut dyn BlockDevice) -> Result<(), VolumeError> {
    let about = find(device)?;
    for place in [0, Header::last_place(about.header.device_bytes)] {
        if place + HEADER_BYTES as u64 <= about.device_bytes {
            write(device, place, &[0; HEADER_BYTES])?;
        }
    }
    Ok(())
}
