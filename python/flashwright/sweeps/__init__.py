"""Sweeps: one job at many points of its options, and what each option does to the outcome."""
