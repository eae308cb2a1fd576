//! Plays flows on a device and measures them.

mod measured;
mod play;
#[cfg(test)]
mod tests;

use block::{BlockDevice, DeviceInfo};
use registry::SpecError;
use traces::synth::patterns::Pattern;
use units::{IoOp, IoRequest, Nanos, Progress, RequestSource, SourceError};

pub use self::play::{closed, flow};
pub use measured::{Measured, Sample};
use player::Shifted;
pub use player::{Flow, Pace};

use crate::error::ProbeError;

/// The part of a device that experiments touch, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Settings of all that a bench plays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Region in which requests lie.
    pub region: Region,
    /// Seed of all that is random.
    pub seed: u64,
    /// True if the region may be written.
    pub may_write: bool,
    /// Device time that an experiment should take about, in nanoseconds. One that needs less takes
    /// less; one that cannot do with so little takes more and says so.
    pub budget: Nanos,
}

/// End of a measurement: whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Requests measured.
    pub requests: u64,
    /// Device time measured, in nanoseconds.
    pub time: Nanos,
    /// Half the width of the 95 % interval of the throughput as a share of it, by batch means; 0
    /// for no such end.
    pub precision: f64,
    /// Requests measured before the precision may end it: a drive may repeat itself only after
    /// many.
    pub least_requests: u64,
    /// Requests of a batch at least, whose means tell the precision, which is then asked for
    /// whenever the requests have doubled; 0 for twice as many as are outstanding, and asking
    /// whenever there are enough batches to join.
    pub batch_requests: u64,
    /// Requests measured before the time may end it: without any a throughput of nothing would be
    /// told of a drive that pauses.
    pub fewest_requests: u64,
    /// Requests that come before and are not measured.
    pub warm_up_requests: u64,
    /// Device time in nanoseconds that comes before and is not measured, together with the
    /// requests.
    pub warm_up_time: Nanos,
    /// True if every request is kept as a [`Sample`].
    pub keep_samples: bool,
}

impl Limit {
    /// So many requests, after a tenth as many to warm up.
    #[must_use]
    pub fn requests(requests: u64) -> Self {
        Self { requests, precision: 0.0, warm_up_requests: requests / 10, ..Self::time(Nanos::MAX) }
    }

    /// So much device time at most, and no longer than until the throughput is known within one per
    /// cent.
    #[must_use]
    pub fn time(time: Nanos) -> Self {
        Self {
            requests: u64::MAX,
            time,
            precision: 0.01,
            least_requests: 0,
            batch_requests: 0,
            fewest_requests: 0,
            warm_up_requests: 0,
            warm_up_time: 0,
            keep_samples: false,
        }
    }

    /// The same with so many requests to warm up.
    #[must_use]
    pub fn after(mut self, warm_up_requests: u64) -> Self {
        self.warm_up_requests = warm_up_requests;
        self
    }

    /// The same with so much device time to warm up, in nanoseconds.
    #[must_use]
    pub fn after_time(mut self, warm_up_time: Nanos) -> Self {
        self.warm_up_time = warm_up_time;
        self
    }

    /// The same, but it ends by its precision only after so many requests.
    #[must_use]
    pub fn at_least(mut self, least_requests: u64) -> Self {
        self.least_requests = least_requests;
        self
    }

    /// The same, but precise by means of so many requests each.
    #[must_use]
    pub fn in_batches(mut self, batch_requests: u64) -> Self {
        self.batch_requests = batch_requests;
        self
    }

    /// The same, but it ends by its time only after so many requests.
    #[must_use]
    pub fn fewest(mut self, fewest_requests: u64) -> Self {
        self.fewest_requests = fewest_requests;
        self
    }

    /// The same, but it ends as soon as the throughput is known as precisely as this; 0 for no such
    /// end.
    #[must_use]
    pub fn precision(mut self, precision: f64) -> Self {
        self.precision = precision;
        self
    }

    /// The same with every request kept.
    #[must_use]
    pub fn with_samples(mut self) -> Self {
        self.keep_samples = true;
        self
    }
}

/// Totals of all that was sent: for a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Requests completed.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// A device under experiment.
pub struct Bench<'a> {
    device: &'a mut dyn BlockDevice,
    settings: Settings,
    progress: &'a Progress,
    sent: Sent,
    next_seed: u64,
    is_given_up_when_stopped: bool,
}

impl<'a> Bench<'a> {
    /// A bench. The progress counts nanoseconds of device time.
    ///
    /// # Panics
    /// If the region is not of whole sectors, is empty or lies outside the device.
    pub fn new(
        device: &'a mut dyn BlockDevice,
        settings: Settings,
        progress: &'a Progress,
    ) -> Self {
        let (info, Region { offset, length }) = (device.info(), settings.region);
        let sector = u64::from(info.limits.sector_bytes);
        assert!(
            length > 0
                && offset.is_multiple_of(sector)
                && length.is_multiple_of(sector)
                && offset + length <= info.limits.capacity_bytes,
            "the region of {length} bytes at byte {offset} is one of whole sectors of {sector} \
             within the device's {} bytes",
            info.limits.capacity_bytes
        );
        Self {
            device,
            settings,
            progress,
            sent: Sent::default(),
            next_seed: settings.seed,
            is_given_up_when_stopped: false,
        }
    }

    /// The same for a simulated drive that is dropped if the work is stopped: what is under way
    /// then need not be brought to its end, which may take long.
    #[must_use]
    pub(crate) fn given_up_when_stopped(mut self) -> Self {
        self.is_given_up_when_stopped = true;
        self
    }

