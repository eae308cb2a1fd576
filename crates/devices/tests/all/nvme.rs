//! Namespaces of NVMe drives by their own commands: what is written arrives, and what is in use is
//! refused. Run only where variables of the environment name some, as all that they hold is lost:
//! `tests/nvme_in_qemu.sh` does so on drives that QEMU emulates.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use block::{Command, Data, DeviceKind, Store};
use devices::{Access, Opening};
use units::{IoOp, Lifetime};

use crate::support::{do_one, keep_busy, open, refusal, request, run, wait_for_all};

/// The path that a variable names, `/dev/ng0n1` say.
fn named(variable: &str) -> Option<String> {
    let path = std::env::var(variable).ok();
    if path.is_none() {
        eprintln!("skipped: {variable} names no namespace");
    }
    path
}

fn namespace() -> Option<String> {
    named("FLASHWRIGHT_NVME")
}

/// The block device of the same namespace.
fn block_device(path: &str) -> String {
    path.replace("/ng", "/nvme")
}

/// Bytes that no other place has.
fn pattern(offset: u64, length: usize) -> Vec<u8> {
    let word = |at: usize| (offset + at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..length).step_by(8).flat_map(|at| word(at).to_le_bytes()).collect()
}

fn open_with_data(path: &str, access: Access) -> Box<dyn block::BlockDevice> {
    let holds_data = true;
    devices::open(&Opening { holds_data, ..Opening::new(path, access) }).unwrap()
}

fn write(id: u32, offset: u64, length: usize, lifetime: Lifetime) -> Command {
    let data = Data::copy_of(&pattern(offset, length));
    Command { lifetime, is_fua: id % 3 == 1, ..Command::write(id, offset, data) }
}

#[test]
fn data_arrives_at_the_namespace() {
    let Some(path) = namespace() else { return };
    let mut device = open_with_data(&path, Access::DestroyData);
    let info = device.info().clone();
    eprintln!("{info:?}");
    assert_eq!(info.kind, DeviceKind::BlockDevice);
    assert!(info.model.contains("NVMe passthrough"), "{}", info.model);
    let most = info.limits.most_bytes as usize;
    let lengths = [info.limits.sector_bytes as usize, 4096, 12_288, 65_536, most];
    let place = |number: usize| (number * (2 << 20)) as u64;
    for (number, &length) in lengths.iter().enumerate() {
        device.submit(write(number as u32, place(number), length, Lifetime::NotSet));
    }
    wait_for_all(&mut *device).unwrap();
    do_one(&mut *device, IoOp::Flush, 0, 0).unwrap();
    let mut beside = open_with_data(&block_device(&path), Access::ReadOnly);
    for (number, &length) in lengths.iter().enumerate() {
        let mut bytes = vec![0; length];
        for store in [&mut *device, &mut *beside] {
            bytes.fill(0);
            Store::new(store).read(place(number), &mut bytes).unwrap();
            assert!(bytes == pattern(place(number), length), "{length} bytes");
        }
    }
    if info.has_trim {
        do_one(&mut *device, IoOp::Trim, place(2), 8192).unwrap();
        let mut bytes = vec![0; 12_288];
        Store::new(&mut *device).read(place(2), &mut bytes).unwrap();
        assert_eq!(bytes[8192..], pattern(place(2), 12_288)[8192..]);
    }
}

