//! FAST: log superblocks that any page may go to.
//!
//! A page goes to its offset of its data superblock as long as that can be programmed, otherwise to
//! a log (Lee et al. 2007, section 4):
//!
//! - One log, SW, takes one sequential write: a page at offset 0 of its logical superblock begins a
//!   new one, after the old contents of SW were merged (switch if it is full, otherwise partial);
//!   the page that follows the last one in SW is appended; any other page of the same logical
//!   superblock ends it: it is merged.
//! - All others, RW, take every other page, in the order written. When they are full the oldest is
//!   the victim: each logical superblock that has a newest version there is merged fully, including
//!   its pages in the other logs; then the victim is erased.
//!
//! So random writes fill every log to its end, but a merge of a victim may take as many full merges
//! as it has pages; one sequential stream is cheap, but several are not.
//!
//! Differences from the paper: superblocks instead of erase blocks; several full merges at once; a
//! full SW becomes data at once; a full merge of the logical superblock that SW belongs to takes
//! the pages in SW along and erases it.

use std::collections::VecDeque;

use registry::{Args, Info, Param, ParamKind};

use super::hybrid::{Hybrid, Rules};
use super::merge::{Core, InPlace, Work, WorkKind};
use super::superblock::{NONE, Role};
use super::{SchemeError, log_maps, superblock};
use crate::drive::media::Layout;

/// Entry in the registry: name, parameters, source.
pub const INFO: Info = Info {
    name: "fast",
    aliases: &["fully_associative_log"],
    summary: "data superblocks mapped as a whole; a log for one sequential stream, the others for \
              any page",
    source: "Lee et al., A log buffer-based flash translation layer using fully-associative sector \
             translation, ACM TECS 6(3), 2007",
    params: &[
        Param {
            name: "log_blocks",
            kind: ParamKind::Integer { min: 2, max: 65_536 },
            default: "8",
            help: "log superblocks, one of them for sequential writes",
        },
        superblock::INTERLEAVE,
        superblock::MERGES_AT_ONCE,
        log_maps::MAPS_IN_MEMORY,
    ],
};

/// A drive with FAST.
pub type Fast = Hybrid<FastRules>;

/// Makes a FAST drive of `logical_pages`. With `copy_back`, merges move pages that stay on their
/// plane without the channel.
///
/// # Errors
/// [`SchemeError`] if the planes cannot be grouped as asked, or the media are too small.
pub fn build(
    args: &Args,
    layout: &Layout,
    logical_pages: u32,
    copy_back: bool,
) -> Result<Fast, SchemeError> {
    let (interleave, merges) = superblock::shared_params(args);
    let logs = args.integer("log_blocks") as u32;
    let core = Core::new(INFO.name, layout, logical_pages, interleave, logs, merges, copy_back)?;
    let rules = FastRules {
        sequential: None,
        random: VecDeque::new(),
        most_random: logs as usize - 1,
        cleaning: Cleaning::No,
        spare: Vec::new(),
    };
    Ok(Hybrid::new(core, rules, args))
}

/// SW: pages `0 .. next` of a logical superblock, each at its own offset.
#[derive(Clone, Copy, Debug)]
struct Sequential {
    superblock: u32,
    logical: u32,
    is_merging: bool,
}

/// A log of RW.
#[derive(Debug)]
struct Random {
    superblock: u32,
    /// The logical page at each offset written.
    lpns: Vec<u32>,
}

/// State of the cleaning of the oldest log of RW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleaning {
    No,
    /// Its logical superblocks are being merged.
    Merging,
    /// It is being erased.
    Erasing,
}

/// The decisions of FAST.
#[derive(Debug)]
pub struct FastRules {
    sequential: Option<Sequential>,
    /// The logs of RW, oldest first.
    random: VecDeque<Random>,
    most_random: usize,
    cleaning: Cleaning,
    /// Tables of erased logs, kept for reuse.
    spare: Vec<Vec<u32>>,
}

