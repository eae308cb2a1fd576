//! The keys of a device profile.
//!
//! Units are the last word of a key. Every key is required, except those with a default, which are
//! features that a drive may lack.

use serde::{Deserialize, Serialize};

use super::{CleaningConfig, ParityReads, ReplicationConfig};

/// A drive: everything that the simulator needs to know about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name on the command line: lower case, words joined by `-`.
    pub name: String,
    /// Summary in one line.
    pub summary: String,
    /// Sources of the figures: data sheets, papers with table or equation.
    pub sources: Vec<String>,
    /// Keys, such as `controller.read_command_us`, whose values are ours: fitted to the drive's
    /// published behaviour, or assumed. All others are published.
    pub fitted: Vec<String>,
    /// The flash chips and how they are connected.
    pub media: MediaConfig,
    /// Energy of an operation.
    #[serde(default)]
    pub energy: EnergyConfig,
    /// The connection to the host.
    pub interface: InterfaceConfig,
    /// The processor that handles commands.
    #[serde(default)]
    pub controller: ControllerConfig,
    /// Write-back buffer.
    #[serde(default)]
    pub write_buffer: WriteBufferConfig,
    /// Read cache.
    #[serde(default)]
    pub read_cache: ReadCacheConfig,
    /// Read-ahead.
    #[serde(default)]
    pub read_ahead: ReadAheadConfig,
    /// The flash translation layer.
    pub ftl: FtlConfig,
    /// Start and pace of cleaning.
    #[serde(default)]
    pub cleaning: CleaningConfig,
    /// Wear levelling.
    #[serde(default)]
    pub wear_levelling: WearLevellingConfig,
    /// Placement by the host.
    #[serde(default)]
    pub fdp: FdpConfig,
    /// Erase blocks with one bit per cell that the host writes to first.
    #[serde(default)]
    pub slc_cache: SlcCacheConfig,
    /// Copies of pages on other dies.
    #[serde(default)]
    pub replication: ReplicationConfig,
}

