//! Opening a block device.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ::block::{DeviceInfo, DeviceKind, Limits};
use units::Progress;

use super::{in_use, patiently, refuse_data};
use crate::hints::Hints;
use crate::opening::{Access, Opening};
use crate::real::Opened;
use crate::{DeviceError, control};

/// Major number of loop devices (`Documentation/admin-guide/devices.txt`).
pub(super) const LOOP_MAJOR: u32 = 7;

/// A block device as the kernel describes it in sysfs.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// Its folder, or that of the partition.
    pub folder: PathBuf,
    /// Folder of the whole disk.
    pub disk: PathBuf,
}

impl Described {
    /// By its number; `None` if the kernel knows no such device (the number of a file system that
    /// has none, say).
    pub fn find(number: u64) -> Option<Self> {
        let folder = fs::canonicalize(format!(
            "/sys/dev/block/{}:{}",
            libc::major(number),
            libc::minor(number)
        ))
        .ok()?;
        let is_partition = folder.join("partition").exists();
        let disk = if is_partition { folder.parent()?.to_owned() } else { folder.clone() };
        Some(Self { folder, disk })
    }

    /// The kernel's name: `sda1`.
    pub fn name(&self) -> String {
        self.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// A text that the disk has in sysfs, without blanks around it; `None` if it has none or an
    /// empty one.
    pub fn text(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.disk.join(file)).ok()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    pub fn number(&self, file: &str) -> Option<u64> {
        self.text(file)?.parse().ok()
    }

    pub fn has_trim(&self) -> bool {
        self.number("queue/discard_max_bytes").is_some_and(|bytes| bytes > 0)
    }

    /// Returns true if it makes zeros of a range by itself, and unmaps it. Before Linux 6.17 the
    /// kernel does not say whether it unmaps: loop devices and virtio's do, while many NVMe and
    /// SCSI drives write zeros.
    pub fn zeroes(&self) -> bool {
        let is_some = |file: &str| self.number(file).map(|bytes| bytes > 0);
        let unmaps = is_some("queue/write_zeroes_unmap_max_hw_bytes")
            .unwrap_or_else(|| ["loop", "vd"].iter().any(|kind| self.name().starts_with(kind)));
        self.has_trim() && is_some("queue/write_zeroes_max_bytes") == Some(true) && unmaps
    }

    /// Streams that writes may be told apart by: placement handles of an NVMe drive with FDP, from
    /// Linux 6.16 on.
    pub fn write_streams(&self) -> u8 {
        self.number("queue/max_write_streams").map_or(0, |streams| streams.min(255) as u8)
    }

    pub fn can_be_polled(&self) -> bool {
        self.number("queue/io_poll") == Some(1)
    }

    /// Vendor and model, or what is behind a loop device, or its driver.
    pub fn model(&self) -> String {
        if let Some(behind) = self.text("loop/backing_file") {
            let is_direct = self.number("loop/dio") == Some(1);
            return format!(
                "loop device over {behind}{}",
                if is_direct { "" } else { " through the page cache" }
            );
        }
        let vendor = self.text("device/vendor").filter(|vendor| !vendor.starts_with("0x"));
        let words: Vec<String> =
            [vendor, self.text("device/model")].into_iter().flatten().collect();
        if !words.is_empty() {
            return words.join(" ");
        }
        let driver = fs::read_link(self.disk.join("device/driver")).ok();
        driver
            .and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_default()
    }
}

pub(super) fn open(
    opening: &Opening,
    path: &Path,
    data: &Metadata,
    progress: &Progress,
) -> Result<Opened, DeviceError> {
    let number = data.rdev();
    let described = Described::find(number)
        .ok_or_else(|| opening.wrong("the kernel has no such block device (any more)"))?;
    let may_write = opening.access != Access::ReadOnly;
    let is_exclusive = opening.is_exclusive();
    if is_exclusive && let Some(user) = in_use::user(number, &described) {
        return Err(opening.in_use(format!("{user}; name a device that is not in use")));
    }
    let attempt = || opening.direct(path, if is_exclusive { libc::O_EXCL } else { 0 });
    let file = match patiently(attempt, |error| error.raw_os_error() == Some(libc::EBUSY)) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) && is_exclusive => {
            return Err(opening
                .in_use("another program or driver holds it; name a device that is not in use"));
        }
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EROFS | libc::EPERM))
                && may_write
                && is_read_only(path) =>
        {
            return Err(opening.refused("it is read-only"));
        }
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM)
            ) =>
        {
            return Err(opening
                .wrong(format!("there is no device behind it, or no medium in it ({error})")));
        }
        other => other.map_err(opening.failed("opening it"))?,
    };
    // What was looked at above is the device that the name stood for then.
    if file.metadata().map_err(opening.failed("asking what it is"))?.rdev() != number {
        return Err(opening.wrong("another device took its name while it was opened; try again"));
    }
    if may_write
        && control::is_read_only(&file).map_err(opening.failed("asking whether it is read-only"))?
    {
        return Err(opening.refused("it is read-only"));
    }
    let sector_bytes = rustix::fs::ioctl_blksszget(&file)
        .map_err(|error| opening.failed("asking for its sectors")(error.into()))?;
    let capacity_bytes =
        control::capacity_bytes(&file).map_err(opening.failed("asking for its capacity"))?;
    if capacity_bytes == 0 {
        return Err(opening.wrong("there is nothing behind it: it has no bytes"));
    }
    refuse_data(opening, &file, capacity_bytes, sector_bytes, true, progress)?;
    let (is_polled, note) = polling(opening, Some(&described));
    let info = DeviceInfo {
        name: opening.spec.clone(),
        model: described.model() + note,
        kind: DeviceKind::BlockDevice,
        limits: Limits {
            capacity_bytes,
            sector_bytes,
            most_bytes: opening.most_bytes.max(sector_bytes),
        },
        queue_depth: opening.queue_depth,
        is_read_only: !may_write,
        has_trim: described.has_trim(),
        // Who measures a device is to measure its discards.
        zeroing_bytes: (opening.holds_data && described.zeroes()).then_some(sector_bytes),
        is_virtual: false,
        holds_data: opening.holds_data,
    };
    let is_loop = libc::major(number) == LOOP_MAJOR;
    let hints = Hints::new(described.write_streams());
    Ok(Opened { info, file, claim: None, is_loop, is_polled, hints })
}

