"""Validation of `sqlite_what_if`: what it says beside what SQLite writes."""
