//! Hints to the kernel on the expected lifetime of writes.

use std::fs::File;

use units::Lifetime;

use crate::control;

/// Hints that the kernel gets, and the one that it got last.
///
/// A block device with streams of writes gets one with each write (Linux 6.16 or newer: the
/// placement handles of an NVMe drive with FDP). For all else the kernel keeps one hint for the
/// file or device as a whole (`F_SET_RW_HINT`; one for each descriptor went with Linux 5.18), which
/// is changed before a write that has another.
#[derive(Debug)]
pub(crate) struct Hints {
    /// Streams of the device, numbered from 1 on; 0 for none.
    streams: u8,
    told: Lifetime,
    /// The kernel takes no hints.
    is_refused: bool,
}

impl Hints {
    pub const fn new(streams: u8) -> Self {
        Self { streams, told: Lifetime::NotSet, is_refused: false }
    }

    /// Hints of a device that has no streams and asks no kernel.
    pub const fn dropped() -> Self {
        Self { streams: 0, told: Lifetime::NotSet, is_refused: true }
    }

    /// The stream of a write; 0 is none.
    pub const fn stream(&self, lifetime: Lifetime) -> u8 {
        // A device with fewer keeps its last one for all that live longer.
        let handle = lifetime.handle();
        if handle < self.streams { handle } else { self.streams }
    }

    /// Returns true if the kernel has to be told before a write of this lifetime is sent.
    pub fn has_to_be_told(&self, lifetime: Lifetime) -> bool {
        self.streams == 0 && !self.is_refused && self.told != lifetime
    }

    /// Tells it. One that takes no hints is not asked again: nothing depends on them.
    pub fn tell(&mut self, file: &File, lifetime: Lifetime) {
        self.is_refused = control::expect_lifetime(file, lifetime).is_err();
        self.told = lifetime;
    }

    /// Leaves no hint for whoever writes next.
    pub fn forget(&mut self, file: &File) {
        if self.has_to_be_told(Lifetime::NotSet) {
            self.tell(file, Lifetime::NotSet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_numbered_by_lifetime_as_far_as_there_are_some() {
        let of = |streams| Lifetime::ALL.map(|lifetime| Hints::new(streams).stream(lifetime));
        assert_eq!(of(0), [0; 5]);
        assert_eq!(of(1), [0, 1, 1, 1, 1]);
        assert_eq!(of(3), [0, 1, 2, 3, 3]);
        assert_eq!(of(128), [0, 1, 2, 3, 4]);
        assert!(!Hints::new(3).has_to_be_told(Lifetime::Long), "each write says it");
        assert!(!Hints::dropped().has_to_be_told(Lifetime::Long), "there is nobody to tell");
        assert_eq!(Hints::dropped().stream(Lifetime::Long), 0);
    }

    #[test]
    fn the_kernel_is_told_once_and_has_forgotten_at_the_end() {
        let file = tempfile::tempfile().unwrap();
        let mut hints = Hints::new(0);
        assert!(!hints.has_to_be_told(Lifetime::NotSet));
        for (lifetime, hint) in Lifetime::ALL.into_iter().zip([0, 2, 3, 4, 5]).skip(1) {
            assert!(hints.has_to_be_told(lifetime));
            hints.tell(&file, lifetime);
            assert!(!hints.has_to_be_told(lifetime));
            assert_eq!(control::expected_lifetime(&file).unwrap(), hint);
        }
        hints.forget(&file);
        assert_eq!(control::expected_lifetime(&file).unwrap(), 0);
    }
}
