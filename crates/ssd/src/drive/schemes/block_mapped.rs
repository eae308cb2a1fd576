//! Block mapping: each logical superblock is one superblock, page for page, as in USB sticks and SD
//! cards.
//!
//! A page goes to its offset of its superblock as long as that can be programmed. To overwrite one,
//! the firmware opens a *replacement* superblock, copies all pages before it from the old one, and
//! writes it behind them. As long as the host goes on in ascending order, its pages are appended,
//! and pages that it skips are copied. A page at a lower offset ends that: the rest is copied from
//! the old superblock, which is erased, and a new replacement is opened. A few replacements may be
//! open at once; the one least recently written is closed for another.
//!
//! So sequential writes cost an erase a superblock, up to as many streams as there are
//! replacements; every other write costs the copy of a superblock.
//!
//! Sources: the replacement block is that of NFTL (Ban, US patent 5,404,485, 1995), with a chain of
//! one; that cheap cards and sticks keep one to ten erase-block groups open, each for ascending
//! writes only, is what Bergmann measured (Optimizing Linux with cheap flash drives, LWN, 2011).
//! Not modelled: the first groups of some cards, where the FAT would lie, which are kept in another
//! way; writes smaller than a page.

use registry::{Args, Info, Param, ParamKind};

use super::hybrid::{Hybrid, Rules};
use super::merge::{Core, InPlace, Work, WorkKind};
use super::superblock::{NONE, Role};
use super::{SchemeError, log_maps, superblock};
use crate::drive::media::Layout;

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "block_mapped",
    aliases: &["replacement_block"],
    summary: "superblocks mapped as a whole; a few open ones take ascending writes, any other \
              write copies one",
    source: "Ban, US patent 5,404,485, 1995; Bergmann, Optimizing Linux with cheap flash drives, \
             LWN, 2011",
    params: &[
        Param {
            name: "open_blocks",
            kind: ParamKind::Integer { min: 1, max: 4_096 },
            default: "1",
            help: "replacement superblocks that may be open at once",
        },
        superblock::INTERLEAVE,
        superblock::MERGES_AT_ONCE,
        log_maps::MAPS_IN_MEMORY,
    ],
};

/// A block-mapped drive.
pub type BlockMapped = Hybrid<BlockRules>;

/// A block-mapped drive of `logical_pages`. With `copy_back`, pages that stay on their plane are
/// copied without the channel.
///
/// # Errors
/// [`SchemeError`] if the planes cannot be grouped as asked, or the media are too small.
pub fn build(
    args: &Args,
    layout: &Layout,
    logical_pages: u32,
    copy_back: bool,
) -> Result<BlockMapped, SchemeError> {
    let (interleave, merges) = superblock::shared_params(args);
    let most = args.integer("open_blocks") as u32;
    let core = Core::new(INFO.name, layout, logical_pages, interleave, most, merges, copy_back)?;
    let open_of = vec![NONE; core.blocks.logical_superblocks() as usize];
    Ok(Hybrid::new(
        core,
        BlockRules {
            open: Vec::with_capacity(most as usize),
            open_of,
            most: most as usize,
            clock: 0,
            wanted: 0,
            closing: 0,
        },
        args,
    ))
}

/// A replacement: pages below its `next` are in it, or hold nothing.
#[derive(Clone, Copy, Debug)]
struct Replacement {
    superblock: u32,
    logical: u32,
    used_at: u64,
}

/// The decisions of block mapping.
#[derive(Debug)]
pub struct BlockRules {
    open: Vec<Replacement>,
    /// By logical superblock: the index of its replacement.
    open_of: Vec<u32>,
    most: usize,
    clock: u64,
    /// Logical superblocks that wait for a replacement to be closed.
    wanted: u32,
    /// Replacements being closed.
    closing: u32,
}

impl BlockRules {
    fn close(&mut self, core: &mut Core, index: usize) {
        if core.can_merge() {
            let Replacement { superblock, logical, .. } = self.open[index];
            core.merge_into_log(logical, superblock);
            self.closing += 1;
        }
    }

