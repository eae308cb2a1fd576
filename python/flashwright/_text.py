"""Formatting of numbers for people: the same on the terminal and in reports."""

from __future__ import annotations

import math

_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def significant(value: float | None, digits: int = 3) -> str:
    """Give a number with so many significant digits; a dash if there is none.

    Digits before the point are never dropped.
    """
    if value is None or not math.isfinite(value):
        return "–"  # noqa: RUF001  (a dash in a table is an en dash)
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    if decimals > 6:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{decimals}f}".replace(",", "\u202f")


def brief(value: float) -> str:
    """Give a number of a headline: three significant digits, before the point, too."""
    return significant(float(f"{value:.3g}"))


def count(value: float | None) -> str:
    """Give a count with thousands set apart; a dash if there is none."""
    return "–" if value is None else f"{round(value):,}".replace(",", "\u202f")  # noqa: RUF001


def short_count(value: float) -> str:
    """Give a count in a few characters, as 1.23 M."""
    for unit, name in _SI:
        if abs(value) >= unit:
            return f"{significant(value / unit)} {name}"
    return significant(value) if value != round(value) else str(round(value))


def size(value: float) -> str:
    """Give bytes in a few characters, as 1.23 GiB."""
    for unit, name in _BINARY:
        if abs(value) >= unit:
            return (
                f"{value / unit:.3g} {name}"
                if value < unit * 1000
                else f"{round(value / unit)} {name}"
            )
    return f"{round(value)} B"


def one_line(said: str) -> str:
    """Give what another program says as one line that is safe on a terminal."""
    return "".join(
        letter if letter.isprintable() else ascii(letter)[1:-1] for letter in " ".join(said.split())
    )


def percent(fraction: float | None, digits: int = 3) -> str:
    """Give a fraction as per cent."""
    if fraction is not None and 0 < fraction < 1e-5:
        return "< 0.001 %"
    return "–" if fraction is None else f"{significant(fraction * 100, digits)} %"  # noqa: RUF001


def alpha(fraction: float) -> str:
    """Give an over-provisioning as it was asked for."""
    return f"{fraction * 100:.6g} %"


def span(seconds: float) -> str:
    """Give a time span in its natural unit."""
    if seconds >= 2 * 86_400:
        return f"{significant(seconds / 86_400)} days"
    for unit, name in (
        (3600.0, "h"),
        (60.0, "min"),
        (1.0, "s"),
        (1e-3, "ms"),
        (1e-6, "µs"),
        (1e-9, "ns"),
    ):
        if seconds >= unit:
            return f"{significant(seconds / unit)} {name}"
    return "0 s"


def short_time(nanoseconds: float | None) -> str:
    """Give a time of nanoseconds in its natural unit; a dash if there is none."""
    return "–" if nanoseconds is None else span(nanoseconds / 1e9)  # noqa: RUF001


def rate(bytes_per_second: float) -> str:
    """Give a throughput in millions of bytes a second, as drives are sold."""
    return f"{significant(bytes_per_second / 1e6)} MB/s"


def iops(per_second: float) -> str:
    """Give requests a second: whole, but for a drive that does only a few."""
    return count(per_second) if per_second >= 100 else significant(per_second)


def several(number: int, what: str) -> str:
    """Give a number of things."""
    return f"{count(number)} {what}{'' if number == 1 else 's'}"
