//! Erase blocks with one bit a cell: quicker, for as long as they are.

use units::EraseBlockId;

use super::Layout;
use super::command::FlashOp;
use super::slots::Entry;
use crate::drive::profile::{SlcCacheConfig, SlcCacheKind};
use crate::drive::time::{Picos, picos_of_micros};

/// The erase blocks that currently have one bit per cell, and their times.
#[derive(Debug)]
pub(super) struct SlcMode {
    is_slc: Vec<bool>,
    read: Picos,
    program: Picos,
    erase: Picos,
}

impl SlcMode {
    /// None without an SLC cache.
    pub fn new(config: &SlcCacheConfig, slices: u32, erase_blocks: u32) -> Option<Box<Self>> {
        (config.kind != SlcCacheKind::None).then(|| {
            Box::new(Self {
                is_slc: vec![false; erase_blocks as usize],
                read: picos_of_micros(config.read_us),
                program: picos_of_micros(config.program_us),
                erase: picos_of_micros(config.erase_us / f64::from(slices)),
            })
        })
    }

    pub fn set(&mut self, block: EraseBlockId, is_slc: bool) {
        self.is_slc[block.index()] = is_slc;
    }

    /// The time of a command's operation, which takes `other` with all bits.
    #[cold]
    pub fn time(&self, entry: &Entry, layout: &Layout, other: Picos) -> Picos {
        if !self.is_slc[layout.block_of(entry.command.page).index()] {
            return other;
        }
        match entry.command.op {
            FlashOp::Read => self.read,
            FlashOp::Program => self.program,
            FlashOp::Erase => self.erase,
            FlashOp::CopyBack => self.read + self.program,
        }
    }
}
