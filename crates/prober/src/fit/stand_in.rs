//! A drive that behaves like a large one as long as only a small area of it is touched, and takes
//! little memory and time to make.
//!
//! It keeps all planes, dies, channels and times; pages and erase blocks; all of the interface, the
//! controller and DRAM; the scheme; the space that is not addressed ("spare"), in bytes, up to what
//! a measurement can write; and the number of free erase blocks at which cleaning starts. It leaves
//! out the erase blocks that would hold addresses outside the area. A page-mapped drive never
//! touches them: a victim policy takes erase blocks with few valid pages, and these hold only valid
//! ones. The log-block schemes map and merge superblocks of the area alone. Where much is kept
//! free, some addresses outside are left: they hold data, as all of the drive does. Two things
//! differ: the plane of an address, where it follows from the address; and wear levelling, which
//! would in time use the erase blocks left out.

use ssd::drive::profile::Profile;

use super::scheme::Scheme;

/// The largest share that a profile may keep free.
const MOST_RESERVE: f64 = 0.5;

/// The stand-in of a profile for measurements that touch the first `area_bytes` and write at most
/// `written_bytes`. The profile itself if it is not larger.
#[must_use]
pub(super) fn stand_in(profile: &Profile, area_bytes: u64, written_bytes: u64) -> Profile {
    let m = &profile.media;
    let page = u64::from(m.page_bytes);
    let planes = u64::from(m.channels)
        * u64::from(m.packages_per_channel)
        * u64::from(m.dies_per_package)
        * u64::from(m.planes_per_die);
    let row_pages = planes * u64::from(m.pages_per_erase_block);
    let physical = profile.physical_pages();
    let spare = physical - u64::from(profile.logical_pages());
    let area = area_bytes.div_ceil(page);
    let scheme = Scheme::of(profile);
    let reserve_rows =
        (profile.cleaning.start_below_free * f64::from(m.erase_blocks_per_plane)).ceil() as u64;
    let wanted_spare = if scheme.is_log_block() {
        // Logs, the targets of merges, and erase blocks on their way out; superblocks lie on groups
        // of planes, not all equally full.
        let planes_wide =
            if scheme.interleave == 0 { planes } else { u64::from(scheme.interleave) };
        let superblock = planes_wide * u64::from(m.pages_per_erase_block);
        let count = 2 * u64::from(scheme.logs) + 2 * u64::from(scheme.merges_at_once) + 8;
        (count * superblock).max(8 * row_pages)
    } else {
        written_bytes.div_ceil(page) * 5 / 4 + (16 + reserve_rows) * row_pages
    };
    let spare = spare.min(wanted_spare);
    let least_rows = if scheme.is_log_block() {
        4
    } else {
        (reserve_rows as f64 / MOST_RESERVE).ceil() as u64 + 1
    };
    let rows = ((area + spare).div_ceil(row_pages) + 1).max(least_rows);
    if rows >= u64::from(m.erase_blocks_per_plane) {
        return profile.clone();
    }
    let mut small = profile.clone();
    small.media.erase_blocks_per_plane = rows.max(4) as u32;
    let kept = f64::from(small.media.erase_blocks_per_plane) / f64::from(m.erase_blocks_per_plane);
    let logical = (small.physical_pages() - spare).max(area);
    // A little more, so that rounding down gives these pages.
    small.ftl.over_provisioning =
        (small.physical_pages() as f64 / (logical as f64 + 0.5) - 1.0).max(0.001);
    let free = 1.0 - 1.0 / (1.0 + small.ftl.over_provisioning);
    let cleaning = &mut small.cleaning;
    cleaning.start_below_free =
        (cleaning.start_below_free / kept).min(MOST_RESERVE).min(free * 0.95);
    cleaning.background_below_free = (cleaning.background_below_free / kept).min(1.0);
    if small.check().is_ok() { small } else { profile.clone() }
}
