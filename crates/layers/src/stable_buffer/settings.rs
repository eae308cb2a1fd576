//! Parameters of the layer, and the settings that follow from them and the device's facts.

use registry::{Args, Param, ParamKind, parse_bytes, parse_number};

use super::NAME;
use super::disk::{Geometry, HeaderPlace};
use super::patterns::Tuning;
use super::slot::HEADER_BYTES;
use crate::{LayerError, Limits, Making};

/// Bytes of pages that the buffer holds by default: as STABLEBUFFER 4.1 takes on a drive.
const SIZE_BYTES: u64 = 4 << 20;
/// The same on a device of its own, if it has room for as many: closing a volume flushes all of
/// them, which takes a minute or two on slow homes.
const ASIDE_SIZE_BYTES: u64 = 64 << 20;
/// Default thresholds in pages: those of the Mtron in STABLEBUFFER 3.2.
const THRESHOLDS: [f64; 3] = [8.0, 12.0, 16.0];

const fn text(name: &'static str, default: &'static str, help: &'static str) -> Param {
    Param { name, kind: ParamKind::Text, default, help }
}

/// All parameters.
pub const PARAMS: &[Param] = &[
    text(
        "size",
        "auto",
        "bytes of pages that the buffer holds; auto: the device's focused area, or 4Mi; on a \
         staging device 64Mi, or what it has room for",
    ),
    Param {
        name: "page",
        kind: ParamKind::Bytes { min: 512, max: 1 << 20 },
        default: "4Ki",
        help: "bytes of a page",
    },
    Param {
        name: "patterns",
        kind: ParamKind::Choice(&["on_demand", "incremental"]),
        default: "incremental",
        help: "patterns are recognised when one is asked for, or with each page that comes or goes",
    },
    Param {
        name: "flushing",
        kind: ParamKind::Choice(&["passive", "proactive"]),
        default: "passive",
        help: "pages are flushed when the buffer is full, or as soon as an instance of a pattern \
               is large enough",
    },
    Param {
        name: "ack",
        kind: ParamKind::Choice(&["fua", "flush", "written"]),
        default: "fua",
        help: "when a write is replied to: its slot was written with FUA; with a flush that writes \
               share; or is still volatile",
    },
    Param {
        name: "layout",
        kind: ParamKind::Choice(&["beside", "embedded"]),
        default: "beside",
        help: "a slot's header has a sector of its own, or the page's last 96 bytes, which must be \
               zero",
    },
    text(
        "focused_area",
        "auto",
        "bytes of the area in which random writes are fast; auto: from the device's profile, else \
         the buffer's size",
    ),
    Param {
        name: "windows",
        kind: ParamKind::Choice(&["anywhere", "aligned"]),
        default: "anywhere",
        help: "focused instances lie anywhere, as in STABLEBUFFER, or between multiples of \
               focused_area",
    },
    text(
        "t_sequential",
        "auto",
        "time of a page's write in a sequential run, in us; auto: from the device's profile, else \
         that of the slowest known pattern",
    ),
    text(
        "t_partitioned",
        "auto",
        "time of a page's write in runs that take turns, in us; auto: from the device's profile, \
         else that of the slowest known pattern",
    ),
    text(
        "t_focused",
        "auto",
        "time of a page's write within the focused area, in us; auto: from the device's profile, \
         else that of the slowest known pattern",
    ),
    text(
        "theta_sequential",
        "auto",
        "pages above which a run is flushed at once; auto: from the device's profile, else 8 \
         (STABLEBUFFER 3.2)",
    ),
    text(
        "theta_partitioned",
        "auto",
        "pages above which runs of equal length are; auto: theta_sequential * t_partitioned / \
         t_sequential, else 12",
    ),
    text(
        "theta_focused",
        "auto",
        "pages above which a focused cluster is; auto: theta_sequential * t_focused / \
         t_sequential, else 16",
    ),
    Param {
        name: "partitions",
        kind: ParamKind::Integer { min: 1, max: 1024 },
        default: "4",
        help: "most runs of equal length that take turns: as many as t_partitioned was measured \
               with",
    },
    Param {
        name: "run_pages",
        kind: ParamKind::Integer { min: 1, max: 1 << 20 },
        default: "2",
        help: "pages of the shortest run that is flushed as a sequential one; STABLEBUFFER says \
               nothing of runs of one page",
    },
    Param {
        name: "partition_pages",
        kind: ParamKind::Integer { min: 1, max: 1 << 20 },
        default: "2",
        help: "pages of the shortest run that is taken for a partition; 1 as in STABLEBUFFER, \
               where single pages are partitions, too",
    },
    text(
        "sequential",
        "auto",
        "bytes of a sequential run from which on it goes past the buffer; off; auto: the device's \
         write size or theta_sequential pages, else off",
    ),
    Param {
        name: "reread",
        kind: ParamKind::Choice(&["yes", "no"]),
        default: "yes",
        help: "pages to be flushed are read from their slots, or kept in memory",
    },
    Param {
        name: "outstanding",
        kind: ParamKind::Integer { min: 1, max: 1024 },
        default: "8",
        help: "reads or writes of a flush that are under way at a time",
    },
];

