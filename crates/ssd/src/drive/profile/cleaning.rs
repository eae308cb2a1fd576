//! When space is reclaimed, and how fast: keys.

use serde::{Deserialize, Serialize};

/// When space is reclaimed. Fractions are of the erase blocks of a plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CleaningConfig {
    /// Cleaning starts when less than this fraction of a plane's erase blocks is free, and host
    /// writes go on meanwhile; 0 for only when there is no other way.
    pub start_below_free: f64,
    /// In idle time cleaning starts below this fraction; 0 for never.
    pub background_below_free: f64,
    /// How long a die has to be idle before that, in microseconds: at least 1.
    pub idle_us: f64,
    /// Whether a die whose erase block is being cleaned serves nothing else until that is clean,
    /// as in DiskSim's SSD extension (Agrawal et al., USENIX ATC 2008), or commands take turns.
    /// Only of `page_mapped`.
    pub occupies_die: bool,
    /// Whether cleaning that has started goes as fast as it can, or keeps step with the host.
    pub pace: CleaningPace,
    /// With `pace = "credits"`, how much is cleaned at a time, in stripes (one program on each
    /// die): credits are saved up until they are enough for it; 0 for page by page.
    pub burst_stripes: f64,
    /// Whether one die of each group of a stripe at a time works for cleaning, the next when it is
    /// done with what it was given. Only with parity.
    pub rotates: bool,
    /// Time from the beginning of a window to the next in microseconds; 0 for none. Space is
    /// reclaimed only in the first part of each, unless writes wait for it.
    pub window_period_us: f64,
    /// That part, as a fraction of the period.
    pub window_share: f64,
    /// When the first begins, as a fraction of the period: drives of an array have different ones.
    pub window_start: f64,
}

impl Default for CleaningConfig {
    fn default() -> Self {
        Self {
            start_below_free: 0.0,
            background_below_free: 0.0,
            idle_us: 0.0,
            occupies_die: false,
            pace: CleaningPace::Burst,
            burst_stripes: 0.0,
            rotates: false,
            window_period_us: 0.0,
            window_share: 0.5,
            window_start: 0.0,
        }
    }
}

/// How fast erase blocks are cleaned, once cleaning has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleaningPace {
    /// As fast as the scheme can, until the erase block is clean.
    #[default]
    Burst,
    /// Each page that the host writes allows some to be relocated, the more the less is free: none
    /// at `start_below_free`, in the middle between that and the reserve as many as the host's
    /// writes use up, at the reserve twice as many. Only of `superblock_mapped`.
    Credits,
}
