//! Volumes that this process has open, one for all of its connections: opened with the first file,
//! closed with the last.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use block::{Command, Data, Failure};
use bytes::Bytes;
use devices::DeviceError;
use servers::files::{Batch, File, Files, Medium};
use servers::{Opening, Service, Volume, VolumeError};
use units::{IoOp, Lifetime};

use crate::locks::Shared;
use crate::problem::Problem;
use crate::sqlite3::{BUSY, CANTOPEN, IOERR_CLOSE};

/// A volume that is open.
pub struct Mount {
    device: String,
    /// Id of the process that opened it.
    process: u32,
    service: Arc<Service>,
    pub files: Files,
    shared: Mutex<HashMap<String, Weak<Shared>>>,
}

/// Volumes by device, each with the number of its open files.
type Mounts = HashMap<String, (Arc<Mount>, usize)>;

static MOUNTS: Mutex<Option<Mounts>> = Mutex::new(None);

fn mounts() -> MutexGuard<'static, Option<Mounts>> {
    MOUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives one name for each device, as far as that can be known.
pub fn canonical(device: &str) -> String {
    let device = device.trim();
    if device.contains('(') {
        // It is not a path but an emulated drive.
        return device.to_owned();
    }
    let path = std::fs::canonicalize(device).or_else(|_| std::path::absolute(Path::new(device)));
    path.ok().and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| device.to_owned())
}

/// Reason why a forked process can do nothing.
const FORKED: &str = "another process has the volume open, and this one was forked from it; a \
                      volume is used by one process: fork first, then open";

/// Service that fails in a forked process: a volume's thread is not there to answer.
struct Here {
    service: Arc<Service>,
    process: u32,
}

impl Here {
    fn check(&self, command: &Command) -> Result<(), Failure> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(command.failed(FORKED))
    }
}

impl Medium for Here {
    fn capacity_bytes(&self) -> u64 {
        Medium::capacity_bytes(&*self.service)
    }

    fn sector_bytes(&self) -> u32 {
        self.service.sector_bytes()
    }

    fn owner(&self) -> [u8; 16] {
        self.service.owner()
    }

    fn read(&self, offset: u64, length: u32) -> Result<Data, Failure> {
        self.check(&Command::new(0, IoOp::Read, offset, length))?;
        self.service.read(offset, length)
    }

    fn write(&self, offset: u64, data: Bytes, lifetime: Lifetime, batch: &Arc<Batch>) {
        match self.check(&Command::write(0, offset, Data::Whole(data.clone()))) {
            Ok(()) => self.service.write(offset, data, lifetime, batch),
            Err(failure) => {
                batch.begin();
                batch.end(Err(failure));
            }
        }
    }

    fn settle(&self, batch: &Batch) -> Result<(), Failure> {
        self.check(&Command::new(0, IoOp::Write, 0, 0))?;
        self.service.settle(batch)
    }

    fn flush(&self) -> Result<(), Failure> {
        self.check(&Command::new(0, IoOp::Flush, 0, 0))?;
        self.service.flush()
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.check(&Command::new(0, IoOp::Trim, offset, 0))?;
        self.service.trim(offset, length)
    }
}

impl Mount {
    fn open(device: &str, makes: bool) -> Result<Self, Problem> {
        let opening = Opening::new(device);
        let service = Service::start(move || Volume::open(&opening));
        let service = Arc::new(service.map_err(|error| of_volume(&error))?);
        let process = std::process::id();
        let here = Here { service: service.clone(), process };
        match Files::open(Arc::new(here), makes) {
            Ok(files) => {
                let shared = Mutex::default();
                Ok(Self { device: device.to_owned(), process, service, files, shared })
            }
            Err(error) => {
                service.close().map_err(|error| of_volume(&error))?;
                Err(Problem::of(&error, CANTOPEN, device))
            }
        }
    }

    /// Gives the path by which SQLite knows a file.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.device)
    }

    /// Gives the notes on damage of the volume and its files.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let notes = self.service.notes().iter().chain(self.files.notes());
        notes.map(|note| format!("{}: {note}", self.device))
    }

    /// Gives a counter of the volume's layers, summed over all.
    #[cfg(test)]
    pub fn layer_count(&self, name: &str) -> u64 {
        let figures = self.service.figures().expect("it is open");
        let of_name = figures.layers.iter().filter(|figure| figure.name == name);
        of_name.map(|figure| figure.value).sum()
    }

    /// Gives the state that the connections of a database share.
    pub fn shared(&self, name: &str) -> Arc<Shared> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = shared.get(name).and_then(Weak::upgrade) {
            return shared;
        }
        shared.retain(|_, held| held.strong_count() > 0);
        let new = Arc::new(Shared::default());
        shared.insert(name.to_owned(), Arc::downgrade(&new));
        new
    }

    /// Returns true in a process that was forked after the volume was opened: the volume's thread
    /// is not there, so that nothing of the volume can be used.
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    fn close(&self) -> Result<(), Problem> {
        if self.is_forked() {
            return Ok(());
        }
        let files = self.files.close();
        let service = self.service.close();
        files.map_err(|error| Problem::of(&error, IOERR_CLOSE, &self.device))?;
        service.map_err(|error| Problem::new(IOERR_CLOSE, error.to_string()))
    }
}

/// Gives the problem for an error of opening a volume.
fn of_volume(error: &VolumeError) -> Problem {
    // A volume in another process is not wrong, it is busy.
    let is_busy = matches!(error, VolumeError::Device(DeviceError::InUse { .. }));
    Problem::new(if is_busy { BUSY } else { CANTOPEN }, error.to_string())
}

/// Opens a file on a volume, and the volume if it is not open.
///
/// # Errors
/// [`Problem`].
pub fn open(device: &str, name: &str, makes: bool) -> Result<(Arc<Mount>, Arc<File>), Problem> {
    let mut held = mounts();
    let held = held.get_or_insert_default();
    if let Some((mount, count)) = held.get_mut(device) {
        if mount.is_forked() {
            return Err(Problem::new(CANTOPEN, format!("{device}: {FORKED}")));
        }
        let file = mount.files.open_file(name, makes);
        let file = file.map_err(|error| Problem::of(&error, CANTOPEN, &mount.path(name)))?;
        *count += 1;
        return Ok((mount.clone(), file));
    }
    let mount = Arc::new(Mount::open(device, makes)?);
    match mount.files.open_file(name, makes) {
        Ok(file) => {
            held.insert(device.to_owned(), (mount.clone(), 1));
            Ok((mount, file))
        }
        Err(error) => {
            let problem = Problem::of(&error, CANTOPEN, &mount.path(name));
            mount.close()?;
            Err(problem)
        }
    }
}

/// Gives the volume of a device, if it is open.
pub fn find(device: &str) -> Option<Arc<Mount>> {
    mounts().as_ref()?.get(device).map(|(mount, _)| mount.clone())
}

/// Ends an opening; with the last one the volume is closed.
///
/// # Errors
/// [`Problem`] if something that was written, and not synced, is lost.
pub fn close(mount: &Mount, file: &File) -> Result<(), Problem> {
    let mut held = mounts();
    let Some(held) = held.as_mut() else { return Ok(()) };
    let closed = mount.files.close_file(file);
    let closed = closed.map_err(|error| Problem::of(&error, IOERR_CLOSE, &mount.device));
    let Some((_, count)) = held.get_mut(&mount.device) else { return closed };
    *count -= 1;
    if *count > 0 {
        return closed;
    }
    held.remove(&mount.device);
    closed.and(mount.close())
}