/// Time at which a write is replied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// After its slot was written with FUA.
    Fua,
    /// After its slot was written, and a flush behind that.
    Flush,
    /// After its slot was written.
    Written,
}

/// Settings of the layer, from its parameters.
#[derive(Clone, Debug)]
pub struct BufferSettings {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Number of slots.
    pub slots: u32,
    /// True if the number of slots is given, not a default.
    pub is_size_given: bool,
    /// Place of a slot's headers.
    pub layout: HeaderPlace,
    /// First byte of a second device, on which the slots lie; none if there is no such device.
    pub staging: Option<u64>,
    /// True if patterns are kept up with each page.
    pub is_incremental: bool,
    /// True if instances are flushed before there is need.
    pub is_proactive: bool,
    /// Time at which a write is replied to.
    pub ack: Ack,
    /// True if pages to be flushed are read from their slots.
    pub rereads: bool,
    /// Most commands of a flush under way.
    pub outstanding: u32,
    /// Bytes of a sequential run from which on it bypasses the buffer; none for no such length.
    pub sequential_bytes: Option<u64>,
    /// Facts of the patterns.
    pub tuning: Tuning,
}

fn refused(reason: String) -> LayerError {
    LayerError::Refused { layer: NAME, reason }
}

/// Gives a number of bytes, as given or as known.
fn bytes(args: &Args, name: &'static str, known: Option<u64>) -> Result<Option<u64>, LayerError> {
    let given = args.text(name);
    if given == "auto" {
        return Ok(known);
    }
    let value = parse_bytes(given).filter(|&value| value > 0);
    value.map(Some).ok_or_else(|| {
        refused(format!("{name}={given} is no number of bytes, such as 4Mi, and not auto"))
    })
}

/// Gives a number above 0, as given or as known.
fn number(args: &Args, name: &'static str, known: Option<f64>) -> Result<Option<f64>, LayerError> {
    let given = args.text(name);
    if given == "auto" {
        return Ok(known);
    }
    let value = parse_number(given).filter(|&value| value > 0.0);
    value
        .map(Some)
        .ok_or_else(|| refused(format!("{name}={given} is no number above 0, and not auto")))
}

