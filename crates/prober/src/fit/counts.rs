//! Search for the numbers of erase blocks and logs, which decide when cleaning and merges begin.
//! They show only where the whole measurement is simulated, and are searched in whole steps: along
//! each number and back, with steps that halve where none of them helps. Slopes do not tell them,
//! as nothing changes within a step.

use ssd::drive::profile::Profile;
use units::Cancelled;

use super::scheme::Scheme;
use super::simulate::Simulator;
use super::solve::{Candidate, Goal, evaluate};
use super::structure::Structure;

/// A number that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// Spare erase blocks of each plane.
    Spare,
    /// Erase blocks of each plane below which cleaning begins.
    Kept,
    /// Both: cleaning begins after as many writes as before, and has more room or less.
    SpareAndKept,
    /// Log superblocks.
    Logs,
}

impl Count {
    /// The numbers that a profile has.
    pub fn of(profile: &Profile) -> &'static [Self] {
        if Scheme::of(profile).is_log_block() {
            &[Self::Logs]
        } else {
            &[Self::Spare, Self::Kept, Self::SpareAndKept]
        }
    }

    /// The first step: about as far as what experiments find may be off.
    fn first_step(self, profile: &Profile) -> i32 {
        match self {
            Self::Logs => (Scheme::of(profile).logs / 16).next_power_of_two() as i32,
            Self::Spare | Self::Kept | Self::SpareAndKept => 2,
        }
    }

    /// The profile with so many more; `None` if it cannot have them.
    pub fn changed(self, profile: &Profile, by: i32) -> Option<Profile> {
        let mut changed = profile.clone();
        match self {
            Self::Spare => spare(&mut changed, by),
            Self::Kept => kept(&mut changed, by),
            Self::SpareAndKept => {
                spare(&mut changed, by);
                kept(&mut changed, by);
            }
            Self::Logs => {
                let mut scheme = Scheme::of(profile);
                scheme.logs = scheme.logs.saturating_add_signed(by);
                scheme.put(&mut changed);
            }
        }
        (changed != *profile && changed.check().is_ok()).then_some(changed)
    }
}

fn spare(profile: &mut Profile, rows: i32) {
    let row_pages =
        f64::from(profile.layout().planes()) * f64::from(profile.media.pages_per_erase_block);
    profile.ftl.over_provisioning +=
        f64::from(rows) * row_pages / f64::from(profile.logical_pages());
}

fn kept(profile: &mut Profile, blocks: i32) {
    let rows = f64::from(profile.media.erase_blocks_per_plane);
    // The middle between two numbers: whole ones must not depend on the last digit.
    let kept = (profile.cleaning.start_below_free * rows - 1e-6).ceil() + f64::from(blocks) - 0.5;
    profile.cleaning.start_below_free = (kept / rows).max(0.0);
}

/// The candidate with the numbers that fit best: the best of a step up and down along each, and
/// twice as far where the last one helped.
pub(super) fn search(
    simulator: &Simulator<'_>,
    goal: &Goal,
    structure: &Structure,
    from: Candidate,
) -> Result<Candidate, Cancelled> {
    const BETTER: f64 = 0.98;
    let mut best = from;
    let mut halvings = 0;
    let mut last: Option<(Count, i32)> = None;
    loop {
        let base = simulator.sized(&best.profile);
        let mut tried: Vec<(Count, i32)> = Vec::new();
        let mut is_least = true;
        for &count in Count::of(&base) {
            let step = (count.first_step(&base) >> halvings).max(1);
            is_least &= step == 1;
            tried.extend([(count, step), (count, -step)]);
        }
        if let Some((count, by)) = last {
            tried.retain(|one| *one != (count, -by));
            tried.push((count, 2 * by));
        }
        let mut ways: Vec<((Count, i32), Profile)> = Vec::new();
        for (count, by) in tried {
            let Some(changed) = count.changed(&base, by).map(|changed| simulator.sized(&changed))
            else {
                continue;
            };
            // What is known of the spare space may leave no room for it.
            if changed != base
                && structure.allows(&base, &changed)
                && !ways.iter().any(|(_, other)| *other == changed)
            {
                ways.push(((count, by), changed));
            }
        }
        if simulator.allowance.is_over() || ways.is_empty() {
            return Ok(best);
        }
        let found =
            evaluate(simulator, goal, ways.iter().map(|(_, profile)| profile.clone()).collect())?;
        let (way, better) = ways
            .iter()
            .map(|(way, _)| *way)
            .zip(found)
            .min_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost))
            .expect("some");
        if better.cost < best.cost * BETTER {
            (best, last) = (better, Some(way));
        } else if is_least {
            return Ok(best);
        } else {
            (halvings, last) = (halvings + 1, None);
        }
    }
}
