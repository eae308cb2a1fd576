//! The area of one layer of a stack on a device of its own, or on that of everything else: which
//! layer has it there, and how it is laid out in another place than before.

use std::any::Any;

use block::{BlockDevice, Limits, Store};
use registry::Args;

use crate::registered::{Entry, LAYERS, Making, Work, build, parse};
use crate::{Addresses, Driver, Facts, LayerError};

/// How a layer's area goes to another place.
#[derive(Debug)]
pub struct Aside {
    /// What has to go with it. The layer was drained and closed; what is below may be written to,
    /// as opening does.
    pub leave: fn(&Making<'_>, &mut Store<'_>) -> Result<Area, LayerError>,
    /// Lays it out where the device's facts say, with what goes with it.
    pub lay: fn(&Making<'_>, &mut Store<'_>, &Area) -> Result<(), LayerError>,
    /// Bytes that a device of these limits has to have for it, beside so many that stay.
    pub bytes_with: fn(&Making<'_>, Limits, u64) -> Result<u64, LayerError>,
}

/// What goes with an area, wherever it is laid out.
#[derive(Debug)]
pub struct Area {
    stays_bytes: u64,
    contents: Option<Box<dyn Any>>,
}

impl Area {
    /// An area of which nothing is needed, or nothing is left, behind so many bytes that stay.
    #[must_use]
    pub const fn empty(stays_bytes: u64) -> Self {
        Self { stays_bytes, contents: None }
    }

    /// An area of a layer that finds nothing without it.
    pub(crate) fn of(stays_bytes: u64, contents: impl Any) -> Self {
        Self { stays_bytes, contents: Some(Box::new(contents)) }
    }

    /// Bytes below the layer that stay where they are, from byte 0 on, when the area goes to
    /// another device.
    #[must_use]
    pub const fn stays_bytes(&self) -> u64 {
        self.stays_bytes
    }

    /// What it holds.
    pub(crate) fn contents<T: Any>(&self) -> Option<&T> {
        self.contents.as_ref().and_then(|contents| contents.downcast_ref())
    }
}

fn no_staging() -> LayerError {
    let mut able = LAYERS.iter().filter(|entry| entry.aside.is_some()).map(|entry| entry.info.name);
    let layer = able.next().unwrap_or_default();
    let others = able.collect::<Vec<_>>().join(" or ");
    let reason = format!(
        "a staging device is of use to this layer or {others} alone, and neither is in the stack"
    );
    LayerError::Refused { layer, reason }
}

/// Which layer, counted from the bottom, may have its area on a second device: the lowest that
/// can.
///
/// # Errors
/// [`LayerError::Refused`] if none can, one below it does not keep addresses, or it moves those of
/// another that could.
pub(crate) fn level(layers: &[(&'static Entry, Args)]) -> Result<usize, LayerError> {
    let from_bottom: Vec<&Entry> = layers.iter().rev().map(|(entry, _)| *entry).collect();
    let level = from_bottom.iter().position(|entry| entry.aside.is_some());
    let level = level.ok_or_else(no_staging)?;
    let here = from_bottom[level].info.name;
    let below = from_bottom[..level].iter().find(|entry| entry.addresses != Addresses::Kept);
    if let Some(below) = below {
        let what = match below.addresses {
            Addresses::Guarded => "keeps a table of all pages",
            Addresses::Kept | Addresses::Moved => "puts bytes elsewhere",
        };
        let reason = format!(
            "it lies below {here} and {what}, so that the area of {here} cannot lie on a device of \
             its own: put {here} at the bottom, or over nothing but schedulers"
        );
        return Err(LayerError::Refused { layer: below.info.name, reason });
    }
    let mut above = from_bottom[level + 1..].iter();
    if let Some(other) = above.find(|entry| entry.aside.is_some()).map(|entry| entry.info.name)
        && from_bottom[level].addresses == Addresses::Moved
    {
        let reason = format!(
            "it lies below {other} and puts bytes elsewhere, and only one of both can have its \
             area on a staging device: put {other} below {here}, or leave one of them out"
        );
        return Err(LayerError::Refused { layer: here, reason });
    }
    Ok(level)
}

/// Lays out the area that lies on a device of its own, or may lie there, with what goes with it,
/// and leaves everything else as it is. What was only in another area, and does not go with it, is
/// lost.
///
/// # Errors
/// [`LayerError`]; [`LayerError::Refused`] if no layer has such an area, or nothing of a layer is
/// left without what the area held.
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

/// What has to go with the area if it is laid out elsewhere, of a stack that was drained and
/// closed. The device may be written to, as opening the stack does.
///
/// # Errors
/// [`LayerError`]: above all if no layer has such an area, or pages are still in it because they
/// could not be flushed.
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

/// Bytes that a device of these limits, but for its size, has to have so that the area lies on it,
/// beside so many that stay.
///
/// # Errors
/// [`LayerError`]: above all if no layer has such an area.
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
