//! PostgreSQL: its log records, and the log and data pages that other settings would have written.
//!
//! Sources: PostgreSQL's `xlogrecord.h`, `xlog_internal.h`, `xloginsert.c`, `xlog.c`, `bufmgr.c`,
//! `freelist.c`, `checkpointer.c`, `pg_lzcompress.c`, versions 15 to 18.

pub mod images;
pub mod log;
pub mod model;
