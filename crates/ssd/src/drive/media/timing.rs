//! Times of the operations of a die.

use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Normal};
use rand_pcg::Pcg64Mcg;

use crate::drive::profile::MediaConfig;
use crate::drive::time::{Picos, Rate, picos_of_micros};

/// Times in picoseconds, ready for use.
#[derive(Debug)]
pub(crate) struct Timing {
    /// Time of a read, by place within the erase block.
    pub read: Vec<Picos>,
    /// The same for a single page of those that are sensed together.
    pub part_read: Vec<Picos>,
    /// Time of a program, by place within the erase block.
    pub program: Vec<Picos>,
    pub erase: Picos,
    pub command: Picos,
    pub suspend: Picos,
    channel: Rate,
}

impl Timing {
    pub fn new(config: &MediaConfig) -> Self {
        let by_place = |micros: &[f64], together: u32| -> Vec<Picos> {
            let types = micros.iter().map(|&us| picos_of_micros(us)).collect::<Vec<_>>();
            (0..config.pages_per_erase_block)
                .map(|place| types[(place / together) as usize % types.len()])
                .collect()
        };
        let part = if config.part_read_us.is_empty() || config.pages_per_read == 1 {
            &config.read_us
        } else {
            &config.part_read_us
        };
        let bytes_per_second =
            config.channel_mt_per_second * 1e6 * f64::from(config.channel_bits) / 8.0;
        Self {
            read: by_place(&config.read_us, config.pages_per_read),
            part_read: by_place(part, config.pages_per_read),
            program: by_place(&config.program_us, config.pages_per_program),
            erase: picos_of_micros(config.erase_us / f64::from(config.slices)),
            command: picos_of_micros(config.command_us),
            suspend: picos_of_micros(config.suspend_us),
            channel: Rate::of_bytes_per_second(bytes_per_second),
        }
    }

    #[inline]
    pub fn transfer(&self, bytes: u32) -> Picos {
        self.channel.time_of(bytes)
    }
}

/// Variation of the times of operations: normally distributed around those of the profile, and
/// never below a tenth of them.
#[derive(Debug)]
pub(crate) struct Noise {
    normal: Normal<f64>,
    random: Pcg64Mcg,
}

impl Noise {
    /// Noise of this relative standard deviation; `None` for 0.
    pub fn new(deviation: f64) -> Option<Box<Self>> {
        let normal = Normal::new(1.0, deviation).expect("a profile's noise was checked");
        (deviation > 0.0).then(|| Box::new(Self { normal, random: Pcg64Mcg::seed_from_u64(0) }))
    }

    pub fn seed(&mut self, seed: u64) {
        self.random = Pcg64Mcg::seed_from_u64(seed ^ 0x6e6f_6973_6500_0000);
    }

    #[inline(never)]
    pub fn of(&mut self, time: Picos) -> Picos {
        (time as f64 * self.normal.sample(&mut self.random).max(0.1)) as Picos
    }
}
