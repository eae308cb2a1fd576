//! PostgreSQL: its log records, and the log and data pages that other settings would have written.