impl BufferSettings {
    /// Reads the settings from the parameters, for a device of these limits.
    ///
    /// # Errors
    /// [`LayerError::Refused`] if parameters exclude each other, or do not fit the device.
    pub fn new(making: &Making<'_>, limits: Limits) -> Result<Self, LayerError> {
        let Making { args, facts, .. } = making;
        let page_bytes = args.integer("page") as u32;
        let layout = if args.text("layout") == "embedded" {
            HeaderPlace::Embedded
        } else {
            HeaderPlace::Beside
        };
        let (sector, page) = (limits.sector_bytes, u64::from(page_bytes));
        if page_bytes < sector
            || !page_bytes.is_multiple_of(sector)
            || (page_bytes as usize) < 2 * HEADER_BYTES
        {
            return Err(refused(format!(
                "page={page_bytes} is not of whole sectors of {sector} bytes"
            )));
        }
        if layout == HeaderPlace::Embedded && page_bytes < 2 * sector {
            return Err(refused(format!(
                "page={page_bytes} is one sector, and layout=embedded keeps headers in the first \
                 and in the last of a page: take layout=beside, or a page of {} or more",
                2 * sector
            )));
        }
        if u64::from(page_bytes) + u64::from(sector) > u64::from(limits.most_bytes) {
            return Err(refused(format!(
                "a slot of a page of {page_bytes} bytes is longer than the longest write, {}",
                limits.most_bytes
            )));
        }
        let known = match facts.staging_offset {
            None => facts.focused_area_bytes,
            Some(staging) => {
                let room = limits.capacity_bytes.saturating_sub(staging);
                let most = Geometry::most_slots(limits, room, page_bytes, layout);
                Some(ASIDE_SIZE_BYTES.min(most * page))
            }
        };
        let size = bytes(args, "size", known)?;
        let slots = size.unwrap_or(SIZE_BYTES) / page;
        if slots == 0 || slots > u64::from(u32::MAX / 4) {
            return Err(refused(format!(
                "size={} is not from one page of {page} bytes to {} of them",
                args.text("size"),
                u32::MAX / 4
            )));
        }
        let is_proactive = args.text("flushing") == "proactive";
        let is_incremental = args.text("patterns") == "incremental";
        if is_proactive && !is_incremental {
            return Err(refused(
                "flushing=proactive needs patterns=incremental (STABLEBUFFER 3.2)".to_owned(),
            ));
        }
        let tuning = Self::tuning(making, page, slots)?;
        let sequential_bytes = match args.text("sequential") {
            "off" => None,
            "auto" => facts
                .write_bytes
                .map(u64::from)
                .or(facts.thresholds.map(|least| (least.sequential_pages * page as f64) as u64)),
            _ => bytes(args, "sequential", None)?,
        };
        Ok(Self {
            page_bytes,
            slots: slots as u32,
            is_size_given: args.text("size") != "auto",
            layout,
            staging: facts.staging_offset,
            is_incremental,
            is_proactive,
            ack: match args.text("ack") {
                "fua" => Ack::Fua,
                "flush" => Ack::Flush,
                _ => Ack::Written,
            },
            rereads: args.text("reread") == "yes",
            outstanding: args.integer("outstanding") as u32,
            sequential_bytes,
            tuning,
        })
    }

    /// Gives the places of all structures below.
    ///
    /// # Errors
    /// [`LayerError::TooSmall`].
    pub fn geometry(&self, limits: Limits) -> Result<Geometry, LayerError> {
        Geometry::place(limits, self.staging, self.page_bytes, self.slots, self.layout)
    }

