//! The options of `transactions`: each is declared here, and nowhere else.

use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::facts::Facts;
use crate::values::{Count, CountOrShare, Micros, Millis, Seconds, Size};
use crate::written::Text;

/// Plays transactions of SOURCE on a device, each client one after the other without a pause, and
/// measures what the clients see.
///
/// SOURCE is a benchmark by its specification, `tpcc`, `tpcb` or `tatp`, whose database can have any
/// size (`flashwright list load`), or a trace of page accesses. Each access locks its row or page,
/// needs its page in the buffer pool, and a dirty victim is written before; a commit waits for the
/// log. DEVICE is a simulated drive, a block device, a file, or `memory(bytes=4Gi)`; a block device
/// or file needs --write. The database lies at the start of the region, the log behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Transactions {
    /// A benchmark by its specification, such as `tpcc(bytes=2G)`, or a trace of page accesses.
    #[schemars(extend("argument" = true, "metavar" = "SOURCE", "completes" = "load"))]
    pub source: String,

    /// A profile of `flashwright list profile`, a block device, a file, or `memory(bytes=1Gi)`.
    /// What belongs to it is written in it: `profile(nvme-tlc, state=aged, media.channels=4)`,
    /// `disk(/dev/sdb, region=8Gi, polled=yes)`, `file(/mnt/x, create=4Gi)`,
    /// `array(raid5, of=intel-x25e, drives=5)`.
    #[schemars(extend(
        "group" = "Device", "metavar" = "DEVICE", "completes" = "device", "needed" = true
    ))]
    #[garde(custom(named_and_whole))]
    pub on: Text<Device>,
    /// Put layers between the transactions and the device, from the top to the bottom with |
    /// between them, such as 'replicas(page=8Ki)'; `flashwright list layer` has them.
    #[schemars(extend("group" = "Device", "metavar" = "STACK", "completes" = "layer"))]
    pub stack: String,
    /// What layers know of the device: the run folder of a probe; measured on a second simulated
    /// drive of the same profile, once; or nothing. [default: none]
    #[schemars(extend("group" = "Device", "metavar" = "DIR|measure|none"))]
    pub facts: Option<Facts>,
    /// Leave the device as it is: otherwise the database is written once, in order, before anything
    /// else.
    #[schemars(extend("group" = "Device"))]
    pub no_load: bool,

    /// Clients, each with one transaction at a time: 1 to 65536.
    #[schemars(extend("group" = "Database", "metavar" = "N"))]
    pub clients: Count,
    /// Pages of the buffer pool, or their share of the database's: 1024, 1%.
    #[schemars(extend("group" = "Database", "metavar" = "N|SHARE"))]
    pub pool: CountOrShare,
    /// How the pool chooses victims: `flashwright list buffer`.
    #[schemars(extend("group" = "Database", "metavar" = "NAME", "completes" = "buffer"))]
    pub buffer: String,
    /// What a transaction locks until it ends. [default: row, or page if the trace has no rows]
    #[schemars(extend("group" = "Database"))]
    pub locks: Option<Locks>,
    /// What becomes of a conflict: `flashwright list lock_rule`.
    #[schemars(extend("group" = "Database", "metavar" = "NAME", "completes" = "lock_rule"))]
    pub lock_rule: String,
    /// Microseconds of the processor for each page access.
    #[schemars(extend("group" = "Database", "metavar" = "US"))]
    pub cpu: Micros,
    /// Let a background writer write up to N dirty pages each --writer-interval; 0 for none.
    #[schemars(extend("group" = "Database", "metavar" = "N"))]
    pub writer_pages: Count,
    /// Milliseconds between the rounds of the background writer.
    #[schemars(extend("group" = "Database", "metavar" = "MS"))]
    pub writer_interval: Millis,

    /// Commit without a log.
    #[schemars(extend("group" = "Log"))]
    pub no_log: bool,
    /// Bytes of the log's region behind the database. A checkpoint comes when half of it is used.
    #[schemars(extend("group" = "Log", "metavar" = "BYTES"))]
    pub log: Size,
    /// Write each commit by itself, instead of all that wait together.
    #[schemars(extend("group" = "Log"))]
    pub log_each: bool,
    /// Do not flush after a write of the log.
    #[schemars(extend("group" = "Log"))]
    pub log_unflushed: bool,

    /// Play N transactions before.
    #[schemars(extend("group" = "Beginning and end", "metavar" = "N"))]
    pub warm_up: Option<Count>,
    /// Play for so long before.
    #[schemars(extend("group" = "Beginning and end", "metavar" = "S"))]
    pub warm_up_seconds: Option<Seconds>,
    /// Measure N transactions. [default: 100k, if no time is given]
    #[schemars(extend("group" = "Beginning and end", "metavar" = "N"))]
    pub transactions: Option<Count>,
    /// Measure for so long, by the device's clock: 90, 30min, 3h.
    #[schemars(extend("group" = "Beginning and end", "metavar" = "S"))]
    pub seconds: Option<Seconds>,
    /// Begin a trace again at its end.
    #[schemars(extend("group" = "Beginning and end"))]
    pub repeat: bool,

    /// Allow writes to a block device or file: what is in the region is lost. Simulated drives and
    /// memory are always written.
    #[schemars(extend("group" = "Real devices"))]
    pub write: bool,
    /// Confirm overwriting a device that holds a file system, partitions or other data, by
    /// repeating its path.
    #[schemars(extend("group" = "Real devices", "metavar" = "PATH"))]
    pub destroy_data: Vec<String>,

    /// Count requests that take longer as blocked.
    #[schemars(extend("group" = "Results", "metavar" = "US"))]
    pub blocked: Micros,
    /// Seed of all that is random.
    #[schemars(extend("group" = "Results", "metavar" = "N"))]
    pub seed: u64,

    /// Bytes of the parts of the database of which `cflru_e` compares how often they were blocked.
    #[schemars(extend("hidden" = true))]
    pub part_size: Size,
}

/// Refuses a device that is not named, or whose size would depend on the trace of a disk.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as garde asks")]
fn named_and_whole(on: &Text<Device>, (): &()) -> garde::Result {
    if matches!(&**on, Device::Spec(spec) if spec.is_empty()) {
        let said = "no device is named; `flashwright list profile` has simulated ones";
        return Err(garde::Error::new(said));
    }
    if on.has_size() {
        return Err(garde::Error::new(
            "capacity, fill and slices are for a trace of a disk; leave them out: keys such as \
             media.erase_blocks_per_plane make a drive of another size",
        ));
    }
    Ok(())
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            source: String::new(),
            on: Text(Device::Spec(String::new())),
            stack: crate::stacks::DIRECT.to_owned(),
            facts: None,
            no_load: false,
            clients: Count(10),
            pool: CountOrShare::Count(1024),
            buffer: "lru".to_owned(),
            locks: None,
            lock_rule: "detect".to_owned(),
            cpu: Micros(0.0),
            writer_pages: Count(0),
            writer_interval: Millis(200.0),
            no_log: false,
            log: Size(64 << 20),
            log_each: false,
            log_unflushed: false,
            warm_up: None,
            warm_up_seconds: None,
            transactions: None,
            seconds: None,
            repeat: false,
            write: false,
            destroy_data: Vec::new(),
            blocked: Micros(800.0),
            seed: 1,
            part_size: Size(128 << 10),
        }
    }
}

/// Unit that a lock protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Locks {
    /// A row.
    Row,
    /// A page.
    Page,
    /// Nothing is locked.
    None,
}
