//! A volume over NBD, as a plugin of nbdkit: the protocol, TLS, sockets and connections are
//! nbdkit's.
//!
//! `nbdkit --unix SOCKET libflashwright_nbdkit.so volume=/dev/sdb`

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use block::Failure;
use layers::Facts;
use nbdkit::{
    CacheFlags, Error, ExtentHandle, ExtentType, Flags, FuaFlags, Result, Server, ThreadModel,
};
use servers::{Control, Creating, MetricsFile, Opening, Request, Service, Volume, VolumeError};

/// Default interval of writing the file of metrics.
const METRICS_EVERY: Duration = Duration::from_secs(10);
/// Range of `metrics_every`, in seconds.
const METRICS_SECONDS: RangeInclusive<f64> = 0.1..=86_400.0;

/// Settings from the command line.
#[derive(Clone, Debug, Default)]
struct Settings {
    device: Option<String>,
    stack: Option<String>,
    staging: Option<String>,
    queue_depth: Option<u32>,
    memory_bytes: Option<u64>,
    metrics: Option<PathBuf>,
    metrics_every: Option<Duration>,
    control: Option<PathBuf>,
    ready: Option<String>,
    scrub_every: Option<Duration>,
    is_bare: bool,
}

/// The volume that is served, from the fork on.
struct Serving {
    service: Arc<Service>,
    metrics: Option<MetricsFile>,
    control: Option<Control>,
}

static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);
static SERVING: Mutex<Option<Serving>> = Mutex::new(None);

/// One connection.
struct Connection {
    service: Arc<Service>,
    is_read_only: bool,
}

fn settings() -> Settings {
    SETTINGS.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(libc::EINVAL, message.into())
}

fn failed(error: &VolumeError) -> Error {
    Error::new(libc::EIO, error.to_string())
}

fn refusal(failure: &Failure) -> Error {
    let errno = match failure {
        // No client asks for bytes behind the end: nbdkit knows the size.
        Failure::Io { .. } => libc::EIO,
        Failure::Poisoned { .. } => libc::ESHUTDOWN,
    };
    Error::new(errno, failure.to_string())
}

impl Settings {
    /// Returns true for a device in memory, which holds nothing from an earlier run: a volume is
    /// made there each time.
    fn is_memory(&self) -> bool {
        self.device.as_ref().is_some_and(|device| device.trim_start().starts_with("memory"))
    }

    /// Returns true if the device has to hold a volume already.
    fn has_volume(&self) -> bool {
        !self.is_memory() && !self.is_bare
    }

    fn open(self) -> std::result::Result<Volume, VolumeError> {
        let is_memory = self.is_memory();
        let device = self.device.unwrap_or_default();
        if is_memory {
            return Volume::create(&Creating {
                device,
                stack: self.stack.unwrap_or_default(),
                facts: Facts::default(),
                seed: 1,
                destroys: false,
                staging: None,
            });
        }
        let mut opening = Opening::new(&device);
        opening.queue_depth = self.queue_depth.unwrap_or(opening.queue_depth);
        opening.staging = self.staging;
        opening.memory_bytes = self.memory_bytes;
        opening.scrub_every = self.scrub_every;
        if self.is_bare { Volume::bare(&opening) } else { Volume::open(&opening) }
    }
}

impl Connection {
    fn call(&self, request: Request) -> Result<()> {
        self.service.call(request).map(|_| ()).map_err(|failure| refusal(&failure))
    }
}

