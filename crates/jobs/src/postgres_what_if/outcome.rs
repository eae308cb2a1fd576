//! Outcome of `postgres_what_if`: each figure is declared here, and nowhere else.

use schemars::JsonSchema;
use serde::Serialize;
use wal::postgres::model;

use super::settings::Fitted;

/// What other settings would have written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WhatIf {
    /// The rule beside the images that are there.
    pub self_check: SelfCheck,
    /// The recording.
    pub recorded: Recorded,
    /// What was found by trying.
    pub fitted: Fitted,
    /// Candidates, in their order.
    pub candidates: Vec<CandidateFigures>,
    /// The end of the log, in words.
    pub log_end: String,
    /// What the figures take for granted, and what is not known, a sentence each.
    pub remarks: Vec<String>,
}

/// The rule for images with the recording's own redo points: it has to give each image.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SelfCheck {
    /// Images in the log.
    pub images: u64,
    /// Those of them that the rule gives.
    pub right: u64,
    /// Images that it gives and that are not there.
    pub extra: u64,
    /// Bytes of records by the rule over those in the log, less 1.
    pub bytes_error: f64,
    /// Compressed images that were compressed again here.
    pub recompressed: u64,
    /// Bytes of those over the server's, less 1.
    pub recompressed_error: f64,
}

/// The recorded run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Recorded {
    /// As the log holds it, and the server counted.
    #[serde(flatten)]
    pub found: Amounts,
    /// As the model gives it, with the recording's own redo points.
    pub modelled: Amounts,
    /// The trace of it, by the model.
    pub traces: Option<Traces>,
}

/// A candidate.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CandidateFigures {
    /// Its name.
    pub name: String,
    /// What it writes.
    #[serde(flatten)]
    pub amounts: Amounts,
    /// What durability is lost beside a server that waits for each flush and writes images.
    pub lost: String,
    /// Its traces.
    pub traces: Option<Traces>,
}

/// What is written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Amounts {
    /// Bytes of records of the log.
    pub wal_bytes: u64,
    /// Images of pages in them.
    pub images: u64,
    /// Bytes of the images, with their headers.
    pub image_bytes: u64,
    /// Bytes written to the files of the log: whole pages of 8 KiB, some of them again and again.
    pub log_file_bytes: Option<u64>,
    /// Bytes of zeros with which new files of the log were made.
    pub log_made_bytes: Option<u64>,
    /// Flushes of the log.
    pub log_flushes: Option<u64>,
    /// Data pages written, without those by which relations grow.
    pub data_pages: Option<u64>,
    /// Those of them that checkpoints wrote.
    pub checkpoint_pages: Option<u64>,
    /// Those that the background writer wrote.
    pub background_pages: Option<u64>,
    /// Data pages read.
    pub page_reads: Option<u64>,
    /// Commits.
    pub commits: u64,
    /// Length of the time.
    pub seconds: f64,
    /// Checkpoints that began.
    pub checkpoints: u64,
    /// Images whose length is the mean of others, as none of that page is in the log.
    pub guessed_images: u64,
}

impl From<&model::Figures> for Amounts {
    fn from(figures: &model::Figures) -> Self {
        let by = figures.data_pages;
        Self {
            wal_bytes: figures.wal_bytes.round() as u64,
            images: figures.images,
            image_bytes: figures.image_bytes.round() as u64,
            log_file_bytes: Some(figures.log_file_bytes),
            log_made_bytes: Some(figures.log_made_bytes),
            log_flushes: Some(figures.log_flushes),
            data_pages: by.map(|by| by.iter().sum()),
            checkpoint_pages: by.map(|by| by[0]),
            background_pages: by.map(|by| by[1]),
            page_reads: figures.page_reads,
            commits: figures.commits,
            seconds: figures.seconds,
            checkpoints: figures.checkpoints,
            guessed_images: figures.guessed_images,
        }
    }
}

/// Files of a trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Traces {
    /// The writes, but for those of the log if that is apart.
    pub trace: String,
    /// The writes of the log, if it is apart.
    pub log: Option<String>,
    /// The files: number, path, name, purpose, offset, length.
    pub files: String,
}
