//! End of a link of an episode: the power goes, or the process is killed. Both are also tried in
//! the middle of a link, as if it ended there.

use layers::Stack;

use super::{MOST_READS, Running, read_all};
use crate::{CrashDevices, ErrorPlan, Wrong};

impl Running<'_> {
    /// Tries what a power cut now would leave, and goes on as if nothing had happened; now and then
    /// the cut is for good.
    pub(super) fn try_cut(&mut self) -> Result<(), Wrong> {
        if self.dice.chance(0.2 / self.options.operations as f64) {
            self.is_out = true;
            return Ok(());
        }
        if !self.dice.chance(self.options.cut_share) {
            return Ok(());
        }
        if self.may_be_killed() && self.dice.chance(0.1) {
            return self.try_kill();
        }
        let loss = self.device().draw_loss();
        let mut spare = std::mem::take(&mut self.spare);
        let mut fork = self.device().fork(&loss, &mut spare);
        let outcome = self.recover_and_judge(&mut fork);
        self.device().join(fork, &mut spare);
        self.spare = spare;
        outcome.map_err(|wrong| Wrong(format!("{}\n  the cut left {loss:?}", wrong.0)))
    }

    fn recover_and_judge(&mut self, fork: &mut CrashDevices) -> Result<(), Wrong> {
        let (mut first, mut second, mut buffer) = (
            std::mem::take(&mut self.first),
            std::mem::take(&mut self.second),
            std::mem::take(&mut self.buffer),
        );
        let mut stack = self.recover(fork)?;
        read_all(&mut stack, fork, &mut buffer, &mut first)?;
        self.tally.sectors_judged += first.len() as u64;
        self.oracle.judge_cut(&first)?;
        if self.dice.chance(0.25) {
            let loss = fork.draw_loss();
            fork.cut(&loss);
            self.tally.recovery_cuts += 1;
            let mut stack = self.recover(fork)?;
            read_all(&mut stack, fork, &mut buffer, &mut second)?;
            let judged = self.oracle.judge_again(&first, &second);
            judged.map_err(|wrong| {
                Wrong(format!("{}\n  the cut after the first recovery left {loss:?}", wrong.0))
            })?;
        }
        (self.first, self.second, self.buffer) = (first, second, buffer);
        Ok(())
    }

    /// Opens what a cut left; tries again if the power goes or commands fail meanwhile.
    fn recover(&mut self, device: &mut CrashDevices) -> Result<Stack, Wrong> {
        for _ in 0..3 {
            self.tally.cuts += 1;
            if self.options.with_errors && self.dice.chance(0.3) {
                let at = self.dice.below(12) as u64;
                device.fail(Some(ErrorPlan {
                    at,
                    op: None,
                    is_lasting: self.dice.chance(0.3),
                    level: 0,
                }));
            }
            let is_stopped = self.recovery_writes > 0 && self.dice.chance(0.3);
            let stop =
                is_stopped.then(|| self.dice.below(self.recovery_writes as usize + 1) as u64);
            device.stop_after(stop);
            device.count_anew();
            let opened = self.subject.open(self.seed, device);
            let (is_off, has_failed) = (device.is_off(), device.has_failed());
            self.recovery_writes = self.recovery_writes.max(device.writes());
            if device.bytes_read() > MOST_READS * self.subject.device_bytes {
                return Err(Wrong(format!(
                    "recovery read {} bytes of a device of {}",
                    device.bytes_read(),
                    self.subject.device_bytes
                )));
            }
            device.stop_after(None);
            match opened {
                Ok(stack) if !is_off && !has_failed => {
                    device.fail(None);
                    if self.dice.chance(0.9) {
                        return Ok(stack);
                    }
                    // Killed at once: what it wrote last may be in the cache alone.
                }
                Err(error) if !is_off && !has_failed => {
                    return Err(Wrong(format!("cannot be recovered: {error}")));
                }
                _ if !has_failed && self.dice.chance(0.4) => device.kill(),
                _ => {
                    let loss = device.draw_loss();
                    device.cut(&loss);
                    self.tally.recovery_cuts += 1;
                    self.tally.errors += u64::from(has_failed);
                }
            }
        }
        self.tally.cuts += 1;
        self.subject
            .open(self.seed, device)
            .map_err(|error| Wrong(format!("cannot be recovered: {error}")))
    }

    /// Cuts the power, recovers the volume, and goes on from what is there.
    pub(super) fn cut_for_good(&mut self) -> Result<(), Wrong> {
        let (mut device, _) = self.take_parts();
        self.tally.errors += u64::from(device.has_failed() || self.has_failed_between());
        self.tally.device_writes += device.writes();
        let loss = device.draw_loss();
        device.cut(&loss);
        let outcome = self.recover(&mut device);
        let mut first = std::mem::take(&mut self.first);
        let judged = outcome.and_then(|mut stack| {
            read_all(&mut stack, &mut device, &mut self.buffer, &mut first)?;
            self.oracle.cut(&first)?;
            Ok(stack)
        });
        device.count_anew();
        device.pass(self.dice.below(1 << 30) as u64);
        self.first = first;
        self.tally.lasting_cuts += 1;
        let stack = judged
            .map_err(|wrong| Wrong(format!("{}\n  the cut, for good, left {loss:?}", wrong.0)))?;
        self.drive(device, stack);
        Ok(())
    }

    /// Returns true if a kill may be tried: not after a fault, as a later flush does not cover then
    /// what it should, and no layer can tell by reading.
    fn may_be_killed(&mut self) -> bool {
        self.options.with_kills && !self.has_failed()
    }

    /// Ends a link, by a kill or a power cut.
    pub(super) fn end_link(&mut self) -> Result<(), Wrong> {
        if self.may_be_killed() && self.dice.chance(0.4) {
            self.kill_for_good()?;
            self.tell(|| "-- the process was killed, and the volume was opened again".to_owned());
        } else {
            self.cut_for_good()?;
            self.tell(|| "-- the power went, and the volume was recovered".to_owned());
        }
        Ok(())
    }

    /// Tries what is there if the process is killed now, and if the power goes soon after; then
    /// goes on as if nothing had happened.
    fn try_kill(&mut self) -> Result<(), Wrong> {
        let mut device = self.device().clone();
        device.kill();
        self.tally.kills += 1;
        let outcome = self.reopen_and_judge(&mut device);
        outcome.map_err(|wrong| Wrong(format!("{}\n  the process was killed", wrong.0)))
    }

    fn reopen_and_judge(&mut self, device: &mut CrashDevices) -> Result<(), Wrong> {
        let (mut first, mut second, mut buffer) = (
            std::mem::take(&mut self.first),
            std::mem::take(&mut self.second),
            std::mem::take(&mut self.buffer),
        );
        if let Some(mut stack) = self.reopen(device)? {
            read_all(&mut stack, device, &mut buffer, &mut first)?;
            self.tally.sectors_judged += first.len() as u64;
            self.oracle.judge_cut(&first)?;
            if self.dice.chance(0.5) {
                let mut stack = self.cut_and_recover(device)?;
                read_all(&mut stack, device, &mut buffer, &mut second)?;
                self.oracle.judge_cut_after_kill(&first, &second)?;
            }
        } else {
            // The power went meanwhile.
            let mut stack = self.cut_and_recover(device)?;
            read_all(&mut stack, device, &mut buffer, &mut first)?;
            self.oracle.judge_cut(&first)?;
        }
        (self.first, self.second, self.buffer) = (first, second, buffer);
        Ok(())
    }

    fn cut_and_recover(&mut self, device: &mut CrashDevices) -> Result<Stack, Wrong> {
        let loss = device.draw_loss();
        device.cut(&loss);
        self.tally.recovery_cuts += 1;
        self.recover(device)
            .map_err(|wrong| Wrong(format!("{}\n  a cut later left {loss:?}", wrong.0)))
    }

    /// Opens what a killed process left in the device and its cache. It may be killed again
    /// meanwhile; gives none if the power goes.
    fn reopen(&mut self, device: &mut CrashDevices) -> Result<Option<Stack>, Wrong> {
        let cannot = |error: layers::LayerError| Wrong(format!("cannot be opened: {error}"));
        if self.recovery_writes > 0 && self.dice.chance(0.5) {
            // Flushes are counted, too.
            device.stop_after(Some(self.dice.below(self.recovery_writes as usize + 3) as u64));
            let opened = self.subject.open(self.seed, device);
            if !device.is_off() {
                device.stop_after(None);
                return opened.map(Some).map_err(cannot);
            }
            if self.dice.chance(0.7) {
                return Ok(None);
            }
            device.kill();
        }
        self.subject.open(self.seed, device).map(Some).map_err(cannot)
    }

    /// Kills the process; the volume goes on from what is in the device and its cache.
    fn kill_for_good(&mut self) -> Result<(), Wrong> {
        let (mut device, _) = self.take_parts();
        device.kill();
        self.tally.kills += 1;
        self.tally.lasting_kills += 1;
        let mut first = std::mem::take(&mut self.first);
        let reopened = self.reopen(&mut device).and_then(|stack| match stack {
            Some(stack) => Ok((stack, false)),
            None => Ok((self.cut_and_recover(&mut device)?, true)),
        });
        let judged = reopened.and_then(|(mut stack, is_cut)| {
            read_all(&mut stack, &mut device, &mut self.buffer, &mut first)?;
            if is_cut {
                self.oracle.cut(&first)?;
            } else {
                self.oracle.kill(&first)?;
            }
            Ok(stack)
        });
        self.tally.device_writes += device.writes();
        self.first = first;
        let stack = judged
            .map_err(|wrong| Wrong(format!("{}\n  the process was killed, for good", wrong.0)))?;
        self.drive(device, stack);
        Ok(())
    }
}
