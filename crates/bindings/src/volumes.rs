//! Volumes: made, looked at, served.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::servers::fuse::{self, Mounted};
use ::servers::ublk::{self, Attached};
use ::servers::{
    About, Control, Creating, Found, Header, MetricsFile, Opening, Request, Resizing, Role,
    Salvaged, Service, Staging, VolumeError, VolumeMemory, prometheus, scrub_json,
};
use bytes::Bytes;
use layers::Memory;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use units::Lifetime;

use crate::errors;
use crate::layers::facts_of;
use crate::numbers;
use crate::progress::{self, Progress};
use crate::values::object;

fn volume_error(error: VolumeError) -> PyErr {
    match error {
        VolumeError::Device(devices::DeviceError::Cancelled(cancelled)) => {
            errors::cancelled(cancelled)
        }
        error if error.is_wrong_use() => errors::input_error(error),
        error => errors::run_error(error),
    }
}

fn header_dict<'py>(py: Python<'py>, header: &Header) -> PyResult<Bound<'py, PyDict>> {
    let pair = header.pair.as_ref();
    let role = pair.map(|pair| match pair.role {
        Role::Homes => "homes",
        Role::Staging => "staging",
    });
    Ok(dict!(py,
        "uuid": header.uuid.to_string(),
        "stack": &header.stack,
        "is_clean": header.is_clean,
        "openings": header.openings,
        "generation": header.generation,
        "sector_bytes": header.sector_bytes,
        "made_on_bytes": header.device_bytes,
        "data_offset": header.data_offset,
        "data_bytes": header.data_bytes,
        "seed": header.seed,
        "created_unix_s": header.created_unix_s,
        "scrubbed_unix_s": header.scrubbed_unix_s,
        "facts": header.facts_text(),
        "role": role,
        "other_device": pair.map(|pair| &pair.other)))
}

fn about_dict<'py>(py: Python<'py>, about: &About) -> PyResult<Bound<'py, PyDict>> {
    let memory = about.memory.as_ref().map(|memory| memory_dict(py, memory));
    Ok(dict!(in header_dict(py, &about.header)?,
        "device_bytes": about.device_bytes,
        "notes": &about.notes,
        "user": &about.user,
        "staging": object(py, &about.staging)?,
        "memory": memory.transpose()?))
}

fn memory_dict<'py>(py: Python<'py>, memory: &VolumeMemory) -> PyResult<Bound<'py, PyDict>> {
    let of = |(name, memory): &(&'static str, Memory)| {
        (*name, memory.table_bytes, memory.held_bytes, memory.opening_bytes)
    };
    let layers = memory.layers.as_ref();
    Ok(dict!(py,
        "layers": layers.ok().map(|all| all.layers.iter().map(of).collect::<Vec<_>>()),
        "problem": layers.err(),
        "device_bytes": memory.device_bytes,
        "request_bytes": memory.request_bytes,
        "most_bytes": memory.most_bytes()))
}

/// Makes a volume with this stack of layers on a device, and closes it again: its header as a dict,
/// and `capacity_bytes`. `destroy` allows what the device holds to be lost. With `staging` the area
/// of a layer lies on that device, and `destroy_staging` allows what it holds to be lost. Raises
/// InputError, RunError.
#[pyfunction]
#[pyo3(signature = (
    device, stack, *, facts=None, seed=1, destroy=false, staging=None, destroy_staging=false
))]
pub fn create_volume<'py>(
    py: Python<'py>,
    device: &str,
    stack: &str,
    facts: Option<&Bound<'_, PyDict>>,
    #[pyo3(from_py_with = numbers::seed)] seed: u64,
    destroy: bool,
    staging: Option<String>,
    destroy_staging: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let creating = Creating {
        device: device.to_owned(),
        stack: stack.to_owned(),
        facts: facts_of(facts)?,
        seed,
        destroys: destroy,
        staging: staging.map(|device| Staging { device, destroys: destroy_staging }),
    };
    let made = py.detach(|| {
        let volume = ::servers::Volume::create(&creating)?;
        let capacity_bytes = volume.capacity_bytes();
        Ok((volume.close_to_header()?, capacity_bytes))
    });
    let (header, capacity_bytes) = made.map_err(volume_error)?;
    Ok(dict!(in header_dict(py, &header)?, "capacity_bytes": capacity_bytes))
}

