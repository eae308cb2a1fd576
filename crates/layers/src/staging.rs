//! The staging area of a stack on a device of its own, or on that of the pages: laid out empty, in
//! another place than before. What is above it keeps its bytes.

use block::{BlockDevice, Limits, Store};
use registry::Args;

use crate::registered::{Entry, Making, Work, build, parse};
use crate::{Addresses, Driver, Facts, LayerError, stable_buffer};

pub(crate) fn no_staging() -> LayerError {
    let reason = "a staging device is of use to this layer alone, and it is not in the stack";
    LayerError::Refused { layer: stable_buffer::ENTRY.info.name, reason: reason.to_owned() }
}

/// Which layer, counted from the bottom, may have its staging area on a second device.
///
/// # Errors
/// [`LayerError::Refused`] if no layer stages anything, or one below it moves addresses.
pub(crate) fn level(layers: &[(&'static Entry, Args)]) -> Result<usize, LayerError> {
    let mut from_bottom = layers.iter().rev().map(|(entry, _)| entry);
    let level = layers.iter().rev().position(|(entry, _)| entry.addresses == Addresses::Staged);
    let level = level.ok_or_else(no_staging)?;
    match from_bottom.by_ref().take(level).find(|entry| entry.addresses != Addresses::Kept) {
        None => Ok(level),
        Some(below) => Err(LayerError::Refused {
            layer: below.info.name,
            reason: "it lies below a staging area and puts bytes elsewhere, so that the area \
                     cannot lie on a device of its own: put stable_buffer at the bottom, or over \
                     nothing but schedulers"
                .to_owned(),
        }),
    }
}

/// Writes an empty staging area, of the layer that has it on a device of its own or may have it
/// there, and leaves everything else as it is: for an area that takes the place of another. What
/// was only in the other is lost.
///
/// # Errors
/// [`LayerError`]; [`LayerError::Refused`] if nothing is staged.
///
/// # Panics
/// If the device holds no data.
pub fn format_staging(
    text: &str,
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
) -> Result<(), LayerError> {
    build(&parse(text)?, facts, seed, device, Work::FormatStaging).map(|_| ())
}

/// Bytes of the pages' homes below a staging area, of a stack that was drained and closed: they
/// begin at byte 0, and what is above them is nothing else.
///
/// # Errors
/// [`LayerError`]: above all if nothing is staged, or pages are still in the area because they
/// could not be flushed.
///
/// # Panics
/// If the device holds no data.
pub fn homes_bytes(
    text: &str,
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
) -> Result<u64, LayerError> {
    let layers = parse(text)?;
    let level = level(&layers)?;
    let (below, here) = (&layers[layers.len() - level..], &layers[layers.len() - level - 1]);
    let one_device = Facts { staging_offset: None, ..facts.clone() };
    let stack = build(below, &one_device, seed, &mut *device, Work::Open)?;
    let mut driver = Driver::new(device, stack);
    let making = Making { args: &here.1, facts, seed };
    stable_buffer::homes_bytes(&making, &mut Store::new(&mut driver))
}

/// Bytes that a device of these limits, but for its size, has to have so that the staging area
/// lies at its end, behind the whole pages of so many bytes.
///
/// # Errors
/// [`LayerError`]: above all if nothing is staged.
pub fn bytes_with_area(
    text: &str,
    facts: &Facts,
    seed: u64,
    limits: Limits,
    homes_bytes: u64,
) -> Result<u64, LayerError> {
    let layers = parse(text)?;
    let (_, args) = &layers[layers.len() - level(&layers)? - 1];
    let facts = Facts { staging_offset: None, ..facts.clone() };
    stable_buffer::bytes_with_area(&Making { args, facts: &facts, seed }, limits, homes_bytes)
}
