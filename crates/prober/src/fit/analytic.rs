//! What the matrix says by itself, before anything is simulated.

use ssd::drive::profile::Profile;

use crate::matrix::Access;
use crate::matrix_set::CellMeasured;

/// Planes or dies that must at least be able to read at once, for small random reads to gain so much from depth.
///
/// In a closed network of `n` like servers with `d` customers who choose at random, `n d / (n + d - 1)` are busy on average (with exponential
/// times; a little more with constant ones). What the link or the controller holds back makes it too low, never too high, but for requests
/// that a cache answers.
#[must_use]
pub(super) fn least_units(cells: &[CellMeasured]) -> f64 {
    let random = |one: &&CellMeasured| one.cell.access == Access::Random && one.cell.reads >= 1.0;
    let Some(size) = cells.iter().filter(random).map(|one| one.cell.size_bytes).filter(|&size| size >= 4096).min() else { return 1.0 };
    let of_size = || cells.iter().filter(random).filter(move |one| one.cell.size_bytes == size);
    let Some(alone) = of_size().find(|one| one.cell.depth == 1) else { return 1.0 };
    let units = |one: &CellMeasured| {
        let (depth, gain) = (f64::from(one.cell.depth), one.iops / alone.iops);
        // Nearer to the depth than this, the number of servers hardly matters.
        if gain < depth * 0.9 { gain * (depth - 1.0) / (depth - gain) } else { gain }
    };
    of_size().map(units).fold(1.0, f64::max)
}

/// The profile with at least about so many units that read at once.
pub(super) fn widen(profile: &Profile, least: f64) -> Profile {
    let mut wide = profile.clone();
    let units = |profile: &Profile| {
        let m = &profile.media;
        let planes = if m.multi_plane { m.planes_per_die } else { 1 };
        f64::from(m.channels * m.packages_per_channel * m.dies_per_package * planes)
    };
    while units(&wide) < least * 0.6 {
        let m = &mut wide.media;
        if m.packages_per_channel < 16 {
            m.packages_per_channel = (m.packages_per_channel * 2).min(16);
        } else if m.channels <= 32 {
            m.channels *= 2;
        } else {
            break;
        }
        m.erase_blocks_per_plane = (m.erase_blocks_per_plane / 2).max(4);
    }
    if wide.check().is_ok() { wide } else { profile.clone() }
}

/// The profile with rates of channels and link that are not so high that they show nowhere: from there a search by slopes finds no way down.
///
/// How much longer a random read of 4 KiB takes than one of a sector is the time of the bytes between, on a channel and on the link, or less
/// where the read is divided between channels.
pub(super) fn slow_down(profile: &Profile, cells: &[CellMeasured]) -> Profile {
    let mut slow = profile.clone();
    let fastest = cells.iter().map(CellMeasured::bytes_per_second).fold(0.0, f64::max);
    if fastest > 0.0 {
        slow.interface.link_mb_per_second = slow.interface.link_mb_per_second.min(4.0 * fastest / 1e6);
    }
    let alone = |size: u32| {
        let is_it = |one: &&CellMeasured| {
            one.cell.access == Access::Random && one.cell.reads >= 1.0 && one.cell.depth == 1 && one.cell.size_bytes == size
        };
        cells.iter().find(is_it).map(|one| 1e6 / one.iops)
    };
    if let (Some(sector_us), Some(page_us)) = (alone(512), alone(4096))
        && page_us > sector_us * 1.01
    {
        let bytes_per_us = (4096.0 - 512.0) / (page_us - sector_us);
        let most = 1.5 * bytes_per_us * 8.0 / f64::from(slow.media.channel_bits);
        slow.media.channel_mt_per_second = slow.media.channel_mt_per_second.min(most);
    }
    if slow.check().is_ok() { slow } else { profile.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Cell;

    #[test]
    fn gains_from_depth_tell_the_least_units() {
        let one = |depth, iops: f64| CellMeasured {
            cell: Cell { access: Access::Random, reads: 1.0, size_bytes: 4096, depth },
            iops,
            interval: [iops; 2],
        };
        // 16 units: 16 x 64 / 79 times as much at depth 64.
        let units = least_units(&[one(1, 1e4), one(64, 1e4 * 16.0 * 64.0 / 79.0)]);
        assert!((units - 16.0).abs() < 0.01, "{units}");
        assert_eq!(least_units(&[]), 1.0);
        let wide = widen(&ssd::drive::profile::load("usb-stick").unwrap(), 30.0);
        assert_eq!(wide.media.packages_per_channel * wide.media.channels * wide.media.dies_per_package, 32);
    }
}
