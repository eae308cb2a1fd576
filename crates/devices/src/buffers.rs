//! The memory that requests go to and come from.
//!
//! Each request under way has a place of its own, one for reads and one for writes: what is read must not be written again, as it may be
//! zero. Places are only taken from the system when a request first needs them, and made known to the kernel ("registered") as far as they
//! are used: registering pins them, and few users may pin much. A place that may not be registered is used without, which costs some time
//! in each request.

#![allow(unsafe_code, reason = "memory is shared with the kernel")]

use io_uring::IoUring;
use memmap2::{MmapMut, MmapOptions, MmapRaw};

use crate::content::Content;

/// Registered at least: a page. Less would save nothing.
const LEAST: usize = 4096;

pub(crate) struct Pool {
    /// Never looked at by this process, as the kernel writes to it at any time.
    reads: MmapRaw,
    /// The kernel only reads it.
    writes: MmapMut,
    slot_bytes: usize,
    /// Bytes of each place for writes that were filled.
    filled: Vec<usize>,
    /// Bytes of each place that the kernel knows: reads, then writes.
    registered: Vec<usize>,
    /// Longest that may still be registered.
    most_registered: usize,
    content: Content,
}

/// Where a request's data is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub address: *mut u8,
    /// Number of the registered buffer, if it is one.
    pub registered: Option<u16>,
}

impl Pool {
    /// Memory for so many requests of so many bytes; untouched.
    pub fn new(slots: u32, slot_bytes: u32, seed: u64) -> std::io::Result<Self> {
        let (slots, slot_bytes) = (slots as usize, (slot_bytes as usize).next_multiple_of(LEAST));
        let map = || MmapOptions::new().len(slots * slot_bytes).no_reserve_swap().map_anon();
        let (reads, writes) = (MmapRaw::from(map()?), map()?);
        let (filled, registered) = (vec![0; slots], vec![0; 2 * slots]);
        Ok(Self { reads, writes, slot_bytes, filled, registered, most_registered: 0, content: Content::new(seed) })
    }

    /// A new ring: it knows no buffer yet.
    pub fn forget_registered(&mut self, ring: &IoUring) {
        self.registered.fill(0);
        let places = self.registered.len() as u32;
        self.most_registered = if ring.submitter().register_buffers_sparse(places).is_ok() { self.slot_bytes } else { 0 };
    }

    /// The place to read to.
    pub fn read_place(&mut self, slot: u32, length: u32, ring: &IoUring) -> Place {
        let slot = slot as usize;
        // SAFETY: the slot lies within the mapping.
        let address = unsafe { self.reads.as_mut_ptr().add(slot * self.slot_bytes) };
        self.place(address, slot, length as usize, ring)
    }

    /// The place to write from, with data never written before.
    pub fn write_place(&mut self, slot: u32, length: u32, ring: &IoUring) -> Place {
        let (slot, length) = (slot as usize, length as usize);
        let start = slot * self.slot_bytes;
        let bytes = &mut self.writes[start..start + self.slot_bytes];
        let filled = self.filled[slot];
        if filled < length {
            let wanted = rounded(length, self.slot_bytes);
            self.content.fill(&mut bytes[filled..wanted]);
            self.filled[slot] = wanted;
        }
        self.content.stamp(&mut bytes[..length]);
        let address = bytes.as_mut_ptr();
        self.place(address, self.filled.len() + slot, length, ring)
    }

    fn place(&mut self, address: *mut u8, number: usize, length: usize, ring: &IoUring) -> Place {
        if self.registered[number] < length && length <= self.most_registered {
            self.register(address, number, length, ring);
        }
        Place { address, registered: (self.registered[number] >= length).then_some(number as u16) }
    }

    #[cold]
    fn register(&mut self, address: *mut u8, number: usize, length: usize, ring: &IoUring) {
        let wanted = rounded(length, self.slot_bytes).min(self.most_registered);
        let buffer = libc::iovec { iov_base: address.cast(), iov_len: wanted };
        // SAFETY: the buffer lies within its slot of a mapping that outlives the ring: whoever owns both drops the ring first, or leaks the
        // mapping.
        match unsafe { ring.submitter().register_buffers_update(number as u32, &[buffer], None) } {
            Ok(()) => self.registered[number] = wanted,
            // Most likely more than this user may pin: shorter ones may still do.
            Err(_) => self.most_registered = if wanted > length { length } else { length - 1 },
        }
    }
}

/// A power of two, so that growing requests do not fill and register a place again and again.
fn rounded(length: usize, most: usize) -> usize {
    length.next_power_of_two().clamp(LEAST, most.max(LEAST))
}
