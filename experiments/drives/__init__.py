"""Experiments of the papers on simulated drives, in virtual time."""
