"""Layout of tables and axes for people."""

from __future__ import annotations

from flashwright.pages.figures import log_axis, size_unit, time_axis, time_unit


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
