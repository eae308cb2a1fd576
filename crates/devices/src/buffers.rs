//! The memory that requests go to and come from.
//!
//! Each request under way has a place of its own, one for reads and one for writes: what is read
//! must not be written again, as it may be zero. Places are only taken from the system when a
//! request first needs them, and made known to the kernel ("registered") as far as they are used:
//! registering pins them, and few users may pin much. A place that may not be registered is used
//! without, which costs some time in each request.
//!
//! Long requests have places of their own, on huge pages where the system gives some. The kernel
//! splits a request whose memory is in more pieces than the device takes in one (128 of 4 KiB on a
//! loop device, so from 512 KiB on): the device would get others than were asked for.

#![allow(unsafe_code, reason = "memory is shared with the kernel")]

use block::Data;
use io_uring::Submitter;
use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};

use crate::content::Content;

/// Registered at least: a page. Less would save nothing.
const LEAST: usize = 4096;
/// Requests above are long.
const LONG: usize = 256 << 10;
/// Bytes of a huge page on most systems.
const HUGE_PAGE: usize = 2 << 20;

pub(crate) struct Pool {
    short: Area,
    long: Option<Area>,
    content: Content,
}

/// Place of a request's data.
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
        let short = Area::new(slots, slot_bytes.min(LONG), slot_bytes.min(LONG), 0)?;
        let long = (slot_bytes > LONG).then(|| {
            Area::new(slots, slot_bytes, slot_bytes.next_multiple_of(HUGE_PAGE), 2 * slots)
        });
        Ok(Self { short, long: long.transpose()?, content: Content::new(seed) })
    }

    /// A new ring: it knows no buffer yet.
    pub fn forget_registered(&mut self, ring: &Submitter<'_>, takes_buffers: bool) {
        let areas = [Some(&mut self.short), self.long.as_mut()];
        let places: usize = areas.iter().flatten().map(|area| area.registered.len()).sum();
        let can_register = takes_buffers && ring.register_buffers_sparse(places as u32).is_ok();
        areas.into_iter().flatten().for_each(|area| area.forget_registered(can_register));
    }

    /// Gives the area with the places for requests of this length, and the content of writes.
    fn parts(&mut self, length: u32) -> (&mut Area, &mut Content) {
        let Self { short, long, content } = self;
        let area = match long {
            Some(long) if length as usize > LONG => long,
            _ => short,
        };
        (area, content)
    }

    /// The place to read to.
    pub fn read_place(&mut self, slot: u32, length: u32, ring: &Submitter<'_>) -> Place {
        self.parts(length).0.read_place(slot as usize, length as usize, ring)
    }

    /// The place to write from: with this data, or without with data never written before.
    pub fn write_place(
        &mut self,
        slot: u32,
        data: &Data,
        length: u32,
        ring: &Submitter<'_>,
    ) -> Place {
        let (area, content) = self.parts(length);
        area.write_place(slot as usize, data, length as usize, content, ring)
    }

    /// Gives the data of a read that has ended.
    pub fn brought(&mut self, slot: u32, length: u32) -> Data {
        self.parts(length).0.brought(slot as usize, length as usize)
    }
}

/// Places of one size.
struct Area {
    /// Never looked at by this process, as the kernel writes to it at any time.
    reads: MmapRaw,
    /// The kernel only reads it.
    writes: MmapMut,
    /// Bytes before the first place of each, so that places begin on huge pages.
    reads_skipped: usize,
    writes_skipped: usize,
    slot_bytes: usize,
    /// From the start of a place to that of the next.
    stride: usize,
    /// Bytes of each place for writes that were filled.
    filled: Vec<usize>,
    /// Bytes of each place that the kernel knows: reads, then writes.
    registered: Vec<usize>,
    /// Longest that may still be registered.
    most_registered: usize,
    /// Number of the first of its places among the registered.
    first_number: usize,
}

