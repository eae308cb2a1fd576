"""Findings that contradict each other are not called sure."""

from typing import Any

import pytest

from flashwright.probing.consistency import consistent

MIB = 1 << 20


def findings(verdict: str = "sure", **numbers: float) -> dict[str, Any]:
    """Give an experiment for each value."""
    return {
        key: {
            "experiment": key,
            "values": [{"key": key, "number": number, "verdict": verdict, "why": "seen"}],
        }
        for key, number in numbers.items()
    }


def sure(found: dict[str, Any]) -> set[str]:
    return {
        value["key"]
        for finding in found.values()
        for value in finding["values"]
        if value["verdict"] == "sure"
    }


@pytest.mark.parametrize(
    ("numbers", "doubted", "reason"),
    [
        # FAST over two of four dies: reads within a superblock see two, reads anywhere four.
        (
            {"parallel_units": 2, "random_read_knee_depth": 4.43},
            {"parallel_units"},
            "4.43 times as fast as one",
        ),
        ({"parallel_units": 10, "random_read_knee_depth": 9.8}, set(), ""),
        # A link that is the limit is no contradiction.
        ({"parallel_units": 32, "random_read_knee_depth": 6}, set(), ""),
        # One that is too small by half.
        (
            {
                "superblock_bytes": MIB,
                "log_blocks": 4,
                "focused_area_bytes": 8 * MIB,
            },
            {"superblock_bytes", "log_blocks"},
            "4.00 logs of 1 MiB are not the 8 MiB",
        ),
        (
            {"superblock_bytes": MIB, "log_blocks": 4, "focused_area_bytes": 4 * MIB},
            set(),
            "",
        ),
        (
            {"write_buffer_bytes": 16 * MIB, "burst_bytes": 4 * MIB},
            {"write_buffer_bytes", "burst_bytes"},
            "bursts of 4 MiB are absorbed",
        ),
        ({"write_buffer_bytes": 4 * MIB, "burst_bytes": 9 * MIB}, set(), ""),
        ({"chunk_bytes": 6144, "page_bytes": 4096}, {"chunk_bytes", "page_bytes"}, "a chunk of"),
        ({"chunk_bytes": 16384, "page_bytes": 4096}, set(), ""),
    ],
)
def test_what_cannot_both_be_right_is_not_sure(
    numbers: dict[str, float], doubted: set[str], reason: str
) -> None:
    found = consistent(findings("sure", **numbers))
    assert set(numbers) - sure(found) == doubted
    for key in doubted:
        [value] = found[key]["values"]
        assert value["verdict"] == "unsure"
        assert value["why"].startswith("seen; but ")
        assert reason in value["why"]


def test_what_is_not_sure_anyway_accuses_nobody() -> None:
    given = findings("unsure", parallel_units=2) | findings(random_read_knee_depth=8)
    assert consistent(given) == given


def test_a_measurement_counts_with_what_it_is_at_least() -> None:
    """Throughput that still rises at the greatest depth is not sure, and enough all the same."""
    for low, is_sure in ((3.9, False), (3.2, True)):
        knee = findings("unsure", random_read_knee_depth=4)
        knee["random_read_knee_depth"]["values"][0]["interval"] = [low, 4.1]
        found = consistent(findings(parallel_units=2) | knee)
        assert ("parallel_units" in sure(found)) is is_sure
