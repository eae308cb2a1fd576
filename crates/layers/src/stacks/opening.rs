//! Making, opening and salvaging stacks.

use std::cell::RefCell;

use block::{BlockDevice, Store};
use registry::Args;

use super::registered::{level, parse};
use crate::driver::Driver;
use crate::entry::{Entry, Opened};
use crate::making::Making;
use crate::staging::Area;
use crate::{Facts, HolesFlaw, LayerError, Stack, holes};

/// Writes the empty forms of a stack's layers, from the bottom up. The old content is lost.
///
/// # Errors
/// [`LayerError`].
///
/// # Panics
/// If the device holds no data.
pub fn format(
    text: &str,
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
) -> Result<(), LayerError> {
    let stack = build(&parse(text)?, facts, seed, device, Work::FormatAll)?;
    // The layers below come to rest as in closing a volume, after the writes of those above.
    Driver::new(device, stack).drain(&mut || true).map_err(LayerError::Gone)
}

/// Opens a stack that was formatted with the same text: each layer is recovered, from the bottom
/// up. A [`Driver`] lets it work.
///
/// # Errors
/// [`LayerError`].
///
/// # Panics
/// If the device holds no data.
pub fn open(
    text: &str,
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
) -> Result<Stack, LayerError> {
    build(&parse(text)?, facts, seed, device, Work::Open)
}

/// Opens what is left of a stack, so that it can be copied out: a layer that cannot be opened
/// normally is rebuilt from what is found, if possible; with `rebuilds` in any case. Adds lines on
/// what is missing. Use it over a device that drops all writes.
///
/// # Errors
/// [`LayerError`] if too little is left.
pub fn salvage(
    text: &str,
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
    rebuilds: bool,
    notes: &mut Vec<String>,
) -> Result<Stack, LayerError> {
    let notes = RefCell::new(notes);
    build(&parse(text)?, facts, seed, device, Work::Salvage { rebuilds, notes: &notes })
}

/// Work on each layer before it is opened.
#[derive(Clone, Copy)]
pub(super) enum Work<'a> {
    Open,
    Salvage {
        rebuilds: bool,
        notes: &'a RefCell<&'a mut Vec<String>>,
    },
    FormatAll,
    /// Lays out the area that may lie on another device, and opens no layer above its own.
    Lay(&'a Area),
}

/// Opens layers, from the bottom up, that were formatted.
pub(super) fn open_layers(
    layers: &[(&'static Entry, Args)],
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
) -> Result<Stack, LayerError> {
    build(layers, facts, seed, device, Work::Open)
}

pub(super) fn build(
    layers: &[(&'static Entry, Args)],
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
    work: Work<'_>,
) -> Result<Stack, LayerError> {
    let is_laid = matches!(work, Work::Lay(_));
    let is_staging_wanted = facts.staging_offset.is_some() || is_laid;
    let staging = if is_staging_wanted { Some(level(layers)?) } else { None };
    let one_device = Facts { staging_offset: None, ..facts.clone() };
    let mut stack = Stack::new(device.info().limits);
    for (level, (entry, args)) in layers.iter().rev().enumerate() {
        let is_staging = staging == Some(level);
        let facts = if is_staging { facts } else { &one_device };
        let making = Making { args, facts, seed };
        let mut driver = Driver::new(&mut *device, stack);
        let opened = make_and_open(entry, &making, work, is_staging, &mut Store::new(&mut driver));
        // Background work of the layers below is done, too: nothing is left under way.
        let settled = driver.settle().map_err(LayerError::Gone);
        stack = driver.into_parts().1;
        stack.push(opened.and_then(|layer| settled.map(|()| layer))?);
        if is_laid && is_staging {
            break;
        }
    }
    Ok(stack)
}

/// Opens one layer, over those that are open.
fn make_and_open(
    entry: &Entry,
    making: &Making<'_>,
    work: Work<'_>,
    is_staging: bool,
    store: &mut Store<'_>,
) -> Opened {
    let is_made = match (work, entry.aside) {
        (Work::FormatAll, _) => {
            (entry.format)(making, store)?;
            true
        }
        (Work::Lay(area), Some(aside)) if is_staging => {
            (aside.lay)(making, store, area)?;
            true
        }
        _ => false,
    };
    if is_made {
        store.flush()?;
    }
    let (Work::Salvage { rebuilds, notes }, Some(salvage)) = (work, entry.salvage) else {
        return (entry.open)(making, store);
    };
    if !rebuilds {
        match (entry.open)(making, store) {
            Err(error) => notes.borrow_mut().push(format!("it cannot be opened as it is: {error}")),
            opened => return opened,
        }
    }
    notes.borrow_mut().push(format!("`{}` is put together of what is left", entry.info.name));
    salvage(making, store, &mut notes.borrow_mut())
}

/// Opens a stack of `holes` alone that leaves out an order, for the campaign of power cuts.
///
/// # Errors
/// [`LayerError`]; also if the stack is a different one.
pub fn open_flawed(
    text: &str,
    seed: u64,
    device: &mut dyn BlockDevice,
    flaw: HolesFlaw,
) -> Result<Stack, LayerError> {
    let layers = parse(text)?;
    let [(entry, args)] = layers.as_slice() else {
        return Err(refused_flaw());
    };
    if entry.info.name != holes::ENTRY.info.name {
        return Err(refused_flaw());
    }
    let mut stack = Stack::new(device.info().limits);
    let making = Making { args, facts: &Facts::default(), seed };
    stack.push(holes::open_flawed(&making, &mut Store::new(device), flaw)?);
    Ok(stack)
}

fn refused_flaw() -> LayerError {
    let reason = "orders are left out in a stack of it alone".to_owned();
    LayerError::Refused { layer: holes::ENTRY.info.name, reason }
}
