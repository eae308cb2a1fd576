//! Services over memory and files, against a plain vector of bytes.

use std::path::Path;
use std::sync::mpsc;

use layers::Facts;
use proptest::prelude::*;

use super::*;
use crate::{Creating, Opening};

/// Stacks that hold data and are small enough for a few MiB.
const STACKS: [&str; 8] = [
    "direct",
    "scheduler(defer)",
    "stable_buffer(size=256Ki,page=4Ki)",
    "log_volume(segment=64Ki)",
    "log_volume(segment=64Ki,hints=yes)",
    "scheduler(coalesce)|stable_buffer(size=256Ki,page=4Ki)|log_volume(segment=64Ki)",
    "replicas(partitions=4,patience=1us,read_threshold=0)",
    "stable_buffer(size=256Ki,page=4Ki)|checksums(page=4Ki,block=512,delay=1ms)",
];

pub(super) fn creating(device: &str, stack: &str) -> Creating {
    Creating {
        device: device.to_owned(),
        stack: stack.to_owned(),
        facts: Facts::default(),
        seed: 5,
        destroys: false,
        staging: None,
    }
}

fn in_memory(stack: &str) -> Service {
    let creating = creating("memory(bytes=8Mi)", stack);
    Service::start(move || Volume::create(&creating)).expect("it can be made")
}

fn read(service: &Service, offset: u64, length: u32) -> Vec<u8> {
    let data = service.call(Request::Read { offset, length }).expect("it can be read");
    data.joined().unwrap_or_default().to_vec()
}

fn write(offset: u64, bytes: &[u8]) -> Request {
    Request::Write {
        offset,
        data: Bytes::copy_from_slice(bytes),
        is_fua: false,
        lifetime: Lifetime::NotSet,
    }
}

