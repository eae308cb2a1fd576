//! State that remains of a stopped FTL, and the restart from it: a log-structured volume is opened
//! again.

use placement::{Block, Placement, Victim};
use thiserror::Error;
use units::{EraseBlockId, StreamId};

use super::PageMapped;
use super::{Frontier, UNMAPPED};

/// State of one erase block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRemains {
    /// The stream that it was opened for.
    pub stream: u16,
    /// The clock at the time of opening, modulo 2^32.
    pub opened_at: u32,
    /// Sequence number of the opening: greater for each erase block opened later.
    pub order: u64,
    /// Number of pages written, from the first on, valid or not.
    pub filled: u32,
}

/// State of a stopped FTL. The state of its policies is not part of it: they learn anew.
#[derive(Clone, Copy, Debug)]
pub struct Remains<'a> {
    /// Physical page of each logical page; `u32::MAX` for none.
    pub map: &'a [u32],
    /// All erase blocks. Those without valid pages are free.
    pub blocks: &'a [BlockRemains],
    /// Host page writes so far.
    pub clock: u64,
    /// The erase block that is the write frontier of its stream, even if it holds no valid page,
    /// and whatever the order says.
    pub open: Option<u32>,
}

/// Errors of remains that such an FTL cannot have left.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RemainsError {
    /// A table is of the wrong length.
    #[error("{there} {what}, but there are {right}")]
    Length {
        /// Name of the entries.
        what: &'static str,
        /// Number of entries.
        there: usize,
        /// Right number of entries.
        right: usize,
    },
    /// A logical page is mapped to a page that was not written.
    #[error("logical page {lpn} lies at physical page {ppn}, where nothing was written")]
    Nowhere {
        /// The logical page.
        lpn: u32,
        /// The physical page that it is mapped to.
        ppn: u32,
    },
    /// Two logical pages are mapped to the same physical page.
    #[error("logical pages {first} and {second} both lie at physical page {ppn}")]
    Twice {
        /// The first logical page.
        first: u32,
        /// The second logical page.
        second: u32,
        /// The physical page of both.
        ppn: u32,
    },
    /// An erase block belongs to no stream of the placement policy.
    #[error("erase block {block} belongs to stream {stream}, and there are {streams}")]
    Stream {
        /// The erase block.
        block: u32,
        /// Its stream.
        stream: u16,
        /// Number of streams of the policy.
        streams: usize,
    },
}

impl<P: Placement, V: Victim> PageMapped<P, V> {
    /// Restores the state of another FTL of the same geometry. Call it before the first write, with
    /// a single lane.
    ///
    /// The erase block of a stream that was opened last is its write frontier, unless it is full;
    /// all others are closed.
    ///
    /// # Errors
    /// [`RemainsError`] if such an FTL cannot have left that state; the content of this one is
    /// meaningless then.
    ///
    /// # Panics
    /// If there are several lanes.
    pub fn go_on_from(&mut self, remains: Remains<'_>) -> Result<(), RemainsError> {
        assert!(self.lanes.count() == 1, "what remains is known of a single lane");
        let (right, streams) = (self.device.blocks.len(), self.device.streams.len());
        if remains.blocks.len() != right {
            return Err(RemainsError::Length {
                what: "erase blocks",
                there: remains.blocks.len(),
                right,
            });
        }
        self.device.clock = remains.clock;
        self.take_over_map(remains)?;
        let mut in_use: Vec<u32> = (0..right as u32)
            .filter(|&block| {
                self.device.blocks[block as usize].valid > 0 || remains.open == Some(block)
            })
            .collect();
        // In the order in which they were opened, which is roughly that in which they were closed.
        in_use.sort_unstable_by_key(|&block| remains.blocks[block as usize].order);
        let mut is_in_use = vec![false; right];
        let mut last = vec![None; streams];
        for &block in &in_use {
            let BlockRemains { stream, opened_at, .. } = remains.blocks[block as usize];
            if usize::from(stream) >= streams {
                return Err(RemainsError::Stream { block, stream, streams });
            }
            let valid = self.device.blocks[block as usize].valid;
            self.device.blocks[block as usize] = Block { valid, stream };
            self.device.opened_at[block as usize] = opened_at;
            let space = &mut self.device.streams[usize::from(stream)];
            space.erase_blocks += 1;
            if self.placement.features().per_stream {
                space.valid_pages += valid;
            }
            is_in_use[block as usize] = true;
            last[usize::from(stream)] = Some(block);
        }
        if let Some(open) = remains.open {
            last[usize::from(remains.blocks[open as usize].stream)] = Some(open);
        }
        self.lanes.occupy(0, &is_in_use);
        let pages = self.device.geometry.pages_per_erase_block;
        for block in in_use {
            let BlockRemains { stream, filled, .. } = remains.blocks[block as usize];
            if filled < pages && last[usize::from(stream)] == Some(block) {
                self.frontiers[usize::from(stream)] =
                    Frontier { next: block * pages + filled, end: (block + 1) * pages };
            } else {
                let domain = self.lanes.domain_in(self.placement.domain_of(u32::from(stream)), 0);
                self.closed(EraseBlockId(block), domain);
            }
        }
        Ok(())
    }

