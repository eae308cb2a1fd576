//! Virtual time.

use units::Nanos;

/// Picoseconds since the drive was switched on, or a span of them.
///
/// A byte takes 833.3 ps on a channel of 1200 MT/s x 8 bit: in nanoseconds it would take none, or a
/// fifth too long. 64 bits last 213 days.
pub type Picos = u64;

/// Picoseconds in a nanosecond.
pub const PICOS_PER_NANO: Picos = 1_000;

/// Picoseconds in a second.
pub const PICOS_PER_SECOND: Picos = 1_000_000_000_000;

/// A span given in microseconds, rounded to the nearest picosecond.
#[must_use]
pub fn picos_of_micros(micros: f64) -> Picos {
    (micros * 1e6).round() as Picos
}

/// A span in nanoseconds, rounded to the nearest.
#[must_use]
pub const fn nanos_of(picos: Picos) -> Nanos {
    (picos + PICOS_PER_NANO / 2) / PICOS_PER_NANO
}

/// Speed of a bus, as the time that bytes take on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Picoseconds a byte, times 2^32: exact to 1 ps in transfers of up to 4 GiB.
    picos_per_byte: u64,
}

impl Rate {
    /// A bus of so many bytes a second; without limit if that is infinite.
    #[must_use]
    pub fn of_bytes_per_second(bytes_per_second: f64) -> Self {
        Self {
            picos_per_byte: (PICOS_PER_SECOND as f64 / bytes_per_second * 4_294_967_296.0).round()
                as u64,
        }
    }

    /// Time for `bytes`, rounded up: a transfer always takes some.
    #[inline]
    #[must_use]
    pub fn time_of(self, bytes: u32) -> Picos {
        let scaled = u128::from(bytes) * u128::from(self.picos_per_byte);
        (scaled.div_ceil(1 << 32)) as Picos
    }
}
