//! The flash translation layer, written once for every medium.

mod audit;
mod divider;
mod lanes;
mod page_mapped;
mod remains;
mod steps;
mod table;

pub use audit::AuditError;
pub(crate) use divider::Divider;
pub use page_mapped::{FtlCounters, PageMapped, Scratch};
pub use remains::{BlockRemains, Remains, RemainsError};

use units::{EraseBlockId, Ppn};

/// What stands below an FTL and carries out what it decides. All calls come in the order in which
/// they must take effect.
pub trait Medium {
    /// The host's data is programmed into a page.
    fn program(&mut self, page: Ppn);

    /// A valid page is read and programmed elsewhere.
    fn relocate(&mut self, from: Ppn, to: Ppn);

    /// An erase block is erased.
    fn erase(&mut self, block: EraseBlockId);
}

/// A medium that does nothing: the FTL's own counters are all that is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingMedium;

impl Medium for CountingMedium {
    #[inline]
    fn program(&mut self, _page: Ppn) {}

    #[inline]
    fn relocate(&mut self, _from: Ppn, _to: Ppn) {}

    #[inline]
    fn erase(&mut self, _block: EraseBlockId) {}
}
