//! The keys of a device profile.
//!
//! Units are the last word of a key. Every key has to be there, but for those with a default, which
//! are features that a drive may lack.

use serde::{Deserialize, Serialize};

use super::{CleaningConfig, ParityReads, ReplicationConfig};

/// A drive: everything that the simulator needs to know of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name on the command line: lower case, words joined by `-`.
    pub name: String,
    /// One line: what it is.
    pub summary: String,
    /// Where the figures are from: data sheets, papers with table or equation.
    pub sources: Vec<String>,
    /// Keys, such as `controller.read_command_us`, whose values are ours: fitted so that the
    /// drive's published behaviour comes out, or assumed. All others are published.
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
    /// When and how space is reclaimed.
    #[serde(default)]
    pub cleaning: CleaningConfig,
    /// How wear is evened out.
    #[serde(default)]
    pub wear_levelling: WearLevellingConfig,
    /// Placement by the host.
    #[serde(default)]
    pub fdp: FdpConfig,
    /// Erase blocks with one bit a cell that the host writes to first.
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
    /// Of how many slices of the drive this is one: 1 for the whole drive. A slice has all dies,
    /// planes and erase blocks, and so the speed of the whole and its number of superblocks; its
    /// erase blocks have fewer pages each, and take so much less time to erase. Capacities and
    /// zones of measurements are divided by it.
    #[serde(default = "one")]
    pub slices: u32,
    /// Bytes of a page, 512 ... 65536: the unit of the mapping, of reads and of programs.
    pub page_bytes: u32,
    /// Pages that one read of a plane senses together: 4 where a chip's page of 16 KiB holds four
    /// that are mapped one by one. Each is sent by itself. A divisor of `pages_per_program`.
    #[serde(default = "one")]
    pub pages_per_read: u32,
    /// Pages that one program of a plane writes together, all or none: those of a chip's page, or of
    /// a word line that is programmed in one go (three chip pages of TLC). A divisor of
    /// `pages_per_erase_block`.
    #[serde(default = "one")]
    pub pages_per_program: u32,
    /// Time of a read in microseconds, by page type; read `i` of an erase block is of type
    /// `i mod length`: 1 entry for SLC, 2 for MLC, 3 for TLC, 4 for QLC. Real chips pair pages
    /// further apart; the mean is the same.
    pub read_us: Vec<f64>,
    /// The same where one page alone of those that a read senses is wanted, if the chip is quicker
    /// then; empty: as `read_us`.
    #[serde(default)]
    pub part_read_us: Vec<f64>,
    /// Time of a program in microseconds, by page type; program `i` of an erase block is of type
    /// `i mod length`.
    pub program_us: Vec<f64>,
    /// Time of an erase of the drive's erase block in microseconds; of a slice's the `slices`-th
    /// part.
    pub erase_us: f64,
    /// Time that a command and its address take on the channel, in microseconds.
    #[serde(default)]
    pub command_us: f64,
    /// Speed of a channel in millions of transfers a second.
    pub channel_mt_per_second: f64,
    /// Width of a channel in bits.
    #[serde(default = "eight")]
    pub channel_bits: u32,
    /// Whether one command may work on several planes of a die at once. Programs have to be at the
    /// same place in their erase blocks.
    #[serde(default)]
    pub multi_plane: bool,
    /// Whether a die may read or program its next page while the last one, or the one after, is on
    /// the channel.
    #[serde(default)]
    pub cache_mode: bool,
    /// Whether relocation within a plane goes without the channel.
    #[serde(default)]
    pub copy_back: bool,
    /// Whether reads for the host interrupt programs and erases.
    #[serde(default)]
    pub suspend: bool,
    /// Whether programs and erases are interrupted at points of theirs: they go on working for
    /// `suspend_us` until the next, are resumed in no time, and a read that comes while the data of
    /// a program arrives interrupts it after that. Otherwise `suspend_us` is lost twice, and such a
    /// read waits for the end of the program.
    #[serde(default)]
    pub suspend_at_points: bool,
    /// Time to interrupt a program or erase, and again to resume it, in microseconds.
    #[serde(default)]
    pub suspend_us: f64,
    /// How often one program or erase can be interrupted, 1 ... 255: reads without end shall not
    /// stop it for good.
    #[serde(default = "sixteen")]
    pub most_suspensions: u32,
    /// Order of the commands that wait for a die: `fifo`, or `reads_first` (reads for the host
    /// overtake everything else).
    #[serde(default)]
    pub order: CommandOrder,
    /// Erases that an erase block stands; 0 for no limit.
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
    /// Erases of every erase block before the run, as far as read retries go by them.
    #[serde(default)]
    pub worn_cycles: u32,
    /// Standard deviation of the time of each read, program, erase and transfer, as a fraction of
    /// it, 0 ... 0.5. Real dies differ by page, temperature and read retries; 0 is what data sheets
    /// say.
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
    /// As they came.
    #[default]
    Fifo,
    /// Reads for the host before everything else.
    ReadsFirst,
}

