//! The page maps of superblocks that are being written, as far as they fit into a small memory.

use registry::{Param, ParamKind};

use super::merge::Core;
use crate::drive::media::{Cause, Command, Media, Tag};

/// The parameter of all log-block schemes for the number of superblocks whose page maps are held in
/// memory.
pub const MAPS_IN_MEMORY: Param = Param {
    name: "maps_in_memory",
    kind: ParamKind::Integer { min: 0, max: 65_536 },
    default: "0",
    help: "superblocks whose page maps are in memory while they are written; the map of another is \
           read from its spare areas first; 0 for all",
};

/// Bytes of a page's spare area that hold its logical page.
const SPARE_BYTES: u32 = 16;

/// The superblocks whose page maps are in memory, the most recently written last.
///
/// A controller of 2008 has some tens of kilobytes of SRAM, enough for the page maps of one or a
/// few log superblocks. To append to another one it must know its contents: it reads the spare
/// areas of the pages written so far, all planes in parallel (as FAST rebuilds its maps after a
/// power cut: Lee et al. 2007). So writes that alternate between superblocks cost more than those
/// that stay in one. That drives do this is our assumption; it is what makes four sequential
/// streams slower than one on the drives of STABLEBUFFER table 1.
#[derive(Debug)]
pub(super) struct LogMaps {
    most: usize,
    held: Vec<u32>,
}

/// Marks the tags of reads of spare areas, for whose end nobody waits: the program that needs them
/// is behind them in the queue of each die.
const SPARE_READ: u32 = 1 << 30;

impl LogMaps {
    pub fn new(most: usize) -> Self {
        Self { most, held: Vec::with_capacity(most) }
    }

    /// Returns true if a finished command was a read of a spare area.
    pub fn is_own(tag: Tag) -> bool {
        tag.number() & SPARE_READ != 0
    }

    /// Loads the map of a superblock to which the page at `place` is to be appended.
    pub fn load(&mut self, core: &Core, place: u32, media: &mut Media) {
        let superblock = core.blocks.superblock_of(place);
        if self.most == 0 || self.held.last() == Some(&superblock) {
            return;
        }
        if let Some(index) = self.held.iter().position(|&held| held == superblock) {
            self.held.remove(index);
        } else {
            if self.held.len() == self.most {
                self.held.remove(0);
            }
            let first = core.blocks.place_at(superblock, 0);
            for written in first..place {
                let page = core.blocks.page(written);
                if media.is_programmed(page) {
                    media.submit(Command::read(
                        page,
                        SPARE_BYTES,
                        Cause::Mapping,
                        Tag::scheme(SPARE_READ),
                    ));
                }
            }
        }
        self.held.push(superblock);
    }
}