impl Server for Connection {
    fn name() -> &'static str {
        "flashwright"
    }

    fn longname() -> Option<&'static str> {
        Some("Flashwright volume")
    }

    fn version() -> Option<&'static str> {
        Some(env!("CARGO_PKG_VERSION"))
    }

    fn description() -> Option<&'static str> {
        Some("A volume that `flashwright volume create` has made, as a block device over NBD.")
    }

    fn config_help() -> Option<&'static str> {
        Some(
            "volume=DEVICE  (required) the device or file with the volume; or memory(bytes=SIZE)\n\
             stack=LAYERS   the stack of a volume in memory, such as log_volume\n\
             staging=DEVICE the staging device, if it is not where it was last\n\
             depth=N        most commands outstanding at the device (128)\n\
             memory=BYTES   most that the volume may take in memory\n\
             bare=yes       serve the device as it is, without a volume on it\n\
             metrics=FILE   what Prometheus' node exporter reads\n\
             metrics_every=S   seconds between two writes of it (10)\n\
             scrub_every=S  seconds from one scrub to the next (0: only when it is asked)\n\
             control=SOCKET where it is asked, for `flashwright volume info` and others\n\
             ready=TEXT     what is written to the log when it is open",
        )
    }

    fn magic_config_key() -> Option<&'static str> {
        Some("volume")
    }

    fn thread_model() -> Result<ThreadModel> {
        Ok(ThreadModel::Parallel)
    }

    fn config(key: &str, value: &str) -> Result<()> {
        let mut held = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = held.get_or_insert_default();
        match key {
            "volume" => settings.device = Some(value.to_owned()),
            "stack" => settings.stack = Some(value.to_owned()),
            "staging" => settings.staging = Some(value.to_owned()),
            "depth" => {
                let depth = value.parse().ok().filter(|depth| (1..=4096).contains(depth));
                let wrong = || wrong(format!("depth={value}: it must be within 1 ... 4096"));
                settings.queue_depth = Some(depth.ok_or_else(wrong)?);
            }
            "memory" => {
                let wrong = || wrong(format!("memory={value}: it must be a number of bytes"));
                settings.memory_bytes = Some(value.parse().map_err(|_| wrong())?);
            }
            "bare" => match value {
                "yes" => settings.is_bare = true,
                "no" => settings.is_bare = false,
                _ => return Err(wrong(format!("bare={value}: it must be yes or no"))),
            },
            "metrics" => {
                let path = std::path::absolute(value);
                let wrong = |error| wrong(format!("metrics={value}: {error}"));
                settings.metrics = Some(path.map_err(wrong)?);
            }
            "metrics_every" => {
                let seconds = value.parse().ok().filter(|every| METRICS_SECONDS.contains(every));
                let wrong =
                    || wrong(format!("metrics_every={value}: it must be within 0.1 ... 86400"));
                settings.metrics_every = Some(Duration::from_secs_f64(seconds.ok_or_else(wrong)?));
            }
            "control" => {
                let path = std::path::absolute(value);
                let wrong = |error| wrong(format!("control={value}: {error}"));
                settings.control = Some(path.map_err(wrong)?);
            }
            "ready" => settings.ready = Some(value.to_owned()),
            "scrub_every" => {
                let wrong = || wrong(format!("scrub_every={value}: it must be seconds, or 0"));
                let seconds: u64 = value.parse().map_err(|_| wrong())?;
                settings.scrub_every = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            other => {
                return Err(wrong(format!(
                    "unknown parameter `{other}`; known are volume, stack, staging, depth, memory, \
                     bare, metrics, metrics_every, scrub_every, control, ready"
                )));
            }
        }
        Ok(())
    }

    fn config_complete() -> Result<()> {
        let settings = settings();
        match &settings.device {
            None => Err(wrong("volume=DEVICE is missing")),
            Some(_) if settings.stack.is_some() && !settings.is_memory() => {
                Err(wrong("stack=... is for volumes in memory; one on a device knows its stack"))
            }
            Some(_) if settings.memory_bytes.is_some() && settings.is_memory() => {
                Err(wrong("memory=... is not for a volume in memory, which takes what it holds"))
            }
            Some(_) => Ok(()),
        }
    }

    /// Checks the volume before the fork, so that the user sees errors on the terminal.
    fn get_ready() -> Result<()> {
        let settings = settings();
        if let Some(device) = settings.device.as_ref().filter(|_| settings.has_volume()) {
            let staging = settings.staging.as_deref();
            match settings.memory_bytes {
                None => servers::about(device, staging).map(|_| ()),
                Some(most) => servers::check_memory(device, staging, most),
            }
            .map_err(|error| wrong(error.to_string()))?;
        }
        Ok(())
    }

    /// Opens the volume after the fork, as threads do not survive it.
    fn after_fork() -> Result<()> {
        let settings = settings();
        let (metrics, control) = (settings.metrics.clone(), settings.control.clone());
        let ready = settings.ready.clone();
        let every = settings.metrics_every.unwrap_or(METRICS_EVERY);
        let service =
            Service::start_straight(move || settings.open()).map_err(|error| failed(&error))?;
        let service = Arc::new(service);
        let metrics = metrics.map(|path| MetricsFile::keep(&service, path, every));
        // Without it the volume cannot be asked, but can be served.
        let control = control.and_then(|path| {
            let kept = Control::keep(&service, path);
            #[allow(clippy::print_stderr, reason = "nbdkit's log")]
            kept.inspect_err(|error| eprintln!("flashwright: note: {error}")).ok()
        });
        let serving = Serving {
            service,
            metrics: metrics.transpose().map_err(|error| failed(&error))?,
            control,
        };
        *SERVING.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving);
        #[allow(clippy::print_stderr, reason = "nbdkit's log")]
        if let Some(text) = ready {
            eprintln!("{text}");
        }
        Ok(())
    }

    fn unload() {
        let serving = SERVING.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(serving) = serving else { return };
        drop(serving.control);
        // It could not write the last values of a volume that is closed.
        drop(serving.metrics);
        let broken = serving.service.figures().and_then(|figures| figures.broken);
        let told = match serving.service.close() {
            Err(error) => format!("the volume was not closed: {error}"),
            Ok(()) => match broken {
                Some(reason) => format!("the volume was closed, and something failed: {reason}"),
                None => return,
            },
        };
        #[allow(clippy::print_stderr, reason = "nbdkit is past taking errors")]
        {
            eprintln!("flashwright: error: {told}");
        }
        // Otherwise nbdkit would end with success.
        std::process::exit(1);
    }

    fn open(is_read_only: bool) -> Result<Box<dyn Server>> {
        let held = SERVING.lock().unwrap_or_else(PoisonError::into_inner);
        let serving = held.as_ref().ok_or_else(|| wrong("the volume is not open"))?;
        Ok(Box::new(Self { service: serving.service.clone(), is_read_only }))
    }

    fn get_size(&self) -> Result<i64> {
        Ok(self.service.capacity_bytes() as i64)
    }

    fn can_write(&self) -> Result<bool> {
        Ok(!self.is_read_only)
    }

    fn can_flush(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_fua(&self) -> Result<FuaFlags> {
        Ok(FuaFlags::Native)
    }

    fn can_trim(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_zero(&self) -> Result<bool> {
        Ok(true)
    }

    /// Zeros that need not be written are fast; others are refused. Without the offer nbdkit 1.32
    /// would end itself if a client asks for it nevertheless.
    fn can_fast_zero(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_extents(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_cache(&self) -> Result<CacheFlags> {
        Ok(CacheFlags::None)
    }

    /// All connections use the same thread: a flush of one covers the writes of the others.
    fn can_multi_conn(&self) -> Result<bool> {
        Ok(true)
    }

    fn is_rotational(&self) -> Result<bool> {
        Ok(false)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.service.read_at(offset, buffer).map_err(|failure| refusal(&failure))
    }

    fn write_at(&self, buffer: &[u8], offset: u64, flags: Flags) -> Result<()> {
        // The protocol has no hint.
        self.service
            .write_at(offset, buffer, flags.contains(Flags::FUA))
            .map_err(|failure| refusal(&failure))
    }

    fn zero(&self, count: u32, offset: u64, flags: Flags) -> Result<()> {
        let is_fast =
            flags.contains(Flags::MAY_TRIM) && self.service.shape().zeroing_bytes.is_some();
        if flags.contains(Flags::FAST_ZERO) && !is_fast {
            return Err(Error::new(libc::ENOTSUP, "zeros take as long as other bytes"));
        }
        let (is_fua, unmaps) = (flags.contains(Flags::FUA), flags.contains(Flags::MAY_TRIM));
        let length = u64::from(count);
        self.call(Request::Zero { offset, length, is_fua, unmaps })
    }

    fn trim(&self, count: u32, offset: u64, flags: Flags) -> Result<()> {
        let is_fua = flags.contains(Flags::FUA);
        self.call(Request::Trim { offset, length: u64::from(count), is_fua })
    }

    fn extents(&self, count: u32, offset: u64, _: Flags, known: &mut ExtentHandle) -> Result<()> {
        let found = self.service.extents(offset, u64::from(count));
        let mut at = offset;
        for extent in found.ok_or_else(|| wrong("the volume is closed"))? {
            let kind = if extent.is_hole { ExtentType::HoleZero } else { ExtentType::Allocated };
            known.add(at, extent.length, kind)?;
            at += extent.length;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.call(Request::Flush)
    }
}

/// The entry point that nbdkit looks for.
#[allow(missing_docs, reason = "the macro makes it")]
mod entry {
    use nbdkit::plugin;

    use super::Connection;

    // All functions of the trait that are implemented above, except those that every plugin has.
    plugin!(Connection {
        after_fork,
        can_cache,
        can_extents,
        can_fast_zero,
        can_flush,
        can_fua,
        can_multi_conn,
        can_trim,
        can_write,
        can_zero,
        config,
        config_complete,
        extents,
        flush,
        get_ready,
        is_rotational,
        thread_model,
        trim,
        unload,
        write_at,
        zero
    });
}
