"""How tables and axes are laid out for people."""

from __future__ import annotations

import pytest

from flashwright.cli.output import parts_that_fit
from flashwright.reports.figures import log_axis, size_unit, time_axis, time_unit

HEADINGS = ["layer", "op", "requests", "bytes", "mean size"]
ROWS = [["calls", "read", "1 000", "1 GiB", "4 KiB"], ["calls", "write", "2 000", "2 GiB", "8 KiB"]]


def widths(part: list[int]) -> int:
    return sum(max(len(row[number]) for row in (HEADINGS, *ROWS)) + 2 for number in part)


@pytest.mark.parametrize("width", range(20, 60))
def test_a_table_is_parted_so_that_no_cell_wraps(width: int) -> None:
    parts = parts_that_fit(HEADINGS, ROWS, width)
    # What tells the rows apart stands in each.
    assert all(part[:2] == [0, 1] for part in parts)
    assert [number for part in parts for number in part[2:]] == [2, 3, 4]
    narrowest = widths([0, 1, 4])
    assert all(widths(part) <= width for part in parts) or width < narrowest
    assert (len(parts) == 1) == (width >= widths([0, 1, 2, 3, 4]))


def test_a_table_of_one_column_or_of_no_row_is_whole() -> None:
    assert parts_that_fit(["name"], [["a" * 90]], 80) == [[0]]
    assert parts_that_fit(HEADINGS, [], 80) == [[0, 1, 2, 3, 4]]
    assert parts_that_fit(["", ""], [["a", "b" * 90]], 80) == [[0, 1]]


def test_labels_of_axes_are_plain_numbers_and_times_have_units() -> None:
    axis = log_axis("µs", [1.0, 1e7])
    assert not [text for text in axis["ticktext"] if "e+" in text]
    assert dict(zip(axis["tickvals"], axis["ticktext"], strict=True))[1e6] == "1,000,000"
    assert "1 s" in time_axis()["ticktext"]
    near = time_axis("latency", [1e-3, 4e-3])
    said = dict(zip(near["tickvals"], near["ticktext"], strict=True))
    assert [said[tick] for tick in sorted(said) if 1e-3 <= tick <= 4e-3] == [
        "1 ms",
        "1.5 ms",
        "2 ms",
        "3 ms",
        "4 ms",
    ]
    assert len(set(near["ticktext"])) == len(near["ticktext"])


def test_units_are_those_of_the_largest_value() -> None:
    assert size_unit(3 * 2**20) == (2**20, "MiB")
    assert size_unit(2**20 - 1) == (2**10, "KiB")
    assert size_unit(0) == (1, "B")
    assert time_unit(1.5) == (1.0, "s")
    assert time_unit(0.9e-3) == (1e-6, "µs")
    assert time_unit(0.0) == (1e-9, "ns")