impl FastRules {
    /// Begins to merge SW. Returns true if the merge is under way.
    fn merge_sequential(&mut self, core: &mut Core) -> bool {
        let Some(sw) = &mut self.sequential else { return false };
        if !sw.is_merging && core.can_merge() {
            core.merge_into_log(sw.logical, sw.superblock);
            sw.is_merging = true;
        }
        sw.is_merging
    }

    fn append_sequential(&mut self, core: &mut Core, lpn: u32, sw: Sequential) -> u32 {
        let (_, offset) = core.blocks.split(lpn);
        let place = core.blocks.occupy(lpn, sw.superblock, offset);
        if offset + 1 == core.blocks.len(sw.logical) {
            self.sequential = None;
            core.switch(sw.logical, sw.superblock);
        }
        place
    }

    fn begin_sequential(&mut self, core: &mut Core, lpn: u32) -> Option<u32> {
        if self.sequential.is_some() {
            self.merge_sequential(core);
            return None;
        }
        let (logical, _) = core.blocks.split(lpn);
        if core.is_merging(logical) {
            // The merge would take pages out of the new SW, which has to hold its pages in order
            // without gaps.
            return None;
        }
        let superblock = core.take(core.blocks.group_for(logical), Role::Log)?;
        let sw = Sequential { superblock, logical, is_merging: false };
        self.sequential = Some(sw);
        Some(self.append_sequential(core, lpn, sw))
    }

    fn append_random(&mut self, core: &mut Core, lpn: u32) -> Option<u32> {
        let has_room = self
            .random
            .back()
            .is_some_and(|log| core.blocks.next(log.superblock) < core.blocks.pages());
        if !has_room {
            if self.random.len() == self.most_random {
                self.clean(core);
                return None;
            }
            let superblock = core.take(core.blocks.emptiest_group(), Role::Log)?;
            self.random
                .push_back(Random { superblock, lpns: self.spare.pop().unwrap_or_default() });
        }
        let log = self.random.back_mut()?;
        let fill = core.blocks.next(log.superblock);
        log.lpns.push(lpn);
        Some(core.blocks.occupy(lpn, log.superblock, fill))
    }

    /// Continues to clean the oldest log of RW: merges its pages, then erases it.
    fn clean(&mut self, core: &mut Core) {
        if self.cleaning == Cleaning::Erasing {
            return;
        }
        let Some(victim) = self.random.front() else { return };
        self.cleaning = Cleaning::Merging;
        while core.can_merge() {
            let here = (0u32..).zip(&victim.lpns).find(|&(offset, &lpn)| {
                let (logical, _) = core.blocks.split(lpn);
                core.blocks.place(lpn) == core.blocks.place_at(victim.superblock, offset)
                    && !core.is_merging(logical)
            });
            let Some((_, &lpn)) = here else { break };
            let (logical, _) = core.blocks.split(lpn);
            let sw = self.sequential.filter(|sw| sw.logical == logical);
            if !core.merge_fully(logical, sw.map_or(NONE, |sw| sw.superblock)) {
                break;
            }
            if sw.is_some() {
                self.sequential = None;
            }
        }
        if core.blocks.valid(victim.superblock) == 0 {
            self.cleaning = Cleaning::Erasing;
            core.reclaim(victim.superblock);
        }
    }
}

impl Rules for FastRules {
    fn put(&mut self, core: &mut Core, lpn: u32) -> Option<u32> {
        let (logical, offset) = core.blocks.split(lpn);
        let own = self.sequential.filter(|sw| sw.logical == logical && !sw.is_merging);
        if let Some(sw) = own.filter(|sw| core.blocks.next(sw.superblock) == offset) {
            return Some(self.append_sequential(core, lpn, sw));
        }
        // The data superblock must not have newer versions of pages that SW holds, as SW will
        // replace it.
        if own.is_none_or(|sw| offset > core.blocks.next(sw.superblock)) {
            match core.write_in_place(lpn) {
                InPlace::Done(place) => return Some(place),
                InPlace::Wait => return None,
                InPlace::Taken => {}
            }
        }
        if offset == 0 {
            return self.begin_sequential(core, lpn);
        }
        if own.is_some() && !self.merge_sequential(core) {
            return None;
        }
        self.append_random(core, lpn)
    }

