//! Lists all layers, and reads stacks of them.

use registry::{Args, Spec, SpecError, find};

use crate::entry::{Addresses, Entry};
use crate::scheduler::{self, Expansion};
use crate::{Facts, LayerError, checksums, holes, log_volume, replicas, stable_buffer};

/// All layers.
pub static LAYERS: &[&Entry] = &[
    &scheduler::ENTRY,
    &stable_buffer::ENTRY,
    &log_volume::ENTRY,
    &replicas::ENTRY,
    &checksums::ENTRY,
    &holes::ENTRY,
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
    let keeps_ends = [scheduler::ENTRY.info.name, holes::ENTRY.info.name];
    match layers[..last].iter().map(name).find(|name| !keeps_ends.contains(name)) {
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

pub(super) fn no_staging() -> LayerError {
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
pub(super) fn level(layers: &[(&'static Entry, Args)]) -> Result<usize, LayerError> {
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
