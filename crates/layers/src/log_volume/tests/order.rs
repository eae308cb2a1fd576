//! In which order recovery reads, flushes and writes.

use super::KIB;
use crate::{Facts, Failure, Limits, Sparse, Store};

/// A store that notes what is done to it.
struct Noted {
    below: Sparse,
    done: String,
}

impl Store for Noted {
    fn limits(&self) -> Limits {
        self.below.limits()
    }

    fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<(), Failure> {
        self.done.push('r');
        self.below.read(offset, to)
    }

    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Failure> {
        self.done.push('w');
        self.below.write(offset, from)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.done.push('f');
        self.below.flush()
    }
}

/// After a killed process or a failed flush the newest root may be in the device's cache alone: a root or table written beside it is safe only
/// once it is durable itself, or a power cut may leave neither.
#[test]
fn what_recovery_reads_is_durable_before_it_writes() {
    let text = "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,placement=separate,summary_pages=8)";
    let limits = Limits { capacity_bytes: 256 * KIB, sector_bytes: 512, most_bytes: 1 << 20 };
    let mut store = Noted { below: Sparse::new(limits), done: String::new() };
    crate::format(text, &Facts::default(), 1, &mut store).unwrap();
    store.done.clear();
    crate::open(text, &Facts::default(), 1, &mut store).unwrap();
    assert!(store.done.starts_with('f'), "{}", store.done);
    assert!(store.done.ends_with("wf"), "{}", store.done);
}
