//! Request patterns: synthetic reads and writes by address, for measuring what a drive does with
//! each.
//!
//! The patterns are those of uFLIP (L. Bouganim, B. T. Jónsson, P. Bonnet, "uFLIP: Understanding
//! Flash IO Patterns", CIDR 2009), which STABLEBUFFER (section 1), SCHEDULER (section 4.2) and
//! PARALLELISM (section 3.2) measure with. A pattern is asked for by a spec such as
//! `random(size=4Ki,reads=1,range=1Gi)` and a seed; for one capacity, these always give the same
//! sequence. What uFLIP calls parallelism is several jobs or a queue depth, which is up to whoever
//! plays a pattern.

mod cycle;
mod focused;
mod in_place;
mod ordered;
mod partitioned;
mod random;
mod sequential;
mod shuffled;
mod stride;
#[cfg(test)]
mod tests;
mod zones;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind, Spec, SpecError};
use units::{IoOp, IoRequest, PLACEMENT_HANDLES, RequestSource, SourceError};

use super::{bad_value, threshold};

/// One pattern in the registry.
#[derive(Debug)]
pub struct Entry {
    /// Name, parameters, source.
    pub info: Info,
    build: fn(&Inputs<'_>) -> Result<Box<dyn Offsets>, SpecError>,
}

/// All patterns.
pub static REGISTRY: &[Entry] = &[
    sequential::ENTRY,
    random::ENTRY,
    shuffled::ENTRY,
    stride::ENTRY,
    focused::ENTRY,
    partitioned::ENTRY,
    ordered::ENTRY,
    in_place::ENTRY,
    zones::ENTRY,
];

/// Bytes of the sector in which requests are counted where a drive tells no other.
pub const SECTOR_BYTES: u32 = 512;

const MOST_BYTES: u64 = 1 << 53;

const fn bytes(name: &'static str, default: &'static str, help: &'static str) -> Param {
    Param { name, kind: ParamKind::Bytes { min: 0, max: MOST_BYTES }, default, help }
}

const fn count(name: &'static str, min: u64, default: &'static str, help: &'static str) -> Param {
    Param { name, kind: ParamKind::Integer { min, max: 1 << 53 }, default, help }
}

const READS: Param = Param {
    name: "reads",
    kind: ParamKind::Number { min: 0.0, max: 1.0 },
    default: "0",
    help: "share of reads, drawn for each request; the others are writes",
};
const SIZE: Param = Param {
    name: "size",
    kind: ParamKind::Bytes { min: 1, max: 1 << 31 },
    default: "4Ki",
    help: "bytes of a request, whole sectors",
};
const OFFSET: Param = bytes("offset", "0", "first byte of the range, whole sectors");
const RANGE: Param =
    bytes("range", "0", "bytes that requests stay within; 0 for all behind the offset");
const ALIGN: Param = bytes(
    "align",
    "0",
    "requests begin at multiples of so many bytes from the offset; 0 for `size`",
);
const SHIFT: Param =
    bytes("shift", "0", "bytes by which all requests are moved, so that they are misaligned");
const REQUESTS: Param = count("requests", 0, "0", "requests in all; 0 for no end");
const BURST: Param = count("burst", 1, "1", "requests sent together, before a pause");
const PAUSE_US: Param = Param {
    name: "pause_us",
    kind: ParamKind::Number { min: 0.0, max: 1e9 },
    default: "0",
    help: "from one burst to the next in microseconds, where requests are sent at times of their \
           own; 0 for no times",
};

const HANDLE: Param = Param {
    name: "handle",
    kind: ParamKind::Integer { min: 0, max: PLACEMENT_HANDLES as u64 - 1 },
    default: "0",
    help: "placement handle of the writes, for a drive with `fdp.handles`",
};

const GAPS: Param = Param {
    name: "gaps",
    kind: ParamKind::Choice(&["fixed", "exponential"]),
    default: "fixed",
    help: "whether each pause is `pause_us` long, or drawn with that mean, as of requests that know \
           nothing of each other",
};

/// The parameters of a pattern: its own, then those that all have.
macro_rules! params {
    ($($own:expr),* $(,)?) => {
        &[
            $($own,)*
            super::READS, super::SIZE, super::OFFSET, super::RANGE, super::ALIGN, super::SHIFT,
            super::REQUESTS, super::BURST, super::PAUSE_US, super::GAPS, super::HANDLE,
        ]
    };
}
use params;

/// Inputs from which a pattern builds its offsets.
struct Inputs<'a> {
    info: &'static Info,
    args: &'a Args,
    seed: u64,
    /// Bytes that offsets and requests lie within.
    length: u64,
    /// Bytes of a request.
    size: u64,
    /// Offsets are multiples of it.
    align: u64,
}

impl Inputs<'_> {
    fn bad(&self, key: &str, right: impl Into<String>) -> SpecError {
        let value = self
            .args
            .iter()
            .find(|(name, _)| *name == key)
            .map_or_else(String::new, |(_, value)| value.to_string());
        bad_value(self.info, key, &value, right)
    }

    /// From the start of a request to that of the next one behind it.
    fn step(&self) -> u64 {
        self.size.next_multiple_of(self.align)
    }

    /// Places for a request in so many bytes, `step` apart; at least one, as the size was checked.
    fn places(&self, length: u64, step: u64) -> u64 {
        (length - self.size) / step + 1
    }

    fn random(&self) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(self.seed)
    }
}

