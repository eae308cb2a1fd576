//! Large flat tables of page numbers, on huge pages where the system has them.

use memmap2::MmapMut;

/// A table of `u32`, all `u32::MAX` at first.
///
/// Random access to a table of hundreds of megabytes misses the TLB nearly every time when it lies
/// on pages of 4 KiB; asking the kernel for huge pages spares most of these misses. Where that is
/// refused the table works all the same.
#[derive(Debug)]
pub(super) struct Table {
    memory: MmapMut,
    entries: usize,
}

impl Table {
    /// # Panics
    /// If the system has no memory left.
    pub fn new(entries: usize) -> Self {
        let mut memory = MmapMut::map_anon((entries * size_of::<u32>()).max(1))
            .expect("memory for the tables of the FTL");
        #[cfg(target_os = "linux")]
        {
            // Only advice: without huge pages the table is slower, not wrong.
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        memory.fill(0xff);
        Self { memory, entries }
    }

    #[inline]
    pub fn all(&self) -> &[u32] {
        &bytemuck::cast_slice(&self.memory[..self.entries * size_of::<u32>()])[..self.entries]
    }

    #[inline]
    pub fn all_mut(&mut self) -> &mut [u32] {
        let entries = self.entries;
        &mut bytemuck::cast_slice_mut(&mut self.memory[..entries * size_of::<u32>()])[..entries]
    }

    #[inline]
    pub fn get(&self, index: usize) -> u32 {
        self.all()[index]
    }

    #[inline]
    pub fn set(&mut self, index: usize, value: u32) {
        self.all_mut()[index] = value;
    }
}
