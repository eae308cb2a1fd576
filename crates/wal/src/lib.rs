//! Logs of databases: read, and what other settings would have written.

pub mod postgres;
pub mod sqlite;