/// Returns true if the kernel would refuse writes: asked through a file that is open for reading.
fn is_read_only(path: &Path) -> bool {
    fs::File::open(path).is_ok_and(|file| control::is_read_only(&file).unwrap_or(false))
}

/// Decides on polling, and gives the words for it in the model.
pub(super) fn polling(opening: &Opening, disk: Option<&Described>) -> (bool, &'static str) {
    match (opening.polled, disk.is_some_and(Described::can_be_polled)) {
        (false, _) => (false, ""),
        (true, true) => (true, ", polled"),
        (true, false) => (false, " (not polled: the kernel has no polling for it)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trims_are_zeros_only_where_the_device_unmaps_them() {
        let zeroes = |name: &str, limits: &[(&str, u64)]| {
            let sys = tempfile::tempdir().unwrap();
            let disk = sys.path().join(name);
            fs::create_dir_all(disk.join("queue")).unwrap();
            for (limit, bytes) in limits {
                fs::write(disk.join("queue").join(limit), format!("{bytes}\n")).unwrap();
            }
            Described { folder: disk.clone(), disk }.zeroes()
        };
        let (discard, zero) = (("discard_max_bytes", 1 << 20), ("write_zeroes_max_bytes", 1 << 20));
        let unmap = |bytes| ("write_zeroes_unmap_max_hw_bytes", bytes);
        assert!(zeroes("nvme0n1", &[discard, zero, unmap(4096)]));
        assert!(!zeroes("nvme0n1", &[discard, zero, unmap(0)]));
        assert!(!zeroes("loop3", &[discard, zero, unmap(0)]));
        assert!(!zeroes("vda", &[("discard_max_bytes", 0), zero, unmap(4096)]));
        assert!(!zeroes("vda", &[discard, ("write_zeroes_max_bytes", 0), unmap(4096)]));
        // An older kernel.
        assert!(zeroes("loop3", &[discard, zero]));
        assert!(zeroes("vda1", &[discard, zero]));
        assert!(!zeroes("nvme0n1", &[discard, zero]));
        assert!(!zeroes("sda", &[discard, zero]), "its drive may be written zeros");
    }
}