/// Energy of operations, in nanojoules a page or an erase, and power at rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnergyConfig {
    /// Of a page read, in nanojoules.
    pub read_nj: f64,
    /// Of a page program, in nanojoules.
    pub program_nj: f64,
    /// Of an erase, in nanojoules.
    pub erase_nj: f64,
    /// Of a byte on a channel, in picojoules.
    pub transfer_pj_per_byte: f64,
    /// Of everything else, all the time, in milliwatts.
    pub idle_mw: f64,
}

/// The connection to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceConfig {
    /// `sata` (one queue, data both ways over one link), `nvme` (several queues, a link each way)
    /// or `usb` (as `sata`, without queueing).
    pub kind: InterfaceKind,
    /// Rate of the link in 10^6 bytes a second, after encoding.
    pub link_mb_per_second: f64,
    /// Requests in one queue: 32 for SATA with NCQ, 1 without.
    pub queue_depth: u32,
    /// Time that the frames of a read request take on the link besides its data, in microseconds.
    #[serde(default)]
    pub read_frames_us: f64,
    /// The same of a write request.
    #[serde(default)]
    pub write_frames_us: f64,
    /// Queues: 1 for SATA; the drive takes from them in turn.
    #[serde(default = "one")]
    pub queues: u32,
    /// Time from a request's completion in the drive to its arrival at the application and back, in
    /// microseconds: it delays the request, not others.
    #[serde(default)]
    pub host_us: f64,
    /// Of how the drive was measured, for `flashwright device predict`: time from one request of a
    /// `zns` row to the next, in microseconds, in which the host makes its data. Simulations leave
    /// it out.
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
    /// Whether a write waits until no read from flash is under way, as where both need the mapping
    /// table for themselves (PARALLELISM 5.2).
    pub writes_wait_for_reads: bool,
    /// With that, time that a write then has the table for itself, in microseconds.
    pub write_hold_us: f64,
    /// How much longer if it had to wait for a read, in microseconds: what the channels had begun
    /// in the other direction is given up (PARALLELISM 5.2, cause 3).
    pub drain_us: f64,
    /// Time that is lost when a read follows a write or the other way round, in microseconds.
    pub turnaround_us: f64,
    /// Least time from one write request to the next in microseconds, as where firmware keeps to a
    /// rate that it promises: it delays only those that come faster. 0 for none.
    pub write_gap_us: f64,
    /// How much later the next write may begin for each page that was relocated since the last, in
    /// microseconds: where one processor maps the pages of both. 0 for none.
    pub relocation_gap_us: f64,
    /// The same for each read of the host's, in microseconds. 0 for none.
    pub read_gap_us: f64,
    /// How far the three gaps together may be behind before a write waits for them, in microseconds:
    /// what is relocated in a burst is mapped while the host goes on.
    pub write_slack_us: f64,
    /// How long a write waits for the three gaps at most, in microseconds for each page of the
    /// write before it: what a drive still takes while it works off a burst of cleaning. 0: until
    /// they are over.
    pub trickle_gap_us: f64,
    /// How far the trickle may be behind before a write waits for it, in microseconds: writes that
    /// come close together are taken together, if few came before.
    pub trickle_slack_us: f64,
}

/// Write-back buffer in DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WriteBufferConfig {
    /// Size in bytes; 0 for none: then a write is done when it is programmed.
    pub bytes: u64,
    /// When pages are written to flash.
    pub flush: FlushRule,
    /// Pages written at a time under `when_full`; the least number of waiting pages that start
    /// writing under `eager`.
    pub flush_pages: u32,
    /// Most pages on their way to flash at once; 0 for as many as there are planes.
    pub in_flight_pages: u32,
    /// In which order.
    pub order: FlushOrder,
    /// Whether capacitors keep its contents when the power fails: then what is in the buffer is
    /// durable, FLUSH and FUA wait for nothing, and programs need not be padded for them.
    pub power_loss_protected: bool,
    /// Whether a page that is written while it waits is overwritten in place. Of a slice of a drive
    /// it is wrong to say yes: hot pages are so much hotter there, and would be merged that the
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

/// When buffered pages are written to flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushRule {
    /// As soon as there are some.
    #[default]
    Eager,
    /// Only when the buffer is full; requests that find no room wait until all of a batch is
    /// written: the two belts of SCHEDULER figure 4.19.
    WhenFull,
    /// In batches, from when the buffer is half full on; the other half takes writes meanwhile. The
    /// room of a batch is given back when all of it is written, so that belts appear where batches
    /// are slow, and sequential writes do not wait.
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

