//! A Unix socket beside a volume that is served, on which its owner asks how it is doing, or lets it
//! do something: `docs/volumes.md`, "Asking a volume that is served".

use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use crate::{ScrubFigures, Service, VolumeError, prometheus};

/// How long a client may take to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// What whoever started the server notes of it, beside the socket. A program that becomes nbdkit
/// cannot take it away itself.
const NOTE: &str = "served.json";
/// Longest question, its end included.
const MOST_ASKED: usize = 64;

/// Answers as long as this lives. Then the socket is removed, the note beside it (`served.json`), and
/// their folder if nothing else is in it.
pub struct Control {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl Control {
    /// Answers at this path, which belongs to its owner alone. The folder has to be closed to others
    /// already. What a server that is gone left there is taken away.
    ///
    /// # Errors
    /// [`VolumeError::System`].
    pub fn keep(service: &Arc<Service>, path: PathBuf) -> Result<Self, VolumeError> {
        let failed = |source| VolumeError::System {
            action: format!("making the socket {}", path.display()),
            source,
        };
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let listener = listen(&path).map_err(failed)?;
        let weak = Arc::downgrade(service);
        let thread = thread::Builder::new()
            .name("flashwright-control".to_owned())
            .spawn(move || serve(&listener, &stopped, &weak))
            .map_err(failed)?;
        Ok(Self { stop: Some(stop), thread: Some(thread), path })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            let _ = fs::remove_file(folder.join(NOTE));
            let _ = fs::remove_dir(folder);
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn serve(listener: &UnixListener, stopped: &UnixStream, service: &Weak<Service>) {
    loop {
        let mut waits = [PollFd::new(stopped, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        if poll(&mut waits, None).is_err() {
            continue;
        }
        if !waits[0].revents().is_empty() {
            return;
        }
        let Ok((client, _)) = listener.accept() else { continue };
        let Some(service) = Weak::upgrade(service) else { return };
        // Who does not take its answer does without.
        let _ = answer(client, &service);
    }
}

fn answer(mut client: UnixStream, service: &Service) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut asked = Vec::new();
    while asked.len() < MOST_ASKED && asked.last() != Some(&b'\n') {
        let mut byte = [0];
        if client.read(&mut byte)? == 0 {
            break;
        }
        asked.extend(byte);
    }
    let of_scrub = |figures: Option<ScrubFigures>| {
        figures.map_or_else(|| wrong("the volume is closed"), |figures| scrub_json(&figures))
    };
    let text = match asked.as_slice() {
        b"scrub\n" => of_scrub(service.scrub()).to_string(),
        b"scrub?\n" => of_scrub(service.scrub_figures()).to_string(),
        b"metrics\n" => match service.figures() {
            Some(figures) => prometheus(&figures),
            None => wrong("the volume is closed").to_string(),
        },
        _ => wrong("known are `scrub`, `scrub?` and `metrics`, each on a line").to_string(),
    };
    client.write_all(text.as_bytes())
}

fn wrong(what: &str) -> Value {
    json!({ "error": what })
}

/// How far a volume is with reading all that has checksums, as the socket tells it.
#[must_use]
pub fn scrub_json(figures: &ScrubFigures) -> Value {
    let layers: Vec<Value> = figures
        .layers
        .iter()
        .map(|one| {
            json!({
                "level": one.level,
                "layer": one.layer,
                "pages_left": one.state.pages_left,
                "pages_read": one.state.pages_read,
                "page_bytes": one.state.page_bytes,
                "bad_pages": one.state.bad_pages,
                "bad": one.bad,
            })
        })
        .collect();
    json!({
        "is_on": figures.is_on,
        "passes": figures.passes,
        "last_unix_s": figures.last_unix_s,
        "layers": layers,
        "broken": figures.broken,
    })
}

#[cfg(test)]
mod tests {
    use layers::Facts;
    use tempfile::TempDir;

    use super::*;
    use crate::{Creating, Volume};

    fn kept() -> (Arc<Service>, TempDir, PathBuf, Control) {
        let creating = Creating {
            device: "memory(bytes=8Mi)".to_owned(),
            stack: "log_volume(segment=64Ki)".to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: false,
            staging: None,
        };
        let service = Arc::new(Service::start(move || Volume::create(&creating)).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/control.sock");
        fs::create_dir(path.parent().unwrap()).unwrap();
        // What a server that was killed leaves.
        drop(UnixListener::bind(&path).unwrap());
        let control = Control::keep(&service, path.clone()).unwrap();
        (service, folder, path, control)
    }

    fn ask(path: &Path, what: &[u8]) -> String {
        let mut client = UnixStream::connect(path).unwrap();
        client.write_all(what).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn its_owner_asks_and_nobody_else() {
        let (service, folder, path, control) = kept();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(ask(&path, b"metrics\n").contains("flashwright_volume_scrubs_total"));
        let answer: Value = serde_json::from_str(&ask(&path, b"scrub\n")).unwrap();
        assert_eq!(answer["layers"][0]["layer"], "log_volume");
        for odd in [&b"reboot\n"[..], &[b'x'; MOST_ASKED], b"\xff\n", b"\n"] {
            assert!(ask(&path, odd).contains("known are"), "{odd:?}");
        }
        service.close().unwrap();
        assert!(ask(&path, b"scrub?\n").contains("the volume is closed"));
        fs::write(path.with_file_name(NOTE), "{}").unwrap();
        drop(control);
        assert!(!path.parent().unwrap().exists() && folder.path().exists());
    }

    /// Who connects and says nothing, or does not take the answer, holds nobody up for long.
    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let (_service, _folder, path, _control) = kept();
        let silent = UnixStream::connect(&path).unwrap();
        drop(UnixStream::connect(&path).unwrap());
        assert!(ask(&path, b"scrub?\n").contains("is_on"));
        drop(silent);
    }
}
