//! Places of pages and their replicas: equal partitions of what is below, which stand for chips.

use super::NAME;
use crate::{LayerError, Limits};

/// Greatest unit of alignment, so that aligned addresses above are aligned below.
const GREATEST_UNIT: u64 = 1 << 20;
/// Minimum number of units of a partition: rounding to units takes little of it.
const UNITS: u64 = 64;

/// A place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Home of the page, in its home partition.
    Home,
    /// Slot in the replication space.
    Slot(u32),
}

/// Sizes and places, in bytes.
///
/// ```text
/// | head | partition 0: homes, slots | partition 1: homes, slots | ... | rest |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub sector_bytes: u32,
    pub page_bytes: u32,
    pub partitions: u32,
    /// Bytes before the first partition: superblocks in its first and its last sector.
    pub head_bytes: u64,
    pub partition_bytes: u64,
    /// Bytes of each partition for homes of pages; slots come behind.
    pub home_bytes: u64,
    /// Bytes of the device below.
    pub device_bytes: u64,
}

impl Geometry {
    /// Divides a device of these limits. `budget` is the replication space's share of it.
    ///
    /// # Errors
    /// [`LayerError::TooSmall`], or [`LayerError::Refused`] if a page does not fit the sectors or
    /// the longest command.
    pub fn new(
        limits: Limits,
        partitions: u32,
        page_bytes: u32,
        budget: f64,
    ) -> Result<Self, LayerError> {
        let refused = |reason: String| LayerError::Refused { layer: NAME, reason };
        let Limits { capacity_bytes, sector_bytes, most_bytes } = limits;
        if !page_bytes.is_multiple_of(sector_bytes) {
            return Err(refused(format!(
                "pages of {page_bytes} bytes are not whole sectors of {sector_bytes}: give page=..."
            )));
        }
        if page_bytes > most_bytes {
            return Err(refused(format!(
                "pages of {page_bytes} bytes are longer than the longest command, {most_bytes}: \
                 give a smaller page=..."
            )));
        }
        let (page, count) = (u64::from(page_bytes), u64::from(partitions));
        let least_head = (2 * u64::from(sector_bytes)).next_multiple_of(page);
        let needed = least_head + count * 2 * page;
        if capacity_bytes < needed {
            return Err(LayerError::TooSmall {
                layer: NAME,
                needed,
                there: capacity_bytes,
                remedy: "each partition holds a page and a replica; give fewer partitions=... or a \
                         smaller page=...",
            });
        }
        let mut unit = GREATEST_UNIT.max(page);
        while unit > page && capacity_bytes / count < UNITS * unit {
            unit = (unit / 2).max(page);
        }
        let head_bytes = least_head.next_multiple_of(unit);
        let partition_bytes = (capacity_bytes - head_bytes) / count / unit * unit;
        let slots_bytes =
            ((budget * partition_bytes as f64) as u64 / unit * unit).clamp(unit, partition_bytes);
        let geometry = Self {
            sector_bytes,
            page_bytes,
            partitions,
            head_bytes,
            partition_bytes,
            home_bytes: partition_bytes - slots_bytes,
            device_bytes: capacity_bytes,
        };
        if geometry.home_bytes == 0 {
            return Err(refused(format!(
                "a budget of {budget} leaves no room for pages at home: give a smaller budget=..."
            )));
        }
        if geometry.slots() >= u64::from(u32::MAX) {
            return Err(refused(format!(
                "{} replicas are more than can be kept track of: give a smaller budget=... or a \
                 larger page=...",
                geometry.slots()
            )));
        }
        Ok(geometry)
    }

    /// Gives the bytes of the host.
    pub const fn host_bytes(&self) -> u64 {
        self.home_bytes * self.partitions as u64
    }

    /// Gives the slots of each partition.
    pub const fn slots_each(&self) -> u32 {
        ((self.partition_bytes - self.home_bytes) / self.page_bytes as u64) as u32
    }

    const fn slots(&self) -> u64 {
        (self.partition_bytes - self.home_bytes) / self.page_bytes as u64 * self.partitions as u64
    }

    /// Gives the home partition of a byte of the host.
    pub const fn home_partition(&self, byte: u64) -> u32 {
        (byte / self.home_bytes) as u32
    }

    /// Gives the place of a byte's home.
    pub const fn home_offset(&self, byte: u64) -> u64 {
        self.head_bytes + byte / self.home_bytes * self.partition_bytes + byte % self.home_bytes
    }

