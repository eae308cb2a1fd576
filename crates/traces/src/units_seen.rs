//! Check that a trace counts in the unit of its format.

use units::IoRequest;

/// Numbers of bytes look as if they were of blocks, when every one is a multiple of this.
const SECTOR_BYTES: u64 = 512;
/// Fewer requests may be multiples by chance.
const LEAST_REQUESTS: u64 = 16;
/// No device has as many: 1 PiB.
const MOST_BYTES: u64 = 1 << 50;

/// Addresses and sizes seen of a format that counts in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitsSeen {
    format: &'static str,
    parameter: &'static str,
    unit_bytes: u64,
    requests: u64,
    /// All numbers, joined bit by bit.
    bits: u64,
    end_bytes: u64,
}

impl UnitsSeen {
    /// Nothing yet. `parameter` of `format` is what says the unit.
    pub fn new(format: &'static str, parameter: &'static str, unit_bytes: u64) -> Self {
        Self { format, parameter, unit_bytes, requests: 0, bits: 0, end_bytes: 0 }
    }

    /// A request, whose numbers are those of the file.
    pub fn see(&mut self, numbers: u64, request: &IoRequest) {
        self.requests += 1;
        self.bits |= numbers;
        self.end_bytes = self.end_bytes.max(request.offset + u64::from(request.length));
    }

    /// Says why the unit may be another one; for people.
    pub fn doubt(&self) -> Option<String> {
        let Self { format, parameter, unit_bytes, requests, end_bytes, .. } = self;
        let are_multiples =
            *requests >= LEAST_REQUESTS && self.bits != 0 && self.bits.is_multiple_of(SECTOR_BYTES);
        if *unit_bytes == 1 || !(are_multiples || *end_bytes > MOST_BYTES) {
            return None;
        }
        let why = if are_multiples {
            format!("every address and size is a multiple of {SECTOR_BYTES} blocks")
        } else {
            "no device is as large".to_owned()
        };
        Some(format!(
            "read in blocks of {unit_bytes} bytes it goes up to byte {end_bytes}, and {why}: if \
             its numbers are bytes, read it with --format '{format}({parameter}=1)'"
        ))
    }
}
