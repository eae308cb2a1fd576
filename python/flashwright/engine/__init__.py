"""Many jobs: on the processors of one machine or on a Ray cluster, each done once and kept.

Knows nothing of what a job does: a kind of job is a module with a function `do`.
"""
