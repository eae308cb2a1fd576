//! Metrics of a volume in a file for Prometheus' node exporter (its textfile collector): no port is
//! opened.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::{Service, VolumeError, prometheus};

/// Beginning of every file of metrics.
const BEGINNING: &[u8] = b"# HELP flashwright_";

/// A file that is replaced now and then, as long as this lives. It keeps its last content.
pub struct MetricsFile {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsFile {
    /// Writes the file now and every so often. Readers see the old or the new one, never a part.
    ///
    /// # Errors
    /// [`VolumeError::Refused`] if something else is there, [`VolumeError::System`] if it cannot be
    /// written now. Later failures are tried again.
    pub fn keep(
        service: &Arc<Service>,
        path: PathBuf,
        every: Duration,
    ) -> Result<Self, VolumeError> {
        let failed = |source| VolumeError::System {
            action: format!("writing metrics to {}", path.display()),
            source,
        };
        if let Some(what) = somebodys(&path).map_err(failed)? {
            let reason = format!(
                "it {what}, and would be lost: name a new file for the metrics, or one of metrics"
            );
            return Err(VolumeError::Refused { device: path.display().to_string(), reason });
        }
        write(service, &path).map_err(failed)?;
        let (stop, stopped) = mpsc::channel();
        let weak = Arc::downgrade(service);
        let work = move || {
            loop {
                let is_last = stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout);
                let Some(service) = Weak::upgrade(&weak) else { return };
                let _ = write(&service, &path);
                if is_last {
                    return;
                }
            }
        };
        let name = "flashwright-metrics".to_owned();
        let thread = thread::Builder::new().name(name).spawn(work).map_err(|source| {
            VolumeError::System { action: "starting a thread".to_owned(), source }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MetricsFile {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Tells why a file must not be replaced: only a file of metrics may be, or an empty one. The rule
/// for all other files that are written is in `python/flashwright/outputs.py`.
fn somebodys(path: &Path) -> io::Result<Option<&'static str>> {
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        about => about?,
    };
    if !about.is_file() {
        return Ok(Some("is no regular file"));
    }
    if about.permissions().readonly() {
        return Ok(Some("is read-only"));
    }
    let mut beginning = Vec::new();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    file.take(BEGINNING.len() as u64).read_to_end(&mut beginning)?;
    let is_ours = beginning.is_empty() || beginning == BEGINNING;
    Ok((!is_ours).then_some("holds something else than metrics"))
}

/// Writes a new file beside it, under a name that cannot be guessed, so that nothing is written
/// through a link.
fn write(service: &Service, path: &Path) -> io::Result<()> {
    let Some(figures) = service.figures() else { return Ok(()) };
    if somebodys(path)?.is_some() {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}.new", RandomState::new().hash_one(path)));
    let other = PathBuf::from(name);
    let mut file = File::create_new(&other)?;
    let written = file
        .write_all(prometheus(&figures).as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&other, path));
    if written.is_err() {
        let _ = fs::remove_file(&other);
    }
    written
}

#[cfg(test)]
mod tests {
    use layers::Facts;

    use super::*;
    use crate::{Creating, Volume};

    fn served() -> Arc<Service> {
        let creating = Creating {
            device: "memory(bytes=8Mi)".to_owned(),
            stack: "direct".to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: false,
            staging: None,
        };
        Arc::new(Service::start(move || Volume::create(&creating)).unwrap())
    }

    #[test]
    fn the_file_keeps_its_last_values() {
        let service = served();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume.prom");
        let kept = MetricsFile::keep(&service, path.clone(), Duration::from_secs(3600)).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(BEGINNING));
        let writes = |count| {
            let text = fs::read_to_string(&path).unwrap();
            let is_it = |line: &str| {
                line.starts_with("flashwright_volume_requests_total{")
                    && line.ends_with(&format!("op=\"write\"}} {count}"))
            };
            text.lines().any(is_it)
        };
        assert!(writes(0));
        let (data, lifetime) = (vec![7; 4096].into(), crate::Lifetime::default());
        let request = crate::Request::Write { offset: 0, data, is_fua: false, lifetime };
        service.call(request).unwrap();
        drop(kept);
        assert!(writes(1), "{}", fs::read_to_string(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        MetricsFile::keep(&service, path, Duration::from_secs(3600)).unwrap();
        let nowhere = folder.path().join("none/volume.prom");
        let error = MetricsFile::keep(&service, nowhere, Duration::from_secs(1)).err().unwrap();
        assert!(error.to_string().contains("none/volume.prom"), "{error}");
    }

    #[test]
    fn nothing_but_metrics_is_replaced() {
        let service = served();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("notes"), "what I know").unwrap();
        fs::write(at("read-only"), BEGINNING).unwrap();
        let mut mode = fs::metadata(at("read-only")).unwrap().permissions();
        mode.set_readonly(true);
        fs::set_permissions(at("read-only"), mode).unwrap();
        std::os::unix::fs::symlink(at("notes"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for name in ["notes", "read-only", "link", "dangling", "folder"] {
            let every = Duration::from_secs(3600);
            let error = MetricsFile::keep(&service, at(name), every).err().unwrap();
            assert!(error.is_wrong_use(), "{name}: {error}");
            assert!(error.to_string().contains("would be lost"), "{name}: {error}");
        }
        assert_eq!(fs::read_to_string(at("notes")).unwrap(), "what I know");
        assert!(!at("nowhere").exists());
        // This was once the name of the new file: a link there leads to no other file.
        std::os::unix::fs::symlink(at("notes"), at("volume.prom.new")).unwrap();
        MetricsFile::keep(&service, at("volume.prom"), Duration::from_secs(3600)).unwrap();
        assert_eq!(fs::read_to_string(at("notes")).unwrap(), "what I know");
    }
}
