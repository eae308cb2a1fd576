//! Test of a volume with a limit of memory: allocations stay below it, whatever requests come at
//! once. It has a process of its own, as it counts all allocations.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use layers::Facts;
use peak_alloc::PeakAlloc;
use servers::{Creating, Lifetime, Opening, Request, Service, Volume};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const WRITERS: u64 = 64;
const READERS: u64 = 8;
const LENGTH: u32 = 1 << 20;
/// Bytes that are written, which take no memory of the writers.
static DATA: [u8; LENGTH as usize] = [7; LENGTH as usize];

/// Lets clients write, read and zero as fast as they can.
fn ask_all_at_once(service: &Arc<Service>, capacity: u64) {
    let clients: Vec<_> = (0..WRITERS + READERS)
        .map(|client| {
            let service = service.clone();
            thread::spawn(move || {
                for turn in 0..8 {
                    // Parts of sectors are written, too: they are copied.
                    let place = (client * 7919 + turn * 104_729) * 4099;
                    let offset = place % (capacity - u64::from(LENGTH));
                    let request = match (client, turn) {
                        (0, 4) => Request::Zero {
                            offset: 0,
                            length: capacity,
                            is_fua: false,
                            unmaps: false,
                        },
                        (..WRITERS, _) => Request::Write {
                            offset,
                            data: Bytes::from_static(&DATA),
                            is_fua: false,
                            lifetime: Lifetime::NotSet,
                        },
                        _ => Request::Read { offset, length: LENGTH },
                    };
                    service.call(request).unwrap();
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

#[test]
fn a_volume_keeps_within_its_memory_whatever_is_asked_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for (number, stack) in [
        "direct",
        "scheduler(buffer=8Mi)|log_volume",
        "stable_buffer(size=8Mi)",
        "log_volume(align=256Ki)",
        "checksums",
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(number.to_string());
        std::fs::File::create(&path).unwrap().set_len(128 << 20).unwrap();
        let device = path.to_str().unwrap().to_owned();
        let creating = Creating {
            device: device.clone(),
            stack: stack.to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: false,
            staging: None,
        };
        Volume::create(&creating).unwrap().close().unwrap();
        let mut opening = Opening::new(&device);
        opening.memory_bytes = Some(1 << 20);
        let told = Volume::open(&opening).map(|_| ()).unwrap_err().to_string();
        assert!(told.contains("a memory of 1048576 bytes is too little"), "{told}");
        opening.memory_bytes = Some(48 << 20);
        ALLOCATED.reset_peak_usage();
        let before = ALLOCATED.current_usage();
        let service = Arc::new(Service::start(move || Volume::open(&opening)).unwrap());
        let memory = service.memory().clone();
        assert!(memory.most_bytes().unwrap() <= 48 << 20, "{memory}");
        ask_all_at_once(&service, service.capacity_bytes());
        // Bytes that a reader got are not the volume's any more.
        let clients = READERS * u64::from(LENGTH) + (WRITERS + READERS) * 4096;
        // Memory of commands at a file is mapped, not allocated.
        let most = memory.most_bytes().unwrap() - memory.device_bytes + clients;
        let peak = (ALLOCATED.peak_usage() - before) as u64;
        println!("{stack}: {peak} of {most}, {memory}");
        assert!(peak <= most, "{stack}: {peak} bytes at most, and {most} were told");
        service.close().unwrap();
    }
}
