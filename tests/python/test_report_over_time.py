"""Charts over time: a last window that the end of a run cuts short is not drawn as if whole."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flashwright.reports import layer_figures, path_figures, replay, run, trace, waterfall
from flashwright.reports.figures import LEFT_OUT, Colours, Windows
from flashwright.reports.page import Figure
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


def replayed(lengths: list[float], counts: list[int]) -> Run:
    table = windows(lengths, op=["write"] * 4, requests=counts)
    return Run("replay", {}, {"windows": table})


def test_replay() -> None:
    figure = replay._rate_over_time(replayed(HALF, [100, 100, 100, 50]))
    assert drawn(figure) == (STARTS, [100.0] * 4)
    figure = replay._rate_over_time(replayed(SLIVER, [100, 100, 100, 7]))
    assert drawn(figure) == (STARTS[:3], [100.0] * 3)
    assert figure is not None
    assert figure.reading.endswith(LEFT_OUT)


def test_replay_has_no_requests_in_a_pause() -> None:
    table = pa.table(
        {
            "start_s": [0.0, 1.0, 5.0, 6.0],
            "seconds": [1.0] * 4,
            "op": ["write"] * 4,
            "requests": [100] * 4,
        }
    )
    figure = replay._rate_over_time(Run("replay", {}, {"windows": table}))
    assert drawn(figure) == ([0.0, 1.0, 2.0, 4.0, 5.0, 6.0], [100.0, 100.0, 0.0, 0.0, 100.0, 100.0])


def test_layers() -> None:
    table = windows(SLIVER, requests=[100, 100, 100, 7], drive=["d"] * 4, stack=["none"] * 4)
    found = Run("layers", {}, {"windows": table})
    figure = layer_figures.over_time(found, "d", "d0", Colours(["none"]))
    assert drawn(figure) == (STARTS[:3], [100.0] * 3)
    assert figure is not None
    assert figure.reading.endswith(LEFT_OUT)


def ran(lengths: list[float], counts: list[int]) -> Run:
    p99 = [1e6, 1e6, 1e6, 9e9]
    table = windows(lengths, kind=["t"] * 4, count=counts, p99_ns=p99)
    return Run("run", {"kinds": {"t": {}}, "checkpoints": []}, {"windows": table})


def test_run() -> None:
    figure = run._over_time(ran(HALF, [100, 100, 100, 50]))
    assert drawn(figure, "all") == (STARTS, [100.0] * 4)
    figure = run._over_time(ran(SLIVER, [100, 100, 100, 7]))
    assert drawn(figure, "all") == (STARTS[:3], [100.0] * 3)
    assert figure is not None
    assert figure.reading.endswith(LEFT_OUT)
    # The 99th percentile of a few transactions is their slowest.
    figure = run._response_over_time(ran(SLIVER, [100, 100, 100, 7]))
    assert drawn(figure) == (STARTS[:3], [1.0] * 3)


def test_path() -> None:
    counts = [100, 100, 100, 7]
    names: dict[str, Any] = {"run": [1] * 4, "file_system": ["ext4"] * 4, "level": [""] * 4}
    found = Run("path", {}, {"windows": windows(SLIVER, count=counts, **names)})
    figure = path_figures.over_time(found)
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
