//! All layers, by name, and stacks of them.

use std::cell::RefCell;

use registry::{Args, Info, Spec, SpecError, find};

use crate::scheduler::{self, Expansion};
use block::{BlockDevice, Limits, Store};

use crate::memory::Sized;
use crate::resize::{Changes, Resizing};
use crate::staging::{self, Area, Aside};
use crate::structures::Region;
use crate::{Driver, Facts, Layer, LayerError, Stack, checksums, replicas, stable_buffer};

/// What a layer is made from.
#[derive(Clone, Copy, Debug)]
pub struct Making<'a> {
    /// Its parameters, checked.
    pub args: &'a Args,
    /// What is known of the device.
    pub facts: &'a Facts,
    /// Seed of whatever its policies draw.
    pub seed: u64,
}

/// Something that a layer counts, in the order of [`Layer::count`].
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// The name in tables, with its unit last.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    /// Whether it is a level that goes up and down, not a sum.
    pub is_level: bool,
}

impl Counter {
    /// A sum, which only grows.
    #[must_use]
    pub const fn sum(name: &'static str, help: &'static str) -> Self {
        Self { name, help, is_level: false }
    }

    /// A level, which goes up and down.
    #[must_use]
    pub const fn level(name: &'static str, help: &'static str) -> Self {
        Self { name, help, is_level: true }
    }
}

/// A layer that was opened.
pub type Opened = Result<Box<dyn Layer>, LayerError>;

/// What a layer does with the addresses of what is above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Each byte lies at the same address below, but for those in an area of the layer's own.
    Kept,
    /// The same, and what is read is held against what was written through the layer: nobody writes
    /// past it.
    Guarded,
    /// Bytes lie wherever the layer wants.
    Moved,
}

/// Opens what is left of a layer.
pub type Salvage = fn(&Making<'_>, &mut Store<'_>, &mut Vec<String>) -> Opened;

