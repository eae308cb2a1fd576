//! Regular files as devices: what is written is there, what is in the way of writing is told.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use crate::support::{
    do_one, file_of, folder, has, keep_busy, open, refusal, request, wait_for_all,
};
use block::{Command, Data, DeviceKind, Store};
use devices::{Access, DeviceError, Opening, create_file};
use units::{IoOp, Nanos, Progress};

const MIB: u64 = 1 << 20;

#[test]
fn requests_of_all_sizes_are_carried_out() {
    let folder = folder();
    let path = file_of(&folder, "sizes", 8 * MIB);
    let mut device = open(&path, Access::Write).unwrap();
    let info = device.info().clone();
    assert_eq!(
        (info.kind, info.limits.capacity_bytes, info.is_read_only, info.is_virtual),
        (DeviceKind::File, 8 * MIB, false, false)
    );
    for length in [info.limits.sector_bytes, 4096, 65_536, 262_144, 1 << 20] {
        let done = do_one(&mut *device, IoOp::Write, MIB, length).unwrap();
        assert!(done.submitted_at < done.completed_at && done.completed_at <= device.now());
        let data = fs::read(&path).unwrap();
        assert!(data[..MIB as usize].iter().all(|&byte| byte == 0));
        let (written, after) = data[MIB as usize..].split_at(length as usize);
        assert!(written.chunks(512).all(|piece| piece.iter().any(|&byte| byte != 0)));
        assert!(after.iter().all(|&byte| byte == 0));
        do_one(&mut *device, IoOp::Read, MIB, length).unwrap();
        do_one(&mut *device, IoOp::Trim, MIB, 1 << 20).unwrap();
        assert!(fs::read(&path).unwrap().iter().all(|&byte| byte == 0));
    }
}

#[test]
fn no_piece_is_written_twice() {
    let folder = folder();
    let path = file_of(&folder, "pieces", 4 * MIB);
    let mut device = open(&path, Access::Write).unwrap();
    keep_busy(&mut *device, IoOp::Write, 1024, |_| ()).1.unwrap();
    let data = fs::read(&path).unwrap();
    let pieces: std::collections::BTreeSet<&[u8]> = data.chunks(512).collect();
    assert_eq!(pieces.len() as u64, 4 * MIB / 512);
}

#[test]
fn writes_after_reads_hold_no_zeros_of_what_was_read() {
    let folder = folder();
    let path = file_of(&folder, "mixed", MIB);
    let mut device = open(&path, Access::Write).unwrap();
    do_one(&mut *device, IoOp::Read, 0, 65_536).unwrap();
    do_one(&mut *device, IoOp::Write, 0, 65_536).unwrap();
    let data = fs::read(&path).unwrap();
    let zeros = data[..65_536].iter().filter(|&&byte| byte == 0).count();
    assert!(zeros < 65_536 / 128, "{zeros} of 65536 bytes are zero: 256 would be chance");
}

#[test]
fn durable_writes_and_flushes_complete_with_their_handles() {
    let folder = folder();
    let path = file_of(&folder, "durable", MIB);
    let mut device = open(&path, Access::Write).unwrap();
    for handle in 0..8 {
        device.submit(Command {
            is_fua: true,
            ..request(IoOp::Write, u64::from(handle) * 4096, 4096, handle)
        });
    }
    device.submit(request(IoOp::Flush, 0, 0, 8));
    assert_eq!(device.outstanding(), 9);
    let mut handles: Vec<u32> =
        wait_for_all(&mut *device).unwrap().iter().map(|done| done.reply.id).collect();
    handles.sort_unstable();
    assert_eq!(handles, (0..9).collect::<Vec<u32>>());
}

#[test]
fn waiting_ends_at_its_time() {
    let folder = folder();
    let path = file_of(&folder, "waiting", MIB);
    let mut device = open(&path, Access::ReadOnly).unwrap();
    let mut completed = Vec::new();
    for time in [0, 1_000, 300_000, 3_000_000] {
        let until = device.now() + time;
        device.wait(until, &mut completed).unwrap();
        assert!(device.now() >= until && completed.is_empty());
    }
    // With requests outstanding it may end before, and must not end without completions.
    device.submit(request(IoOp::Read, 0, 4096, 3));
    device.wait(Nanos::MAX, &mut completed).unwrap();
    assert_eq!(completed.len(), 1);
}

