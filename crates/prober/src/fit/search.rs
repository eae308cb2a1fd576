//! The search over structures: best first, with those that were left behind for when it goes no
//! further.

use ssd::drive::profile::Profile;
use units::Cancelled;

use super::parameters::{Parameter, structure_of};
use super::simulate::Simulator;
use super::solve::{Candidate, Goal, Local, evaluate, is_alike, promising, refine};
use super::structure::Structure;
use super::{GOOD, counts, moves, polish};

/// Structures that are kept.
const KEPT: usize = 8;
/// Largest cost of a candidate that is looked into, as a multiple of the best one's.
const FAR: f64 = 3.0;

struct Entry {
    candidate: Candidate,
    structure: Profile,
    /// The cost at which its neighbours were looked at; infinite if they were not.
    expanded_at: f64,
}

/// Pool of candidates, with the parameters that are searched.
pub(super) struct Pool<'a> {
    pub simulator: &'a Simulator<'a>,
    pub structure: &'a Structure,
    pub goal: &'a Goal,
    pub parameters: &'a [Parameter],
    /// Kinds of load whose discrete changes are tried.
    pub phases: u8,
    entries: Vec<Entry>,
}

impl<'a> Pool<'a> {
    pub fn new(
        simulator: &'a Simulator<'a>,
        structure: &'a Structure,
        goal: &'a Goal,
        parameters: &'a [Parameter],
    ) -> Self {
        Self { simulator, structure, goal, parameters, phases: u8::MAX, entries: Vec::new() }
    }

    /// Adds a candidate; of two of one structure, or that do the same, the better one stays.
    pub fn add(&mut self, candidate: Candidate) {
        let structure = structure_of(&candidate.profile);
        let is_same = |one: &Entry| {
            one.structure == structure || is_alike(&one.candidate.errors, &candidate.errors)
        };
        match self.entries.iter_mut().find(|one| is_same(one)) {
            Some(known) if known.candidate.cost <= candidate.cost => return,
            Some(known) => (known.candidate, known.structure) = (candidate, structure),
            None => self.entries.push(Entry { candidate, structure, expanded_at: f64::INFINITY }),
        }
        self.entries.sort_by(|a, b| a.candidate.cost.total_cmp(&b.candidate.cost));
        self.entries.truncate(KEPT);
    }

    /// The best so far.
    pub fn best(&self) -> Option<&Candidate> {
        self.entries.first().map(|one| &one.candidate)
    }

    /// The one of those kept with the fewest cells amiss.
    pub fn least_amiss(&self) -> Option<&Candidate> {
        self.entries
            .iter()
            .map(|one| &one.candidate)
            .min_by(|a, b| polish::amiss(&a.errors).total_cmp(&polish::amiss(&b.errors)))
    }

    /// All that are kept, best first.
    pub fn into_profiles(self) -> Vec<Profile> {
        self.entries.into_iter().map(|one| one.candidate.profile).collect()
    }

    /// Takes discrete changes, the best structure's first, until the stage's share is spent, all
    /// are good, or none is left.
    pub fn climb(&mut self) -> Result<(), Cancelled> {
        const BETTER: f64 = 0.9;
        while !self.simulator.allowance.is_over()
            && self.best().is_some_and(|best| best.worst() > GOOD)
        {
            let limit = self.best().map_or(0.0, |best| best.cost * FAR);
            let open = |one: &Entry| {
                one.candidate.cost <= limit && one.candidate.cost < one.expanded_at * BETTER
            };
            let Some(index) = self.entries.iter().position(open) else { break };
            let from = self.entries[index].candidate.clone();
            self.entries[index].expanded_at = from.cost;
            let from = if self.goal.is_whole() { self.with_history(from)? } else { from };
            let mut local = Local::measure(self.simulator, self.goal, from, self.parameters)?;
            local.descend(self.simulator, self.goal, 4)?;
            let cost = local.candidate.cost;
            self.add(local.candidate.clone());
            let structure = structure_of(&local.candidate.profile);
            if let Some(entry) = self.entries.iter_mut().find(|one| one.structure == structure) {
                entry.expanded_at = cost;
            }
            self.expand(&local)?;
        }
        Ok(())
    }

    /// The candidate with what is in use when as in the drive: changes one by one, as long as one
    /// of them helps, then numbers.
    fn with_history(&mut self, from: Candidate) -> Result<Candidate, Cancelled> {
        const BETTER: f64 = 0.97;
        const ROUNDS: usize = 2;
        if !self.simulator.is_history_seen(&from.profile) {
            return Ok(from);
        }
        let mut best = from;
        for _ in 0..ROUNDS {
            let mut tried = moves::of_history(&self.simulator.sized(&best.profile));
            tried.retain(|profile| self.structure.allows(&best.profile, profile));
            if self.simulator.allowance.is_over() {
                break;
            }
            let found = evaluate(self.simulator, self.goal, tried)?
                .into_iter()
                .min_by(|a, b| a.cost.total_cmp(&b.cost));
            match found {
                Some(better) if better.cost < best.cost * BETTER => best = better,
                _ => break,
            }
        }
        counts::search(self.simulator, self.goal, self.structure, best)
    }

    fn expand(&mut self, from: &Local) -> Result<(), Cancelled> {
        let candidate = &from.candidate;
        let mut tried =
            moves::moves(&candidate.profile, self.phases & self.goal.missed(&candidate.errors));
        tried.retain(|profile| self.structure.allows(&candidate.profile, profile));
        for found in promising(self.simulator, self.goal, from, tried, self.parameters)? {
            self.add(found);
        }
        Ok(())
    }

    /// The best of all, its values refined to the end.
    pub fn end(self) -> Result<Option<Candidate>, Cancelled> {
        let Some(best) = self.entries.into_iter().next() else { return Ok(None) };
        refine(self.simulator, self.goal, best.candidate, self.parameters, 3).map(Some)
    }
}
