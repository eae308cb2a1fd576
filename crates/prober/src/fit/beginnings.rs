//! Beginnings of a search: drives that show what reads take, and then what writes do.

use ssd::drive::profile::Profile;
use units::Cancelled;

use super::parameters::{MIXES, READS, WRITES};
use super::scheme::Scheme;
use super::search::Pool;
use super::solve::{Goal, refine};
use super::spare::{self, Spare};
use super::{
    FitError, GOOD, KEPT, NEAR_ENOUGH, Search, analytic, common_logs, phase, simplest_first,
    transplanted,
};
use crate::cell::Cell;
use crate::protocol::CellMeasured;

impl Search<'_> {
    /// The best profiles for reads alone.
    pub(super) fn reads(&self) -> Result<Vec<Profile>, FitError> {
        let goal = self.goal(READS);
        if goal.cells.is_empty() {
            return Ok(self.starts.clone());
        }
        let has_writes = self.cells.iter().any(|one| one.cell.reads < 1.0);
        let share = |part: f64| if has_writes { 0.25 * part } else { 0.93 * part };
        self.simulator.allowance.set_until(share(0.4));
        let adapted = self.adapted(READS, self.starts.clone(), 3)?;
        self.simulator.allowance.set_until(share(0.6));
        let parameters = self.values(READS);
        let mut pool = Pool::new(&self.simulator, &self.structure, &goal, &parameters);
        let mut refined = Vec::new();
        for candidate in simplest_first(self.evaluated(&goal, &adapted)?).into_iter().take(3) {
            refined.push(refine(&self.simulator, &goal, candidate, &parameters, 2)?);
            if self.structure.has_geometry() && refined.iter().any(|one| one.worst() < GOOD) {
                break;
            }
        }
        let is_open = !self.structure.has_geometry() && has_writes;
        if is_open && let Some(best) = simplest_first(refined.clone()).first() {
            let narrow = self.structure.without_guesses().put(&analytic::narrow(&best.profile));
            for candidate in self.evaluated(&goal, &[narrow])? {
                refined.push(refine(&self.simulator, &goal, candidate, &parameters, 2)?);
            }
        }
        let mut refined = simplest_first(refined);
        refined.iter().cloned().for_each(|one| pool.add(one));
        self.simulator.allowance.set_until(share(1.0));
        // Whole simulations take all that can be saved: what is left is fitted together with
        // writes.
        if !has_writes
            || !self.is_history_seen()
            || pool.best().is_some_and(|best| best.worst() > NEAR_ENOUGH)
        {
            pool.climb()?;
        }
        let best = pool.end()?;
        // One that fits is enough, unless writes still have to tell how many dies there are.
        refined.truncate(if is_open { 2 } else { 0 });
        Ok(simplest_first(best.into_iter().chain(refined).collect())
            .into_iter()
            .map(|one| one.profile)
            .collect())
    }

    /// Gives the best profiles for reads what others do with writes: the best of these.
    pub(super) fn writes(&mut self, fronts: &[Profile]) -> Result<Vec<Profile>, FitError> {
        let log_bytes = self.structure.log_bytes();
        // Waves of merges come after so many bytes: brief simulations do not meet them where the
        // drive did.
        let goal = if log_bytes.is_some() {
            self.whole(WRITES | MIXES)
        } else {
            self.goal(WRITES | MIXES)
        };
        if goal.cells.is_empty() {
            return Ok(fronts.to_vec());
        }
        let most = if self.structure.has_geometry() { 1 } else { fronts.len() };
        let structure = self.structure.without_guesses();
        let logged = self.with_common_logs(&fronts[0], &goal)?;
        let mut variants = logged.clone();
        let ways = std::iter::once(None).chain(self.donors.iter().map(Some));
        // The fronts in turn: where each simulation takes long, not all of these are looked at.
        for (donor, (rank, front)) in ways
            .flat_map(|donor| fronts[..most].iter().enumerate().map(move |front| (donor, front)))
        {
            let variant = donor.map_or_else(
                || front.clone(),
                |donor| self.with_reserve(structure.put(&transplanted(front, donor))),
            );
            if variant.check().is_err() {
                continue;
            }
            let adjusted = analytic::programs(&variant, &self.cells);
            // Moves seldom come from pages of several types to one, as a few values then fit less
            // at first.
            let is_plain_tried = log_bytes.is_none();
            let plain = analytic::plain(&adjusted)
                .filter(|_| is_plain_tried)
                .map(|plain| analytic::programs(&plain, &self.cells));
            // As it is, too, but only of the best front.
            for variant in
                [Some(adjusted), plain, (rank == 0).then_some(variant)].into_iter().flatten()
            {
                if !variants.contains(&variant) {
                    variants.push(variant);
                }
            }
        }
        if let Some(spare) = self.spare_that_fits(&variants)? {
            self.simulator.spare = spare;
            variants.iter_mut().for_each(|variant| {
                *variant = spare::with_onset(variant, self.simulator.capacity_bytes, spare);
            });
        }
        let begin = self.simulator.allowance.spent();
        self.simulator.allowance.set_until(begin + (1.0 - begin) * 0.2);
        let adapted =
            if goal.is_whole() { variants } else { self.adapted(WRITES | MIXES, variants, 1)? };
        self.simulator.allowance.set_until(begin + (1.0 - begin) * 0.35);
        let mut refined = Vec::new();
        // What waves cost at first says little of what they do with the right values: such drives
        // are tried in any case.
        let (of_logs, others): (Vec<_>, Vec<_>) = self
            .evaluated(&goal, &adapted)?
            .into_iter()
            .partition(|one| logged.contains(&one.profile));
        for candidate in of_logs.into_iter().chain(others).take(KEPT - 1) {
            refined.push(refine(
                &self.simulator,
                &goal,
                candidate,
                &self.values(WRITES | MIXES),
                1,
            )?);
        }
        refined.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let found: Vec<Profile> = refined.into_iter().map(|one| one.profile).collect();
        Ok(if found.is_empty() { fronts[..1].to_vec() } else { found })
    }

    /// Finds the onset of cleaning, where no experiment told it but the matrix is as if there were
    /// one: if some page-mapped drive is nearest at first.
    pub(super) fn spare_that_fits(&self, variants: &[Profile]) -> Result<Option<Spare>, Cancelled> {
        if !matches!(self.simulator.spare, Spare::Unknown { .. })
            || self.structure.log_bytes().is_some()
        {
            return Ok(None);
        }
        let found = self.evaluated(&self.telling(WRITES | MIXES), variants)?;
        match found.first().filter(|best| !Scheme::of(&best.profile).is_log_block()) {
            Some(best) => {
                spare::search(&self.simulator, &self.whole(WRITES | MIXES), &best.profile)
            }
            None => Ok(None),
        }
    }

    /// Gives the best fits among drives with logs common to all places, if random writes were
    /// absorbed as by such a drive.
    pub(super) fn with_common_logs(
        &self,
        front: &Profile,
        goal: &Goal,
    ) -> Result<Vec<Profile>, Cancelled> {
        const TRIED: usize = 2;
        let Some(log_bytes) = self.structure.log_bytes() else { return Ok(Vec::new()) };
        let begin = self.simulator.allowance.spent();
        self.simulator.allowance.set_until(begin + (1.0 - begin) * 0.25);
        let channels = self.structure.channels();
        let begin = common_logs::Begin {
            front,
            log_bytes,
            log_rate: self.structure.log_rate,
            channels,
            cells: &self.cells,
        };
        let mut found = begin.search(&self.simulator, goal)?;
        found.truncate(TRIED);
        Ok(found)
    }

    pub(super) fn with_reserve(&self, mut profile: Profile) -> Profile {
        spare::reserve(&mut profile, self.simulator.spare);
        profile
    }

    /// A few cells that tell most.
    pub(super) fn telling(&self, phases: u8) -> Goal {
        let tells = |one: &&CellMeasured| {
            let Cell { size_bytes, depth, .. } = one.cell;
            phases & phase(&one.cell) != 0
                && [1, 16].contains(&depth)
                && [4096, 65_536, 262_144].contains(&size_bytes)
        };
        Goal::new(self.cells.iter().filter(tells).copied().collect())
    }
}
