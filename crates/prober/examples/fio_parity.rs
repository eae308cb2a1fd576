//! Bar 4 of the prober: random reads and writes of 4 KiB at depth 1 and 32, beside fio with the
//! same settings (io_uring, direct, registered files, fixed buffers), on a file and on a loop
//! device over one.
//!
//! ```text
//! cargo build --release -p flashwright-prober --example fio_parity
//! setsid --wait target/release/examples/fio_parity [--folder DIR] [--milliseconds T] \
//!     [--rounds N] [--bytes B] [--device PATH]
//! ```
//! Both run in turn, and who is first changes with every round. Told are medians over the rounds:
//! of the requests a second of each and of their ratio, with the 95 % interval of the ratio's
//! median; and the processor time a request (user and system, of the process and of the kernel's
//! workers for it) over all rounds. `--device` measures a block device instead; ALL ITS DATA IS
//! DESTROYED. Loop devices need root.
//!
//! `setsid`, as fio calls it for itself: the kernel's scheduler gives each session its share, so
//! that on a busy machine one in a session with others would get less.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use block::BlockDevice;

use devices::{Access, Opening, create_file};
use prober::{Bench, Limit, Region, Settings, closed};
use units::Progress;

type Failed = Box<dyn std::error::Error>;

struct Options {
    folder: PathBuf,
    milliseconds: u64,
    rounds: usize,
    bytes: u64,
    device: Option<String>,
    /// Only cases whose name has this in it.
    only: String,
    /// Without fio: for a profiler.
    alone: bool,
}

/// Outcome of one run.
#[derive(Clone, Copy, Debug)]
struct Run {
    iops: f64,
    requests: f64,
    /// Processor time of all requests.
    user_ns: f64,
    system_ns: f64,
}

