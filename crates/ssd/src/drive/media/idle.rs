//! Idle periods of dies between requested commands, and the interference of side work with those.

use super::causes::Cause;
use super::command::FlashOp;
use super::die::Die;
use super::{Media, Timeline};
use crate::drive::time::Picos;

/// Records of the dies' activity, kept only on request.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub timeline: Option<Timeline>,
    rests: Option<Rests>,
}

/// Number of lengths that are counted apart, in units; the last one includes all longer periods.
pub const IDLE_LENGTHS: usize = 1024;

/// Idle periods of each die: from the end of its requested work to the next request. Work for
/// replication meanwhile is done on the side, and ends no period. REPLICATION 4.2.2 counts commands
/// without a rest between them as periods of length 0; nothing can be done in those, so they are
/// not counted here.
#[derive(Debug)]
struct Rests {
    unit: Picos,
    dies: Vec<Rest>,
}

#[derive(Clone, Debug)]
struct Rest {
    /// Time since which only replication was requested.
    since: Picos,
    lengths: Vec<u32>,
    /// Time in which commands waited while the die worked on the side.
    interference: Picos,
}

impl Observed {
    /// Records that a die's work changes to a command of this cause, given at that time, or to
    /// nothing.
    #[inline(never)]
    pub fn changes(&mut self, number: u32, die: &Die, next: Option<(Cause, Picos)>, now: Picos) {
        let was = die.activity();
        if let (Some(timeline), Some((op, cause, since))) = (&mut self.timeline, was) {
            timeline.span(number, die.channel, op, cause, since, now);
        }
        if let Some(rests) = &mut self.rests {
            let was = was.map(|(_, cause, since)| (cause, since));
            rests.dies[number as usize].changes(was, next, now, rests.unit);
        }
    }
}

impl Rest {
    fn changes(
        &mut self,
        was: Option<(Cause, Picos)>,
        next: Option<(Cause, Picos)>,
        now: Picos,
        unit: Picos,
    ) {
        let is_asked = |cause: Cause| cause != Cause::Replication;
        let was_asked = was.is_some_and(|(cause, _)| is_asked(cause));
        match next.filter(|&(cause, _)| is_asked(cause)) {
            None if was_asked => self.since = now,
            None => {}
            // Without a rest in between there is no idle period.
            Some(_) if was_asked => {}
            Some((_, issued_at)) => {
                let end = issued_at.clamp(self.since, now);
                let length = ((end - self.since) / unit).min(IDLE_LENGTHS as u64 - 1);
                self.lengths[length as usize] += 1;
                if let Some((_, begun)) = was {
                    self.interference += now - end.max(begun);
                }
            }
        }
    }
}

impl Media {
    /// Begins to count the idle periods of the dies, by their length in units of this time. Current
    /// work of a die counts as requested.
    pub fn watch_rests(&mut self, unit: Picos) {
        let rest = Rest { since: self.now, lengths: vec![0; IDLE_LENGTHS], interference: 0 };
        let dies = vec![rest; self.dies.len()];
        self.observed.get_or_insert_default().rests = Some(Rests { unit: unit.max(1), dies });
    }

    fn rest_of(&self, die: u32) -> Option<&Rest> {
        Some(&self.observed.as_ref()?.rests.as_ref()?.dies[die as usize])
    }

    /// Time since which only replication was requested of a die that is idle; `None` if it works,
    /// or if idle periods are not counted.
    #[must_use]
    pub fn rests_since(&self, die: u32) -> Option<Picos> {
        self.idle_since(die)?;
        Some(self.rest_of(die)?.since)
    }

    /// Takes the number of idle periods of each length of a die since the last call. Empty if they
    /// are not counted.
    pub fn take_idle_lengths(&mut self, die: u32) -> Vec<u32> {
        let rests = self.observed.as_mut().and_then(|observed| observed.rests.as_mut());
        rests.map_or_else(Vec::new, |rests| {
            std::mem::replace(&mut rests.dies[die as usize].lengths, vec![0; IDLE_LENGTHS])
        })
    }

    /// Time in which commands waited for a die that worked for replication.
    #[must_use]
    pub fn interference(&self, die: u32) -> Picos {
        self.rest_of(die).map_or(0, |rest| rest.interference)
    }

    /// The current operation of a die, its cause, and its expected end.
    #[must_use]
    pub fn works_on(&self, die: u32) -> Option<(FlashOp, Cause, Picos)> {
        let (op, cause, _) = self.dies[die as usize].activity()?;
        Some((op, cause, self.events.time_of(die)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_period_goes_on_while_a_die_works_on_the_side() {
        let mut rest = Rest { since: 0, lengths: vec![0; IDLE_LENGTHS], interference: 0 };
        let mut change = |was, next, now| rest.changes(was, next, now, 10);
        let (host, side) = (Cause::Host, Cause::Replication);
        change(None, Some((host, 50)), 50);
        change(Some((host, 50)), Some((host, 60)), 70);
        change(Some((host, 70)), None, 100);
        change(None, Some((side, 130)), 130);
        // A request comes while the die works on the side: it waits for 15.
        change(Some((side, 130)), Some((host, 145)), 160);
        change(Some((host, 160)), Some((side, 165)), 170);
        change(Some((side, 170)), None, 190);
        change(None, Some((host, 200)), 200);
        let found: Vec<(usize, u32)> =
            rest.lengths.iter().copied().enumerate().filter(|&(_, count)| count > 0).collect();
        assert_eq!((found, rest.interference), (vec![(3, 1), (4, 1), (5, 1)], 15));
    }
}
