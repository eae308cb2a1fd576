//! The experiments: one file each, and one line here.

mod alignment;
mod bursts;
mod cleaning_onset;
mod erase_block_size;
mod focused;
mod logs;
mod partitioned;
mod pauses;
mod read_ahead;
mod serial_parallel;
mod steady_state;
mod thresholds;
mod write_buffer;
mod write_patterns;
mod writes;
#[cfg(test)]
mod writes_tests;

mod channels;
mod chunk_size;
mod common;
mod depth;
mod equations;
mod ill_mapped;
mod inside;
mod interference;
mod interleaving;
mod lists;
mod mapping;
mod matrix;
mod mix;
#[cfg(test)]
mod performance_tests;
mod response_time;
mod streams;
mod throughput;

use block::DeviceKind;
use registry::{Args, Info, Spec, SpecError};

use crate::bench::Bench;
use crate::error::ProbeError;
use crate::finding::Finding;
use crate::known::Known;

/// Subject of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Throughput and latency as a host sees them.
    Performance,
    /// Costs of patterns of writes.
    Patterns,
    /// Structure of the drive.
    Internals,
    /// Interference between streams.
    Interference,
}

impl Group {
    /// The name in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Performance => "performance",
            Self::Patterns => "patterns",
            Self::Internals => "internals",
            Self::Interference => "interference",
        }
    }
}

/// One experiment.
pub struct Experiment {
    /// Name, parameters, source.
    pub info: Info,
    /// Its subject.
    pub group: Group,
    /// True if it writes to the region.
    pub writes: bool,
    /// True if it belongs to the quick set.
    pub is_quick: bool,
    /// Its share of the device time of a set, against the others.
    pub weight: f64,
    /// Experiments whose findings it uses if they are there: they run before it.
    pub after: &'static [&'static str],
    /// Runs it. The finding's `experiment` and its sums are filled in by [`Experiment::run`].
    pub body: fn(&mut Bench<'_>, &Args, &Known) -> Result<Finding, ProbeError>,
}

/// All experiments, in the order in which a set runs them.
pub static EXPERIMENTS: &[Experiment] = &[
    // performance of reads
    throughput::READ,
    equations::READ,
    response_time::READ,
    depth::READ,
    // the first that writes: a profile is simulated from a drive with all of its spare space unused
    matrix::ENTRY,
    matrix::READS,
    // internals that take few writes
    chunk_size::ENTRY,
    interleaving::ENTRY,
    mapping::ENTRY,
    write_buffer::ENTRY,
    // performance of writes
    throughput::WRITE,
    equations::WRITE,
    response_time::WRITE,
    mix::ENTRY,
    depth::WRITE,
    // internals that take many writes
    logs::ENTRY,
    erase_block_size::ENTRY,
    read_ahead::ENTRY,
    cleaning_onset::ENTRY,
    steady_state::ENTRY,
    // patterns
    focused::ENTRY,
    partitioned::ENTRY,
    write_patterns::ENTRY,
    alignment::ENTRY,
    pauses::ENTRY,
    bursts::ENTRY,
    serial_parallel::ENTRY,
    thresholds::ENTRY,
    // interference
    interference::ENTRY,
    streams::ENTRY,
    ill_mapped::ENTRY,
];

/// Finds an experiment by a spec such as `chunk_size(most=64Ki)`, and its parameters.
///
/// # Errors
/// [`SpecError`] lists the known names or keys, or says what is wrong with a value.
pub fn find(text: &str) -> Result<(&'static Experiment, Args), SpecError> {
    let spec = Spec::parse(text)?;
    let experiment =
        registry::find("experiment", EXPERIMENTS, |experiment| &experiment.info, &spec)?;
    let args = experiment.info.accept(&spec)?;
    lists::check(&experiment.info, &args)?;
    Ok((experiment, args))
}

impl Experiment {
    /// Runs it and says what it took.
    ///
    /// # Errors
    /// [`ProbeError`]; [`ProbeError::Impossible`] if it writes and the bench may not, or if a
    /// pattern of requests does not fit into the region; [`ProbeError::Spec`] if a parameter does
    /// not fit the device.
    pub fn run(
        &self,
        bench: &mut Bench<'_>,
        args: &Args,
        known: &Known,
    ) -> Result<Finding, ProbeError> {
        if self.writes && !bench.settings().may_write {
            return Err(ProbeError::Impossible {
                experiment: self.info.name,
                reason: "it writes to the device, which was not allowed".to_owned(),
            });
        }
        let (start, before) = (bench.now(), bench.sent());
        let mut finding = (self.body)(bench, args, known).map_err(|error| self.told(error))?;
        let sent = bench.sent();
        // Of a simulated drive it is known whether it was filled.
        if sent.written_bytes == before.written_bytes
            && bench.device().kind != DeviceKind::Simulated
        {
            finding.notes.push(
                "nothing was written: a drive may answer reads of what was never written without \
                 its flash"
                    .to_owned(),
            );
        }
        finding.experiment = format!(
            "{}({})",
            self.info.name,
            args.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
        );
        finding.device_seconds = (bench.now() - start) as f64 / 1e9;
        let budget_s = bench.settings().budget as f64 / 1e9;
        if finding.device_seconds > 1.5 * budget_s {
            finding.notes.push(format!(
                "it took {:.0} s, more than its budget of {budget_s:.0} s: the drive is too slow \
                 for less",
                finding.device_seconds
            ));
        }
        finding.requests = sent.requests - before.requests;
        finding.read_bytes = sent.read_bytes - before.read_bytes;
        finding.written_bytes = sent.written_bytes - before.written_bytes;
        finding.seed = bench.settings().seed;
        Ok(finding)
    }

    /// A wrong parameter is the user's; a pattern that does not fit is the region's.
    fn told(&self, error: ProbeError) -> ProbeError {
        match error {
            ProbeError::Spec(SpecError::BadValue { name, .. }) if name == self.info.name => error,
            ProbeError::Spec(error) => {
                ProbeError::Impossible { experiment: self.info.name, reason: error.to_string() }
            }
            other => other,
        }
    }
}