/// Describes the volume on a device, which is only read. Gives a dict: the header of the volume,
/// `device_bytes`, and `notes` on oddities; `staging`, on its staging device, which is at `staging`
/// or where it was last: a dict with `device`, `device_bytes`, `data_bytes` and `problem`;
/// `memory`, on the most memory that it takes, in bytes: a dict with `layers`, a list of (name,
/// tables, held, opening) or None with the reason in `problem`, `device_bytes`, `request_bytes` and
/// `most_bytes`; and `user`, who uses it now, or None. Raises InputError if there is no volume.
#[pyfunction]
#[pyo3(signature = (device, *, staging=None))]
pub fn volume_about<'py>(
    py: Python<'py>,
    device: &str,
    staging: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let about = py.detach(|| ::servers::about(device, staging)).map_err(volume_error)?;
    about_dict(py, &about)
}

/// Checks that the volume on a device, with its staging device at `staging` or where it was last,
/// can be opened with so many bytes of memory. Raises InputError, in one line, if it may need more.
#[pyfunction]
#[pyo3(signature = (device, memory, *, staging=None))]
pub fn check_volume_memory(
    py: Python<'_>,
    device: &str,
    #[pyo3(from_py_with = numbers::memory)] memory: u64,
    staging: Option<&str>,
) -> PyResult<()> {
    py.detach(|| ::servers::check_memory(device, staging, memory)).map_err(volume_error)
}

/// Lays out the area of the volume on a device on another, in place of the one that it has, there
/// or on a third. `lose` allows what is on a staging device alone to be lost, if the volume was not
/// closed; `destroy` what the new device holds. Returns its header as a dict. Raises InputError,
/// RunError.
#[pyfunction]
#[pyo3(signature = (device, staging, *, lose=false, destroy=false))]
pub fn restage_volume<'py>(
    py: Python<'py>,
    device: &str,
    staging: &str,
    lose: bool,
    destroy: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let staging = Staging { device: staging.to_owned(), destroys: destroy };
    let header = py.detach(|| ::servers::restage(device, &staging, lose)).map_err(volume_error)?;
    header_dict(py, &header)
}

/// Takes the staging device of the volume on a device away, which is at `staging` or where it was
/// last: all of it lies on its own device then. `lose` allows what is on the staging device alone
/// to be lost, if that cannot be opened. Returns its header as a dict, and a dict `staging`:
/// `device`, and `problem`, why that has its headers still. Raises InputError, RunError.
#[pyfunction]
#[pyo3(signature = (device, *, staging=None, lose=false))]
pub fn unstage_volume<'py>(
    py: Python<'py>,
    device: &str,
    staging: Option<&str>,
    lose: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let taken = py.detach(|| ::servers::unstage(device, staging, lose)).map_err(volume_error)?;
    Ok(dict!(in header_dict(py, &taken.header)?,
        "staging": dict!(py, "device": taken.device, "problem": taken.problem)))
}

/// Gives the volume on a device, which was closed, another UUID, as a copy of a volume needs it;
/// its staging device, which is at `staging` or where it was last, gets it, too. Returns its header
/// as a dict, and `before`, the UUID that it had. Raises InputError, RunError.
#[pyfunction]
#[pyo3(signature = (device, *, staging=None))]
pub fn renew_volume<'py>(
    py: Python<'py>,
    device: &str,
    staging: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let renewed = py.detach(|| ::servers::new_uuid(device, staging)).map_err(volume_error)?;
    Ok(dict!(in header_dict(py, &renewed.header)?, "before": renewed.before.to_string()))
}

/// Overwrites both headers of the volume on a device. Raises InputError if there is none.
#[pyfunction]
pub fn destroy_volume<'py>(py: Python<'py>, device: &str) -> PyResult<Bound<'py, PyDict>> {
    let about = py.detach(|| ::servers::destroy(device)).map_err(volume_error)?;
    about_dict(py, &about)
}

/// Opens the volume on a device in memory and reads all of it; nothing is written to the device, or
/// to its staging device (at `staging`, or where it was last).
/// A dict: `about`, `recovery_sectors`, `read_bytes`, `bad_bytes`, `bad`, a list of (first byte,
/// bytes, reason), and `files`, a list of (name, bytes) if it holds files of SQLite. The progress
/// counts bytes. Raises InputError, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (device, *, staging=None, progress=None))]
pub fn check_volume<'py>(
    py: Python<'py>,
    device: &str,
    staging: Option<&str>,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let progress = progress::shared(progress);
    let found = py.detach(|| ::servers::check(device, staging, &progress)).map_err(volume_error)?;
    let Found { about, recovery_sectors, read_bytes, bad_bytes, bad, files } = found;
    let files = files.map(|found| {
        let of = |file: servers::files::FileFound| (file.name, file.bytes);
        found.files.into_iter().map(of).collect::<Vec<_>>()
    });
    Ok(dict!(py,
        "about": about_dict(py, &about)?, "recovery_sectors": recovery_sectors,
        "read_bytes": read_bytes, "bad_bytes": bad_bytes, "bad": bad, "files": files))
}