#[test]
fn a_device_may_go_to_another_thread() {
    let folder = folder();
    let path = file_of(&folder, "threads", MIB);
    let mut device = open(&path, Access::Write).unwrap();
    do_one(&mut *device, IoOp::Write, 0, 4096).unwrap();
    let mut device = std::thread::spawn(move || {
        do_one(&mut *device, IoOp::Write, 4096, 4096).unwrap();
        do_one(&mut *device, IoOp::Read, 0, 65_536).unwrap();
        device
    })
    .join()
    .unwrap();
    do_one(&mut *device, IoOp::Read, 4096, 8192).unwrap();
    // One goes while requests are under way, on a thread that they do not belong to.
    for handle in 0..16 {
        device.submit(request(IoOp::Read, u64::from(handle) * 4096, 4096, handle));
    }
    let now = device.now();
    device.wait(now, &mut Vec::new()).unwrap();
    std::thread::spawn(move || drop(device)).join().unwrap();
}

#[test]
fn a_device_may_be_dropped_with_requests_under_way() {
    let folder = folder();
    let path = file_of(&folder, "dropped", 4 * MIB);
    for _ in 0..20 {
        let mut device = open(&path, Access::Write).unwrap();
        for handle in 0..32 {
            device.submit(request(IoOp::Write, u64::from(handle) * 65_536, 65_536, handle));
        }
        let now = device.now();
        device.wait(now, &mut Vec::new()).unwrap();
    }
}

#[test]
fn a_file_with_somebodys_data_is_written_only_if_told_twice() {
    let folder = folder();
    let path = file_of(&folder, "data", 4 * MIB);
    let mut bytes = vec![0; 4 * MIB as usize];
    bytes[3 * MIB as usize - 5] = 1;
    fs::write(&path, &bytes).unwrap();
    assert!(
        refusal(&path, Access::Write)
            .contains(&format!("data that this program did not write, at byte {}", 3 * MIB - 512))
    );
    bytes[..6].copy_from_slice(b"SQLite");
    fs::write(&path, &bytes).unwrap();
    let text = refusal(&path, Access::Write);
    assert!(
        text.contains("data that this program did not write")
            && text.contains("allow its data to be destroyed"),
        "{text}"
    );
    bytes[..16].copy_from_slice(b"SQLite format 3\0");
    fs::write(&path, &bytes).unwrap();
    assert!(refusal(&path, Access::Write).contains("a database of SQLite"));
    open(&path, Access::ReadOnly).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    do_one(&mut *open(&path, Access::DestroyData).unwrap(), IoOp::Write, 0, MIB as u32).unwrap();
}

#[test]
fn one_line_in_a_long_file_of_zeros_is_found() {
    use std::os::unix::fs::FileExt;
    let folder = folder();
    let path = folder.path().join("zeros");
    fs::write(&path, vec![0; 96 * MIB as usize]).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"to whom it may concern", 90 * MIB + 123_456).unwrap();
    file.sync_all().unwrap();
    let text = refusal(&path, Access::Write);
    assert!(
        text.contains(&format!(
            "data that this program did not write, at byte {}",
            90 * MIB + 122_880 + 512
        )),
        "{text}"
    );
}

#[test]
fn data_is_in_the_way_only_where_it_would_be_written() {
    use std::os::unix::fs::FileExt;
    let folder = folder();
    let path = folder.path().join("part");
    fs::write(&path, vec![7; 4 * MIB as usize]).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&vec![0; MIB as usize], MIB).unwrap();
    let within = |region| {
        devices::open(&Opening {
            region: Some(region),
            ..crate::support::opening(&path, Access::Write)
        })
        .map(|_| ())
    };
    within(MIB..2 * MIB).unwrap();
    for region in [MIB - 1..2 * MIB, MIB..2 * MIB + 1, 3 * MIB..4 * MIB, 0..u64::MAX] {
        assert!(
            within(region.clone())
                .unwrap_err()
                .to_string()
                .contains("data that this program did not write"),
            "{region:?}"
        );
    }
    // Nothing is there; that the device has no such region is told by those who use it.
    within(8 * MIB..9 * MIB).unwrap();
    // A file system or the like is of the whole file.
    file.write_all_at(b"SQLite format 3\0", 0).unwrap();
    assert!(within(MIB..2 * MIB).unwrap_err().to_string().contains("a database of SQLite"));
}

#[test]
fn looking_for_data_can_be_stopped() {
    let folder = folder();
    let path = folder.path().join("long");
    fs::write(&path, vec![0; 4 * MIB as usize]).unwrap();
    let progress = Progress::default();
    drop(devices::open_watched(&crate::support::opening(&path, Access::Write), &progress).unwrap());
    assert_eq!(progress.state(), (4 * MIB, 4 * MIB));
    progress.cancel();
    assert!(matches!(
        devices::open_watched(&crate::support::opening(&path, Access::Write), &progress),
        Err(DeviceError::Cancelled(_))
    ));
}

#[test]
fn data_between_holes_is_found() {
    let folder = folder();
    let path = file_of(&folder, "holes", 256 * MIB);
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"precious", 77 * MIB + 4096 + 100).unwrap();
    file.sync_all().unwrap();
    assert!(refusal(&path, Access::Write).contains("data that this program did not write"));
}

