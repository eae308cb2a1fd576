//! BAST: each log superblock belongs to one data superblock.
//!
//! A page goes to its offset of its data superblock as long as that can be programmed, otherwise to
//! the end of the log superblock of its data superblock. There are only few logs: if all are in use
//! when another logical superblock needs one, it takes the log of the least recently written one,
//! whose pages are merged first (Kim et al. 2002, section 3):
//!
//! - switch: the log holds all pages in order; it becomes the data superblock (done here as soon as
//!   it is full, which saves the wait);
//! - partial: the log holds the first pages in order; the rest is copied behind them, and it
//!   becomes the data superblock;
//! - full: the newest version of each page is copied to a free superblock; data and log are erased.
//!
//! So sequential writes, even in several streams, cost one erase per superblock; writes within as
//! many superblocks as there are logs cost about one copy per page; and random writes cost a whole
//! superblock each.
//!
//! Differences from the paper: superblocks instead of erase blocks; several merges at once; pages
//! of other superblocks may be written during a merge.

use registry::{Args, Info, Param, ParamKind};

use super::hybrid::{Hybrid, Rules};
use super::merge::{Core, InPlace, Work, WorkKind};
use super::superblock::{NONE, Role};
use super::{SchemeError, log_maps, superblock};
use crate::drive::media::Layout;

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "bast",
    aliases: &["log_block"],
    summary: "data superblocks mapped as a whole; each of a few log superblocks belongs to one of \
              them",
    source: "Kim et al., A space-efficient flash translation layer for CompactFlash systems, IEEE \
             TCE 2002",
    params: &[
        Param {
            name: "log_blocks",
            kind: ParamKind::Integer { min: 1, max: 65_536 },
            default: "8",
            help: "log superblocks: as many logical superblocks can be overwritten without a merge",
        },
        superblock::INTERLEAVE,
        superblock::MERGES_AT_ONCE,
        log_maps::MAPS_IN_MEMORY,
    ],
};

/// A drive with BAST.
pub type Bast = Hybrid<BastRules>;

/// Makes a BAST drive of `logical_pages`. With `copy_back`, merges move pages that stay on their
/// plane without the channel.
///
/// # Errors
/// [`SchemeError`] if the planes cannot be grouped as asked, or the media are too small.
pub fn build(
    args: &Args,
    layout: &Layout,
    logical_pages: u32,
    copy_back: bool,
) -> Result<Bast, SchemeError> {
    let (interleave, merges) = superblock::shared_params(args);
    let logs = args.integer("log_blocks") as u32;
    let core = Core::new(INFO.name, layout, logical_pages, interleave, logs, merges, copy_back)?;
    let log_of = vec![NONE; core.blocks.logical_superblocks() as usize];
    Ok(Hybrid::new(
        core,
        BastRules {
            logs: Vec::with_capacity(logs as usize),
            log_of,
            most: logs as usize,
            clock: 0,
            wanted: 0,
            merging: 0,
        },
        args,
    ))
}

#[derive(Clone, Copy, Debug)]
struct Log {
    superblock: u32,
    logical: u32,
    /// True if each page is at its own offset.
    in_order: bool,
    used_at: u64,
}

/// The decisions of BAST.
#[derive(Debug)]
pub struct BastRules {
    logs: Vec<Log>,
    /// For each logical superblock: the index of its log.
    log_of: Vec<u32>,
    most: usize,
    clock: u64,
    /// Number of logical superblocks that wait for a log to become free.
    wanted: u32,
    /// Number of merges under way: each frees a log.
    merging: u32,
}

impl BastRules {
    /// Writes a page to the end of a log.
    fn append(&mut self, core: &mut Core, index: usize, lpn: u32) -> u32 {
        let (logical, offset) = core.blocks.split(lpn);
        let log = &mut self.logs[index];
        let fill = core.blocks.next(log.superblock);
        self.clock += 1;
        log.used_at = self.clock;
        log.in_order &= fill == offset;
        let (superblock, in_order) = (log.superblock, log.in_order);
        let place = core.blocks.occupy(lpn, superblock, fill);
        if in_order && fill + 1 == core.blocks.len(logical) {
            self.remove(index);
            core.switch(logical, superblock);
        }
        place
    }

