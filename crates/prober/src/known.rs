//! Findings of earlier experiments, for later ones.

use crate::finding::{Finding, Value, Verdict};

/// The findings so far.
#[derive(Clone, Debug, Default)]
pub struct Known {
    findings: Vec<Finding>,
}

impl Known {
    /// Takes these findings. Later ones replace earlier ones of the same key.
    #[must_use]
    pub fn new(findings: Vec<Finding>) -> Self {
        Self { findings }
    }

    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// All findings.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// A value that was found last, sure or not.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        let values = self.findings.iter().rev().flat_map(|finding| &finding.values);
        values
            .into_iter()
            .find(|value| value.key == key)
            .filter(|value| value.verdict != Verdict::NotFound)
    }

    /// A number that was found, sure or not.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<f64> {
        self.value(key)?.number
    }

    /// A word that was found, sure or not.
    #[must_use]
    pub fn word(&self, key: &str) -> Option<&str> {
        self.value(key)?.word.as_deref()
    }

    /// A number that is sure.
    #[must_use]
    pub fn sure_number(&self, key: &str) -> Option<f64> {
        self.value(key).filter(|value| value.verdict == Verdict::Sure)?.number
    }
}
