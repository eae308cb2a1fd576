use thiserror::Error;

/// Errors of a model's input or computation.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ModelError {
    /// A number is outside the range that the model covers.
    #[error("{what} is {value}: it must be {right}")]
    OutOfRange {
        /// Name of the number.
        what: &'static str,
        /// The value given.
        value: f64,
        /// The range of right values.
        right: &'static str,
    },
    /// An entry of a list is outside the range that the model covers.
    #[error("{what} [{index}] is {value}: it must be {right}")]
    EntryOutOfRange {
        /// Name of the list.
        what: &'static str,
        /// Position in the list, from 0.
        index: usize,
        /// The value given.
        value: f64,
        /// The range of right values.
        right: &'static str,
    },
    /// Two lists that belong together differ in length.
    #[error("{sizes} set sizes but {given} {what}: give one for each set")]
    LengthMismatch {
        /// Length of the list of sizes.
        sizes: usize,
        /// Name of the other list.
        what: &'static str,
        /// Its length.
        given: usize,
    },
    /// Two lists with an entry for each page differ in length.
    #[error("{first_length} {first} but {second_length} {second}: give one of each for every page")]
    Lengths {
        /// Name of the first list.
        first: &'static str,
        /// Its length.
        first_length: usize,
        /// Name of the second list.
        second: &'static str,
        /// Its length.
        second_length: usize,
    },
    /// A list of fractions of a whole does not add up to the whole.
    #[error("{what} add up to {sum}: they must add up to 1")]
    NotAWhole {
        /// Name of the list.
        what: &'static str,
        /// Its sum.
        sum: f64,
    },
    /// There are no pages or no updates: nothing to clean.
    #[error(
        "{pages} pages with no update among them: a cleaning cost needs at least one updated page"
    )]
    NoUpdates {
        /// Number of pages given.
        pages: usize,
    },
    /// An iteration did not converge.
    #[error("{what} did not converge in {rounds} rounds (last change {change:e})")]
    NotConverged {
        /// Name of the iteration.
        what: &'static str,
        /// Number of rounds done.
        rounds: usize,
        /// The last change.
        change: f64,
    },
}

impl ModelError {
    pub(crate) fn check(
        ok: bool,
        what: &'static str,
        value: f64,
        right: &'static str,
    ) -> Result<(), Self> {
        if ok { Ok(()) } else { Err(Self::OutOfRange { what, value, right }) }
    }
}

/// The largest over-provisioning that the models take: 10,000 % spare space is beyond any device.
pub const MAX_OVER_PROVISIONING: f64 = 100.0;

pub(crate) fn check_over_provisioning(over_provisioning: f64) -> Result<(), ModelError> {
    let ok = over_provisioning > 0.0 && over_provisioning <= MAX_OVER_PROVISIONING;
    ModelError::check(
        ok,
        "over-provisioning",
        over_provisioning,
        "above 0 and at most 100 (0.2 means 20 %)",
    )
}
