//! Rules of what a host may read, by the contract of [`layers::Layer`]: in operation, and after a
//! power cut.

use std::fmt::Write as _;
use std::ops::Range;

use rustc_hash::FxHashMap;
use units::IoOp;

use crate::Value;

/// Time of something that has not happened, and perhaps never will.
const NEVER: u64 = u64::MAX;

/// Something that gave a sector its content, or may have.
#[derive(Clone, Copy, Debug)]
struct Version {
    value: Value,
    is_trim: bool,
    /// Time when it was sent; or a later time, if a read has shown that it had not taken effect
    /// before.
    sent: u64,
    /// Time of the reply.
    replied: u64,
    /// Time from which on whatever is sent comes after it.
    end: u64,
    /// True if it was acknowledged as durable, and not trimmed.
    is_firm: bool,
    /// True if a flush failed that should have covered it: a later one does not.
    is_doubtful: bool,
}

#[derive(Clone, Debug, Default)]
struct Sector {
    versions: Vec<Version>,
    /// Latest time at which one was sent that is firm: what ended before is gone for good.
    firm: u64,
}

impl Sector {
    fn of(value: Value, now: u64) -> Self {
        let version = Version {
            value,
            is_trim: false,
            sent: now,
            replied: now + 1,
            end: now + 1,
            is_firm: true,
            is_doubtful: false,
        };
        Self { versions: vec![version], firm: now }
    }

    /// Returns true if a trim may have come after this version. Then a flush that has not been
    /// replied to does not make it durable, even one that was sent before the trim: a layer sends
    /// its flush below later than it got it, and the trim may be there first.
    fn is_trimmed(&self, version: &Version) -> bool {
        self.versions.iter().any(|trim| trim.is_trim && trim.end > version.sent)
    }

    /// Gives the earliest end of versions that a read sent at `at` may still give.
    fn horizon(&self, at: u64) -> u64 {
        let covers = |version: &&Version| {
            !version.is_trim
                && version.replied < at
                && (version.is_firm || !self.is_trimmed(version))
        };
        self.versions.iter().filter(covers).map(|version| version.sent).max().unwrap_or(0)
    }

    /// Gives the versions that a power cut may leave.
    fn survivors(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(|version| version.end > self.firm)
    }

    fn make_firm(&mut self, is_covered: impl Fn(&Version) -> bool) {
        for index in 0..self.versions.len() {
            let version = self.versions[index];
            if !version.is_trim
                && !version.is_firm
                && is_covered(&version)
                && !self.is_trimmed(&version)
            {
                self.versions[index].is_firm = true;
                self.firm = self.firm.max(version.sent);
            }
        }
    }

    /// Gives the sector after a power cut and a recovery that gave `value`: the versions that it
    /// may hold from then on. None if it must not give that value.
    fn after_cut(&self, value: Value, now: u64) -> Option<Self> {
        self.survivors().find(|version| version.value == value)?;
        let trims = || self.survivors().filter(|version| version.is_trim);
        let is_loose = |version: &Version| trims().any(|trim| trim.end > version.sent);
        if !self.survivors().any(|version| version.value == value && is_loose(version)) {
            return Some(Self::of(value, now));
        }
        // It was trimmed: what it held then may still come back.
        let again = |version: &Version| Version {
            sent: now,
            replied: now + 1,
            end: now + 1,
            is_firm: false,
            ..*version
        };
        Some(Self {
            versions: self.survivors().filter(|version| is_loose(version)).map(again).collect(),
            firm: 0,
        })
    }

    /// Gives the sector after the process was killed and the volume was opened again and gave
    /// `value`: the versions that it may hold from then on. None if it must not give that value.
    /// Its content is what is read, but no more durable than before: a cut may bring back what may
    /// have come before it.
    fn after_kill(&self, value: Value, now: u64) -> Option<Self> {
        let after = self.after_cut(value, now)?;
        let found = || self.survivors().filter(|version| version.value == value);
        let end = found().map(|version| version.end).max()?;
        let before = |version: &&Version| version.sent <= end;
        if after.versions.iter().any(|version| version.is_trim) {
            // It was trimmed: any of them may be read.
            let mut after = after;
            let missing = self
                .survivors()
                .filter(before)
                .filter(|one| after.versions.iter().all(|other| other.value != one.value));
            let missing: Vec<Version> = missing
                .map(|one| Version {
                    sent: now,
                    replied: now + 1,
                    end: now + 1,
                    is_firm: false,
                    ..*one
                })
                .collect();
            after.versions.extend(missing);
            return Some(after);
        }
        if found().any(|version| version.is_firm)
            && self.survivors().filter(before).all(|version| version.value == value)
        {
            return Some(after);
        }
        let ended = |version: &Version| Version {
            replied: version.replied.min(now),
            end: version.end.min(now),
            ..*version
        };
        let mut versions: Vec<Version> = self.survivors().filter(before).map(ended).collect();
        versions.push(Version { is_firm: false, ..after.versions[0] });
        Some(Self { versions, firm: self.firm })
    }
}