    fn remove(&mut self, index: usize) {
        let closed = self.open.swap_remove(index);
        self.open_of[closed.logical as usize] = NONE;
        if let Some(moved) = self.open.get(index) {
            self.open_of[moved.logical as usize] = index as u32;
        }
    }

    /// A replacement for a logical superblock, if one may be opened. Otherwise another is closed,
    /// unless one is being closed for each that waits.
    fn open(&mut self, core: &mut Core, logical: u32) -> Option<usize> {
        if self.open.len() == self.most {
            self.wanted += 1;
            if self.closing < self.wanted {
                let candidates = (0..self.open.len())
                    .filter(|&index| !core.is_merging(self.open[index].logical));
                if let Some(oldest) = candidates.min_by_key(|&index| self.open[index].used_at) {
                    self.close(core, oldest);
                }
            }
            return None;
        }
        let superblock = core.take(core.blocks.group_for(logical), Role::Log)?;
        self.clock += 1;
        self.open_of[logical as usize] = self.open.len() as u32;
        self.open.push(Replacement { superblock, logical, used_at: self.clock });
        Some(self.open.len() - 1)
    }
}

impl Rules for BlockRules {
    fn put(&mut self, core: &mut Core, lpn: u32) -> Option<u32> {
        let (logical, offset) = core.blocks.split(lpn);
        if core.is_merging(logical) {
            return None;
        }
        let index = match self.open_of[logical as usize] {
            NONE => {
                match core.write_in_place(lpn) {
                    InPlace::Done(place) => return Some(place),
                    InPlace::Wait => return None,
                    InPlace::Taken => {}
                }
                self.open(core, logical)?
            }
            index => index as usize,
        };
        let superblock = self.open[index].superblock;
        let next = core.blocks.next(superblock);
        if offset < next {
            self.close(core, index);
            return None;
        }
        if core.blocks.pages_outside(logical, next, offset, superblock) > 0 {
            if core.can_merge() {
                core.fill(logical, superblock, offset);
            }
            return None;
        }
        self.clock += 1;
        self.open[index].used_at = self.clock;
        let place = core.blocks.occupy(lpn, superblock, offset);
        if offset + 1 == core.blocks.len(logical) {
            self.remove(index);
            core.switch(logical, superblock);
        }
        Some(place)
    }

    fn begin_pass(&mut self) {
        self.wanted = 0;
    }

    fn ended(&mut self, _core: &mut Core, work: &Work) {
        if work.kind == WorkKind::Merge {
            self.closing -= 1;
            self.remove(self.open_of[work.logical as usize] as usize);
        }
    }

    fn has_log(&self, logical: u32) -> bool {
        self.open_of[logical as usize] != NONE
    }

    fn table_bytes(&self) -> usize {
        4 * self.open_of.len() + self.open.capacity() * size_of::<Replacement>()
    }

    fn audit(&self, core: &Core) -> Result<(), String> {
        let blocks = &core.blocks;
        for (index, open) in (0u32..).zip(&self.open) {
            let role = blocks.role(open.superblock);
            if self.open_of[open.logical as usize] != index || role != Role::Log {
                return Err(format!(
                    "replacement {index} of {} is superblock {}, which is {role:?}",
                    open.logical, open.superblock
                ));
            }
        }
        let owned = self.open_of.iter().filter(|&&index| index != NONE).count();
        if owned != self.open.len() || owned > self.most {
            return Err(format!(
                "{owned} have replacements, {} replacements are open of {}",
                self.open.len(),
                self.most
            ));
        }
        for lpn in 0..blocks.logical_pages() {
            let place = blocks.place(lpn);
            if place == NONE || blocks.role(blocks.superblock_of(place)) != Role::Log {
                continue;
            }
            let (logical, offset) = blocks.split(lpn);
            let index = self.open_of[logical as usize];
            if index == NONE
                || place != blocks.place_at(self.open[index as usize].superblock, offset)
            {
                return Err(format!(
                    "logical page {lpn} is at place {place}, not at its offset of its replacement"
                ));
            }
        }
        Ok(())
    }
}