    fn remove(&mut self, index: usize) {
        let log = self.logs.swap_remove(index);
        self.log_of[log.logical as usize] = NONE;
        if let Some(moved) = self.logs.get(index) {
            self.log_of[moved.logical as usize] = index as u32;
        }
    }

    fn merge(&mut self, core: &mut Core, index: usize) {
        if !core.can_merge() {
            return;
        }
        let Log { superblock, logical, in_order, .. } = self.logs[index];
        if in_order {
            core.merge_into_log(logical, superblock);
        } else if !core.merge_fully(logical, superblock) {
            return;
        }
        self.merging += 1;
    }

    /// Gives a log for a logical superblock, if one is free. Otherwise begins a merge that frees
    /// one, unless there is already one under way for each superblock that waits.
    fn take_log(&mut self, core: &mut Core, logical: u32) -> Option<usize> {
        if self.logs.len() == self.most {
            self.wanted += 1;
            if self.merging < self.wanted {
                let candidates = (0..self.logs.len())
                    .filter(|&index| !core.is_merging(self.logs[index].logical));
                if let Some(oldest) = candidates.min_by_key(|&index| self.logs[index].used_at) {
                    self.merge(core, oldest);
                }
            }
            return None;
        }
        let superblock = core.take(core.blocks.group_for(logical), Role::Log)?;
        self.log_of[logical as usize] = self.logs.len() as u32;
        self.logs.push(Log { superblock, logical, in_order: true, used_at: self.clock });
        Some(self.logs.len() - 1)
    }
}

impl Rules for BastRules {
    fn put(&mut self, core: &mut Core, lpn: u32) -> Option<u32> {
        let (logical, offset) = core.blocks.split(lpn);
        if core.is_merging(logical) {
            return None;
        }
        let index = self.log_of[logical as usize];
        let log = self.logs.get(index as usize).filter(|log| log.in_order);
        let in_order = log.map_or(0, |log| core.blocks.next(log.superblock));
        if log.is_some() && in_order == offset {
            return Some(self.append(core, index as usize, lpn));
        }
        // The data superblock must not have newer versions of pages that the log holds in order, as
        // the log will replace it.
        if offset >= in_order {
            match core.write_in_place(lpn) {
                InPlace::Done(place) => return Some(place),
                InPlace::Wait => return None,
                InPlace::Taken => {}
            }
        }
        let index = if index == NONE { self.take_log(core, logical)? } else { index as usize };
        if core.blocks.next(self.logs[index].superblock) == core.blocks.pages() {
            self.merge(core, index);
            return None;
        }
        Some(self.append(core, index, lpn))
    }

    fn begin_pass(&mut self) {
        self.wanted = 0;
    }

    fn ended(&mut self, _core: &mut Core, work: &Work) {
        if work.kind == WorkKind::Merge {
            self.merging -= 1;
            self.remove(self.log_of[work.logical as usize] as usize);
        }
    }

    fn has_log(&self, logical: u32) -> bool {
        self.log_of[logical as usize] != NONE
    }

    fn table_bytes(&self) -> usize {
        4 * self.log_of.len() + self.logs.capacity() * size_of::<Log>()
    }

    fn audit(&self, core: &Core) -> Result<(), String> {
        for (index, log) in (0u32..).zip(&self.logs) {
            let role = core.blocks.role(log.superblock);
            if self.log_of[log.logical as usize] != index || role != Role::Log {
                return Err(format!(
                    "log {index} of logical superblock {} is superblock {}, which is {role:?}",
                    log.logical, log.superblock
                ));
            }
        }
        let owned = self.log_of.iter().filter(|&&index| index != NONE).count();
        if owned != self.logs.len() || owned > self.most {
            return Err(format!(
                "{owned} logical superblocks have logs, {} logs are in use of {}",
                self.logs.len(),
                self.most
            ));
        }
        for lpn in 0..core.blocks.logical_pages() {
            let place = core.blocks.place(lpn);
            if place == NONE || core.blocks.role(core.blocks.superblock_of(place)) != Role::Log {
                continue;
            }
            let index = self.log_of[core.blocks.split(lpn).0 as usize];
            if index == NONE
                || self.logs[index as usize].superblock != core.blocks.superblock_of(place)
            {
                return Err(format!(
                    "logical page {lpn} is at place {place}, in the log of another"
                ));
            }
        }
        Ok(())
    }
}
