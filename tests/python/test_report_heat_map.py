"""Heat maps of latency over time, and the tables that they are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flashwright.pages.heat_map import heat_map, heat_maps
from flashwright.workloads.measure import MOST_COLUMNS, ClientPart, Windows

CELLS = {
    "start_s": [0.0, 0.0, 2.0, 3.0],
    "seconds": [1.0, 1.0, 1.0, 0.5],
    "op": ["read", "read", "read", "read"],
    "from_ns": [1024, 4096, 1024, 1024],
    "to_ns": [1279, 5119, 1279, 1279],
    "count": [100, 10, 1000, 50],
}


def test_time_is_across_latency_up_and_the_count_is_the_colour() -> None:
    figure = heat_map(pa.table(CELLS), ["read"], "id", "reads", "seconds")
    assert figure is not None
    [trace] = figure.data
    assert trace["x"] == [0.0, 1.0, 2.0, 3.0, 3.5], "ends of windows"
    assert trace["y"] == pytest.approx([1.024e-6, 1.280e-6, 4.096e-6, 5.120e-6]), "ends of classes"
    # The last window is half as long as the others: 50 requests in it are as 100 in a whole one.
    assert trace["z"] == [[2, None, 3, 2], [None] * 4, [1, None, None, None]]
    assert trace["text"][2][0] == "10 reads: 4.10 µs to 5.12 µs"
    assert figure.layout["yaxis"]["type"] == "log"


def test_a_sliver_of_a_window_is_left_out() -> None:
    cells = {**CELLS, "seconds": [1.0, 1.0, 1.0, 0.01]}
    figure = heat_map(pa.table(cells), ["read"], "id", "reads", "seconds")
    assert figure is not None
    assert figure.data[0]["x"] == [0.0, 1.0, 2.0, 3.0]
    assert "left out" in figure.reading


def test_latencies_of_0_are_on_the_axis_and_other_operations_are_not() -> None:
    cells = {**CELLS, "from_ns": [0, 1, 1, 1], "to_ns": [0, 1, 1, 1]}
    figure = heat_map(pa.table(cells), ["read"], "id", "reads", "seconds")
    assert figure is not None
    assert figure.data[0]["y"] == pytest.approx([0.5e-9, 1e-9, 2e-9])
    assert heat_map(pa.table(cells), ["write"], "id", "writes", "seconds") is None
    drawn = heat_maps(pa.table(cells), "seconds")
    assert [one.id for one in drawn] == ["latency-map-read"]
    assert heat_maps(None, "seconds") == []


def test_windows_of_a_benchmark_are_joined_when_they_become_many() -> None:
    random = np.random.default_rng(3)
    windows, number = Windows(["a"], 0.5), 3 * MOST_COLUMNS - 5
    all_times = []
    for window in range(number):
        times = random.integers(0, 10**9, 7).astype(np.uint64)
        windows.add(window, "a", ClientPart(committed=7, times_ns=times))
        all_times.append((window, times))
    seconds = 0.5 * number - 0.2
    found: dict[str, list[Any]] = windows.response_map(seconds)
    assert sum(found["count"]) == 7 * number
    assert len(set(found["start_s"])) <= MOST_COLUMNS
    assert max(
        start + length for start, length in zip(found["start_s"], found["seconds"], strict=True)
    ) == pytest.approx(seconds)
    for start, low, high, count in zip(
        *(found[name] for name in ("start_s", "from_ns", "to_ns", "count")), strict=True
    ):
        within = [times for window, times in all_times if start <= 0.5 * window < start + 1.5]
        assert count == sum(((times >= low) & (times <= high)).sum() for times in within)
