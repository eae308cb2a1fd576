//! Subject of a test: a stack by its text, on a device of a size.

use block::{BlockDevice, Limits, Store};
use layers::{
    EquationPiece, Facts, HolesFlaw, LayerError, PatternTimes, Placed, Stack, Thresholds,
};
use units::Lifetime;

use crate::workload::Shape;
use crate::{Bug, Dice, planted};

/// Kind of the layers.
#[derive(Clone, Debug, PartialEq)]
pub enum SubjectKind {
    /// Layers of the registry.
    Registered(String),
    /// The small layer of this crate, with a bug or without.
    Planted(Bug),
    /// The layer `holes` alone, with an order left out.
    Holes(HolesFlaw),
}

/// The stack of which an order is left out.
const HOLES: &str = "holes(page=1Ki,delay=50us)";

/// Bytes of the longest command, where nothing else is said.
const MOST_BYTES: u32 = 64 * 1024;

/// A stack on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The stack.
    pub kind: SubjectKind,
    /// Bytes of the device.
    pub device_bytes: u64,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Bytes of the longest command.
    pub most_bytes: u32,
    /// Bytes at the end of each sector that the host leaves zero.
    pub tail_bytes: u32,
    /// Last bytes of the device that are those of a second device, with the area of a layer; 0 if
    /// there is none.
    pub staging_bytes: u64,
    /// True, for the first device and the second, for a bug on purpose: flushes make nothing
    /// durable.
    pub lying_flushes: [bool; 2],
}

impl Subject {
    /// Makes a stack of the registry.
    #[must_use]
    pub fn registered(stack: &str, device_bytes: u64, sector_bytes: u32) -> Self {
        // The layout that keeps headers in pages wants their last bytes zero.
        let tail_bytes = if stack.contains("layout=embedded") { 96 } else { 0 };
        Self {
            kind: SubjectKind::Registered(stack.to_owned()),
            device_bytes,
            sector_bytes,
            most_bytes: MOST_BYTES,
            tail_bytes,
            staging_bytes: 0,
            lying_flushes: [false; 2],
        }
    }

    /// Makes the small layer of this crate.
    #[must_use]
    pub const fn planted(bug: Bug) -> Self {
        Self {
            kind: SubjectKind::Planted(bug),
            device_bytes: 192 * 512,
            sector_bytes: 512,
            most_bytes: MOST_BYTES,
            tail_bytes: 0,
            staging_bytes: 0,
            lying_flushes: [false; 2],
        }
    }

    /// Makes the layer `holes` with an order left out.
    #[must_use]
    pub fn holes(flaw: HolesFlaw) -> Self {
        Self { kind: SubjectKind::Holes(flaw), ..Self::registered(HOLES, 48 << 10, 512) }
    }

    /// Adds a second device of so many bytes behind the first, for a layer's area.
    #[must_use]
    pub const fn aside(mut self, staging_bytes: u64) -> Self {
        self.device_bytes += staging_bytes;
        self.staging_bytes = staging_bytes;
        self
    }

    /// Gives the facts of its device.
    fn facts(&self) -> Facts {
        let staging = self.device_bytes - self.staging_bytes;
        Facts { staging_offset: (self.staging_bytes > 0).then_some(staging), ..facts() }
    }

