//! What other settings would have written, from the log of one run.
//!
//! The log says which pages each transaction changed, when, and by how many bytes. Which of the
//! changes come with an image of the page follows from the redo points of checkpoints, and from
//! images which page is written when. What the log does not show is not known here: reads (but for
//! their number, where a server told it), pages of which only hints changed, temporary files, the
//! ring buffers of VACUUM and COPY, commit status and the like. The load stays as it was: commits
//! come at their recorded times, whatever the settings, or all of them faster or slower by one
//! factor.

mod calibrate;
mod clock;
mod failure;
mod figures;
mod hot_updates;
mod layout;
mod log_file;
mod page_cache;
mod passes;
mod pool;
mod reads;
mod relations;
mod replay;
mod rule;
mod search;
mod settings;
mod survey;
#[cfg(test)]
mod tests;

pub use calibrate::calibrate;
pub use failure::ReplayError;
pub use figures::{Check, Figures};
pub use layout::{FileRow, Layout, Writes};
pub use reads::{Known, Reads};
pub use relations::Relations;
pub use replay::{Redos, Replay, Replayed, Window};
pub use search::Search;
pub use settings::Settings;
pub use survey::{Recompressed, Survey};
