//! Power cuts, torn and reordered writes, and I/O errors below the layers, and an oracle of what
//! may survive them.
//!
//! [`CrashDevice`] is a device in memory that loses, at a power cut, whatever it may. [`Oracle`]
//! knows what a host may read back by the contract of the crate [`block`]. [`live`] runs a stack of
//! layers on the one, judged by the other, and cuts the power at every write of the device;
//! [`campaign`] does so until there were as many cuts as are wanted. [`Bug`] is what they have to
//! find. [`fuzz`] hands mutilated images to recovery; [`rot`] changes a byte in the life of a
//! volume; [`bad_sectors`] says what each sector that cannot be read costs. All of it is for tests;
//! all chance is drawn from a seed.

pub mod bad_sectors;
mod campaign;
mod content;
mod device;
mod devices;
mod dice;
mod drawn;
mod episode;
mod failing;
pub mod fuzz;
mod loss;
mod media;
mod oracle;
mod planted;
pub mod rot;
mod subject;
mod workload;

pub use campaign::{Fault, campaign, each_command_fails, shrink, try_episode, vary};
pub use content::Value;
pub use device::{CrashDevice, ErrorPlan, Manners};
pub use devices::{CrashDevices, Losses};
pub use dice::Dice;
pub use drawn::drawn;
pub use episode::{Options, Tally, live};
pub use loss::Loss;
pub use media::Media;
pub use oracle::{Oracle, Wrong};
pub use planted::Bug;
pub use subject::{Subject, SubjectKind, facts, subjects};
pub use workload::{Act, Workload};
