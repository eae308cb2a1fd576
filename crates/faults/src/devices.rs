//! Devices of an episode: one, or two that lose their power together.

use block::{
    BlockDevice, BlockError, Command, Completion, DeviceInfo, Limits, Signal, Spanned, Waker,
};
use units::{IoOp, Nanos};

use crate::{CrashDevice, Dice, ErrorPlan, Loss, Manners, Media, Subject};

/// Losses at a power cut, of each device for itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Losses {
    /// Loss of the first device, or the only one.
    pub first: Loss,
    /// Loss of the second device.
    pub second: Option<Loss>,
}

/// One [`CrashDevice`], or two behind each other as [`Spanned`] joins them. Two lose their power at
/// the same moment, each with a loss of its own; a command fails on one of them.
#[derive(Clone)]
pub struct CrashDevices {
    span: Spanned<CrashDevice>,
    is_pair: bool,
    /// First byte of the second device.
    boundary: u64,
    /// Plan of the command of a pair that fails.
    plan: Option<ErrorPlan>,
    /// Writes, trims and flushes until the power of a pair goes.
    writes_left: Option<u64>,
    is_off: bool,
    /// True if the second device got the newest command.
    is_newest_second: bool,
    dice: Dice,
}

impl CrashDevices {
    /// Makes the subject's device; or two, the second of which has the last of its bytes. The media
    /// hold the bytes of both.
    #[must_use]
    pub fn new(subject: &Subject, manners: Manners, mut media: Media, dice: &mut Dice) -> Self {
        let (limits, staging_bytes, seed) = (subject.limits(), subject.staging_bytes, dice.seed());
        let of = |is_flush_a_lie| Manners { is_flush_a_lie, ..manners };
        let [manners, of_second] = subject.lying_flushes.map(of);
        if staging_bytes == 0 {
            let device = CrashDevice::new(limits, manners, media, seed);
            return Self::of(device, None, Dice::new(0));
        }
        let boundary = limits.capacity_bytes - staging_bytes;
        let part = |range: std::ops::Range<usize>, all: &mut Media| {
            let bytes = all.raw()[range].to_vec();
            let sectors = bytes.len() / limits.sector_bytes as usize;
            let mut media = Media::new(limits.sector_bytes, sectors);
            *media.raw() = bytes;
            let capacity_bytes = (sectors * limits.sector_bytes as usize) as u64;
            (Limits { capacity_bytes, ..limits }, media)
        };
        let (here, homes) = part(0..boundary as usize, &mut media);
        let (there, staging) = part(boundary as usize..limits.capacity_bytes as usize, &mut media);
        let first = CrashDevice::new(here, manners, homes, seed);
        // Each has its own behaviour.
        let manners = Manners { is_orderly: manners.is_orderly != dice.chance(0.2), ..of_second };
        let second = CrashDevice::new(there, manners, staging, dice.seed());
        Self::of(first, Some(second), dice.split())
    }

    fn of(first: CrashDevice, second: Option<CrashDevice>, dice: Dice) -> Self {
        Self {
            boundary: first.info().limits.capacity_bytes,
            is_pair: second.is_some(),
            span: Spanned::new(first, second),
            plan: None,
            writes_left: None,
            is_off: false,
            is_newest_second: false,
            dice,
        }
    }

    /// Makes a device of no bytes, as a placeholder for another.
    #[must_use]
    pub fn nothing() -> Self {
        Self::of(CrashDevice::nothing(), None, Dice::new(0))
    }

    fn first(&mut self) -> &mut CrashDevice {
        self.span.parts_mut().0
    }

    fn each(&mut self, mut work: impl FnMut(&mut CrashDevice)) {
        let (first, second) = self.span.parts_mut();
        work(first);
        second.into_iter().for_each(work);
    }

    fn any(&self, holds: impl Fn(&CrashDevice) -> bool) -> bool {
        let (first, second) = self.span.parts();
        holds(first) || second.is_some_and(holds)
    }

    fn sum(&self, of: impl Fn(&CrashDevice) -> u64) -> u64 {
        let (first, second) = self.span.parts();
        of(first) + second.map_or(0, of)
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Nanos) {
        self.each(|device| device.pass(time));
    }

    /// Gives the command that was sent last and is still under way; of two devices, as it was sent
    /// to the one that got it.
    #[must_use]
    pub fn newest(&self) -> Option<&Command> {
        let (first, second) = self.span.parts();
        second.filter(|_| self.is_newest_second).unwrap_or(first).newest()
    }

    /// Sets the plan of a command that will fail, counted from now on; or none.
    pub fn fail(&mut self, plan: Option<ErrorPlan>) {
        if self.is_pair {
            self.each(|device| device.fail(None));
            self.plan = plan;
        } else {
            self.first().fail(plan);
        }
    }

