//! Changes on a device after which its stack can be opened over another size of it.

use block::{BlockDevice, Limits, Part, Store};
use registry::Args;

use super::opening::open_layers;
use super::registered::parse;
use crate::driver::Driver;
use crate::entry::{Addresses, Entry};
use crate::making::Making;
use crate::resize::{Change, Changes, Resizing};
use crate::{Facts, LayerError};

/// Gives the bytes that a stack offers over a device of these limits.
///
/// # Errors
/// [`LayerError`]: also if one of its layers cannot be resized.
pub fn capacity(text: &str, facts: &Facts, seed: u64, limits: Limits) -> Result<u64, LayerError> {
    let layers = parse(text)?;
    let over = |limits, (entry, args): &(&'static Entry, Args)| {
        (entry.limits)(&Making { args, facts, seed }, limits)
    };
    layers.iter().rev().try_fold(limits, over).map(|limits| limits.capacity_bytes)
}

/// Gives the changes on a device after which its stack, which was drained and closed, can be opened
/// over `bytes` of it. Addresses above the stack keep their bytes, up to the end of the shorter
/// size. Until the first change the old volume is intact.
///
/// # Errors
/// [`LayerError`]: also if one of its layers cannot be resized, or not at present.
///
/// # Panics
/// If the device holds no data.
pub fn resize(
    text: &str,
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
    bytes: u64,
) -> Changes {
    let layers = parse(text)?;
    let limits = device.info().limits;
    // Sizes of what is below each layer, from the bottom up.
    let mut sizes = vec![(limits, Limits { capacity_bytes: bytes, ..limits })];
    for (entry, args) in layers.iter().rev() {
        let (making, (old, new)) = (Making { args, facts, seed }, sizes[sizes.len() - 1]);
        sizes.push(((entry.limits)(&making, old)?, (entry.limits)(&making, new)?));
    }
    let mut above = Vec::new();
    for (place, (entry, args)) in layers.iter().enumerate() {
        let (making, below) = (Making { args, facts, seed }, &layers[place + 1..]);
        let (old, new) = sizes[below.len()];
        let is_in_place = below.iter().all(|(entry, _)| entry.addresses == Addresses::Kept);
        let mut resized = |below: &mut Store<'_>| {
            let above = std::mem::take(&mut above);
            (entry.resize)(&making, Resizing { below, old, new, is_in_place, above })
        };
        above = if is_in_place {
            let mut part = Part::new(&mut *device, 0, old.capacity_bytes);
            resized(&mut Store::new(&mut part))?
        } else {
            let stack = open_layers(below, facts, seed, &mut *device)?;
            let mut driver = Driver::new(&mut *device, stack);
            let changes = resized(&mut Store::new(&mut driver));
            driver.settle().map_err(LayerError::Gone)?;
            changes?
        };
    }
    match copied_and_written(&above) {
        None => Ok(above),
        Some(at) => {
            let reason = format!(
                "what is copied from byte {at} on would be written over: take a size that differs \
                 by more"
            );
            Err(LayerError::Refused { layer: layers[0].0.info.name, reason })
        }
    }
}

/// Finds a place that a change copies from and another one writes: such changes could not be
/// repeated.
fn copied_and_written(changes: &[Change]) -> Option<u64> {
    let written: Vec<(u64, u64)> = changes
        .iter()
        .map(|change| match change {
            Change::Zero { at, bytes } => (*at, at + bytes),
            Change::Put { at, data } => (*at, at + data.len() as u64),
            Change::Copy { to, bytes, .. } => (*to, to + bytes),
        })
        .collect();
    let mut copied = changes.iter().filter_map(|change| match change {
        Change::Copy { from, bytes, .. } => Some((*from, from + bytes)),
        Change::Zero { .. } | Change::Put { .. } => None,
    });
    let is_written = |&(from, end): &(u64, u64)| written.iter().any(|&(a, b)| a < end && from < b);
    copied.find(is_written).map(|(from, _)| from)
}