/// The flash chips and how they are connected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaConfig {
    /// Channels, 1 ... 64.
    pub channels: u32,
    /// Packages on a channel, 1 ... 16.
    pub packages_per_channel: u32,
    /// Dies of a package, 1 ... 16.
    pub dies_per_package: u32,
    /// Planes of a die, 1 ... 8.
    pub planes_per_die: u32,
    /// Erase blocks of a plane, 4 ... 65536.
    pub erase_blocks_per_plane: u32,
    /// Pages of an erase block, 2 ... 32768.
    pub pages_per_erase_block: u32,
    /// Number of slices of the drive, of which this is one: 1 for the whole drive. A slice has all
    /// dies, planes and erase blocks, and so the speed of the whole and its number of superblocks;
    /// its erase blocks have fewer pages each, and take correspondingly less time to erase.
    /// Capacities and zones of measurements are divided by it.
    #[serde(default = "one")]
    pub slices: u32,
    /// Bytes of a page, 512 ... 65536: the unit of the mapping, of reads and of programs.
    pub page_bytes: u32,
    /// Pages that one read of a plane senses together: 4 where a chip's page of 16 KiB holds four
    /// that are mapped one by one. Each is sent by itself. A divisor of `pages_per_program`.
    #[serde(default = "one")]
    pub pages_per_read: u32,
    /// Pages that one program of a plane writes together, all or none: those of a chip's page, or
    /// of a word line that is programmed at once (three chip pages of TLC). A divisor of
    /// `pages_per_erase_block`.
    #[serde(default = "one")]
    pub pages_per_program: u32,
    /// Time of a read in microseconds, by page type; read `i` of an erase block is of type
    /// `i mod length`: 1 entry for SLC, 2 for MLC, 3 for TLC, 4 for QLC. Real chips pair pages
    /// further apart; the mean is the same.
    pub read_us: Vec<f64>,
    /// The same for a single page of those that a read senses, if the chip is faster then; empty:
    /// as `read_us`.
    #[serde(default)]
    pub part_read_us: Vec<f64>,
    /// Time of a program in microseconds, by page type; program `i` of an erase block is of type
    /// `i mod length`.
    pub program_us: Vec<f64>,
    /// Time of an erase of the drive's erase block in microseconds; for a slice it is divided by
    /// `slices`.
    pub erase_us: f64,
    /// Time that a command and its address take on the channel, in microseconds.
    #[serde(default)]
    pub command_us: f64,
    /// Speed of a channel in millions of transfers per second.
    pub channel_mt_per_second: f64,
    /// Width of a channel in bits.
    #[serde(default = "eight")]
    pub channel_bits: u32,
    /// True if one command may work on several planes of a die at once. Programs must be at the
    /// same place in their erase blocks.
    #[serde(default)]
    pub multi_plane: bool,
    /// True if a die may read or program its next page while the data of another one is on the
    /// channel.
    #[serde(default)]
    pub cache_mode: bool,
    /// True if relocation within a plane does not use the channel.
    #[serde(default)]
    pub copy_back: bool,
    /// True if reads for the host interrupt programs and erases.
    #[serde(default)]
    pub suspend: bool,
    /// True if programs and erases can be interrupted only at certain points: they continue for
    /// `suspend_us` until the next point and are resumed in no time, and a read that comes while
    /// the data of a program arrives interrupts it after that. Otherwise `suspend_us` is lost
    /// twice, and such a read waits for the end of the program.
    #[serde(default)]
    pub suspend_at_points: bool,
    /// Time to interrupt a program or erase, and again to resume it, in microseconds.
    #[serde(default)]
    pub suspend_us: f64,
    /// Most interruptions of one program or erase, 1 ... 255: endless reads must not stop it for
    /// good.
    #[serde(default = "sixteen")]
    pub most_suspensions: u32,
    /// Order of the commands that wait for a die: `fifo`, or `reads_first` (reads for the host
    /// overtake everything else).
    #[serde(default)]
    pub order: CommandOrder,
    /// Erases that an erase block endures; 0 for no limit.
    #[serde(default)]
    pub endurance_cycles: u32,
    /// Standard deviation of the endurance over erase blocks, as a fraction of it.
    #[serde(default)]
    pub endurance_spread: f64,
    /// Share of the erase blocks that are bad from the factory, 0 ... 0.2.
    #[serde(default)]
    pub factory_bad_share: f64,
    /// Mean number of times that a read is tried again, at the erases of its erase block that
    /// `read_retry_cycles` names; linear in between. Empty: reads never fail.
    #[serde(default)]
    pub read_retry_mean: Vec<f64>,
    /// Erases of an erase block, ascending, one for each entry of `read_retry_mean`.
    #[serde(default)]
    pub read_retry_cycles: Vec<f64>,
    /// Erases of every erase block before the run, as far as they count for read retries.
    #[serde(default)]
    pub worn_cycles: u32,
    /// Standard deviation of the time of each read, program, erase and transfer, as a fraction of
    /// it, 0 ... 0.5. Real dies vary by page, temperature and read retries; data sheets correspond
    /// to 0.
    #[serde(default)]
    pub time_noise: f64,
}

const fn eight() -> u32 {
    8
}

const fn sixteen() -> u32 {
    16
}

/// Order of the commands that wait for a die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandOrder {
    /// In order of arrival.
    #[default]
    Fifo,
    /// Reads for the host before everything else.
    ReadsFirst,
}

/// Energy of operations, in nanojoules per page or erase, and power at rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnergyConfig {
    /// Energy of a page read, in nanojoules.
    pub read_nj: f64,
    /// Energy of a page program, in nanojoules.
    pub program_nj: f64,
    /// Energy of an erase, in nanojoules.
    pub erase_nj: f64,
    /// Energy of a byte on a channel, in picojoules.
    pub transfer_pj_per_byte: f64,
    /// Power of everything else, all the time, in milliwatts.
    pub idle_mw: f64,
}