    /// Describes the device.
    #[must_use]
    pub fn device(&self) -> &DeviceInfo {
        self.device.info()
    }

    /// Gives the settings of all that is played.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Gives the region in which requests lie.
    #[must_use]
    pub fn region(&self) -> Region {
        self.settings.region
    }

    /// Gives the totals of all that was sent so far.
    #[must_use]
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// The device's clock.
    pub fn now(&mut self) -> Nanos {
        self.device.now()
    }

    /// A seed that no other call gives.
    pub fn seed(&mut self) -> u64 {
        // The golden ratio: neighbours share no bits.
        self.next_seed = self.next_seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.next_seed
    }

    /// The device time for each of `parts` of the experiment.
    #[must_use]
    pub fn part_of_budget(&self, parts: usize) -> Nanos {
        self.settings.budget / parts.max(1) as Nanos
    }

    /// A pattern of `traces::synth::patterns` (`random(size=4Ki,reads=1)`) within the region, with
    /// a seed of its own.
    ///
    /// # Errors
    /// [`SpecError`] if the pattern does not fit into the region.
    pub fn pattern(&mut self, text: &str) -> Result<Box<dyn RequestSource>, SpecError> {
        let seed = self.seed();
        let Region { offset, length } = self.settings.region;
        let source =
            Pattern::parse(text, seed)?.source(length, self.device.info().limits.sector_bytes)?;
        Ok(Box::new(Shifted::new(source, offset)))
    }

    /// Requests at these offsets within the region, `length` bytes each, in this order, again and
    /// again.
    #[must_use]
    pub fn at_offsets(&self, op: IoOp, offsets: Vec<u64>, length: u32) -> Box<dyn RequestSource> {
        assert!(!offsets.is_empty(), "there are offsets");
        Box::new(Listed { op, offsets, length, base: self.settings.region.offset, next: 0 })
    }

    /// These requests, whose offsets are within the region, in this order, once.
    #[must_use]
    pub fn once(&self, mut requests: Vec<IoRequest>) -> Box<dyn RequestSource> {
        requests.iter_mut().for_each(|request| request.offset += self.settings.region.offset);
        Box::new(units::VecRequests::new(requests.into()))
    }

    /// Lets time pass without requests.
    ///
    /// # Errors
    /// [`ProbeError::Device`] if the device fails meanwhile, [`ProbeError::Cancelled`].
    pub fn pause(&mut self, time: Nanos) -> Result<(), ProbeError> {
        // In steps, so that a request to stop is heard.
        const STEP: Nanos = 100_000_000;
        let end = self.device.now().saturating_add(time);
        let mut completed = Vec::new();
        while self.device.now() < end {
            let next =
                if self.device.info().is_virtual { end } else { end.min(self.device.now() + STEP) };
            self.device.wait(next, &mut completed)?;
            self.progress.advance(0)?;
        }
        self.progress.advance(time)?;
        Ok(())
    }

    /// Writes a part of the region in order with 256 KiB requests (or the longest that the device
    /// takes) and what is left in one, one by one, flushes, and waits: the state in which
    /// PARALLELISM section 3.2 begins each experiment ("init_SSD").
    ///
    /// # Errors
    /// [`ProbeError::Impossible`] if nothing may be written; those of [`Bench::play`].
    pub fn fill(&mut self, offset: u64, length: u64, pause: Nanos) -> Result<(), ProbeError> {
        if length == 0 {
            return Ok(());
        }
        let sector = u64::from(self.device.info().limits.sector_bytes);
        let longest =
            (256 << 10).min(u64::from(self.device.info().limits.most_bytes)) / sector * sector;
        let rest = length % longest;
        for (offset, length, size) in
            [(offset, length - rest, longest), (offset + length - rest, rest, rest)]
        {
            if length > 0 {
                let source = self.pattern(&format!(
                    "sequential(size={size},offset={offset},range={length},requests={})",
                    length / size
                ))?;
                self.play(vec![closed(source, 1)], Limit::requests(u64::MAX).after(0))?;
            }
        }
        self.flush()?;
        self.pause(pause)
    }

    /// Has all that was written made durable.
    ///
    /// # Errors
    /// Those of [`Bench::play`].
    pub fn flush(&mut self) -> Result<(), ProbeError> {
        self.flush_time().map(|_| ())
    }

    /// Sends a flush and waits for its end; how long that took, in nanoseconds.
    ///
    /// # Errors
    /// Those of [`Bench::play`].
    pub fn flush_time(&mut self) -> Result<Nanos, ProbeError> {
        let flush = IoRequest {
            time_ns: 0,
            op: IoOp::Flush,
            offset: 0,
            length: 0,
            stream: 0,
            latency_ns: None,
            handle: 0,
            is_fua: false,
        };
        let source = Box::new(units::VecRequests::new([flush].into()));
        Ok(self.play(vec![closed(source, 1)], Limit::requests(1).after(0))?.elapsed)
    }
}

/// Offsets from a list, without end.
struct Listed {
    op: IoOp,
    offsets: Vec<u64>,
    length: u32,
    base: u64,
    next: usize,
}

impl RequestSource for Listed {
    fn requests(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        for request in buffer.iter_mut() {
            let offset = self.base + self.offsets[self.next];
            *request = IoRequest {
                time_ns: 0,
                op: self.op,
                offset,
                length: self.length,
                stream: 0,
                latency_ns: None,
                handle: 0,
                is_fua: false,
            };
            self.next = (self.next + 1) % self.offsets.len();
        }
        Ok(buffer.len())
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.next = 0;
        Ok(())
    }
}