#[test]
fn data_behind_very_many_parts_is_found() {
    use std::os::unix::fs::FileExt;
    let folder = folder();
    let path = file_of(&folder, "parts", 128 * MIB);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for part in 0..4_200 {
        file.write_all_at(&[0; 4096], part * 8192).unwrap();
    }
    file.write_all_at(&vec![0xff; 64 * MIB as usize], 40 * MIB).unwrap();
    file.sync_all().unwrap();
    assert!(refusal(&path, Access::Write).contains("data that this program did not write"));
}

#[test]
fn what_was_made_or_written_here_is_written_again() {
    let folder = folder();
    let path = folder.path().join("made");
    let progress = Progress::default();
    create_file(&path, 3 * MIB + 4096, &progress).unwrap();
    assert_eq!(progress.state(), (3 * MIB + 4096, 3 * MIB + 4096));
    let data = fs::read(&path).unwrap();
    assert_eq!(data.len() as u64, 3 * MIB + 4096);
    assert!(data.chunks(512).all(|piece| piece.iter().any(|&byte| byte != 0)));
    do_one(&mut *open(&path, Access::Write).unwrap(), IoOp::Write, MIB, 4096).unwrap();
    open(&path, Access::Write).unwrap();
    assert!(matches!(
        create_file(&path, MIB, &Progress::default()),
        Err(DeviceError::Refused { .. })
    ));
    assert!(matches!(
        create_file(&folder.path().join("odd"), 1000, &Progress::default()),
        Err(DeviceError::Spec { .. })
    ));
    let stopped = Progress::default();
    stopped.cancel();
    let unfinished = folder.path().join("unfinished");
    assert!(matches!(create_file(&unfinished, MIB, &stopped), Err(DeviceError::Cancelled(_))));
    assert!(!unfinished.exists());
}

#[test]
fn a_file_is_written_by_one_at_a_time() {
    let folder = folder();
    let path = file_of(&folder, "locked", MIB);
    let first = open(&path, Access::Write).unwrap();
    assert!(refusal(&path, Access::Write).contains("another program has locked it"));
    drop(first);
    open(&path, Access::Write).unwrap();
}

#[test]
fn a_file_truncated_in_mid_run_is_one_error() {
    for op in [IoOp::Read, IoOp::Write] {
        let folder = folder();
        let path = file_of(&folder, "truncated", 16 * MIB);
        create_file(&folder.path().join("other"), MIB, &Progress::default()).unwrap();
        let mut device = open(&path, Access::Write).unwrap();
        let mut is_cut = false;
        let (done, end) = keep_busy(&mut *device, op, u64::MAX, |done| {
            if done > 500 && !is_cut {
                fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(MIB).unwrap();
                is_cut = true;
            }
        });
        let text = end.unwrap_err().to_string();
        assert!(
            done > 500 && text.contains("the file was truncated from 16777216 to"),
            "{op:?} after {done}: {text}"
        );
    }
}

#[test]
fn what_is_no_device_is_told_in_one_line() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    assert!(refusal(at("nothing"), Access::ReadOnly).contains("there is no such file or device"));
    assert!(refusal(folder.path(), Access::ReadOnly).contains("a directory, not a block device"));
    assert!(refusal("/dev/null", Access::ReadOnly).contains("a character device"));
    file_of(&folder, "empty", 0);
    assert!(
        refusal(at("empty"), Access::ReadOnly).contains("make a file of the wanted size first")
    );
    assert!(
        refusal("sim:a16", Access::ReadOnly).contains("a simulated drive is made from a profile")
    );
    let path = file_of(&folder, "plain", MIB);
    for (queue_depth, most_bytes, told) in [
        (0, 4096, "queue depth"),
        (5000, 4096, "queue depth"),
        (1, 0, "longest request"),
        (1, 5000, "whole sectors"),
    ] {
        let opening =
            Opening { queue_depth, most_bytes, ..crate::support::opening(&path, Access::ReadOnly) };
        let Err(error) = devices::open(&opening) else { panic!("{queue_depth} {most_bytes}") };
        assert!(error.to_string().contains(told), "{error}");
    }
    let mut device = open(&path, Access::ReadOnly).unwrap();
    let error = do_one(&mut *device, IoOp::Write, 0, 4096).unwrap_err();
    assert!(error.to_string().contains("it was opened for reading only"));
    assert_eq!(device.outstanding(), 0);
}

