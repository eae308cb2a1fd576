//! Opens volumes whose headers and structures were changed on purpose, and sends them requests of a
//! hostile client: no panic, no hang, and memory stays within its limit.
//!
//! ```text
//! cargo run --release -p flashwright-servers --example hostile -- [volumes=1000] [seed=1]
//! ```
//!
//! Each volume is made with one of the stacks, every third that can on two devices, gets a few
//! requests, and is changed: bytes anywhere, or fields and texts of its headers with a checksum
//! that is right again. Then it is inspected, checked, opened, sent random requests and closed; of
//! two devices, the second may be named as the first, or each as the other, and it may be restaged.
//! Each step may fail with an error; a panic, a step that takes more than ten seconds, or memory
//! beyond the limit is a fault.

use std::error::Error;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use layers::Facts;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use servers::{
    Creating, HEADER_BYTES, Header, Lifetime, Opening, Request, Role, Service, Staging, Volume,
    VolumeError,
};
use units::Progress;

const STACKS: [&str; 7] = [
    "direct",
    "scheduler(coalesce)",
    "log_volume(segment=64Ki)",
    "stable_buffer(size=1Mi)",
    "scheduler(coalesce)|log_volume(segment=64Ki)",
    "log_volume(page=1Ki,segment=64Ki,over_provisioning=25%,summaries=segments)",
    "stable_buffer(size=1Mi)|log_volume(segment=64Ki)",
];
/// Stacks of which a layer may have its area on a second device.
const STAGED: [&str; 5] = [
    "stable_buffer(size=1Mi)",
    "log_volume(segment=64Ki)|stable_buffer(size=256Ki)",
    "scheduler(coalesce)|stable_buffer(size=512Ki,page=8Ki)|scheduler(defer)",
    "stable_buffer",
    "log_volume(segment=64Ki,page=1Ki)",
];
const DEVICE_BYTES: u64 = 16 << 20;
const STAGING_BYTES: u64 = 6 << 20;
const LONGEST: Duration = Duration::from_secs(10);
/// Limit in MiB, far above what a volume of 16 MiB takes.
const MOST_MEMORY_MIB: u64 = 1024;
const REQUESTS: usize = 200;

/// Number of volumes that came so far.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Volumes that were made on two devices.
    pub pairs: u64,
    /// Volumes that could be inspected.
    pub looked_at: u64,
    /// Volumes that could be checked.
    pub checked: u64,
    /// Volumes that could be opened.
    pub opened: u64,
    /// Requests that were answered without an error.
    pub answered: u64,
    /// Volumes that could be closed.
    pub closed: u64,
    /// Volumes whose staging area could be moved to another place.
    pub restaged: u64,
}

