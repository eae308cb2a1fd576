//! Moving the area of one layer of a stack to another place.

use block::{BlockDevice, Limits, Store};

use super::opening::{Work, build};
use super::registered::{level, no_staging, parse};
use crate::driver::Driver;
use crate::making::Making;
use crate::staging::Area;
use crate::{Facts, LayerError};

/// Lays out the area that lies on a device of its own, or may lie there, with the content that goes
/// with it, and leaves everything else as it is. Other content of the old area is lost.
///
/// # Errors
/// [`LayerError`]; [`LayerError::Refused`] if no layer has such an area, or a layer is lost without
/// the content of the area.
///
/// # Panics
/// If the device holds no data.
pub fn lay_area(
    text: &str,
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
    area: &Area,
) -> Result<(), LayerError> {
    build(&parse(text)?, facts, seed, device, Work::Lay(area)).map(|_| ())
}

/// Gives the content that has to go with the area when it is laid out elsewhere, of a stack that
/// was drained and closed. The device may be written to, as opening the stack does.
///
/// # Errors
/// [`LayerError`]: in particular if no layer has such an area, or pages are still in it because
/// they could not be flushed.
///
/// # Panics
/// If the device holds no data.
pub fn area_of(
    text: &str,
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
) -> Result<Area, LayerError> {
    let layers = parse(text)?;
    let level = level(&layers)?;
    let (below, (entry, args)) =
        (&layers[layers.len() - level..], &layers[layers.len() - level - 1]);
    let aside = entry.aside.ok_or_else(no_staging)?;
    let one_device = Facts { staging_offset: None, ..facts.clone() };
    let stack = build(below, &one_device, seed, &mut *device, Work::Open)?;
    let mut driver = Driver::new(device, stack);
    (aside.leave)(&Making { args, facts, seed }, &mut Store::new(&mut driver))
}

/// Gives the bytes of a device of otherwise these limits so that the area lies on it, beside so
/// many that stay.
///
/// # Errors
/// [`LayerError`]: in particular if no layer has such an area.
pub fn bytes_with_area(
    text: &str,
    facts: &Facts,
    seed: u64,
    limits: Limits,
    stays_bytes: u64,
) -> Result<u64, LayerError> {
    let layers = parse(text)?;
    let (entry, args) = &layers[layers.len() - level(&layers)? - 1];
    let aside = entry.aside.ok_or_else(no_staging)?;
    let facts = Facts { staging_offset: None, ..facts.clone() };
    (aside.bytes_with)(&Making { args, facts: &facts, seed }, limits, stays_bytes)
}
