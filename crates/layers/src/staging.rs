//! Moving the area of a layer to a device of its own, or back.

use std::any::Any;

use block::{Limits, Store};

use crate::LayerError;
use crate::making::Making;

/// Functions that move a layer's area to another place.
#[derive(Debug)]
pub struct Aside {
    /// Gives the content that has to go with it. The layer was drained and closed; what is below
    /// may be written to, as opening does.
    pub leave: fn(&Making<'_>, &mut Store<'_>) -> Result<Area, LayerError>,
    /// Lays it out at the place that the device's facts name, with the content that goes with it.
    pub lay: fn(&Making<'_>, &mut Store<'_>, &Area) -> Result<(), LayerError>,
    /// Gives the bytes that a device of these limits has to have for it, beside so many that stay.
    pub bytes_with: fn(&Making<'_>, Limits, u64) -> Result<u64, LayerError>,
}

/// Content that goes with an area, wherever it is laid out.
#[derive(Debug)]
pub struct Area {
    stays_bytes: u64,
    contents: Option<Box<dyn Any>>,
}

impl Area {
    /// Makes an area without content, behind so many bytes that stay.
    #[must_use]
    pub const fn empty(stays_bytes: u64) -> Self {
        Self { stays_bytes, contents: None }
    }

    /// Makes an area with the content that the layer needs.
    pub(crate) fn of(stays_bytes: u64, contents: impl Any) -> Self {
        Self { stays_bytes, contents: Some(Box::new(contents)) }
    }

    /// Gives the bytes below the layer that stay where they are, from byte 0 on, when the area
    /// moves to another device.
    #[must_use]
    pub const fn stays_bytes(&self) -> u64 {
        self.stays_bytes
    }

    /// Gives the content.
    pub(crate) fn contents<T: Any>(&self) -> Option<&T> {
        self.contents.as_ref().and_then(|contents| contents.downcast_ref())
    }
}
