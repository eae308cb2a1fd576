"""The figures of benches side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashwright._text import significant
from flashwright.pages.figures import Colours, Windows, axes, log_axis, time_axis, title
from flashwright.pages.page import Figure
from flashwright.reports.bench_summary import median, pairs
from flashwright.runs import Run

Cell = dict[str, Any]
MB = 1e6
KIB = 1024
_WIDE = 10
_LAYERS = {"called": "called", "queued": "sent", "issued": "got"}
_BAR_PX, _GAP_PX, _LEGEND_PX, _MARGINS_PX = 8, 14, 12, 130
"""Of a figure whose bars lie: the width of a bar, between two cells, of a line of the legend, and
around all.
"""


def throughput(result: dict[str, Any]) -> Figure | None:
    """Draw transactions a second by level: figures 5.5 and 5.9 to 5.12 of SCHEDULER."""
    reading = "Transactions a second"
    reading += (
        "; the whiskers are the least and the most of the repeats."
        if result["repeats"] > 1
        else ", of one run each."
    )
    return _by_level(
        result,
        "throughput",
        "Throughput",
        reading,
        "transactions_per_second",
        "transactions a second",
    )


def ratio(result: dict[str, Any]) -> Figure | None:
    """Draw how much faster a file system out of place is than one in place, by level."""
    text = pairs(result["cells"], "transactions_per_second")
    if len(text) < 2:
        return None
    _, out, inside, _ = text[0]
    data = [
        {
            "type": "bar",
            "x": [_named(level) for level, *_ in text],
            "y": [value for *_, value in text],
            "text": [significant(value) for *_, value in text],
            "marker": {"color": "@c1"},
        }
    ]
    one = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": 1,
        "y1": 1,
        "line": {"color": "@ink", "dash": "dash", "width": 1},
    }
    layout = axes(
        _names_axis(result),
        title(f"{out} / {inside}", rangemode="tozero"),
        shapes=[one],
        showlegend=False,
    )
    reading = (
        f"Above the line {out}, which writes out of place, is faster than {inside}, which writes "
        "in place."
    )
    return Figure("ratio", "Out of place against in place", reading, data, layout)


def responses(result: dict[str, Any]) -> Figure | None:
    """Draw quantiles of the response times."""
    series = {
        name: [(median(cell, f"response_{name}_ns") or 0.0) / 1e9 for cell in result["cells"]]
        for name in ("p50", "p95", "p99")
    }
    along = time_axis("time", [value for values in series.values() for value in values])
    reading = "What half, 95 % and 99 % of the transactions did not exceed."
    return _side_by_side(result, "responses", "Response times", reading, series, along)


def layers(result: dict[str, Any]) -> list[Figure | None]:
    """Draw rates, mean sizes, and bytes for each transaction.

    As figures 5.6 to 5.8 of SCHEDULER do.
    """
    return [
        _rates(result),
        _stacked(
            result,
            "sizes",
            "Mean sizes of requests",
            "Called by the database, sent by the file system, got by the device: in between, the "
            "block layer merges what lies side by side and splits what is too large.",
            "_mean_{op}_bytes",
            KIB,
            "KiB",
        ),
        _per_transaction(result),
        _by_level(
            result,
            "added",
            "What the file system adds",
            "Bytes that the device got for each that the database wrote: journal, tables, and what "
            "is rewritten out of place.",
            "device_amplification",
            "bytes of the device / bytes called",
        ),
        _flushes(result),
    ]


def drive(result: dict[str, Any]) -> list[Figure | None]:
    """Draw what the simulated drive made of it, and how long it lives."""
    name = "" if result["drive"] is None else result["drive"]["name"]
    amplification = _by_level(
        result,
        "amplification",
        "Write amplification in flash",
        f"Pages that {name} (simulated) programs for each page that it is given.",
        "drive_write_amplification",
        "pages programmed / pages written",
    )
    speed = _by_level(
        result,
        "drive-speed",
        "What the drive would allow",
        f"Transactions a second if nothing but {name} (simulated) took time: below the measured "
        "ones, that drive would be the limit.",
        "drive_most_transactions_per_second",
        "transactions a second, at most",
    )
    by_cycles = _by_level(
        result,
        "life",
        "Life by cycles",
        "Years until the whole drive's erases are used up, at the measured rate day and night.",
        "life_years",
        "years",
    )
    by_guarantee = _by_level(
        result,
        "life-by-guarantee",
        "Life by the maker's guarantee",
        "Years until the guaranteed bytes are written, at the measured rate day and night: "
        "SCHEDULER table 5.4.",
        "life_years_by_guarantee",
        "years",
    )
    return [amplification, speed, by_cycles, by_guarantee]


def over_time(run: Run) -> Figure | None:
    """Draw the throughput of the first run of each cell over time."""
    windows = run.tables.get("windows")
    if windows is None:
        return None
    first: dict[tuple[str, str], int] = {}
    sums: dict[int, dict[float, float]] = {}
    lengths: dict[int, dict[float, float]] = {}
    columns = windows.to_pydict()
    names = ("run", "file_system", "level", "start_s", "seconds", "count")
    for number, file_system, level, start, seconds, done in zip(
        *(columns[name] for name in names), strict=True
    ):
        if first.setdefault((file_system, level), number) != number:
            continue
        of_run = sums.setdefault(number, {})
        of_run[start] = of_run.get(start, 0.0) + done / seconds
        lengths.setdefault(number, {})[start] = seconds
    note = ""
    for number, found in sums.items():
        kept = Windows(lengths[number], lengths[number].values())
        sums[number] = {start: rate for start, rate in found.items() if kept.is_drawn(start)}
        note = note or kept.note
    labels = {
        number: f"{file_system} {_named(level)}".strip()
        for (file_system, level), number in first.items()
    }
    colours = Colours(list(labels.values()))
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": labels[number],
            "x": list(found),
            "y": list(found.values()),
            "line": {
                "color": colours[labels[number]],
                "width": 1.6,
                "dash": colours.dash(labels[number]),
            },
        }
        for number, found in sums.items()
        if len(found) > 1
    ]
    if not data:
        return None
    layout = axes(
        title("seconds of the measurement"), title("transactions a second", rangemode="tozero")
    )
    return Figure(
        "over-time",
        "Throughput over time",
        f"The first run of each: dips that come at intervals are checkpoints.{note}",
        data,
        layout,
    )


def _by_level(
    result: dict[str, Any], key: str, heading: str, reading: str, figure: str, unit: str
) -> Figure | None:
    cells = [cell for cell in result["cells"] if median(cell, figure) is not None]
    if not cells:
        return None
    if not any(cell["level"] for cell in cells):
        data = [_bars("", [cell["file_system"] for cell in cells], cells, figure, {"color": "@c0"})]
        return Figure(
            key,
            heading,
            reading,
            data,
            axes(_category(), title(unit, rangemode="tozero"), showlegend=False),
        )
    file_systems = list(dict.fromkeys(cell["file_system"] for cell in cells))
    colours = Colours(file_systems)
    data = []
    for name in file_systems:
        own = [cell for cell in cells if cell["file_system"] == name]
        if all(cell["value"] is not None for cell in own):
            own.sort(key=lambda cell: cell["value"])
            line = {
                "line": {"color": colours[name], "width": 2},
                "marker": {"size": 9, "symbol": colours.symbol(name)},
            }
            drawn = {"type": "scatter", "mode": "lines+markers", **line}
            data.append(
                {
                    **_bars(name, [cell["value"] for cell in own], own, figure, colours.fill(name)),
                    **drawn,
                }
            )
        else:
            data.append(
                _bars(
                    name, [_named(cell["level"]) for cell in own], own, figure, colours.fill(name)
                )
            )
    return Figure(
        key,
        heading,
        reading,
        data,
        axes(_level_axis(result, cells), title(unit, rangemode="tozero"), barmode="group"),
    )


def _bars(
    name: str, x: Sequence[Any], cells: Sequence[Cell], figure: str, fill: Mapping[str, Any]
) -> dict[str, Any]:
    found = [cell["figures"][figure] for cell in cells]
    whiskers = {
        "type": "data",
        "array": [one["most"] - one["median"] for one in found],
        "arrayminus": [one["median"] - one["least"] for one in found],
        "visible": any(cell["runs"] > 1 for cell in cells),
    }
    y = [one["median"] for one in found]
    return {
        "type": "bar",
        "name": name,
        "x": list(x),
        "y": y,
        "error_y": whiskers,
        "marker": dict(fill),
    }


def _level_axis(result: dict[str, Any], cells: Sequence[Cell]) -> dict[str, Any]:
    axis = result["axis"]
    values = [cell["value"] for cell in cells]
    if any(value is None for value in values):
        return _names_axis(result)
    return log_axis(axis["title"], values) if axis["is_log"] else title(axis["title"])


def _names_axis(result: dict[str, Any]) -> dict[str, Any]:
    return title(result["axis"]["title"], type="category", showgrid=False)


def _category() -> dict[str, Any]:
    return {"type": "category", "showgrid": False}


def _named(level: str) -> str:
    return level.replace("_", " ")


def _labels(result: dict[str, Any]) -> list[str]:
    file_systems = {cell["file_system"] for cell in result["cells"]}
    return [
        _named(cell["level"])
        if cell["level"] and len(file_systems) == 1
        else f"{cell['file_system']} {_named(cell['level'])}".strip()
        for cell in result["cells"]
    ]


def _rates(result: dict[str, Any]) -> Figure | None:
    reading = (
        "Bytes a second that the database calls for, the file system sends, and the device gets. "
        "The page cache absorbs most reads."
    )
    return _stacked(
        result, "rates", "Reads and writes by layer", reading, "_{op}_bytes_per_second", MB, "MB/s"
    )


def _stacked(
    result: dict[str, Any],
    key: str,
    heading: str,
    reading: str,
    pattern: str,
    scale: float,
    unit: str,
) -> Figure | None:
    series = {
        f"{op}s {_LAYERS[layer]}": [
            (median(cell, layer + pattern.format(op=op)) or 0.0) / scale for cell in result["cells"]
        ]
        for op in ("write", "read")
        for layer in _LAYERS
    }
    return _side_by_side(result, key, heading, reading, series, title(unit, rangemode="tozero"))


def _side_by_side(
    result: dict[str, Any],
    key: str,
    heading: str,
    reading: str,
    series: Mapping[str, Sequence[float]],
    along: dict[str, Any],
) -> Figure | None:
    """Draw several values of each cell as bars that lie.

    So that its name has room on any screen.
    """
    labels = _labels(result)
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": labels,
            "x": list(values),
            "marker": {"color": f"@c{place}"},
        }
        for place, (name, values) in enumerate(series.items())
        if any(values)
    ]
    if not data:
        return None
    names = {
        "type": "category",
        "autorange": "reversed",
        "showgrid": False,
        "ticks": "",
        "dtick": 1,
    }
    layout = axes(along, names, barmode="group", bargap=0.25)
    # The legend takes a line for every two or three of them.
    height = _MARGINS_PX + len(labels) * (_BAR_PX * len(data) + _GAP_PX) + _LEGEND_PX * len(data)
    return Figure(key, heading, reading, data, layout, height)


def _per_transaction(result: dict[str, Any]) -> Figure | None:
    names = {
        "called_write_bytes_per_transaction": "called",
        "queued_write_bytes_per_transaction": "sent",
        "issued_write_bytes_per_transaction": "got",
        "drive_flash_write_bytes_per_transaction": "in flash",
    }
    series = {
        said: [(median(cell, name) or 0.0) / KIB for cell in result["cells"]]
        for name, said in names.items()
    }
    values = [value for found in series.values() for value in found if value > 0]
    if not values:
        return None
    # A drive that merges whole blocks programs many times what it is given.
    is_wide = max(values) > _WIDE * min(values)
    unit = "KiB written for each transaction"
    along = log_axis(unit, values) if is_wide else title(unit, rangemode="tozero")
    reading = (
        "Free of speed: what a transaction costs, called by the database, sent by the file system, "
        "got by the device, and programmed in flash (simulated)."
    )
    return _side_by_side(
        result, "per-transaction", "Written for each transaction", reading, series, along
    )


def _flushes(result: dict[str, Any]) -> Figure | None:
    reading = (
        "How often the file system has the device write out its cache: each commit that must last, "
        "and its own."
    )
    return _by_level(
        result,
        "flushes",
        "Flushes",
        reading,
        "queued_flushes_per_transaction",
        "flushes queued for each transaction",
    )