fn main() -> ExitCode {
    match options().and_then(|options| measure(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fio_parity: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, Failed> {
    let mut options = Options {
        folder: PathBuf::from("target"),
        milliseconds: 1000,
        rounds: 15,
        bytes: 1 << 30,
        device: None,
        only: String::new(),
        alone: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(key) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{key} has no value"));
        match key.as_str() {
            "--folder" => options.folder = value()?.into(),
            "--milliseconds" => options.milliseconds = value()?.parse()?,
            "--rounds" => options.rounds = value()?.parse()?,
            "--bytes" => {
                options.bytes =
                    registry::parse_bytes(&value()?).ok_or("--bytes is not a number")?;
            }
            "--device" => options.device = Some(value()?),
            "--only" => options.only = value()?,
            "--alone" => options.alone = true,
            _ => {
                return Err(format!(
                    "unknown option {key}; known are: --folder, --milliseconds, --rounds, --bytes, \
                     --device, --only, --alone"
                )
                .into());
            }
        }
    }
    Ok(options)
}

/// A loop device that is detached at the end.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Result<Self, Failed> {
        let done = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(file)
            .output()?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).trim().into());
        }
        Ok(Self(String::from_utf8(done.stdout)?.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn measure(options: &Options) -> Result<(), Failed> {
    println!(
        "{:<22} {:>10} {:>10} {:>7} {:>11} {:>22} {:>22} {:>9}",
        "medians over rounds",
        "fio 1/s",
        "ours 1/s",
        "ratio",
        "95 %",
        "fio us of processor",
        "ours us (user+system)",
        "ratio"
    );
    if let Some(device) = &options.device {
        return all_cases(options, "device", device);
    }
    let made = MadeFile::new(&options.folder.join("fio_parity.data"), options.bytes)?;
    all_cases(options, "file", &made.0.to_string_lossy())?;
    let device = Loop::over(&made.0)?;
    all_cases(options, "loop device", &device.0)
}

/// A file that is removed at the end.
struct MadeFile(PathBuf);

impl MadeFile {
    fn new(path: &Path, bytes: u64) -> Result<Self, Failed> {
        create_file(path, bytes, &Progress::default())?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for MadeFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn all_cases(options: &Options, kind: &str, path: &str) -> Result<(), Failed> {
    for op in ["read", "write"] {
        for depth in [1, 32] {
            let name = format!("{kind}, {op}, {depth}");
            if name.contains(&options.only) {
                one_case(options, &name, path, op, depth)?;
            }
        }
    }
    Ok(())
}

fn one_case(options: &Options, name: &str, path: &str, op: &str, depth: u32) -> Result<(), Failed> {
    let (mut fio, mut ours) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        if options.alone {
            ours.push(run_ours(options, path, op, depth)?);
            continue;
        }
        if round % 2 == 0 {
            fio.push(run_fio(options, path, op, depth)?);
            ours.push(run_ours(options, path, op, depth)?);
        } else {
            ours.push(run_ours(options, path, op, depth)?);
            fio.push(run_fio(options, path, op, depth)?);
        }
    }
    if options.alone {
        fio.clone_from(&ours);
    }
    let iops = |runs: &[Run]| median(&runs.iter().map(|run| run.iops).collect::<Vec<_>>());
    let ratios: Vec<f64> = fio.iter().zip(&ours).map(|(fio, ours)| ours.iops / fio.iops).collect();
    // Of all rounds together: a short one is not long against the clock's ticks.
    let each = |runs: &[Run]| {
        let requests: f64 = runs.iter().map(|run| run.requests).sum();
        let us = |value: fn(&Run) -> f64| runs.iter().map(value).sum::<f64>() / requests / 1e3;
        let (user, system) = (us(|run| run.user_ns), us(|run| run.system_ns));
        (user + system, format!("{:.2} ({user:.2}+{system:.2})", user + system))
    };
    let ((fio_us, fio_words), (ours_us, our_words)) = (each(&fio), each(&ours));
    let interval = interval_of_median(&ratios);
    println!(
        "{name:<22} {:>10.0} {:>10.0} {:>7.3} {:>5.2}-{:<5.2} {fio_words:>22} {our_words:>22} \
         {:>9.3}",
        iops(&fio),
        iops(&ours),
        median(&ratios),
        interval.0,
        interval.1,
        ours_us / fio_us,
    );
    Ok(())
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median(values: &[f64]) -> f64 {
    sorted(values)[(values.len() - 1) / 2]
}

/// The 95 % interval of the median, whatever the distribution: of so many values the number below
/// the median is binomial. All of them if they are too few.
fn interval_of_median(values: &[f64]) -> (f64, f64) {
    let (sorted, count) = (sorted(values), values.len() as f64);
    let first = (count / 2.0 - 0.98 * count.sqrt()).floor().max(0.0) as usize;
    (sorted[first], sorted[sorted.len() - 1 - first])
}

fn run_ours(options: &Options, path: &str, op: &str, depth: u32) -> Result<Run, Failed> {
    let mut device =
        devices::open(&Opening { queue_depth: depth, ..Opening::new(path, Access::DestroyData) })?;
    let length = device.info().limits.capacity_bytes.min(options.bytes);
    let settings = Settings {
        region: Region { offset: 0, length },
        seed: 1,
        may_write: true,
        budget: options.milliseconds * 1_000_000,
    };
    let progress = Progress::default();
    let mut bench = Bench::new(&mut *device as &mut dyn BlockDevice, settings, &progress);
    let source = bench.pattern(&format!("random(size=4Ki,reads={})", u32::from(op == "read")))?;
    let before = processor_ns();
    let measured =
        bench.play(vec![closed(source, depth)], Limit::time(settings.budget).precision(0.0))?;
    let after = processor_ns();
    let used = |part: usize| (after[part] - before[part]) as f64;
    Ok(Run {
        iops: measured.iops(),
        requests: measured.requests as f64,
        user_ns: used(0),
        system_ns: used(1),
    })
}

/// User and system time of this process so far, in nanoseconds.
fn processor_ns() -> [u64; 2] {
    let usage = |which| {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let after = text.rsplit(") ").next().unwrap_or_default().to_owned();
        after.split(' ').nth(which).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0)
            * 10_000_000
    };
    [usage(11), usage(12)]
}

fn run_fio(options: &Options, path: &str, op: &str, depth: u32) -> Result<Run, Failed> {
    let done = Command::new("fio")
        .args([
            "--name=parity",
            "--ioengine=io_uring",
            "--direct=1",
            "--registerfiles=1",
            "--fixedbufs=1",
            "--bs=4k",
            "--norandommap=1",
        ])
        .args(["--randrepeat=0", "--time_based=1", "--output-format=json"])
        .args([
            format!("--rw=rand{op}"),
            format!("--iodepth={depth}"),
            format!("--runtime={}ms", options.milliseconds),
            format!("--size={}", options.bytes),
        ])
        .arg(format!("--filename={path}"))
        .output()
        .map_err(|error| format!("fio: {error} (Debian: apt install fio)"))?;
    if !done.status.success() {
        return Err(format!("fio: {}", String::from_utf8_lossy(&done.stderr).trim()).into());
    }
    let text = String::from_utf8(done.stdout)?;
    let json: serde_json::Value =
        serde_json::from_str(&text[text.find('{').ok_or("fio tells no results")?..])?;
    let job = &json["jobs"][0];
    let number =
        |value: &serde_json::Value| value.as_f64().ok_or("fio's results have an unknown form");
    let iops = number(&job[op]["iops"])?;
    let runtime_ns = number(&job["job_runtime"])? * 1e6;
    let requests = number(&job[op]["total_ios"])?;
    let share = |key: &str| number(&job[key]).map(|percent| percent / 100.0 * runtime_ns);
    Ok(Run { iops, requests, user_ns: share("usr_cpu")?, system_ns: share("sys_cpu")? })
}
