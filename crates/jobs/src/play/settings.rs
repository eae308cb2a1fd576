//! The options of `play`: each is declared here, and nowhere else.

use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::facts::Facts;
use crate::flow::Flow;
use crate::pace::Pace;
use crate::source::Part;
use crate::values::{Count, CountOrShare, Factor, Seconds, Share, Size};
use crate::written::{Text, Written};

/// Plays SOURCE on each device, under each stack of layers, and measures what they answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Play {
    /// A trace file, the folder of a recording, `synth:zipf(pages=1M)`, or a pattern such as
    /// `io:random(reads=1)`. `part(FILE, skip=60s, for=5m, limit=1M, ops=write+trim, fit=scale,
    /// repeat=3, priority=1, handle=2)` is a part of it.
    #[schemars(extend("argument" = true, "metavar" = "SOURCE", "completes" = "source"))]
    pub source: Text<Part>,

    /// A profile of `flashwright list profile`, a block device, a file, or one of `flashwright list
    /// device`, such as `hard_disk`.
    /// Settings of the device stand in parentheses: `profile(nvme-tlc, state=aged, op=28%)`,
    /// `disk(/dev/sdb, region=1Gi+4Gi)`, `array(raid5, of=intel-x25e)`. a,b or again for each.
    #[schemars(extend("group" = "Devices", "metavar" = "DEVICE", "completes" = "device"))]
    pub on: Vec<Text<Device>>,
    /// Layers from the top to the bottom with | between them, such as
    /// `scheduler(defer)|log_volume`; `direct` is the device alone, `auto` those that may be right
    /// for the device. a,b or again for each.
    #[schemars(extend("group" = "Devices", "metavar" = "STACK", "completes" = "layer"))]
    pub stack: Vec<String>,
    /// Pace of the requests: `closed(32, think=5us)`, 32 outstanding; `open(factor=2)`, at the
    /// trace's times, twice as fast; `intervals(1)`, with its pauses. A number is a closed pace;
    /// 1,8,32 are three. [default: closed(32); with --stack closed(1), as papers measure]
    #[schemars(extend("group" = "Pace", "metavar" = "PACE"))]
    pub pace: Vec<Text<Pace>>,
    /// Flow that is played beside SOURCE until that ends: `flow(io:random(reads=1), pace=closed(4),
    /// priority=1, region=1Gi+1Gi)`. Again for each.
    #[schemars(extend("group" = "Pace", "metavar" = "FLOW"))]
    pub flow: Vec<Text<Flow>>,

    /// First play N requests, or this share of SOURCE (85%), in no simulated time: a simulated
    /// drive comes into its steady state as fast as it can be counted.
    #[schemars(extend("group" = "Beginning and end", "metavar" = "N|SHARE"))]
    pub untimed: CountOrShare,
    /// Leave the first N requests out of what is measured.
    #[schemars(extend("group" = "Beginning and end", "metavar" = "N"))]
    pub warm_up: Count,
    /// Stop after N requests. [default: all; 1M of a source without end]
    #[schemars(extend("group" = "Beginning and end", "metavar" = "N"))]
    pub requests: Option<Count>,
    /// Stop after this much of the device's time.
    #[schemars(extend("group" = "Beginning and end", "metavar" = "S", "flag" = "--for"))]
    pub duration: Option<Seconds>,

    /// Let addresses of SOURCE that a device does not have begin again at its start.
    #[schemars(extend("group" = "Source"))]
    pub fold: bool,
    /// Bytes in a page of `synth:`.
    #[schemars(extend("group" = "Source", "metavar" = "BYTES"))]
    pub page_size: Size,

    /// Facts that layers know of a device: the run folder of a probe; `measure`, on a second
    /// simulated drive; or `none`. [default: measure if it is simulated, else none]
    #[schemars(extend("group" = "Layers", "metavar" = "DIR|measure|none"))]
    pub facts: Option<Facts>,
    /// Ends of the database's checkpoints: `every(60s)` of the trace, or `marks` of a recording;
    /// `as=signal` lets layers alone hear of it, instead of a flush among the requests.
    #[schemars(extend("group" = "Layers", "metavar" = "WHEN"))]
    pub checkpoints: Option<Text<Checkpoints>>,
    /// Give each write bytes and check each read; at the end write back and flush, or drop what
    /// layers hold as a killed process would; then open the stack again, and check all.
    #[schemars(extend("group" = "Layers"))]
    pub data: Option<DataName>,
    /// Let layers keep what they hold at the end, instead of writing it back.
    #[schemars(extend("group" = "Layers"))]
    pub no_drain: bool,

    /// Allow writes to a block device or file: what is in the region is lost.
    #[schemars(extend("group" = "Real devices"))]
    pub write: bool,
    /// Confirm overwriting a device that holds data, by repeating its path. Again for each.
    #[schemars(extend("group" = "Real devices", "metavar" = "PATH"))]
    pub destroy_data: Vec<String>,
    /// Count requests that fail, instead of stopping at the first.
    #[schemars(extend("group" = "Real devices"))]
    pub keep_going: bool,
    /// Say what would be done, and send nothing.
    #[schemars(extend("group" = "Real devices"))]
    pub dry_run: bool,
    /// Record what one device gets meanwhile, and hold it against the trace: of a block device as
    /// `flashwright record` does, of any other by a layer of our own.
    #[schemars(extend("group" = "Real devices", "metavar" = "DIR", "writes" = "recording"))]
    pub record: Option<String>,

    /// Lay an earlier run, or the recording itself, beside it.
    #[schemars(extend("group" = "Results", "metavar" = "DIR"))]
    pub against: Option<String>,
    /// Data to compute a drive's life from: `life(writes_per_day=40G, cycles=3000)`.
    #[schemars(extend("group" = "Results", "metavar" = "LIFE"))]
    pub life: Option<Text<Life>>,
    /// Write a table with a row for each request on a simulated drive.
    #[schemars(extend("group" = "Results"))]
    pub per_request: bool,
    /// Write down the first N activities of a simulated drive's dies, for ui.perfetto.dev.
    #[schemars(extend("group" = "Results", "metavar" = "N"))]
    pub timeline: Count,
    /// Check the simulator's tables at the end.
    #[schemars(extend("group" = "Results"))]
    pub audit: bool,
    /// Seed of all that is random.
    #[schemars(extend("group" = "Results", "metavar" = "N"))]
    pub seed: u64,

    /// Use only the first bytes of what a stack offers.
    #[schemars(extend("hidden" = true))]
    pub above_bytes: Option<u64>,
    /// Parquet file of the table of requests.
    #[schemars(extend("hidden" = true))]
    pub requests_to: Option<String>,
}

