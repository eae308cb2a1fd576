//! Cases, added up.

use std::collections::BTreeMap;

use super::cases::{Case, How};
use super::judge::Verdict;
use super::made::State;

/// Totals of the cases of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Copies of the structure.
    pub copies: usize,
    /// Number of cases.
    pub cases: u64,
    /// Cases that hit every copy of a structure.
    pub every_copy: u64,
    /// Volumes that were opened.
    pub opened: u64,
    /// Volumes that were refused.
    pub refused: u64,
    /// Refused volumes of which a copy of everything was left that has copies.
    pub refused_with_copies: u64,
    /// Bytes that could not be read, of all volumes together.
    pub lost_bytes: u64,
    /// Most bytes that could not be read of one volume.
    pub most_lost_bytes: u64,
    /// Bytes that held older content.
    pub stale_bytes: u64,
    /// Bytes that held something that was never written there.
    pub wrong_bytes: u64,
    /// Cases with a fault.
    pub faults: u64,
    /// Volumes that could not be used on.
    pub unusable: u64,
}

impl Row {
    fn count(&mut self, case: &Case, verdict: &Verdict) {
        let is_refused = verdict.refused.is_some();
        self.copies = case.copies;
        self.cases += 1;
        self.every_copy += u64::from(case.is_every_copy);
        self.refused += u64::from(is_refused);
        self.opened += u64::from(!is_refused);
        self.refused_with_copies += u64::from(is_refused && !case.is_every_copy);
        self.lost_bytes += verdict.lost_bytes;
        self.most_lost_bytes = self.most_lost_bytes.max(verdict.lost_bytes);
        self.stale_bytes += verdict.stale_bytes;
        self.wrong_bytes += verdict.wrong_bytes;
        self.faults += u64::from(verdict.fault().is_some());
        self.unusable += u64::from(verdict.unusable.is_some());
    }

    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.copies = if self.cases == 0 { other.copies } else { self.copies.min(other.copies) };
        self.cases += other.cases;
        self.every_copy += other.every_copy;
        self.opened += other.opened;
        self.refused += other.refused;
        self.refused_with_copies += other.refused_with_copies;
        self.lost_bytes += other.lost_bytes;
        self.most_lost_bytes = self.most_lost_bytes.max(other.most_lost_bytes);
        self.stale_bytes += other.stale_bytes;
        self.wrong_bytes += other.wrong_bytes;
        self.faults += other.faults;
        self.unusable += other.unusable;
    }
}

/// Rows by the kind of damage, the state of the volume, and the structures that were hit.
#[derive(Clone, Debug, Default)]
pub struct Table(pub BTreeMap<(How, &'static str, String), Row>);

impl Table {
    /// Counts a case.
    pub fn count(&mut self, state: State, case: &Case, verdict: &Verdict) {
        let key = (case.how, state.name(), case.hits.clone());
        self.0.entry(key).or_default().count(case, verdict);
    }

    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        for (key, row) in &other.0 {
            self.0.entry(key.clone()).or_default().add(row);
        }
    }

    /// Gives the sum of all rows of one kind.
    #[must_use]
    pub fn sum(&self, how: How, state: State) -> Row {
        let mut sum = Row::default();
        let is_of = |key: &&(How, &'static str, String)| key.0 == how && key.1 == state.name();
        self.0.keys().filter(is_of).for_each(|key| sum.add(&self.0[key]));
        sum
    }
}