    /// Gives the number of bytes of the host from this one on whose homes lie side by side.
    pub const fn beside(&self, byte: u64) -> u64 {
        self.home_bytes - byte % self.home_bytes
    }

    /// Gives the partition of a slot.
    pub const fn slot_partition(&self, slot: u32) -> u32 {
        slot / self.slots_each()
    }

    /// Gives the first byte of a slot.
    pub const fn slot_offset(&self, slot: u32) -> u64 {
        self.head_bytes
            + self.slot_partition(slot) as u64 * self.partition_bytes
            + self.home_bytes
            + (slot % self.slots_each()) as u64 * self.page_bytes as u64
    }

    /// Gives the first byte of the second superblock.
    pub const fn second_superblock(&self) -> u64 {
        self.head_bytes - self.sector_bytes as u64
    }

    /// Gives the first byte of a page, for the host.
    pub const fn page_start(&self, page: u64) -> u64 {
        page * self.page_bytes as u64
    }

    /// Gives the page of a byte of the host.
    pub const fn page_of(&self, byte: u64) -> u64 {
        byte / self.page_bytes as u64
    }

    /// Gives the partition of a place of a page.
    pub const fn partition(&self, page: u64, place: Place) -> u32 {
        match place {
            Place::Home => self.home_partition(self.page_start(page)),
            Place::Slot(slot) => self.slot_partition(slot),
        }
    }

    /// Gives the place of a byte of the host whose page is read from or written to a place.
    pub const fn offset(&self, byte: u64, place: Place) -> u64 {
        match place {
            Place::Home => self.home_offset(byte),
            Place::Slot(slot) => self.slot_offset(slot) + byte % self.page_bytes as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(capacity_bytes: u64) -> Limits {
        Limits { capacity_bytes, sector_bytes: 512, most_bytes: 64 << 10 }
    }

    /// No two places share a byte, none is beyond the device, and the head is free of them.
    #[test]
    fn places_do_not_overlap() {
        for (bytes, partitions, page, budget) in
            [(64 << 10, 2, 1024, 0.1), (100_352, 5, 512, 0.4), (1 << 20, 16, 4096, 0.3)]
        {
            let geometry = Geometry::new(limits(bytes), partitions, page, budget).unwrap();
            let mut taken = vec![false; (bytes / u64::from(page)) as usize];
            let mut take = |at: u64| {
                assert!(at.is_multiple_of(u64::from(page)) && at >= geometry.head_bytes);
                assert!(at + u64::from(page) <= bytes);
                assert!(!std::mem::replace(&mut taken[(at / u64::from(page)) as usize], true));
            };
            (0..geometry.page_of(geometry.host_bytes()))
                .for_each(|page| take(geometry.home_offset(geometry.page_start(page))));
            (0..geometry.slots() as u32).for_each(|slot| take(geometry.slot_offset(slot)));
            assert_eq!(geometry.slots(), u64::from(geometry.slots_each() * partitions));
        }
    }

    #[test]
    fn what_is_aligned_above_is_aligned_below_on_a_real_device() {
        let geometry = Geometry::new(limits(64_023_257_088), 16, 4096, 0.1).unwrap();
        for megabyte in [0, 1, 5_000, 54_000] {
            assert!(geometry.home_offset(megabyte << 20).is_multiple_of(1 << 20));
        }
        let share = geometry.slots() as f64 * 4096.0 / geometry.device_bytes as f64;
        assert!((0.0997..=0.1).contains(&share), "{share}");
        assert!(geometry.host_bytes() as f64 > 0.8995 * geometry.device_bytes as f64);
    }

    #[test]
    fn what_does_not_fit_is_refused_in_one_line() {
        let error = |bytes, partitions, page, budget| {
            Geometry::new(limits(bytes), partitions, page, budget).unwrap_err().to_string()
        };
        assert_eq!(
            error(64 << 10, 16, 4096, 0.1),
            "`replicas` needs 135168 bytes and there are 65536: each partition holds a page and a \
             replica; give fewer partitions=... or a smaller page=..."
        );
        assert!(error(1 << 20, 4, 128 << 10, 0.1).contains("longest command"));
        assert!(error(1 << 20, 4, 768, 0.1).contains("whole sectors"));
        assert!(Geometry::new(limits(135_168), 16, 4096, 0.1).is_ok());
    }
}