/// A command of the host under way.
#[derive(Clone, Debug)]
struct Pending {
    op: IoOp,
    sectors: Range<usize>,
    is_fua: bool,
    sent: u64,
}

/// Description of a fault: something came out that must not.
#[derive(Clone, Debug)]
pub struct Wrong(pub String);

/// Follows what the host sends and is told, and judges what it reads.
#[derive(Clone, Debug)]
pub struct Oracle {
    sectors: Vec<Sector>,
    pending: FxHashMap<u32, Pending>,
    clock: u64,
    /// Alignment, in sectors, of trims that are writes of zeros; none if no trim is.
    zeroing: Option<usize>,
    /// Sectors with more than one version, each once.
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
}

impl Oracle {
    /// Makes an oracle of a volume that holds these values, durably.
    #[must_use]
    pub fn new(values: &[Value]) -> Self {
        Self {
            sectors: values.iter().map(|value| Sector::of(*value, 1)).collect(),
            pending: FxHashMap::default(),
            clock: 2,
            zeroing: None,
            dirty: Vec::new(),
            is_dirty: vec![false; values.len()],
        }
    }

    /// Sets the alignment, in sectors, of trims that are writes of zeros.
    #[must_use]
    pub const fn zeroing(mut self, sectors: Option<usize>) -> Self {
        self.zeroing = sectors;
        self
    }

    /// Gives the sectors of a trim that become zeros, as by a write.
    fn zeroed(&self, sectors: &Range<usize>) -> Range<usize> {
        self.zeroing
            .map_or(0..0, |unit| sectors.start.next_multiple_of(unit)..sectors.end / unit * unit)
    }

    /// Gives the number of sectors of the volume.
    #[must_use]
    pub const fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// Gives the number of commands under way.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Gives the first sector of a command under way; 0 if there is no such command.
    #[must_use]
    pub fn first_sector(&self, id: u32) -> usize {
        self.pending.get(&id).map_or(0, |pending| pending.sectors.start)
    }

    /// Notes that the host sends a command; a write gives its sectors `value`.
    ///
    /// # Panics
    /// If the id is that of another under way.
    pub fn sent(&mut self, id: u32, op: IoOp, sectors: Range<usize>, is_fua: bool, value: Value) {
        self.clock += 1;
        let sent = self.clock;
        if matches!(op, IoOp::Write | IoOp::Trim) {
            let is_trim = op == IoOp::Trim;
            let value = if is_trim { Value::ZEROS } else { value };
            let zeroed = self.zeroed(&sectors);
            for sector in sectors.clone() {
                self.sectors[sector].versions.push(Version {
                    value,
                    is_trim: is_trim && !zeroed.contains(&sector),
                    sent,
                    replied: NEVER,
                    end: NEVER,
                    is_firm: false,
                    is_doubtful: false,
                });
                if !std::mem::replace(&mut self.is_dirty[sector], true) {
                    self.dirty.push(sector as u32);
                }
            }
        }
        let before = self.pending.insert(id, Pending { op, sectors, is_fua, sent });
        assert!(before.is_none(), "two commands of one id");
    }

    /// Notes the end of a command that did not fail, and judges what was read.
    ///
    /// # Errors
    /// [`Wrong`] if that could not be there; or no such command is under way.
    pub fn done(&mut self, id: u32, read: &[Value]) -> Result<(), Wrong> {
        let Pending { op, sectors, is_fua, sent } = self.take(id)?;
        self.clock += 1;
        match op {
            IoOp::Read => {
                if read.len() != sectors.len() {
                    return Err(Wrong(format!(
                        "a read of {} sectors brought {}",
                        sectors.len(),
                        read.len()
                    )));
                }
                for (sector, value) in sectors.zip(read) {
                    self.judge(sector, *value, sent)?;
                }
            }
            IoOp::Flush => self.flushed(sent),
            IoOp::Write | IoOp::Trim => {
                let now = self.clock;
                for sector in sectors {
                    let sector = &mut self.sectors[sector];
                    if let Some(version) =
                        sector.versions.iter_mut().find(|version| version.sent == sent)
                    {
                        (version.replied, version.end) = (now, now);
                    }
                    if is_fua {
                        sector.make_firm(|version| version.sent == sent);
                    }
                }
                self.prune_some();
            }
        }
        Ok(())
    }

