//! Spare space: how much of it a profile has, and when its cleaning begins.

use ssd::drive::profile::Profile;
use units::Cancelled;

use super::scheme::Scheme;
use super::simulate::Simulator;
use super::solve::{Candidate, Goal, evaluate};
use crate::known::Known;
use crate::protocol::Matrix;

/// Share of the erase blocks that is spare where nothing was found: GiB of flash for GB of
/// addresses.
const USUAL_OVER_PROVISIONING: f64 = 0.0737;
/// Smallest spare space, as a multiple of the bytes that the matrix wrote, where no more is known;
/// and the most over-provisioning that is assumed for it.
const MATRIX_TIMES: f64 = 1.5;
const MOST_FOR_MATRIX: f64 = 0.3;
/// Most erase blocks of a plane.
const MOST_ROWS: f64 = 65_536.0;
/// Erase blocks of each plane that are never free for data: that being written, and those that
/// cleaning writes to.
const OPEN_ROWS: f64 = 2.5;
/// Of these, those that are still free when writes have to wait: all but the one that is being
/// written, which is not counted as free.
const WAITING_ROWS: f64 = OPEN_ROWS - 1.0;
/// Largest distance of a profile's spare space from that of the onset of cleaning, as a share of
/// it, at which it is left as it is.
const ONSET_IS_NEAR: f64 = 0.15;
/// Most pages of a profile: a drive of more is described with larger erase-block counts left out.
const MOST_PAGES: f64 = 2_147_483_648.0;

/// Bytes by which a full drive could be overwritten at random before it had to clean, as far as
/// they are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spare {
    /// Writes had to wait for cleaning after so many bytes; it began earlier, if that was seen.
    Onset { bytes: f64, begins: Option<f64> },
    /// So many bytes were overwritten, and it did not have to clean.
    AtLeast(f64),
    /// No experiment looked for it, but the matrix is as if cleaning began about there: profiles
    /// keep their own.
    Fitted { bytes: f64, begins: f64 },
    /// Nothing is known but the bytes that the matrix wrote.
    Unknown { matrix_bytes: f64 },
}

impl Spare {
    pub fn of(known: &Known, target: &Matrix) -> Self {
        let number =
            |key: &str| known.number(key).filter(|bytes| bytes.is_finite() && *bytes > 0.0);
        match (number("cleaning_onset_bytes"), number("least_spare_bytes")) {
            (Some(bytes), _) => Self::Onset {
                bytes,
                begins: number("cleaning_begins_bytes").filter(|begins| *begins < bytes),
            },
            (None, Some(bytes)) => Self::AtLeast(bytes),
            (None, None) => Self::Unknown { matrix_bytes: target.written_bytes() as f64 },
        }
    }

    /// The bytes after which writes wait for cleaning, and those after which it begins, as far as
    /// there are any.
    pub fn onset(self) -> Option<(f64, Option<f64>)> {
        match self {
            Self::Onset { bytes, begins } => Some((bytes, begins)),
            Self::Fitted { bytes, begins } => Some((bytes, Some(begins))),
            Self::AtLeast(_) | Self::Unknown { .. } => None,
        }
    }
}

