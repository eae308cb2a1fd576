"""Charts over time: a last window that the end of a run cuts short is not drawn as if whole."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flashwright.jobs.play import charts
from flashwright.jobs.play.view import View
from flashwright.pages.figures import LEFT_OUT, Colours, Windows
from flashwright.pages.page import Figure
from flashwright.reports import bench_figures, bench_run, trace, waterfall
from flashwright.runs import Run

STARTS = [0.0, 1.0, 2.0, 3.0]
HALF = [1.0, 1.0, 1.0, 0.5]
SLIVER = [1.0, 1.0, 1.0, 0.01]


def windows(lengths: list[float], **columns: list[Any]) -> pa.Table:
    return pa.table({"start_s": STARTS, "seconds": lengths, **columns})


def drawn(figure: Figure | None, name: str = "") -> tuple[list[float], list[float]]:
    assert figure is not None
    [line] = [line for line in figure.data if not name or line["name"] == name]
    return line["x"], line["y"]


def test_a_short_window_is_drawn_by_its_length_and_a_sliver_is_left_out() -> None:
    half = Windows(STARTS, HALF)
    assert [half.is_drawn(start) for start in STARTS] == [True] * 4
    assert half.note == ""
    sliver = Windows(STARTS, SLIVER)
    assert [sliver.is_drawn(start) for start in STARTS] == [True, True, True, False]
    assert sliver.note == LEFT_OUT
    # All that there is is drawn.
    assert Windows([0.0], [0.01]).is_drawn(0.0)


ROW: dict[str, Any] = {
    "device": "d",
    "stack": None,
    "pace": "closed(1)",
    "requests": 1,
    "sent": {"lateness_ns": None},
    "iops": 1.0,
}


def played(table: pa.Table, *stacks: str) -> View:
    """Give a run of `play`, or one for each stack, whose windows these are."""
    rows = [{**ROW, "stack": stack} for stack in stacks] or [ROW]
    parts = []
    for row in rows:
        found = {"device": "d", "stack": row["stack"] or "direct", "pace": row["pace"]}
        number = table.num_rows
        part = table
        for key, value in found.items():
            part = part.append_column(key, pa.array([value] * number))
        parts.append(part)
    result = {"runs": rows, "devices": [{"label": "d"}]}
    return View(Run("play", result, {"windows": pa.concat_tables(parts)}))


def rate(view: View) -> Figure | None:
    return charts.rate_over_time(view, view.rows[0])


def counted(lengths: list[float], counts: list[int]) -> View:
    return played(windows(lengths, op=["write"] * 4, requests=counts))


def test_play() -> None:
    figure = rate(counted(HALF, [100, 100, 100, 50]))
    assert drawn(figure) == (STARTS, [100.0] * 4)
    figure = rate(counted(SLIVER, [100, 100, 100, 7]))
    assert drawn(figure) == (STARTS[:3], [100.0] * 3)
    assert figure is not None
    assert figure.reading.endswith(LEFT_OUT)


def test_a_run_has_no_requests_in_a_pause() -> None:
    table = pa.table(
        {
            "start_s": [0.0, 1.0, 5.0, 6.0],
            "seconds": [1.0] * 4,
            "op": ["write"] * 4,
            "requests": [100] * 4,
        }
    )
    figure = rate(played(table))
    assert drawn(figure) == ([0.0, 1.0, 2.0, 4.0, 5.0, 6.0], [100.0, 100.0, 0.0, 0.0, 100.0, 100.0])


def test_many_windows_of_a_run_are_joined() -> None:
    number = 1000
    table = pa.table(
        {
            "start_s": [float(start) for start in range(number)],
            "seconds": [1.0] * (number - 1) + [0.5],
            "op": ["write"] * number,
            "requests": [3, 5] * (number // 2 - 1) + [4, 2],
            "mean_latency_ns": [5e6, 3e6] * (number // 2),
        }
    )
    view = played(table)
    starts, rates = drawn(rate(view))
    assert len(starts) == 250
    assert rates == pytest.approx([4.0] * 250)
    _, means = drawn(charts.latency_over_time(view, view.rows[0]))
    assert means[:-1] == pytest.approx([(3 * 5 + 5 * 3) / 8 / 1e3] * 249)


def test_stacks() -> None:
    view = played(windows(SLIVER, op=["write"] * 4, requests=[100, 100, 100, 7]), "none", "other")
    colours = Colours([row["label"] for row in view.rows])
    figure = charts.rates_of_runs(view, view.rows, "d0", colours)
    assert drawn(figure, "none") == (STARTS[:3], [100.0] * 3)
    assert figure is not None
    assert figure.reading.endswith(LEFT_OUT)


def ran(lengths: list[float], counts: list[int]) -> Run:
    p99 = [1e6, 1e6, 1e6, 9e9]
    table = windows(lengths, kind=["t"] * 4, count=counts, p99_ns=p99)
    return Run("bench", {"kinds": {"t": {}}, "checkpoints": []}, {"windows": table})


def test_run() -> None:
    figure = bench_run._over_time(ran(HALF, [100, 100, 100, 50]))
    assert drawn(figure, "all") == (STARTS, [100.0] * 4)
    figure = bench_run._over_time(ran(SLIVER, [100, 100, 100, 7]))
    assert drawn(figure, "all") == (STARTS[:3], [100.0] * 3)
    assert figure is not None
    assert figure.reading.endswith(LEFT_OUT)
    # The 99th percentile of a few transactions is their slowest.
    figure = bench_run._response_over_time(ran(SLIVER, [100, 100, 100, 7]))
    assert drawn(figure) == (STARTS[:3], [1.0] * 3)


def test_path() -> None:
    counts = [100, 100, 100, 7]
    names: dict[str, Any] = {"run": [1] * 4, "file_system": ["ext4"] * 4, "level": [""] * 4}
    found = Run("bench", {}, {"windows": windows(SLIVER, count=counts, **names)})
    figure = bench_figures.over_time(found)
    assert drawn(figure) == (STARTS[:3], [100.0] * 3)
    assert figure is not None
    assert figure.reading.endswith(LEFT_OUT)


def rates(lengths: list[float], written: list[int]) -> pa.Table:
    seconds = [0, 1, 2, 3]
    return pa.table(
        {
            "layer": ["device"] * 4,
            "op": ["write"] * 4,
            "second": seconds,
            "seconds": lengths,
            "bytes": written,
        }
    )


def test_waterfall() -> None:
    mib = 1 << 20
    figure = waterfall._over_time(rates(HALF, [mib, mib, mib, mib // 2]))
    assert drawn(figure) == ([0, 1, 2, 3], [1.0] * 4)
    figure = waterfall._over_time(rates(SLIVER, [mib, mib, mib, mib // 50]))
    assert drawn(figure) == ([0, 1, 2], [1.0] * 3)
    assert figure.reading.endswith(LEFT_OUT)
    # Folders of earlier versions do not say how long the last second is.
    figure = waterfall._over_time(rates(HALF, [mib] * 4).drop_columns(["seconds"]))
    assert drawn(figure) == ([0, 1, 2], [1.0] * 3)


def traced(duration_ns: int, written: list[int]) -> Figure | None:
    columns = {
        "start_ns": [0, 1024, 2048, 3072],
        "write_bytes": written,
        "read_bytes": [0] * 4,
        "distinct_pages": [10] * 4,
    }
    figures = {"page_bytes": 4096, "window_ns": 1024, "duration_ns": duration_ns, "requests": 4}
    return trace._over_time(columns, figures, timeless=False)


def test_recording_and_trace() -> None:
    mib = 1 << 20
    whole = traced(4095, [mib] * 4)
    assert drawn(whole, "written")[1] == [1.0] * 4
    # A working set cannot be scaled, so a window that is cut short is left out.
    cut = traced(3583, [mib, mib, mib, mib // 2])
    assert drawn(cut, "written")[1] == [1.0] * 3
    assert drawn(cut, "working set")[1] == drawn(whole, "working set")[1][:3]
    assert cut is not None
    assert cut.reading.endswith(LEFT_OUT)