    /// Gives the limits of the device.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        Limits {
            capacity_bytes: self.device_bytes,
            sector_bytes: self.sector_bytes,
            most_bytes: self.most_bytes,
        }
    }

    /// Returns true if it promises more than the contract: what it replied to is durable, as a
    /// StableBuffer's writes are unless it is told otherwise.
    #[must_use]
    pub fn acknowledges_what_is_durable(&self) -> bool {
        let SubjectKind::Registered(stack) = &self.kind else { return false };
        let mut layers = stack.split('|').peekable();
        layers.next_if(|top| top.starts_with("holes") && top.contains("ack=durable"));
        let top = layers.next().unwrap_or_default();
        top.starts_with("stable_buffer") && !top.contains("ack=written")
    }

    /// Gives the lifetime hint of a write: any, if the stack uses hints, else none.
    #[must_use]
    pub fn lifetime_of(&self, id: u32, offset: u64) -> Lifetime {
        match &self.kind {
            SubjectKind::Registered(stack) if stack.contains("hints=yes") => {
                Lifetime::ALL[(u64::from(id) + offset / 4096) as usize % Lifetime::ALL.len()]
            }
            _ => Lifetime::NotSet,
        }
    }

    /// Gives the shape of its host's writes.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let SubjectKind::Registered(stack) = &self.kind else { return Shape::default() };
        Shape { tail_bytes: self.tail_bytes as usize, has_hints: stack.contains("hints=yes") }
    }

    /// Gives the structures of its device, with their places.
    ///
    /// # Errors
    /// [`LayerError`].
    pub fn structures(&self, seed: u64) -> Result<Vec<Placed>, LayerError> {
        match &self.kind {
            SubjectKind::Registered(stack) => {
                layers::structures(stack, &self.facts(), seed, self.limits())
            }
            SubjectKind::Planted(_) | SubjectKind::Holes(_) => Ok(Vec::new()),
        }
    }

    /// Gives a seed to open it with: not always the one with which it was formatted, where the
    /// volume itself tells whose it is.
    pub fn seed_of_opening(&self, seed: u64, dice: &mut Dice) -> u64 {
        if matches!(self.kind, SubjectKind::Planted(_)) || dice.chance(0.5) {
            seed
        } else {
            dice.seed()
        }
    }

    /// Formats the device with its empty form.
    ///
    /// # Errors
    /// [`LayerError`].
    pub fn format(&self, seed: u64, device: &mut dyn BlockDevice) -> Result<(), LayerError> {
        match &self.kind {
            SubjectKind::Registered(stack) => layers::format(stack, &self.facts(), seed, device),
            SubjectKind::Planted(bug) => planted::format(*bug, seed, &mut Store::new(device)),
            SubjectKind::Holes(_) => layers::format(HOLES, &self.facts(), seed, device),
        }
    }

    /// Opens and recovers it.
    ///
    /// # Errors
    /// [`LayerError`].
    pub fn open(&self, seed: u64, device: &mut dyn BlockDevice) -> Result<Stack, LayerError> {
        match &self.kind {
            SubjectKind::Registered(stack) => layers::open(stack, &self.facts(), seed, device),
            SubjectKind::Planted(bug) => planted::open(*bug, seed, &mut Store::new(device)),
            SubjectKind::Holes(flaw) => layers::open_flawed(HOLES, seed, device, *flaw),
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            SubjectKind::Registered(stack) if self.staging_bytes > 0 => {
                write!(to, "{stack} aside")
            }
            SubjectKind::Registered(stack) => write!(to, "{stack}"),
            SubjectKind::Planted(bug) => write!(to, "planted:{bug:?}"),
            SubjectKind::Holes(flaw) => write!(to, "holes:{flaw:?}"),
        }
    }
}

/// Gives facts of a device on which everything is known and small.
#[must_use]
pub fn facts() -> Facts {
    let piece = |intercept_ns: f64| {
        vec![EquationPiece { to_bytes: u64::MAX, intercept_ns, slope_ns: 10.0 }]
    };
    Facts {
        write_bytes: Some(8192),
        erase_block_bytes: Some(32 * 1024),
        focused_area_bytes: Some(32 * 1024),
        times: Some(PatternTimes {
            sequential_ns: 50_000.0,
            partitioned_ns: 60_000.0,
            focused_ns: 80_000.0,
        }),
        thresholds: Some(Thresholds {
            sequential_pages: 4.0,
            partitioned_pages: 4.0,
            focused_pages: 4.0,
        }),
        sequential_write: piece(100_000.0),
        random_write: piece(1_000_000.0),
        staging_offset: None,
    }
}

/// Gives the subjects of the campaign: small devices, on which everything wraps and fills.
#[must_use]
pub fn subjects() -> Vec<Subject> {
    let mut all: Vec<Subject> = STACKS
        .iter()
        .map(|(stack, kib, sector)| Subject::registered(stack, kib * 1024, *sector))
        .collect();
    let aside = ASIDE.iter().map(|(stack, kib, staging, sector)| {
        Subject::registered(stack, kib * 1024, *sector).aside(staging * 1024)
    });
    all.extend(aside);
    all.push(Subject::planted(Bug::None));
    // Every third device takes short commands only.
    all.iter_mut().skip(2).step_by(3).for_each(|subject| subject.most_bytes = 16 * 1024);
    all
}

