//! Passes over all that has checksums: their times, and their progress.

use std::time::Duration;

use block::Signal;
use layers::{ScrubState, Stack};
use units::Nanos;

use crate::layout::unix_s;
use crate::{Header, Volume};

/// Time that an overdue pass waits after the volume was opened, in nanoseconds.
const FIRST_AFTER: Nanos = 60_000_000_000;
/// Most places that are named one by one; more are only counted.
const MOST_NAMED: usize = 100;

/// Progress of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerScrub {
    /// Level of the layer, 0 at the top.
    pub level: usize,
    /// Name of the layer.
    pub layer: &'static str,
    /// Progress of the layer.
    pub state: ScrubState,
    /// Places that are known to be bad, in its own addresses: first byte, and bytes. At most 100
    /// places.
    pub bad: Vec<(u64, u64)>,
}

/// Progress of a volume in reading all that has checksums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubFigures {
    /// True if a pass is under way.
    pub is_on: bool,
    /// Number of passes that ended since the volume was opened.
    pub passes: u64,
    /// Time when the last one ended, in seconds since 1970; 0 for never.
    pub last_unix_s: u64,
    /// Layers that keep checksums, from the top down.
    pub layers: Vec<LayerScrub>,
    /// Failure that made the volume unusable, if there was one: a pass does not go on then.
    pub broken: Option<String>,
}

/// Times of passes.
pub struct Passes {
    every: Option<Nanos>,
    next: Option<Nanos>,
    is_on: bool,
    pub ended: u64,
}

impl Passes {
    pub fn new(volume: &Volume, now: Nanos) -> Self {
        let every = volume.scrub_every.filter(|_| states(volume.driver.stack()).next().is_some());
        let next =
            every.map(|every| now.saturating_add(first_after(volume.header(), unix_s(), every)));
        Self { every: every.map(nanos), next, is_on: false, ended: 0 }
    }

    /// Begins a pass, if none is under way and any layer keeps checksums. Returns true if one
    /// began.
    pub fn begin(&mut self, volume: &mut Volume) -> bool {
        let begins = !self.is_on && states(volume.driver.stack()).next().is_some();
        if begins {
            volume.driver.tell(Signal::Scrub, None);
        }
        self.is_on |= begins;
        begins
    }

    /// Begins a pass if its time has come, and notes the end of one. Returns true if one began.
    pub fn look(&mut self, volume: &mut Volume, now: Nanos) -> bool {
        if volume.failure().is_some() {
            // A poisoned layer reads nothing, and would seem to have ended its pass.
            return false;
        }
        if self.is_on {
            let left: u64 = states(volume.driver.stack()).map(|(_, state)| state.pages_left).sum();
            if left == 0 {
                self.is_on = false;
                self.ended += 1;
                volume.was_scrubbed();
                self.next = self.every.map(|every| now.saturating_add(every));
            }
            return false;
        }
        self.next.is_some_and(|next| next <= now) && self.begin(volume)
    }

    pub fn figures(&self, volume: &Volume, broken: Option<String>) -> ScrubFigures {
        let stack = volume.driver.stack();
        let of = |(level, state)| {
            let layer = &stack.layers()[level];
            LayerScrub { level, layer: layer.name(), state, bad: layer.bad_places(MOST_NAMED) }
        };
        ScrubFigures {
            is_on: self.is_on,
            passes: self.ended,
            last_unix_s: volume.header().scrubbed_unix_s,
            layers: states(stack).map(of).collect(),
            broken,
        }
    }
}

/// Gives the levels of layers that keep checksums, each with its progress.
fn states(stack: &Stack) -> impl Iterator<Item = (usize, ScrubState)> {
    let layers = stack.layers().iter().enumerate();
    layers.filter_map(|(level, layer)| Some((level, layer.scrub()?)))
}

/// Gives the time until the next pass is due, counted from the last one, or from when the volume
/// was made.
fn first_after(header: &Header, now_unix_s: u64, every: Duration) -> Nanos {
    let last = header.scrubbed_unix_s.max(header.created_unix_s);
    let past = Duration::from_secs(now_unix_s.saturating_sub(last));
    nanos(every.saturating_sub(past)).max(FIRST_AFTER)
}

fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    use block::{Command, Data, Failure, Immediate, Limits, Serve, Sparse, Store};
    use units::IoOp;

    use super::*;
    use crate::Service;
    use crate::service::tests::creating;

    const DAY: Duration = Duration::from_secs(86_400);

    fn volume(stack: &str) -> Volume {
        Volume::create(&creating("memory(bytes=8Mi)", stack)).unwrap()
    }

    #[test]
    fn a_pass_is_due_so_long_after_the_last_one_or_after_the_volume_was_made() {
        let mut header = volume("direct").header().clone();
        (header.created_unix_s, header.scrubbed_unix_s) = (1_000_000, 0);
        assert_eq!(
            first_after(&header, 1_000_000 + 80_000, DAY),
            nanos(DAY) - nanos(80_000 * SECOND)
        );
        header.scrubbed_unix_s = 1_070_000;
        assert_eq!(
            first_after(&header, 1_000_000 + 80_000, DAY),
            nanos(DAY) - nanos(10_000 * SECOND)
        );
        assert_eq!(first_after(&header, 9_000_000, DAY), FIRST_AFTER, "it is overdue");
        assert_eq!(first_after(&header, 0, DAY), nanos(DAY), "a clock that went back");
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn passes_begin_by_themselves_and_when_they_ended_is_kept() {
        let mut volume = volume("stable_buffer(size=256Ki,page=4Ki)|log_volume(segment=64Ki)");
        volume.scrub_every = Some(DAY);
        let mut passes = Passes::new(&volume, 5);
        let due = 5 + nanos(DAY);
        assert!(!passes.look(&mut volume, due - nanos(2 * SECOND)));
        assert!(passes.look(&mut volume, due) && !passes.begin(&mut volume), "one at a time");
        volume.driver.settle().unwrap();
        assert!(!passes.look(&mut volume, due) && passes.ended == 1);
        let ended = volume.header().scrubbed_unix_s;
        assert!(ended.abs_diff(unix_s()) < 100);
        assert!(!passes.look(&mut volume, due + nanos(DAY) - 1));
        assert!(passes.look(&mut volume, due + nanos(DAY)));
        volume.scrub_every = None;
        assert!(!Passes::new(&volume, 5).look(&mut volume, Nanos::MAX));
    }

    #[test]
    fn without_checksums_there_is_nothing_to_look_at() {
        for stack in ["direct", "scheduler(defer)", "log_volume(segment=64Ki,checksums=no)"] {
            let mut volume = volume(stack);
            volume.scrub_every = Some(DAY);
            let mut passes = Passes::new(&volume, 0);
            assert!(!passes.begin(&mut volume) && !passes.look(&mut volume, Nanos::MAX), "{stack}");
        }
    }

    /// A device in memory that takes no writes from some time on.
    struct Worn {
        bytes: Sparse,
        is_worn: Arc<AtomicBool>,
    }

    impl Serve for Worn {
        fn limits(&self) -> Limits {
            self.bytes.limits()
        }

        fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
            match command.op {
                IoOp::Write if self.is_worn.load(Ordering::Relaxed) => {
                    Err(command.failed("it is worn out"))
                }
                _ => self.bytes.serve(command),
            }
        }
    }

    /// Where nothing can be written any more nothing is read, and no pass counts as ended.
    #[test]
    fn a_volume_that_broke_is_not_scrubbed() {
        let limits = Limits { capacity_bytes: 8 << 20, sector_bytes: 512, most_bytes: 1 << 20 };
        let is_worn = Arc::new(AtomicBool::new(false));
        let device = Worn { bytes: Sparse::new(limits), is_worn: is_worn.clone() };
        let creating = creating("worn", "log_volume(segment=64Ki)");
        let mut volume = Volume::create_on(Box::new(Immediate::new(device)), &creating).unwrap();
        volume.scrub_every = Some(DAY);
        let mut passes = Passes::new(&volume, 0);
        is_worn.store(true, Ordering::Relaxed);
        let mut store = Store::new(volume.device());
        assert!(store.write(0, &[3; 4096]).and_then(|()| store.flush()).is_err());
        assert!(volume.failure().is_some());
        assert!(!passes.look(&mut volume, Nanos::MAX));
        assert_eq!((passes.ended, volume.header().scrubbed_unix_s), (0, 0));
        // A pass that had begun before does not go on, and has not ended.
        is_worn.store(false, Ordering::Relaxed);
        passes.is_on = true;
        assert!(!passes.look(&mut volume, Nanos::MAX) && passes.ended == 0);
    }

    /// It ends though nobody sends requests.
    #[test]
    fn a_service_scrubs_when_it_is_asked() {
        let stack = "stable_buffer(size=256Ki,page=4Ki)|log_volume(segment=64Ki)";
        let service = Service::start(move || Ok(volume(stack))).unwrap();
        service.write_at(0, &[3; 64 << 10], false).unwrap();
        assert!(service.scrub().unwrap().is_on);
        let end = Instant::now() + Duration::from_secs(60);
        let figures = loop {
            let figures = service.scrub_figures().unwrap();
            if !figures.is_on || Instant::now() > end {
                break figures;
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!((figures.passes, figures.broken), (1, None));
        let names: Vec<&str> = figures.layers.iter().map(|one| one.layer).collect();
        assert_eq!(names, ["stable_buffer", "log_volume"]);
        assert!(figures.layers.iter().all(|one| one.state.pages_left == 0 && one.bad.is_empty()));
        assert_eq!(figures.layers[0].state.pages_read, 16);
        assert!(figures.layers[1].state.pages_read >= 16);
        assert_eq!(service.figures().unwrap().scrubs, 1);
        service.close().unwrap();
    }
}