/// As many as there is room for at a time, of all lifetimes: of each another number.
#[test]
fn writes_of_all_lifetimes_arrive() {
    let Some(path) = namespace() else { return };
    let mut device = open_with_data(&path, Access::DestroyData);
    let lifetimes: Vec<Lifetime> = Lifetime::ALL
        .into_iter()
        .flat_map(|lifetime| vec![lifetime; 64 * (1 + usize::from(lifetime.handle()))])
        .collect();
    let place = |number: usize| (number * 16_384) as u64;
    let mut completed = Vec::new();
    for (number, &lifetime) in lifetimes.iter().enumerate() {
        while device.outstanding() == device.info().queue_depth {
            device.wait(units::Nanos::MAX, &mut completed).unwrap();
        }
        device.submit(write(number as u32, place(number), 16_384, lifetime));
    }
    completed.extend(wait_for_all(&mut *device).unwrap());
    assert_eq!(completed.len(), lifetimes.len());
    assert!(completed.iter().all(|done| done.reply.outcome.is_ok()));
    let mut beside = open_with_data(&block_device(&path), Access::ReadOnly);
    for number in 0..lifetimes.len() {
        let mut bytes = vec![0; 16_384];
        Store::new(&mut *beside).read(place(number), &mut bytes).unwrap();
        assert!(bytes == pattern(place(number), 16_384), "number {number}");
    }
}

#[test]
fn a_namespace_in_use_is_refused_by_either_name() {
    let Some(path) = namespace() else { return };
    let beside = block_device(&path);
    let held = open(&path, Access::DestroyData).unwrap();
    for name in [&path, &beside] {
        let told = refusal(name, Access::DestroyData);
        assert!(told.ends_with("holds it; name a device that is not in use"), "{told}");
        open(name, Access::ReadOnly).unwrap();
    }
    drop(held);
    let held = open(&beside, Access::DestroyData).unwrap();
    let told = refusal(&path, Access::DestroyData);
    assert!(told.ends_with("holds it; name a device that is not in use"), "{told}");
    drop(held);
    run("mkswap", &[&beside]).unwrap();
    let told = refusal(&path, Access::Write);
    assert!(told.contains("it holds swap space"), "{told}");
    run("swapon", &[&beside]).unwrap();
    let told = refusal(&path, Access::DestroyData);
    run("swapoff", &[&beside]).unwrap();
    assert!(told.contains("it is swap space"), "{told}");
    open(&path, Access::DestroyData).unwrap();
}

#[test]
fn what_is_opened_for_reading_is_not_written() {
    let Some(path) = namespace() else { return };
    let mut device = open(&path, Access::ReadOnly).unwrap();
    do_one(&mut *device, IoOp::Read, 0, 4096).unwrap();
    device.submit(request(IoOp::Write, 0, 4096, 1));
    assert!(wait_for_all(&mut *device).is_err());
}

#[test]
fn it_is_kept_busy() {
    let Some(path) = namespace() else { return };
    let mut device = open(&path, Access::DestroyData).unwrap();
    for op in [IoOp::Write, IoOp::Read] {
        let (done, ended) = keep_busy(&mut *device, op, 5000, |_| ());
        ended.unwrap();
        assert_eq!(done, 5000);
    }
}

#[test]
fn a_format_with_metadata_is_refused() {
    let Some(path) = named("FLASHWRIGHT_NVME_METADATA") else { return };
    let told = refusal(&path, Access::ReadOnly);
    eprintln!("{told}");
    assert!(told.contains("metadata") || told.contains("no block device"), "{told}");
}

/// The variable has the path of the namespace and, behind a comma, what takes its drive away:
/// `/sys/bus/pci/devices/.../remove`.
#[test]
fn a_drive_that_is_pulled_out_is_told_of() {
    let Some(named) = named("FLASHWRIGHT_NVME_PULLED") else { return };
    let (path, remove) = named.split_once(',').unwrap();
    let mut device = open(path, Access::DestroyData).unwrap();
    let mut pulled = None;
    let (done, told) = keep_busy(&mut *device, IoOp::Write, u64::MAX, |done| {
        if done > 500 && pulled.is_none() {
            let remove = remove.to_owned();
            pulled = Some(std::thread::spawn(move || std::fs::write(remove, "1")));
        }
    });
    let told = told.unwrap_err().to_string();
    eprintln!("after {done} writes: {told}");
    assert!(told.contains("gone") || told.contains("no way leads to the drive"), "{told}");
    drop(device);
    pulled.unwrap().join().unwrap().unwrap();
    assert!(!Path::new(path).exists());
}
