//! Drives whose logs are common to all places.
//!
//! From outside such a drive takes so many bytes of random writes at once and then merges nearly all that they lie in: the next wave comes after
//! as many again. How many bytes that are decides which requests meet a wave. How they are divided into superblocks, and over which dies, does
//! not show by itself: each way is simulated.

use ssd::drive::profile::Profile;

use super::analytic;
use super::scheme::Scheme;
use super::solve::tidy;
use crate::matrix_set::CellMeasured;

/// Sizes of superblocks that are tried.
const SUPERBLOCK_BYTES: [u64; 4] = [1 << 20, 2 << 20, 4 << 20, 8 << 20];
/// Dies of a channel that are tried.
const DIES: [u32; 2] = [4, 16];
/// Merges at once that are tried, and whether they copy without the channel.
const MERGES: [(u32, bool); 2] = [(8, true), (1, false)];
/// Pages of usual erase blocks.
const USUAL_PAGES: u64 = 64;
/// Erases of chips with such, in microseconds.
const USUAL_ERASE_US: f64 = 1_500.0;

/// As many logs as hold these bytes, and the one for sequential writes.
pub(super) fn logs(log_bytes: u64, superblock_bytes: u64) -> u32 {
    (log_bytes as f64 / superblock_bytes as f64).round().clamp(1.0, 65_535.0) as u32 + 1
}

/// The profile with logs of these bytes, in different superblocks on different dies. `channels` is how many there are, if there is a guess.
pub(super) fn variants(profile: &Profile, log_bytes: u64, channels: Option<u32>, cells: &[CellMeasured]) -> Vec<Profile> {
    let mut found: Vec<Profile> = Vec::new();
    let own = profile.media.packages_per_channel * profile.media.dies_per_package;
    let dies = DIES.into_iter().chain((!DIES.contains(&own)).then_some(own));
    for ((merges, copy_back), dies, superblock_bytes) in
        MERGES.into_iter().flat_map(|merges| dies.clone().flat_map(move |dies| SUPERBLOCK_BYTES.map(|bytes| (merges, dies, bytes))))
    {
        let mut base = analytic::plain(profile).unwrap_or_else(|| profile.clone());
        let m = &mut base.media;
        if let Some(channels) = channels {
            m.channel_mt_per_second = (m.channel_mt_per_second * f64::from(m.channels) / f64::from(channels)).min(1e5);
            m.channels = channels;
        }
        (m.packages_per_channel, m.dies_per_package) = (dies, 1);
        (m.erase_us, m.copy_back) = (USUAL_ERASE_US, copy_back);
        let mut base = analytic::programs(&base, cells);
        let planes = base.layout().planes();
        let pages = superblock_bytes / u64::from(base.media.page_bytes);
        let wide = (pages / USUAL_PAGES).clamp(1, u64::from(planes)) as u32;
        base.media.pages_per_erase_block = (pages / u64::from(wide)) as u32;
        let interleave = if wide == planes { 0 } else { wide };
        let scheme = Scheme { merges_at_once: merges, ..Scheme::with_logs("fast", logs(log_bytes, superblock_bytes), interleave) };
        scheme.put(&mut base);
        (base.cleaning.start_below_free, base.cleaning.background_below_free) = (0.0, 0.0);
        tidy(&mut base);
        if base.check().is_ok() && !found.contains(&base) {
            found.push(base);
        }
    }
    found
}
