"""Of how many times a quantile is known."""

LEAST_FOR_P9999 = 10_000
"""Of fewer none is beyond the 99.99th percentile: it would be the longest of them."""