/// The connection to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceConfig {
    /// `sata` (one queue, data both ways over one link), `nvme` (several queues, a link each way)
    /// or `usb` (as `sata`, without queueing).
    pub kind: InterfaceKind,
    /// Rate of the link in 10^6 bytes per second, after encoding.
    pub link_mb_per_second: f64,
    /// Most requests in one queue: 32 for SATA with NCQ, 1 without.
    pub queue_depth: u32,
    /// Time that the frames of a read request take on the link besides its data, in microseconds.
    #[serde(default)]
    pub read_frames_us: f64,
    /// The same for a write request.
    #[serde(default)]
    pub write_frames_us: f64,
    /// Number of queues: 1 for SATA. The drive takes from them in turn.
    #[serde(default = "one")]
    pub queues: u32,
    /// Time from a request's completion in the drive to its arrival at the application and back, in
    /// microseconds: it delays the request, not others.
    #[serde(default)]
    pub host_us: f64,
    /// Property of the drive's measurement, for `flashwright device --against`: time from one
    /// request of a `zns` row to the next, in microseconds, in which the host makes its data.
    /// Simulations leave it out.
    #[serde(default)]
    pub zone_gap_us: f64,
}

const fn one() -> u32 {
    1
}

/// Kind of the connection to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterfaceKind {
    /// One queue, one link for both directions.
    Sata,
    /// Several queues, a link each way.
    Nvme,
    /// One request at a time, one link for both directions.
    Usb,
}

/// The processor that handles commands: one server, first come first served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerConfig {
    /// Time for a read request, in microseconds.
    pub read_command_us: f64,
    /// Time for a write request, in microseconds.
    pub write_command_us: f64,
    /// Time for each page of a request, in microseconds.
    pub page_us: f64,
    /// True if a write waits until no read from flash is under way, because both need the mapping
    /// table for themselves (PARALLELISM 5.2).
    pub writes_wait_for_reads: bool,
    /// Time for which a write then has the table for itself, in microseconds.
    pub write_hold_us: f64,
    /// Additional time if it had to wait for a read, in microseconds: transfers that the channels
    /// had begun in the other direction are given up (PARALLELISM 5.2, cause 3).
    pub drain_us: f64,
    /// Time that is lost when a read follows a write or vice versa, in microseconds.
    pub turnaround_us: f64,
    /// Least time from one write request to the next in microseconds, where firmware limits itself
    /// to a promised rate: it delays only requests that come faster. 0 for none.
    pub write_gap_us: f64,
    /// Additional delay of the next write for each page that was relocated since the last one, in
    /// microseconds: one processor maps the pages of both. 0 for none.
    pub relocation_gap_us: f64,
    /// The same for each read of the host, in microseconds. 0 for none.
    pub read_gap_us: f64,
    /// Backlog of the three gaps together up to which a write does not wait for them, in
    /// microseconds: pages that are relocated in a burst are mapped while the host continues.
    pub write_slack_us: f64,
    /// Longest wait of a write for the three gaps, in microseconds for each page of the write
    /// before it: the rate at which a drive still takes writes while it works off a burst of
    /// cleaning. 0: until the gaps are over.
    pub trickle_gap_us: f64,
    /// Backlog of the trickle up to which a write does not wait for it, in microseconds: writes
    /// that come close together are taken together, if few came before.
    pub trickle_slack_us: f64,
}

/// Write-back buffer in DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WriteBufferConfig {
    /// Size in bytes; 0 for none: then a write is done when it is programmed.
    pub bytes: u64,
    /// Rule for the time at which pages are written to flash.
    pub flush: FlushRule,
    /// Pages written at a time under `when_full`; the least number of waiting pages that start
    /// writing under `eager`.
    pub flush_pages: u32,
    /// Most pages on their way to flash at once; 0 for as many as there are planes.
    pub in_flight_pages: u32,
    /// Order of the pages.
    pub order: FlushOrder,
    /// True if capacitors protect its contents against power failure: then data in the buffer is
    /// durable, FLUSH and FUA wait for nothing, and programs need not be padded for them.
    pub power_loss_protected: bool,
    /// True if a page that is written again while it waits is overwritten in place. Set it to false
    /// for a slice of a drive: hot pages are much hotter there, and pages would be merged that the
    /// whole drive programs one by one.
    pub merges: bool,
}

