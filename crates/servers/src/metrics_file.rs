//! What a volume has done, in a file for Prometheus' node exporter (its textfile collector):
//! nothing listens anywhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::{Service, VolumeError, prometheus};

/// A file that is replaced now and then, as long as this lives. At the end it is removed, as what
/// stands in it is not true any more.
pub struct MetricsFile {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl MetricsFile {
    /// Writes the file now and every so often. Readers see the old or the new one, never a part.
    ///
    /// # Errors
    /// [`VolumeError::System`] if it cannot be written now. What fails later is tried again.
    pub fn keep(
        service: &Arc<Service>,
        path: PathBuf,
        every: Duration,
    ) -> Result<Self, VolumeError> {
        let failed = |source| VolumeError::System {
            action: format!("writing metrics to {}", path.display()),
            source,
        };
        write(service, &path).map_err(failed)?;
        let (stop, stopped) = mpsc::channel();
        let (weak, place) = (Arc::downgrade(service), path.clone());
        let work = move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(service) = Weak::upgrade(&weak) else { return };
                let _ = write(&service, &place);
            }
        };
        let name = "flashwright-metrics".to_owned();
        let thread = thread::Builder::new().name(name).spawn(work).map_err(|source| {
            VolumeError::System { action: "starting a thread".to_owned(), source }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread), path })
    }
}

impl Drop for MetricsFile {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn write(service: &Service, path: &Path) -> io::Result<()> {
    let Some(figures) = service.figures() else { return Ok(()) };
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let other = PathBuf::from(name);
    fs::write(&other, prometheus(&figures))?;
    fs::rename(&other, path)
}

#[cfg(test)]
mod tests {
    use layers::Facts;

    use super::*;
    use crate::{Creating, Volume};

    #[test]
    fn the_file_is_there_as_long_as_it_is_kept() {
        let creating = Creating {
            device: "memory(bytes=8Mi)".to_owned(),
            stack: "direct".to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: false,
            staging: None,
        };
        let service = Arc::new(Service::start(move || Volume::create(&creating)).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume.prom");
        let kept = MetricsFile::keep(&service, path.clone(), Duration::from_millis(1)).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("flashwright_volume_capacity_bytes"));
        drop(kept);
        assert!(!path.exists());
        let nowhere = folder.path().join("none/volume.prom");
        let error = MetricsFile::keep(&service, nowhere, Duration::from_secs(1)).err().unwrap();
        assert!(error.to_string().contains("none/volume.prom"), "{error}");
    }
}