/// Read cache in DRAM: least recently used pages go first.
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
    /// How sequential streams are told.
    pub detector: Detector,
    /// Requests in sequence before it starts.
    pub trigger_requests: u32,
    /// Most bytes fetched beyond the last request.
    pub window_bytes: u64,
    /// Streams that the `table` detector follows.
    pub streams: u32,
}

/// How sequential streams are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detector {
    /// No read-ahead.
    #[default]
    None,
    /// A read that begins where the last one ended: any other read in between spoils it
    /// (PARALLELISM 5.3).
    LastRequest,
    /// A table of streams, each with the place where it would go on: mixed streams do not spoil it.
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
    /// Victim policy of the page-mapped schemes; the one of the placement's authors if it is empty.
    #[serde(default)]
    pub victim: String,
    /// (physical - logical) / logical, without what is parity or a static SLC cache.
    pub over_provisioning: f64,
    /// Dies of each stripe of a superblock that hold parity: 0 or 1 (RAIN). Only of
    /// `superblock_mapped`.
    #[serde(default)]
    pub parity_dies: u32,
    /// Dies of each group of a stripe that has parity of its own: 0 for all of the stripe.
    #[serde(default)]
    pub stripe_dies: u32,
    /// Which reads are answered from the rest of their stripe.
    #[serde(default)]
    pub parity_reads: ParityReads,
    /// What a TRIM costs the controller, and when.
    #[serde(default)]
    pub trim: TrimRule,
    /// Time that the controller takes for a TRIM besides a command, in microseconds.
    #[serde(default)]
    pub trim_us: f64,
    /// Time that it takes for each page of a TRIM, in microseconds.
    #[serde(default)]
    pub trim_page_us: f64,
}

fn none() -> String {
    "none".to_owned()
}

/// What a TRIM costs the controller, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrimRule {
    /// No more than a command.
    #[default]
    Free,
    /// Its time and that of its pages, before it is acknowledged.
    AtOnce,
    /// Its time before it is acknowledged; that of its pages whenever the controller has nothing
    /// else to do.
    Lazy,
}

/// How wear is evened out (REPLICATION 5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WearLevellingConfig {
    /// Of the free erase blocks of a plane, take the one least erased (dynamic wear levelling).
    pub dynamic: bool,
    /// Move the data of a little worn erase block onto a worn one (static wear levelling): by
    /// `none`, `life`, `spread`, either of both, or `age`.
    pub static_rule: StaticRule,
    /// `life`: an erase block whose remaining life is below this fraction of all erase blocks' mean
    /// is given cold data.
    pub life_below: f64,
    /// `spread`: the coldest erase block is moved when the standard deviation of the remaining life
    /// is above this fraction of its mean.
    pub spread_above: f64,
    /// `age`: data is moved that has lain while all erase blocks were erased so often on average.
    pub age_cycles: f64,
    /// With `age`, victims from one that is moved for it to the next at least: 1 for no limit.
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

/// When static wear levelling moves an erase block.
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
/// since 2.1), of `superblock_mapped`. A reclaim unit is a superblock, and the drive one reclaim
/// group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FdpConfig {
    /// Reclaim unit handles, 0 ... 128; 0 for none: then handles of requests have no effect.
    /// Placement handle n stands for reclaim unit handle n.
    pub handles: u32,
    /// What may lie together after the controller has moved it.
    pub isolation: Isolation,
}

/// Type of the reclaim unit handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Initially isolated: what cleaning moves of any handle may share a reclaim unit.
    #[default]
    Initially,
    /// Persistently isolated: what cleaning moves stays with its handle.
    Persistently,
}

/// Erase blocks with one bit a cell that the host writes to first. Only of `superblock_mapped`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlcCacheConfig {
    /// None; of superblocks of its own; or of whatever is free.
    pub kind: SlcCacheKind,
    /// What it holds: of a `static` one; of a `dynamic` one at most, 0 for no limit. Rounded down to
    /// superblocks.
    pub bytes: u64,
    /// `dynamic`: fraction of the superblocks that it leaves free.
    pub keep_free: f64,
    /// Bits that a cell has otherwise: 2 for MLC, 3 for TLC, 4 for QLC.
    pub bits_per_cell: u32,
    /// Time of a read in microseconds.
    pub read_us: f64,
    /// Time of a program in microseconds.
    pub program_us: f64,
    /// Time of an erase of the drive's erase block in microseconds; of a slice's the `slices`-th
    /// part.
    pub erase_us: f64,
    /// How long the drive has to be idle before the cache is emptied, in microseconds.
    pub idle_us: f64,
    /// How much of an erase counts towards the endurance after such a use, 0 ... 1.
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

/// What an SLC cache is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlcCacheKind {
    /// There is none.
    #[default]
    None,
    /// Superblocks that are never anything else.
    Static,
    /// Free superblocks.
    Dynamic,
}
