//! A simulated drive as a block device, in virtual time: hours of requests in seconds.

use block::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, DeviceKind, DieTime, Failure,
    FlashWear, FlashWork, Limits, Reply, Telemetry,
};
use ssd::drive::array::{ArrayConfig, ArrayError, array_of, drive_of};
use ssd::drive::device::{self, Submission};
use ssd::drive::media::{Cause, FlashOp};
use ssd::drive::profile::Profile;
use ssd::drive::run::RunError;
use ssd::drive::state::State;
use ssd::drive::time::{PICOS_PER_NANO, Picos};
use units::{IoOp, Nanos, Progress};

use crate::DeviceError;
use crate::any_drive::{AnyDrive, Operations};
use crate::simulated_array::SeveralDrives;

/// Settings of a simulated drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedSettings {
    /// State before the first request.
    pub state: State,
    /// Seed of its policies, its endurance, its aging and the noise of its times.
    pub seed: u64,
}

/// A simulated drive, or several as one. Requests reach it at the moment at which they are
/// submitted; time passes only in [`BlockDevice::wait`].
pub struct Simulated {
    info: DeviceInfo,
    drive: Box<dyn AnyDrive>,
    /// The clock: the drive's own stands at its last event.
    now: Picos,
    done: Vec<device::Completion>,
    /// Commands that failed, when they came.
    refused: Vec<Completion>,
    queues: u32,
    /// Placement handles of the drive; 0 without FDP.
    handles: u8,
    sent: u32,
    page_bytes: u32,
    erases_rated: u32,
    /// Operations of the media that the state before the first request took.
    before: Operations,
}

/// Most requests outstanding: what a host's driver keeps, not the drive, which takes as many as its
/// queues hold.
const QUEUE_DEPTH: u32 = 4096;

impl Simulated {
    /// A drive of this profile, in the given state.
    ///
    /// # Errors
    /// [`DeviceError::Simulated`] if the profile's scheme or policies do not fit,
    /// [`DeviceError::Cancelled`].
    pub fn new(
        name: &str,
        profile: &Profile,
        settings: SimulatedSettings,
        progress: &Progress,
    ) -> Result<Self, DeviceError> {
        let failed = |reason: String| DeviceError::Simulated { name: name.to_owned(), reason };
        let SimulatedSettings { state, seed } = settings;
        let drive = drive_of(profile, state, seed, progress).map_err(|error| match error {
            RunError::Cancelled(cancelled) => DeviceError::Cancelled(cancelled),
            other => failed(other.to_string()),
        })?;
        Ok(Self::over(name, profile, profile.capacity_bytes(), Box::new(drive)))
    }

    /// Several drives of this profile as one, each in the given state.
    ///
    /// # Errors
    /// [`DeviceError::Simulated`] if there can be no such array, [`DeviceError::Cancelled`].
    pub fn array(
        name: &str,
        profile: &Profile,
        config: &ArrayConfig,
        settings: SimulatedSettings,
        progress: &Progress,
    ) -> Result<Self, DeviceError> {
        let failed = |error: ArrayError| match error {
            ArrayError::Run(RunError::Cancelled(cancelled)) => DeviceError::Cancelled(cancelled),
            other => DeviceError::Simulated { name: name.to_owned(), reason: other.to_string() },
        };
        let capacity = config.capacity_bytes(profile).map_err(failed)?;
        let SimulatedSettings { state, seed } = settings;
        let made = array_of(profile, config, state, seed, false, progress).map_err(failed)?;
        Ok(Self::over(name, profile, capacity, Box::new(SeveralDrives::new(made))))
    }

    fn over(name: &str, profile: &Profile, capacity_bytes: u64, drive: Box<dyn AnyDrive>) -> Self {
        let sector_bytes = 512.min(profile.media.page_bytes);
        let info = DeviceInfo {
            name: name.to_owned(),
            model: profile.name.clone(),
            kind: DeviceKind::Simulated,
            limits: Limits { capacity_bytes, sector_bytes, most_bytes: 1 << 30 },
            queue_depth: QUEUE_DEPTH,
            is_read_only: false,
            has_trim: true,
            zeroing_bytes: None,
            is_virtual: true,
            holds_data: false,
        };
        let before = drive.operations();
        let (queues, page_bytes) = (profile.interface.queues, profile.media.page_bytes);
        let (done, refused) = (Vec::with_capacity(64), Vec::new());
        Self {
            info,
            drive,
            now: 0,
            done,
            refused,
            queues,
            handles: profile.fdp.handles as u8,
            sent: 0,
            page_bytes,
            erases_rated: profile.media.endurance_cycles,
            before,
        }
    }