/// One layer in the registry.
pub struct Entry {
    /// Name, parameters, source.
    pub info: Info,
    /// What it counts.
    pub counters: &'static [Counter],
    /// What it does with addresses.
    pub addresses: Addresses,
    /// How its area goes to another device, if it may lie there.
    pub aside: Option<&'static Aside>,
    /// Writes its empty form on what is below.
    pub format: fn(&Making<'_>, &mut Store<'_>) -> Result<(), LayerError>,
    /// Opens what is there, recovered if need be.
    pub open: fn(&Making<'_>, &mut Store<'_>) -> Opened,
    /// Opens what is left where `open` gives up, without any write, for one who copies it out. It
    /// adds lines on what is missing.
    pub salvage: Option<Salvage>,
    /// What may be asked of it over what has these limits, if it can be resized.
    pub limits: fn(&Making<'_>, Limits) -> Result<Limits, LayerError>,
    /// The most that it keeps in memory over what has these limits.
    pub memory: fn(&Making<'_>, Limits) -> Result<Sized, LayerError>,
    /// What of what is below, of these limits, belongs to which of its structures.
    pub structures: fn(&Making<'_>, Limits) -> Result<Vec<Region>, LayerError>,
    /// What has to change below, so that it can be opened over another size of that.
    pub resize: fn(&Making<'_>, Resizing<'_, '_>) -> Changes,
    /// Its spec with the form that it gets by what is known of the device, if it has several.
    pub settled: Option<Settled>,
}

/// See [`Entry::settled`].
pub type Settled = fn(&Spec, &Args, &Facts) -> Result<Spec, LayerError>;

/// All layers.
pub static LAYERS: &[&Entry] = &[
    &scheduler::ENTRY,
    &stable_buffer::ENTRY,
    &crate::log_volume::ENTRY,
    &replicas::ENTRY,
    &checksums::ENTRY,
];

/// A stack as it is written: layers from the top to the bottom, with `|` between them; `direct` or
/// nothing for none. A scheduler that converts stands for two layers, the other of which is a log.
///
/// # Errors
/// [`SpecError`] for an unknown layer or parameter.
pub fn parse(text: &str) -> Result<Vec<(&'static Entry, Args)>, SpecError> {
    if matches!(text.trim(), "" | "direct") {
        return Ok(Vec::new());
    }
    let mut layers = Vec::new();
    for part in text.split('|') {
        let (entry, args) = accept(&Spec::parse(part)?)?;
        let expansion = if entry.info.name == scheduler::ENTRY.info.name {
            scheduler::expand(&args)?
        } else {
            Expansion::Alone
        };
        if expansion != Expansion::Direct {
            layers.push((entry, args));
        }
        if let Expansion::Over(log) = expansion {
            layers.push(accept(&log)?);
        }
    }
    check_headers(&layers)?;
    Ok(layers)
}

/// Headers that lie in the last bytes of pages need these to be zero, and layers with a form of
/// their own on what is below write others there.
fn check_headers(layers: &[(&'static Entry, Args)]) -> Result<(), SpecError> {
    let name = |(entry, _): &(&'static Entry, Args)| entry.info.name;
    let is_embedded = |layer: &(&'static Entry, Args)| {
        name(layer) == stable_buffer::ENTRY.info.name && layer.1.text("layout") == "embedded"
    };
    let Some(last) = layers.iter().rposition(is_embedded) else { return Ok(()) };
    match layers[..last].iter().map(name).find(|name| *name != scheduler::ENTRY.info.name) {
        None => Ok(()),
        Some(above) => Err(SpecError::BadValue {
            name: stable_buffer::ENTRY.info.name,
            key: "layout".to_owned(),
            value: "embedded".to_owned(),
            right: format!("beside, as `{above}` above it writes all bytes of its pages"),
        }),
    }
}

fn accept(spec: &Spec) -> Result<(&'static Entry, Args), SpecError> {
    let entry = *find("layer", LAYERS, |entry| &entry.info, spec)?;
    Ok((entry, entry.info.accept(spec)?))
}

/// Writes the empty forms of a stack's layers, from the bottom up. What was there is lost.
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
    // What layers below noted while those above were written is as after a volume was closed.
    Driver::new(device, stack).drain(&mut || true).map_err(LayerError::Gone)
}

/// The text of a stack with the forms that its layers get by what is known of the device: what a
/// volume's header keeps, so that its form does not change when the device does.
///
/// # Errors
/// [`LayerError`] for an unknown layer or parameter.
pub fn settled(text: &str, facts: &Facts) -> Result<String, LayerError> {
    if matches!(text.trim(), "" | "direct") {
        return Ok("direct".to_owned());
    }
    let mut parts = Vec::new();
    for part in text.split('|') {
        let spec = Spec::parse(part)?;
        let (entry, args) = accept(&spec)?;
        parts.push(match entry.settled {
            Some(settled) if settled(&spec, &args, facts)? != spec => {
                settled(&spec, &args, facts)?.to_string()
            }
            // As it was written.
            _ => part.trim().to_owned(),
        });
    }
    Ok(parts.join("|"))
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

/// Opens what is left of a stack, for one who copies it out: a layer that cannot be opened as ever
/// puts together what it finds, if it can. With `rebuilds` it does so in any case. Adds lines on
/// what is missing. To be done over a device that keeps nothing of what is written.
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

/// What is done with each layer before it is opened.
#[derive(Clone, Copy)]
pub(crate) enum Work<'a> {
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
pub(crate) fn open_layers(
    layers: &[(&'static Entry, Args)],
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
) -> Result<Stack, LayerError> {
    build(layers, facts, seed, device, Work::Open)
}

pub(crate) fn build(
    layers: &[(&'static Entry, Args)],
    facts: &Facts,
    seed: u64,
    device: &mut dyn BlockDevice,
    work: Work<'_>,
) -> Result<Stack, LayerError> {
    let is_laid = matches!(work, Work::Lay(_));
    let is_staging_wanted = facts.staging_offset.is_some() || is_laid;
    let staging = if is_staging_wanted { Some(staging::level(layers)?) } else { None };
    let one_device = Facts { staging_offset: None, ..facts.clone() };
    let mut stack = Stack::new(device.info().limits);
    for (level, (entry, args)) in layers.iter().rev().enumerate() {
        let is_staging = staging == Some(level);
        let facts = if is_staging { facts } else { &one_device };
        let making = Making { args, facts, seed };
        let mut driver = Driver::new(&mut *device, stack);
        let opened = make_and_open(entry, &making, work, is_staging, &mut Store::new(&mut driver));
        // What the layers below still do of their own is done, too: nothing is left under way.
        let settled = driver.settle().map_err(LayerError::Gone);
        stack = driver.into_parts().1;
        stack.push(opened.and_then(|layer| settled.map(|()| layer))?);
        if is_laid && is_staging {
            break;
        }
    }
    Ok(stack)
}

/// One layer, over those that are opened.
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
