//! Pages that a cleaning takes along from streams other than its victim's.

use placement::{Placement, Pull, Victim};
use units::{EraseBlockId, Lpn, Ppn};

use super::PageMapped;
use super::cleaning::Survivor;

impl<P: Placement, V: Victim> PageMapped<P, V> {
    /// Lists the pages that are taken along, `most` at most. They are of closed erase blocks of the
    /// same lane: what is still being written may not be readable yet.
    pub(super) fn find_pulled(
        &self,
        victim: EraseBlockId,
        lane: u32,
        most: u32,
        pulls: &[Pull],
        found: &mut Vec<Survivor>,
    ) {
        let pages = self.device.geometry.pages_per_erase_block;
        for pull in pulls.iter().filter(|pull| pull.pages > 0) {
            let Some(block) = self.closed_block_of(pull, victim, lane) else { continue };
            let room = (most as usize - found.len()).min(pull.pages as usize);
            let from = |offset| Ppn(block.0 * pages + offset);
            let is_valid = |page: &Ppn| self.is_valid(*page);
            let moved = |page: Ppn| Survivor {
                lpn: Lpn(self.owner.get(page.0 as usize)),
                from: page,
                to: pull.to,
            };
            if pull.newest {
                found.extend((0..pages).rev().map(from).filter(is_valid).take(room).map(moved));
            } else {
                found.extend((0..pages).map(from).filter(is_valid).take(room).map(moved));
            }
        }
    }

    /// The closed erase block of a stream that was opened last, or first.
    fn closed_block_of(
        &self,
        pull: &Pull,
        victim: EraseBlockId,
        lane: u32,
    ) -> Option<EraseBlockId> {
        let frontier = self.frontiers[self.lanes.of_stream(pull.from, lane)];
        let is_open = |block: u32| {
            frontier.next < frontier.end && self.divider.quotient(frontier.next) == block
        };
        let of_stream = self.lanes.blocks_of(lane).filter(|&block| {
            let known = self.device.blocks[block as usize];
            // Free erase blocks keep their last stream's number, and hold nothing.
            u32::from(known.stream) == pull.from.0 && known.valid > 0 && block != victim.0
        });
        let closed = of_stream.filter(|&block| !is_open(block)).map(EraseBlockId);
        if pull.newest {
            closed.min_by_key(|&block| self.device.age_of(block))
        } else {
            closed.max_by_key(|&block| self.device.age_of(block))
        }
    }
}
