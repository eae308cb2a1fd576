//! The record of each logical page, in four bytes, and the cell of a placement.

/// Number of ticks in which all logical pages together are written once.
pub const TICKS: u32 = 4096;

/// Number of cells by rate (6 bits), confidence (2), regularity (2), and host or relocation (1).
const KNOWN: u16 = 1 << 11;

/// Number of all cells: these, and those of pages that were not written since the load changed, by
/// their rate before (5 bits) and the time since (3).
pub const CELLS: usize = KNOWN as usize + (1 << 8);

/// The cell of a page that is written for the first time.
pub const FIRST: u16 = 0;

/// Classes of the rates of pages before the load changed.
pub const PASTS: usize = 4;

/// Weight of all earlier intervals, at each new interval.
pub const KEPT: f32 = 0.9;

/// Shortest interval in ticks: shorter ones count as the same.
const SHORTEST: f32 = 0.5;

/// Substitute for the interval of a page that was written once: its rate is that of a page which
/// expects a write in this number of ticks with probability 1/2.
const FIRST_SUM: f32 = 1024.0;

/// The highest bits of a single-precision number from 2^-4 on; a sum keeps eleven of them: five of
/// the exponent, six of the mantissa.
const LEAST_SUM: u32 = 123 << 6;

/// The exponent and the first bit of the mantissa of a rate, from 2^-18 per tick on.
const LEAST_RATE: u32 = 109 << 1;

/// Weighted number of intervals in a sum, by number of intervals; a half for a page that was
/// written once.
const WEIGHTS: [f32; 16] = weights();

const fn weights() -> [f32; 16] {
    let mut weights = [0.5; 16];
    let (mut sum, mut n) = (0.0, 1);
    while n < 16 {
        sum = KEPT * sum + 1.0;
        weights[n] = sum;
        n += 1;
    }
    weights
}

/// Record of a logical page: the tick of its last write (16 bits), the smoothed sum of the
/// intervals between its writes (11 bits, a number of two significant figures), the number of
/// intervals up to 15 (4 bits), and whether it holds data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Page(u32);

impl Page {
    const HOLDS: u32 = 1 << 31;

    fn new(tick: u32, sum: f32, intervals: u32) -> Self {
        let bits = (sum.to_bits() + (1 << 16)) >> 17;
        let code = bits.saturating_sub(LEAST_SUM).min(0x7ff);
        Self(Self::HOLDS | intervals << 27 | code << 16 | (tick & 0xffff))
    }

    /// A page that is written for the first time.
    pub fn first(tick: u32) -> Self {
        Self::new(tick, FIRST_SUM, 0)
    }

    pub fn holds_data(self) -> bool {
        self.0 & Self::HOLDS != 0
    }

    /// The whole record.
    #[inline]
    pub fn bits(self) -> u32 {
        self.0
    }

    fn intervals(self) -> u32 {
        self.0 >> 27 & 15
    }

    fn sum(self) -> f32 {
        f32::from_bits(((self.0 >> 16 & 0x7ff) + LEAST_SUM) << 17)
    }

    /// Ticks since its last write.
    #[inline]
    pub fn age(self, tick: u32) -> u32 {
        tick.wrapping_sub(self.0) & 0xffff
    }

    /// Gives the same page, last written `age` ticks ago.
    pub fn aged(self, tick: u32, age: u32) -> Self {
        Self(self.0 & !0xffff | (tick.wrapping_sub(age) & 0xffff))
    }

    /// Records a write by the host. Gives the new record and the cell of the new version. The load
    /// changed `changed` ticks ago; for a page not written since, the class comes from its rate
    /// before.
    #[inline]
    pub fn written(self, tick: u32, changed: u32) -> (Self, u16) {
        let sum = self.sum();
        let age = self.age(tick);
        // If writes are independent, the time from any moment to the next write is distributed as
        // an interval.
        let interval = (age.min(changed) as f32).max(SHORTEST);
        let (seen, next, class) = if age > changed {
            (0, interval, past(self.rate_before(tick, changed)))
        } else {
            let seen = self.intervals();
            let weight = WEIGHTS[seen as usize];
            match seen {
                0 => (0, interval, 0),
                _ => (seen, KEPT * sum + interval, regularity(interval * weight, sum)),
            }
        };
        let intervals = (seen + 1).min(15);
        let rate = WEIGHTS[intervals as usize] / next;
        (Self::new(tick, next, intervals), cell(rate, intervals, class, false))
    }

