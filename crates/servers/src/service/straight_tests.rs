//! Services whose callers go the straight way, against plain bytes.

use std::path::Path;
use std::thread;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::tests::{SPAN, creating, file, requests};
use super::super::{Request, Service};
use crate::{Opening, Volume};

fn in_memory(stack: &'static str) -> Service {
    let creating = creating("memory(bytes=8Mi)", stack);
    Service::start_straight(move || Volume::create(&creating)).unwrap()
}

/// A volume without layers on a new file.
fn on_file(path: &Path) -> String {
    let device = file(path, 8);
    Volume::create(&creating(&device, "direct")).unwrap().close().unwrap();
    device
}

fn open(device: &str) -> Service {
    let opening = Opening::new(device);
    Service::start_straight(move || Volume::open(&opening)).unwrap()
}

/// Does one thread's requests on its own bytes, and holds what is read against plain ones.
fn play(service: &Service, first: u64, requests: &[(Request, bool)]) {
    let mut plain = vec![0_u8; SPAN as usize];
    for (request, _) in requests {
        let (offset, length) = request.range();
        let (from, to) = (offset as usize, (offset + length) as usize);
        match request.clone() {
            Request::Read { .. } => {
                let mut found = vec![0xff; length as usize];
                service.read_at(first + offset, &mut found).unwrap();
                assert!(found == plain[from..to], "read something else");
            }
            Request::Write { data, is_fua, .. } => {
                plain[from..to].copy_from_slice(&data);
                service.write_at(first + offset, &data, is_fua).unwrap();
            }
            Request::Zero { is_fua, unmaps, .. } => {
                plain[from..to].fill(0);
                let request = Request::Zero { offset: first + offset, length, is_fua, unmaps };
                service.call(request).unwrap();
            }
            other => drop(service.call(other).unwrap()),
        }
    }
    let whole = Request::Read { offset: first, length: SPAN as u32 };
    assert!(service.call(whole).unwrap().joined().unwrap() == plain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn threads_at_a_time_find_what_they_wrote(
        requests in prop::collection::vec(requests(), 4), is_file in any::<bool>()
    ) {
        let folder = tempfile::tempdir().unwrap();
        let service = if is_file {
            open(&on_file(&folder.path().join("device")))
        } else {
            in_memory("direct")
        };
        prop_assert!(service.straight.is_some());
        thread::scope(|scope| {
            for (number, requests) in requests.iter().enumerate() {
                let service = &service;
                scope.spawn(move || play(service, 777 + number as u64 * SPAN, requests));
            }
        });
        let figures = service.figures().unwrap();
        let asked: u64 = figures.requests.iter().map(|of| of.count).sum();
        prop_assert_eq!(asked, requests.iter().map(Vec::len).sum::<usize>() as u64 + 4);
        prop_assert!((0..4).all(|op| figures.below[op].count >= figures.requests[op].count));
        service.close().unwrap();
    }
}

/// The volume's thread goes past the page cache: neither way finds old bytes of the other's.
#[test]
fn both_ways_find_what_the_other_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let device = on_file(&folder.path().join("device"));
    for round in 1..=6_u8 {
        let opening = Opening::new(&device);
        let service = if round % 2 == 0 {
            Service::start(move || Volume::open(&opening)).unwrap()
        } else {
            open(&device)
        };
        let mut found = vec![0; 40_000];
        service.read_at(1234, &mut found).unwrap();
        assert_eq!(found, vec![round - 1; 40_000]);
        service.write_at(1234, &[round; 40_000], false).unwrap();
        if round > 4 {
            service.call(Request::Flush).unwrap();
            drop(service);
        } else {
            service.close().unwrap();
        }
    }
}

#[test]
fn nothing_goes_around_a_layer() {
    for stack in ["log_volume(segment=64Ki)", "scheduler(defer)"] {
        assert!(in_memory(stack).straight.is_none(), "{stack}");
    }
}

#[test]
fn what_comes_too_late_or_lies_behind_the_end_is_refused() {
    let service = in_memory("direct");
    let end = service.capacity_bytes();
    let failure = service.write_at(end - 100, &[1; 101], false).unwrap_err();
    assert!(failure.to_string().contains(&format!("the volume ends at byte {end}")), "{failure}");
    service.write_at(end - 100, &[1; 100], true).unwrap();
    let request = Request::Read { offset: u64::MAX, length: 1 };
    assert!(service.call(request).unwrap_err().to_string().contains("ends at byte"));
    assert_eq!(service.figures().unwrap().broken, None, "a client's mistake breaks nothing");
    service.close().unwrap();
    let failure = service.write_at(0, &Bytes::from_static(&[1; 10]), false).unwrap_err();
    assert!(failure.to_string().contains("closed"), "{failure}");
}

#[test]
fn a_file_that_was_truncated_is_not_made_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let service = open(&on_file(&path));
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(2 << 20).unwrap();
    thread::sleep(std::time::Duration::from_millis(15));
    let failure = service.write_at(5 << 20, &[1; 4096], false).unwrap_err().to_string();
    assert!(failure.contains("truncated from 8388608 to 2097152 bytes"), "{failure}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 2 << 20);
    assert!(service.figures().unwrap().broken.unwrap().contains("truncated"));
}
