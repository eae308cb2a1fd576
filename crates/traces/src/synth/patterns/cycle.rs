//! Places at equal distances, one after another, over and over.

use super::Offsets;

/// Goes through `0, step, 2 step, ...`, so many places, up or down, and then begins again.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    /// Number of the next place.
    next: u64,
    places: u64,
    step: u64,
    descending: bool,
}

impl Cycle {
    pub(super) fn up(places: u64, step: u64) -> Self {
        Self { next: 0, places, step, descending: false }
    }

    pub(super) fn down(places: u64, step: u64) -> Self {
        Self { next: places - 1, places, step, descending: true }
    }
}

impl Offsets for Cycle {
    fn fill(&mut self, buffer: &mut [u64]) {
        for offset in buffer {
            *offset = self.next * self.step;
            self.next = if self.descending {
                self.next.checked_sub(1).unwrap_or(self.places - 1)
            } else if self.next + 1 == self.places {
                0
            } else {
                self.next + 1
            };
        }
    }

    fn copy(&self) -> Box<dyn Offsets> {
        Box::new(self.clone())
    }
}
