//! A new UUID for a volume: a copy of one needs it to be used beside the original.
//!
//! The UUID is in the headers of both devices, and in the directory of SQLite's files. The staging
//! device's last header and the directory's spare copies get the new one first: a reader of the old
//! one ignores them. Then the headers of the pages' device decide, as always by the first copy that
//! is whole; places that still have the old UUID are written last.

use block::{BlockDevice, BlockError, Store};
use devices::Access;
use uuid::Uuid;

use crate::files::{self, FilesError};
use crate::headers::{find, write, write_header};
use crate::layout::refused;
use crate::restage::{QUEUE_DEPTH, opened};
use crate::staging::{self, Second, absolute, same_device};
use crate::volume::{Closed, Volume};
use crate::{Header, Pair, Role, VolumeError};

/// Result of a new UUID.
#[derive(Clone, Debug, PartialEq)]
pub struct Renewed {
    /// Its UUID before.
    pub before: Uuid,
    /// Its header now.
    pub header: Header,
}

/// Gives a volume a new UUID. It must have been closed. Its staging device, which is at `given` or
/// at its last place, gets it, too.
///
/// # Errors
/// [`VolumeError`]: in particular if it was not closed, or its staging device is that of the
/// original.
pub fn new_uuid(device: &str, given: Option<&str>) -> Result<Renewed, VolumeError> {
    let (first, mut header) = opened(device)?;
    if !header.is_clean {
        return Err(refused(
            &*first,
            format!(
                "volume {} was not closed: it was copied while it was in use, so that its pages \
                 may be of different moments, or its server was killed. Copy it again when it is \
                 closed, or recover it as it is: `flashwright serve {device} --nbd SOCKET`, \
                 and Ctrl-C",
                header.uuid
            ),
        ));
    }
    let second = staging::open(device, &mut header, given, Access::DestroyData, QUEUE_DEPTH)?;
    if let (Some(second), Some(pair)) = (&second, &header.pair) {
        belongs_here(device, given.unwrap_or(&pair.other), second, given.is_some())?;
    }
    renew(first, header, second, device, Uuid::new_v4())
}

/// Checks that a staging device is this copy's own, and not still that of the original.
fn belongs_here(
    device: &str,
    place: &str,
    second: &Second,
    is_given: bool,
) -> Result<(), VolumeError> {
    let Some(Pair { other, .. }) = &second.header.pair else { return Ok(()) };
    let is_its_own = |about: Header| {
        let names = |pair: &Pair| pair.role == Role::Homes && same_device(&pair.other, place);
        about.uuid == second.header.uuid && about.pair.as_ref().is_some_and(names)
    };
    let is_the_originals = !same_device(other, device)
        && staging::open_noted(other, Access::ReadOnly, 1)
            .and_then(|mut original| find(&mut *original))
            .is_ok_and(|about| is_its_own(about.header));
    if same_device(other, device) || (is_given && !is_the_originals) {
        return Ok(());
    }
    let reason = format!(
        "its staging device {place} is that of {other}: copy both devices, and name the copy of \
         the second by --staging{}",
        if is_the_originals { String::new() } else { format!(" ({place}, if {other} is no more)") }
    );
    Err(VolumeError::Refused { device: device.to_owned(), reason })
}

/// Gives a new UUID to a volume that was closed, on devices that are open.
pub(crate) fn renew(
    first: Box<dyn BlockDevice>,
    header: Header,
    second: Option<Second>,
    device: &str,
    uuid: Uuid,
) -> Result<Renewed, VolumeError> {
    let before = header.uuid;
    let (closed, has_files) = with_files(first, header, second, (before, uuid))?;
    let Closed { device: mut first, header, mut second } = closed;
    let behind = second.as_ref().map_or(0, |second| second.header.generation);
    let header = Header { uuid, generation: header.generation.max(behind) + 1, ..header };
    if let Some(second) = &mut second {
        announce(second, device, &header)?;
        let last = Header::last_place(second.header.device_bytes);
        write(&mut *second.device, last, &second.header.encode(true))?;
    }
    // A crash before this leaves the volume with its old UUID.
    write_header(&mut *first, &header)?;
    if let Some(second) = &mut second {
        write_header(&mut *second.device, &second.header)?;
    }
    let header = if has_files {
        // No copy of the directory should look like that of another volume.
        with_files(first, header, second, (uuid, uuid))?.0.header
    } else {
        header
    };
    Ok(Renewed { before, header })
}

/// Writes the future header of the staging device.
fn announce(second: &mut Second, device: &str, header: &Header) -> Result<(), VolumeError> {
    let own = &mut second.header;
    (own.uuid, own.generation, own.openings) = (header.uuid, header.generation, header.openings);
    own.is_clean = true;
    let last = Header::last_place(own.device_bytes);
    if last + crate::HEADER_BYTES as u64 > second.device.info().limits.capacity_bytes {
        return Err(refused(&*second.device, "it has shrunk: give it its size back".to_owned()));
    }
    let names = Pair { role: Role::Staging, is_settled: true, other: absolute(device) };
    // The place of the other device is told for people: without room for it, the old place stays.
    if Header::room(&own.stack, &own.facts, Some(&names)).is_ok() {
        own.pair = Some(names);
    } else if let Some(pair) = &mut own.pair {
        pair.is_settled = true;
    }
    Ok(())
}

/// Opens the volume, gives the spare copies of its directory of files an owner, and closes it.
/// Returns true if it holds files.
fn with_files(
    first: Box<dyn BlockDevice>,
    header: Header,
    second: Option<Second>,
    (from, to): (Uuid, Uuid),
) -> Result<(Closed, bool), VolumeError> {
    let mut volume = Volume::open_on(first, second, header, Vec::new())?;
    let (capacity, sector) = (volume.capacity_bytes(), volume.header().sector_bytes);
    let name = volume.device().info().name.clone();
    let owners = (*from.as_bytes(), *to.as_bytes());
    let mut store = Store::new(volume.device());
    let given =
        files::give_owner(capacity, sector, owners, &mut store).map_err(|error| match error {
            FilesError::Failed(failure) => BlockError::Failed { name, failure }.into(),
            error => VolumeError::Refused {
                device: name,
                reason: format!(
                    "it holds files of SQLite that cannot be given the new UUID: {error}"
                ),
            },
        })?;
    Ok((volume.close_to_devices()?, given))
}

#[cfg(test)]
#[path = "new_uuid_tests.rs"]
mod tests;
