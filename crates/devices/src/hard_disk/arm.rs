//! Mechanics of a hard disk: where bytes lie on its platters, and how long the arm needs to them.

/// Part of a revolution by which an arm may come too late and still finds its sector: times are
/// rounded to nanoseconds.
const SLACK: f64 = 1e-3;

/// Seek times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seeks {
    /// To the next track.
    pub track: f64,
    /// Mean over all pairs of places.
    pub mean: f64,
    /// From one edge to the other.
    pub full: f64,
}

/// Sequential rates in bytes a nanosecond, track switches included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Where the first bytes lie.
    pub outer: f64,
    /// Where the last bytes lie.
    pub inner: f64,
}

/// The arm and the platters.
///
/// A place is a share of the arm's way, from 0 at the outer edge, where the first bytes lie, to 1.
/// A seek over a share d of the way takes t + b sqrt(d) + c d: Lee & Katz (SIGMETRICS 1993), with
/// b and c from the mean and the longest seek. The rate falls linearly along the way, as the length
/// of tracks does.
///
/// Simplified: one surface (a head switch is a track switch), no zones with borders, no defects.
#[derive(Clone, Copy, Debug)]
pub struct Arm {
    capacity: f64,
    revolution: f64,
    rates: Rates,
    seeks: Seeks,
    root: f64,
    linear: f64,
    tracks: f64,
}

impl Arm {
    /// `revolution` is in nanoseconds.
    ///
    /// # Errors
    /// The reason if no arm moves like that.
    pub fn new(
        capacity_bytes: u64,
        revolution: f64,
        rates: Rates,
        seeks: Seeks,
    ) -> Result<Self, String> {
        if rates.inner > rates.outer {
            return Err("the inner rate must not be above the outer one".to_owned());
        }
        // The mean of sqrt(d) over all pairs of places is 8/15, that of d is 1/3.
        let (mean, full) = (seeks.mean - seeks.track, seeks.full - seeks.track);
        let root = (mean - full / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
        let linear = full - root;
        if root < 0.0 || linear < 0.0 {
            return Err(format!(
                "with these seeks to the next track and over the whole way the mean must be from \
                 {:.2} to {:.2} ms",
                (seeks.track + full / 3.0) / 1e6,
                (seeks.track + full * 8.0 / 15.0) / 1e6
            ));
        }
        let capacity = capacity_bytes as f64;
        let tracks = capacity / (revolution * f64::midpoint(rates.outer, rates.inner));
        Ok(Self { capacity, revolution, rates, seeks, root, linear, tracks })
    }

    /// Gives the place of a byte.
    pub fn place(&self, offset: u64) -> f64 {
        let Rates { outer, inner } = self.rates;
        let share = offset as f64 / self.capacity;
        if outer - inner < 1e-9 * outer {
            return share;
        }
        let under = outer * outer - (outer * outer - inner * inner) * share;
        (outer - under.max(0.0).sqrt()) / (outer - inner)
    }

    fn rate(&self, place: f64) -> f64 {
        self.rates.outer - (self.rates.outer - self.rates.inner) * place
    }

    /// Gives the nanoseconds in which bytes from an offset on pass below the head.
    pub fn transfer(&self, offset: u64, bytes: u64) -> f64 {
        bytes as f64 / self.rate(self.place(offset))
    }

    /// Gives the bytes from an offset on that pass below the head in so many nanoseconds.
    pub fn passed(&self, offset: u64, nanos: f64) -> u64 {
        (nanos.max(0.0) * self.rate(self.place(offset))) as u64
    }

    fn seek(&self, from: f64, to: f64) -> f64 {
        let way = (to - from).abs();
        if way * self.tracks < 1.0 {
            return 0.0;
        }
        self.seeks.track + self.root * way.sqrt() + self.linear * way
    }

    /// Gives the nanoseconds from `now`, with the arm at a place, until an offset is below the
    /// head.
    pub fn positioning(&self, now: f64, from: f64, offset: u64) -> f64 {
        let to = self.place(offset);
        let seek = self.seek(from, to);
        let turned = (now + seek) / self.revolution;
        let ahead = (to * self.tracks - turned).rem_euclid(1.0);
        let wait = if ahead > 1.0 - SLACK { 0.0 } else { ahead };
        seek + wait * self.revolution
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    fn arm() -> Arm {
        let seeks = Seeks { track: 0.8 * MS, mean: 8.5 * MS, full: 17.0 * MS };
        let rates = Rates { outer: 0.1, inner: 0.05 };
        Arm::new(250_000_000_000, 60e9 / 7200.0, rates, seeks).unwrap()
    }

    #[test]
    fn the_first_bytes_lie_outside_and_the_last_inside() {
        let arm = arm();
        assert_eq!(arm.place(0), 0.0);
        assert!((arm.place(250_000_000_000) - 1.0).abs() < 1e-9);
        // Outer tracks hold more: half of the bytes lie within less than half of the way.
        let middle = arm.place(125_000_000_000);
        assert!((0.40..0.45).contains(&middle), "{middle}");
        assert!((arm.transfer(0, 1_000_000) / MS - 10.0).abs() < 1e-6);
        assert!((arm.transfer(249_999_999_999, 1_000_000) / MS - 20.0).abs() < 1e-6);
    }

    #[test]
    fn seeks_have_the_given_mean_and_the_given_ends() {
        let arm = arm();
        let (count, mut sum) = (400, 0.0);
        for from in 0..count {
            for to in 0..count {
                let place = |at: i32| (f64::from(at) + 0.5) / f64::from(count);
                sum += arm.seek(place(from), place(to));
            }
        }
        let mean = sum / f64::from(count * count) / MS;
        assert!((mean - 8.5).abs() < 0.05, "{mean} ms");
        assert!((arm.seek(0.0, 1.0) / MS - 17.0).abs() < 1e-9);
        assert_eq!(arm.seek(0.3, 0.3), 0.0);
        let near = arm.seek(0.3, 0.3 + 1.5 / arm.tracks) / MS;
        assert!((0.8..0.9).contains(&near), "{near} ms");
    }

    #[test]
    fn what_follows_at_once_needs_no_revolution_and_what_has_passed_a_whole_one() {
        let arm = arm();
        let begun = arm.positioning(0.0, 0.0, 1 << 20);
        let read = begun + arm.transfer(1 << 20, 1 << 16);
        let at = arm.place((1 << 20) + (1 << 16));
        let next = arm.positioning(read, at, (1 << 20) + (1 << 16));
        assert!(next < 0.02 * MS, "{next} ns");
        let late = arm.positioning(read + 0.1 * MS, at, (1 << 20) + (1 << 16)) / MS;
        assert!((8.1..8.34).contains(&late), "{late} ms");
    }

    #[test]
    fn an_arm_that_cannot_be_is_refused_with_what_could_be() {
        let seeks = Seeks { track: 0.8 * MS, mean: 3.0 * MS, full: 17.0 * MS };
        let error =
            Arm::new(1 << 30, 60e9 / 7200.0, Rates { outer: 0.1, inner: 0.05 }, seeks).unwrap_err();
        assert!(error.contains("from 6.20 to 9.44 ms"), "{error}");
    }
}
