//! Tests of volumes that earlier programs left behind, whole devices with their headers: each
//! version of each layer's format is opened from its header alone, and holds what was written, or
//! is refused by its version and left as it is.
//!
//! A new format gets a new entry, made by `cargo test -p flashwright-servers --test kept_volumes --
//! --ignored`, which makes those that do not exist yet. An old one is never made again.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use layers::Facts;
use servers::{Creating, Opening, Request, Service, Staging, Volume};
use units::Progress;

const PAGE: u64 = 4096;
/// Pages that are written, and that are read again.
const PAGES: u64 = 64;
const WRITES: u64 = 300;

struct Kept {
    /// Name of its files.
    name: &'static str,
    stack: &'static str,
    /// Bytes of the second device, if it has one.
    staging_bytes: u64,
    /// True if it was closed; otherwise it is recovered.
    is_closed: bool,
    /// Version of a layer's format that is not supported any more.
    refused: Option<u32>,
}

const fn alone(name: &'static str, stack: &'static str, is_closed: bool) -> Kept {
    Kept { name, stack, staging_bytes: 0, is_closed, refused: None }
}

/// Gives an entry with a layer's format of an earlier version, which is not supported any more.
const fn past(name: &'static str, version: u32) -> Kept {
    Kept { refused: Some(version), ..alone(name, "", false) }
}

const BUFFER: &str = "stable_buffer(size=256Ki,page=4Ki)";
const LOG: &str = "log_volume(segment=64Ki)";
const STAGING_BYTES: u64 = 4 << 20;

const KEPT: [Kept; 22] = [
    alone("direct", "direct", true),
    past("log_ring", 2),
    past("log_in_segments", 2),
    past("stable_buffer", 2),
    alone("stable_buffer_4", BUFFER, false),
    alone("replicas", "replicas(partitions=4,patience=1us,read_threshold=0)", false),
    past("checksums", 1),
    past("checksums_alone", 1),
    Kept { is_closed: true, ..past("log_over_buffer", 2) },
    Kept { staging_bytes: STAGING_BYTES, ..past("staged_aside", 3) },
    Kept { staging_bytes: STAGING_BYTES, ..past("log_aside", 2) },
    Kept { staging_bytes: STAGING_BYTES, ..past("log_aside_with_room", 2) },
    alone("log_ring_3", LOG, false),
    alone(
        "log_in_segments_3",
        "log_volume(segment=128Ki,summaries=segments,over_provisioning=60%)",
        false,
    ),
    alone("log_over_buffer_3", "log_volume(segment=64Ki)|stable_buffer(size=256Ki,page=4Ki)", true),
    Kept { is_closed: true, ..past("buffer_over_checksums", 1) },
    alone("checksums_2", "checksums(block=512)", false),
    alone("buffer_over_checksums_2", "stable_buffer(size=256Ki,page=4Ki)|checksums", true),
    alone("holes", "holes", false),
    Kept { staging_bytes: STAGING_BYTES, ..alone("log_aside_3", LOG, false) },
    Kept { staging_bytes: STAGING_BYTES, ..alone("staged_aside_4", BUFFER, false) },
    alone("hints_3", "log_volume(segment=64Ki,hints=yes,over_provisioning=20%)", false),
];

impl Kept {
    /// Unpacks it into a folder; gives its devices.
    fn unpack(&self, folder: &Path) -> (String, Option<String>) {
        let (device, second) = self.devices(folder);
        unpack(&self.image(false), &device);
        if let Some(second) = &second {
            unpack(&self.image(true), second);
        }
        (device, second)
    }

    fn image(&self, is_second: bool) -> PathBuf {
        let end = if is_second { "_second" } else { "" };
        let name = format!("tests/kept_volumes/{}{end}.img.gz", self.name);
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    }

    /// Gives the paths of its devices in a folder, which may have to be made.
    fn devices(&self, folder: &Path) -> (String, Option<String>) {
        let at = |end| folder.join(format!("{}{end}", self.name)).display().to_string();
        (at(""), (self.staging_bytes > 0).then(|| at("_second")))
    }
}

