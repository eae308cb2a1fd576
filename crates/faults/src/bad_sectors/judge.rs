//! Judgement of a volume that was damaged.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use block::{Command, Data, Limits};
use units::IoOp;

use super::cases::Damage;
use super::device::Damaged;
use super::made::{Made, Open, Opened, State, filled, run};
use crate::{Dice, Value};

/// Alignment of writes over lost sectors, in bytes: no page of a layer in a campaign is longer.
const HEAL_BYTES: u64 = 8 << 10;
/// Number of writes elsewhere, and bytes of each.
const WRITES: usize = 8;
const WRITE_BYTES: u64 = 4 << 10;

/// Outcome of one case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Error of opening the volume, if it was refused.
    pub refused: Option<String>,
    /// Bytes of the volume that cannot be read.
    pub lost_bytes: u64,
    /// Bytes that hold what they held earlier, and not what was durable.
    pub stale_bytes: u64,
    /// True if the stale bytes are a fault.
    pub is_stale_wrong: bool,
    /// Bytes that hold something that was never written there.
    pub wrong_bytes: u64,
    /// Description of the first wrong byte, or of a panic.
    pub wrong: Option<String>,
    /// Reason why the volume cannot be used on: written, flushed, closed and opened again.
    pub unusable: Option<String>,
}

impl Verdict {
    /// Describes the fault, if there is one: wrong bytes, or stale bytes that are wrong.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let stale = || {
            (self.is_stale_wrong && self.stale_bytes > 0)
                .then(|| format!("{} bytes hold what they held earlier", self.stale_bytes))
        };
        self.wrong.clone().or_else(stale)
    }

    /// Returns true if the damage cost nothing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.refused.is_none() && self.unusable.is_none() && self.lost_bytes + self.stale_bytes == 0
    }
}

fn panicked(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
    format!("it panics: {}", text.unwrap_or("without a reason"))
}

impl Made {
    /// Damages a copy, opens, reads and uses it.
    #[must_use]
    pub fn try_case(&self, damage: &Damage, open: &Open<'_>) -> Verdict {
        let device = Damaged::new(self.below, self.image.clone());
        damage.done_to(&device);
        // A flip after a kill may look like a torn write.
        let is_stale_wrong = self.state == State::Closed || matches!(damage, Damage::Sectors(_));
        let mut verdict = Verdict { is_stale_wrong, ..Verdict::default() };
        let work = AssertUnwindSafe(|| self.judge(&device, damage.seed(), open, &mut verdict));
        if let Err(cause) = catch_unwind(work) {
            verdict.wrong = Some(panicked(&*cause));
        }
        verdict
    }

    fn judge(&self, device: &Damaged, seed: u64, open: &Open<'_>, verdict: &mut Verdict) {
        let mut opened = match open(device) {
            Ok(opened) => opened,
            Err(reason) => {
                verdict.refused = Some(reason);
                return;
            }
        };
        if opened.device().info().limits != self.limits {
            verdict.wrong = Some("it has other limits".to_owned());
            return;
        }
        let first = self.read_all(&mut *opened, verdict);
        let used = self.use_on(opened, device, seed, open, &first);
        verdict.unusable = used.err();
    }

    /// Reads each sector; gives none where it cannot be read.
    fn read_all(&self, opened: &mut dyn Opened, verdict: &mut Verdict) -> Vec<Option<Value>> {
        let Limits { capacity_bytes, sector_bytes, most_bytes } = self.limits;
        let sector_bytes = u64::from(sector_bytes);
        // In long reads first: where one fails, its sectors are read for themselves.
        let mut held = Vec::with_capacity(self.history.len());
        let mut at = 0;
        while at < capacity_bytes {
            let end = capacity_bytes.min(at + u64::from(most_bytes));
            if let Some(values) = read(opened, at, end - at, sector_bytes) {
                held.extend(values.into_iter().map(Some));
            } else {
                for at in (at..end).step_by(sector_bytes as usize) {
                    held.push(read(opened, at, sector_bytes, sector_bytes).map(|read| read[0]));
                }
            }
            at = end;
        }
        for (sector, value) in held.iter().enumerate() {
            match *value {
                None => verdict.lost_bytes += sector_bytes,
                Some(value) if self.oracle.allows(sector, value) => {}
                Some(value) if self.history[sector].contains(&value) => {
                    verdict.stale_bytes += sector_bytes;
                }
                Some(value) => {
                    verdict.wrong_bytes += sector_bytes;
                    verdict.wrong.get_or_insert_with(|| format!("sector {sector} gives {value}"));
                }
            }
        }
        held
    }

