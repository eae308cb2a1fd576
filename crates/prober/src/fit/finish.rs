//! A candidate made into a profile that stands by itself: its size, its name, and what it says of itself.

use ssd::drive::profile::{EnergyConfig, Profile, WearLevellingConfig};

use super::{Input, parameters, scheme::Scheme};
use crate::known::Known;

/// Share of the erase blocks that is spare where nothing was found: GiB of flash for GB of addresses.
const USUAL_OVER_PROVISIONING: f64 = 0.0737;
/// Most pages of a profile: a drive of more is described with larger erase-block counts left out.
const MOST_PAGES: f64 = 2_147_483_648.0;

/// Gives the profile the device's capacity, and says what was measured, fitted and assumed.
pub(super) fn finish(profile: &mut Profile, input: &Input<'_>, notes: &mut Vec<String>) {
    profile.energy = EnergyConfig::default();
    profile.wear_levelling = WearLevellingConfig::default();
    profile.media.endurance_cycles = 0;
    profile.media.endurance_spread = 0.0;
    profile.media.factory_bad_share = 0.0;
    notes.push("endurance and energy cannot be measured from outside: the profile sets no limit and counts none".to_owned());
    let onset_bytes = onset(input.known);
    let over_provisioning = size(profile, input.capacity_bytes, onset_bytes, notes);
    match onset_bytes {
        Some(bytes) => notes.push(format!("over-provisioning is {over_provisioning:.3}, as cleaning began after {bytes:.0} bytes")),
        None => notes
            .push(format!("over-provisioning was not found out: {USUAL_OVER_PROVISIONING} is assumed, GiB of flash for GB of addresses")),
    }
    profile.name = name(input.name);
    let known = if input.model.is_empty() { input.name } else { input.model };
    profile.summary = format!("fitted to measurements of {}", one_line(known));
    profile.sources = vec![
        format!(
            "Flashwright {} measured {} from outside: experiment matrix, seed {}",
            env!("CARGO_PKG_VERSION"),
            one_line(input.name),
            input.seed
        ),
        "All keys that are not fitted are defaults: nothing was found out about them".to_owned(),
    ];
    let mut fitted: Vec<String> = parameters::all().filter(|one| one.is_active(profile)).map(|one| one.key.to_owned()).collect();
    let structural = [
        "media.channels",
        "media.packages_per_channel",
        "media.dies_per_package",
        "media.planes_per_die",
        "media.erase_blocks_per_plane",
        "media.pages_per_erase_block",
        "media.page_bytes",
        "media.channel_bits",
        "media.multi_plane",
        "media.cache_mode",
        "media.copy_back",
        "media.suspend",
        "media.order",
        "interface.kind",
        "interface.queue_depth",
        "interface.queues",
        "controller.writes_wait_for_reads",
        "write_buffer",
        "read_cache",
        "read_ahead",
        "ftl",
        "cleaning",
    ];
    fitted.extend(structural.iter().map(|&key| key.to_owned()));
    // A whole table says it for its keys.
    let tables: Vec<String> = fitted.iter().filter(|key| !key.contains('.')).map(|table| format!("{table}.")).collect();
    fitted.retain(|key| !tables.iter().any(|table| key.starts_with(table)));
    fitted.sort();
    fitted.dedup();
    profile.fitted = fitted;
}

/// What a drive that was full could be overwritten at random before it had to clean, in bytes, if it was found.
pub(super) fn onset(known: &Known) -> Option<f64> {
    known.number("cleaning_onset_bytes").filter(|bytes| bytes.is_finite() && *bytes > 0.0)
}

/// Erase blocks and over-provisioning such that the device's addresses come out, to within a page, and cleaning begins where it was found
/// to. The over-provisioning that it aims at.
pub(super) fn size(profile: &mut Profile, capacity_bytes: u64, onset_bytes: Option<f64>, notes: &mut Vec<String>) -> f64 {
    let page = f64::from(profile.media.page_bytes);
    let logical = (capacity_bytes as f64 / page).floor().max(1.0);
    // Cleaning begins before all spare space is in use.
    let kept_free = if Scheme::of(profile).is_log_block() { 0.0 } else { profile.cleaning.start_below_free.min(0.3) };
    let physical = |bytes: f64| (logical + bytes / page) / (1.0 - kept_free);
    let over_provisioning = onset_bytes.map_or(USUAL_OVER_PROVISIONING, |bytes| physical(bytes) / logical - 1.0).clamp(0.02, 1.0);
    let m = &profile.media;
    let planes = m.channels * m.packages_per_channel * m.dies_per_package * m.planes_per_die;
    let row = f64::from(planes) * f64::from(m.pages_per_erase_block);
    let scheme = Scheme::of(profile);
    let wide = if scheme.interleave == 0 { planes } else { scheme.interleave };
    let superblocks = f64::from(scheme.logs + scheme.merges_at_once + 2) * f64::from(wide) / f64::from(planes);
    let least_spare_rows = if scheme.is_log_block() { superblocks.ceil() + 2.0 } else { 8.0 };
    let rows = (logical * (1.0 + over_provisioning) / row).ceil().max((logical / row).ceil() + least_spare_rows);
    let most_rows = 65_536.0_f64.min((MOST_PAGES / row).floor());
    if rows > most_rows {
        notes
            .push(format!("the device is larger than a profile can be with these erase blocks: it has {most_rows} of {rows} rows of them"));
    }
    let rows = rows.clamp(4.0, most_rows);
    profile.media.erase_blocks_per_plane = rows as u32;
    let physical = profile.physical_pages() as f64;
    let logical = logical.min((physical / (1.0 + over_provisioning)).floor()).max(1.0);
    profile.ftl.over_provisioning = (physical / (logical + 0.5) - 1.0).max(0.001);
    let free = profile.ftl.over_provisioning / (1.0 + profile.ftl.over_provisioning);
    let cleaning = &mut profile.cleaning;
    cleaning.start_below_free = cleaning.start_below_free.min(free * 0.9);
    if cleaning.background_below_free > 0.0 {
        cleaning.idle_us = cleaning.idle_us.max(1.0);
    }
    over_provisioning
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lower-case words joined by `-`.
fn name(of: &str) -> String {
    let mapped: String = of.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' }).collect();
    let words: Vec<&str> = mapped.split_whitespace().collect();
    if words.is_empty() { "fitted".to_owned() } else { format!("fitted-{}", words.join("-")) }
}
