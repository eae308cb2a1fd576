//! SQLite: its transactions, and what each journal mode would have written.
