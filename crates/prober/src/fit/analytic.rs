//! Conclusions from the matrix by itself, before anything is simulated.

use ssd::drive::profile::{CommandOrder, Profile};

use super::scheme::Scheme;
use crate::cell::Access;
use crate::protocol::CellMeasured;

/// Planes or dies that must at least be able to read at once, for small random reads to gain so
/// much from depth.
///
/// In a closed network of `n` like servers with `d` customers who choose at random,
/// `n d / (n + d - 1)` are busy on average (with exponential times; a little more with constant
/// ones). What the link or the controller holds back makes it too low, never too high, but for
/// requests that a cache answers.
#[must_use]
pub(super) fn least_units(cells: &[CellMeasured]) -> f64 {
    let random = |one: &&CellMeasured| one.cell.access == Access::Random && one.cell.reads >= 1.0;
    let Some(size) = cells
        .iter()
        .filter(random)
        .map(|one| one.cell.size_bytes)
        .filter(|&size| size >= 4096)
        .min()
    else {
        return 1.0;
    };
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

/// The profile with a single die, whose channel is as fast as all were: a drive that takes one
/// request at a time may well have no more.
pub(super) fn narrow(profile: &Profile) -> Profile {
    let mut narrow = profile.clone();
    let m = &mut narrow.media;
    m.channel_mt_per_second = (m.channel_mt_per_second * f64::from(m.channels)).min(1e5);
    (m.channels, m.packages_per_channel, m.dies_per_package) = (1, 1, 1);
    if narrow.check().is_ok() { narrow } else { profile.clone() }
}

/// The profile with rates of channels and link that are not so high that they show nowhere: from
/// there a search by slopes finds no way down.
///
/// The time by which a random read of 4 KiB takes longer than one of a sector is that of the bytes
/// between, on a channel and on the link, or less where the read is divided between channels.
pub(super) fn slow_down(profile: &Profile, cells: &[CellMeasured]) -> Profile {
    let mut slow = profile.clone();
    let fastest = cells.iter().map(CellMeasured::bytes_per_second).fold(0.0, f64::max);
    if fastest > 0.0 {
        slow.interface.link_mb_per_second =
            slow.interface.link_mb_per_second.min(4.0 * fastest / 1e6);
    }
    let alone = |size: u32| {
        let is_it = |one: &&CellMeasured| {
            one.cell.access == Access::Random
                && one.cell.reads >= 1.0
                && one.cell.depth == 1
                && one.cell.size_bytes == size
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

/// The page-mapped profile with programs that are as slow as the fastest writes say: `units` pages
/// at once, each in that time. Faster ones are left where the link may be what limits writes.
pub(super) fn programs(profile: &Profile, cells: &[CellMeasured]) -> Profile {
    let rate = |is_write: bool| {
        let of_kind = cells
            .iter()
            .filter(|one| if is_write { one.cell.reads <= 0.0 } else { one.cell.reads >= 1.0 });
        of_kind.map(CellMeasured::bytes_per_second).fold(0.0, f64::max)
    };
    let (writes, reads) = (rate(true), rate(false));
    if writes <= 0.0 || Scheme::of(profile).is_log_block() {
        return profile.clone();
    }
    let mut changed = profile.clone();
    let m = &mut changed.media;
    let planes = if m.multi_plane { m.planes_per_die } else { 1 };
    let units = m.channels * m.packages_per_channel * m.dies_per_package * planes;
    let in_flight =
        if changed.write_buffer.bytes > 0 { changed.write_buffer.in_flight_pages } else { 0 };
    let at_once = if in_flight > 0 { in_flight.min(units) } else { units };
    let wanted_us = f64::from(at_once) * f64::from(m.page_bytes) / writes * 1e6;
    let mean_us = m.program_us.iter().sum::<f64>() / m.program_us.len() as f64;
    if wanted_us < mean_us || writes < 0.7 * reads {
        m.program_us
            .iter_mut()
            .for_each(|time| *time = (*time * wanted_us / mean_us).max(1.0).round());
    }
    if changed.check().is_ok() { changed } else { profile.clone() }
}

/// The page-mapped profile with media that do the least that media can: pages of one type, nothing
/// overlapped, one plane a die. `None` if they are so already. What slopes cannot find is easier to
/// add to these than to take away from others.
pub(super) fn plain(profile: &Profile) -> Option<Profile> {
    if Scheme::of(profile).is_log_block() {
        return None;
    }
    let mut plain = profile.clone();
    let m = &mut plain.media;
    for times in [&mut m.read_us, &mut m.program_us] {
        *times = vec![times.iter().sum::<f64>() / times.len() as f64];
    }
    (m.multi_plane, m.cache_mode, m.planes_per_die) = (false, false, 1);
    (m.suspend, m.order) = (false, CommandOrder::Fifo);
    (plain != *profile && plain.check().is_ok()).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;

    #[test]
    fn gains_from_depth_tell_the_least_units() {
        let one = |depth, iops: f64| CellMeasured {
            cell: Cell { access: Access::Random, reads: 1.0, size_bytes: 4096, depth },
            iops,
            interval: [iops; 2],
            requests: 160,
        };
        // 16 units: 16 x 64 / 79 times as much at depth 64.
        let units = least_units(&[one(1, 1e4), one(64, 1e4 * 16.0 * 64.0 / 79.0)]);
        assert!((units - 16.0).abs() < 0.01, "{units}");
        assert_eq!(least_units(&[]), 1.0);
        let wide = widen(&ssd::drive::profile::load("usb-stick").unwrap(), 30.0);
        assert_eq!(
            wide.media.packages_per_channel * wide.media.channels * wide.media.dies_per_package,
            32
        );
    }

    #[test]
    fn plain_media_have_pages_of_one_type_and_one_plane() {
        let start = ssd::drive::profile::load("intel-x25m").unwrap();
        let mean = start.media.program_us.iter().sum::<f64>() / start.media.program_us.len() as f64;
        let plain = plain(&start).unwrap();
        assert!(start.media.program_us.len() > 1 && plain.media.program_us == [mean]);
        assert_eq!(
            (plain.media.planes_per_die, plain.media.multi_plane, plain.media.cache_mode),
            (1, false, false)
        );
        assert!(
            super::plain(&plain).is_none()
                && super::plain(&ssd::drive::profile::load("usb-stick").unwrap()).is_none()
        );
    }

    #[test]
    fn rates_come_down_to_where_they_show() {
        let one = |reads, size_bytes, iops: f64| CellMeasured {
            cell: Cell { access: Access::Random, reads, size_bytes, depth: 1 },
            iops,
            interval: [iops; 2],
            requests: 160,
        };
        // 10 us for 3584 bytes: 358 MB/s; 64 KiB at a time make 131 MB/s.
        let cells = [
            one(1.0, 512, 1e6 / 90.0),
            one(1.0, 4096, 1e4),
            one(1.0, 65_536, 2e3),
            one(0.0, 4096, 4e3),
        ];
        let start = ssd::drive::profile::load("a16")
            .unwrap()
            .with_overrides(&["media.channel_mt_per_second=50000"])
            .unwrap();
        let slow = slow_down(&start, &cells);
        assert!(
            (slow.media.channel_mt_per_second - 1.5 * 358.4).abs() < 1.0,
            "{}",
            slow.media.channel_mt_per_second
        );
        assert!(
            (slow.interface.link_mb_per_second - 4.0 * 131.072).abs() < 1.0,
            "{}",
            slow.interface.link_mb_per_second
        );
        // 16 dies with pages of 4 KiB that write 16.4 MB/s take 4 ms a page.
        assert!((programs(&start, &cells).media.program_us[0] - 4_000.0).abs() < 2.0);
        assert_eq!(programs(&start, &[]), start);
    }
}
