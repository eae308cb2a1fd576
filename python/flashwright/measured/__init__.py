"""Drives that were measured: rows of measurements, profiles fitted to them, rows predicted."""