/// Copies what the users of the volume on a device have to a new file, as far as it can be found:
/// with `rebuild`, or where its map is gone, by what the segments of its log say. A dict: `about`,
/// `image_bytes`, `bad_bytes`, `bad` (first byte, length, why; zeros in the file), `is_rebuilt`
/// (the newest data may be missing), `notes`. The
/// progress counts bytes. Raises InputError, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (device, image, *, staging=None, rebuild=false, progress=None))]
pub fn salvage_volume<'py>(
    py: Python<'py>,
    device: &str,
    image: PathBuf,
    staging: Option<&str>,
    rebuild: bool,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let progress = progress::shared(progress);
    let salvaged = py
        .detach(|| ::servers::salvage(device, staging, &image, rebuild, &progress))
        .map_err(volume_error)?;
    let Salvaged { found, notes } = salvaged;
    Ok(dict!(py,
        "about": about_dict(py, &found.about)?, "image_bytes": found.read_bytes,
        "bad_bytes": found.bad_bytes, "bad": found.bad, "is_rebuilt": !notes.is_empty(),
        "notes": notes))
}

/// Gives the volume on a device another size, a multiple of 4096, or all that the device has; a
/// file becomes larger or smaller with it. `destroy` allows what lies beyond the new end to be
/// lost. Its header as a dict, `before_bytes` and `capacity_bytes`. The progress counts bytes that
/// are read to see whether they hold anything. Raises InputError, RunError, Cancelled.
#[pyfunction]
#[pyo3(signature = (device, size=None, *, destroy=false, progress=None))]
pub fn resize_volume<'py>(
    py: Python<'py>,
    device: &str,
    #[pyo3(from_py_with = numbers::optional_size)] size: Option<u64>,
    destroy: bool,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let progress = progress::shared(progress);
    let wanted = Resizing { device: device.to_owned(), size_bytes: size, destroys: destroy };
    let resized = py.detach(|| ::servers::resize(&wanted, &progress)).map_err(volume_error)?;
    Ok(dict!(in header_dict(py, &resized.header)?,
        "before_bytes": resized.before_bytes, "capacity_bytes": resized.capacity_bytes))
}

/// Makes a file of this size, a multiple of 4096, with room for all of it. Raises InputError
/// if there is one already, or no room.
#[pyfunction]
pub fn allocate_file(
    py: Python<'_>,
    path: PathBuf,
    #[pyo3(from_py_with = numbers::bytes)] bytes: u64,
) -> PyResult<()> {
    py.detach(|| devices::allocate_file(&path, bytes)).map_err(crate::devices::device_error)
}

/// Tells why a device or a file is needed, by the headers on it and on the device that it belongs
/// to; None if nothing that is durable names it.
#[pyfunction]
pub fn device_needed(py: Python<'_>, device: &str) -> Option<String> {
    py.detach(|| ::servers::needed(device))
}

/// Checks that nothing speaks against writing to a device now, without keeping it: that it is not
/// in use, and of an emulated drive that there is such a profile. Raises InputError.
#[pyfunction]
pub fn check_free(py: Python<'_>, device: &str) -> PyResult<()> {
    let check = || match ::devices::emulated_parts(device)? {
        Some(_) => ::devices::check_emulated(device),
        None => {
            let mut opening = ::devices::Opening::new(device, ::devices::Access::DestroyData);
            (opening.queue_depth, opening.most_bytes) = (1, 1 << 16);
            ::devices::open(&opening).map(|_| ())
        }
    };
    py.detach(check).map_err(crate::devices::device_error)
}

/// Names the parts of an emulated drive: its profile, and the file of its data or None. None if
/// this names something else. Raises InputError if it has parameters that no such drive has.
#[pyfunction]
pub fn emulated_parts(device: &str) -> PyResult<Option<(String, Option<String>)>> {
    ::devices::emulated_parts(device).map_err(crate::devices::device_error)
}

/// Checks that the kernel has ublk and that we may use it. Raises InputError with what is missing,
/// in one line.
#[pyfunction]
pub fn check_ublk() -> PyResult<()> {
    ublk::check().map_err(volume_error)
}

