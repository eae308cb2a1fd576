//! Loop devices as block devices: what is written arrives, what is in use or holds something is
//! refused, what is pulled away is told of.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::support::{Loop, Mount, do_one, file_of, folder, has, keep_busy, open, refusal, run};
use block::DeviceKind;
use devices::{Access, create_file};
use units::{IoOp, Progress};

const MIB: u64 = 1 << 20;

#[test]
fn data_arrives_in_the_file_behind() {
    let folder = folder();
    let behind = file_of(&folder, "behind", 16 * MIB);
    let Some(device) = Loop::over(&behind, &[]) else { return };
    let mut device = open(&device.path, Access::Write).unwrap();
    let info = device.info().clone();
    assert_eq!(
        (info.kind, info.limits.capacity_bytes, info.limits.sector_bytes),
        (DeviceKind::BlockDevice, 16 * MIB, 512)
    );
    assert!(info.model.contains("loop device over"), "{}", info.model);
    do_one(&mut *device, IoOp::Write, 8 * MIB, 1 << 20).unwrap();
    do_one(&mut *device, IoOp::Flush, 0, 0).unwrap();
    let data = fs::read(&behind).unwrap();
    assert!(
        data[8 * MIB as usize..9 * MIB as usize]
            .chunks(512)
            .all(|piece| piece.iter().any(|&byte| byte != 0))
    );
    do_one(&mut *device, IoOp::Read, 8 * MIB + 512, 512).unwrap();
    assert!(info.has_trim);
    do_one(&mut *device, IoOp::Trim, 8 * MIB, 1 << 20).unwrap();
    assert!(fs::read(&behind).unwrap().iter().all(|&byte| byte == 0));
    keep_busy(&mut *device, IoOp::Write, 2000, |_| ()).1.unwrap();
}

/// Requests that a device got, as the kernel counts them: reads and writes.
fn counted(path: &str) -> (u64, u64) {
    let name = Path::new(path).file_name().unwrap().to_str().unwrap();
    let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    let numbers: Vec<u64> = stat.split_whitespace().map(|number| number.parse().unwrap()).collect();
    (numbers[0], numbers[4])
}

/// A loop device takes up to 1280 KiB, but in no more than 128 pieces of memory.
#[test]
fn long_requests_arrive_whole() {
    let huge_pages =
        fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if !has(
        huge_pages.contains("[always]") || huge_pages.contains("[madvise]"),
        "transparent huge pages",
    ) {
        return;
    }
    let folder = folder();
    let behind = file_of(&folder, "behind", 16 * MIB);
    let Some(loop_device) = Loop::over(&behind, &[]) else { return };
    let opening = devices::Opening {
        most_bytes: 2 << 20,
        ..crate::support::opening(&loop_device.path, Access::Write)
    };
    let mut device = devices::open(&opening).unwrap();
    let before = counted(&loop_device.path);
    for length in [4096, 256 << 10, (256 << 10) + 4096, 1 << 20, 1280 << 10] {
        do_one(&mut *device, IoOp::Write, 3 * MIB, length).unwrap();
        do_one(&mut *device, IoOp::Read, 3 * MIB, length).unwrap();
    }
    let after = counted(&loop_device.path);
    assert_eq!((after.0 - before.0, after.1 - before.1), (5, 5));
    assert!(
        fs::read(&behind).unwrap()[3 << 20..(3 << 20) + (1280 << 10)]
            .chunks(512)
            .all(|piece| piece.iter().any(|&byte| byte != 0))
    );
}

#[test]
fn sectors_are_those_of_the_device() {
    let folder = folder();
    let behind = file_of(&folder, "behind", MIB);
    let Some(device) = Loop::over(&behind, &["--sector-size=4096"]) else { return };
    let mut device = open(&device.path, Access::Write).unwrap();
    assert_eq!(device.info().limits.sector_bytes, 4096);
    do_one(&mut *device, IoOp::Write, 4096, 4096).unwrap();
}

#[test]
fn a_device_is_written_by_one_at_a_time() {
    let folder = folder();
    let behind = file_of(&folder, "behind", MIB);
    let Some(device) = Loop::over(&behind, &[]) else { return };
    let first = open(&device.path, Access::Write).unwrap();
    assert!(
        refusal(&device.path, Access::DestroyData).contains("another program or driver holds it")
    );
    assert!(refusal(&behind, Access::DestroyData).contains("lies in it"));
    open(&device.path, Access::ReadOnly).unwrap();
    drop(first);
    open(&device.path, Access::Write).unwrap();
}

