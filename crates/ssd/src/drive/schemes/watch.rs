//! Events of page mapping for a scheme that is built on it, so that it can keep the map on flash.

use units::{Lpn, Ppn};

use crate::drive::media::{Cause, Command, Media};

/// Receiver of changes of the places of pages. `()` ignores them, and costs nothing.
pub trait Watch: Send {
    /// Cause under which a program of this logical page is accounted.
    #[inline]
    fn cause_of(&self, _lpn: Lpn) -> Cause {
        Cause::Host
    }

    /// Gives the program of a page that the host wrote, or of one that was overwritten before it
    /// found room.
    #[inline]
    fn submit(&mut self, command: Command, media: &mut Media) {
        media.submit(command);
    }

    /// Called when a page that was written has its place: at once, or when there was room.
    #[inline]
    fn placed(&mut self, _lpn: Lpn) {}

    /// Called before a page is relocated. Its old place can still be read: commands given now come
    /// before the erase.
    #[inline]
    fn relocating(&mut self, _lpn: Lpn, _from: Ppn, _lane: u32, _media: &mut Media) {}

    /// Called when all valid pages of a lane's victim are relocated, and its erase is given.
    #[inline]
    fn emptied(&mut self, _lane: u32) {}

    /// Number of placed pages that hold the map: they are not the host's.
    #[inline]
    fn map_writes(&self) -> u64 {
        0
    }

    /// Memory of its tables in bytes.
    fn table_bytes(&self) -> usize {
        0
    }
}

impl Watch for () {}