/// The sequence of a pattern's offsets: what the file of a pattern holds.
trait Offsets: Send {
    /// Fills the whole buffer with the next offsets, in bytes from the start of the range.
    fn fill(&mut self, buffer: &mut [u64]);

    /// A copy in the same state.
    fn copy(&self) -> Box<dyn Offsets>;

    /// Bytes of the zones that are trimmed as a whole before their first byte is written.
    fn trimmed_zones(&self) -> Option<u64> {
        None
    }
}

/// A whole number below `bound`; its probability is off by less than one part in 2^64 / `bound`.
#[inline]
fn below(rng: &mut Pcg64Mcg, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// A pattern that was asked for by a spec: what it is, before it is known on which drive.
#[derive(Clone, Debug)]
pub struct Pattern {
    entry: &'static Entry,
    args: Args,
    seed: u64,
}

impl Pattern {
    /// Reads a spec: `random(size=4Ki,reads=1)`, `focused(area=4Mi)`, with or without `io:` before
    /// it.
    ///
    /// # Errors
    /// [`SpecError`] for an unknown pattern or key, or a value that is wrong by itself.
    pub fn parse(text: &str, seed: u64) -> Result<Self, SpecError> {
        let spec = Spec::parse(text.strip_prefix("io:").unwrap_or(text))?;
        let entry = registry::find("request pattern", REGISTRY, |entry| &entry.info, &spec)?;
        Ok(Self { entry, args: entry.info.accept(&spec)?, seed })
    }

    /// Name, parameters, source of this kind of pattern.
    #[must_use]
    pub fn info(&self) -> &'static Info {
        &self.entry.info
    }

    /// The parameters, defaults filled in.
    #[must_use]
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// The seed that it was made with.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Requests in all; `None` if it has no end.
    #[must_use]
    pub fn requests(&self) -> Option<u64> {
        Some(self.args.integer("requests")).filter(|&requests| requests > 0)
    }

    /// Bytes from the beginning of a drive that hold all its addresses; `None` if it goes to the
    /// drive's end.
    #[must_use]
    pub fn footprint_bytes(&self) -> Option<u64> {
        let range = Some(self.args.integer("range")).filter(|&range| range > 0)?;
        Some(self.args.integer("offset") + range)
    }

    /// Returns true if all of its requests are reads.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        self.args.number("reads") >= 1.0
    }

    /// Returns true if its requests have times at which they can be sent.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.pause_ns() > 0
    }

    /// Time of the last request, in nanoseconds after the first; `None` if it has no times or no
    /// end, or they are drawn.
    #[must_use]
    pub fn duration_ns(&self) -> Option<u64> {
        if self.has_random_gaps() {
            return None;
        }
        let requests = self.requests().filter(|_| self.has_times())?;
        Some(((requests - 1) / self.args.integer("burst")).saturating_mul(self.pause_ns()))
    }

    fn has_random_gaps(&self) -> bool {
        self.args.text("gaps") == "exponential"
    }

    fn pause_ns(&self) -> u64 {
        (self.args.number("pause_us") * 1e3).round() as u64
    }

    /// The requests, from the first, on a drive of `capacity_bytes` with sectors of `sector` bytes.
    ///
    /// # Errors
    /// [`SpecError::BadValue`] if an address does not fit: beyond the capacity, or not whole
    /// sectors.
    pub fn source(
        &self,
        capacity_bytes: u64,
        sector: u32,
    ) -> Result<Box<dyn RequestSource>, SpecError> {
        let bad = |key, right| {
            bad_value(&self.entry.info, key, &self.args.integer(key).to_string(), right)
        };
        for key in ["size", "offset", "range", "align", "shift"] {
            if !self.args.integer(key).is_multiple_of(u64::from(sector)) {
                return Err(bad(key, format!("a multiple of {sector}, the bytes of a sector")));
            }
        }
        let [size, offset, shift] = ["size", "offset", "shift"].map(|key| self.args.integer(key));
        let align = if self.args.integer("align") == 0 { size } else { self.args.integer("align") };
        if offset >= capacity_bytes {
            return Err(bad(
                "offset",
                format!("less than the {capacity_bytes} bytes of the drive"),
            ));
        }
        let behind = capacity_bytes - offset;
        let range =
            if self.args.integer("range") == 0 { behind } else { self.args.integer("range") };
        if range > behind {
            return Err(bad(
                "range",
                format!("at most {behind}: the drive has so many bytes from the offset on"),
            ));
        }
        if size.saturating_add(shift) > range {
            return Err(bad(
                "size",
                format!("at most {}: the range has so many bytes", range.saturating_sub(shift)),
            ));
        }
        let inputs = Inputs {
            info: &self.entry.info,
            args: &self.args,
            seed: self.seed,
            length: range - shift,
            size,
            align,
        };
        let first = (self.entry.build)(&inputs)?;
        Ok(Box::new(Requests {
            at: State::new(first.as_ref(), self),
            first,
            scratch: vec![0; CHUNK],
            pattern: self.clone(),
            base: offset + shift,
            size: size as u32,
            read_below: threshold(self.args.number("reads")),
            reads: self.args.number("reads"),
            burst: self.args.integer("burst"),
            pause_ns: self.pause_ns(),
            has_random_gaps: self.has_random_gaps(),
            handle: self.args.integer("handle") as u8,
        }))
    }
}