/// Erase blocks and over-provisioning such that the device's addresses come out, to within a page,
/// and cleaning begins where it was found to. The over-provisioning that it aims at.
pub(super) fn size(
    profile: &mut Profile,
    capacity_bytes: u64,
    spare: Spare,
    notes: &mut Vec<String>,
) -> f64 {
    let page = f64::from(profile.media.page_bytes);
    let logical = (capacity_bytes as f64 / page).floor().max(1.0);
    enlarge_erase_blocks(profile, logical * 1.5);
    let m = &profile.media;
    let planes = m.channels * m.packages_per_channel * m.dies_per_package * m.planes_per_die;
    let row = f64::from(planes) * f64::from(m.pages_per_erase_block);
    let over_provisioning = match spare {
        // Where cleaning was found to begin is known to within some erase blocks: a profile that
        // lies there keeps its own.
        Spare::Onset { bytes, .. } => {
            let found = (bytes / page + OPEN_ROWS * row) / logical;
            let own = profile.ftl.over_provisioning;
            if (own / found - 1.0).abs() < ONSET_IS_NEAR { own } else { found }
        }
        Spare::Fitted { .. } => profile.ftl.over_provisioning,
        Spare::AtLeast(bytes) => {
            ((bytes / page + OPEN_ROWS * row) / logical).max(USUAL_OVER_PROVISIONING)
        }
        Spare::Unknown { matrix_bytes } => {
            // Not a drive that cleans where it was not seen to; a small one may well have.
            let enough = (matrix_bytes * MATRIX_TIMES / page + OPEN_ROWS * row) / logical;
            if enough < MOST_FOR_MATRIX {
                enough.max(USUAL_OVER_PROVISIONING)
            } else {
                USUAL_OVER_PROVISIONING
            }
        }
    }
    .clamp(0.02, 1.0);
    let scheme = Scheme::of(profile);
    let wide = if scheme.interleave == 0 { planes } else { scheme.interleave };
    let superblocks =
        f64::from(scheme.logs + scheme.merges_at_once + 2) * f64::from(wide) / f64::from(planes);
    let least_spare_rows = if scheme.is_log_block() { superblocks.ceil() + 2.0 } else { 8.0 };
    let rows = (logical * (1.0 + over_provisioning) / row)
        .ceil()
        .max((logical / row).ceil() + least_spare_rows);
    let most_rows = MOST_ROWS.min((MOST_PAGES / row).floor());
    if rows > most_rows {
        notes.push(format!(
            "the device is larger than a profile can be with these erase blocks: it has \
             {most_rows} of {rows} rows of them"
        ));
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

/// Erase blocks so large that a profile can have all of these pages, where larger ones are
/// possible.
fn enlarge_erase_blocks(profile: &mut Profile, pages: f64) {
    let m = &mut profile.media;
    let planes =
        f64::from(m.channels * m.packages_per_channel * m.dies_per_package * m.planes_per_die);
    while pages / (planes * f64::from(m.pages_per_erase_block)) > MOST_ROWS
        && m.pages_per_erase_block <= 2048
    {
        m.pages_per_erase_block *= 2;
    }
}

/// Has cleaning begin as long before writes wait for it as it was seen to.
pub(super) fn reserve(profile: &mut Profile, spare: Spare) {
    if let Some((bytes, Some(begins))) = spare.onset()
        && !Scheme::of(profile).is_log_block()
    {
        let free = profile.ftl.over_provisioning / (1.0 + profile.ftl.over_provisioning);
        let all = profile.physical_pages() as f64;
        let row =
            f64::from(profile.layout().planes()) * f64::from(profile.media.pages_per_erase_block);
        let kept = (bytes - begins) / f64::from(profile.media.page_bytes) + WAITING_ROWS * row;
        profile.cleaning.start_below_free = (kept / all).min(free * 0.9);
    }
}

/// The page-mapped profile with so much spare space as an onset says, and its reserve.
pub(super) fn with_onset(profile: &Profile, capacity_bytes: u64, spare: Spare) -> Profile {
    let Some((bytes, begins)) = spare.onset().filter(|_| !Scheme::of(profile).is_log_block())
    else {
        return profile.clone();
    };
    let spare = Spare::Onset { bytes, begins };
    let mut changed = profile.clone();
    size(&mut changed, capacity_bytes, spare, &mut Vec::new());
    reserve(&mut changed, spare);
    if changed.check().is_ok() { changed } else { profile.clone() }
}

/// A guess at spare space.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Guess {
    /// Bytes until writes wait for cleaning, as a share of what the matrix writes.
    spare: f64,
    /// Bytes until cleaning begins, as a share of those.
    begins: f64,
}

impl Guess {
    const fn usual(spare: f64) -> Self {
        Self { spare, begins: 0.5 }
    }

    fn onset(self, written_bytes: u64) -> Spare {
        let bytes = self.spare * written_bytes as f64;
        Spare::Fitted { bytes, begins: self.begins * bytes }
    }
}

/// Finds the onset of cleaning with which the profile fits the measurement clearly better than
/// without any; all else stays as it is.
pub(super) fn search(
    simulator: &Simulator<'_>,
    goal: &Goal,
    profile: &Profile,
) -> Result<Option<Spare>, Cancelled> {
    const SPARE: [f64; 6] = [1.0, 0.5, 0.25, 0.12, 0.06, 0.03];
    const BEGINS: [f64; 3] = [0.0, 0.2, 0.8];
    const NEIGHBOURS: [f64; 2] = [0.7, 1.4];
    const CLEARLY: f64 = 0.9;
    /// A mean error of 5 %: what is left may have many causes.
    const NEAR: f64 = 0.0025;
    let keeps_own = simulator.with_spare(Guess::usual(0.0).onset(0));
    let best_of = |guesses: Vec<Guess>| -> Result<Option<(Guess, Candidate)>, Cancelled> {
        let with = |guess: &Guess| {
            with_onset(profile, simulator.capacity_bytes, guess.onset(simulator.written_bytes))
        };
        let found = evaluate(&keeps_own, goal, guesses.iter().map(with).collect())?;
        Ok(guesses.into_iter().zip(found).min_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost)))
    };
    let Some(without) = evaluate(simulator, goal, vec![profile.clone()])?.pop() else {
        return Ok(None);
    };
    if without.cost < NEAR {
        return Ok(None);
    }
    let Some((mut guess, mut best)) = best_of(SPARE.map(Guess::usual).to_vec())? else {
        return Ok(None);
    };
    if best.cost >= without.cost {
        return Ok(None);
    }
    let begun = BEGINS.map(|begins| Guess { begins, ..guess });
    if let Some((next, better)) =
        best_of(begun.to_vec())?.filter(|(_, candidate)| candidate.cost < best.cost)
    {
        (guess, best) = (next, better);
    }
    let near = NEIGHBOURS.map(|times| Guess { spare: guess.spare * times, ..guess });
    if let Some((next, better)) =
        best_of(near.to_vec())?.filter(|(_, candidate)| candidate.cost < best.cost)
    {
        (guess, best) = (next, better);
    }
    Ok((best.cost < without.cost * CLEARLY).then(|| guess.onset(simulator.written_bytes)))
}

/// Has cleaning begin, and writes wait for it, after as many bytes as before an erase block of each
/// plane became so many pages larger. Addressed are so many pages.
pub(super) fn keep_onset(profile: &mut Profile, row_grown_pages: f64, logical_pages: f64) {
    profile.ftl.over_provisioning =
        (profile.ftl.over_provisioning + OPEN_ROWS * row_grown_pages / logical_pages).max(0.001);
    let kept = &mut profile.cleaning.start_below_free;
    if *kept > 0.0 {
        *kept = (*kept + WAITING_ROWS * row_grown_pages / logical_pages).max(0.0);
    }
}
