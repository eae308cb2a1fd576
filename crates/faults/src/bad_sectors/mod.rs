//! What one bad sector of a volume costs, structure by structure.
//!
//! A small volume is made and written at random until everything in it has wrapped, was cleaned and
//! was used; it is closed, or left as after a kill with all writes durable ([`Made`]). Then one
//! place at a time is damaged ([`cases()`]): sectors cannot be read, or a bit has changed. The volume
//! is opened and read as a whole, and judged by the oracle; then something is written, it is closed
//! and opened again ([`Made::try_case`]).
//!
//! # What is not asked
//! After a kill, a structure in which a bit changed may look like one that a power cut tore: a
//! version that was current before may be read then, which is counted for itself
//! ([`Verdict::stale_bytes`]). Nobody takes a sector that cannot be read for a torn one.

mod cases;
mod device;
mod judge;
mod made;
mod table;

pub use cases::{Case, Damage, How, Wanted, cases};
pub use device::Damaged;
pub use judge::Verdict;
pub use made::{Made, Open, Opened, Shape, State, of_subject};
pub use table::{Row, Table};
