//! Damage that one bad sector does to a volume, structure by structure.
//!
//! A small volume is made and written at random until everything in it has wrapped, was cleaned and
//! was used; it is closed, or left as after a kill with all writes durable ([`Made`]). Then one
//! place at a time is damaged ([`cases()`]): sectors cannot be read, or a bit has changed. The
//! volume is opened and read as a whole, and judged by the oracle; then something is written, it is
//! closed and opened again ([`Made::try_case`]).
//!
//! # What is not asked
//! After a kill, a structure in which a bit changed may look like one that a power cut tore: then
//! an older version may be read, which is counted separately ([`Verdict::stale_bytes`]). A sector
//! that cannot be read is never taken for a torn one.

mod cases;
mod device;
mod judge;
mod made;
mod table;

use crate::{Subject, SubjectKind};

pub use crate::workload::Shape;
pub use cases::{Case, Damage, How, Wanted, cases};
pub use device::Damaged;
pub use judge::Verdict;
pub use made::{Made, Open, Opened, State, of_subject};
pub use table::{Row, Table};

/// Stacks as users have them, with pages of 4 KiB, so that no 4 KiB hold two structures; KiB of the
/// device, and KiB of a second one for a layer's area.
const WITH_DEFAULTS: &[(&str, u64, u64)] = &[
    ("stable_buffer(size=64Ki)", 512, 0),
    ("stable_buffer(size=64Ki)", 512, 128),
    ("stable_buffer(size=64Ki,layout=embedded)", 512, 0),
    ("log_volume(segment=32Ki,over_provisioning=60%)", 1536, 0),
    ("log_volume(segment=32Ki,over_provisioning=60%)", 1536, 640),
    ("log_volume(segment=128Ki,over_provisioning=60%,summaries=segments)", 3072, 0),
    ("replicas", 1024, 0),
    ("checksums", 512, 0),
    ("stable_buffer(size=64Ki)|log_volume(segment=32Ki,over_provisioning=60%)", 1536, 0),
    ("stable_buffer(size=64Ki)|checksums", 1024, 0),
];

/// All stacks of the campaign of power cuts, and some as users have them.
#[must_use]
pub fn subjects() -> Vec<Subject> {
    let mut all = crate::subjects();
    all.retain(|subject| matches!(subject.kind, SubjectKind::Registered(_)));
    all.extend(WITH_DEFAULTS.iter().map(|(stack, kib, staging_kib)| {
        let subject = Subject::registered(stack, kib * 1024, 512);
        if *staging_kib > 0 { subject.aside(staging_kib * 1024) } else { subject }
    }));
    all
}
