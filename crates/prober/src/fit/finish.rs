//! A candidate made into a profile that stands by itself: its size, its name, and what it says of itself.

use ssd::drive::profile::{EnergyConfig, Profile, WearLevellingConfig};

use super::{Input, parameters, scheme::Scheme};
use crate::known::Known;
use crate::matrix_set::Matrix;

/// Share of the erase blocks that is spare where nothing was found: GiB of flash for GB of addresses.
const USUAL_OVER_PROVISIONING: f64 = 0.0737;
/// How many times what the matrix wrote is spare at least, where no more is known, and the most over-provisioning that is assumed for it.
const MATRIX_TIMES: f64 = 1.5;
const MOST_FOR_MATRIX: f64 = 0.3;
/// Most erase blocks of a plane.
const MOST_ROWS: f64 = 65_536.0;
/// Erase blocks of each plane that are never free for data: that being written, and those that cleaning writes to.
const OPEN_ROWS: f64 = 2.5;
/// Of these, those that are still free when writes have to wait: all but the one that is being written, which is not counted as free.
const WAITING_ROWS: f64 = OPEN_ROWS - 1.0;
/// How near a profile's spare space is to what the onset of cleaning tells, as a share of it, to be left as it is.
const ONSET_IS_NEAR: f64 = 0.15;
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
    let spare = Spare::of(input.known, input.target);
    let over_provisioning = size(profile, input.capacity_bytes, spare, notes);
    notes.push(match spare {
        Spare::Onset { bytes, .. } => format!("over-provisioning is {over_provisioning:.3}, as cleaning began after {bytes:.0} bytes"),
        Spare::AtLeast(bytes) => format!(
            "over-provisioning was not found out: {over_provisioning:.3} is assumed, as {bytes:.0} bytes were overwritten without cleaning"
        ),
        Spare::Unknown { .. } => format!(
            "over-provisioning was not found out: {over_provisioning:.3} is assumed: GiB of flash for GB of addresses, or what the matrix \
             can be written to without cleaning"
        ),
    });
    notes.extend(written_before(profile, input.known, input.target));
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

/// What a reader has to know where the matrix, with what the same run wrote before it, may have met cleaning that its simulations do not.
fn written_before(profile: &Profile, known: &Known, target: &Matrix) -> Option<String> {
    let before = known.findings().iter().take_while(|finding| Matrix::from_finding(finding).is_none());
    let before_bytes: u64 = before.map(|finding| finding.written_bytes).sum();
    let spare_bytes = (profile.physical_pages() - u64::from(profile.logical_pages())) * u64::from(profile.media.page_bytes);
    let has_writes = target.cells.iter().any(|one| one.cell.reads < 1.0);
    let is_seen = before_bytes > 0 && has_writes && !Scheme::of(profile).is_log_block();
    (is_seen && before_bytes + target.written_bytes() > spare_bytes).then(|| {
        format!(
            "{before_bytes} bytes had been written in this run when the matrix was measured, and {spare_bytes} are spare: the drive may have \
             cleaned where the profile, which is simulated with all of its spare space unused, did not"
        )
    })
}

/// What is known of how much a drive that was full could be overwritten at random before it had to clean, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spare {
    /// Writes had to wait for cleaning after so many bytes; it began earlier, if that was seen.
    Onset { bytes: f64, begins: Option<f64> },
    /// So much was overwritten, and it did not have to.
    AtLeast(f64),
    /// Nothing but how much the matrix wrote.
    Unknown { matrix_bytes: f64 },
}

impl Spare {
    pub fn of(known: &Known, target: &Matrix) -> Self {
        let number = |key: &str| known.number(key).filter(|bytes| bytes.is_finite() && *bytes > 0.0);
        match (number("cleaning_onset_bytes"), number("least_spare_bytes")) {
            (Some(bytes), _) => Self::Onset { bytes, begins: number("cleaning_begins_bytes").filter(|begins| *begins < bytes) },
            (None, Some(bytes)) => Self::AtLeast(bytes),
            (None, None) => Self::Unknown { matrix_bytes: target.written_bytes() as f64 },
        }
    }
}