    /// Gives the cell of the copy when the page is relocated. The time since its last write lowers
    /// its rate.
    #[inline]
    pub fn relocated(self, tick: u32, changed: u32) -> u16 {
        let (seen, sum) = (self.intervals(), self.sum());
        if self.age(tick) > changed {
            return stale_cell(self.rate_before(tick, changed), changed);
        }
        let age = self.age(tick) as f32;
        let weight = WEIGHTS[seen as usize];
        let class = if seen == 0 { 0 } else { regularity(age * weight, sum) };
        cell(weight / (sum + age), seen, class, true)
    }

    /// Rate of the page when the load changed.
    fn rate_before(self, tick: u32, changed: u32) -> f32 {
        let age = (self.age(tick) - changed) as f32;
        WEIGHTS[self.intervals() as usize] / (self.sum() + age)
    }
}

/// The class of a rate, relative to the mean of all pages: up to 1/2, up to 2, up to 8, and above.
pub fn past(rate: f32) -> u16 {
    let mean = rate * TICKS as f32;
    u16::from(mean > 0.5) + u16::from(mean > 2.0) + u16::from(mean > 8.0)
}

/// The cell of a page that is written for the first time since the load changed, if the interval
/// corresponds to this rate.
pub fn written_again(rate: f32) -> u16 {
    cell(rate, 1, 1, false)
}

/// The cell of a page of this rate that was not written since the load changed.
pub fn stale_cell(rate: f32, changed: u32) -> u16 {
    let octave = (rate.to_bits() >> 23).saturating_sub(LEAST_RATE / 2).min(31) as u16;
    later(KNOWN | octave << 3, changed)
}

/// Returns true if the pages of a cell were not written since the load changed.
pub fn is_stale(cell: u16) -> bool {
    cell >= KNOWN
}

/// The cell that pages of a stale cell move to when the load changed `changed` ticks ago.
pub fn later(cell: u16, changed: u32) -> u16 {
    cell & !7 | (16 * changed / TICKS).checked_ilog2().unwrap_or(0).min(7) as u16
}

/// The time since the last write over the mean interval before it, in four classes.
#[inline]
fn regularity(time: f32, mean: f32) -> u16 {
    u16::from(time > 0.5 * mean) + u16::from(time > 1.5 * mean) + u16::from(time > 4.0 * mean)
}

#[inline]
fn cell(rate: f32, intervals: u32, regularity: u16, is_relocated: bool) -> u16 {
    let rate = ((rate.to_bits() >> 22).saturating_sub(LEAST_RATE)).min(63) as u16;
    let confidence = u16::from(intervals > 0) + u16::from(intervals > 1) + u16::from(intervals > 5);
    rate << 5 | confidence << 3 | regularity << 1 | u16::from(is_relocated)
}

/// The rate that the pages of a cell would have if their hazard were that of their own writes, per
/// tick.
pub fn rate_of(cell: usize) -> f32 {
    if cell < usize::from(KNOWN) {
        return f32::from_bits(((cell as u32 >> 5) + LEAST_RATE) << 22 | 1 << 21);
    }
    // For a page whose rate was drawn again all that is known is that it was not written since.
    let since = (TICKS / 16) << (cell & 7);
    let drawn = WEIGHTS[0] / (FIRST_SUM + since as f32);
    (rate_of_stale(cell) * drawn).sqrt()
}

/// The rate of the pages of a stale cell before the load changed.
pub fn rate_of_stale(cell: usize) -> f32 {
    let octave = (cell as u32 - u32::from(KNOWN)) >> 3;
    f32::from_bits((octave + LEAST_RATE / 2) << 23 | 1 << 22)
}
