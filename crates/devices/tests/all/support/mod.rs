//! Files, loop devices and mounts of tests, which go again whatever happens.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test program uses a part; a test may panic"
)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use block::{BlockDevice, BlockError, Completion};
use devices::{Access, DeviceError, Opening};
use tempfile::TempDir;
use units::{IoOp, Nanos};

/// A folder on the file system of the build, as the one for temporary files may be in memory.
pub fn folder() -> TempDir {
    tempfile::Builder::new().prefix("devices-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub fn file_of(folder: &TempDir, name: &str, bytes: u64) -> PathBuf {
    let path = folder.path().join(name);
    File::create_new(&path).unwrap().set_len(bytes).unwrap();
    path
}

/// Returns true if a test may go on that needs this; in CI a missing need is an error.
pub fn has(is_there: bool, what: &str) -> bool {
    assert!(is_there || std::env::var_os("CI").is_none(), "CI lacks {what}");
    if !is_there {
        eprintln!("skipped: no {what}");
    }
    is_there
}

pub fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let done =
        Command::new(program).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    } else {
        Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr).trim()))
    }
}

/// A loop device over a file; it is detached at the end.
pub struct Loop {
    pub path: String,
    detached: bool,
}

impl Loop {
    /// `None` where loop devices cannot be made, which is said.
    pub fn over(file: &Path, options: &[&str]) -> Option<Self> {
        let file = file.to_str().unwrap();
        let args: Vec<&str> = ["--find", "--show", "--direct-io=on"]
            .iter()
            .chain(options)
            .chain([&file])
            .copied()
            .collect();
        match run("losetup", &args) {
            Ok(path) => Some(Self { path, detached: false }),
            Err(error) => {
                has(false, &format!("loop devices ({error})"));
                None
            }
        }
    }

    pub fn detach(&mut self) {
        run("losetup", &["--detach", &self.path]).unwrap();
        self.detached = true;
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if !self.detached {
            let _ = run("losetup", &["--detach", &self.path]);
        }
    }
}

/// A mounted device; it is unmounted at the end.
pub struct Mount {
    pub folder: PathBuf,
}

impl Mount {
    pub fn of(device: &str, folder: &Path, options: &str) -> Result<Self, String> {
        std::fs::create_dir_all(folder).unwrap();
        run("mount", &["-o", options, device, folder.to_str().unwrap()])
            .map(|_| Self { folder: folder.to_owned() })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run("umount", &[self.folder.to_str().unwrap()]);
    }
}

pub fn opening(path: impl AsRef<Path>, access: Access) -> Opening {
    Opening { queue_depth: 32, ..Opening::new(path.as_ref().to_str().unwrap(), access) }
}

pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Box<dyn BlockDevice>, DeviceError> {
    devices::open(&opening(path, access))
}

/// The one line in which opening is refused.
pub fn refusal(path: impl AsRef<Path>, access: Access) -> String {
    match open(path, access) {
        Ok(device) => panic!("{} is opened", device.info().name),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains('\n'));
            text
        }
    }
}

pub fn request(op: IoOp, offset: u64, length: u32, id: u32) -> block::Command {
    block::Command::new(id, op, offset, length)
}

/// The first command that failed, as whoever measures tells of it.
pub fn failed(device: &dyn BlockDevice, completed: &[Completion]) -> Result<(), BlockError> {
    let failure = completed.iter().find_map(|done| done.reply.outcome.clone().err());
    failure.map_or(Ok(()), |failure| {
        Err(BlockError::Failed { name: device.info().name.clone(), failure })
    })
}

pub fn wait_for_all(device: &mut dyn BlockDevice) -> Result<Vec<Completion>, BlockError> {
    let mut completed = Vec::new();
    while device.outstanding() > 0 {
        device.wait(Nanos::MAX, &mut completed)?;
    }
    failed(device, &completed)?;
    Ok(completed)
}

pub fn do_one(
    device: &mut dyn BlockDevice,
    op: IoOp,
    offset: u64,
    length: u32,
) -> Result<Completion, BlockError> {
    device.submit(request(op, offset, length, 7));
    let mut done = wait_for_all(device)?;
    assert_eq!((done.len(), done[0].reply.id), (1, 7));
    Ok(done.remove(0))
}

/// Keeps 16 commands outstanding over the whole device, for ever or until it fails or so many are
/// done. `each` is told of the number done.
pub fn keep_busy(
    device: &mut dyn BlockDevice,
    op: IoOp,
    most: u64,
    mut each: impl FnMut(u64),
) -> (u64, Result<(), BlockError>) {
    let (mut sent, mut done, mut completed) = (0_u64, 0_u64, Vec::new());
    let places = device.info().limits.capacity_bytes / 4096;
    while done < most {
        while device.outstanding() < 16 && sent < most {
            // Odd: all places, in an order that is not theirs.
            let offset = sent.wrapping_mul(7_919) % places * 4096;
            device.submit(request(op, offset, 4096, sent as u32));
            sent += 1;
        }
        let waited =
            device.wait(Nanos::MAX, &mut completed).and_then(|()| failed(device, &completed));
        done += completed.drain(..).filter(|one| one.reply.outcome.is_ok()).count() as u64;
        each(done);
        if let Err(error) = waited {
            return (done, Err(error));
        }
    }
    (done, Ok(()))
}
