"""`transactions` in words: on the terminal, and in the report."""

from __future__ import annotations

from typing import Any

from flashwright._text import count, percent, short_count, short_time, significant, size, span
from flashwright.jobs.play.names import DIRECT
from flashwright.jobs.play.said import CAUSES
from flashwright.jobs.play.tables import COPIES, COPIES_HEADINGS, copies, copies_rows, counters
from flashwright.pages.figures import axes, time_axis, title
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.pages.tails import tail, tail_axes, tail_line
from flashwright.runs import Run
from flashwright.steady import rounded_up
from flashwright.terminal import print_table, say

TIMES = {
    "p50": "median",
    "p99": "99 %",
    "p999": "99.9 %",
    "p9999": "99.99 %",
    "worst_percent_mean": "worst 1 %",
    "max": "longest",
}
KIND_HEADINGS = (
    ("", "left"),
    *((name, "right") for name in ("committed", "mean", *TIMES.values())),
)
FIGURES_HEADINGS = (("", "left"), ("", "right"))
LAYER_HEADINGS = (("layer", "left"), ("what", "left"), ("number", "right"))
REQUESTS = {
    "read": "read",
    "write_back": "write back",
    "background_write": "background write",
    "log": "log",
}
WAITS = {
    "read": "waits for a page to be read",
    "write_back": "waits until a dirty victim is written",
    "lock": "waits for a lock",
    "log": "waits for the log",
    "restart": "waits to be restarted",
    "frame": "waits for a frame of the pool",
    "cpu": "the processor works",
    "think": "thinks, or is done",
}


def kind_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Give response times by kind of transaction, and of all."""
    by_kind = result["by_kind"]
    kinds = {kind: by_kind[kind] for kind in result["transactions"]["kinds"] if kind in by_kind}
    named = {**kinds, "all": result["response_ns"]}
    return [
        (
            name,
            count(one["count"]),
            *(short_time(one[key]) for key in ("mean", *TIMES)),
        )
        for name, one in named.items()
        if one["count"]
    ]


def figures(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Give the figures of a run with their names."""
    found = [
        ("transactions a second", significant(result["transactions_per_second"], 4)),
        ("committed", count(result["committed"])),
        ("over", span(result["seconds"])),
        ("mean response", short_time(result["response_ns"]["mean"])),
        ("mean of the worst 1 %", short_time(result["response_ns"]["worst_percent_mean"])),
        ("mean of the last attempt", short_time(result["last_attempt_ns"]["mean"])),
        ("restarts", count(result["restarts"])),
        ("restarts a transaction", significant(result["restarts_per_transaction"], 3)),
        ("pages found in the pool", percent(result["hits"] / max(result["accesses"], 1))),
    ]
    for key, what in REQUESTS.items():
        one = result["io_ns"][key]
        if one["count"]:
            found.append((f"{what}s", count(one["count"])))
            found.append((f"mean {what}", short_time(one["mean"])))
            found.append((f"{what}s blocked", percent(one["blocked"] / one["count"])))
    for name, share in _dies(result).items():
        if share:
            found.append((f"dies: {name}", percent(share)))
    return [*found, *copies(result["replication"])]


def _dies(result: dict[str, Any]) -> dict[str, float]:
    """Give the shares of the dies' time by what they did; nothing if that is not known."""
    shares = result["die_share"] or {}
    return {name: shares[cause] for cause, name in CAUSES.items() if cause in shares}


def tables(result: dict[str, Any]) -> list[Table]:
    """Give the tables of a run behind that of its figures."""
    found = [Table("Response times", KIND_HEADINGS, kind_rows(result))]
    if result["replication"] is not None:
        found.append(Table(COPIES, COPIES_HEADINGS, copies_rows(result["replication"])))
    if result["layers"]:
        found.append(Table("What layers did", LAYER_HEADINGS, list(counters(result["layers"]))))
    return found


def name(result: dict[str, Any]) -> str:
    """Give the title of a run."""
    about = result["transactions"]
    scale = "".join(f", {value:,} {unit}" for unit, value in about["scale"].items())
    stack = result["settings"]["stack"]
    through = "" if stack == DIRECT else f" through {stack}"
    return f"{about['name']} ({size(about['bytes'])}{scale}){through} on {result['device']['name']}"


def show(result: dict[str, Any]) -> None:
    """Print what clients saw."""
    print_table(FIGURES_HEADINGS, figures(result), name(result))
    for table in tables(result):
        print_table(table.columns, table.rows, table.title)
    for line in remarks(result):
        say(line)


def remarks(result: dict[str, Any]) -> list[str]:
    """Say what a reader has to know of the figures."""
    said = []
    warmed_up = result["settings"]["warm_up"] or 0
    if not result["complete"]:
        said.append("Stopped before its end: the figures are of what was played until then.")
    if result["steady"] is False:
        said.append(
            "Not steady: the throughput of the two halves differs by more than 5 %. Steady with "
            f"--warm-up {rounded_up(2 * result['committed'] + warmed_up)}, if that "
            "is the start of the run and no wave."
        )
    if result["die_share"] is not None and result["device"].get("state", {}).get("kind") != "aged":
        said.append(
            "The drive began "
            f"{result['device']['state']['kind']}: what fragmentation costs shows only when its "
            "spare space is used up."
        )
    return said