    fn hand_over(&mut self, completed: &mut Vec<Completion>) {
        completed.append(&mut self.refused);
        let refused = self.drive.take_refused();
        completed.extend(self.done.drain(..).map(|done| {
            let device::Submission { op, offset, length, handle: id, .. } = done.submission;
            let why = refused.iter().find(|(handle, _)| *handle == id);
            let outcome = why.map_or(Ok(Data::Absent), |(_, error)| {
                Err(Failure::Io { op, offset, length, reason: error.to_string().into() })
            });
            Completion {
                reply: Reply { id, outcome },
                submitted_at: done.submitted_at / PICOS_PER_NANO,
                completed_at: done.completed_at / PICOS_PER_NANO,
            }
        }));
    }

    fn worn_out(&self) -> Option<String> {
        self.drive.worn_out().map(|reason| format!("it has worn out: {reason}"))
    }
}

impl Simulated {
    fn flash_work(&self) -> FlashWork {
        let now = self.drive.operations();
        let of = |op: FlashOp| now[op as usize] - self.before[op as usize];
        let copied = of(FlashOp::CopyBack);
        FlashWork {
            page_bytes: self.page_bytes,
            page_reads: of(FlashOp::Read) + copied,
            page_programs: of(FlashOp::Program) + copied,
            erases: of(FlashOp::Erase),
        }
    }

    fn flash_wear(&self) -> FlashWear {
        let wear = self.drive.wear();
        FlashWear {
            erases_mean: wear.erases_mean,
            erases_most: wear.erases_max,
            erases_rated: self.erases_rated,
        }
    }

    fn die_time(&self) -> DieTime {
        let times = self.drive.die_time();
        let of_cause = |cause: Cause| times.iter().map(|die| die[cause as usize]).sum::<Picos>();
        let named = |cause: Cause| (cause.name(), of_cause(cause) / PICOS_PER_NANO);
        DieTime {
            dies: times.len() as u32,
            by_cause: Cause::ALL.into_iter().map(named).collect(),
            busy: times.iter().map(|die| die.iter().sum::<Picos>() / PICOS_PER_NANO).collect(),
        }
    }
}

/// A device in virtual time, which can be made to answer on the wall clock.
pub(crate) trait VirtualDevice: BlockDevice {
    /// Gives the time of its next event, in nanoseconds on its clock, rounded up; none if nothing
    /// happens.
    fn next_time(&self) -> Option<Nanos>;
}

impl VirtualDevice for Simulated {
    fn next_time(&self) -> Option<Nanos> {
        if !self.done.is_empty() || !self.refused.is_empty() {
            return Some(self.now.div_ceil(PICOS_PER_NANO));
        }
        self.drive.next_time().map(|at| at.div_ceil(PICOS_PER_NANO))
    }
}