impl Default for WriteBufferConfig {
    fn default() -> Self {
        Self {
            bytes: 0,
            flush: FlushRule::default(),
            flush_pages: 0,
            in_flight_pages: 0,
            order: FlushOrder::default(),
            power_loss_protected: false,
            merges: true,
        }
    }
}

/// Rule for the time at which buffered pages are written to flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushRule {
    /// As soon as there are some.
    #[default]
    Eager,
    /// Only when the buffer is full; requests that find no room wait until all of a batch is
    /// written: the two bands of SCHEDULER figure 4.19.
    WhenFull,
    /// In batches, when the buffer is half full or more; the other half takes writes meanwhile. The
    /// room of a batch is freed when all of it is written, so bands appear where batches are slow,
    /// and sequential writes do not wait.
    Batches,
}

/// The order in which buffered pages are written to flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushOrder {
    /// Oldest first.
    #[default]
    Fifo,
    /// All pages of the (logical) erase block that was written to least recently, in ascending
    /// order (BPLRU).
    ByEraseBlock,
}

/// Read cache in DRAM: least recently used pages are evicted first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadCacheConfig {
    /// Size in bytes; 0 for none. Read-ahead puts its pages here.
    pub bytes: u64,
}

/// Read-ahead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadAheadConfig {
    /// Detection of sequential streams.
    pub detector: Detector,
    /// Requests in sequence before it starts.
    pub trigger_requests: u32,
    /// Most bytes fetched beyond the last request.
    pub window_bytes: u64,
    /// Number of streams that the `table` detector follows.
    pub streams: u32,
}

/// Detection of sequential streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detector {
    /// No read-ahead.
    #[default]
    None,
    /// A read that begins where the last one ended is in sequence: any other read in between spoils
    /// it (PARALLELISM 5.3).
    LastRequest,
    /// A table of streams, each with its next byte: interleaved streams do not spoil it.
    Table,
}

/// The flash translation layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlConfig {
    /// Scheme with its parameters, such as `page_mapped(allocation=dynamic)` or
    /// `bast(log_blocks=8)`.
    pub scheme: String,
    /// Placement policy of the page-mapped schemes.
    #[serde(default = "none")]
    pub placement: String,
    /// Victim policy of the page-mapped schemes; if empty, the one of the placement's authors.
    #[serde(default)]
    pub victim: String,
    /// (physical - logical) / logical, without parity and without a static SLC cache.
    pub over_provisioning: f64,
    /// Dies of each stripe of a superblock that hold parity: 0 or 1 (RAIN). Only for
    /// `superblock_mapped`.
    #[serde(default)]
    pub parity_dies: u32,
    /// Dies of each group of a stripe that has parity of its own: 0 for all of the stripe.
    #[serde(default)]
    pub stripe_dies: u32,
    /// Choice of the reads that are answered from the rest of their stripe.
    #[serde(default)]
    pub parity_reads: ParityReads,
    /// Cost of a TRIM for the controller, and its time.
    #[serde(default)]
    pub trim: TrimRule,
    /// Time of a TRIM in the controller besides that of a command, in microseconds.
    #[serde(default)]
    pub trim_us: f64,
    /// Time of each page of a TRIM in the controller, in microseconds.
    #[serde(default)]
    pub trim_page_us: f64,
}

fn none() -> String {
    "none".to_owned()
}

/// Cost of a TRIM for the controller, and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrimRule {
    /// No more than a command.
    #[default]
    Free,
    /// The TRIM's time and that of its pages, before it is acknowledged.
    AtOnce,
    /// The TRIM's time before it is acknowledged; that of its pages whenever the controller has
    /// nothing else to do.
    Lazy,
}

