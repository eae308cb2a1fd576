//! Passes over all that has checksums, in layers that keep some: see [`block::Signal::Scrub`].

use units::Nanos;

/// Time between two reads of a pass while the host leaves none for it, so that every pass ends: with
/// reads of 128 KiB a TiB takes nine days at most.
const PACE: Nanos = 100_000_000;

/// How far a layer is with a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubState {
    /// Pages that are still to be looked at; 0 if there is no pass.
    pub pages_left: u64,
    /// Pages that passes have read since the layer was opened.
    pub pages_read: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages that are known to be bad, by a pass or otherwise.
    pub bad_pages: u64,
}

/// When a pass reads though the host is at work.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    last: Nanos,
}

impl Pace {
    /// A read of a pass was tried, or a pass began.
    pub const fn tried(&mut self, now: Nanos) {
        self.last = now;
    }

    /// When the next may be, whatever else is under way.
    pub const fn next(&self) -> Nanos {
        self.last.saturating_add(PACE)
    }
}

/// Pages at these bytes as places, joined where they touch.
pub(crate) fn places(mut pages: Vec<u64>, page_bytes: u64, most: usize) -> Vec<(u64, u64)> {
    pages.sort_unstable();
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
        let pages = vec![8192, 0, 4096, 20480];
        assert_eq!(places(pages.clone(), 4096, 10), [(0, 12288), (20480, 4096)]);
        assert_eq!(places(pages, 4096, 1), [(0, 12288)]);
        assert_eq!(places(Vec::new(), 4096, 1), []);
    }
}
