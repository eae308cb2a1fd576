//! Transfer of space between MultiLog's logs.

use crate::Device;

/// Reduction of a log's cleaning cost by one more page of space, in relocations per host write and
/// share of the device: |dGC/dbeta| of MULTILOG eq. 11, f_s |W| / (s (1 + W) (W + z)), with W by
/// the approximation that section 4.2.2 proposes for use at run time, -W(-z e^-z) ~ e^(-0.9 (z -
/// 1)).
///
/// `valid` and `space` are in pages, `update_share` is the log's share of host writes. The result
/// is infinite for a log without spare pages, and 0 for one without pages or updates.
pub(super) fn gain_of_space(valid: f64, space: f64, update_share: f64) -> f64 {
    if valid <= 0.0 || update_share <= 0.0 {
        return 0.0;
    }
    let z = space / valid;
    if z <= 1.0 {
        return f64::INFINITY;
    }
    -models::cleaning_cost_derivative_approx(z, update_share, valid)
}

/// Eq. 4: the probability that a page is valid when its erase block is cleaned.
pub(super) fn p_gc(valid: f64, space: f64) -> f64 {
    if valid <= 0.0 {
        return 0.0;
    }
    models::p_gc_approx((space / valid).max(1.0) - 1.0)
}

/// The log among `candidates` whose cleaning cost rises least when it gives up an erase block
/// (MULTILOG 5.4, eq. 12); `None` if no candidate can give one. `update_share` gives a log's share
/// of host writes.
///
/// A log can give one if, apart from its write frontier, it has an erase block's worth of invalid
/// pages: then cleaning gains space at the latest when the whole log was cleaned once. Otherwise a
/// small log whose pages are all valid could be cleaned for ever.
pub(super) fn donor(
    candidates: impl Iterator<Item = usize>,
    device: &Device,
    update_share: impl Fn(usize) -> f64,
) -> Option<usize> {
    let pages = f64::from(device.geometry.pages_per_erase_block);
    let mut best: Option<(f64, usize)> = None;
    for log in candidates {
        let space = device.streams[log];
        let valid = f64::from(space.valid_pages);
        let blocks = f64::from(space.erase_blocks);
        if (blocks - 2.0) * pages < valid {
            continue;
        }
        // The frontier is half full on average: its rest is not spare space.
        let gain = gain_of_space(valid, (blocks - 0.5) * pages, update_share(log));
        if best.is_none_or(|(least, _)| gain < least) {
            best = Some((gain, log));
        }
    }
    best.map(|(_, log)| log)
}
