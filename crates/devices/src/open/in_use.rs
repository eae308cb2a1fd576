//! Users of a block device or a file. The kernel refuses to open a device twice for oneself
//! (`O_EXCL`), mounts included; the look-up here tells by whom it is used.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::block::Described;

/// Names the user of a device or of one of its partitions, or the place in which it lies if it is a
/// loop device. The kernel lets loop devices lie in what is mounted, and be written then.
pub(super) fn user(number: u64, described: &Described) -> Option<String> {
    user_but(number, described, None)
}

/// The same, where a loop device is already known to lie in it.
fn user_but(number: u64, described: &Described, but: Option<&str>) -> Option<String> {
    let mut numbers = vec![(number, described.clone())];
    if described.folder == described.disk {
        numbers.extend(
            entries(&described.disk).filter(|folder| folder.join("partition").exists()).filter_map(
                |folder| {
                    let number = number_of(&folder)?;
                    Some((number, Described::find(number)?))
                },
            ),
        );
    }
    numbers
        .iter()
        .find_map(|(number, part)| {
            let is_number = |path: &Path| block_device_at(path) == Some(*number);
            let use_of = mounted_at(*number)
                .or_else(|| swap_on(*number))
                .or_else(|| holder(part))
                .or_else(|| {
                    open_in(|data| data.file_type().is_block_device() && data.rdev() == *number)
                })
                .map(|use_of| format!("is {use_of}"));
            let use_of = use_of.or_else(|| {
                loop_over(is_number, but).map(|name| format!("has the loop device {name} in it"))
            })?;
            let is_itself = part.folder == described.folder;
            Some(if is_itself {
                format!("it {use_of}")
            } else {
                format!("its partition {} {use_of}", part.name())
            })
        })
        .or_else(|| beneath(described))
}

/// Names the user of the file or device in which a loop device lies.
fn beneath(described: &Described) -> Option<String> {
    let (behind, name) = (
        backing_file(&described.disk)?,
        described.disk.file_name()?.to_string_lossy().into_owned(),
    );
    let data = fs::metadata(&behind).ok()?;
    let use_of = if data.file_type().is_block_device() {
        user_but(data.rdev(), &Described::find(data.rdev())?, Some(&name))?
    } else {
        file_user_but(&data, Some(&name))?
    };
    Some(format!("it lies in {}: {use_of}", behind.display()))
}

/// Names the process that has a character device open.
pub(super) fn character_user(number: u64) -> Option<String> {
    open_in(|data| data.file_type().is_char_device() && data.rdev() == number)
        .map(|use_of| format!("it is {use_of}"))
}

/// The loop device or swap space that lies in a file, by whatever name.
pub(super) fn file_user(data: &Metadata) -> Option<String> {
    file_user_but(data, None)
}

fn file_user_but(data: &Metadata, but: Option<&str>) -> Option<String> {
    let is_it = |path: &Path| {
        fs::metadata(path).is_ok_and(|other| (other.dev(), other.ino()) == (data.dev(), data.ino()))
    };
    if let Some(name) = loop_over(is_it, but) {
        return Some(format!("the loop device {name} lies in it"));
    }
    if swaps().iter().any(|path| is_it(path)) {
        return Some("it is swap space".to_owned());
    }
    open_in(|other| (other.dev(), other.ino()) == (data.dev(), data.ino()))
        .map(|use_of| format!("it is {use_of}"))
}

/// The process, other than this one, that has this open or mapped, and goes on to: udev opens a
/// device for a moment after each change. Who is not root sees only processes of their own, and of
/// those no mappings.
fn open_in(is_it: impl Fn(&Metadata) -> bool) -> Option<String> {
    let mut found = open_now(&is_it);
    for _ in 0..20 {
        found.as_ref()?;
        std::thread::sleep(std::time::Duration::from_millis(25));
        found = open_now(&is_it);
    }
    found
}

