"""The figures of SCHEDULER chapter 4 and PARALLELISM 4-5.

Found by the prober on simulated drives of the matching profiles.
"""
