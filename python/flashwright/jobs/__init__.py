"""Jobs: each a folder with its settings, its outcome, how it is run, and what is said of it.

Settings and outcomes are declared in Rust (`crates/jobs`); `make jobs` writes their dataclasses.
"""
