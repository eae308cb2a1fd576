//! A volume below SQLite, without a file system between: a VFS by the name of `flashwright`, as an
//! extension that SQLite loads (`docs/sqlite.md`).
//!
//! `file:app.db?vfs=flashwright&volume=/dev/sdb`
//!
//! Databases, journals and write-ahead logs are [files](servers::files) of the volume. What SQLite
//! calls is in [`ffi`], and that alone is unsafe; what it comes to is in [`vfs`].

mod ffi;
mod locks;
mod mounts;
mod problem;
mod sqlite3;
mod vfs;
