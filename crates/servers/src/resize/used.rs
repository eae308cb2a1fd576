//! Up to where a volume holds something.

use block::Store;
use units::{Cancelled, Progress};

use crate::changes::STEP_BYTES;
use crate::volume::Volume;
use crate::{VolumeError, files};

/// The end of what a volume holds beyond `from`; at most `from` if nothing is there. What reads as
/// zeros is nothing, and what cannot be read is something. If what lies there `may_go`, only files
/// of SQLite count, which say themselves where they end.
///
/// # Errors
/// [`VolumeError`] if the progress was cancelled.
pub fn bytes(
    volume: &mut Volume,
    from: u64,
    may_go: bool,
    progress: &Progress,
) -> Result<u64, VolumeError> {
    let capacity = volume.capacity_bytes();
    let (sector, owner) = (volume.header().sector_bytes, *volume.header().uuid.as_bytes());
    let mut read = |at: u64, to: &mut [u8]| Store::new(volume.device()).read(at, to);
    let of_files = files::end(capacity, sector, owner, &mut read).ok().flatten().unwrap_or(0);
    if may_go {
        return Ok(of_files);
    }
    progress.set_total(capacity.saturating_sub(from));
    let mut end = capacity;
    let mut bytes = vec![0; STEP_BYTES as usize];
    while end > from {
        let start = end.saturating_sub(STEP_BYTES).max(from);
        let bytes = &mut bytes[..(end - start) as usize];
        let held = match read(start, bytes) {
            Ok(()) => bytes.iter().rposition(|&byte| byte != 0).map(|last| start + last as u64 + 1),
            Err(_) => Some(end),
        };
        if let Some(held) = held {
            return Ok(held.max(of_files));
        }
        progress
            .advance(end - start)
            .map_err(|Cancelled| devices::DeviceError::Cancelled(Cancelled))?;
        end = start;
    }
    Ok(of_files)
}
