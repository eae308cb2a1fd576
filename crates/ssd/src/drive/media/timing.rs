//! How long the operations of a die take.

use crate::drive::profile::MediaConfig;
use crate::drive::time::{Picos, Rate, picos_of_micros};

/// Times in picoseconds, ready for use.
#[derive(Debug)]
pub(crate) struct Timing {
    /// By place within the erase block.
    read: Vec<Picos>,
    /// By place within the erase block.
    program: Vec<Picos>,
    pub erase: Picos,
    pub command: Picos,
    pub suspend: Picos,
    channel: Rate,
}

impl Timing {
    pub fn new(config: &MediaConfig) -> Self {
        let by_place = |micros: &[f64]| -> Vec<Picos> {
            let types = micros.iter().map(|&us| picos_of_micros(us)).collect::<Vec<_>>();
            (0..config.pages_per_erase_block as usize).map(|place| types[place % types.len()]).collect()
        };
        let bytes_per_second = config.channel_mt_per_second * 1e6 * f64::from(config.channel_bits) / 8.0;
        Self {
            read: by_place(&config.read_us),
            program: by_place(&config.program_us),
            erase: picos_of_micros(config.erase_us),
            command: picos_of_micros(config.command_us),
            suspend: picos_of_micros(config.suspend_us),
            channel: Rate::of_bytes_per_second(bytes_per_second),
        }
    }

    #[inline]
    pub fn read(&self, place: u32) -> Picos {
        self.read[place as usize]
    }

    #[inline]
    pub fn program(&self, place: u32) -> Picos {
        self.program[place as usize]
    }

    #[inline]
    pub fn transfer(&self, bytes: u32) -> Picos {
        self.channel.time_of(bytes)
    }
}