    /// Notes the end of a command that failed: it is never known if it took effect, and what a
    /// flush should have covered is not covered by a later one.
    ///
    /// # Errors
    /// [`Wrong`] if no such command is under way.
    pub fn failed(&mut self, id: u32) -> Result<(), Wrong> {
        self.clock += 1;
        let Pending { op, sent, .. } = self.take(id)?;
        if op == IoOp::Flush {
            let others: Vec<u64> = self
                .pending
                .values()
                .filter(|other| other.op == IoOp::Flush)
                .map(|other| other.sent)
                .collect();
            for &sector in &self.dirty {
                for version in &mut self.sectors[sector as usize].versions {
                    let is_covered = others.iter().any(|&other| version.replied < other);
                    version.is_doubtful |= version.replied < sent && !is_covered;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, id: u32) -> Result<Pending, Wrong> {
        self.pending.remove(&id).ok_or_else(|| {
            Wrong(format!("command {id} is replied to, and no such one is under way"))
        })
    }

    fn flushed(&mut self, sent: u64) {
        for &sector in &self.dirty {
            self.sectors[sector as usize]
                .make_firm(|version| version.replied < sent && !version.is_doubtful);
        }
        let oldest_read = self.oldest_read();
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|&sector| {
            self.prune(sector as usize, oldest_read);
            self.is_dirty[sector as usize] = self.sectors[sector as usize].versions.len() > 1;
            self.is_dirty[sector as usize]
        });
        self.dirty = dirty;
    }

    fn oldest_read(&self) -> u64 {
        self.pending
            .values()
            .filter(|pending| pending.op == IoOp::Read)
            .map(|pending| pending.sent)
            .min()
            .unwrap_or(NEVER)
    }

    /// Forgets what neither a read nor a power cut may bring back.
    fn prune(&mut self, sector: usize, oldest_read: u64) {
        let sector = &mut self.sectors[sector];
        let seen = |version: &&Version| version.is_firm && version.replied < oldest_read;
        let horizon =
            sector.versions.iter().filter(seen).map(|version| version.sent).max().unwrap_or(0);
        sector.versions.retain(|version| version.end > horizon);
    }

    fn prune_some(&mut self) {
        if self.clock.is_multiple_of(64) {
            let oldest_read = self.oldest_read();
            for index in 0..self.dirty.len() {
                self.prune(self.dirty[index] as usize, oldest_read);
            }
        }
    }

    /// Judges what a read that was sent then found.
    fn judge(&mut self, number: usize, value: Value, sent: u64) -> Result<(), Wrong> {
        let sector = &mut self.sectors[number];
        let horizon = sector.horizon(sent);
        let Some(found) = sector
            .versions
            .iter()
            .find(|version| version.end > horizon && version.value == value)
            .copied()
        else {
            return Err(self.wrong(number, value, "read", |version| version.end > horizon));
        };
        // With nothing under way and no trim, what was read is what it holds: whatever it could
        // have been instead came before.
        let is_quiet = sector.versions.iter().all(|version| version.replied < sent)
            && !sector.versions.iter().any(|version| version.is_trim && version.end > horizon);
        if is_quiet {
            let is_found = |version: &&mut Version| {
                version.sent == found.sent && version.value == value && version.sent < sent
            };
            for version in sector.versions.iter_mut().filter(is_found) {
                (version.sent, version.end) = (sent, sent + 1);
                sector.firm = sector.firm.max(if version.is_firm { sent } else { 0 });
            }
        }
        Ok(())
    }

    fn wrong(
        &self,
        number: usize,
        value: Value,
        when: &str,
        is_allowed: impl Fn(&Version) -> bool,
    ) -> Wrong {
        let sector = &self.sectors[number];
        let mut text = format!("sector {number}: {value} {when}; right would be");
        for version in sector.versions.iter().filter(|version| is_allowed(version)) {
            let _ = write!(
                text,
                " {}{}",
                version.value,
                if version.is_trim { " (trim)," } else { "," }
            );
        }
        let _ = write!(text, " of all that may have been there (sent, replied to, firm):");
        for version in &sector.versions {
            let time = |at: u64| if at == NEVER { "never".to_owned() } else { at.to_string() };
            let firm = if version.is_firm { " firm" } else { "" };
            let _ = write!(
                text,
                " {} ({} {}{firm}),",
                version.value,
                version.sent,
                time(version.replied)
            );
        }
        let _ = write!(text, " now {}", self.clock);
        Wrong(text)
    }

    /// Judges what is on the volume after a power cut now and recovery.
    ///
    /// # Errors
    /// [`Wrong`] if a sector holds something older than what was durable, or something that was
    /// never written there.
    pub fn judge_cut(&self, values: &[Value]) -> Result<(), Wrong> {
        if values.len() != self.sectors.len() {
            return Err(Wrong(format!(
                "{} sectors after recovery, {} before",
                values.len(),
                self.sectors.len()
            )));
        }
        for (number, (sector, value)) in self.sectors.iter().zip(values).enumerate() {
            if sector.versions.len() == 1 && sector.versions[0].value == *value {
                continue;
            }
            if !sector.survivors().any(|version| version.value == *value) {
                return Err(self
                    .wrong(number, *value, "after recovery", |version| version.end > sector.firm));
            }
        }
        Ok(())
    }

    /// Returns true if a sector may hold this value after a power cut or a kill now, and recovery.
    #[must_use]
    pub fn allows(&self, sector: usize, value: Value) -> bool {
        self.sectors[sector].survivors().any(|version| version.value == value)
    }

    /// Returns true if the content of a sector may change by itself: it was trimmed.
    #[must_use]
    pub fn is_trimmed(&self, sector: usize) -> bool {
        self.sectors[sector].versions.iter().any(|version| version.is_trim)
    }

    /// Judges what is there after a second recovery, where the first one gave `first` and nothing
    /// was written since.
    ///
    /// # Errors
    /// [`Wrong`] if a sector holds something else that the first recovery excluded.
    pub fn judge_again(&self, first: &[Value], second: &[Value]) -> Result<(), Wrong> {
        if first.len() != second.len() {
            return Err(Wrong(format!(
                "{} sectors after a second recovery, {} after the first",
                second.len(),
                first.len()
            )));
        }
        for (number, (one, two)) in
            first.iter().zip(second).enumerate().filter(|(_, (one, two))| one != two)
        {
            let sector = &self.sectors[number];
            let is_right = sector
                .after_cut(*one, self.clock)
                .is_some_and(|after| after.versions.iter().any(|version| version.value == *two));
            if !is_right {
                return Err(self.wrong(
                    number,
                    *two,
                    &format!("after a second recovery, and {one} after the first"),
                    |version| version.value == *one,
                ));
            }
        }
        Ok(())
    }

    /// Judges what is there after the process was killed, the volume opened again, which gave
    /// `first`, and then the power went.
    ///
    /// # Errors
    /// [`Wrong`] if a sector holds what was lost when the process was killed, or what was gone
    /// before.
    pub fn judge_cut_after_kill(&self, first: &[Value], second: &[Value]) -> Result<(), Wrong> {
        if first.len() != second.len() {
            return Err(Wrong(format!(
                "{} sectors after a cut, {} before, after a kill",
                second.len(),
                first.len()
            )));
        }
        for (number, (one, two)) in
            first.iter().zip(second).enumerate().filter(|(_, (one, two))| one != two)
        {
            let after = self.sectors[number].after_kill(*one, self.clock + 2);
            if !after.is_some_and(|after| after.survivors().any(|version| version.value == *two)) {
                return Err(self.wrong(
                    number,
                    *two,
                    &format!("after a cut, and {one} after a kill before"),
                    |version| version.value == *one,
                ));
            }
        }
        Ok(())
    }

    /// Notes that the power went, and that recovery gave these values: they hold from now on.
    ///
    /// # Errors
    /// As [`Oracle::judge_cut`].
    pub fn cut(&mut self, values: &[Value]) -> Result<(), Wrong> {
        self.judge_cut(values)?;
        self.begin_again(values, Sector::after_cut);
        Ok(())
    }

    /// Notes that the process was killed, and that the volume gave these values when it was opened
    /// again: they are read from now on, and durable when they are flushed.
    ///
    /// # Errors
    /// As [`Oracle::judge_cut`].
    pub fn kill(&mut self, values: &[Value]) -> Result<(), Wrong> {
        self.judge_cut(values)?;
        self.begin_again(values, Sector::after_kill);
        Ok(())
    }

    fn begin_again(&mut self, values: &[Value], after: fn(&Sector, Value, u64) -> Option<Sector>) {
        self.pending.clear();
        self.clock += 2;
        let now = self.clock;
        for sector in std::mem::take(&mut self.dirty) {
            let number = sector as usize;
            let after = after(&self.sectors[number], values[number], now).expect("it was judged");
            self.is_dirty[number] = after.versions.len() > 1;
            if self.is_dirty[number] {
                self.dirty.push(sector);
            }
            self.sectors[number] = after;
        }
        self.clock += 2;
    }
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
