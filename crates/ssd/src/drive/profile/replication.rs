//! Copies of pages on other dies: keys and their checks.

use registry::Spec;
use serde::{Deserialize, Serialize};

use super::Profile;
use super::check::{At, Checked};
use crate::drive::schemes::SCHEMES;

/// Copies of pages on other dies, for times when a die works for the drive itself (REPLICATION).
/// Only for `page_mapped` with `allocation` dynamic or available.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReplicationConfig {
    /// Choice of the pages that lose their copies when there is no room; `none` for no copies at
    /// all.
    pub policy: ReplicationPolicy,
    /// Space for copies, as a fraction of the logical pages, 0.0001 ... 1. It is taken from the
    /// spare space.
    pub budget: f64,
    /// Most places of a page, 2 ... 8 (K).
    pub most_places: u32,
    /// Time for which a command may wait for a die that works for the drive itself, in microseconds
    /// (D); 0 for twice the mean time of a program.
    pub patience_us: f64,
    /// Time between two computations of the thresholds of idle time, in seconds (an epoch).
    pub epoch_s: f64,
    /// `pblru`: share of the space that is for the pages used last (R), 0 ... 1.
    pub recency_share: f64,
    /// A read that is blocked makes a copy if its page is blocked more often than this, 0 ... 1.
    pub read_threshold: f64,
    /// Unit for which blocked accesses are counted: each page, or the pages of an erase block
    /// together, which takes less memory.
    pub counted: CountedBy,
    /// Choice of the die that a blocked write goes to.
    pub die: CopyDie,
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
            die: CopyDie::Rested,
        }
    }
}

/// Choice of the pages that lose their copies when there is no room for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicationPolicy {
    /// There are no copies.
    #[default]
    None,
    /// Those whose page was blocked longest ago.
    Lru,
    /// Of the pages that are not among the last ones, those that are blocked least.
    Pblru,
}

/// Choice of the die that gets a copy, of those that have no place of the page and are not blocked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyDie {
    /// The one with the fewest copies waiting; then one that is idle; then the one that rested
    /// most.
    #[default]
    Rested,
    /// Any of them, at random (REPLICATION algorithm 2, line 13).
    Random,
}

/// Unit for which blocked accesses are counted.
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
    /// Returns true if pages have copies.
    #[must_use]
    pub fn has_replicas(&self) -> bool {
        self.replication.policy != ReplicationPolicy::None
    }

    /// Returns true if the scheme is page mapping itself, not one that is built on it.
    pub(super) fn is_page_mapped(&self) -> bool {
        Spec::parse(&self.ftl.scheme).is_ok_and(|spec| {
            SCHEMES.iter().any(|info| info.name == "page_mapped" && info.is_called(&spec.name))
        })
    }

    /// Space for copies, in pages; 0 without copies.
    #[must_use]
    pub fn replica_pages(&self) -> u32 {
        if !self.has_replicas() {
            return 0;
        }
        ((f64::from(self.logical_pages()) * self.replication.budget) as u32).max(1)
    }

    /// Time for which a command may wait before it counts as blocked, in microseconds.
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