def page(run: Run) -> Page:
    """Build the report."""
    result = run.result
    drawn = [_curves(run), _client_time(result), _die_time(result)]
    over_time = [
        _over_time(run, "committed", "transactions a second", "throughput"),
        _responses(run),
        _over_time(run, "restarts", "restarts a second", "restarts"),
    ]
    sections = [("What clients see", drawn), ("Over time", over_time)]
    every = Table("Figures", FIGURES_HEADINGS, [*figures(result), *_settings(result)])
    return Page(
        kind="transactions",
        title=name(result),
        headline=_headline(result),
        facts=_facts(result),
        sections=[
            *(
                Section(name, [figure for figure in group if figure])
                for name, group in sections
                if any(group)
            ),
            Section("All figures", [*tables(result), every]),
        ],
        provenance=result["provenance"],
        remarks=remarks(result),
    )


def _headline(result: dict[str, Any]) -> str:
    rate = short_count(result["transactions_per_second"])
    mean = short_time(result["response_ns"]["mean"])
    worst = short_time(result["response_ns"]["worst_percent_mean"])
    so_far = " in a run that is not steady" if result["steady"] is False else ""
    return (
        f"{result['settings']['clients']} clients commit {rate} transactions a second{so_far}; one "
        f"takes {mean} on average, the worst 1 % {worst}."
    )


def _facts(result: dict[str, Any]) -> list[Fact]:
    response = result["response_ns"]
    return [
        Fact(
            "transactions a second",
            short_count(result["transactions_per_second"]),
            f"over {span(result['seconds'])} of the device's time",
        ),
        Fact(
            "mean response", short_time(response["mean"]), f"median {short_time(response['p50'])}"
        ),
        Fact("worst 1 %", short_time(response["worst_percent_mean"]), "their mean"),
        Fact(
            "restarts",
            short_count(result["restarts"]),
            f"{significant(result['restarts_per_transaction'], 3)} a transaction",
        ),
    ]


def _settings(result: dict[str, Any]) -> list[tuple[str, str]]:
    found = {
        **result["settings"],
        "on": result["device"]["name"],
        "locks": result["locks"],
        "pool": result["pool_pages"],
    }
    return [(name.replace("_", " "), str(value)) for name, value in found.items()]


def _curves(run: Run) -> Figure | None:
    if "response" not in run.tables:
        return None
    columns = run.tables["response"].to_pydict()
    data, least = [], 1.0
    for number, kind in enumerate(dict.fromkeys(columns["kind"])):
        rows = [row for row, other in enumerate(columns["kind"]) if other == kind]
        xs, ys = tail([columns["to_ns"][r] for r in rows], [columns["count"][r] for r in rows])
        data.append(tail_line(kind, xs, ys, f"@c{number % 12}"))
        least = min(least, *ys)
    reading = "From the first begin to the commit. The further left and the steeper, the better."
    return Figure("response", "Response times", reading, data, tail_axes(least), 480)


def _shares(identifier: str, name: str, reading: str, shares: dict[str, float]) -> Figure:
    shown = {label: share for label, share in shares.items() if share > 0.0005}
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(shown),
            "x": [100 * share for share in shown.values()],
            "marker": {"color": "@c0"},
            "text": [percent(share) for share in shown.values()],
            "hovertemplate": "%{y}: %{text}<extra></extra>",
        }
    ]
    layout = axes(title("% of the time", rangemode="tozero"), {"automargin": True})
    return Figure(identifier, name, reading, data, layout)


def _client_time(result: dict[str, Any]) -> Figure:
    shares = {said: result["client_share"][name] for name, said in WAITS.items()}
    return _shares("clients", "Time of the clients", "What a client does, or waits for.", shares)


def _die_time(result: dict[str, Any]) -> Figure | None:
    shares = _dies(result)
    reading = "What the drive's dies did meanwhile."
    return _shares("dies", "Time of the dies", reading, shares) if shares else None


_SECONDS = "seconds of the device's time"


def _line(name: str, xs: list[float], ys: list[float], colour: str) -> dict[str, Any]:
    mode = "lines" if len(xs) > 2 else "lines+markers"
    drawn = {"color": colour, "width": 1.4}
    return {"type": "scatter", "mode": mode, "name": name, "x": xs, "y": ys, "line": drawn}


def _over_time(run: Run, column: str, unit: str, identifier: str) -> Figure | None:
    if "windows" not in run.tables:
        return None
    columns = run.tables["windows"].to_pydict()
    ys = [
        number / seconds
        for number, seconds in zip(columns[column], columns["seconds"], strict=True)
    ]
    if not any(ys):
        return None
    layout = axes(title(_SECONDS), title(unit, rangemode="tozero"))
    name = f"{unit[0].upper()}{unit[1:]}"
    reading = f"In windows of {span(max(columns['seconds']))}."
    data = [_line(unit, columns["start_s"], ys, "@c0")]
    return Figure(identifier, name, reading, data, layout)


def _responses(run: Run) -> Figure | None:
    if "windows" not in run.tables:
        return None
    columns = run.tables["windows"].to_pydict()
    rows = [row for row, number in enumerate(columns["committed"]) if number]
    if not rows:
        return None
    starts = [columns["start_s"][row] for row in rows]
    data, values = [], []
    for name, column, colour in (
        ("mean", "mean_response_ns", "@c0"),
        ("longest", "max_response_ns", "@c3"),
    ):
        ys = [columns[column][row] / 1e9 for row in rows]
        values += ys
        data.append(_line(name, starts, ys, colour))
    layout = axes(title(_SECONDS), time_axis("response", values))
    reading = "Of the transactions that committed in a window."
    return Figure("response-time", "Response over time", reading, data, layout)