    /// Writes what was lost, and a few places more; then closes the volume, opens it again and
    /// checks that everything is there.
    fn use_on(
        &self,
        mut opened: Box<dyn Opened>,
        device: &Damaged,
        seed: u64,
        open: &Open<'_>,
        first: &[Option<Value>],
    ) -> Result<(), String> {
        let size = u64::from(self.limits.sector_bytes);
        let mut expected = first.to_vec();
        for (number, (at, end)) in (self.next_write..).zip(self.places_to_write(first, seed)) {
            let value = Value::of_write(number);
            let sectors = (at / size) as usize..(end / size) as usize;
            let bytes = filled(value, sectors.clone(), size as usize, self.shape.tail_bytes);
            let written = run(opened.device(), Command::write(0, at, Data::Whole(bytes.into())));
            written.map_err(|failure| format!("cannot be written: {failure}"))?;
            expected[sectors].fill(Some(value));
        }
        let flushed = run(opened.device(), Command::new(0, IoOp::Flush, 0, 0));
        flushed.map_err(|failure| format!("cannot be flushed: {failure}"))?;
        opened.close().map_err(|reason| format!("cannot be closed: {reason}"))?;
        let mut opened =
            open(device).map_err(|reason| format!("cannot be opened again: {reason}"))?;
        let second = self.read_all(&mut *opened, &mut Verdict::default());
        for (sector, (expected, found)) in expected.iter().zip(&second).enumerate() {
            let is_right = expected == found
                || found.is_some() && expected == &first[sector] && self.oracle.is_trimmed(sector);
            if !is_right {
                let said = |value: &Option<Value>| {
                    value.map_or_else(|| "an error".to_owned(), |value| value.to_string())
                };
                let (found, expected) = (said(found), said(expected));
                return Err(format!(
                    "opened again, sector {sector} gives {found} instead of {expected}"
                ));
            }
        }
        Ok(())
    }

    /// Gives the first and the last byte of each write.
    fn places_to_write(&self, first: &[Option<Value>], seed: u64) -> Vec<(u64, u64)> {
        let Limits { capacity_bytes, sector_bytes, most_bytes } = self.limits;
        let size = u64::from(sector_bytes);
        let mut places = Vec::new();
        let mut end_of_last = 0;
        for sector in (0..first.len()).filter(|&sector| first[sector].is_none()) {
            let at = (sector as u64 * size / HEAL_BYTES * HEAL_BYTES).max(end_of_last);
            end_of_last = capacity_bytes.min((sector as u64 * size / HEAL_BYTES + 1) * HEAL_BYTES);
            if at < end_of_last {
                places.push((at, end_of_last));
            }
        }
        let mut dice = Dice::new(seed);
        let bytes = WRITE_BYTES.max(size).min(u64::from(most_bytes)).min(capacity_bytes);
        for _ in 0..WRITES {
            let at = dice.below((capacity_bytes / bytes) as usize) as u64 * bytes;
            places.push((at, at + bytes));
        }
        places
    }
}

/// Reads the content of some bytes, sector by sector; none if they cannot be read.
fn read(opened: &mut dyn Opened, at: u64, length: u64, sector_bytes: u64) -> Option<Vec<Value>> {
    let command = Command::new(0, IoOp::Read, at, length as u32);
    let data = run(opened.device(), command).ok()?;
    let mut bytes = vec![0; length as usize];
    data.copy_to(&mut bytes);
    let numbers = at / sector_bytes..;
    let sectors = bytes.chunks_exact(sector_bytes as usize);
    Some(numbers.zip(sectors).map(|(sector, bytes)| Value::read(sector, bytes)).collect())
}