fn open_now(is_it: &impl Fn(&Metadata) -> bool) -> Option<String> {
    let own = std::process::id();
    entries(Path::new("/proc")).find_map(|process| {
        let id: u32 = process.file_name()?.to_str()?.parse().ok()?;
        let has_it = |folder: &str| {
            entries(&process.join(folder)).any(|link| fs::metadata(link).is_ok_and(|to| is_it(&to)))
        };
        if id == own || !(has_it("fd") || has_it("map_files")) {
            return None;
        }
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        Some(format!("open in process {id} ({})", name.trim()))
    })
}

/// The name of a loop device, other than `but`, that lies in this.
fn loop_over(is_it: impl Fn(&Path) -> bool, but: Option<&str>) -> Option<String> {
    entries(Path::new("/sys/block")).find_map(|disk| {
        let name = disk.file_name()?.to_string_lossy().into_owned();
        (Some(name.as_str()) != but && is_it(&backing_file(&disk)?)).then_some(name)
    })
}

/// Gives the file in which a loop device lies, by its folder in sysfs; `None` for other devices.
fn backing_file(disk: &Path) -> Option<PathBuf> {
    fs::read_to_string(disk.join("loop/backing_file"))
        .ok()
        .map(|text| PathBuf::from(text.trim_end_matches('\n')))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found.into_iter()
}

/// The number in a device's folder of sysfs.
fn number_of(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("dev")).ok()?;
    numbered(text.trim())
}

/// A device number as `major:minor`.
pub(super) fn numbered(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// The number of the block device at a path.
fn block_device_at(path: &Path) -> Option<u64> {
    fs::metadata(path)
        .ok()
        .filter(|data| data.file_type().is_block_device())
        .map(|data| data.rdev())
}

fn mounted_at(number: u64) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mount_of(number, &mounts, block_device_at)
}

/// Fields as `proc_pid_mountinfo(5)` has them: number 3 is the device, 5 the mount point, and after
/// ` - ` the type and the source. File systems over several devices have a number of their own, so
/// the source is looked at too.
fn mount_of(number: u64, mounts: &str, device_at: impl Fn(&Path) -> Option<u64>) -> Option<String> {
    mounts.lines().find_map(|line| {
        let (place, rest) = line.split_once(" - ")?;
        let mut fields = place.split(' ').skip(2);
        let is_it = fields.next().and_then(numbered) == Some(number)
            || rest.split(' ').nth(1).is_some_and(|source| {
                source.starts_with('/') && device_at(Path::new(&unescaped(source))) == Some(number)
            });
        let point = fields.nth(1)?;
        is_it.then(|| {
            if point == "/" {
                "the system's own disk, mounted at /".to_owned()
            } else {
                format!("mounted at {}", unescaped(point))
            }
        })
    })
}

fn swap_on(number: u64) -> Option<String> {
    swaps()
        .iter()
        .any(|path| block_device_at(path) == Some(number))
        .then(|| "swap space".to_owned())
}

fn swaps() -> Vec<PathBuf> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .map(|path| PathBuf::from(unescaped(path)))
        .collect()
}

/// `/proc` writes blanks in names as `\040`.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        match after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = &after[3..];
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain + rest
}

/// A device made of this one: a volume, an array, an encrypted device.
fn holder(part: &Described) -> Option<String> {
    let holder = entries(&part.folder.join("holders")).next()?;
    Some(format!("part of {}", holder.file_name()?.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        30 27 8:17 / /mnt/a\\040b rw shared:3 - xfs /dev/sdb1 rw\n\
        31 27 0:40 / /data rw - btrfs /dev/sdc rw,space_cache";

    #[test]
    fn mounts_are_found_by_number_and_by_source() {
        let device_at = |path: &Path| (path == Path::new("/dev/sdc")).then(|| libc::makedev(8, 32));
        let at = |major, minor| mount_of(libc::makedev(major, minor), MOUNTS, device_at);
        assert_eq!(at(254, 0).unwrap(), "the system's own disk, mounted at /");
        assert_eq!(at(8, 17).unwrap(), "mounted at /mnt/a b");
        assert_eq!(at(8, 32).unwrap(), "mounted at /data");
        assert_eq!(at(8, 16), None);
    }

    #[test]
    fn escapes_of_proc_are_undone() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescaped("/a\\"), "/a\\");
        assert_eq!(unescaped("/a\\0"), "/a\\0");
    }
}