    fn ended(&mut self, _core: &mut Core, work: &Work) {
        match work.kind {
            WorkKind::Merge => {
                if self.sequential.is_some_and(|sw| sw.is_merging && sw.superblock == work.target) {
                    self.sequential = None;
                }
            }
            WorkKind::Reclaim => {
                if self.cleaning == Cleaning::Erasing
                    && self.random.front().is_some_and(|log| log.superblock == work.erases[0])
                {
                    self.cleaning = Cleaning::No;
                    if let Some(mut log) = self.random.pop_front() {
                        log.lpns.clear();
                        self.spare.push(log.lpns);
                    }
                }
            }
            WorkKind::Fill => {}
        }
    }

    fn go_on(&mut self, core: &mut Core) {
        if self.cleaning == Cleaning::Merging {
            self.clean(core);
        }
    }

    fn has_log(&self, logical: u32) -> bool {
        self.sequential.is_some_and(|sw| sw.logical == logical)
    }

    fn table_bytes(&self) -> usize {
        let tables = self.random.iter().map(|log| &log.lpns).chain(&self.spare);
        tables.map(|lpns| lpns.capacity() * size_of::<u32>()).sum::<usize>()
            + self.random.capacity() * size_of::<Random>()
    }

    fn audit(&self, core: &Core) -> Result<(), String> {
        let blocks = &core.blocks;
        let logs = self
            .random
            .iter()
            .map(|log| log.superblock)
            .chain(self.sequential.iter().map(|sw| sw.superblock));
        let mut is_log = vec![false; blocks.count() as usize];
        for superblock in logs {
            let is_erased = self.cleaning == Cleaning::Erasing
                && self.random.front().is_some_and(|log| log.superblock == superblock);
            if blocks.role(superblock) != if is_erased { Role::Leaving } else { Role::Log } {
                return Err(format!(
                    "log superblock {superblock} is {:?}",
                    blocks.role(superblock)
                ));
            }
            is_log[superblock as usize] = true;
        }
        if self.random.len() > self.most_random {
            return Err(format!(
                "{} logs for random writes are in use of {}",
                self.random.len(),
                self.most_random
            ));
        }
        for log in &self.random {
            let written = blocks.next(log.superblock) as usize;
            let counted = (0u32..).zip(&log.lpns).filter(|&(offset, &lpn)| {
                blocks.place(lpn) == blocks.place_at(log.superblock, offset)
            });
            let (counted, kept) = (counted.count() as u32, blocks.valid(log.superblock));
            if log.lpns.len() != written || counted != kept {
                return Err(format!(
                    "log superblock {} has {counted} valid pages of {written}, its counter says \
                     {kept}",
                    log.superblock
                ));
            }
        }
        for lpn in 0..blocks.logical_pages() {
            let place = blocks.place(lpn);
            if place == NONE || blocks.role(blocks.superblock_of(place)) != Role::Log {
                continue;
            }
            let superblock = blocks.superblock_of(place);
            let is_leaving_sequential = core.is_merging(blocks.split(lpn).0);
            let is_strange = self.sequential.is_some_and(|sw| sw.superblock == superblock)
                && place != blocks.place_at(superblock, blocks.split(lpn).1);
            if is_strange || !(is_log[superblock as usize] || is_leaving_sequential) {
                return Err(format!(
                    "logical page {lpn} is at place {place}, which is no place for it"
                ));
            }
        }
        Ok(())
    }
}
