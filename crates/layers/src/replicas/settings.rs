//! Settings of the layer.

use registry::{Args, Param, ParamKind, SpecError};
use units::Nanos;

use super::NAME;
use super::geometry::Geometry;
use crate::time::parse_time;
use crate::{LayerError, Limits};

/// Parameters in the registry.
pub const PARAMS: &[Param] = &[
    Param {
        name: "partitions",
        kind: ParamKind::Integer { min: 2, max: 1024 },
        default: "16",
        help: "equal parts of the device that stand for its chips (P; 16 for most SSDs, 8 for the \
               Mtron in REPLICATION 5.1); `flashwright probe` finds how many a drive has; as the \
               volume was made",
    },
    Param {
        name: "copies",
        kind: ParamKind::Integer { min: 2, max: 8 },
        default: "3",
        help: "most places of a page, its home included (K; 3 on real drives in REPLICATION 5.3)",
    },
    Param {
        name: "page",
        kind: ParamKind::Bytes { min: 512, max: 65_536 },
        default: "4Ki",
        help: "bytes that are replicated as one (B): the database's page; as the volume was made",
    },
    Param {
        name: "budget",
        kind: ParamKind::Number { min: 0.0001, max: 0.9 },
        default: "10%",
        help: "share of the device that holds replicas; as the volume was made",
    },
    Param {
        name: "policy",
        kind: ParamKind::Choice(&["pblru", "lru"]),
        default: "pblru",
        help: "which page gives up its replicas when there is no room: of those used longest ago \
               the one that is blocked least, or the one used longest ago",
    },
    Param {
        name: "recency",
        kind: ParamKind::Number { min: 0.0, max: 1.0 },
        default: "50%",
        help: "share of the replication space whose pages pblru does not evict as long as there \
               are others: those used last",
    },
    Param {
        name: "patience",
        kind: ParamKind::Text,
        default: "auto",
        help: "time after which a read or write counts as blocked, such as 2ms (D); auto: twice \
               what 95 % of the first 512 take, of reads and writes and at each queue depth apart",
    },
    Param {
        name: "read_threshold",
        kind: ParamKind::Number { min: 0.0, max: 1.0 },
        default: "5%",
        help: "share of the accesses to a page that were blocked before, above which a blocked \
               read makes a replica; of at least as many accesses as one of them is that share of",
    },
    Param {
        name: "epoch",
        kind: ParamKind::Text,
        default: "60s",
        help: "time between two computations of how long a partition has to rest before a replica \
               is written to it, from the lengths of its idle periods (REPLICATION 4.2.2); none: \
               replicas are written at once",
    },
    Param {
        name: "run_pages",
        kind: ParamKind::Integer { min: 1, max: 256 },
        default: "8",
        help: "most pages of a command of the host that counts as one on pages: longer ones are \
               transfers in sequence, and go to and from homes alone",
    },
    Param {
        name: "behind",
        kind: ParamKind::Integer { min: 1, max: 1_048_576 },
        default: "256",
        help: "most pages that are acknowledged and not yet written at home: their bytes are in \
               memory, and a FLUSH waits for them",
    },
];

/// Settings, from the parameters.
#[derive(Clone, Debug)]
pub struct ReplicaSettings {
    pub partitions: u32,
    /// Most places of a page (K).
    pub most_places: usize,
    pub page_bytes: u32,
    pub budget: f64,
    pub by_probability: bool,
    pub recency: f64,
    /// Patience D; none if it is derived from measured times.
    pub patience: Option<Nanos>,
    pub read_threshold: f64,
    /// Epoch of the thresholds of rest; none if replicas are written at once.
    pub epoch: Option<Nanos>,
    pub run_pages: u64,
    pub most_behind: usize,
}

impl ReplicaSettings {
    pub fn read(args: &Args) -> Result<Self, LayerError> {
        let page_bytes = args.integer("page") as u32;
        if !page_bytes.is_power_of_two() {
            return Err(LayerError::Spec(SpecError::BadValue {
                name: NAME,
                key: "page".to_owned(),
                value: page_bytes.to_string(),
                right: "a power of two".to_owned(),
            }));
        }
        let (partitions, copies) = (args.integer("partitions"), args.integer("copies"));
        if copies > partitions {
            let reason = format!(
                "copies={copies} are to lie in partitions of their own, and there are \
                 {partitions}: give fewer copies=... or more partitions=..."
            );
            return Err(LayerError::Refused { layer: NAME, reason });
        }
        Ok(Self {
            partitions: partitions as u32,
            most_places: copies as usize,
            page_bytes,
            budget: args.number("budget"),
            by_probability: args.text("policy") == "pblru",
            recency: args.number("recency"),
            patience: parse_time(NAME, "patience", args.text("patience"), "auto")?,
            read_threshold: args.number("read_threshold"),
            epoch: parse_time(NAME, "epoch", args.text("epoch"), "none")?,
            run_pages: args.integer("run_pages"),
            most_behind: args.integer("behind") as usize,
        })
    }

    pub fn geometry(&self, limits: Limits) -> Result<Geometry, LayerError> {
        Geometry::new(limits, self.partitions, self.page_bytes, self.budget)
    }
}
