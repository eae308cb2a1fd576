//! When a command counts as blocked: D = 2 C_W (REPLICATION table 1).

use units::Nanos;

/// Times of a class from which C is known.
const CALIBRATING: u32 = 512;
/// Share of commands that C is above: the paper finds that mostly fewer than 5 % are blocked
/// (4.2.1).
const NORMAL: f64 = 0.95;
/// Share of commands beyond D from which on they are no exceptions: twice the 5 % of the paper.
const TOO_MANY: f64 = 0.1;
/// Steps of times for each doubling.
const PER_DOUBLING: u32 = 8;
const STEPS: usize = 64 * PER_DOUBLING as usize;
/// Classes of queue depths: 1, 2 to 3, 4 to 7, ...
const DEPTHS: usize = 10;

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

/// The patience D: given, or twice the time C that a command of its kind takes normally at its
/// queue depth.
///
/// The paper's C_W is the time of a write "without cleaning", which its simulator knows. A layer
/// sees only when a command ends, and that is later the more commands are outstanding. So C is
/// found for reads and writes apart, and for each depth apart (its own class for each doubling):
/// the 95th percentile of the first 512 commands of a class. Until then nothing of the class counts
/// as blocked, and so the layer writes no replica that could delay what is measured. From then on C
/// stays as it is: it does not follow what is blocked. If a tenth of 512 commands take longer
/// than D, the device has changed, and the class is calibrated anew.
#[derive(Debug)]
pub struct Patience {
    fixed: Option<Nanos>,
    classes: [[Class; DEPTHS]; 2],
}

#[derive(Debug, Default)]
struct Class {
    /// Numbers of times, by step; empty unless it is being calibrated.
    counts: Vec<u32>,
    /// Commands since C is known, or since calibration began.
    commands: u32,
    /// Those of them that took longer than D.
    late: u32,
    /// C, in nanoseconds; 0 if it is not known.
    normal: Nanos,
}

impl Patience {
    pub fn new(fixed: Option<Nanos>) -> Self {
        Self { fixed, classes: Default::default() }
    }

    fn class(depth: u32) -> usize {
        (depth.max(1).ilog2() as usize).min(DEPTHS - 1)
    }

    /// Gives D for a command that is sent when `depth` are outstanding, itself among them; none as
    /// long as C is not known, and then it does not count as blocked.
    pub fn get(&self, kind: Kind, depth: u32) -> Option<Nanos> {
        self.fixed.or_else(|| self.classes[kind as usize][Self::class(depth)].patience())
    }

    /// Gives the longest D of a kind that is known; 0 if none is.
    pub fn longest(&self, kind: Kind) -> Nanos {
        let known = self.classes[kind as usize].iter().filter_map(Class::patience).max();
        self.fixed.or(known).unwrap_or(0)
    }

    /// Notes that a command took so long, from sending to its end.
    pub fn took(&mut self, kind: Kind, depth: u32, time: Nanos) {
        if self.fixed.is_none() {
            self.classes[kind as usize][Self::class(depth)].took(time);
        }
    }
}

impl Class {
    fn patience(&self) -> Option<Nanos> {
        // A device without latency is not blocked by its own clock's step.
        const LEAST: Nanos = 1_000;
        (self.normal > 0).then(|| (2 * self.normal).max(LEAST))
    }

    fn took(&mut self, time: Nanos) {
        self.commands += 1;
        if let Some(patience) = self.patience() {
            self.late += u32::from(time > patience);
            if self.commands == CALIBRATING {
                let is_other = f64::from(self.late) > TOO_MANY * f64::from(CALIBRATING);
                self.normal = if is_other { 0 } else { self.normal };
                (self.commands, self.late) = (0, 0);
            }
            return;
        }
        self.counts.resize(STEPS, 0);
        self.counts[step_of(time)] += 1;
        if self.commands == CALIBRATING {
            let (mut seen, normal) = (0, (NORMAL * f64::from(CALIBRATING)).ceil() as u32);
            let step = self.counts.iter().position(|count| {
                seen += count;
                seen >= normal
            });
            *self = Self { normal: step.map_or(0, end_of), ..Self::default() };
        }
    }
}

/// Times are divided by their highest bits.
fn step_of(time: Nanos) -> usize {
    let time = time.max(u64::from(PER_DOUBLING));
    let doubling = time.ilog2() - PER_DOUBLING.ilog2();
    let part = (time >> doubling) as u32 - PER_DOUBLING;
    (doubling * PER_DOUBLING + part) as usize
}

/// The time at which a step ends.
fn end_of(step: usize) -> Nanos {
    let (doubling, part) = (step as u32 / PER_DOUBLING, step as u32 % PER_DOUBLING);
    u64::from(PER_DOUBLING + part + 1) << doubling
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_holds_its_times() {
        for time in [8, 9, 15, 16, 100, 250_000, 9_999_999, 1 << 40] {
            let end = end_of(step_of(time));
            assert!(end > time && end as f64 <= 1.13 * time as f64 + 1.0, "{time}: {end}");
        }
    }

    /// Twenty microseconds more for each command that is ahead, and one in forty takes ten
    /// milliseconds.
    fn time(number: u32, depth: u32) -> Nanos {
        if number.is_multiple_of(40) { 10_000_000 } else { 100_000 + 20_000 * u64::from(depth) }
    }

    #[test]
    fn patience_is_twice_what_a_command_takes_normally_at_its_depth() {
        let mut patience = Patience::new(None);
        for depth in [1, 32] {
            for number in 0..CALIBRATING {
                assert_eq!(patience.get(Kind::Write, depth), None);
                patience.took(Kind::Write, depth, time(number, depth));
            }
        }
        let found = patience.get(Kind::Write, 1).unwrap();
        assert!((240_000..=272_000).contains(&found), "{found}");
        let deep = patience.get(Kind::Write, 33).unwrap();
        assert!((1_480_000..=1_680_000).contains(&deep), "queueing alone blocks nothing: {deep}");
        assert_eq!(patience.longest(Kind::Write), deep);
        assert_eq!((patience.get(Kind::Write, 8), patience.get(Kind::Read, 1)), (None, None));
    }

    /// It does not follow what is blocked, as it would feed on itself.
    #[test]
    fn patience_stays_while_some_are_blocked_and_is_found_anew_on_another_device() {
        let mut patience = Patience::new(None);
        (0..CALIBRATING).for_each(|number| patience.took(Kind::Read, 1, time(number, 1)));
        let found = patience.get(Kind::Read, 1);
        for number in 0..20 * CALIBRATING {
            let slow = number.is_multiple_of(12);
            patience.took(Kind::Read, 1, if slow { 1_000_000 } else { 120_000 });
        }
        assert_eq!(patience.get(Kind::Read, 1), found);
        (0..CALIBRATING).for_each(|_| patience.took(Kind::Read, 1, 900_000));
        assert_eq!(patience.get(Kind::Read, 1), None, "nothing is copied while it is measured");
        (0..CALIBRATING).for_each(|_| patience.took(Kind::Read, 1, 900_000));
        let slower = patience.get(Kind::Read, 1).unwrap();
        assert!((1_800_000..=2_040_000).contains(&slower), "{slower}");
    }

    #[test]
    fn what_is_given_needs_no_measurement() {
        let patience = Patience::new(Some(7_000));
        assert_eq!(patience.get(Kind::Read, 3), Some(7_000));
        assert_eq!(patience.longest(Kind::Write), 7_000);
    }
}