fn main() -> ExitCode {
    let (mut volumes, mut seed) = (1000, 1);
    for argument in std::env::args().skip(1) {
        let parsed = match argument.split_once('=') {
            Some(("volumes", value)) => value.parse().map(|value| volumes = value).is_ok(),
            Some(("seed", value)) => value.parse().map(|value| seed = value).is_ok(),
            _ => false,
        };
        if !parsed {
            eprintln!("`{argument}`: volumes=NUMBER or seed=NUMBER is needed");
            return ExitCode::from(2);
        }
    }
    match campaign(volumes, seed) {
        Ok(outcomes) => {
            println!(
                "{volumes} volumes: {outcomes:?}, {} MiB at most: no fault",
                most_memory_mib()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Tries `volumes` volumes, with seeds from `seed` on; a fault ends it, and its seed repeats it.
///
/// # Errors
/// The fault, and the seed of its volume.
pub fn campaign(volumes: u64, seed: u64) -> Result<Outcomes, String> {
    let mut outcomes = Outcomes::default();
    for seed in seed..seed + volumes {
        let began = catch_unwind(AssertUnwindSafe(|| one(seed, &mut outcomes)));
        let ended = began.map_err(|_| format!("seed={seed}: a panic"))?;
        ended.map_err(|error| format!("seed={seed}: {error}"))?;
    }
    Ok(outcomes)
}

fn one(seed: u64, outcomes: &mut Outcomes) -> Result<(), Box<dyn Error>> {
    let mut dice = Pcg64Mcg::seed_from_u64(seed);
    let folder = tempfile::tempdir()?;
    let place = |name| folder.path().join(name).to_str().map(str::to_owned).ok_or("no text");
    let (mut device, mut second, third) = (place("device")?, place("second")?, place("third")?);
    let is_pair = dice.random_bool(1.0 / 3.0);
    outcomes.pairs += u64::from(is_pair);
    make(&device, is_pair.then_some(&second), &mut dice)?;
    let changes = [(&device, true), (&second, is_pair && dice.random_bool(0.7))];
    for (path, _) in changes.iter().filter(|(_, is_changed)| *is_changed) {
        let image = fs::read(path)?;
        fs::write(path, changed(image, &mut dice))?;
    }
    if is_pair && dice.random_bool(0.05) {
        std::mem::swap(&mut device, &mut second);
    }
    let staging = (is_pair && dice.random_bool(0.2)).then_some(second.as_str());
    in_time("looking at it", || servers::about(&device, staging)).map(|found| {
        outcomes.looked_at += u64::from(found.is_ok());
    })?;
    in_time("checking it", || servers::check(&device, staging, &Progress::default())).map(
        |found| {
            outcomes.checked += u64::from(found.is_ok());
        },
    )?;
    let opening = Opening { staging: staging.map(str::to_owned), ..Opening::new(&device) };
    if let Ok(service) = in_time("opening it", || Service::start(move || Volume::open(&opening)))? {
        outcomes.opened += 1;
        for _ in 0..REQUESTS {
            let request = asked(service.capacity_bytes(), &mut dice);
            outcomes.answered += u64::from(in_time("a request", || service.call(request))?.is_ok());
        }
        outcomes.closed += u64::from(in_time("closing it", || service.close())?.is_ok());
    }
    if is_pair || dice.random_bool(0.1) {
        let moved = in_time("restaging it", || restage(&device, &third, &mut dice))?;
        outcomes.restaged += u64::from(moved.is_ok());
    }
    if most_memory_mib() > MOST_MEMORY_MIB {
        return Err(format!("{} MiB of memory", most_memory_mib()).into());
    }
    Ok(())
}

/// Moves the staging area to another place.
fn restage(device: &str, third: &str, dice: &mut Pcg64Mcg) -> Result<(), VolumeError> {
    let loses = dice.random_bool(0.3);
    if dice.random_bool(0.5) {
        return servers::unstage(device, None, loses).map(|_| ());
    }
    devices::allocate_file(Path::new(third), STAGING_BYTES)?;
    let staging = Staging { device: third.to_owned(), destroys: false };
    servers::restage(device, &staging, loses).map(|_| ())
}

fn in_time<T>(what: &str, act: impl FnOnce() -> T) -> Result<T, String> {
    let began = Instant::now();
    let found = act();
    if began.elapsed() > LONGEST {
        Err(format!("{what} took {:?}", began.elapsed()))
    } else {
        Ok(found)
    }
}

/// Makes a volume that is used a little, closed or not, on one device or two.
fn make(device: &str, second: Option<&String>, dice: &mut Pcg64Mcg) -> Result<(), Box<dyn Error>> {
    devices::allocate_file(Path::new(device), DEVICE_BYTES)?;
    let stacks = if second.is_some() { &STAGED[..] } else { &STACKS };
    if let Some(second) = second {
        devices::allocate_file(Path::new(second), STAGING_BYTES)?;
    }
    let creating = Creating {
        device: device.to_owned(),
        stack: stacks[dice.random_range(0..stacks.len())].to_owned(),
        facts: Facts::default(),
        seed: 1,
        destroys: false,
        staging: second.map(|second| Staging { device: second.clone(), destroys: false }),
    };
    let service = Service::start(move || Volume::create(&creating))?;
    for _ in 0..dice.random_range(0..200) {
        let offset = dice.random_range(0..service.capacity_bytes() / 4096) * 4096;
        let data = Bytes::from(vec![dice.random::<u8>(); 4096]);
        let (is_fua, lifetime) = (dice.random_bool(0.1), Lifetime::NotSet);
        service.call(Request::Write { offset, data, is_fua, lifetime })?;
    }
    if dice.random_bool(0.5) {
        service.close()?;
    }
    Ok(())
}

/// Gives the image with hostile changes.
fn changed(mut image: Vec<u8>, dice: &mut Pcg64Mcg) -> Vec<u8> {
    if dice.random_bool(0.5) {
        change_header(&mut image, dice);
    }
    for _ in 0..dice.random_range(0..4) {
        // Structures are at the beginnings of areas more often than elsewhere.
        let from = dice.random_range(0..image.len() >> 9) << 9;
        let from = if dice.random_bool(0.5) { from } else { from & !((1 << 20) - 1) };
        let length = dice.random_range(1..=512);
        if dice.random_bool(0.3) {
            image[from..from + length].fill(if dice.random_bool(0.5) { 0 } else { 0xff });
        } else {
            dice.fill_bytes(&mut image[from..from + length]);
        }
    }
    if dice.random_bool(0.1) {
        image.resize(image.len() / 2 + dice.random_range(0..image.len()), 0);
    }
    image
}

/// Changes both headers, or one, with checksums that are right again.
fn change_header(image: &mut [u8], dice: &mut Pcg64Mcg) {
    let last = Header::last_place(image.len() as u64) as usize;
    let bytes = image[..HEADER_BYTES].try_into().expect("as long");
    let Ok(mut header) = Header::decode(bytes, false) else { return };
    for _ in 0..dice.random_range(1..4) {
        change_field(&mut header, dice);
    }
    if Header::room(&header.stack, &header.facts, header.pair.as_ref()).is_err() {
        return;
    }
    image[..HEADER_BYTES].copy_from_slice(&header.encode(false));
    if dice.random_bool(0.8) {
        image[last..].copy_from_slice(&header.encode(true));
    }
}

fn change_field(header: &mut Header, dice: &mut Pcg64Mcg) {
    let number = odd_number(dice);
    if let Some(pair) = header.pair.as_mut().filter(|_| dice.random_bool(0.3)) {
        match dice.random_range(0..3) {
            0 => pair.is_settled = !pair.is_settled,
            1 => pair.role = if pair.role == Role::Homes { Role::Staging } else { Role::Homes },
            _ => pair.other = format!("{}/{number}", pair.other),
        }
        return;
    }
    if dice.random_bool(0.02) {
        header.pair = None;
        return;
    }
    match dice.random_range(0..12) {
        0 => header.sector_bytes = number as u32,
        1 => header.device_bytes = number,
        2 => header.data_offset = number,
        3 => header.data_bytes = number,
        4 => header.generation = number,
        5 => header.openings = number,
        6 => header.seed = number,
        7 => header.read_only_compatible = number,
        8 => header.facts.write_bytes = Some(number as u32),
        9 => header.facts.erase_block_bytes = Some(number),
        10 => {
            let stack = STACKS[dice.random_range(0..STACKS.len())];
            stack.clone_into(&mut header.stack);
        }
        _ => header.stack = odd_stack(number, dice),
    }
}

fn odd_stack(number: u64, dice: &mut Pcg64Mcg) -> String {
    const SHAPES: [&str; 8] = [
        "log_volume(segment=#)",
        "log_volume(over_provisioning=#)",
        "stable_buffer(size=#)",
        "scheduler(coalesce,batch=#)",
        "direct|direct",
        "|",
        "log_volume(((((",
        "log_volume|log_volume|log_volume|stable_buffer(size=1Mi)|stable_buffer(size=1Mi)",
    ];
    SHAPES[dice.random_range(0..SHAPES.len())].replace('#', &number.to_string())
}

/// Draws a number near a power of two, near the end of the numbers, or any.
fn odd_number(dice: &mut Pcg64Mcg) -> u64 {
    let near = dice.random_range(0..3) as u64;
    match dice.random_range(0..4) {
        0 => (1_u64 << dice.random_range(0..64)).wrapping_sub(near),
        1 => u64::MAX - near,
        2 => near,
        _ => dice.random::<u64>() >> dice.random_range(0..64),
    }
}

/// Draws a client's request: mostly within the volume, sometimes anywhere.
fn asked(capacity: u64, dice: &mut Pcg64Mcg) -> Request {
    let offset = match dice.random_range(0..8) {
        0 => odd_number(dice),
        1 => capacity.saturating_sub(dice.random_range(0..8192)),
        _ => dice.random_range(0..capacity.max(1)),
    };
    let few = dice.random_range(0..20_000);
    let length = if dice.random_bool(0.1) { odd_number(dice) } else { few };
    match dice.random_range(0..8) {
        0..3 => Request::Read { offset, length: length.min(1 << 25) as u32 },
        3..6 => Request::Write {
            offset,
            data: Bytes::from(vec![7; few as usize]),
            is_fua: dice.random_bool(0.2),
            lifetime: Lifetime::NotSet,
        },
        6 if dice.random_bool(0.5) => {
            Request::Trim { offset, length, is_fua: dice.random_bool(0.2) }
        }
        6 => Request::Zero { offset, length, is_fua: false, unmaps: dice.random_bool(0.5) },
        _ => Request::Flush,
    }
}

/// Gives the most memory that this process ever had, in MiB.
fn most_memory_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0) >> 10
}