    fn tuning(making: &Making<'_>, page: u64, slots: u64) -> Result<Tuning, LayerError> {
        let Making { args, facts, .. } = making;
        let focused =
            bytes(args, "focused_area", facts.focused_area_bytes)?.unwrap_or(slots * page);
        let us = |pick: fn(&crate::PatternTimes) -> f64| {
            facts.times.as_ref().map(|times| pick(times) / 1000.0)
        };
        let times = [
            number(args, "t_sequential", us(|times| times.sequential_ns))?,
            number(args, "t_partitioned", us(|times| times.partitioned_ns))?,
            number(args, "t_focused", us(|times| times.focused_ns))?,
        ];
        // If no time is known all are equal, and only the length of an instance decides.
        let slowest = times.iter().flatten().copied().fold(None, |slowest: Option<f64>, time| {
            Some(slowest.map_or(time, |other| other.max(time)))
        });
        let time_ns = times.map(|time| time.or(slowest).unwrap_or(1.0) * 1000.0);
        let known = |pick: fn(&crate::Thresholds) -> f64| facts.thresholds.as_ref().map(pick);
        let sequential = number(args, "theta_sequential", known(|least| least.sequential_pages))?
            .unwrap_or(THRESHOLDS[0]);
        // In proportion to the times, unless given (STABLEBUFFER 3.2).
        let is_given = args.text("theta_sequential") != "auto";
        let of = |name, told: Option<f64>, x: usize| {
            let told = if is_given { None } else { told };
            let in_proportion = if times[0].is_some() && times[x].is_some() {
                time_ns[x] / time_ns[0]
            } else {
                THRESHOLDS[x] / THRESHOLDS[0]
            };
            number(args, name, told).map(|pages| pages.unwrap_or(sequential * in_proportion))
        };
        let partitioned = of("theta_partitioned", known(|least| least.partitioned_pages), 1)?;
        let focused_threshold = of("theta_focused", known(|least| least.focused_pages), 2)?;
        Ok(Tuning {
            time_ns,
            threshold_pages: [sequential, partitioned, focused_threshold],
            focused_pages: (focused / page).max(1),
            is_aligned: args.text("windows") == "aligned",
            partitions: args.integer("partitions") as u32,
            least_run_pages: args.integer("run_pages") as u32,
            least_partition_pages: args.integer("partition_pages") as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use registry::Spec;

    use super::*;
    use crate::{Facts, LAYERS, PatternTimes, Thresholds};

    fn tuning(text: &str, facts: &Facts) -> Tuning {
        let entry = LAYERS.iter().find(|entry| entry.info.name == NAME).unwrap();
        let args = entry.info.accept(&Spec::parse(text).unwrap()).unwrap();
        let limits = Limits { capacity_bytes: 1 << 30, sector_bytes: 512, most_bytes: 1 << 20 };
        BufferSettings::new(&Making { args: &args, facts, seed: 1 }, limits).unwrap().tuning
    }

    /// STABLEBUFFER 3.2, the Mtron: times of 1 : 1.5 : 2 and 8 pages make 8, 12 and 16.
    #[test]
    fn thresholds_are_in_proportion_to_the_times() {
        let told = tuning(
            "stable_buffer(t_sequential=100,t_partitioned=150,t_focused=200,theta_sequential=8)",
            &Facts::default(),
        );
        assert_eq!(
            (told.threshold_pages, told.time_ns),
            ([8.0, 12.0, 16.0], [100_000.0, 150_000.0, 200_000.0])
        );
        let times =
            Some(PatternTimes { sequential_ns: 10.0, partitioned_ns: 30.0, focused_ns: 20.0 });
        let thresholds =
            Some(Thresholds { sequential_pages: 4.0, partitioned_pages: 5.0, focused_pages: 6.0 });
        let facts =
            Facts { times, thresholds, focused_area_bytes: Some(1 << 20), ..Facts::default() };
        let known = tuning("stable_buffer", &facts);
        assert_eq!((known.threshold_pages, known.focused_pages), ([4.0, 5.0, 6.0], 256));
        assert_eq!(
            tuning("stable_buffer(theta_sequential=2)", &facts).threshold_pages,
            [2.0, 6.0, 4.0]
        );
    }

    #[test]
    fn what_nobody_knows_has_a_value_that_the_help_tells() {
        let unknown = tuning("stable_buffer(size=2Mi)", &Facts::default());
        assert_eq!((unknown.threshold_pages, unknown.focused_pages), (THRESHOLDS, 512));
        assert!(
            unknown.time_ns[0] == unknown.time_ns[1] && unknown.time_ns[1] == unknown.time_ns[2]
        );
        let some = tuning("stable_buffer(t_focused=7)", &Facts::default());
        assert_eq!(some.time_ns, [7000.0; 3]);
    }
}
