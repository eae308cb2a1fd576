//! Keys for the start and the pace of cleaning.

use serde::{Deserialize, Serialize};

/// Settings of cleaning. Fractions are of the erase blocks of a plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CleaningConfig {
    /// Cleaning starts when less than this fraction of a plane's erase blocks is free, and host
    /// writes continue meanwhile; with 0 it starts only when it is inevitable.
    pub start_below_free: f64,
    /// Cleaning starts below this fraction in idle time; 0 for never.
    pub background_below_free: f64,
    /// Time for which a die has to be idle before that, in microseconds: at least 1.
    pub idle_us: f64,
    /// True if a die whose erase block is being cleaned serves nothing else until that is clean, as
    /// in DiskSim's SSD extension (Agrawal et al., USENIX ATC 2008); otherwise commands take turns.
    /// Only for `page_mapped`.
    pub occupies_die: bool,
    /// Pace of cleaning that has started: as fast as it can, or in step with the host.
    pub pace: CleaningPace,
    /// With `pace = "credits"`, the amount that is cleaned at a time, in stripes (one program on
    /// each die): credits are saved up until they are enough for it; 0 for page by page.
    pub burst_stripes: f64,
    /// True if only one die of each group of a stripe works for cleaning at a time, and the next
    /// when it has finished. Only with parity.
    pub rotates: bool,
    /// Time from the start of a window to the start of the next in microseconds; 0 for none. Space
    /// is reclaimed only in the first part of each, unless writes wait for it.
    pub window_period_us: f64,
    /// Length of that part, as a fraction of the period.
    pub window_share: f64,
    /// Start of the first window, as a fraction of the period: drives of an array have different
    /// ones.
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

/// Pace of cleaning, once it has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CleaningPace {
    /// As fast as the scheme can, until the erase block is clean.
    #[default]
    Burst,
    /// Each page that the host writes allows some to be relocated, the more the less is free: none
    /// at `start_below_free`, as many as the host's writes use up in the middle between that and
    /// the reserve, and twice as many at the reserve. Only for `superblock_mapped`.
    Credits,
}
