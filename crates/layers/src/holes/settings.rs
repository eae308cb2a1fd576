//! Parameters of the layer, and its memory.

use registry::{Param, ParamKind};
use units::Nanos;

use super::NAME;
use super::format::Geometry;
use crate::memory::{Memory, SMALL_BYTES, Sized};
use crate::time::parse_time;
use crate::{LayerError, Limits, Making};

/// All parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "page",
        kind: ParamKind::Bytes { min: 512, max: 64 << 10 },
        default: "4Ki",
        help: "bytes of a page, a power of two, at least a sector: it is trimmed as a whole",
    },
    Param {
        name: "delay",
        kind: ParamKind::Text,
        default: "1s",
        help: "time after which a trim becomes durable and goes below, if no flush comes first; \
               off: at the next flush",
    },
    Param {
        name: "ack",
        kind: ParamKind::Choice(&["written", "durable"]),
        default: "written",
        help: "when a write to what was trimmed is replied to: when what is below has replied, or \
               when it is durable, if it is so below",
    },
];

/// Settings of the layer, from its parameters.
#[derive(Clone, Copy, Debug)]
pub struct HoleSettings {
    /// Places of all structures below.
    pub geometry: Geometry,
    /// Longest time that a trim waits for a flush of the host, in nanoseconds; none for no limit.
    pub delay: Option<Nanos>,
    /// True if writes to holes are replied to when they are durable, if they are so below.
    pub acks_durable: bool,
}

impl HoleSettings {
    /// Reads the settings from the parameters, for a device of these limits.
    ///
    /// # Errors
    /// [`LayerError`] if parameters exclude each other, or do not fit the device.
    pub fn new(making: &Making<'_>, limits: Limits) -> Result<Self, LayerError> {
        let given = making.args.integer("page") as u32;
        let page_bytes = given.max(limits.sector_bytes);
        if !given.is_power_of_two() {
            let right = (given + 1).next_power_of_two() >> 1;
            let reason = format!("page={given} is no power of two, such as {right}");
            return Err(LayerError::Refused { layer: NAME, reason });
        }
        if page_bytes > limits.most_bytes {
            let reason =
                format!("page={given} is longer than the longest write, {}", limits.most_bytes);
            return Err(LayerError::Refused { layer: NAME, reason });
        }
        let geometry = Geometry::at_end(limits, page_bytes)?;
        let delay = parse_time(NAME, "delay", making.args.text("delay"), "off")?;
        let acks_durable = making.args.text("ack") == "durable";
        Ok(Self { geometry, delay, acks_durable })
    }
}

/// Gives the most memory that the layer takes over something with these limits.
///
/// # Errors
/// [`LayerError`] if it does not fit there.
pub fn memory(making: &Making<'_>, below: Limits) -> Result<Sized, LayerError> {
    let geometry = HoleSettings::new(making, below)?.geometry;
    let table_bytes =
        geometry.pages / 8 + geometry.blocks() * super::bits::BLOCK_MEMORY_BYTES + SMALL_BYTES;
    let held_bytes = super::commit::MOST_HELD_BYTES + 4 * u64::from(below.most_bytes);
    let memory = Memory { table_bytes, held_bytes, opening_bytes: table_bytes + (4 << 20) };
    Ok(Sized { memory, above: Limits { capacity_bytes: geometry.homes_bytes(), ..below } })
}
