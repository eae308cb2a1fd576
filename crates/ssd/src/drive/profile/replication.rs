//! Copies of pages on other dies: keys and their checks.

use registry::Spec;
use serde::{Deserialize, Serialize};

use super::Profile;
use super::check::{At, Checked};
use crate::drive::schemes::SCHEMES;

/// Copies of pages on other dies, for when a die works for the drive itself (REPLICATION). Only of
/// `page_mapped` with `allocation` dynamic or available.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReplicationConfig {
    /// Which pages lose their copies when there is no room; `none` for no copies at all.
    pub policy: ReplicationPolicy,
    /// Room for copies, as a fraction of the logical pages, 0.0001 ... 1. It is taken from the
    /// spare space.
    pub budget: f64,
    /// Most places of a page, 2 ... 8 (K).
    pub most_places: u32,
    /// How long a command may wait for a die that works for the drive itself, in microseconds (D);
    /// 0 for twice the mean time of a program.
    pub patience_us: f64,
    /// How often the thresholds of idle time are worked out again, in seconds (an epoch).
    pub epoch_s: f64,
    /// `pblru`: share of the room that is for the pages used last (R), 0 ... 1.
    pub recency_share: f64,
    /// A read that is blocked makes a copy if its page is blocked more often than this, 0 ... 1.
    pub read_threshold: f64,
    /// What is counted as blocked: each page, or the pages of an erase block together, which takes
    /// less memory.
    pub counted: CountedBy,
}

impl Default for ReplicationConfig {
    fn default() -> Self {
        Self {
            policy: ReplicationPolicy::None,
            budget: 0.1,
            most_places: 4,
            patience_us: 0.0,
            epoch_s: 60.0,
            recency_share: 0.5,
            read_threshold: 0.05,
            counted: CountedBy::Page,
        }
    }
}

/// Which pages lose their copies when there is no room for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicationPolicy {
    /// There are no copies.
    #[default]
    None,
    /// Those whose page was blocked longest ago.
    Lru,
    /// Of the pages that are not among the last, those that are blocked least.
    Pblru,
}

/// What blocked accesses are counted for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// Each page and each copy.
    #[default]
    Page,
    /// Each erase block.
    EraseBlock,
}

impl Profile {
    /// Whether pages have copies.
    #[must_use]
    pub fn has_replicas(&self) -> bool {
        self.replication.policy != ReplicationPolicy::None
    }

    /// Whether the scheme is page mapping itself, and none that is built on it.
    pub(super) fn is_page_mapped(&self) -> bool {
        Spec::parse(&self.ftl.scheme).is_ok_and(|spec| {
            SCHEMES.iter().any(|info| info.name == "page_mapped" && info.is_called(&spec.name))
        })
    }

    /// Room for copies, in pages; 0 without.
    #[must_use]
    pub fn replica_pages(&self) -> u32 {
        if !self.has_replicas() {
            return 0;
        }
        ((f64::from(self.logical_pages()) * self.replication.budget) as u32).max(1)
    }

    /// How long a command may wait before it is called blocked, in microseconds.
    #[must_use]
    pub fn replica_patience_us(&self) -> f64 {
        let times = &self.media.program_us;
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        let given = self.replication.patience_us;
        if given > 0.0 { given } else { 2.0 * mean }
    }

    pub(super) fn check_replication(&self, at: &At<'_>) -> Checked {
        let r = &self.replication;
        at.range("replication.budget", r.budget, 0.0001..=1.0)?;
        at.range("replication.most_places", r.most_places, 2..=8)?;
        at.range("replication.patience_us", r.patience_us, 0.0..=1e9)?;
        at.range("replication.epoch_s", r.epoch_s, 0.001..=1e6)?;
        at.range("replication.recency_share", r.recency_share, 0.0..=1.0)?;
        at.range("replication.read_threshold", r.read_threshold, 0.0..=1.0)?;
        if !self.has_replicas() {
            return Ok(());
        }
        let policy = format!("{:?}", r.policy).to_lowercase();
        at.require(self.is_page_mapped(), "replication.policy", &policy, || {
            "must be none unless ftl.scheme is page_mapped".to_owned()
        })?;
        let dies = self.layout().dies();
        at.require(dies > 1, "replication.policy", &policy, || {
            "must be none for a drive of one die: a copy needs another".to_owned()
        })
    }
}
