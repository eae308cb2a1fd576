//! Tests of the cost and the results of trims, over every kind of stack, on a device that gives
//! anything for trimmed bytes.

use std::sync::{Arc, Mutex};

use block::{BlockDevice, Command, Data, Failure, Immediate, Limits, Serve};
use bytes::Bytes;
use layers::Facts;
use units::{IoOp, Lifetime};

use super::Volume;
use crate::{Creating, Request, Service};

const LIMITS: Limits =
    Limits { capacity_bytes: 96 << 20, sector_bytes: 512, most_bytes: 256 << 10 };

/// Every layer of the registry, alone and over others.
const STACKS: &[&str] = &[
    "direct",
    "scheduler",
    "scheduler(coalesce)",
    "scheduler(defer)",
    "stable_buffer(size=1Mi)",
    "stable_buffer(size=1Mi,ack=written)",
    "stable_buffer(size=1Mi,page=4Ki,layout=embedded)",
    "checksums",
    "checksums(block=512,page=512)",
    "replicas(partitions=4,patience=1us,read_threshold=0)",
    "log_volume(segment=256Ki,trim=yes)",
    "log_volume(segment=1Mi,trim=yes,summaries=segments)",
    "log_volume(segment=256Ki,trim=yes,hints=yes)",
    "scheduler(coalesce)|log_volume(segment=256Ki,trim=yes)",
    "scheduler(convert,log=log_volume(segment=256Ki,trim=yes))",
    "stable_buffer(size=1Mi)|checksums",
    "checksums|stable_buffer(size=1Mi)",
    "replicas(partitions=4,patience=1us)|checksums",
    "scheduler(coalesce)|stable_buffer(size=1Mi)|log_volume(segment=256Ki,trim=yes)",
    "holes",
];
/// Most bytes that a volume of this size writes if only a few marks, blocks and slots change,
/// whatever the length of the trim.
const CONSTANT: u64 = 96 << 10;

#[derive(Default)]
struct Counted {
    written: u64,
    trimmed: u64,
}

/// Memory that others look at, in which trimmed bytes hold something else from then on.
#[derive(Clone)]
struct Loose {
    bytes: Arc<Mutex<Vec<u8>>>,
    counted: Arc<Mutex<Counted>>,
}

impl Loose {
    fn new() -> Self {
        let bytes = vec![0; LIMITS.capacity_bytes as usize];
        Self { bytes: Arc::new(Mutex::new(bytes)), counted: Arc::default() }
    }

    /// Gives a copy of its present state, for another life.
    fn copied(&self) -> Self {
        let bytes = self.bytes.lock().unwrap().clone();
        Self { bytes: Arc::new(Mutex::new(bytes)), counted: Arc::default() }
    }

    fn device(&self) -> Box<dyn BlockDevice> {
        Box::new(Immediate::new(self.clone()))
    }

    fn took(&self) -> Counted {
        std::mem::take(&mut *self.counted.lock().unwrap())
    }
}

impl Serve for Loose {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        let range = command.offset as usize..command.end() as usize;
        let mut bytes = self.bytes.lock().unwrap();
        match command.op {
            IoOp::Read => return Ok(Data::copy_of(&bytes[range])),
            IoOp::Write => {
                command.data.copy_to(&mut bytes[range]);
                self.counted.lock().unwrap().written += u64::from(command.length);
            }
            IoOp::Trim => {
                bytes[range].fill(0xaa);
                self.counted.lock().unwrap().trimmed += u64::from(command.length);
            }
            IoOp::Flush => {}
        }
        Ok(Data::Absent)
    }
}

fn creating(stack: &str) -> Creating {
    Creating {
        device: "memory".to_owned(),
        stack: stack.to_owned(),
        facts: Facts::default(),
        seed: 5,
        destroys: false,
        staging: None,
    }
}

fn open(place: &Loose) -> Service {
    let place = place.clone();
    Service::start(move || {
        let mut device = place.device();
        let about = crate::headers::find(&mut *device)?;
        Volume::open_found(device, about.header, Vec::new())
    })
    .unwrap()
}

/// Makes a volume that was filled and closed.
fn filled(stack: &str) -> Loose {
    let place = Loose::new();
    Volume::create_on(place.device(), &creating(stack)).unwrap().close().unwrap();
    let service = open(&place);
    // The last bytes of pages are zero for embedded headers.
    let page: Vec<u8> = (0..4096_usize).map(|at| if at < 4000 { 0x33 } else { 0 }).collect();
    let data = Bytes::from(page.repeat(64));
    let mut offset = 0;
    while offset < service.capacity_bytes() {
        let length = (data.len() as u64).min(service.capacity_bytes() - offset) as usize;
        let (data, lifetime) = (data.slice(..length), Lifetime::NotSet);
        service.call(Request::Write { offset, data, is_fua: false, lifetime }).unwrap();
        offset += length as u64;
    }
    service.close().unwrap();
    place
}