    /// Returns true if a command failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.any(CrashDevice::has_failed)
    }

    /// Lets the power go as [`CrashDevice::stop_after`] does; of two, the power of both.
    pub fn stop_after(&mut self, writes: Option<u64>) {
        if self.is_pair {
            self.writes_left = writes;
        } else {
            self.first().stop_after(writes);
        }
    }

    /// Returns true if the power went at such a command.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.is_off || self.any(CrashDevice::is_off)
    }

    /// Gives the number of commands under way, counted on each device.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.sum(|device| device.pending() as u64) as usize
    }

    /// Gives the number of bytes that were read since [`CrashDevices::count_anew`].
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.sum(|device| device.bytes_read)
    }

    /// Gives the number of writes that were sent since then.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.sum(|device| device.writes)
    }

    /// Counts from zero again.
    pub fn count_anew(&mut self) {
        self.each(|device| (device.bytes_read, device.writes) = (0, 0));
    }

    /// Draws what a power cut now would leave.
    pub fn draw_loss(&mut self) -> Losses {
        let (first, second) = self.span.parts_mut();
        Losses { first: first.draw_loss(), second: second.map(CrashDevice::draw_loss) }
    }

    /// Cuts the power.
    pub fn cut(&mut self, losses: &Losses) {
        let (first, second) = self.span.parts_mut();
        first.cut(&losses.first);
        if let (Some(second), Some(loss)) = (second, &losses.second) {
            second.cut(loss);
        }
        self.begin_anew();
    }

    /// Kills the process as [`CrashDevice::kill`] does, on both devices.
    ///
    /// # Panics
    /// If a command failed.
    pub fn kill(&mut self) {
        self.each(CrashDevice::kill);
        self.begin_anew();
    }

    /// Forgets what is under way in the layer that joins both devices.
    fn begin_anew(&mut self) {
        (self.plan, self.writes_left, self.is_off) = (None, None, false);
        if self.is_pair {
            let nothing = Spanned::new(CrashDevice::nothing(), None);
            let (first, second) = std::mem::replace(&mut self.span, nothing).into_parts();
            self.span = Spanned::new(first, second);
        }
    }

    /// As [`CrashDevice::fork`].
    pub fn fork(&mut self, losses: &Losses, spare: &mut [Option<CrashDevice>; 2]) -> Self {
        let dice = if self.is_pair { self.dice.split() } else { Dice::new(0) };
        let [one, two] = spare;
        let (first, second) = self.span.parts_mut();
        let first = first.fork(&losses.first, one);
        let second = second.zip(losses.second).map(|(second, loss)| second.fork(&loss, two));
        Self::of(first, second, dice)
    }

    /// As [`CrashDevice::join`].
    pub fn join(&mut self, fork: Self, spare: &mut [Option<CrashDevice>; 2]) {
        let [one, two] = spare;
        let (first, second) = self.span.parts_mut();
        let (of_first, of_second) = fork.span.into_parts();
        first.join(of_first, one);
        if let (Some(second), Some(fork)) = (second, of_second) {
            second.join(fork, two);
        }
    }

    /// As [`CrashDevice::forget_trims`].
    pub fn forget_trims(&mut self) {
        self.each(CrashDevice::forget_trims);
    }

    /// Notes what a command of a pair is to be: the one that fails, the last before the power goes.
    fn foresee(&mut self, command: &Command) {
        let is_second = if command.op == IoOp::Flush {
            self.dice.chance(0.5)
        } else {
            command.offset >= self.boundary
        };
        self.is_newest_second = is_second;
        if let Some(plan) = &mut self.plan
            && plan.op.is_none_or(|only| only == command.op)
        {
            if plan.at > 0 {
                plan.at -= 1;
            } else {
                let now = ErrorPlan { op: None, ..*plan };
                self.plan = None;
                let (first, second) = self.span.parts_mut();
                second.filter(|_| is_second).unwrap_or(first).fail(Some(now));
            }
        }
        if command.op != IoOp::Read {
            match &mut self.writes_left {
                Some(0) => self.is_off = true,
                Some(left) => *left -= 1,
                None => {}
            }
        }
    }
}

impl BlockDevice for CrashDevices {
    fn info(&self) -> &DeviceInfo {
        self.span.info()
    }

    fn now(&mut self) -> Nanos {
        self.span.now()
    }

    fn outstanding(&self) -> u32 {
        self.span.outstanding()
    }

    fn submit(&mut self, command: Command) {
        if self.is_pair {
            self.foresee(&command);
        }
        self.span.submit(command);
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        if self.is_off {
            let (name, reason) = (self.info().name.clone(), "there is no power".to_owned());
            return Err(BlockError::Gone { name, reason });
        }
        self.span.wait(until, completed)
    }

    fn signal(&mut self, signal: Signal) {
        self.span.signal(signal);
    }

    fn waker(&mut self) -> Option<Waker> {
        self.span.waker()
    }
}