impl BlockDevice for Simulated {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.now / PICOS_PER_NANO
    }

    fn outstanding(&self) -> u32 {
        self.drive.outstanding() + (self.done.len() + self.refused.len()) as u32
    }

    fn submit(&mut self, command: Command) {
        let worn_out = || {
            self.worn_out()
                .filter(|_| command.op != IoOp::Read)
                .map(|reason| command.failed(reason))
        };
        let refused = self.info.refuses(&command).or_else(worn_out);
        assert!(
            self.outstanding() < self.info.queue_depth,
            "at most {} commands are outstanding",
            self.info.queue_depth
        );
        let Command { id, op, offset, length, is_fua, lifetime, .. } = command;
        if let Some(failure) = refused {
            let (reply, now) = (Reply { id, outcome: Err(failure) }, self.now());
            self.refused.push(Completion { reply, submitted_at: now, completed_at: now });
            return;
        }
        // One queue after the other, as the processors of a host take them.
        let queue = self.sent % self.queues;
        // A drive with fewer handles keeps its last one for all that live longer.
        let placement = lifetime.handle().min(self.handles.saturating_sub(1));
        self.sent = self.sent.wrapping_add(1);
        self.drive.submit(
            self.now,
            Submission { op, offset, length, queue, priority: 0, is_fua, placement, handle: id },
            &mut self.done,
        );
    }

    fn telemetry(&self) -> Telemetry {
        Telemetry {
            flash: Some(self.flash_work()),
            wear: Some(self.flash_wear()),
            dies: Some(self.die_time()),
            copies: self.drive.copy_work(),
            layers: Vec::new(),
        }
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        assert!(until < Nanos::MAX || self.outstanding() > 0, "something is waited for");
        let until = if self.refused.is_empty() {
            until.saturating_mul(PICOS_PER_NANO).max(self.now)
        } else {
            self.now
        };
        if self.done.is_empty() {
            self.drive.step_to(until, &mut self.done);
        }
        match self.done.last() {
            Some(last) => self.now = self.now.max(last.completed_at),
            None if until < Picos::MAX => self.now = until,
            // The drive has stopped with requests outstanding: it has no room for them any more.
            None => {
                let bug = || {
                    format!(
                        "{} requests are never completed: a bug of the simulator",
                        self.drive.outstanding()
                    )
                };
                return Err(BlockError::Gone {
                    name: self.info.name.clone(),
                    reason: self.worn_out().unwrap_or_else(bug),
                });
            }
        }
        self.hand_over(completed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ssd::drive::profile;
    use units::Lifetime;

    use super::*;

    /// A drive of one die.
    fn small(changes: &[&str]) -> Simulated {
        let one_die = ["media.channels=1", "media.packages_per_channel=1"];
        let changes = [&one_die, changes].concat();
        let profile = profile::load("a16").unwrap().with_overrides(&changes).unwrap();
        let settings = SimulatedSettings { state: State::Filled, seed: 1 };
        Simulated::new("sim:a16", &profile, settings, &Progress::default()).unwrap()
    }

    #[test]
    fn time_passes_only_while_waiting() {
        let mut device = small(&["media.erase_blocks_per_plane=16", "ftl.over_provisioning=1"]);
        let mut completed = Vec::new();
        assert_eq!(device.now(), 0);
        device.wait(5_000, &mut completed).unwrap();
        assert_eq!((device.now(), completed.len()), (5_000, 0));
        device.submit(Command::new(7, IoOp::Read, 0, 4096));
        assert_eq!((device.now(), device.outstanding()), (5_000, 1));
        device.wait(Nanos::MAX, &mut completed).unwrap();
        assert_eq!(
            (completed[0].reply.id, completed[0].submitted_at, completed[0].completed_at),
            (7, 5_000, device.now())
        );
        assert!(device.now() > 5_000 && device.outstanding() == 0);
        let work = device.telemetry().flash.unwrap();
        assert_eq!(
            (work.page_reads, work.page_programs, work.erases),
            (1, 0, 0),
            "filling is not counted"
        );
    }

    /// Pages programmed where four of five writes go to a fifth of a drive with two placement
    /// handles, which is kept apart or not.
    fn programmed(hint: Lifetime) -> u64 {
        let mut device = small(&[
            "media.erase_blocks_per_plane=64",
            "media.pages_per_erase_block=16",
            "ftl.over_provisioning=0.3",
            "ftl.scheme=superblock_mapped",
            "fdp.handles=2",
            "fdp.isolation=persistently",
        ]);
        let page = u64::from(device.telemetry().flash.unwrap().page_bytes);
        let pages = device.info().limits.capacity_bytes / page;
        let mut random = 1_u64;
        for number in 0..8 * pages {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (is_hot, at) = (!(random >> 60).is_multiple_of(5), (random >> 20) % pages);
            let at = if is_hot { at / 5 } else { pages / 5 + at * 4 / 5 };
            let lifetime = if is_hot { hint } else { Lifetime::NotSet };
            device.submit(Command {
                lifetime,
                ..Command::new(number as u32, IoOp::Write, at * page, page as u32)
            });
            device.wait(Nanos::MAX, &mut Vec::new()).unwrap();
        }
        device.telemetry().flash.unwrap().page_programs
    }

    #[test]
    fn a_drive_with_handles_keeps_lifetimes_apart() {
        let (without, with) = (programmed(Lifetime::NotSet), programmed(Lifetime::Short));
        assert!(with < without, "{with} pages with hints, {without} without");
        assert_eq!(programmed(Lifetime::Extreme), with, "its last handle is for all others");
    }

    #[test]
    fn a_drive_whose_making_was_stopped_is_no_drive_that_is_wrong() {
        let (profile, stopped) = (profile::load("a16").unwrap(), Progress::default());
        stopped.cancel();
        let settings = SimulatedSettings { state: State::Filled, seed: 1 };
        assert!(matches!(
            Simulated::new("sim:a16", &profile, settings, &stopped),
            Err(DeviceError::Cancelled(_))
        ));
    }

    #[test]
    fn waiting_ends_at_its_time_though_more_is_outstanding() {
        let mut device = small(&["media.erase_blocks_per_plane=16", "ftl.over_provisioning=1"]);
        let mut completed = Vec::new();
        device.submit(Command::new(0, IoOp::Read, 4096, 4096));
        device.wait(10, &mut completed).unwrap();
        assert_eq!((device.now(), completed.len(), device.outstanding()), (10, 0, 1));
    }
}