/// A file of zeros.
pub(super) fn file(path: &Path, mebibytes: u64) -> String {
    let file = std::fs::File::create(path).unwrap();
    file.set_len(mebibytes << 20).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Requests of a property test lie on the first bytes.
pub(super) const SPAN: u64 = 300_000;

/// First byte, the byte behind, where the outcome comes, and what a read has to bring.
type UnderWay = (u64, u64, mpsc::Receiver<Outcome>, Option<Vec<u8>>);

/// Requests, and whether those before are waited for.
pub(super) fn requests() -> impl Strategy<Value = Vec<(Request, bool)>> {
    let range = (0..SPAN, prop_oneof![0..3000_u64, 0..SPAN]);
    let request = (range, 0..8_u8, any::<u8>(), any::<bool>(), any::<bool>()).prop_map(
        |((offset, length), kind, byte, is_fua, waits)| {
            let length = length.min(SPAN - offset);
            let request = match kind {
                0..3 => {
                    let bytes: Vec<u8> = (0..length).map(|at| byte ^ (at % 251) as u8).collect();
                    let lifetime = Lifetime::ALL[usize::from(byte % 5)];
                    Request::Write { offset, data: bytes.into(), is_fua, lifetime }
                }
                3 => Request::Zero { offset, length, is_fua, unmaps: byte % 2 == 0 },
                4 => Request::Flush,
                _ => Request::Read { offset, length: length as u32 },
            };
            (request, waits)
        },
    );
    prop::collection::vec(request, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Requests of any bytes, one after the other or many at once: those that overlap are not
    /// under way together, as the order between them would be anybody's.
    #[test]
    fn requests_of_any_bytes_are_those_of_a_plain_vector(
        requests in requests(), stack in 0..STACKS.len()
    ) {
        let service = in_memory(STACKS[stack]);
        let mut plain = vec![0_u8; SPAN as usize];
        // So that nothing is read that was never written.
        service.call(Request::Zero { offset: 0, length: SPAN, is_fua: false, unmaps: false })
            .unwrap();
        let mut under_way: Vec<UnderWay> = Vec::new();
        let finish = |(.., outcome, expected): UnderWay| {
            let data = outcome.recv().unwrap().unwrap();
            if let Some(expected) = expected {
                assert!(data.joined().unwrap_or_default() == expected, "read something else");
            }
        };
        for (request, waits) in requests {
            let (offset, length) = request.range();
            let (from, to) = (offset as usize, (offset + length) as usize);
            let is_clear = under_way.iter().all(|(first, end, ..)| {
                offset >= *end || *first >= offset + length
            });
            if waits || !is_clear {
                under_way.drain(..).for_each(finish);
            }
            let mut expected = None;
            match &request {
                Request::Write { data, .. } => plain[from..to].copy_from_slice(data),
                Request::Zero { .. } => plain[from..to].fill(0),
                Request::Read { .. } => expected = Some(plain[from..to].to_vec()),
                _ => {}
            }
            let (sender, receiver) = mpsc::channel();
            service.submit(request, Box::new(move |outcome| sender.send(outcome).unwrap()));
            under_way.push((offset, offset + length, receiver, expected));
        }
        under_way.drain(..).for_each(finish);
        prop_assert!(read(&service, 0, SPAN as u32) == plain);
        service.close().unwrap();
    }
}

/// Neighbours in one sector, written by several at once: each part stays what its writer made it.
#[test]
fn parts_of_one_sector_do_not_overwrite_each_other() {
    for stack in ["direct", "log_volume(segment=64Ki)"] {
        let service = in_memory(stack);
        service
            .call(Request::Zero { offset: 0, length: 8192, is_fua: false, unmaps: false })
            .unwrap();
        for round in 1..=20_u8 {
            let (sender, receiver) = mpsc::channel();
            for part in 0..64_u64 {
                let sender = sender.clone();
                let done = move |outcome: Outcome| sender.send(outcome.is_ok()).unwrap();
                service.submit(write(part * 100, &[round ^ part as u8; 100]), Box::new(done));
            }
            assert!((0..64).all(|_| receiver.recv().unwrap()));
            let bytes = read(&service, 0, 6400);
            for (part, bytes) in bytes.chunks(100).enumerate() {
                assert!(bytes.iter().all(|&byte| byte == round ^ part as u8), "part {part}");
            }
        }
    }
}

#[test]
fn a_volume_tells_itself_what_it_is_and_keeps_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    for (number, stack) in STACKS.into_iter().enumerate() {
        let device = file(&folder.path().join(number.to_string()), 8);
        let mut creating = creating(&device, stack);
        creating.facts.write_bytes = Some(16384);
        Volume::create(&creating).unwrap().close().unwrap();
        for round in 1..=3_u8 {
            let opening = Opening::new(&device);
            let service = Service::start(move || Volume::open(&opening)).unwrap();
            let header = service.header().clone();
            assert_eq!((header.openings, header.is_clean), (u64::from(round) + 1, false));
            assert!(header.stack.ends_with(stack), "{}", header.stack);
            assert_eq!(header.facts.write_bytes, Some(16384));
            if round > 1 {
                assert_eq!(read(&service, 77, 9000), vec![round - 1; 9000], "{stack}");
            }
            service.call(write(77, &[round; 9000])).unwrap();
            service.close().unwrap();
            assert!(crate::about(&device, None).unwrap().header.is_clean, "{stack}");
        }
        let found = crate::check(&device, None, &units::Progress::default()).unwrap();
        assert_eq!((found.bad_bytes, found.about.notes.len()), (0, 0), "{stack}: {found:?}");
    }
}

/// The process is gone with what was not flushed; what was is there, and the mark says so.
#[test]
fn what_was_flushed_survives_a_service_that_was_not_closed() {
    let folder = tempfile::tempdir().unwrap();
    for (number, stack) in STACKS.into_iter().enumerate() {
        let device = file(&folder.path().join(number.to_string()), 8);
        Volume::create(&creating(&device, stack)).unwrap().close().unwrap();
        for round in 1..=3_u8 {
            let opening = Opening::new(&device);
            let service = Service::start(move || Volume::open(&opening)).unwrap();
            if round > 1 {
                assert_eq!(read(&service, 4096, 40_000), vec![round - 1; 40_000], "{stack}");
            }
            service.call(write(4096, &[round; 40_000])).unwrap();
            service.call(Request::Flush).unwrap();
            service.call(write(400_000, &[round; 40_000])).unwrap();
            drop(service);
            assert!(!crate::about(&device, None).unwrap().header.is_clean, "{stack}");
        }
    }
}

/// Not within a second, when its thread would have looked: now.
#[test]
fn a_service_that_was_dropped_has_let_go_of_its_device() {
    let folder = tempfile::tempdir().unwrap();
    let device = file(&folder.path().join("device"), 8);
    Volume::create(&creating(&device, "direct")).unwrap().close().unwrap();
    for round in 1..=20 {
        let opening = Opening::new(&device);
        let service = Service::start(move || Volume::open(&opening))
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        let (sender, receiver) = mpsc::channel();
        let done = move |outcome: Outcome| sender.send(outcome).unwrap();
        service.submit(write(0, &[1; 4096]), Box::new(done));
        drop(service);
        assert!(receiver.try_recv().is_ok(), "who asked has heard of it");
    }
}

/// Its last reference may be what the end of a request holds.
#[test]
fn a_service_may_be_dropped_on_its_own_thread() {
    let service = std::sync::Arc::new(in_memory("direct"));
    let (sender, receiver) = mpsc::channel();
    let held = service.clone();
    let done = move |_| {
        drop(held);
        sender.send(()).unwrap();
    };
    let (waits, goes_on) = mpsc::channel::<()>();
    // The thread does not come to the second one before the first reference is gone.
    service.submit(Request::Flush, Box::new(move |_| assert!(goes_on.recv().is_err())));
    service.submit(Request::Flush, Box::new(done));
    drop(service);
    drop(waits);
    receiver.recv().unwrap();
}

#[test]
fn what_lies_behind_the_end_is_refused() {
    let service = in_memory("direct");
    let end = service.capacity_bytes();
    let failure = service.call(write(end - 100, &[1; 101])).unwrap_err();
    assert!(failure.to_string().contains(&format!("the volume ends at byte {end}")), "{failure}");
    service.call(write(end - 100, &[1; 100])).unwrap();
    let failure = service.call(Request::Read { offset: u64::MAX, length: 1 }).unwrap_err();
    assert!(failure.to_string().contains("ends at byte"), "{failure}");
    service.close().unwrap();
    let failure = service.call(Request::Flush).unwrap_err();
    assert!(failure.to_string().contains("closed"), "{failure}");
}

#[test]
fn figures_tell_what_was_asked_and_what_was_done() {
    let service = in_memory("log_volume(segment=64Ki)");
    service.call(write(0, &[3; 4096])).unwrap();
    service.call(Request::Flush).unwrap();
    let figures = service.figures().unwrap();
    assert_eq!((figures.requests[1].count, figures.requests[1].bytes), (1, 4096));
    assert_eq!((figures.requests[3].count, figures.broken), (1, None));
    assert!(figures.below[1].bytes >= 8192, "the page and its summary");
    assert!(figures.layers.iter().all(|one| one.layer == "log_volume" && one.level == 0));
    assert!(!figures.layers.is_empty());
}

/// Who asks while a volume is closed, or when it is gone, is told so: nobody waits for ever.
#[test]
fn a_request_that_comes_too_late_is_told_so() {
    let service = in_memory("log_volume(segment=64Ki)");
    let (sender, receiver) = mpsc::channel();
    service.close().unwrap();
    service.submit(Request::Flush, Box::new(move |outcome| sender.send(outcome).unwrap()));
    assert!(receiver.recv().unwrap().is_err());
    // As one that was still in the queue when the thread ended.
    let (sender, receiver) = mpsc::channel();
    let done = Box::new(move |outcome: Outcome| sender.send(outcome).unwrap());
    let room = Room::of(&service.gate, 512);
    drop(Asked { request: write(0, &[1; 512]), done: Some(done), _room: Some(room) });
    assert!(receiver.recv().unwrap().unwrap_err().to_string().contains("closed"));
    assert_eq!(service.gate.inside(), 0);
}

/// Zeros over more than is written in one step.
#[test]
fn a_long_range_is_zeroed_step_by_step() {
    let creating = creating("memory(bytes=160Mi)", "direct");
    let service = Service::start(move || Volume::create(&creating)).unwrap();
    let end = 150 << 20;
    for at in [0, (64 << 20) + 7, (128 << 20) - 1, end - 1, end] {
        service.call(write(at, &[9])).unwrap();
    }
    service
        .call(Request::Zero { offset: 1, length: end - 1, is_fua: false, unmaps: true })
        .unwrap();
    for (at, byte) in
        [(0, 9), (1, 0), ((64 << 20) + 7, 0), ((128 << 20) - 1, 0), (end - 1, 0), (end, 9)]
    {
        assert_eq!(read(&service, at, 1), [byte], "byte {at}");
    }
}
