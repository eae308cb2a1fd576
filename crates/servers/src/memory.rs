//! Memory of a volume: what its layers take, what the devices below take for their commands, and
//! what is left for requests.

use std::fmt;

use block::Limits;
use layers::StackMemory;

use crate::{Header, VolumeError};

/// Bytes of requests under way by default.
const REQUEST_BYTES: u64 = 128 << 20;
/// Least bytes of requests: fewer would let few requests through at a time.
const LEAST_REQUEST_BYTES: u64 = 4 << 20;
/// Longest command where memory is limited: longer ones get buffers on huge pages.
const LIMITED_COMMAND_BYTES: u32 = 256 << 10;
/// Least commands under way at a device where memory is limited.
const LEAST_COMMANDS: u32 = 4;
/// A device gets this fraction of all memory: 1 / 8.
const DEVICE_SHARE: u64 = 8;

/// Limits of the commands under way at a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// Number of commands.
    pub commands: u32,
    /// Most bytes of each.
    pub most_bytes: u32,
}

impl From<u32> for Depth {
    fn from(commands: u32) -> Self {
        Self { commands, most_bytes: 1 << 20 }
    }
}

impl Depth {
    /// Gives so many commands, or fewer, if a volume may take `memory` in all.
    pub fn within(commands: u32, memory: Option<u64>) -> Self {
        let Some(memory) = memory else { return commands.into() };
        let most = memory / DEVICE_SHARE / command_bytes(LIMITED_COMMAND_BYTES);
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(LEAST_COMMANDS);
        Self { commands: commands.min(most), most_bytes: LIMITED_COMMAND_BYTES }
    }
}

/// Gives the memory of a command: a file or block device has a buffer for its reads and one for its
/// writes, and others for long commands (`devices::buffers`).
const fn command_bytes(most_bytes: u32) -> u64 {
    let (short, long) = (256 << 10, most_bytes.next_multiple_of(2 << 20));
    if most_bytes <= short { 2 * most_bytes as u64 } else { 2 * (short + long) as u64 }
}

/// Most memory that a volume takes, in bytes. The program around it, and the contents of an
/// emulated drive or a device in memory, are not included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeMemory {
    /// Memory of its layers; or the reason why it has no bound, or is not known.
    pub layers: Result<StackMemory, String>,
    /// Number of devices below.
    pub devices: u32,
    /// Bytes of commands under way at the devices.
    pub device_bytes: u64,
    /// Bytes of requests under way: further requests wait.
    pub request_bytes: u64,
}

impl VolumeMemory {
    /// Computes the memory of a volume with this header, whose devices have so many bytes for its
    /// stack and these commands under way. Requests get the rest of `most`.
    pub(crate) fn of(header: &Header, data_bytes: u64, depth: Depth, most: Option<u64>) -> Self {
        let limits = Limits {
            capacity_bytes: data_bytes,
            sector_bytes: header.sector_bytes,
            most_bytes: depth.most_bytes,
        };
        let layers = layers::memory(&header.stack, &header.layer_facts(), header.seed, limits)
            .map_err(|error| error.to_string());
        let devices: u32 = if header.pair.is_some() { 2 } else { 1 };
        let device_bytes =
            u64::from(devices) * u64::from(depth.commands) * command_bytes(depth.most_bytes);
        let mut memory = Self { layers, devices, device_bytes, request_bytes: REQUEST_BYTES };
        if let (Some(most), Some(all)) = (most, memory.most_bytes()) {
            let left = most.saturating_sub(all - REQUEST_BYTES);
            memory.request_bytes = left.clamp(LEAST_REQUEST_BYTES, REQUEST_BYTES);
        }
        memory
    }

    /// Gives the sum, if the memory of the layers has a bound.
    #[must_use]
    pub fn most_bytes(&self) -> Option<u64> {
        self.layers.as_ref().ok().map(|layers| self.with(layers))
    }

    fn with(&self, layers: &StackMemory) -> u64 {
        layers.most_bytes() + self.device_bytes + self.request_bytes
    }

    /// Gives a limit that suffices: with a higher limit, devices get more, too.
    fn enough_bytes(&self, layers: &StackMemory) -> u64 {
        let needed = layers.most_bytes() + LEAST_REQUEST_BYTES;
        let least = u64::from(LEAST_COMMANDS) * command_bytes(LIMITED_COMMAND_BYTES);
        let devices = u64::from(self.devices);
        (needed * DEVICE_SHARE / (DEVICE_SHARE - devices)).max(needed + devices * least)
    }

    /// Checks that it is within a limit.
    ///
    /// # Errors
    /// [`VolumeError::Refused`] if it is not, or may not be.
    pub(crate) fn check(&self, device: &str, most: Option<u64>) -> Result<(), VolumeError> {
        let Some(most) = most else { return Ok(()) };
        let refused = |reason| VolumeError::Refused { device: device.to_owned(), reason };
        let layers = self.layers.as_ref().map_err(|reason| {
            refused(format!("a limit of memory cannot be held: {reason}; or give no limit"))
        })?;
        let all = self.with(layers);
        if all <= most {
            return Ok(());
        }
        let mib = self.enough_bytes(layers).div_ceil(1 << 20);
        Err(refused(format!(
            "a memory of {most} bytes is too little: it may take {all} ({self}); give {mib}Mi, or \
             make a volume of layers that keep less (log_volume: page=..., checksums=no; \
             stable_buffer: size=...; scheduler: buffer=...; replicas: budget=...)"
        )))
    }
}

impl fmt::Display for VolumeMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.layers {
            Ok(layers) if layers.layers.is_empty() => {}
            Ok(layers) => write!(f, "{layers}; ")?,
            Err(reason) => write!(f, "layers: {reason}; ")?,
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (devices, requests) = (mib(self.device_bytes), mib(self.request_bytes));
        write!(f, "devices {devices:.1} MiB, requests {requests:.1} MiB")
    }
}
