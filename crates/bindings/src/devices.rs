//! Block devices: simulated ones, and whatever a spec names.

use std::sync::{Mutex, MutexGuard, TryLockError};

use ::block::{BlockDevice, DeviceInfo, WithData};
use ::devices::{Access, DeviceError, Opening, Simulated, SimulatedSettings};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::drive::array::ArrayReads;
use ssd::drive::profile;

use crate::array::config_of;
use crate::drive::state_of;
use crate::errors;
use crate::progress::{self, Progress};

/// An open block device, for one user at a time.
#[pyclass(frozen, module = "flashwright._core")]
pub struct Device {
    info: DeviceInfo,
    device: Mutex<Box<dyn BlockDevice>>,
}

impl Device {
    fn new(device: Box<dyn BlockDevice>) -> Self {
        Self { info: device.info().clone(), device: Mutex::new(device) }
    }

    /// Gives the description of the device.
    #[must_use]
    pub fn about(&self) -> &DeviceInfo {
        &self.info
    }

    /// The device itself, until the guard goes.
    ///
    /// # Errors
    /// RunError if somebody else has it, or a bug ended its last use in the middle.
    pub fn lock(&self) -> PyResult<MutexGuard<'_, Box<dyn BlockDevice>>> {
        self.device.try_lock().map_err(|error| {
            let reason = match error {
                TryLockError::WouldBlock => "it is in use by another thread",
                TryLockError::Poisoned(_) => "its last use ended in the middle; open it again",
            };
            errors::run_error(format!("device `{}`: {reason}", self.info.name))
        })
    }
}

#[pymethods]
impl Device {
    /// Description of the device: name, model, kind (block_device, file, memory, simulated),
    /// capacity_bytes, sector_bytes, queue_depth, most_bytes, is_read_only, has_trim, is_virtual,
    /// holds_data.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let DeviceInfo { name, model, kind, limits, queue_depth, .. } = &self.info;
        Ok(dict!(py,
            "name": name, "model": model, "kind": kind.name(),
            "capacity_bytes": limits.capacity_bytes,
            "sector_bytes": limits.sector_bytes,
            "queue_depth": queue_depth,
            "most_bytes": limits.most_bytes,
            "is_read_only": self.info.is_read_only,
            "has_trim": self.info.has_trim,
            "is_virtual": self.info.is_virtual,
            "holds_data": self.info.holds_data))
    }
}

/// A device that cannot be opened is wrong use.
pub fn device_error(error: DeviceError) -> PyErr {
    match error {
        DeviceError::Cancelled(cancelled) => errors::cancelled(cancelled),
        DeviceError::Spec { .. }
        | DeviceError::Open { .. }
        | DeviceError::Refused { .. }
        | DeviceError::InUse { .. }
        | DeviceError::Simulated { .. } => errors::input_error(error),
    }
}

/// Makes a simulated drive of the TOML of a device profile, with `data` one that brings what was
/// written, from memory. `name` is what it is called in results; `state` is the drive before the
/// first request: "fresh", "filled", or "aged" (filled, then `overwrites` times its pages written
/// at random). With `array`, one of `variants("array")`, it is so many `drives` as one, each in
/// that state, of which the drive `missing`, from 0, may be taken away if there is parity. Progress
/// counts page writes of getting there. Raises InputError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    profile, *, name=None, state="filled", overwrites=2.0, seed=1, data=false, array=None, drives=1,
    missing=None, progress=None
))]
pub fn simulated_device(
    py: Python<'_>,
    profile: &str,
    name: Option<&str>,
    state: &str,
    overwrites: f64,
    seed: u64,
    data: bool,
    array: Option<&str>,
    drives: u32,
    missing: Option<u32>,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Device> {
    if array.is_none() && drives != 1 {
        return Err(errors::input_error(format!(
            "drives is {drives}: several need an array, such as raid5"
        )));
    }
    if state == "loaded" {
        return Err(errors::input_error(
            "state is `loaded`: without requests to load for it must be fresh, filled or aged",
        ));
    }
    let profile = profile::parse(profile, "the profile").map_err(errors::input_error)?;
    let settings = SimulatedSettings { state: state_of(state, overwrites, 0)?, seed };
    let name = name.unwrap_or(&profile.name);
    let progress = progress::shared(progress);
    let config = array.map(|array| config_of(drives, array, ArrayReads::Home, missing));
    let config = config.transpose()?;
    let made = py.detach(|| match &config {
        Some(config) => Simulated::array(name, &profile, config, settings, &progress),
        None => Simulated::new(name, &profile, settings, &progress),
    });
    let made = made.map_err(device_error)?;
    Ok(Device::new(if data { Box::new(WithData::new(made)) } else { Box::new(made) }))
}

/// Opens a device by its spec: the path of a block device or file, or
/// `memory(bytes=1Gi,sector=512)`.
///
/// `access` is what may be done to it: "read_only"; "write", which is refused if it is in use or
/// holds data; or "destroy_data", which is refused only if it is in use. Data is looked for in the
/// region of `region_bytes` (to the device's end if left out) at `region_offset`: nothing else may
/// be written then. `polled` asks for completions instead of waiting for interrupts, where the
/// kernel allows it; the model says if not. With `data` writes bring bytes and reads give them
/// back; otherwise the device is only measured. At most `queue_depth` requests, 1 ... 4096, of at
/// most `most_bytes`, up to 64 MiB, are outstanding. Progress counts bytes in which data was looked
/// for. Raises InputError, Cancelled.
#[pyfunction]
#[pyo3(signature = (
    spec, *, access="read_only", polled=false, queue_depth=256, most_bytes=1 << 20, region_offset=0,
    region_bytes=None, data=false, progress=None
))]
pub fn open_device(
    py: Python<'_>,
    spec: &str,
    access: &str,
    polled: bool,
    queue_depth: u32,
    most_bytes: u32,
    region_offset: u64,
    region_bytes: Option<u64>,
    data: bool,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Device> {
    let access = match access {
        "read_only" => Access::ReadOnly,
        "write" => Access::Write,
        "destroy_data" => Access::DestroyData,
        other => {
            return Err(errors::input_error(format!(
                "access is `{other}`: it must be read_only, write or destroy_data"
            )));
        }
    };
    let region = Some(
        region_offset..region_bytes.map_or(u64::MAX, |length| region_offset.saturating_add(length)),
    );
    let opening = Opening {
        polled,
        queue_depth,
        most_bytes,
        region,
        holds_data: data,
        ..Opening::new(spec, access)
    };
    let progress = progress::shared(progress);
    let opened = py.detach(|| ::devices::open_watched(&opening, &progress));
    Ok(Device::new(opened.map_err(device_error)?))
}

/// Makes a file of so many bytes, all written with data that cannot be compressed, to be probed:
/// holes would be read without touching the flash. Progress counts bytes. Raises InputError if it
/// exists already or there is no space, Cancelled.
#[pyfunction]
#[pyo3(signature = (path, size_bytes, progress=None))]
pub fn create_file(
    py: Python<'_>,
    path: std::path::PathBuf,
    size_bytes: u64,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<()> {
    let progress = progress::shared(progress);
    progress.set_total(size_bytes);
    py.detach(|| ::devices::create_file(&path, size_bytes, &progress)).map_err(device_error)
}
