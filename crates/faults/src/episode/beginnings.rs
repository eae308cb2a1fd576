//! Beginning of a volume's life: it is made, perhaps not at the first attempt, and its content is
//! checked.

use block::Store;
use layers::{Driver, Stack};

use crate::{CrashDevices, Dice, Subject, Value, Wrong};

/// Cuts the power while a volume is made: whatever is left must be opened or refused, and can be
/// formatted.
pub(super) fn cut_while_formatting(
    subject: &Subject,
    dice: &mut Dice,
    seed: u64,
    device: &mut CrashDevices,
) {
    let writes = dice.pick(&[4, 40]);
    device.stop_after(Some(dice.below(writes) as u64));
    let _ = subject.format(seed, device);
    let loss = device.draw_loss();
    device.cut(&loss);
    let _ = subject.open(seed, device);
}

/// Judges a volume that was just made: it must hold zeros, or what the device holds in the same
/// place, and nothing that another volume kept elsewhere.
pub(super) fn judge_new(
    subject: &Subject,
    device: &mut CrashDevices,
    values: &[Value],
) -> Result<(), Wrong> {
    // Replicas lie between the homes of pages: those hold what was there before, as a partition's
    // sectors do.
    if ["filled=yes", "replicas"].iter().any(|word| subject.to_string().contains(word)) {
        return Ok(());
    }
    let mut bytes = vec![0; subject.sector_bytes as usize];
    for (number, value) in values.iter().enumerate().filter(|(_, value)| **value != Value::ZEROS) {
        let read =
            Store::new(device).read(number as u64 * u64::from(subject.sector_bytes), &mut bytes);
        if read.is_err() || Value::read(number as u64, &bytes) != *value {
            return Err(Wrong(format!("sector {number}: {value}, on a volume that was just made")));
        }
    }
    Ok(())
}

/// Overwrites what another volume left at the ends of pages; returns true if there was any. A layer
/// that keeps its headers there wants those bytes zero, and makes them so when a part of a page is
/// written.
pub(super) fn write_over_ends(
    subject: &Subject,
    stack: &mut Stack,
    device: &mut CrashDevices,
    bytes: &[u8],
    number: u64,
) -> Result<bool, Wrong> {
    let (size, tail) = (subject.sector_bytes as usize, subject.tail_bytes as usize);
    let mut driver = Driver::new(device, stack);
    let mut store = Store::new(&mut driver);
    let mut is_any = false;
    for (sector, held) in bytes.chunks_exact(size).enumerate() {
        if held[size - tail..].iter().any(|&byte| byte != 0) {
            let mut written = vec![0; size];
            Value::of_write(number).fill(sector as u64, tail, &mut written);
            store
                .write((sector * size) as u64, &written)
                .map_err(|failure| Wrong(format!("cannot be written: {failure}")))?;
            is_any = true;
        }
    }
    if is_any {
        store.flush().map_err(|failure| Wrong(format!("cannot be flushed: {failure}")))?;
        driver.settle().map_err(|error| Wrong(error.to_string()))?;
    }
    Ok(is_any)
}
