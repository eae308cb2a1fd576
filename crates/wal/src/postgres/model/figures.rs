//! What was written.

/// Counts of the recorded time, as it was or as a setting would have made it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Bytes of records.
    pub wal_bytes: f64,
    /// Images of pages in them.
    pub images: u64,
    /// Bytes of images, with their headers.
    pub image_bytes: f64,
    /// Bytes written to the files of the log, in whole pages.
    pub log_file_bytes: u64,
    /// Bytes of zeros with which new files of the log were made.
    pub log_made_bytes: u64,
    /// Flushes of the log.
    pub log_flushes: u64,
    /// Data pages written by the checkpointer, the background writer, and who needed a buffer.
    pub data_pages: Option<[u64; 3]>,
    /// Data pages read.
    pub page_reads: Option<u64>,
    /// Commits.
    pub commits: u64,
    /// Length of the time.
    pub seconds: f64,
    /// Redo points of checkpoints.
    pub checkpoints: u64,
    /// Images of which the length is not of an image of that page in the log.
    pub guessed_images: u64,
}

/// The rule for images beside the images that are there, with the recording's own redo points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Images in the log.
    pub images: u64,
    /// Those of them that the rule gives.
    pub right: u64,
    /// Images that the rule gives and that are not there.
    pub extra: u64,
    /// Bytes of records.
    pub wal_bytes: u64,
    /// Bytes of images, with their headers.
    pub image_bytes: u64,
}

impl Check {
    /// Share of images that are wrong.
    #[must_use]
    pub fn wrong(&self) -> f64 {
        (self.images - self.right + self.extra) as f64 / self.images.max(1) as f64
    }
}