/// Erase blocks and over-provisioning such that the device's addresses come out, to within a page, and cleaning begins where it was found
/// to. The over-provisioning that it aims at.
pub(super) fn size(profile: &mut Profile, capacity_bytes: u64, spare: Spare, notes: &mut Vec<String>) -> f64 {
    let page = f64::from(profile.media.page_bytes);
    let logical = (capacity_bytes as f64 / page).floor().max(1.0);
    enlarge_erase_blocks(profile, logical * 1.5);
    let m = &profile.media;
    let planes = m.channels * m.packages_per_channel * m.dies_per_package * m.planes_per_die;
    let row = f64::from(planes) * f64::from(m.pages_per_erase_block);
    let over_provisioning = match spare {
        // Where cleaning was found to begin is known to within some erase blocks: a profile that lies there keeps its own.
        Spare::Onset { bytes, .. } => {
            let found = (bytes / page + OPEN_ROWS * row) / logical;
            let own = profile.ftl.over_provisioning;
            if (own / found - 1.0).abs() < ONSET_IS_NEAR { own } else { found }
        }
        Spare::AtLeast(bytes) => ((bytes / page + OPEN_ROWS * row) / logical).max(USUAL_OVER_PROVISIONING),
        Spare::Unknown { matrix_bytes } => {
            // Not a drive that cleans where it was not seen to; a small one may well have.
            let enough = (matrix_bytes * MATRIX_TIMES / page + OPEN_ROWS * row) / logical;
            if enough < MOST_FOR_MATRIX { enough.max(USUAL_OVER_PROVISIONING) } else { USUAL_OVER_PROVISIONING }
        }
    }
    .clamp(0.02, 1.0);
    let scheme = Scheme::of(profile);
    let wide = if scheme.interleave == 0 { planes } else { scheme.interleave };
    let superblocks = f64::from(scheme.logs + scheme.merges_at_once + 2) * f64::from(wide) / f64::from(planes);
    let least_spare_rows = if scheme.is_log_block() { superblocks.ceil() + 2.0 } else { 8.0 };
    let rows = (logical * (1.0 + over_provisioning) / row).ceil().max((logical / row).ceil() + least_spare_rows);
    let most_rows = MOST_ROWS.min((MOST_PAGES / row).floor());
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

/// Erase blocks so large that a profile can have all of these pages, where larger ones are possible.
fn enlarge_erase_blocks(profile: &mut Profile, pages: f64) {
    let m = &mut profile.media;
    let planes = f64::from(m.channels * m.packages_per_channel * m.dies_per_package * m.planes_per_die);
    while pages / (planes * f64::from(m.pages_per_erase_block)) > MOST_ROWS && m.pages_per_erase_block <= 2048 {
        m.pages_per_erase_block *= 2;
    }
}

/// Has cleaning begin as long before writes wait for it as it was seen to.
pub(super) fn reserve(profile: &mut Profile, spare: Spare) {
    if let Spare::Onset { bytes, begins: Some(begins) } = spare
        && !Scheme::of(profile).is_log_block()
    {
        let free = profile.ftl.over_provisioning / (1.0 + profile.ftl.over_provisioning);
        let all = profile.physical_pages() as f64;
        let row = f64::from(profile.layout().planes()) * f64::from(profile.media.pages_per_erase_block);
        let kept = (bytes - begins) / f64::from(profile.media.page_bytes) + WAITING_ROWS * row;
        profile.cleaning.start_below_free = (kept / all).min(free * 0.9);
    }
}

/// Has cleaning begin, and writes wait for it, after as many bytes as before an erase block of each plane became so many pages larger.
/// Addressed are so many pages.
pub(super) fn keep_onset(profile: &mut Profile, row_grown_pages: f64, logical_pages: f64) {
    profile.ftl.over_provisioning = (profile.ftl.over_provisioning + OPEN_ROWS * row_grown_pages / logical_pages).max(0.001);
    let kept = &mut profile.cleaning.start_below_free;
    if *kept > 0.0 {
        *kept = (*kept + WAITING_ROWS * row_grown_pages / logical_pages).max(0.0);
    }
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