/// Wear levelling (REPLICATION 5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WearLevellingConfig {
    /// True to take the least erased of the free erase blocks of a plane (dynamic wear levelling).
    pub dynamic: bool,
    /// Rule for moving the data of a little worn erase block onto a worn one (static wear
    /// levelling): `none`, `life`, `spread`, either of both, or `age`.
    pub static_rule: StaticRule,
    /// `life`: an erase block whose remaining life is below this fraction of the mean of all erase
    /// blocks gets cold data.
    pub life_below: f64,
    /// `spread`: the coldest erase block is moved when the standard deviation of the remaining life
    /// is above this fraction of its mean.
    pub spread_above: f64,
    /// `age`: data is moved that has lain while all erase blocks were erased this often on average.
    pub age_cycles: f64,
    /// With `age`, least number of victims from one that is moved for its age to the next such one:
    /// 1 for no limit.
    pub age_every: u32,
}

impl Default for WearLevellingConfig {
    fn default() -> Self {
        Self {
            dynamic: true,
            static_rule: StaticRule::None,
            life_below: 0.85,
            spread_above: 0.2,
            age_cycles: 20.0,
            age_every: 10,
        }
    }
}

/// Rule by which static wear levelling moves an erase block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StaticRule {
    /// Never.
    #[default]
    None,
    /// The erase block that is being reclaimed has little life left.
    Life,
    /// Remaining life differs much between erase blocks.
    Spread,
    /// Either (REPLICATION 5.1).
    LifeOrSpread,
    /// Data has lain in one place for long, in cycles of the whole drive: of page-mapped schemes
    /// and `superblock_mapped`.
    Age,
}

/// Placement by the host: Flexible Data Placement (NVM Express TP4146, in the base specification
/// since 2.1), only for `superblock_mapped`. A reclaim unit is a superblock, and the drive is one
/// reclaim group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FdpConfig {
    /// Number of reclaim unit handles, 0 ... 128; 0 for none: then handles of requests have no
    /// effect. Placement handle n stands for reclaim unit handle n.
    pub handles: u32,
    /// Isolation of the handles' data after the controller has moved it.
    pub isolation: Isolation,
}

/// Type of the reclaim unit handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Initially isolated: data of all handles that cleaning moves may share a reclaim unit.
    #[default]
    Initially,
    /// Persistently isolated: data that cleaning moves stays with its handle.
    Persistently,
}

/// Erase blocks with one bit per cell that the host writes to first. Only for `superblock_mapped`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlcCacheConfig {
    /// No cache; superblocks of its own; or free superblocks.
    pub kind: SlcCacheKind,
    /// Capacity of a `static` cache; greatest capacity of a `dynamic` one, 0 for no limit. Rounded
    /// down to superblocks.
    pub bytes: u64,
    /// `dynamic`: fraction of the superblocks that it leaves free.
    pub keep_free: f64,
    /// Bits per cell otherwise: 2 for MLC, 3 for TLC, 4 for QLC.
    pub bits_per_cell: u32,
    /// Time of a read in microseconds.
    pub read_us: f64,
    /// Time of a program in microseconds.
    pub program_us: f64,
    /// Time of an erase of the drive's erase block in microseconds; for a slice it is divided by
    /// `slices`.
    pub erase_us: f64,
    /// Time for which the drive has to be idle before the cache is emptied, in microseconds.
    pub idle_us: f64,
    /// Part of an erase that counts towards the endurance after such a use, 0 ... 1.
    pub wear: f64,
}

impl Default for SlcCacheConfig {
    fn default() -> Self {
        Self {
            kind: SlcCacheKind::None,
            bytes: 0,
            keep_free: 0.0,
            bits_per_cell: 3,
            read_us: 0.0,
            program_us: 0.0,
            erase_us: 0.0,
            idle_us: 100_000.0,
            wear: 1.0,
        }
    }
}

/// Kind of an SLC cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlcCacheKind {
    /// There is none.
    #[default]
    None,
    /// Superblocks that always belong to the cache.
    Static,
    /// Free superblocks.
    Dynamic,
}
