"""Placement policies against models, bounds and each other."""
