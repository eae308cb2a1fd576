//! Writes a database to a device before transactions come.

use block::{BlockDevice, BlockError, Command, Completion};
use units::{IoOp, Nanos, Progress};

use crate::PlayError;

/// Bytes of a request, and requests outstanding.
const REQUEST: u64 = 256 << 10;
const DEPTH: u32 = 8;

/// Writes `length` bytes from `offset` on once, in order, and flushes: a database that was just
/// loaded. Takes the device's time; progress counts bytes that are prepared.
///
/// # Errors
/// [`PlayError::Device`], [`PlayError::Cancelled`].
pub fn load(
    device: &mut dyn BlockDevice,
    offset: u64,
    length: u64,
    progress: &Progress,
) -> Result<(), PlayError> {
    let limits = device.info().limits;
    let sector = u64::from(limits.sector_bytes);
    let each = REQUEST.min(u64::from(limits.most_bytes) / sector * sector);
    let end = offset + length.next_multiple_of(sector);
    progress.add_to_prepare(length);
    let depth = DEPTH.min(device.info().queue_depth);
    let (mut next, mut completed, mut number) = (offset, Vec::new(), 0);
    while next < end || device.outstanding() > 0 {
        while next < end && device.outstanding() < depth {
            let bytes = each.min(end - next);
            device.submit(Command::new(number, IoOp::Write, next, bytes as u32));
            (next, number) = (next + bytes, number.wrapping_add(1));
            progress.prepare(bytes)?;
        }
        wait(device, &mut completed)?;
    }
    device.submit(Command::new(number, IoOp::Flush, 0, 0));
    while device.outstanding() > 0 {
        wait(device, &mut completed)?;
    }
    Ok(())
}

/// Waits for a completion. The first failure is returned when nothing is outstanding any more.
fn wait(device: &mut dyn BlockDevice, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
    device.wait(Nanos::MAX, completed)?;
    for completion in completed.drain(..) {
        if let Err(failure) = completion.reply.outcome {
            let name = device.info().name.clone();
            let mut rest = Vec::new();
            while device.outstanding() > 0 {
                device.wait(Nanos::MAX, &mut rest)?;
            }
            return Err(BlockError::Failed { name, failure });
        }
    }
    Ok(())
}