/// Makes a file system or a partition table on a device, and what it is called.
fn formats(path: &str) -> Vec<(&'static str, Result<String, String>)> {
    let sectors =
        |lines: &str| run("sh", &["-c", &format!("printf '{lines}' | sfdisk --quiet {path}")]);
    let wiped = |made: &dyn Fn() -> Result<String, String>| {
        fs::OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .write_all(&vec![0; 2 * MIB as usize])
            .unwrap();
        made()
    };
    vec![
        ("an ext2, ext3 or ext4 file system", wiped(&|| run("mkfs.ext4", &["-q", path]))),
        ("swap space", wiped(&|| run("mkswap", &[path]))),
        ("a partition table (MBR)", wiped(&|| sectors("label: dos\\n,4M,L\\n"))),
        ("a GUID partition table", wiped(&|| sectors("label: gpt\\n,4M,L\\n"))),
    ]
}

#[test]
fn what_holds_something_is_written_only_if_told_twice() {
    let folder = folder();
    let names: Vec<&str> = {
        let behind = file_of(&folder, "names", 32 * MIB);
        let Some(device) = Loop::over(&behind, &[]) else { return };
        formats(&device.path).into_iter().map(|(name, _)| name).collect()
    };
    for (number, name) in names.iter().enumerate() {
        let behind = file_of(&folder, &format!("behind{number}"), 32 * MIB);
        let Some(device) = Loop::over(&behind, &[]) else { return };
        let (_, made) = formats(&device.path).swap_remove(number);
        drop(device);
        if !has(made.is_ok(), &format!("program to make {name} ({made:?})")) {
            continue;
        }
        // Formats made later lie over it: only the last one's is looked for.
        let Some(device) = Loop::over(&behind, &[]) else { return };
        let before = fs::read(&behind).unwrap();
        let text = refusal(&device.path, Access::Write);
        assert!(
            text.contains("it holds") && text.contains("allow its data to be destroyed"),
            "{text}"
        );
        open(&device.path, Access::ReadOnly).unwrap();
        assert!(before == fs::read(&behind).unwrap(), "looking changes nothing");
        do_one(&mut *open(&device.path, Access::DestroyData).unwrap(), IoOp::Write, 0, 4096)
            .unwrap();
    }
}

/// All pieces of each MiB are looked at, not the first alone.
#[test]
fn one_sector_of_data_within_a_mebibyte_is_found() {
    let folder = folder();
    let behind = file_of(&folder, "sector", 16 * MIB);
    let at = 5 * MIB + 37 * 512;
    write_at(&behind, at);
    let Some(device) = Loop::over(&behind, &[]) else { return };
    let text = refusal(&device.path, Access::Write);
    assert!(text.contains("data that this program did not write"), "{text}");
}

/// Also where the region ends before the device does, and where only samples would be looked at.
#[test]
fn data_in_the_last_sector_of_a_region_is_found() {
    let folder = folder();
    for end in [12 * MIB, 200 * MIB] {
        let behind = file_of(&folder, &format!("end{end}"), end + 4 * MIB);
        write_at(&behind, end - 512);
        let Some(device) = Loop::over(&behind, &[]) else { return };
        let within = |region| {
            devices::open(&devices::Opening {
                region: Some(region),
                ..crate::support::opening(&device.path, Access::Write)
            })
        };
        let text = within(0..end).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("data that this program did not write"), "{text}");
        within(0..end - 4096).unwrap();
    }
}

fn write_at(file: &Path, at: u64) {
    fs::OpenOptions::new().write(true).open(file).unwrap().write_all_at(&[0xa5; 512], at).unwrap();
}

/// A disk is in use if a partition of it is, even where its data may be destroyed.
#[test]
fn a_disk_with_a_mounted_partition_is_not_written() {
    let folder = folder();
    let behind = file_of(&folder, "disk", 64 * MIB);
    let table = format!("printf 'label: dos\\n,32M,L\\n' | sfdisk --quiet {}", behind.display());
    if !has(run("sh", &["-c", &table]).is_ok(), "sfdisk") {
        return;
    }
    let Some(device) = Loop::over(&behind, &["--partscan"]) else { return };
    let partition = format!("{}p1", device.path);
    // A kernel that reads no such tables still takes a partition from a program that does.
    let _ = run("partx", &["--add", &device.path]);
    if !has(Path::new(&partition).exists(), "partitions of loop devices")
        || !has(run("mkfs.ext4", &["-q", &partition]).is_ok(), "mkfs.ext4")
    {
        return;
    }
    let Ok(mounted) = Mount::of(&partition, &folder.path().join("part"), "rw") else {
        has(false, "mounts");
        return;
    };
    let text = refusal(&device.path, Access::DestroyData);
    assert!(text.contains("partition") && text.contains("mounted at"), "{text}");
    drop(mounted);
    open(&device.path, Access::DestroyData).unwrap();
    let _ = run("partx", &["--delete", &device.path]);
}

