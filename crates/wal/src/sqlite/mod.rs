//! SQLite: its transactions, and what each journal mode would have written.
//!
//! A transaction is the set of pages that it writes, and the size of the database before and after
//! it. The pages are the same in every journal mode, so what each of them writes, where and in
//! which order, follows from the sources of SQLite: `wal.c` and `pager.c`, here of 3.40.
//!
//! - [`log`] reads transactions from a log (`-wal`), also while it grows.
//! - [`follow`] makes transactions of it.
//! - [`free_pages`] follows the list of free pages, which no rollback journal holds.
//! - [`transactions`] holds them, and puts several into one.
//! - [`modes`] says what a mode is, and what it loses.
//! - [`what_if`] goes through the transactions as a mode would, and hands out writes and syncs.
//! - [`page_cache`] makes requests to a device of these, as the kernel does.

pub mod checksum;
mod error;
pub mod follow;
pub mod free_pages;
pub mod log;
pub mod modes;
pub mod page_cache;
#[cfg(test)]
mod tests;
pub mod transactions;
pub mod what_if;

pub use error::SqliteError;
pub use follow::{Commit, Follow, pages_of};
pub use log::{Log, Look, ReadAt};
pub use modes::{JournalMode, Mode, Synchronous, cache_pages};
pub use page_cache::{Layout, PageCache};
pub use transactions::{Nature, Transactions, Written};
pub use what_if::{File, Files, Totals, WhatIf};
