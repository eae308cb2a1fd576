//! Resizing of what is below: each layer lists the changes there by which it finds all its content
//! when it is opened over the other size.
//!
//! All content is at home first: the stack was drained and closed. A layer may then write to places
//! that its present form does not use, and names [`Change`]s for the rest. The caller notes them
//! durably, carries them out, and does so again after a crash: no change reads what another writes,
//! so that all of them may be carried out any number of times, in their order.

use block::{Limits, Store};

use crate::LayerError;

/// A change of bytes below, which are whole sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The bytes become zero.
    Zero {
        /// First byte.
        at: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// The bytes become these.
    Put {
        /// First byte.
        at: u64,
        /// New content.
        data: Vec<u8>,
    },
    /// The bytes become a copy of others, to which no change writes.
    Copy {
        /// First byte that is read.
        from: u64,
        /// First byte that is written.
        to: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

/// Arguments of a layer's resize.
pub struct Resizing<'a, 'b> {
    /// Layers or device below, with the old size.
    pub below: &'a mut Store<'b>,
    /// Limits of what is below now.
    pub old: Limits,
    /// Limits of what is below after the resize.
    pub new: Limits,
    /// True if addresses below are those of the device, as all layers below keep addresses. Then
    /// `below` is the device itself, else the layers below, opened.
    pub is_in_place: bool,
    /// Changes that the layers above want, in the addresses that this one offers.
    pub above: Vec<Change>,
}

/// Changes of the bytes below, for a layer and for all above it.
pub type Changes = Result<Vec<Change>, LayerError>;
