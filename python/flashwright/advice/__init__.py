"""Advice: what a database's writes do to its drive, and what to change, with the gain simulated."""