#[test]
fn a_mebibyte_of_data_in_the_middle_is_found() {
    let folder = folder();
    for at in [100, 300] {
        let behind = file_of(&folder, &format!("behind{at}"), 512 * MIB);
        fs::OpenOptions::new()
            .write(true)
            .open(&behind)
            .unwrap()
            .write_all_at(&vec![0xa5; MIB as usize], at * MIB)
            .unwrap();
        let Some(device) = Loop::over(&behind, &[]) else { return };
        let text = refusal(&device.path, Access::Write);
        assert!(
            text.contains(&format!("data that this program did not write, at byte {}", at * MIB)),
            "{text}"
        );
        // Outside of the region nothing is touched.
        let region = Some(0..at * MIB);
        devices::open(&devices::Opening {
            region,
            ..crate::support::opening(&device.path, Access::Write)
        })
        .unwrap();
    }
}

#[test]
fn what_is_mounted_is_never_written() {
    let folder = folder();
    let behind = file_of(&folder, "behind", 32 * MIB);
    let Some(device) = Loop::over(&behind, &[]) else { return };
    if !has(run("mkfs.ext4", &["-q", &device.path]).is_ok(), "mkfs.ext4") {
        return;
    }
    let mounted = match Mount::of(&device.path, &folder.path().join("a mount"), "rw") {
        Ok(mounted) => mounted,
        Err(error) => {
            has(false, &format!("mounts ({error})"));
            return;
        }
    };
    for access in [Access::Write, Access::DestroyData] {
        let text = refusal(&device.path, access);
        assert!(text.contains("it is mounted at") && text.contains("a mount"), "{text}");
    }
    open(&device.path, Access::ReadOnly).unwrap();
    drop(mounted);
    assert!(refusal(&device.path, Access::Write).contains("an ext2, ext3 or ext4 file system"));
    open(&device.path, Access::DestroyData).unwrap();
}

#[test]
fn what_is_in_use_by_way_of_a_loop_device_is_never_written() {
    let folder = folder();
    let behind = file_of(&folder, "behind", 32 * MIB);
    let Some(below) = Loop::over(&behind, &[]) else { return };
    if !has(run("mkfs.ext4", &["-q", &below.path]).is_ok(), "mkfs.ext4") {
        return;
    }
    let Some(above) = Loop::over(Path::new(&below.path), &[]) else { return };
    assert!(refusal(&below.path, Access::DestroyData).contains("it has the loop device"));
    open(&above.path, Access::DestroyData).unwrap();
    let Ok(mounted) = Mount::of(&below.path, &folder.path().join("below"), "rw") else {
        has(false, "mounts");
        return;
    };
    let text = refusal(&above.path, Access::DestroyData);
    assert!(text.contains("it lies in") && text.contains("mounted at"), "{text}");
    drop(mounted);
    drop(above);
    let Some(twin) = Loop::over(&behind, &[]) else { return };
    let text = refusal(&twin.path, Access::DestroyData);
    assert!(text.contains("it lies in") && text.contains("the loop device"), "{text}");
    // By another name, too.
    let link = folder.path().join("link");
    fs::hard_link(&behind, &link).unwrap();
    assert!(refusal(&link, Access::DestroyData).contains("lies in it"));
}

#[test]
fn the_systems_own_disk_is_never_written() {
    let Ok(disk) = run("findmnt", &["--noheadings", "--output=SOURCE", "/"]) else { return };
    if !has(Path::new(&disk).exists(), "disk under /") {
        return;
    }
    for access in [Access::Write, Access::DestroyData] {
        assert!(refusal(&disk, access).contains("the system's own disk"));
    }
}

#[test]
fn a_read_only_device_is_only_read() {
    let folder = folder();
    let behind = file_of(&folder, "behind", MIB);
    let Some(device) = Loop::over(&behind, &["--read-only"]) else { return };
    for access in [Access::Write, Access::DestroyData] {
        assert!(refusal(&device.path, access).contains("is not written to: it is read-only"));
    }
    let mut device = open(&device.path, Access::ReadOnly).unwrap();
    do_one(&mut *device, IoOp::Read, 0, 4096).unwrap();
}

#[test]
fn a_device_that_becomes_read_only_is_one_error() {
    let folder = folder();
    let behind = file_of(&folder, "behind", MIB);
    let Some(path) = Loop::over(&behind, &[]) else { return };
    let mut device = open(&path.path, Access::Write).unwrap();
    let mut is_set = false;
    let (done, end) = keep_busy(&mut *device, IoOp::Write, 100_000, |done| {
        if done > 100 && !is_set {
            is_set = run("blockdev", &["--setro", &path.path]).is_ok();
        }
    });
    // The kernel would keep that for the device's next user.
    run("blockdev", &["--setrw", &path.path]).unwrap();
    let text = end.unwrap_err().to_string();
    assert!(done >= 100 && text.contains("it is read-only"), "after {done}: {text}");
}

