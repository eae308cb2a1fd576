//! The files of a store: their names, and which there are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::TraceError;

const VOLUME: &str = "volume=";
const TIME: &str = "time=";
const PART: &str = "part-";
const ENDING: &str = ".parquet";

/// A part of a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Number of the window of time.
    pub window: u64,
    /// Number of the part among those of the store.
    pub number: u64,
    /// Its file.
    pub path: PathBuf,
}

/// The folder of a window of a volume.
pub(crate) fn window_folder(store: &Path, volume: u32, window: u64) -> PathBuf {
    store.join(format!("{VOLUME}{volume}")).join(format!("{TIME}{window}"))
}

/// Name of a part.
pub(crate) fn part_name(number: u64) -> String {
    format!("{PART}{number:010}{ENDING}")
}

/// The volume that a folder of a store is of.
pub(crate) fn volume_of(folder: &Path) -> Option<u32> {
    folder.file_name()?.to_str()?.strip_prefix(VOLUME)?.parse().ok()
}

fn window_of(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.strip_prefix(TIME)?.parse().ok()
}

fn number_of(file: &Path) -> Option<u64> {
    let name = file.file_name()?.to_str()?;
    name.strip_prefix(PART)?.strip_suffix(ENDING)?.parse().ok()
}

pub(crate) fn failed<'a>(
    path: &'a Path,
    doing: &'static str,
) -> impl FnOnce(io::Error) -> TraceError + use<'a> {
    move |source| TraceError::Io { path: path.to_owned(), doing, offset: 0, source }
}

/// What lies in a folder, in no order.
pub(crate) fn listed(folder: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let entries = fs::read_dir(folder).map_err(failed(folder, "list"))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<io::Result<_>>().map_err(failed(folder, "list"))
}

/// The parts of a volume, in the order of their windows and numbers.
///
/// # Errors
/// [`TraceError::Io`] if the folder cannot be read, [`TraceError::Unusable`] if it has no parts.
pub fn parts_of(volume: &Path) -> Result<Vec<Part>, TraceError> {
    let mut parts = Vec::new();
    for folder in listed(volume)? {
        let Some(window) = window_of(&folder) else { continue };
        for path in listed(&folder)? {
            if let Some(number) = number_of(&path) {
                parts.push(Part { window, number, path });
            }
        }
    }
    if parts.is_empty() {
        return Err(TraceError::Unusable {
            path: volume.to_owned(),
            reason: "it holds no parts of a volume".to_owned(),
            right: "a folder `volume=N` of a store that `trace split` wrote",
        });
    }
    parts.sort();
    Ok(parts)
}

/// Removes what is no part of a number below `next`: what a split wrote after its last checkpoint.
pub(crate) fn remove_from(store: &Path, next: u64) -> Result<(), TraceError> {
    for volume in listed(store)?.into_iter().filter(|folder| volume_of(folder).is_some()) {
        for window in listed(&volume)?.into_iter().filter(|folder| window_of(folder).is_some()) {
            let mut kept = false;
            for file in listed(&window)? {
                if number_of(&file).is_some_and(|number| number < next) {
                    kept = true;
                } else {
                    fs::remove_file(&file).map_err(failed(&file, "remove"))?;
                }
            }
            if !kept {
                fs::remove_dir(&window).map_err(failed(&window, "remove"))?;
            }
        }
        if listed(&volume)?.is_empty() {
            fs::remove_dir(&volume).map_err(failed(&volume, "remove"))?;
        }
    }
    Ok(())
}
