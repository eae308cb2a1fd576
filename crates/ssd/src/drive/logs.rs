//! A drive's answers for the log pages of placement and endurance, as numbers.

use super::profile::Profile;
use super::schemes::{FdpCounts, SchemeCounters};

/// The log page of FDP statistics (NVM Express base specification 2.1, log page 22h), and its
/// events. Pages have no metadata here, so "with metadata" makes no difference.
#[derive(Clone, Debug, PartialEq)]
pub struct FdpStatistics {
    /// Host Bytes with Metadata Written (HBMW): bytes of the host's writes, including those that
    /// the write buffer merged.
    pub host_bytes: u64,
    /// Media Bytes with Metadata Written (MBMW): whole pages of user data programmed, including
    /// those that the controller moved. Padding is not data, and is left out.
    pub media_bytes: u64,
    /// Media Bytes Erased (MBE).
    pub erased_bytes: u64,
    /// Bytes of a reclaim unit (Reclaim Unit Nominal Size).
    pub unit_bytes: u64,
    /// Counts by handle, and of events.
    pub counts: FdpCounts,
}

impl FdpStatistics {
    /// Computes the statistics of the measured part of a run.
    #[must_use]
    pub fn of(
        profile: &Profile,
        written_bytes: u64,
        scheme: &SchemeCounters,
        counts: FdpCounts,
    ) -> Self {
        let page = u64::from(profile.media.page_bytes);
        Self {
            host_bytes: written_bytes,
            media_bytes: (scheme.host_page_writes + scheme.relocated_pages) * page,
            erased_bytes: scheme.erases * u64::from(profile.media.pages_per_erase_block) * page,
            unit_bytes: u64::from(counts.unit_pages) * page,
            counts,
        }
    }
}

/// The log page of the endurance group (NVM Express base specification 2.1, log page 09h): all
/// flash of a drive is one group here. Percentage used and spare refer to the drive's whole life;
/// data read and written to the measured part of a run. In bytes, where the log page counts 10^9
/// bytes and rounds up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnduranceGroup {
    /// Percentage Used: mean erases of the erase blocks by `media.endurance_cycles`. More than 100
    /// if they endure more. `None` if the profile has no endurance.
    pub percentage_used: Option<f64>,
    /// Available Spare: good erase blocks beyond those that the logical pages fill, in percent of
    /// their number when the drive was new.
    pub available_spare: f64,
    /// Data Units Read, by the host.
    pub read_bytes: u64,
    /// Data Units Written, by the host.
    pub written_bytes: u64,
    /// Media Units Written: pages programmed, for any cause.
    pub media_bytes: u64,
}

impl EnduranceGroup {
    /// Computes the log page of a drive with this mean number of erases. `bad` erase blocks were
    /// unusable when it was new, `retired` are unusable now; then the bytes that the host has read
    /// and written, and the pages that were programmed.
    #[must_use]
    pub fn of(
        profile: &Profile,
        erases_mean: f64,
        [bad, retired]: [u64; 2],
        [read_bytes, written_bytes]: [u64; 2],
        programmed_pages: u64,
    ) -> Self {
        let cycles = f64::from(profile.media.endurance_cycles);
        let per_block = u64::from(profile.media.pages_per_erase_block);
        let needed = u64::from(profile.logical_pages()).div_ceil(per_block);
        let spare = (profile.physical_pages() / per_block).saturating_sub(needed + bad);
        let left = spare.saturating_sub(retired - bad);
        Self {
            percentage_used: (cycles > 0.0).then(|| 100.0 * erases_mean / cycles),
            available_spare: if spare == 0 { 0.0 } else { 100.0 * left as f64 / spare as f64 },
            read_bytes,
            written_bytes,
            media_bytes: programmed_pages * u64::from(profile.media.page_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::profile;

    #[test]
    fn an_endurance_group_is_used_as_its_erase_blocks_are() {
        let changes = ["media.endurance_cycles=200", "ftl.over_provisioning=0.25"];
        let profile = profile::load("a16").unwrap().with_overrides(&changes).unwrap();
        let blocks = profile.physical_pages() / u64::from(profile.media.pages_per_erase_block);
        let spare = blocks / 5;
        let group = EnduranceGroup::of(&profile, 50.0, [0, spare / 4], [1, 2], 3);
        assert_eq!(group.percentage_used, Some(25.0));
        assert!((group.available_spare - 75.0).abs() < 0.1, "{}", group.available_spare);
        assert_eq!((group.read_bytes, group.written_bytes, group.media_bytes), (1, 2, 3 * 4096));
        let endless = profile.with_overrides(&["media.endurance_cycles=0"]).unwrap();
        assert_eq!(EnduranceGroup::of(&endless, 50.0, [0, 0], [0, 0], 0).percentage_used, None);
    }
}