fn zero(offset: u64, length: u64) -> Request {
    Request::Zero { offset, length, is_fua: false, unmaps: true }
}

fn is_zero(service: &Service, offset: u64, length: u64) -> bool {
    let mut bytes = vec![1; length as usize];
    service.read_at(offset, &mut bytes).unwrap();
    bytes.iter().all(|&byte| byte == 0)
}

#[test]
fn a_trim_of_any_stack_costs_a_thousandth_reads_as_zeros_and_goes_below() {
    for stack in STACKS {
        let place = filled(stack);
        open(&place).close().unwrap();
        place.took();
        open(&place).close().unwrap();
        let alone = place.took().written;
        let service = open(&place);
        let (offset, length) = (1 << 20, (service.capacity_bytes() >> 20 << 20) - (2 << 20));
        service.call(zero(offset, length)).unwrap();
        assert!(is_zero(&service, offset, length), "{stack}: at once");
        service.close().unwrap();
        let Counted { written, trimmed } = place.took();
        let cost = written.saturating_sub(alone);
        assert!(cost <= length / 1000 + CONSTANT, "{stack}: {cost} bytes for {length}");
        // A log trims segments, when they are cleaned.
        let goes_below = trimmed * 10 >= length * 9 || stack.contains("log_volume");
        assert!(goes_below, "{stack}: {trimmed} of {length} bytes went below");
        let service = open(&place);
        assert!(is_zero(&service, offset, length), "{stack}: opened again");
        assert!(!is_zero(&service, offset - 512, 512), "{stack}: what is before");
        let extents = service.extents(offset, length).unwrap();
        assert!(extents.iter().all(|extent| extent.is_hole), "{stack}: {extents:?}");
        service.close().unwrap();
        // A trim that need not make zeros leaves each byte old or zero, and the same at each read.
        let service = open(&place);
        let trim = Request::Trim { offset: 0, length: offset, is_fua: false };
        service.call(trim).unwrap();
        let mut before = vec![0; offset as usize];
        service.read_at(0, &mut before).unwrap();
        service.close().unwrap();
        let mut after = vec![0; offset as usize];
        open(&place).read_at(0, &mut after).unwrap();
        assert!(before == after, "{stack}: it changes when it is opened again");
    }
}

/// Flushed writes and zeros are there after the process was killed.
#[test]
fn zeros_and_what_is_written_over_them_are_there_after_a_kill() {
    for stack in STACKS {
        let place = filled(stack);
        let service = open(&place);
        service.call(zero(1 << 20, 8 << 20)).unwrap();
        let trim = Request::Trim { offset: 16 << 20, length: 1 << 20, is_fua: true };
        service.call(trim).unwrap();
        let (data, lifetime) = (Bytes::from(vec![7; 2048]), Lifetime::NotSet);
        let offset = (2 << 20) + 1024;
        service.call(Request::Write { offset, data, is_fua: true, lifetime }).unwrap();
        let extents = service.extents(offset, 2048).unwrap();
        assert!(extents.iter().all(|extent| !extent.is_hole), "{stack}: {extents:?}");
        let left = place.copied();
        drop(service);
        let service = open(&left);
        assert!(is_zero(&service, 1 << 20, 1 << 20), "{stack}");
        assert!(is_zero(&service, 2 << 20, 1024), "{stack}: before what was written");
        assert!(is_zero(&service, (2 << 20) + 3072, 6 << 20), "{stack}: behind it");
        let mut bytes = [0; 2048];
        service.read_at(offset, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 2048], "{stack}");
        assert!(is_zero(&service, 16 << 20, 1 << 20), "{stack}: trimmed with FUA");
        service.close().unwrap();
    }
}

/// Where trims leave zeros without a map, no map is made.
#[test]
fn a_map_of_holes_is_made_where_trims_promise_nothing() {
    for (stack, made) in [
        ("direct", "holes"),
        ("checksums", "holes|checksums"),
        ("stable_buffer(size=1Mi)", "holes(ack=durable)|stable_buffer(size=1Mi)"),
        ("stable_buffer(size=1Mi,ack=written)", "holes|stable_buffer(size=1Mi,ack=written)"),
        ("log_volume(segment=256Ki)", "log_volume(segment=256Ki)"),
        ("holes(page=8Ki)", "holes(page=8Ki)"),
    ] {
        let volume = Volume::create_on(Loose::new().device(), &creating(stack)).unwrap();
        assert_eq!(volume.header().stack, made);
    }
    let memory = Creating { device: "memory(bytes=8Mi)".to_owned(), ..creating("direct") };
    assert_eq!(Volume::create(&memory).unwrap().header().stack, "direct");
}
