//! Entry of a layer in the registry.

use block::{Limits, Store};
use registry::{Args, Info, Spec};

use crate::counter::Counter;
use crate::layer::Layer;
use crate::making::Making;
use crate::memory::Sized;
use crate::resize::{Changes, Resizing};
use crate::staging::Aside;
use crate::structures::Region;
use crate::{Facts, LayerError};

/// A layer that was opened.
pub type Opened = Result<Box<dyn Layer>, LayerError>;

/// Treatment of the addresses of what is above a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Each byte lies at the same address below, but for those in an area of the layer's own.
    Kept,
    /// Addresses are kept, and reads are checked against what was written through the layer: nobody
    /// may write past it.
    Guarded,
    /// Bytes lie wherever the layer wants.
    Moved,
}

/// Function that opens what is left of a layer.
pub type Salvage = fn(&Making<'_>, &mut Store<'_>, &mut Vec<String>) -> Opened;

/// One layer in the registry.
pub struct Entry {
    /// Name, parameters and source.
    pub info: Info,
    /// Counters of the layer.
    pub counters: &'static [Counter],
    /// Treatment of addresses.
    pub addresses: Addresses,
    /// Description of its area, if that may move to another device.
    pub aside: Option<&'static Aside>,
    /// Formats what is below with its empty form.
    pub format: fn(&Making<'_>, &mut Store<'_>) -> Result<(), LayerError>,
    /// Opens the layer, and recovers it if need be.
    pub open: fn(&Making<'_>, &mut Store<'_>) -> Opened,
    /// Opens what is left where `open` gives up, without any write, so that it can be copied out.
    /// It adds lines on what is missing.
    pub salvage: Option<Salvage>,
    /// Gives the limits that the layer offers over something with these limits, if it can be
    /// resized.
    pub limits: fn(&Making<'_>, Limits) -> Result<Limits, LayerError>,
    /// Gives the most memory that it takes over something with these limits.
    pub memory: fn(&Making<'_>, Limits) -> Result<Sized, LayerError>,
    /// Gives its structures below, over something with these limits.
    pub structures: fn(&Making<'_>, Limits) -> Result<Vec<Region>, LayerError>,
    /// Gives the changes below after which it can be opened over another size.
    pub resize: fn(&Making<'_>, Resizing<'_, '_>) -> Changes,
    /// Gives its spec with the variant that it takes by the device's facts, if it has several.
    pub settled: Option<Settled>,
}

/// See [`Entry::settled`].
pub type Settled = fn(&Spec, &Args, &Facts) -> Result<Spec, LayerError>;