#[test]
fn a_device_detached_in_mid_run_is_one_error() {
    for op in [IoOp::Read, IoOp::Write] {
        let folder = folder();
        let behind = file_of(&folder, "behind", 16 * MIB);
        let Some(mut path) = Loop::over(&behind, &[]) else { return };
        let mut device = open(&path.path, Access::Write).unwrap();
        let mut is_detached = false;
        let (done, end) = keep_busy(&mut *device, op, u64::MAX, |done| {
            if done > 100 && !is_detached {
                path.detach();
                is_detached = true;
            }
        });
        let text = end.unwrap_err().to_string();
        assert!(
            done > 100 && text.contains("the device is gone: its loop device is being detached"),
            "after {done}: {text}"
        );
        drop(device);
        let is_free = || {
            std::thread::sleep(Duration::from_millis(20));
            run("losetup", &["--associated", behind.to_str().unwrap()]).unwrap().is_empty()
        };
        assert!((0..100).any(|_| is_free()), "the kernel still holds the device");
    }
}

#[test]
fn a_device_that_vanishes_under_its_requests_is_one_error() {
    for op in [IoOp::Read, IoOp::Write] {
        let folder = folder();
        let behind = file_of(&folder, "behind", 16 * MIB);
        let Some(path) = Loop::over(&behind, &[]) else { return };
        let mut device = open(&path.path, Access::Write).unwrap();
        let mut is_gone = false;
        let (done, end) = keep_busy(&mut *device, op, u64::MAX, |done| {
            if done > 100 && !is_gone {
                fs::OpenOptions::new().write(true).open(&behind).unwrap().set_len(0).unwrap();
                run("losetup", &["--set-capacity", &path.path]).unwrap();
                is_gone = true;
            }
        });
        let text = end.unwrap_err().to_string();
        // A write under way makes the file longer again, before the device takes on its size.
        let is_told = [
            "the device is gone: it has no bytes any more",
            "the device has shrunk from 16777216 to",
        ]
        .iter()
        .any(|told| text.contains(told));
        assert!(done > 100 && is_told, "after {done}: {text}");
    }
}

#[test]
fn a_file_behind_that_is_cut_off_is_one_error() {
    let folder = folder();
    let behind = file_of(&folder, "behind", 16 * MIB);
    let Some(path) = Loop::over(&behind, &[]) else { return };
    let mut device = open(&path.path, Access::Write).unwrap();
    fs::OpenOptions::new().write(true).open(&behind).unwrap().set_len(MIB).unwrap();
    let (_, end) = keep_busy(&mut *device, IoOp::Read, u64::MAX, |_| ());
    let text = end.unwrap_err().to_string();
    assert!(text.contains("read of 4096 bytes at byte") && text.contains("or is gone"), "{text}");
}

#[test]
fn a_full_file_system_is_one_error() {
    let folder = folder();
    let behind = file_of(&folder, "behind", 16 * MIB);
    let Some(device) = Loop::over(&behind, &[]) else { return };
    if !has(run("mkfs.ext4", &["-q", "-O", "^has_journal", &device.path]).is_ok(), "mkfs.ext4") {
        return;
    }
    let mounted = match Mount::of(&device.path, &folder.path().join("full"), "rw") {
        Ok(mounted) => mounted,
        Err(error) => {
            has(false, &format!("mounts ({error})"));
            return;
        }
    };
    let path = mounted.folder.join("file");
    let text = create_file(&path, 64 * MIB, &Progress::default()).unwrap_err().to_string();
    assert!(text.contains("getting space for it: No space left"), "{text}");
    fs::File::create_new(&path).unwrap().set_len(64 * MIB).unwrap();
    let mut device = open(&path, Access::Write).unwrap();
    let (done, end) = keep_busy(&mut *device, IoOp::Write, u64::MAX, |_| ());
    let text = end.unwrap_err().to_string();
    assert!(
        done > 100 && text.contains("no space left on the file system under the file"),
        "after {done}: {text}"
    );
    assert!(text.contains("write of 4096 bytes at byte"), "{text}");
}

#[test]
fn what_was_written_through_the_device_stays_after_it() {
    let folder = folder();
    let behind = file_of(&folder, "behind", MIB);
    let Some(path) = Loop::over(&behind, &[]) else { return };
    do_one(&mut *open(&path.path, Access::Write).unwrap(), IoOp::Write, 4096, 4096).unwrap();
    let mut file = fs::File::open(&path.path).unwrap();
    let mut data = vec![0; 4096];
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.read_exact(&mut data).unwrap();
    assert!(data == fs::read(&behind).unwrap()[4096..8192] && data.iter().any(|&byte| byte != 0));
    // Its own data is in nobody's way.
    open(&path.path, Access::Write).unwrap();
}
