//! Events that are missing, by the numbers that the kernel gave those of each CPU.

use std::collections::HashMap;

/// Numbers of events that may be behind another one although none is missing.
const MOST_LATE: u64 = 1 << 10;

/// Follows the numbers of each CPU and device.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    last: HashMap<(u32, u32), u64>,
    missing: u64,
}

impl Sequences {
    /// The next event of a CPU. Notes have the number 0, and so have the events of a tracer that
    /// does not count.
    pub(super) fn see(&mut self, device: u32, cpu: u32, number: u64) {
        if number == 0 {
            return;
        }
        let last = self.last.entry((device, cpu)).or_insert(number);
        if number > *last {
            self.missing = self.missing.saturating_add(number - *last - 1);
            *last = number;
        } else if number == 1 || *last - number > MOST_LATE {
            // It counts from its start again: a recording behind another one.
            *last = number;
        } else if number < *last {
            self.missing = self.missing.saturating_sub(1);
        }
    }

    /// Gives the number of missing records.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }
}