/// Takes away the device of ublk by this number that the process `server` left, which is gone.
/// Returns true if there was one. Raises RunError.
#[pyfunction]
pub fn remove_left_ublk(
    py: Python<'_>,
    #[pyo3(from_py_with = numbers::device_number)] number: u32,
    server: i32,
) -> PyResult<bool> {
    py.detach(|| ublk::remove_left(number, server)).map_err(errors::run_error)
}

/// A volume that is open, at work on a thread of its own. Any thread may use it.
#[pyclass(frozen, module = "flashwright._core")]
pub struct Volume {
    service: Arc<Service>,
    mounted: Mutex<Vec<Mounted>>,
    attached: Mutex<Vec<Attached>>,
    metrics: Mutex<Vec<MetricsFile>>,
    control: Mutex<Option<Control>>,
}

impl Volume {
    fn call<'py>(&self, py: Python<'py>, request: Request) -> PyResult<Bound<'py, PyBytes>> {
        let data = py.detach(|| self.service.call(request)).map_err(errors::run_error)?;
        Ok(PyBytes::new(py, &data.joined().unwrap_or_default()))
    }
}

#[pymethods]
impl Volume {
    /// Opens the volume on a device, with at most `queue_depth` commands outstanding there. It is
    /// recovered if it was not closed. With `bare` the device is taken as it is, without header or
    /// layers: an emulated drive. `staging` says where its staging device is, if that is not where
    /// it was last. `memory` is the most that the volume may take in memory, in bytes: it is not
    /// opened if it may need more. `scrub_every_s` seconds after a scrub the next begins by itself;
    /// 0 for only when that is asked. Raises InputError, RunError.
    #[new]
    #[pyo3(signature = (
        device, *, queue_depth=128, bare=false, staging=None, memory=None, scrub_every_s=0
    ))]
    fn new(
        py: Python<'_>,
        device: &str,
        #[pyo3(from_py_with = numbers::queue_depth)] queue_depth: u32,
        bare: bool,
        staging: Option<String>,
        #[pyo3(from_py_with = numbers::optional_memory)] memory: Option<u64>,
        #[pyo3(from_py_with = numbers::scrub_every_s)] scrub_every_s: u64,
    ) -> PyResult<Self> {
        let opening = Opening {
            device: device.to_owned(),
            queue_depth,
            staging,
            memory_bytes: memory,
            scrub_every: (scrub_every_s > 0).then(|| Duration::from_secs(scrub_every_s)),
        };
        let open = move || match bare {
            true => ::servers::Volume::bare(&opening),
            false => ::servers::Volume::open(&opening),
        };
        let service = py.detach(|| Service::start(open));
        let service = Arc::new(service.map_err(volume_error)?);
        Ok(Self {
            service,
            mounted: Mutex::default(),
            attached: Mutex::default(),
            metrics: Mutex::default(),
            control: Mutex::default(),
        })
    }

    /// Its header as a dict, `capacity_bytes` and `notes` on what was odd.
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Ok(dict!(in header_dict(py, self.service.header())?,
            "capacity_bytes": self.service.capacity_bytes(),
            "notes": self.service.notes(),
            "memory": memory_dict(py, self.service.memory())?))
    }

    /// Reads any bytes. Raises RunError.
    fn read<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = numbers::offset)] offset: u64,
        #[pyo3(from_py_with = numbers::short_length)] length: u32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.call(py, Request::Read { offset, length })
    }

    /// Writes any bytes; with `fua` they are durable when it returns. `lifetime` is how long they
    /// are expected to live: none (nobody says), short, medium, long or extreme. Raises InputError,
    /// RunError.
    #[pyo3(signature = (offset, data, *, fua=false, lifetime="none"))]
    fn write(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = numbers::offset)] offset: u64,
        data: &[u8],
        fua: bool,
        lifetime: &str,
    ) -> PyResult<()> {
        let lifetime = Lifetime::of_name(lifetime).ok_or_else(|| {
            let known = Lifetime::ALL.map(Lifetime::name).join(", ");
            errors::input_error(format!("lifetime `{lifetime}`: it must be one of {known}"))
        })?;
        let data = Bytes::copy_from_slice(data);
        self.call(py, Request::Write { offset, data, is_fua: fua, lifetime }).map(|_| ())
    }

    /// Writes zeros. Raises RunError.
    fn zero(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = numbers::offset)] offset: u64,
        #[pyo3(from_py_with = numbers::length)] length: u64,
    ) -> PyResult<()> {
        let request = Request::Zero { offset, length, is_fua: false, unmaps: true };
        self.call(py, request).map(|_| ())
    }

    /// Tells that bytes are not needed any more. Raises RunError.
    fn trim(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = numbers::offset)] offset: u64,
        #[pyo3(from_py_with = numbers::length)] length: u64,
    ) -> PyResult<()> {
        self.call(py, Request::Trim { offset, length, is_fua: false }).map(|_| ())
    }

    /// Makes durable all that was written before. Raises RunError.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, Request::Flush).map(|_| ())
    }

    /// Gives the counters since the volume was opened, in the format of Prometheus. Raises RunError
    /// once it is closed.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        let figures = py.detach(|| self.service.figures());
        figures
            .map(|figures| prometheus(&figures))
            .ok_or_else(|| errors::run_error("the volume was closed"))
    }

    /// Gives the first failure that makes the volume unusable; None if there was none.
    fn broken(&self, py: Python<'_>) -> Option<String> {
        let unserved = {
            let attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
            attached.iter().find_map(Attached::failure)
        };
        match py.detach(|| self.service.figures()) {
            Some(figures) => figures.broken.or(unserved),
            None => Some("the volume was closed".to_owned()),
        }
    }

    /// Keeps a file of metrics, written every `every_s` seconds until the volume is closed. Raises
    /// RunError.
    fn keep_metrics(&self, py: Python<'_>, path: PathBuf, every_s: f64) -> PyResult<()> {
        let every = Duration::try_from_secs_f64(every_s.max(0.01)).map_err(|_| {
            errors::input_error(format!("every_s {every_s}: it must be a number of seconds"))
        })?;
        let kept = py.detach(|| MetricsFile::keep(&self.service, path, every));
        let kept = kept.map_err(volume_error)?;
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        Ok(())
    }

    /// Begins to read all that has checksums, in time that nobody else wants; with `begin=False`
    /// nothing begins. Returns the progress as the JSON that the control socket gives. Raises
    /// RunError once the volume is closed.
    #[pyo3(signature = (*, begin=true))]
    fn scrub(&self, py: Python<'_>, begin: bool) -> PyResult<String> {
        let figures = py.detach(|| match begin {
            true => self.service.scrub(),
            false => self.service.scrub_figures(),
        });
        figures
            .map(|figures| scrub_json(&figures).to_string())
            .ok_or_else(|| errors::run_error("the volume was closed"))
    }

    /// Answers on a Unix socket at this path, for its owner alone, until the volume is closed.
    /// Raises RunError.
    fn keep_control(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let kept = py.detach(|| Control::keep(&self.service, path)).map_err(volume_error)?;
        *self.control.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        Ok(())
    }

    /// Puts the volume as a file by the name of `volume` into an empty directory (FUSE), until it
    /// is closed. Raises RunError.
    fn mount(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        let mounted = py.detach(|| fuse::mount(self.service.clone(), &directory));
        let mounted = mounted.map_err(volume_error)?;
        self.mounted.lock().unwrap_or_else(PoisonError::into_inner).push(mounted);
        Ok(())
    }

    /// Makes a block device of the volume (ublk), until it is closed: its path. With `read_only` it
    /// takes no writes. Raises InputError without ublk, RunError.
    #[pyo3(signature = (*, read_only=false))]
    fn attach_ublk(&self, py: Python<'_>, read_only: bool) -> PyResult<String> {
        let attached = py.detach(|| ublk::attach(self.service.clone(), read_only));
        let attached = attached.map_err(volume_error)?;
        let path = attached.path().display().to_string();
        self.attached.lock().unwrap_or_else(PoisonError::into_inner).push(attached);
        Ok(path)
    }

    /// Takes file and block device away, writes back all that is held back, and marks the volume
    /// clean. Raises RunError.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        fn take<T>(held: &Mutex<Vec<T>>) -> Vec<T> {
            std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner))
        }
        let (mounted, attached) = (take(&self.mounted), take(&self.attached));
        let service = self.service.clone();
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let control = self.control.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| {
            drop(control);
            // What is still asked through file and block device has to come to its end first.
            let unmounted = mounted.into_iter().map(Mounted::unmount);
            let detached = attached.into_iter().map(Attached::detach);
            let gone: Result<Vec<()>, _> = unmounted.chain(detached).collect();
            let closed = service.close().map_err(volume_error);
            closed.and(gone.map(|_| ()).map_err(errors::run_error))
        })
    }
}
