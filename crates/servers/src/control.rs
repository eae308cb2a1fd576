//! A Unix socket beside a volume that is served, on which its owner asks for its state, or lets it
//! do something: `docs/volumes.md`, "Asking a volume that is served".

use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use crate::{ScrubFigures, Service, VolumeError, prometheus};

/// Longest time in which a client asks, and in which it takes the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause after a client could not be accepted for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Name of the note, beside the socket, that the starter of this process writes, with its `pid`. A
/// program that becomes nbdkit cannot remove it itself.
const NOTE: &str = "served.json";
/// Longest question, its end included.
const MOST_ASKED: usize = 64;

/// Server of the socket, which answers as long as this lives. Then the socket is removed, and the
/// note of this process beside it (`served.json`) with their folder, if nothing else is in that.
pub struct Control {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl Control {
    /// Answers at this path, which is for its owner alone. The folder has to be closed to others
    /// already. The socket of a dead server is removed.
    ///
    /// # Errors
    /// [`VolumeError::System`]: also if something else is there, or a server listens. The note of
    /// this process is removed then.
    pub fn keep(service: &Arc<Service>, path: PathBuf) -> Result<Self, VolumeError> {
        let begun = begin(service, &path).map_err(|source| VolumeError::System {
            action: format!("making the socket {}", path.display()),
            source,
        });
        let (stop, thread) = begun.inspect_err(|_| remove_note(&path))?;
        Ok(Self { stop: Some(stop), thread: Some(thread), path })
    }
}

fn begin(service: &Arc<Service>, path: &Path) -> io::Result<(UnixStream, JoinHandle<()>)> {
    let (stop, stopped) = UnixStream::pair()?;
    let listener = listen(path)?;
    let weak = Arc::downgrade(service);
    let thread = thread::Builder::new()
        .name("flashwright-control".to_owned())
        .spawn(move || serve(&listener, &stopped, &weak))?;
    Ok((stop, thread))
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
        remove_note(&self.path);
    }
}

/// Removes the note of this process beside a socket, and their folder if nothing else is in it.
fn remove_note(socket: &Path) {
    let Some(folder) = socket.parent() else { return };
    let note = folder.join(NOTE);
    let noted = fs::read(&note).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    if noted.is_some_and(|noted| noted["pid"] == process::id()) {
        let _ = fs::remove_file(note);
        let _ = fs::remove_dir(folder);
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let found = fs::symlink_metadata(path).ok();
    if found.is_some_and(|found| found.file_type().is_socket())
        && let Err(error) = UnixStream::connect(path)
        && error.kind() == io::ErrorKind::ConnectionRefused
    {
        fs::remove_file(path)?;
    }
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
        let Ok((client, _)) = listener.accept() else {
            thread::sleep(PAUSE);
            continue;
        };
        let Some(service) = Weak::upgrade(service) else { return };
        // A client that does not take its answer gets none.
        let _ = answer(client, &service);
    }
}

fn answer(mut client: UnixStream, service: &Service) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_write_timeout(Some(PATIENCE))?;
    let end = Instant::now() + PATIENCE;
    let mut asked = Vec::new();
    while asked.len() < MOST_ASKED && asked.last() != Some(&b'\n') {
        let left = end.saturating_duration_since(Instant::now());
        // A timeout of zero is an error of this call.
        client.set_read_timeout(Some(left))?;
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

/// Gives the progress of reading all that has checksums, as the socket answers.
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
                "unread_pages": one.state.unread_pages,
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
        // A killed server leaves such a socket.
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
        fs::write(path.with_file_name(NOTE), json!({ "pid": process::id() }).to_string()).unwrap();
        drop(control);
        assert!(!path.parent().unwrap().exists() && folder.path().exists());
    }

    #[test]
    fn nothing_of_others_is_removed() {
        let (service, folder, path, control) = kept();
        let held = folder.path().join("held");
        fs::write(&held, "all that there is").unwrap();
        assert!(Control::keep(&service, held.clone()).is_err());
        assert_eq!(fs::read(&held).unwrap(), b"all that there is");
        assert!(Control::keep(&service, path.clone()).is_err(), "somebody listens there");
        assert!(ask(&path, b"scrub?\n").contains("is_on"));
        let note = path.with_file_name(NOTE);
        fs::write(&note, json!({ "pid": 1 }).to_string()).unwrap();
        drop(control);
        assert!(note.exists() && !path.exists());
    }

    /// A client that connects and sends nothing, or a byte now and then, delays others only
    /// briefly.
    #[test]
    fn who_does_not_come_to_an_end_is_not_waited_for() {
        let (_service, _folder, path, _control) = kept();
        let silent = UnixStream::connect(&path).unwrap();
        let mut slow = UnixStream::connect(&path).unwrap();
        let dripping = thread::spawn(move || {
            let mut sent = 0;
            while slow.write_all(b"s").is_ok() {
                thread::sleep(PATIENCE / 4);
                sent += 1;
            }
            sent
        });
        assert!(ask(&path, b"scrub?\n").contains("is_on"));
        assert!(dripping.join().unwrap() < MOST_ASKED, "each byte had its time");
        drop(silent);
    }
}
