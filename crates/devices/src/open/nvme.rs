//! Opening a namespace of an NVMe drive by its character device.
//!
//! The kernel lets anybody send commands to it, whoever uses the block device of the same
//! namespace. So that block device is opened first, by its own rules, and held as long as the other
//! is in use.

use std::fs::{self, Metadata, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ::block::{DeviceInfo, Limits};
use units::Progress;

use super::{block, in_use};
use crate::DeviceError;
use crate::nvme::{self, Nvme};
use crate::opening::{Access, Opening};
use crate::real::Opened;

/// Pieces of memory in which a request comes: pages of the system, at least of this size.
const PIECE_BYTES: u64 = 4096;

/// The name of the namespace that a character device is, `ng0n1` say; `None` for all others.
pub(super) fn name_of(data: &Metadata) -> Option<String> {
    let number = data.rdev();
    let folder =
        fs::canonicalize(format!("/sys/dev/char/{}:{}", libc::major(number), libc::minor(number)))
            .ok()?;
    let class = fs::canonicalize(folder.join("subsystem")).ok()?;
    let name = folder.file_name()?.to_str()?;
    (class.file_name()? == "nvme-generic").then(|| name.to_owned())
}

/// Returns true if a path looks like one of a namespace's character device.
pub(super) fn is_meant(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| block_name(name).is_some())
}

/// The name of the block device of a namespace: `nvme0n1` of `ng0n1`.
fn block_name(name: &str) -> Option<String> {
    let (controller, namespace) = name.strip_prefix("ng")?.split_once('n')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(controller) && is_number(namespace)).then(|| format!("nvme{controller}n{namespace}"))
}

/// Opens it, with its block device.
pub(super) fn open(
    opening: &Opening,
    path: &Path,
    data: &Metadata,
    name: &str,
    progress: &Progress,
) -> Result<(Opened, Nvme), DeviceError> {
    let may_write = opening.access != Access::ReadOnly;
    let (beside, beside_data) = block_device(opening, name)?;
    if opening.is_exclusive()
        && let Some(user) = in_use::character_user(data.rdev())
    {
        return Err(opening.in_use(format!("{user}; name a device that is not in use")));
    }
    let held = block::open(opening, &beside, &beside_data, progress)?;
    // Commands go past the page cache in any case, and the device takes no `O_DIRECT`.
    let file = OpenOptions::new().read(true).write(may_write).open(path);
    let file = file.map_err(opening.failed("opening it"))?;
    if file.metadata().map_err(opening.failed("asking what it is"))?.rdev() != data.rdev() {
        return Err(opening.wrong("another device took its name while it was opened; try again"));
    }
    let nvme = nvme::ask(&file)
        .map_err(opening.failed("asking the drive what it is"))?
        .map_err(|reason| opening.wrong(reason))?;
    let limits = held.info.limits;
    if (limits.capacity_bytes, limits.sector_bytes) != (nvme.capacity_bytes(), nvme.sector_bytes())
    {
        return Err(opening.wrong(format!(
            "the drive says that it has {} bytes in sectors of {}, and the kernel {} in sectors \
             of {}",
            nvme.capacity_bytes(),
            nvme.sector_bytes(),
            limits.capacity_bytes,
            limits.sector_bytes
        )));
    }
    let queue = Queue::of(beside_data.rdev())
        .ok_or_else(|| opening.wrong("the kernel does not say what its queue takes"))?;
    if queue.is_zoned {
        return Err(opening.wrong("it is zoned: it takes no writes but in order"));
    }
    let info = described(opening, held.info, &nvme, queue);
    let (is_loop, is_polled, hints) = (false, false, nvme.hints());
    Ok((Opened { info, file, claim: Some(held.file), is_loop, is_polled, hints }, nvme))
}

/// The block device of a namespace, and what the system says of it.
fn block_device(opening: &Opening, name: &str) -> Result<(PathBuf, Metadata), DeviceError> {
    let none = || {
        opening.wrong(
            "there is no block device of the same namespace beside it, so nobody can tell \
             whether it is in use; the kernel makes none of a format that it does not take",
        )
    };
    let block_name = block_name(name).ok_or_else(none)?;
    let path = Path::new("/dev").join(&block_name);
    let data = fs::metadata(&path).map_err(|_| none())?;
    let number = fs::read_to_string(format!("/sys/class/block/{block_name}/dev"))
        .ok()
        .and_then(|text| in_use::numbered(text.trim()));
    if !data.file_type().is_block_device() || number != Some(data.rdev()) {
        return Err(none());
    }
    Ok((path, data))
}

/// Limits of the kernel for one command, whoever sends it: longer ones are refused, not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Queue {
    most_bytes: u64,
    is_zoned: bool,
}

impl Queue {
    fn of(number: u64) -> Option<Self> {
        let described = block::Described::find(number)?;
        let bytes = described.number("queue/max_hw_sectors_kb")?.saturating_mul(1024);
        let pieces = described.number("queue/max_segments")?.saturating_mul(PIECE_BYTES);
        let zoned = described.text("queue/zoned");
        Some(Self {
            most_bytes: bytes.min(pieces),
            is_zoned: zoned.is_some_and(|zoned| zoned != "none"),
        })
    }
}

/// Describes the device, from the description of its block device.
fn described(opening: &Opening, beside: DeviceInfo, nvme: &Nvme, queue: Queue) -> DeviceInfo {
    let sector_bytes = nvme.sector_bytes();
    let most = nvme.most_bytes().min(queue.most_bytes).min(opening.most_bytes.into());
    let most_bytes = if most == u64::from(opening.most_bytes) {
        opening.most_bytes
    } else {
        // A request that is cut is cut to whole pages.
        (most / PIECE_BYTES * PIECE_BYTES) as u32
    };
    let note = if opening.polled { " (not polled: commands of its own are not)" } else { "" };
    DeviceInfo {
        model: nvme.model() + note,
        limits: Limits { most_bytes: most_bytes.max(sector_bytes), ..beside.limits },
        has_trim: nvme.has_trim(),
        zeroing_bytes: None,
        ..beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_a_block_device_of_the_same_numbers() {
        assert_eq!(block_name("ng0n1").as_deref(), Some("nvme0n1"));
        assert_eq!(block_name("ng12n345").as_deref(), Some("nvme12n345"));
        for other in ["nvme0n1", "ng0", "ngn1", "ng0n", "ng0c1n1", "ng-1n1", "ng0n1p1", "n0n1"] {
            assert_eq!(block_name(other), None, "{other}");
        }
        assert!(is_meant(Path::new("/dev/ng0n1")) && !is_meant(Path::new("/dev/ng")));
    }

    #[test]
    fn another_character_device_is_no_namespace() {
        let null = fs::metadata("/dev/null").unwrap();
        assert_eq!(name_of(&null), None);
        let told = super::super::open(&Opening::new("/dev/null", Access::ReadOnly));
        let told = told.err().unwrap().to_string();
        assert!(told.contains("it is a character device, not "), "{told}");
        assert!(told.ends_with("a namespace of an NVMe drive (/dev/ng0n1)"), "{told}");
    }

    #[test]
    fn a_namespace_that_is_not_there_is_told_in_one_line() {
        let told = super::super::open(&Opening::new("/dev/ng99n99", Access::ReadOnly));
        let told = told.err().unwrap().to_string();
        assert_eq!(
            told,
            "device `/dev/ng99n99`: there is no such namespace of an NVMe drive; `ls /dev/ng*` \
             shows those that there are (Linux 5.13 or newer)"
        );
    }
}