impl Area {
    fn new(
        slots: usize,
        slot_bytes: usize,
        stride: usize,
        first_number: usize,
    ) -> std::io::Result<Self> {
        let is_huge = stride.is_multiple_of(HUGE_PAGE);
        let more = if is_huge { HUGE_PAGE } else { 0 };
        let map = || MmapOptions::new().len(slots * stride + more).no_reserve_swap().map_anon();
        let (reads, writes) = (map()?, map()?);
        let skipped =
            |map: &MmapMut| if is_huge { map.as_ptr().align_offset(HUGE_PAGE) } else { 0 };
        let (reads_skipped, writes_skipped) = (skipped(&reads), skipped(&writes));
        if is_huge {
            // A system without huge pages says no: then requests that the device does not take in
            // so many pieces are split.
            let _ = reads.advise(Advice::HugePage).and_then(|()| writes.advise(Advice::HugePage));
        }
        let (filled, registered) = (vec![0; slots], vec![0; 2 * slots]);
        let reads = MmapRaw::from(reads);
        Ok(Self {
            reads,
            writes,
            reads_skipped,
            writes_skipped,
            slot_bytes,
            stride,
            filled,
            registered,
            most_registered: 0,
            first_number,
        })
    }

    fn forget_registered(&mut self, can_register: bool) {
        self.registered.fill(0);
        self.most_registered = if can_register { self.slot_bytes } else { 0 };
    }

    fn read_place(&mut self, slot: usize, length: usize, ring: &Submitter<'_>) -> Place {
        // SAFETY: the slot lies within the mapping.
        let address =
            unsafe { self.reads.as_mut_ptr().add(self.reads_skipped + slot * self.stride) };
        self.place(address, slot, length, ring)
    }

    fn write_place(
        &mut self,
        slot: usize,
        data: &Data,
        length: usize,
        content: &mut Content,
        ring: &Submitter<'_>,
    ) -> Place {
        let start = self.writes_skipped + slot * self.stride;
        let bytes = &mut self.writes[start..start + self.slot_bytes];
        if data.is_absent() {
            let filled = self.filled[slot];
            if filled < length {
                let wanted = rounded(length, self.slot_bytes);
                content.fill(&mut bytes[filled..wanted]);
                self.filled[slot] = wanted;
            }
            content.stamp(&mut bytes[..length]);
        } else {
            data.copy_to(&mut bytes[..length]);
            // A list of what is trimmed, say: a write without data must not be made of it.
            self.filled[slot] = 0;
        }
        let address = bytes.as_mut_ptr();
        self.place(address, self.filled.len() + slot, length, ring)
    }

    fn brought(&self, slot: usize, length: usize) -> Data {
        // SAFETY: the slot lies within the mapping, and its read has ended: the kernel writes there
        // no more.
        let bytes = unsafe {
            let address = self.reads.as_ptr().add(self.reads_skipped + slot * self.stride);
            std::slice::from_raw_parts(address, length)
        };
        Data::copy_of(bytes)
    }

    fn place(
        &mut self,
        address: *mut u8,
        number: usize,
        length: usize,
        ring: &Submitter<'_>,
    ) -> Place {
        if self.registered[number] < length && length <= self.most_registered {
            self.register(address, number, length, ring);
        }
        let is_registered = self.registered[number] >= length;
        Place { address, registered: is_registered.then_some((self.first_number + number) as u16) }
    }

    #[cold]
    fn register(&mut self, address: *mut u8, number: usize, length: usize, ring: &Submitter<'_>) {
        let wanted = rounded(length, self.slot_bytes).min(self.most_registered);
        let buffer = libc::iovec { iov_base: address.cast(), iov_len: wanted };
        // SAFETY: the buffer lies within its slot of a mapping that outlives the ring: whoever owns
        // both drops the ring first, or leaks the mapping.
        match unsafe {
            ring.register_buffers_update((self.first_number + number) as u32, &[buffer], None)
        } {
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
