"""Conditions of a gain of layers are said beside it."""

from typing import Any

import pytest

from flashwright.layering.conditions import conditions
from flashwright.layering.verdict import verdict

GIB = 1 << 30


def row(**changed: Any) -> dict[str, Any]:
    """Give a stack with a log that has a quarter of spare space."""
    log = {"host_pages": 1000, "relocated_pages": 0, "cleanings": 0}
    counters = [{"layer": "scheduler", "counters": {}}, {"layer": "log_volume", "counters": log}]
    return {
        "capacity_bytes": 4 * GIB,
        "writes_below_bytes": GIB // 8,
        "counters": counters,
        **changed,
    }


def direct(flushes: int = 7) -> dict[str, Any]:
    """Give the device alone."""
    return {"capacity_bytes": 5 * GIB, "flushes_below": flushes, "counters": None}


@pytest.mark.parametrize(
    ("ops", "flushes", "said"),
    [
        (("read", "write", "flush"), 7, "the trace's 7 flushes were kept"),
        (("read", "write", "flush"), 0, "the trace has no flushes"),
        (("read", "write"), 0, "flushes were dropped"),
    ],
)
def test_flushes_are_named(ops: tuple[str, ...], flushes: int, said: str) -> None:
    assert said in conditions(row(), direct(flushes), ops, None)[0]


def test_a_drive_that_was_not_aged_is_named() -> None:
    fresh = conditions(row(), direct(), ("flush",), {"kind": "filled"})
    assert "the drive was filled at the start, not aged" in fresh
    aged = conditions(row(), direct(), ("flush",), {"kind": "aged"})
    assert not any("aged" in one for one in aged)


def test_a_log_that_has_not_cleaned_says_so_and_one_that_has_says_what_it_writes() -> None:
    [_, log] = conditions(row(), direct(), ("flush",), None)
    assert "the log has 25 % spare space and cleaned nothing" in log
    assert "128 MiB were written to 1 GiB of it" in log
    counters = {"host_pages": 1000, "relocated_pages": 500, "cleanings": 9}
    cleaned = row(counters=[{"layer": "log_volume", "counters": counters}])
    [_, log] = conditions(cleaned, direct(), ("flush",), None)
    assert log == "the log has 25 % spare space and writes 1.50 pages for each page"


def test_the_line_of_a_verdict_ends_with_what_it_depends_on() -> None:
    plain = {
        "total_write_seconds": 1.0,
        "latency_ns": {},
        "layer_write_amplification": None,
        "reads_below_bytes": 0,
        "writes_above_bytes": 1,
        "writes_below": 0,
        "flush_seconds_below": 0.0,
        "write_seconds_below": 1.0,
        "programmed_bytes": None,
    }
    found = verdict(plain, {**plain, "total_write_seconds": 2.0}, {}, ["flushes were kept"])
    assert found["line"].endswith("Depends on: flushes were kept.")
    assert found["conditions"] == ["flushes were kept"]
