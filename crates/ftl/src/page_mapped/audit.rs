//! An audit of the FTL's tables against each other.

use placement::{Placement, Victim};
use thiserror::Error;

use super::PageMapped;

/// Two tables of an FTL contradict each other: a bug.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuditError {
    /// The map points to a page that is not marked valid or belongs to another logical page.
    #[error("logical page {lpn} is mapped to physical page {ppn}, which is {state}")]
    Mapping {
        /// Logical page.
        lpn: u32,
        /// Physical page of the map's entry.
        ppn: u32,
        /// State of that physical page.
        state: String,
    },
    /// A count of valid pages is wrong.
    #[error("{what} {number} has {counted} valid pages, but its counter says {kept}")]
    ValidPages {
        /// `erase block`, `stream` or `the device`.
        what: &'static str,
        /// Its number.
        number: u32,
        /// Counted in the bitmap.
        counted: u32,
        /// Kept in the table.
        kept: u32,
    },
    /// A stream's count of erase blocks is wrong.
    #[error("stream {stream} has {counted} erase blocks, but its counter says {kept}")]
    EraseBlocks {
        /// Its number.
        stream: u32,
        /// Counted.
        counted: u32,
        /// Kept in the table.
        kept: u32,
    },
    /// A free erase block holds data, or is listed twice.
    #[error("erase block {0} is listed as free, but it holds valid pages or is listed twice")]
    Free(u32),
    /// The erase counts do not add up.
    #[error("erase counts add up to {counted}, but {kept} erases were counted")]
    Erases {
        /// Sum of the counts.
        counted: u64,
        /// The counter.
        kept: u64,
    },
}

impl<P: Placement, V: Victim> PageMapped<P, V> {
    /// Checks every table against every other. Takes time in proportion to the device's pages.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn audit(&self) -> Result<(), AuditError> {
        self.audit_mapping()?;
        self.audit_valid_pages()?;
        let mut seen = vec![false; self.device.blocks.len()];
        for block in self.lanes.not_in_use() {
            if std::mem::replace(&mut seen[block as usize], true) || self.counted(block) != 0 {
                return Err(AuditError::Free(block));
            }
        }
        self.audit_streams(&seen)?;
        let counted = self.erased.iter().map(|&count| u64::from(count)).sum();
        let kept = self.counters().erases;
        if counted == kept { Ok(()) } else { Err(AuditError::Erases { counted, kept }) }
    }

    /// Every erase block that is not free belongs to one stream, which counts it.
    fn audit_streams(&self, is_free: &[bool]) -> Result<(), AuditError> {
        let mut blocks = vec![0u32; self.device.streams.len()];
        let used = self.device.blocks.iter().zip(is_free).filter(|(_, is_free)| !**is_free);
        used.for_each(|(block, _)| blocks[usize::from(block.stream)] += 1);
        for (number, (&counted, stream)) in (0u32..).zip(blocks.iter().zip(&self.device.streams)) {
            if counted != stream.erase_blocks {
                return Err(AuditError::EraseBlocks {
                    stream: number,
                    counted,
                    kept: stream.erase_blocks,
                });
            }
        }
        Ok(())
    }

    fn counted(&self, block: u32) -> u32 {
        let first = block as usize * self.words;
        self.valid[first..first + self.words].iter().map(|word| word.count_ones()).sum()
    }

    fn audit_mapping(&self) -> Result<(), AuditError> {
        let pages = self.device.geometry.pages_per_erase_block;
        for (lpn, &ppn) in self.map.all().iter().enumerate().filter(|&(_, &ppn)| ppn != u32::MAX) {
            let (block, offset) = (ppn / pages, ppn % pages);
            let is_valid = self.valid[block as usize * self.words + (offset / 64) as usize]
                >> (offset % 64)
                & 1
                == 1;
            let owner = self.owner.get(ppn as usize);
            if !is_valid || owner as usize != lpn {
                let state = if is_valid {
                    format!("logical page {owner}'s")
                } else {
                    "not valid".to_owned()
                };
                return Err(AuditError::Mapping { lpn: lpn as u32, ppn, state });
            }
        }
        Ok(())
    }

    fn audit_valid_pages(&self) -> Result<(), AuditError> {
        let mut of_stream = vec![0u32; self.device.streams.len()];
        let mut total = 0;
        for (number, block) in (0u32..).zip(&self.device.blocks) {
            let counted = self.counted(number);
            if counted != block.valid {
                return Err(AuditError::ValidPages {
                    what: "erase block",
                    number,
                    counted,
                    kept: block.valid,
                });
            }
            of_stream[usize::from(block.stream)] += counted;
            total += counted;
        }
        let kept = self.map.all().iter().filter(|&&ppn| ppn != u32::MAX).count() as u32;
        if total != kept {
            return Err(AuditError::ValidPages {
                what: "the device",
                number: 0,
                counted: total,
                kept,
            });
        }
        for (number, (&counted, stream)) in (0u32..).zip(of_stream.iter().zip(&self.device.streams))
        {
            if self.placement.features().per_stream && counted != stream.valid_pages {
                return Err(AuditError::ValidPages {
                    what: "stream",
                    number,
                    counted,
                    kept: stream.valid_pages,
                });
            }
        }
        for lane in (0..self.lanes.count()).filter(|_| self.lanes.counts_valid_pages()) {
            let counted = self
                .lanes
                .blocks_of(lane)
                .map(|block| self.device.blocks[block as usize].valid)
                .sum();
            let kept = self.lanes.valid_pages(lane);
            if counted != kept {
                return Err(AuditError::ValidPages { what: "lane", number: lane, counted, kept });
            }
        }
        Ok(())
    }
}
