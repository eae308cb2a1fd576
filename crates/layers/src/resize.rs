//! Another size of what is below: each layer says what has to change there, so that it finds all
//! that it holds when it is opened over the other size.
//!
//! Everything is at home first: the stack was drained and closed. A layer may then write what its
//! present form does not look at, and names [`Change`]s for the rest. Whoever resizes notes them
//! durably, makes them, and makes them again after a crash: nothing that one change reads is
//! written by another, so that all of them may be made any number of times, in their order.

use block::{BlockDevice, Part, Store};
use registry::Args;

use crate::registered::{Addresses, Entry, Making, open_layers, parse};
use crate::{Driver, Facts, LayerError, Limits};

/// Something that has to become of bytes, which are whole sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// They become zero.
    Zero {
        /// First byte.
        at: u64,
        /// How many.
        bytes: u64,
    },
    /// They become these.
    Put {
        /// First byte.
        at: u64,
        /// What is there then.
        data: Vec<u8>,
    },
    /// They become what lies elsewhere, where no change writes.
    Copy {
        /// First byte that is read.
        from: u64,
        /// First byte that is written.
        to: u64,
        /// How many.
        bytes: u64,
    },
}

/// What a layer is asked.
pub struct Resizing<'a, 'b> {
    /// What is below, of its old size.
    pub below: &'a mut Store<'b>,
    /// What may be asked of it now.
    pub old: Limits,
    /// What may be asked of it then.
    pub new: Limits,
    /// Whether what is below lies at the same bytes of the device, so that it is that: else it is
    /// the layers below, opened.
    pub is_in_place: bool,
    /// What the layers above want changed of what this one gives them.
    pub above: Vec<Change>,
}

/// What of the bytes below has to change, for a layer and for all above it.
pub type Changes = Result<Vec<Change>, LayerError>;

/// Bytes that a stack gives whoever is above it, over a device of these limits.
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

/// What has to change on a device, on which a stack was drained and closed, so that it can be
/// opened over `bytes` of it instead of all. What the stack gives keeps its bytes, up to the end of
/// the shorter of both. Until the first change the device holds what it held.
///
/// # Errors
/// [`LayerError`]: also if one of its layers cannot be resized, or cannot be so now.
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
    // Of what is below each layer, from the bottom up.
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

/// Where a change copies from what another one writes: they could not be made twice.
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