/// Reads a spec and makes its requests: see [`Pattern::parse`] and [`Pattern::source`].
///
/// # Errors
/// Those of either.
pub fn parse(
    text: &str,
    seed: u64,
    capacity_bytes: u64,
    sector: u32,
) -> Result<Box<dyn RequestSource>, SpecError> {
    Pattern::parse(text, seed)?.source(capacity_bytes, sector)
}

/// Offsets drawn at a time: they stay in the nearest cache until requests are made of them.
const CHUNK: usize = 1024;

struct Requests {
    pattern: Pattern,
    /// The offsets before the first was drawn.
    first: Box<dyn Offsets>,
    at: State,
    scratch: Vec<u64>,
    base: u64,
    size: u32,
    reads: f64,
    /// Of 64 random bits, those below it make a read.
    read_below: u64,
    burst: u64,
    pause_ns: u64,
    has_random_gaps: bool,
    handle: u8,
}

/// State that changes from request to request.
struct State {
    offsets: Box<dyn Offsets>,
    /// Apart from that of the offsets, which so are the same whatever the share of reads.
    ops: Pcg64Mcg,
    gaps: Pcg64Mcg,
    left: u64,
    in_burst: u64,
    time_ns: u64,
    /// A write whose zone was trimmed with the last request.
    held_back: Option<u64>,
}

impl State {
    fn new(first: &dyn Offsets, pattern: &Pattern) -> Self {
        Self {
            offsets: first.copy(),
            ops: Pcg64Mcg::seed_from_u64(pattern.seed ^ 0x7265_6164_7300_6f70),
            gaps: Pcg64Mcg::seed_from_u64(pattern.seed ^ 0x6761_7073),
            left: pattern.requests().unwrap_or(u64::MAX),
            in_burst: 0,
            time_ns: 0,
            held_back: None,
        }
    }
}

impl Requests {
    #[inline]
    fn op(&mut self) -> IoOp {
        // The ends draw nothing, as the threshold of 1 is not reached by 64 bits.
        let is_read =
            self.reads >= 1.0 || (self.reads > 0.0 && self.at.ops.next_u64() < self.read_below);
        if is_read { IoOp::Read } else { IoOp::Write }
    }

    #[inline]
    fn request(&mut self, offset: u64) -> IoRequest {
        let request = IoRequest {
            time_ns: self.at.time_ns,
            op: self.op(),
            offset: self.base + offset,
            length: self.size,
            stream: 0,
            latency_ns: None,
            handle: self.handle,
            is_fua: false,
        };
        self.at.in_burst += 1;
        if self.at.in_burst == self.burst {
            self.at.in_burst = 0;
            self.at.time_ns = self.at.time_ns.saturating_add(self.pause());
        }
        request
    }

    #[inline]
    fn pause(&mut self) -> u64 {
        if !self.has_random_gaps {
            return self.pause_ns;
        }
        // 53 random bits, never 0.
        let share = ((self.at.gaps.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-share.ln() * self.pause_ns as f64).round() as u64
    }

    /// A write at the beginning of a zone comes after the zone's trim.
    fn fill_zones(&mut self, buffer: &mut [IoRequest], zone: u64) {
        for request in buffer {
            if let Some(offset) = self.at.held_back.take() {
                *request = self.request(offset);
                continue;
            }
            let mut offset = [0];
            self.at.offsets.fill(&mut offset);
            *request = if offset[0].is_multiple_of(zone) {
                self.at.held_back = Some(offset[0]);
                IoRequest {
                    time_ns: self.at.time_ns,
                    op: IoOp::Trim,
                    offset: self.base + offset[0],
                    length: zone as u32,
                    stream: 0,
                    latency_ns: None,
                    handle: 0,
                    is_fua: false,
                }
            } else {
                self.request(offset[0])
            };
        }
    }
}

impl RequestSource for Requests {
    fn requests(&self) -> Option<u64> {
        self.pattern.requests()
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let count = usize::try_from(self.at.left).unwrap_or(usize::MAX).min(buffer.len());
        if let Some(zone) = self.at.offsets.trimmed_zones() {
            self.fill_zones(&mut buffer[..count], zone);
        } else {
            for chunk in buffer[..count].chunks_mut(CHUNK) {
                self.at.offsets.fill(&mut self.scratch[..chunk.len()]);
                for (index, request) in chunk.iter_mut().enumerate() {
                    *request = self.request(self.scratch[index]);
                }
            }
        }
        if self.pattern.requests().is_some() {
            self.at.left -= count as u64;
        }
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.at = State::new(self.first.as_ref(), &self.pattern);
        Ok(())
    }
}
