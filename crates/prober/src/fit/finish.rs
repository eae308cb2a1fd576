//! A candidate made into a profile that stands by itself: its size, its name, and what it says of
//! itself.

use ssd::drive::profile::{EnergyConfig, Profile, WearLevellingConfig};

use super::spare::{self, Spare};
use super::{Input, parameters, scheme::Scheme};
use crate::known::Known;
use crate::protocol::Matrix;

/// Gives the profile the device's capacity, and says what was measured, fitted and assumed.
pub(super) fn finish(
    profile: &mut Profile,
    input: &Input<'_>,
    spare: Spare,
    notes: &mut Vec<String>,
) {
    profile.energy = EnergyConfig::default();
    profile.wear_levelling = WearLevellingConfig::default();
    profile.media.endurance_cycles = 0;
    profile.media.endurance_spread = 0.0;
    profile.media.factory_bad_share = 0.0;
    notes.push(
        "endurance and energy cannot be measured from outside: the profile sets no limit and \
         counts none"
            .to_owned(),
    );
    let over_provisioning = spare::size(profile, input.capacity_bytes, spare, notes);
    notes.push(match spare {
        Spare::Onset { bytes, .. } => format!(
            "over-provisioning is {over_provisioning:.3}, as cleaning began after {bytes:.0} bytes"
        ),
        Spare::AtLeast(bytes) => format!(
            "over-provisioning was not found out: {over_provisioning:.3} is assumed, as {bytes:.0} \
             bytes were overwritten without cleaning"
        ),
        Spare::Fitted { .. } => {
            format!(
                "over-provisioning of {over_provisioning:.3} and when cleaning begins were fitted \
                 to the matrix: they were not found out"
            )
        }
        Spare::Unknown { .. } => format!(
            "over-provisioning was not found out: {over_provisioning:.3} is assumed: GiB of flash \
             for GB of addresses, or what the matrix can be written to without cleaning"
        ),
    });
    if spare.onset().is_none() {
        notes.extend(written_before(profile, input.known, input.target));
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
    let mut fitted: Vec<String> = parameters::all()
        .filter(|one| one.is_active(profile))
        .map(|one| one.key.to_owned())
        .collect();
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
    let tables: Vec<String> =
        fitted.iter().filter(|key| !key.contains('.')).map(|table| format!("{table}.")).collect();
    fitted.retain(|key| !tables.iter().any(|table| key.starts_with(table)));
    fitted.sort();
    fitted.dedup();
    profile.fitted = fitted;
}

/// Gives a note for readers where the matrix, with the writes of the same run before it, may have
/// met cleaning that its simulations do not meet.
fn written_before(profile: &Profile, known: &Known, target: &Matrix) -> Option<String> {
    let before =
        known.findings().iter().take_while(|finding| Matrix::from_finding(finding).is_none());
    let before_bytes: u64 = before.map(|finding| finding.written_bytes).sum();
    let spare_bytes = (profile.physical_pages() - u64::from(profile.logical_pages()))
        * u64::from(profile.media.page_bytes);
    let has_writes = target.cells.iter().any(|one| one.cell.reads < 1.0);
    let is_seen = before_bytes > 0 && has_writes && !Scheme::of(profile).is_log_block();
    (is_seen && before_bytes + target.written_bytes() > spare_bytes).then(|| {
        format!(
            "{before_bytes} bytes had been written in this run when the matrix was measured, and \
             {spare_bytes} are spare: the drive may have cleaned where the profile, which is \
             simulated with all of its spare space unused, did not"
        )
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lower-case words joined by `-`.
fn name(of: &str) -> String {
    let mapped: String = of
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' })
        .collect();
    let words: Vec<&str> = mapped.split_whitespace().collect();
    if words.is_empty() { "fitted".to_owned() } else { format!("fitted-{}", words.join("-")) }
}
