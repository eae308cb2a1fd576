"""Traces of many volumes, in the store that `trace split` made: a job a volume, and their sums."""
