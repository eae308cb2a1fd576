//! Degrees to which a file fits a format.

/// Degree to which the start of a file fits a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It is not of this format.
    No,
    /// The content could be anything: only the file name speaks for it.
    ByName,
    /// One of the two lines that there are can be read.
    Half,
    /// Most of the first lines or records can be read.
    Likely,
    /// It starts as only this format does.
    Certain,
}