/// Gives the content of a page after a write: simple, so that the image is small.
fn content(page: u64, write: u64) -> Vec<u8> {
    (0..PAGE / 8)
        .flat_map(|word| ((page << 40) | (write << 8) | (word % 4)).to_le_bytes())
        .collect()
}

/// Gives the pages in the order in which they are written, with the number of the write.
fn writes() -> impl Iterator<Item = (u64, u64)> {
    (1..=WRITES).map(|write| (write * write * 7 % PAGES, write))
}

fn expected() -> Vec<u8> {
    let mut bytes = vec![0; (PAGES * PAGE) as usize];
    for (page, write) in writes() {
        let from = (page * PAGE) as usize;
        bytes[from..from + PAGE as usize].copy_from_slice(&content(page, write));
    }
    bytes
}

fn unpack(image: &Path, device: &str) {
    let packed = File::open(image).unwrap_or_else(|error| panic!("{}: {error}", image.display()));
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).expect("it is packed");
    fs::write(device, bytes).expect("there is room for a device");
}

#[test]
fn what_an_earlier_program_left_is_opened_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    for kept in &KEPT {
        let (device, second) = kept.unpack(folder.path());
        let about = servers::about(&device, second.as_deref()).unwrap();
        assert_eq!((about.header.is_clean, about.header.openings), (kept.is_closed, 1));
        if let Some(version) = kept.refused {
            let before = fs::read(&device).unwrap();
            let error = servers::check(&device, second.as_deref(), &Progress::default());
            let said = error.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains(&format!("(format {version})")), "{}: {said}", kept.name);
            assert!(fs::read(&device).unwrap() == before, "it is as it was");
            continue;
        }
        let found = servers::check(&device, second.as_deref(), &Progress::default()).unwrap();
        assert_eq!(found.bad_bytes, 0, "{}", kept.name);
        let mut opening = Opening::new(&device);
        opening.staging = second;
        let service = Service::start(move || Volume::open(&opening)).unwrap();
        let mut bytes = vec![0; (PAGES * PAGE) as usize];
        service.read_at(0, &mut bytes).unwrap();
        assert!(bytes == expected(), "{} holds something else", kept.name);
        service.write_at(PAGE, &content(1, WRITES + 1), false).unwrap();
        service.close().unwrap();
    }
}

#[test]
#[ignore = "it makes what is kept"]
fn make() {
    let folder = tempfile::tempdir().unwrap();
    for kept in KEPT.iter().filter(|kept| !kept.image(false).exists()) {
        let (device, second) = kept.devices(folder.path());
        File::create(&device).unwrap().set_len(8 << 20).unwrap();
        if let Some(second) = &second {
            File::create(second).unwrap().set_len(kept.staging_bytes).unwrap();
        }
        let staging = second.clone().map(|device| Staging { device, destroys: false });
        let creating = Creating {
            device: device.clone(),
            stack: kept.stack.to_owned(),
            facts: Facts::default(),
            seed: 5,
            destroys: false,
            staging,
        };
        let service = Service::start(move || Volume::create(&creating)).unwrap();
        let zeros = Request::Zero { offset: 0, length: PAGES * PAGE, is_fua: false, unmaps: false };
        service.call(zeros).unwrap();
        for (page, write) in writes() {
            service.write_at(page * PAGE, &content(page, write), write % 50 == 0).unwrap();
        }
        // Behind the range that is looked at there are holes.
        let behind = Request::Zero {
            offset: PAGES * PAGE,
            length: PAGES * PAGE,
            is_fua: false,
            unmaps: true,
        };
        service.call(behind).unwrap();
        service.call(Request::Flush).unwrap();
        if kept.is_closed {
            service.close().unwrap();
        }
        drop(service);
        for (device, is_second) in [(Some(device), false), (second, true)] {
            let Some(device) = device else { continue };
            let image = File::create(kept.image(is_second)).unwrap();
            let mut packed = GzEncoder::new(image, Compression::best());
            packed.write_all(&fs::read(device).unwrap()).unwrap();
            packed.finish().unwrap();
        }
    }
}
