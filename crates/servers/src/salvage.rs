//! Copying out the rest of a volume, also if it cannot be opened any more.

use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use layers::Driver;
use units::Progress;

use crate::VolumeError;
use crate::check::{Found, over, read_all};
use crate::layout::layers_failed;

/// Result of a salvage.
#[derive(Clone, Debug, PartialEq)]
pub struct Salvaged {
    /// Result of reading the volume. Zeros stand in the image for unreadable bytes.
    pub found: Found,
    /// Notes on missing parts, and on their substitutes; empty if nothing was missing. If there are
    /// any, the last writes may be missing, too.
    pub notes: Vec<String>,
}

/// Copies the content of the volume on a device to a new file, `image`, as far as it can be found:
/// with the map of its log, or, if that is lost or `rebuilds` is set, with one that is made from
/// the segments. The device, and its staging device, which is at `staging` or at its last place,
/// are only read, and must not be in use; the staging device may be missing. The progress counts
/// bytes of the image.
///
/// # Errors
/// [`VolumeError`]: if too little is left, or the file exists already or cannot be written. Then no
/// file is left behind.
pub fn salvage(
    device: &str,
    staging: Option<&str>,
    image: &Path,
    rebuilds: bool,
    progress: &Progress,
) -> Result<Salvaged, VolumeError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(image);
    let file = file.map_err(|error| unwritten(image, &error))?;
    let copied = copy(device, staging, (image, &file), rebuilds, progress);
    if copied.is_err() {
        // This process has made it, and nobody else was told of it.
        let _ = remove_file(image);
    }
    copied
}

fn unwritten(image: &Path, error: &io::Error) -> VolumeError {
    let reason = match error.kind() {
        io::ErrorKind::AlreadyExists => "it is there already: name a file that is not".to_owned(),
        _ => format!("it cannot be written: {error}"),
    };
    VolumeError::Refused { device: image.display().to_string(), reason }
}

fn copy(
    device: &str,
    staging: Option<&str>,
    (image, file): (&Path, &File),
    rebuilds: bool,
    progress: &Progress,
) -> Result<Salvaged, VolumeError> {
    let mut notes = Vec::new();
    let (found, _) = over(device, staging, true, progress, |shown, name, about| {
        let header = &about.header;
        let (facts, seed) = (header.layer_facts(), header.seed);
        let stack = layers::salvage(&header.stack, &facts, seed, shown, rebuilds, &mut notes)
            .map_err(|error| layers_failed(name, error))?;
        let mut driver = Driver::new(shown, stack);
        let found = read_all(&mut driver, about, progress, |at, bytes| {
            // Zeros become holes, which take no room.
            if bytes.iter().all(|&byte| byte == 0) {
                return Ok(());
            }
            file.write_all_at(bytes, at).map_err(|error| unwritten(image, &error))
        })?;
        let whole = file.set_len(found.read_bytes).and_then(|()| file.sync_all());
        whole.map_err(|error| unwritten(image, &error))?;
        Ok(found)
    })?;
    Ok(Salvaged { found, notes })
}

#[cfg(test)]
#[path = "salvage_tests.rs"]
mod tests;
