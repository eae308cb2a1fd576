"""STABLEBUFFER 3.2: thresholds of flushing by a benchmark, on the Mtron.

The paper takes from uFLIP's random writes by size the smallest size l_min from which on the worst
write performance is stable, 32 KiB, and theta_sequential = l_min / page; the other thresholds are
in proportion to the time of a write. The prober's experiment `thresholds` does the same; "worst"
and "stable", which the paper leaves open, are defined there.

The profile as it is gives 8 KiB, by any definition: its worst write is as long as its mean from
there up to 128 KiB. It makes room in its write buffer for so many bytes at a time
(`write_buffer.flush_pages`), and a random write of fewer bytes waits for the merge of others. That
was taken over from a sister model, of which SCHEDULER figure 4.19 tells; nothing in table 1, of
writes of 32 KiB, depends on it. With 32 KiB at a time l_min is the published one: fitted. The
profile is left as it is: SCHEDULER's figure is of a drive of the same family.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from experiments.figures.drawing import Drawing, Mark, Probed, Published, Shape, probed, value

PROFILE = "mtron-sata7035"
KIB = 1024
BATCH = ("write_buffer.flush_pages=16",)
"""Room for 32 KiB at a time, in pages of 2 KiB."""
PATTERNS = "write_patterns(size=32Ki,area=8388608)"
"""As of table 1: requests of 32 KiB, focused within 8 MiB."""
SECONDS = 60
TABLE_1 = {"sequential": 0.4, "random": 9.0, "focused": 0.8, "partitioned": 0.6}
"""Milliseconds of a write."""
NEAR = 0.25
"""Deviation from table 1 that the validation of the profile allows."""
THETAS = {"sequential": 8.0, "partitioned": 12.0, "focused": 16.0}
"""Pages of 4 KiB."""


def drive(batch: tuple[str, ...]) -> Probed:
    """Give the Mtron, with values that are others."""
    return probed(PROFILE, None, "filled", batch)


def found(batch: tuple[str, ...]) -> dict[str, Any]:
    """Give the thresholds, of patterns as table 1 has them."""
    one = drive(batch)
    return one.find("thresholds", SECONDS, [one.find(PATTERNS, SECONDS)])


def _l_min_kib(batch: tuple[str, ...]) -> float:
    return float(value(found(batch), "stable_write_bytes")) / KIB


def _theta(batch: tuple[str, ...], pattern: str) -> float:
    return float(value(found(batch), f"theta_{pattern}_pages"))


def _table_1() -> tuple[str, bool]:
    patterns = [drive(batch).find(PATTERNS, SECONDS) for batch in ((), BATCH)]
    before, after = (
        {name: value(one, f"{name}_write_us") / 1e3 for name in TABLE_1} for one in patterns
    )
    said = ", ".join(f"{name} {before[name]:.3g} and {after[name]:.3g} ms" for name in TABLE_1)
    return said, all(abs(after[name] / said_ms - 1) <= NEAR for name, said_ms in TABLE_1.items())


def _drawing(number: str, title: str, batch: tuple[str, ...], what: str) -> Drawing:
    is_fitted = bool(batch)
    l_min = "fitted: the profile's value was set for it" if is_fitted else "the profile's batches"
    published = [
        Published(f"{what}: l_min", "3.2", 32.0, "KiB", partial(_l_min_kib, batch), remark=l_min),
        *(
            Published(
                f"{what}: threshold of {pattern} writes",
                "3.2",
                pages,
                "pages",
                partial(_theta, batch, pattern),
                "from l_min" if pattern == "sequential" else "from l_min and table 1, fitted",
            )
            for pattern, pages in THETAS.items()
        ),
    ]
    shapes = []
    if is_fitted:
        shapes.append(
            Shape(
                "SSD: table 1 of the profile, and with batches of 32 KiB",
                "table 1",
                ", ".join(f"{name} {time:g} ms" for name, time in TABLE_1.items()),
                _table_1,
            )
        )
    return Drawing(
        number,
        title,
        PROFILE,
        lambda: found(batch)["charts"][0],
        [Mark("published: l_min", x=32 * KIB)],
        published=published,
        shapes=shapes,
    )


def drawings() -> list[Drawing]:
    """Give the thresholds of the profile, and with room made for 32 KiB at a time."""
    return [
        _drawing("3.2 SSD", "thresholds on the SSD", (), "SSD"),
        _drawing(
            "3.2 SSD 32 KiB batches",
            "thresholds on the SSD if it writes back 32 KiB at a time",
            BATCH,
            "SSD with batches of 32 KiB",
        ),
    ]
