//! Parameters of the layer, and its memory.

use registry::{Param, ParamKind};
use units::Nanos;

use super::NAME;
use super::background::READ_BYTES;
use super::disk::Geometry;
use super::intent::{BATCH, REGION_BYTES};
use crate::memory::{Memory, SMALL_BYTES, Sized};
use crate::time::parse_time;
use crate::{LayerError, Limits, Making};

/// All parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "page",
        kind: ParamKind::Bytes { min: 512, max: 1 << 20 },
        default: "4Ki",
        help: "bytes of a page, a power of two: it has one checksum, and is read as a whole",
    },
    Param {
        name: "block",
        kind: ParamKind::Bytes { min: 512, max: 64 << 10 },
        default: "4Ki",
        help: "bytes of a block of checksums, a power of two: the pages that it covers are a \
               region, which is marked before one of them is written (4Ki: 1,016 pages)",
    },
    Param {
        name: "delay",
        kind: ParamKind::Text,
        default: "5s",
        help: "time without a write after which a region's checksums are written and its mark is \
               taken away; off: when it is closed",
    },
];

/// Settings of the layer, from its parameters.
#[derive(Clone, Copy, Debug)]
pub struct ChecksumSettings {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Bytes of a block of checksums.
    pub block_bytes: u32,
    /// Time for which a region stays marked after its last write, in nanoseconds.
    pub delay: Nanos,
}

impl ChecksumSettings {
    /// Reads the settings from the parameters, for a device of these limits.
    ///
    /// # Errors
    /// [`LayerError::Refused`] if parameters exclude each other, or do not fit the device.
    pub fn new(making: &Making<'_>, limits: Limits) -> Result<Self, LayerError> {
        let refused = |reason| LayerError::Refused { layer: NAME, reason };
        let power = |name: &str| {
            let bytes = making.args.integer(name) as u32;
            let right = (bytes + 1).next_power_of_two();
            let is_right = bytes.is_power_of_two();
            let reason = || format!("{name}={bytes} is no power of two, such as {}", right >> 1);
            if is_right { Ok(bytes) } else { Err(refused(reason())) }
        };
        let (page_bytes, block) = (power("page")?, power("block")?);
        let Limits { sector_bytes, most_bytes, .. } = limits;
        // A block is written as a whole, and writes are of whole sectors.
        let block_bytes = block.max(sector_bytes);
        if !page_bytes.is_multiple_of(sector_bytes) {
            let reason =
                format!("page={page_bytes} is not of whole sectors of {sector_bytes} bytes");
            return Err(refused(reason));
        }
        if page_bytes.max(block_bytes) > most_bytes {
            let reason = format!(
                "page={page_bytes} or block={block_bytes} is longer than the longest write, \
                 {most_bytes}"
            );
            return Err(refused(reason));
        }
        let delay = parse_time(NAME, "delay", making.args.text("delay"), "off")?;
        let delay = delay.unwrap_or(Nanos::MAX / 2);
        Ok(Self { page_bytes, block_bytes, delay })
    }

    /// Gives the places of all structures below.
    ///
    /// # Errors
    /// [`LayerError::TooSmall`] if no page is left.
    pub fn geometry(&self, below: Limits) -> Result<Geometry, LayerError> {
        Geometry::at_end(below, self.page_bytes, self.block_bytes)
    }
}

/// Gives the most memory that the layer takes over something with these limits.
///
/// # Errors
/// [`LayerError`] if it does not fit there.
pub fn memory(making: &Making<'_>, below: Limits) -> Result<Sized, LayerError> {
    let settings = ChecksumSettings::new(making, below)?;
    let geometry = settings.geometry(below)?;
    let marks = geometry.mark_sectors() * u64::from(geometry.sector_bytes);
    let table_bytes = geometry.pages * 4 + geometry.regions() * REGION_BYTES + marks + SMALL_BYTES;
    let held_bytes = BATCH as u64 * u64::from(settings.block_bytes)
        + 2 * u64::from(READ_BYTES.max(settings.page_bytes));
    let memory = Memory { table_bytes, held_bytes, opening_bytes: table_bytes + (2 << 20) };
    Ok(Sized { memory, above: Limits { capacity_bytes: geometry.homes_bytes(), ..below } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Facts, parse};

    fn made(text: &str) -> Result<ChecksumSettings, String> {
        let (_, args) = parse(text).unwrap().pop().unwrap();
        let making = Making { args: &args, facts: &Facts::default(), seed: 1 };
        let limits = Limits { capacity_bytes: 1 << 30, sector_bytes: 4096, most_bytes: 1 << 20 };
        ChecksumSettings::new(&making, limits).map_err(|error| error.to_string())
    }

    #[test]
    fn what_does_not_go_with_the_device_is_refused_with_what_would() {
        assert_eq!(made("checksums(block=512)").unwrap().block_bytes, 4096);
        assert_eq!(made("checksums(delay=250ms)").unwrap().delay, 250_000_000);
        for (text, words) in [
            ("checksums(page=2Ki)", "page=2048 is not of whole sectors of 4096 bytes"),
            ("checksums(page=12Ki)", "page=12288 is no power of two, such as 8192"),
            ("checksums(delay=soon)", "delay=soon"),
        ] {
            let error = made(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
