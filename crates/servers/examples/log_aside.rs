//! Gain of a log's area on a second device: writes of 4 KiB at random with a flush after every N,
//! on a volume of a slow emulated drive alone, and with a fast one for the log's area.
//!
//! ```text
//! cargo run --release -p flashwright-servers --example log_aside -- [KEY=VALUE ...]
//! ```
//!
//! `first` (profiles of slow drives, with commas; `sd-card,mtron-pro-7500`), `second` (of the fast
//! one; `samsung-pm9a3`), `every` (writes between flushes, with commas; `1,8,64`), `size` and
//! `second_size` (MiB of the slow and of the fast drive; 512, 12288), `seconds` (measured, of each;
//! 10), `warm` (1.5), `seed` (1). Drives are emulated on the wall clock, filled. Each volume is
//! written once in order first, and then at random, `warm` times as much as there is spare space:
//! from 1 on it cleans while it is measured. All writes between two flushes are sent at once, the
//! flush when they have ended.

use std::error::Error;
use std::process::ExitCode;

use block::{BlockDevice, Command, Completion, Data};
use bytes::Bytes;
use layers::Facts;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use servers::{Creating, Staging, Volume};
use units::{IoOp, Nanos};

const PAGE: u32 = 4096;
/// Pages of each write that first fills the volume.
const AT_ONCE: u64 = 64;
/// Stacks, their names, and true if the log's area lies on the fast drive.
const KINDS: [(&str, &str, bool); 3] = [
    ("log_volume(over_provisioning=30%)", "ring beside the segments", false),
    ("log_volume(over_provisioning=30%,summaries=segments)", "summaries in the segments", false),
    ("log_volume(over_provisioning=30%)", "area on the second device", true),
];

struct Arguments {
    first: Vec<String>,
    second: String,
    second_mib: u64,
    every: Vec<u32>,
    size_mib: u64,
    seconds: u64,
    warm: f64,
    seed: u64,
}

fn parse() -> Result<Arguments, Box<dyn Error>> {
    let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut parsed = Arguments {
        first: words("sd-card,mtron-pro-7500"),
        second: "samsung-pm9a3".to_owned(),
        second_mib: 12 << 10,
        every: vec![1, 8, 64],
        size_mib: 512,
        seconds: 10,
        warm: 1.5,
        seed: 1,
    };
    for argument in std::env::args().skip(1) {
        let (key, value) =
            argument.split_once('=').ok_or_else(|| format!("`{argument}` is not KEY=VALUE"))?;
        match key {
            "first" => parsed.first = words(value),
            "second" => value.clone_into(&mut parsed.second),
            "every" => {
                parsed.every = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "second_size" => parsed.second_mib = value.parse()?,
            "size" => parsed.size_mib = value.parse()?,
            "seconds" => parsed.seconds = value.parse()?,
            "warm" => parsed.warm = value.parse()?,
            "seed" => parsed.seed = value.parse()?,
            _ => return Err(format!("`{key}` is unknown: see the head of the file").into()),
        }
    }
    Ok(parsed)
}

/// One device, and the results of commands on it.
struct Host<'a> {
    device: &'a mut dyn BlockDevice,
    data: Bytes,
    ended: Vec<Completion>,
}

impl Host<'_> {
    /// Sends commands, and waits for all of them.
    fn play(&mut self, commands: impl Iterator<Item = Command>) -> Result<(), Box<dyn Error>> {
        commands.for_each(|command| self.device.submit(command));
        while self.device.outstanding() > 0 {
            self.device.wait(Nanos::MAX, &mut self.ended)?;
        }
        self.ended.drain(..).try_for_each(|one| one.reply.outcome.map(|_| ()))?;
        Ok(())
    }

    /// Makes a write of these pages.
    fn write(&self, id: u32, page: u64, pages: u64) -> Command {
        let data = self.data.slice(..pages as usize * PAGE as usize);
        Command::write(id, page * u64::from(PAGE), Data::Whole(data))
    }

    fn flush(&mut self) -> Result<(), Box<dyn Error>> {
        self.play(std::iter::once(Command::new(0, IoOp::Flush, 0, 0)))
    }
}

/// Writes per second, and the median and 99th percentile of a flush, in ms.
struct Measured {
    writes: f64,
    flush_ms: [f64; 2],
}

fn measure(
    arguments: &Arguments,
    first: &str,
    (stack, _, is_aside): (&str, &str, bool),
    every: u32,
) -> Result<Measured, Box<dyn Error>> {
    let emulated = |profile: &str, mib: u64| format!("emulated(profile={profile},size={mib}Mi)");
    let mut volume = Volume::create(&Creating {
        device: emulated(first, arguments.size_mib),
        stack: stack.to_owned(),
        facts: Facts::default(),
        seed: arguments.seed,
        destroys: true,
        staging: is_aside.then(|| Staging {
            device: emulated(&arguments.second, arguments.second_mib),
            destroys: true,
        }),
    })?;
    let pages = volume.capacity_bytes() / u64::from(PAGE);
    let data = Bytes::from(vec![7; AT_ONCE as usize * PAGE as usize]);
    let mut host = Host { device: volume.device(), data, ended: Vec::new() };
    for from in (0..pages).step_by(AT_ONCE as usize) {
        let command = host.write(0, from, AT_ONCE.min(pages - from));
        host.play(std::iter::once(command))?;
    }
    let mut random = Pcg64Mcg::seed_from_u64(arguments.seed);
    let mut at_random = |host: &mut Host<'_>, writes: u32| {
        let commands: Vec<Command> =
            (0..writes).map(|id| host.write(id, random.random_range(0..pages), 1)).collect();
        host.play(commands.into_iter())
    };
    let spare = (arguments.size_mib << 20) / u64::from(PAGE) - pages;
    for _ in 0..(spare as f64 * arguments.warm) as u64 / AT_ONCE {
        at_random(&mut host, AT_ONCE as u32)?;
    }
    host.flush()?;
    let (begun, mut writes, mut flushes) = (host.device.now(), 0, Vec::new());
    let mut now = begun;
    while now < begun + arguments.seconds * 1_000_000_000 {
        at_random(&mut host, every)?;
        let written = host.device.now();
        host.flush()?;
        now = host.device.now();
        flushes.push(now - written);
        writes += u64::from(every);
    }
    flushes.sort_unstable();
    let share = |share: f64| flushes[(flushes.len() as f64 * share) as usize] as f64 / 1e6;
    let writes = writes as f64 / ((now - begun) as f64 / 1e9);
    Ok(Measured { writes, flush_ms: [share(0.5), share(0.99)] })
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments = parse()?;
    println!("| first device | flush every | log | writes/s | times | flush, median / 99 % ms |");
    println!("|---|---|---|---|---|---|");
    for first in &arguments.first {
        for &every in &arguments.every {
            let mut alone = None;
            for kind in KINDS {
                let Measured { writes, flush_ms: [median, most] } =
                    measure(&arguments, first, kind, every)?;
                let times = writes / *alone.get_or_insert(writes);
                println!(
                    "| {first} | {every} | {} | {writes:.1} | {times:.2} | {median:.2} / \
                     {most:.2} |",
                    kind.1
                );
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