impl Default for Play {
    fn default() -> Self {
        Self {
            source: Text(Part::whole("")),
            on: Vec::new(),
            stack: Vec::new(),
            pace: Vec::new(),
            flow: Vec::new(),
            untimed: CountOrShare::Count(0),
            warm_up: Count(0),
            requests: None,
            duration: None,
            fold: false,
            page_size: Size(4096),
            facts: None,
            checkpoints: None,
            data: None,
            no_drain: false,
            write: false,
            destroy_data: Vec::new(),
            keep_going: false,
            dry_run: false,
            record: None,
            against: None,
            life: None,
            per_request: false,
            timeline: Count(0),
            audit: false,
            seed: 1,
            above_bytes: None,
            requests_to: None,
        }
    }
}

/// Times at which checkpoints of the database begin and end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Checkpoints {
    /// One ends at even intervals of the trace.
    Every {
        /// The interval.
        seconds: Seconds,
        /// Form in which layers hear of it.
        #[serde(default, rename = "as")]
        heard_as: HeardAs,
    },
    /// They begin and end where a recording marked them.
    Marks {
        /// Form in which layers hear of them.
        #[serde(default, rename = "as")]
        heard_as: HeardAs,
    },
    /// They end, and begin, at these times after the first request, in nanoseconds.
    At {
        /// Ends.
        ends_ns: Vec<u64>,
        /// Beginnings, as far as they are known: layers hear of them beside the requests.
        #[serde(default)]
        begins_ns: Vec<u64>,
        /// Form in which layers hear of the ends.
        #[serde(default, rename = "as")]
        heard_as: HeardAs,
    },
}

impl Written for Checkpoints {
    const NAME: &str = "checkpoints";
}

/// Form in which layers hear of a checkpoint's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeardAs {
    /// A flush among the requests.
    #[default]
    Flush,
    /// A signal to the layers alone.
    Signal,
}

/// Ending of a run with data, before its stack is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum DataName {
    /// Layers write back and flush all that they hold.
    Drained,
    /// Layers are dropped with what they hold.
    Killed,
}

/// Data that a drive's life is computed from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Life {
    /// Writes of the host a day: bytes, such as `40G`; a multiple of its data, such as `1`; or
    /// `trace`, as recorded.
    #[serde(alias = "", skip_serializing_if = "Option::is_none")]
    pub writes_per_day: Option<String>,
    /// Times that an erase block can be erased; left out, those of the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<Factor>,
    /// Bytes that the host can store, where no drive is simulated; left out, as many as are
    /// touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Size>,
    /// Share of that capacity that holds data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<Share>,
}

impl Written for Life {
    const NAME: &str = "life";
}
