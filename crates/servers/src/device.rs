//! Opens the devices of volumes, and says of one that is refused which volume it holds.

use block::BlockDevice;
use devices::{Access, DeviceError};
use units::Progress;

use crate::headers::{About, find};
use crate::memory::Depth;
use crate::{Pair, Role, VolumeError};

/// Opens a device that may hold a volume.
///
/// # Errors
/// [`VolumeError`]: above all if it is in use, or holds something and may not be destroyed.
pub(crate) fn open_device(
    spec: &str,
    access: Access,
    depth: impl Into<Depth>,
) -> Result<Box<dyn BlockDevice>, VolumeError> {
    let depth = depth.into();
    let mut opening = devices::Opening::new(spec, access);
    opening.holds_data = true;
    (opening.queue_depth, opening.most_bytes) = (depth.commands, depth.most_bytes);
    let opened = devices::open_watched(&opening, &Progress::default());
    opened.map_err(|error| match access {
        Access::Write => named(error).into(),
        _ => error.into(),
    })
}

/// Says of a device that is refused for what it holds which volume that is.
fn named(error: DeviceError) -> DeviceError {
    let DeviceError::Refused { name, reason } = error else { return error };
    let about = open_device(&name, Access::ReadOnly, 1).and_then(|mut device| find(&mut *device));
    let what = about.ok().map(|About { header, .. }| match header.pair {
        Some(Pair { role: Role::Staging, other, .. }) => {
            format!(
                "it is the staging device of volume {}, whose pages lie on {other}",
                header.uuid
            )
        }
        Some(Pair { other, .. }) => {
            format!("it has the pages of volume {}, whose staging device is {other}", header.uuid)
        }
        None => format!("it has volume {}", header.uuid),
    });
    let reason = what.map_or(reason.clone(), |what| format!("{what}: {reason}"));
    DeviceError::Refused { name, reason }
}