#[test]
fn memory_is_not_taken_for_a_disk() {
    let folder = tempfile::Builder::new().tempdir_in("/dev/shm");
    let Ok(folder) = folder else {
        has(false, "file system in memory");
        return;
    };
    file_of(&folder, "file", MIB);
    assert!(refusal(folder.path().join("file"), Access::ReadOnly).contains("past the page cache"));
    let made = folder.path().join("made");
    assert!(
        create_file(&made, MIB, &Progress::default())
            .unwrap_err()
            .to_string()
            .contains("past the page cache")
    );
    assert!(!made.exists());
}

#[test]
fn polling_that_the_kernel_does_not_do_is_said() {
    let folder = folder();
    let path = file_of(&folder, "polled", MIB);
    let mut device =
        devices::open(&Opening { polled: true, ..crate::support::opening(&path, Access::Write) })
            .unwrap();
    assert!(device.info().model.contains("polled"), "{}", device.info().model);
    do_one(&mut *device, IoOp::Write, 0, 4096).unwrap();
    do_one(&mut *device, IoOp::Flush, 0, 0).unwrap();
}

#[test]
fn memory_is_a_device_too() {
    let mut device =
        devices::open(&Opening::new("memory(bytes=1Mi,sector=4Ki)", Access::Write)).unwrap();
    assert_eq!(
        (
            device.info().kind,
            device.info().limits.capacity_bytes,
            device.info().limits.sector_bytes
        ),
        (DeviceKind::Memory, MIB, 4096)
    );
    keep_busy(&mut *device, IoOp::Write, 1000, |_| ()).1.unwrap();
    keep_busy(&mut *device, IoOp::Read, 1000, |_| ()).1.unwrap();
    do_one(&mut *device, IoOp::Trim, 0, 4096).unwrap();
    do_one(&mut *device, IoOp::Flush, 0, 0).unwrap();
    for (spec, told) in [
        ("memory(bytes=1000)", "whole sectors"),
        ("memory(size=3)", "no parameter `size`"),
        ("memory(bytes=1Mi,sector=1000)", "power of two"),
    ] {
        assert!(refusal(spec, Access::Write).contains(told));
    }
    let mut device = devices::open(&Opening::new("memory", Access::ReadOnly)).unwrap();
    assert!(do_one(&mut *device, IoOp::Write, 0, 512).is_err());
}

/// Tests what a volume needs: bytes go both ways, long ones in several commands, to files and
/// memory alike.
#[test]
fn a_device_opened_for_data_holds_what_it_was_given() {
    let folder = folder();
    let path = file_of(&folder, "data", 8 * MIB);
    let file = Opening {
        holds_data: true,
        most_bytes: 64 << 10,
        ..crate::support::opening(&path, Access::DestroyData)
    };
    let memory = Opening { holds_data: true, ..Opening::new("memory(bytes=8Mi)", Access::Write) };
    for opening in [file, memory] {
        let mut device = devices::open(&opening).unwrap();
        let bytes: Vec<u8> =
            (0..3_000_000_u32 / 4096 * 4096).map(|place| (place / 7) as u8).collect();
        let mut store = Store::new(&mut *device);
        store.write(4096, &bytes).unwrap();
        store.flush().unwrap();
        let mut read = vec![0; bytes.len()];
        store.read(4096, &mut read).unwrap();
        assert!(read == bytes, "{}", opening.spec);
        // The place of a write is used again with another length, and in pieces.
        let mut pieces = Data::copy_of(&[1; 4096]);
        pieces.append(Data::copy_of(&[2; 4096]));
        device.submit(Command::write(9, 8192, pieces));
        wait_for_all(&mut *device).unwrap();
        let read = do_one(&mut *device, IoOp::Read, 8192, 8192)
            .unwrap()
            .reply
            .outcome
            .unwrap()
            .joined()
            .unwrap();
        assert_eq!((&read[..4096], &read[4096..]), (&[1; 4096][..], &[2; 4096][..]));
    }
}

#[test]
#[should_panic(expected = "carries its bytes")]
fn a_write_without_bytes_to_a_device_that_holds_data_is_a_bug() {
    let opening = Opening { holds_data: true, ..Opening::new("memory(bytes=8Mi)", Access::Write) };
    devices::open(&opening).unwrap().submit(request(IoOp::Write, 0, 4096, 0));
}

/// A process that ends with the test, however that ends.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_file_open_in_another_process_is_not_written() {
    let folder = folder();
    let path = file_of(&folder, "held", MIB);
    let held = fs::File::open(&path).unwrap();
    let process = Ended(
        std::process::Command::new("sleep")
            .arg("60")
            .stdin(held)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap(),
    );
    let refused = refusal(&path, Access::Write);
    assert!(refused.contains(&format!("open in process {} (", process.0.id())), "{refused}");
    assert!(open(&path, Access::ReadOnly).is_ok());
    drop(process);
    open(&path, Access::Write).unwrap();
}
