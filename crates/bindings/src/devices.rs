//! Block devices: simulated ones, and whatever a spec names.

use std::sync::{Mutex, MutexGuard, TryLockError};

use ::devices::{BlockDevice, DeviceError, DeviceInfo, Simulated, SimulatedSettings};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::drive::profile;

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

    /// What it is.
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
    /// What it is: name, model, kind (block_device, file, memory, simulated), capacity_bytes, sector_bytes, queue_depth, most_bytes,
    /// is_read_only, has_trim, is_virtual.
    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let DeviceInfo { name, model, kind, capacity_bytes, sector_bytes, queue_depth, most_bytes, .. } = &self.info;
        let dict = PyDict::new(py);
        dict.set_item("name", name)?;
        dict.set_item("model", model)?;
        dict.set_item("kind", kind.name())?;
        dict.set_item("capacity_bytes", capacity_bytes)?;
        dict.set_item("sector_bytes", sector_bytes)?;
        dict.set_item("queue_depth", queue_depth)?;
        dict.set_item("most_bytes", most_bytes)?;
        dict.set_item("is_read_only", self.info.is_read_only)?;
        dict.set_item("has_trim", self.info.has_trim)?;
        dict.set_item("is_virtual", self.info.is_virtual)?;
        Ok(dict)
    }

    /// Nanoseconds on the device's clock since it was opened.
    fn now_ns(&self) -> PyResult<u64> {
        Ok(self.lock()?.now())
    }
}

/// A device that does not do what was asked of it is a failed run; all else is wrong use.
pub fn device_error(error: DeviceError) -> PyErr {
    match error {
        DeviceError::Request { .. } => errors::run_error(error),
        DeviceError::Spec { .. } | DeviceError::Open { .. } | DeviceError::Refused { .. } | DeviceError::Simulated { .. } => {
            errors::input_error(error)
        }
    }
}

/// Makes a simulated drive of the TOML of a device profile. `name` is what it is called in results; `state` is the drive before the first
/// request: "fresh", "filled", or "aged" (filled, then `overwrites` times its pages written at random). Progress counts page writes of getting
/// there. Raises InputError, Cancelled.
#[pyfunction]
#[pyo3(signature = (profile, *, name=None, state="filled", overwrites=2.0, seed=1, progress=None))]
fn simulated_device(
    py: Python<'_>,
    profile: &str,
    name: Option<&str>,
    state: &str,
    overwrites: f64,
    seed: u64,
    progress: Option<&Bound<'_, Progress>>,
) -> PyResult<Device> {
    if state == "loaded" {
        return Err(errors::input_error("state is `loaded`: without requests to load for it must be fresh, filled or aged"));
    }
    let profile = profile::parse(profile, "the profile").map_err(errors::input_error)?;
    let settings = SimulatedSettings { state: state_of(state, overwrites, 0)?, seed };
    let name = name.unwrap_or(&profile.name);
    let progress = progress::shared(progress);
    let made = py.detach(|| Simulated::new(name, &profile, settings, &progress));
    // Making it fails in words only; whether it was asked to stop, the progress knows.
    progress.advance(0).map_err(errors::cancelled)?;
    Ok(Device::new(Box::new(made.map_err(device_error)?)))
}

/// Adds the class and the functions to the module.
///
/// # Errors
/// Whatever Python raises.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Device>()?;
    module.add_function(wrap_pyfunction!(simulated_device, module)?)
}
