//! What a scheme built on page mapping is told of, so that it can keep the map on flash.

use units::{Lpn, Ppn};

use crate::drive::media::{Cause, Command, Media};

/// Is told when pages change their places. `()` wants to know nothing, and costs nothing.
pub trait Watch: Send {
    /// What a program of this logical page is accounted under.
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

    /// A page that was written has its place now: at once, or when there was room.
    #[inline]
    fn placed(&mut self, _lpn: Lpn) {}

    /// A page is about to be relocated. Its old place can still be read: whatever is given now
    /// comes before the erase.
    #[inline]
    fn relocating(&mut self, _lpn: Lpn, _from: Ppn, _lane: u32, _media: &mut Media) {}

    /// All that was valid in a lane's victim is relocated, and its erase is given.
    #[inline]
    fn emptied(&mut self, _lane: u32) {}

    /// Pages placed that hold the map: they are not the host's.
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