/// Stacks, with KiB of the device and bytes of a sector.
const STACKS: &[(&str, u64, u32)] = &[
    ("direct", 128, 512),
    ("direct", 256, 4096),
    ("scheduler(defer,buffer=64Ki,depth=4)", 192, 512),
    ("scheduler(defer,coalesce,buffer=32Ki,depth=3)", 192, 512),
    ("scheduler(defer,coalesce,buffer=32Ki,order=arrival,depth=4)", 192, 512),
    ("scheduler(defer,coalesce,buffer=32Ki,order=arrival,join=no,depth=4)", 192, 512),
    ("scheduler(defer,coalesce,buffer=off,flush_time=20ms,window=checkpoint_begin)", 192, 512),
    ("scheduler(defer,coalesce,buffer=off,window=flush,depth=16)", 256, 4096),
    ("scheduler(defer,coalesce,buffer=64Ki,depth=2)|scheduler(defer,buffer=32Ki)", 128, 512),
    ("stable_buffer(size=16Ki,page=1Ki)", 96, 512),
    ("stable_buffer(size=16Ki,page=1Ki,ack=flush,flushing=proactive,outstanding=3)", 96, 512),
    ("stable_buffer(size=32Ki,page=2Ki,ack=written,patterns=on_demand,sequential=off)", 128, 512),
    ("stable_buffer(size=16Ki,page=1Ki,ack=written,sequential=8Ki,reread=no)", 96, 512),
    ("stable_buffer(size=8Ki,page=512,ack=flush,sequential=2Ki,partition_pages=1)", 64, 512),
    ("stable_buffer(size=32Ki,page=4Ki,layout=embedded,ack=written,sequential=16Ki)", 192, 512),
    ("stable_buffer(size=64Ki,page=8Ki,layout=embedded,ack=flush,flushing=proactive)", 256, 4096),
    ("stable_buffer(size=2Ki,page=2Ki,ack=written)", 64, 512),
    ("stable_buffer(size=12Ki,page=2Ki,ack=written,flushing=proactive)", 64, 512),
    ("stable_buffer(size=16Ki,page=2Ki,ack=written,sequential=2Ki,outstanding=1)", 64, 512),
    ("stable_buffer(size=32Ki,page=4Ki,sequential=4Ki)", 256, 4096),
    (
        "scheduler(defer,coalesce,buffer=16Ki,depth=3)|stable_buffer(size=16Ki,page=1Ki,\
         ack=written)",
        96,
        512,
    ),
    ("stable_buffer(size=8Ki,page=1Ki,ack=flush)|scheduler(defer,buffer=32Ki,depth=4)", 96, 512),
    (
        "stable_buffer(size=4Ki,page=1Ki,ack=written)|stable_buffer(size=16Ki,page=2Ki,ack=written,\
         reread=no)",
        128,
        512,
    ),
    (
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=8,\
         checkpoint_every=8Ki)",
        184,
        512,
    ),
    ("log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=8,align=4Ki)", 184, 512),
    (
        "log_volume(page=512,segment=4Ki,over_provisioning=100%,summary_pages=12,placement=dac,\
         align=2Ki,pad=no)",
        120,
        512,
    ),
    (
        "log_volume(page=2Ki,segment=8Ki,over_provisioning=80%,summary_pages=8,outstanding=4,\
         checkpoint_every=64Ki)",
        224,
        512,
    ),
    (
        "log_volume(page=4Ki,segment=16Ki,over_provisioning=60%,summary_pages=8,align=8Ki)",
        512,
        4096,
    ),
    (
        "log_volume(page=1Ki,segment=4Ki,over_provisioning=60%,summary_pages=16,filled=yes)",
        152,
        512,
    ),
    (
        "scheduler(defer,coalesce,convert,align,buffer=16Ki,log=log_volume(page=1Ki,segment=8Ki,\
         over_provisioning=60%,summary_pages=8))",
        184,
        512,
    ),
    (
        "stable_buffer(size=8Ki,page=1Ki)|log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,\
         summary_pages=8)",
        200,
        512,
    ),
    (
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=80%,summary_pages=9,placement=separate,\
         victim=lru)",
        200,
        512,
    ),
    (
        "log_volume(page=1Ki,segment=4Ki,over_provisioning=60%,summary_pages=8,placement=none,\
         victim=greedy,outstanding=2)",
        136,
        512,
    ),
    (
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=8)|\
         stable_buffer(size=8Ki,page=1Ki,ack=written)",
        200,
        512,
    ),
    // Time alone makes them do something; what was freed is trimmed below.
    ("scheduler(defer,coalesce,buffer=off,window=flush,depth=3,age=500us)", 192, 512),
    (
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=80%,summary_pages=8,trim=yes,\
         idle_clean=10us)",
        200,
        512,
    ),
    (
        "log_volume(page=1Ki,segment=4Ki,over_provisioning=60%,summary_pages=16,placement=separate,\
         trim=yes)",
        184,
        512,
    ),
    (
        "log_volume(page=512,segment=4Ki,over_provisioning=100%,summary_pages=12,placement=none,\
         align=2Ki,idle_clean=10us,idle_free=1)",
        120,
        512,
    ),
    (
        "scheduler(defer,buffer=16Ki,age=300us)|log_volume(page=1Ki,segment=8Ki,\
         over_provisioning=60%,summary_pages=8,trim=yes,idle_clean=20us)|stable_buffer(size=8Ki,\
         page=1Ki,ack=written)",
        200,
        512,
    ),
    // Summaries in the segments.
    (
        "log_volume(page=512,segment=16Ki,over_provisioning=80%,summary_pages=8,summaries=segments)",
        256,
        512,
    ),
    (
        "log_volume(page=1Ki,segment=32Ki,over_provisioning=60%,summary_pages=24,\
         summaries=segments,align=4Ki,trim=yes,idle_clean=10us)",
        448,
        512,
    ),
    (
        "log_volume(page=512,segment=16Ki,over_provisioning=70%,summary_pages=64,\
         summaries=segments,filled=yes,outstanding=4)",
        224,
        512,
    ),
    (
        "scheduler(defer,coalesce,buffer=16Ki)|log_volume(page=512,segment=16Ki,\
         over_provisioning=70%,summary_pages=16,summaries=segments,checkpoint_every=32Ki)",
        288,
        512,
    ),
    // As full as they may be, with as few spare segments as the policy takes.
    (
        "log_volume(page=512,segment=2Ki,over_provisioning=18%,summary_pages=8,placement=none,\
         filled=yes)",
        88,
        512,
    ),
    (
        "log_volume(page=512,segment=2Ki,over_provisioning=22%,summary_pages=64,placement=separate,\
         filled=yes)",
        160,
        512,
    ),
    // Much is written before anything makes it durable.
    (
        "log_volume(page=512,segment=16Ki,over_provisioning=200%,summary_pages=16,placement=none)",
        424,
        512,
    ),
    (
        "scheduler(defer,coalesce,buffer=16Ki)|stable_buffer(size=8Ki,page=1Ki,ack=written)|\
         log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=8)",
        200,
        512,
    ),
    // Slow commands are sent to other places, too; some volumes have hardly any room for that.
    ("replicas(partitions=4,page=1Ki,budget=30%,patience=30us)", 128, 512),
    (
        "replicas(partitions=3,page=4Ki,budget=20%,patience=10us,copies=2,read_threshold=0)",
        256,
        4096,
    ),
    ("replicas(partitions=2,page=512,budget=5%,patience=5us,copies=2,run_pages=32)", 64, 512),
    (
        "replicas(partitions=8,page=1Ki,budget=40%,patience=20us,copies=4,policy=lru,\
         read_threshold=0)",
        96,
        512,
    ),
    ("replicas(partitions=4,page=2Ki,budget=30%,behind=3)", 128, 512),
    (
        "scheduler(defer,coalesce,buffer=16Ki,depth=4)|replicas(partitions=4,page=1Ki,budget=30%,\
         patience=20us)",
        96,
        512,
    ),
    (
        "stable_buffer(size=8Ki,page=1Ki)|replicas(partitions=4,page=1Ki,budget=30%,patience=20us,\
         read_threshold=0)",
        160,
        512,
    ),
    (
        "replicas(partitions=4,page=1Ki,budget=30%,patience=20us)|log_volume(page=1Ki,segment=8Ki,\
         over_provisioning=60%,summary_pages=8)",
        200,
        512,
    ),
    // Pages stay where they are, and have checksums.
    ("checksums(page=1Ki,block=512,delay=100us)", 512, 512),
    ("checksums(page=512,block=512,delay=1ms)", 256, 512),
    ("checksums(page=8Ki,delay=30us)", 256, 4096),
    ("stable_buffer(size=16Ki,page=1Ki)|checksums(page=2Ki,block=512,delay=50us)", 512, 512),
    (
        "scheduler(defer,coalesce,buffer=16Ki,depth=3)|checksums(page=1Ki,block=512,delay=200us)",
        256,
        512,
    ),
    (
        "checksums(page=512,block=512,delay=100us)|stable_buffer(size=8Ki,page=1Ki,ack=written)",
        192,
        512,
    ),
    (
        "replicas(partitions=4,page=1Ki,budget=30%,patience=20us)|checksums(page=512,block=512,\
         delay=100us)",
        256,
        512,
    ),
    // Trimmed pages read as zeros.
    ("holes(page=512,delay=100us)", 48, 512),
    ("holes(page=1Ki,delay=off)", 96, 512),
    ("holes", 256, 4096),
    ("holes(page=2Ki,delay=300us)|scheduler(defer,coalesce,buffer=16Ki,depth=3)", 128, 512),
    ("holes(page=1Ki,delay=200us,ack=durable)|stable_buffer(size=16Ki,page=1Ki)", 128, 512),
    (
        "holes(page=1Ki,delay=50us)|stable_buffer(size=32Ki,page=4Ki,layout=embedded,ack=written,\
         sequential=16Ki)",
        192,
        512,
    ),
    ("holes(page=1Ki,delay=200us)|checksums(page=1Ki,block=512,delay=100us)", 512, 512),
    (
        "holes(page=4Ki,delay=100us)|replicas(partitions=4,page=1Ki,budget=30%,patience=20us)",
        192,
        512,
    ),
    (
        "holes(page=1Ki,delay=100us)|scheduler(defer,buffer=16Ki,depth=4)|log_volume(page=1Ki,\
         segment=8Ki,over_provisioning=60%,summary_pages=8,trim=yes)",
        224,
        512,
    ),
    // Each write goes to the log of its lifetime.
    (
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=100%,summary_pages=16,hints=yes)",
        312,
        512,
    ),
    (
        "log_volume(page=512,segment=4Ki,over_provisioning=120%,summary_pages=12,hints=yes,\
         align=2Ki,trim=yes,idle_clean=50us)",
        216,
        512,
    ),
    (
        "scheduler(defer,coalesce,buffer=16Ki,depth=4)|log_volume(page=1Ki,segment=4Ki,\
         over_provisioning=100%,summary_pages=16,hints=yes)",
        248,
        512,
    ),
];

