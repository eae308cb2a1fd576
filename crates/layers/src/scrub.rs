//! Passes over all that has checksums, in layers that keep some: see [`block::Signal::Scrub`].

use units::Nanos;

/// Bytes that a pass reads in [`PACE`] while the host leaves no time for it, so that every pass
/// ends: a TiB takes ten days.
const PACE_BYTES: u64 = 128 << 10;
const PACE: Nanos = 100_000_000;
/// Most pages that are named of those that a pass could not read; more are only counted.
const MOST_KEPT: usize = 1000;

/// Progress of a pass of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubState {
    /// Pages that are still to be read; 0 if there is no pass.
    pub pages_left: u64,
    /// Pages that passes have read since the layer was opened.
    pub pages_read: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages that are known to be bad, by a pass or otherwise.
    pub bad_pages: u64,
    /// Pages that the last pass could not read: they may be good when the device is.
    pub unread_pages: u64,
}

/// Pages that a pass could not read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    pages: Vec<u64>,
    count: u64,
}

impl Unread {
    /// Adds a page that could not be read.
    pub fn add(&mut self, page: u64) {
        self.count += 1;
        if self.pages.len() < MOST_KEPT {
            self.pages.push(page);
        }
    }

    /// Gives the number of such pages.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Gives the pages, as far as they are known.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().copied()
    }
}

/// Pace of a pass while the host is at work.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    next: Nanos,
}

impl Pace {
    /// Notes that a pass began, or that there was nothing to read.
    pub const fn waits(&mut self, now: Nanos) {
        self.next = now.saturating_add(PACE);
    }

    /// Notes that a pass read this number of bytes.
    pub const fn read(&mut self, now: Nanos, bytes: u64) {
        self.next = now.saturating_add(PACE * bytes / PACE_BYTES);
    }

    /// Gives the time of the next read, whatever else is under way.
    pub const fn next(&self) -> Nanos {
        self.next
    }
}

/// Gives the places of these pages in bytes, joined where they touch.
pub(crate) fn places(mut pages: Vec<u64>, page_bytes: u64, most: usize) -> Vec<(u64, u64)> {
    pages.sort_unstable();
    pages.dedup();
    let mut places: Vec<(u64, u64)> = Vec::new();
    for at in pages {
        if let Some((first, bytes)) = places.last_mut()
            && *first + *bytes == at
        {
            *bytes += page_bytes;
        } else if places.len() == most {
            break;
        } else {
            places.push((at, page_bytes));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_side_by_side_are_one_place() {
        let pages = vec![8192, 0, 4096, 20480, 0];
        assert_eq!(places(pages.clone(), 4096, 10), [(0, 12288), (20480, 4096)]);
        assert_eq!(places(pages, 4096, 1), [(0, 12288)]);
        assert_eq!(places(Vec::new(), 4096, 1), []);
    }
}