    fn take_over_map(&mut self, remains: Remains<'_>) -> Result<(), RemainsError> {
        let logical = self.map.all().len();
        if remains.map.len() != logical {
            return Err(RemainsError::Length {
                what: "logical pages",
                there: remains.map.len(),
                right: logical,
            });
        }
        let pages = self.device.geometry.pages_per_erase_block;
        for (lpn, &ppn) in (0u32..).zip(remains.map).filter(|&(_, &ppn)| ppn != UNMAPPED) {
            let (block, offset) = (ppn / pages, ppn % pages);
            if remains.blocks.get(block as usize).is_none_or(|block| offset >= block.filled) {
                return Err(RemainsError::Nowhere { lpn, ppn });
            }
            let first = self.owner.get(ppn as usize);
            if first != UNMAPPED {
                return Err(RemainsError::Twice { first, second: lpn, ppn });
            }
            self.map.set(lpn as usize, ppn);
            self.owner.set(ppn as usize, lpn);
            self.valid[block as usize * self.words + (offset / 64) as usize] |= 1 << (offset % 64);
            self.device.blocks[block as usize].valid += 1;
        }
        Ok(())
    }

    /// Gives the stream of an erase block that is in use.
    #[inline]
    #[must_use]
    pub fn stream_of(&self, block: EraseBlockId) -> StreamId {
        StreamId(u32::from(self.device.block(block).stream))
    }
}

#[cfg(test)]
mod tests {
    use placement::policies::none::NoPlacement;
    use placement::{AnyVictim, Context, build_victim};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg;
    use registry::Spec;
    use units::{Geometry, Lpn};

    use super::*;

    const GEOMETRY: Geometry = Geometry {
        page_bytes: 4096,
        pages_per_erase_block: 16,
        logical_pages: 256,
        erase_blocks: 24,
    };

    fn made() -> PageMapped<NoPlacement, AnyVictim> {
        let context = Context {
            geometry: GEOMETRY,
            seed: 1,
            page_weights: None,
            future: None,
            most_streams: usize::MAX,
        };
        let victims = build_victim(&Spec::parse("greedy").unwrap(), &context, 1).unwrap();
        PageMapped::new(GEOMETRY, "none", NoPlacement, victims).unwrap()
    }

    fn left_of(ftl: &PageMapped<NoPlacement, AnyVictim>) -> (Vec<u32>, Vec<BlockRemains>) {
        let written = ftl.written_pages();
        let device = ftl.device();
        let blocks = device.blocks.iter().zip(&device.opened_at).zip(written);
        let blocks = blocks.map(|((block, &opened_at), filled)| BlockRemains {
            stream: block.stream,
            opened_at,
            order: u64::from(opened_at),
            filled,
        });
        (ftl.map.all().to_vec(), blocks.collect())
    }

    #[test]
    fn an_ftl_goes_on_from_what_another_left() {
        let mut random = Pcg64Mcg::seed_from_u64(3);
        for writes in [1, 5, 300, 2000] {
            let mut first = made();
            (0..writes).for_each(|_| first.write(Lpn(random.random_range(0..256)), 0));
            let (map, blocks) = left_of(&first);
            let mut second = made();
            second
                .go_on_from(Remains {
                    map: &map,
                    blocks: &blocks,
                    clock: first.device().clock,
                    open: None,
                })
                .unwrap();
            second.audit().unwrap();
            for _ in 0..3000 {
                second.write(Lpn(random.random_range(0..256)), 0);
            }
            second.audit().unwrap();
        }
    }

    #[test]
    fn impossible_remains_are_refused() {
        let mut first = made();
        (0..100).for_each(|lpn| first.write(Lpn(lpn), 0));
        let (map, blocks) = left_of(&first);
        let refused = |map: &[u32], blocks: &[BlockRemains]| {
            made().go_on_from(Remains { map, blocks, clock: 100, open: None }).unwrap_err()
        };
        assert!(matches!(refused(&map[1..], &blocks), RemainsError::Length { .. }));
        let mut twice = map.clone();
        twice[7] = twice[8];
        assert!(matches!(refused(&twice, &blocks), RemainsError::Twice { .. }));
        for wrong in [100, 16 * 24, u32::MAX - 1] {
            let mut nowhere = map.clone();
            nowhere[3] = wrong;
            assert!(matches!(refused(&nowhere, &blocks), RemainsError::Nowhere { lpn: 3, .. }));
        }
        let mut strange = blocks;
        strange[0].stream = 1;
        assert!(matches!(refused(&map, &strange), RemainsError::Stream { .. }));
    }
}
