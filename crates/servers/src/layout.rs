//! Plans the places of all parts of a volume on its device.

use std::time::{SystemTime, UNIX_EPOCH};

use block::{BlockDevice, DeviceInfo};
use layers::{Facts, LayerError};
use uuid::Uuid;

use crate::{HEADER_BYTES, Header, VolumeError};

/// Alignment of the beginning and the end of the stack's part, so that pages of layers are not
/// split over sectors, flash pages or, as a rule, stripes of the device below.
pub(crate) const ALIGN_BYTES: u64 = 1 << 20;
/// Least bytes of a device, for both headers and some data.
pub(crate) const LEAST_BYTES: u64 = 4 * ALIGN_BYTES;

/// Arguments of making a volume.
#[derive(Clone, Debug)]
pub struct Creating {
    /// The device, as [`devices::open`] takes it.
    pub device: String,
    /// The layers, from the top to the bottom; `direct` for none.
    pub stack: String,
    /// Facts of the device.
    pub facts: Facts,
    /// Seed of all random draws of the layers.
    pub seed: u64,
    /// True if the old content of the device may be destroyed.
    pub destroys: bool,
    /// Second device, on which the area of one of the stack's layers is to lie.
    pub staging: Option<Staging>,
}

/// Device for the area of a layer of a new volume.
#[derive(Clone, Debug)]
pub struct Staging {
    /// The device, as [`devices::open`] takes it.
    pub device: String,
    /// True if its old content may be destroyed.
    pub destroys: bool,
}

/// Plans the header of a new volume, with the places of all parts.
pub(crate) fn plan(
    stack: &str,
    facts: &Facts,
    device: &dyn BlockDevice,
) -> Result<Header, VolumeError> {
    let limits = device.info().limits;
    let (device_bytes, sector_bytes) = (limits.capacity_bytes, limits.sector_bytes);
    if sector_bytes as usize > HEADER_BYTES {
        return Err(refused(
            device,
            format!("sectors of {sector_bytes} bytes; at most {HEADER_BYTES} are possible"),
        ));
    }
    if device_bytes < LEAST_BYTES {
        return Err(refused(
            device,
            format!("{device_bytes} bytes; a volume needs {LEAST_BYTES} or more"),
        ));
    }
    let (data_offset, data_bytes) = part_of(facts, device_bytes);
    let stack = with_holes(stack, device.info())
        .map_err(|error| layers_failed(&device.info().name, error))?;
    Ok(Header {
        uuid: Uuid::new_v4(),
        generation: 1,
        openings: 0,
        is_clean: true,
        incompatible: 0,
        read_only_compatible: 0,
        sector_bytes,
        device_bytes,
        data_offset,
        data_bytes,
        seed: 0,
        created_unix_s: unix_s(),
        scrubbed_unix_s: 0,
        stack,
        facts: facts.clone(),
        pair: None,
    })
}

/// Gives the stack with `holes` on top, unless its trims leave zeros without that: those of a log
/// do, and those of a device that says so. A stack without trims stays as it is. A buffer whose
/// writes are durable when they are replied to keeps that.
fn with_holes(stack: &str, device: &DeviceInfo) -> Result<String, LayerError> {
    let (layers, stack) = (layers::parse(stack)?, stack.trim());
    let is_durable = match layers.first() {
        None if device.zeroing_bytes.is_some() || !device.has_trim => {
            return Ok(if stack.is_empty() { "direct" } else { stack }.to_owned());
        }
        None => return Ok("holes".to_owned()),
        Some((entry, args)) => match entry.info.name {
            "log_volume" | "holes" => return Ok(stack.to_owned()),
            "stable_buffer" => args.text("ack") != "written",
            _ => false,
        },
    };
    let holes = if is_durable { "holes(ack=durable)" } else { "holes" };
    Ok(format!("{holes}|{stack}"))
}

/// Gives the time, in seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Gives the first byte of the stack's part of a device of this size, and the bytes of that part.
pub(crate) fn part_of(facts: &Facts, device_bytes: u64) -> (u64, u64) {
    // An erase block of an odd size is no alignment.
    let erase_block = facts.erase_block_bytes.filter(|bytes| {
        bytes.is_power_of_two() && (ALIGN_BYTES..=device_bytes / 64).contains(bytes)
    });
    let data_offset = erase_block.unwrap_or(ALIGN_BYTES);
    let end = Header::last_place(device_bytes) / ALIGN_BYTES * ALIGN_BYTES;
    (data_offset, end - data_offset)
}

/// Checks that all texts of a header fit into it.
pub(crate) fn check_room(header: &Header, device: &dyn BlockDevice) -> Result<(), VolumeError> {
    Header::room(&header.stack, &header.facts, header.pair.as_ref()).map_err(|excess| {
        refused(
            device,
            format!(
                "stack, facts and the staging device's path are {excess} bytes too long for the \
                 header; leave out facts that its layers do not need"
            ),
        )
    })
}

pub(crate) fn refused(device: &dyn BlockDevice, reason: String) -> VolumeError {
    VolumeError::Refused { device: device.info().name.clone(), reason }
}

pub(crate) fn layers_failed(device: &str, error: LayerError) -> VolumeError {
    VolumeError::Layers { device: device.to_owned(), error }
}