/// Stacks with the area of a layer on a device of its own: KiB of the device, of that one, and
/// bytes of a sector. Some do not end at a page, some have room on the second device for more than
/// they use.
const ASIDE: &[(&str, u64, u64, u32)] = &[
    ("stable_buffer(size=16Ki,page=1Ki)", 64, 28, 512),
    ("stable_buffer(page=1Ki,ack=flush,flushing=proactive,outstanding=3)", 65, 20, 512),
    (
        "stable_buffer(size=12Ki,page=4Ki,ack=written,patterns=on_demand,sequential=off)",
        102,
        32,
        512,
    ),
    ("stable_buffer(size=16Ki,page=1Ki,ack=written,sequential=8Ki,reread=no)", 72, 40, 512),
    ("stable_buffer(size=32Ki,page=8Ki,layout=embedded,ack=flush)", 128, 64, 4096),
    (
        "stable_buffer(size=8Ki,page=1Ki,ack=flush)|scheduler(defer,coalesce,buffer=32Ki,depth=4)",
        64,
        16,
        512,
    ),
    (
        "scheduler(defer,coalesce,buffer=16Ki,depth=3)|stable_buffer(size=16Ki,page=1Ki,\
         ack=written)",
        64,
        28,
        512,
    ),
    (
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=8)|\
         stable_buffer(size=8Ki,page=1Ki,ack=written)",
        184,
        16,
        512,
    ),
    (
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=8,\
         checkpoint_every=8Ki)",
        168,
        33,
        512,
    ),
    (
        "log_volume(page=512,segment=4Ki,over_provisioning=100%,summary_pages=12,placement=dac,\
         align=2Ki,pad=no)",
        122,
        26,
        512,
    ),
    (
        "log_volume(page=4Ki,segment=16Ki,over_provisioning=60%,summary_pages=8,align=8Ki)",
        512,
        132,
        4096,
    ),
    (
        "log_volume(page=512,segment=2Ki,over_provisioning=18%,summary_pages=8,placement=none,\
         filled=yes)",
        88,
        26,
        512,
    ),
    (
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=100%,summary_pages=16,hints=yes,\
         align=4Ki)",
        280,
        58,
        512,
    ),
    (
        "scheduler(defer,coalesce,buffer=16Ki,depth=3)|log_volume(page=1Ki,segment=4Ki,\
         over_provisioning=100%,summary_pages=16,trim=yes,idle_clean=20us)|\
         scheduler(defer,coalesce,buffer=16Ki,depth=4)",
        186,
        50,
        512,
    ),
    (
        "replicas(partitions=4,page=1Ki,budget=30%,patience=20us)|log_volume(page=1Ki,segment=8Ki,\
         over_provisioning=60%,summary_pages=8,outstanding=3)",
        184,
        40,
        512,
    ),
];
