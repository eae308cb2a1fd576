//! Update frequencies of the pages of a synthetic workload.

/// Meaning of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The probability that any update, whenever it comes, is to the page.
    Stationary,
    /// The mean of that probability over one pass of the sequence, because it changes on the way: a
    /// policy that follows the changes can do better than the bound for these weights. See
    /// [`super::Workload::phase_weights`].
    TimeAverage,
}

/// Pages that all have the same share of updates (MULTILOG section 3, "update set").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateSet {
    /// Share of the pages, 0 to 1 (s_i).
    pub size_share: f64,
    /// Share of the updates, 0 to 1 (f_si).
    pub update_share: f64,
}

/// Exact share of updates of each page.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// Meaning of the shares.
    pub meaning: Meaning,
    /// One for each logical page; they sum to 1.
    pub per_page: Vec<f64>,
    /// The same in few numbers, where the workload has few frequencies.
    pub sets: Option<Vec<UpdateSet>>,
}
