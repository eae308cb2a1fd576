"""REPLICATION's figure 7 and tables 3 to 5: the layer `replicas` on simulated real drives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from experiments.drives import replicated as runs
from experiments.pages import OUT, markdown_table, page, write_report
from experiments.registry import Made, Part, Request, Set
from experiments.tables import section
from flashwright._text import percent, short_time, significant
from flashwright.jobs.transactions.run import steady
from flashwright.pages.figures import Colours, axes, title
from flashwright.pages.page import Figure, Page, Section, Table

Rows = list[list[str]]
RESPONSE_PUBLISHED = "-14 ... -22 %"
"""Of all benchmarks and drives (5.3); what figure 7 shows of each is an image."""
WORST_PUBLISHED = {"TPC-C": "-20 ... -39 %"}
PUBLISHED_4: Mapping[tuple[str, str, str], float] = {
    (kind.profile, policy, benchmark): share
    for kind, policy, shares in (
        (runs.X25E, "lru", (0.082, 0.074, 0.065)),
        (runs.X25E, "pblru", (0.054, 0.052, 0.049)),
        (runs.OCZ, "lru", (0.073, 0.062, 0.054)),
        (runs.OCZ, "pblru", (0.039, 0.041, 0.035)),
    )
    for benchmark, share in zip(runs.BENCHMARKS, shares, strict=True)
}
PUBLISHED_5: Mapping[str, tuple[str, str, str]] = {
    "replication": ("+16 %", "-15 %", "103.9 %"),
    "CFLRU/E": ("+5 %", "-7 %", "90.5 %"),
    "CFLRU/E, replication": ("+18 %", "-19 %", "97.8 %"),
}


@dataclass(frozen=True)
class Piece(Part):
    """A table of ours, and the cases that it is of."""

    headings: tuple[str, ...]
    rows: Callable[[runs.Scale], Rows]
    cases: Callable[[runs.Scale], Sequence[runs.Case]]
    remark: str
    figures: Callable[[runs.Scale], list[Figure]] = lambda _: []


def _pairs(scale: runs.Scale) -> Iterator[tuple[runs.Case, runs.Case]]:
    """Give each drive and benchmark without replicas and with them."""
    for kind in runs.KINDS:
        for benchmark in runs.BENCHMARKS:
            alone = runs.Case(kind, benchmark, scale=scale)
            yield alone, runs.Case(kind, benchmark, "pblru", scale=scale)


def _settings(scale: runs.Scale) -> Iterator[tuple[runs.Case, runs.Case]]:
    """Give TPC-C without replicas and with them, in each setting."""
    for kind in runs.SWEPT:
        for setting in runs.SETTINGS:
            if setting.is_of_page_maps and kind.log_bytes:
                continue
            alone = runs.Case(kind, "TPC-C", setting=setting, scale=scale)
            yield alone, runs.Case(kind, "TPC-C", "pblru", setting=setting, scale=scale)


def _both(pairs: Iterator[tuple[runs.Case, runs.Case]]) -> list[runs.Case]:
    return [case for pair in pairs for case in pair]


def change(found: Mapping[str, Any], alone: Mapping[str, Any], key: str) -> float:
    """Give by which share a response time changes: `mean`, or `worst_percent_mean`."""
    return float(found["response_ns"][key] / alone["response_ns"][key] - 1)


def _signed(share: float) -> str:
    return f"{100 * share:+.1f} %"


def _rate(found: Mapping[str, Any]) -> str:
    mark = "*" if steady(found["tables"]) is False else ""
    return significant(found["transactions_per_second"], 3) + mark


def _gain_cells(found: Mapping[str, Any], alone: Mapping[str, Any]) -> list[str]:
    cells = [_rate(alone), _rate(found)]
    for key in ("mean", "worst_percent_mean"):
        cells += [
            short_time(alone["response_ns"][key]),
            short_time(found["response_ns"][key]),
            _signed(change(found, alone, key)),
        ]
    return cells


def _figure_7(scale: runs.Scale) -> Rows:
    rows = []
    for alone, copied in _pairs(scale):
        cells = _gain_cells(runs.play(copied), runs.play(alone))
        cells.insert(5, RESPONSE_PUBLISHED)
        worst = WORST_PUBLISHED.get(alone.benchmark, "")
        rows.append([f"`{alone.kind.profile}`", alone.benchmark, *cells, worst])
    return rows


def _each(found: Mapping[str, Any], wait: str) -> str:
    """Give what one transaction waits for something, in the mean: restarts are in it."""
    clients = sum(found["client_share"].values())
    share = found["client_share"][wait] / max(clients, 1e-9)
    return short_time(share * found["response_ns"]["mean"])


def _causes(scale: runs.Scale) -> Rows:
    rows = []
    for pair in _pairs(scale):
        for case in pair:
            found = runs.play(case)
            io, dies = found["io_ns"], found["die_share"]
            rows.append(
                [
                    f"`{case.kind.profile}`",
                    case.benchmark,
                    case.policy or "none",
                    *(_each(found, wait) for wait in ("read", "write_back", "restart")),
                    *(
                        short_time(io[kind][key])
                        for kind in ("read", "write_back")
                        for key in ("mean", "p99")
                    ),
                    *(percent(dies[name]) for name in ("host", "cleaning", "idle")),
                    significant(found["flash"]["page_programs"] / found["committed"], 3),
                ]
            )
    return rows


LEAST = 0.005
"""Share of the response time below which a delay is left out."""


def _drive_cases(scale: runs.Scale) -> list[runs.Case]:
    return [runs.Case(kind, "TPC-C", scale=scale) for kind in runs.KINDS]


def _delays(scale: runs.Scale) -> Rows:
    rows = []
    for case in _drive_cases(scale):
        found = runs.delays(case)
        shares = {name: share for name, share in found.items() if name != "mean_ns"}
        by_size = sorted(shares.items(), key=lambda one: -one[1])
        said = ", ".join(
            f"{name.replace('_', ' ')} {percent(share)}" for name, share in by_size if share > LEAST
        )
        rows.append([f"`{case.kind.profile}`", short_time(found["mean_ns"]), said])
    return rows


def _shares(shares: Sequence[float]) -> str:
    return " / ".join(f"{100 * share:.1f}" for share in shares)


def _layer(scale: runs.Scale) -> Rows:
    rows = []
    for _, case in _pairs(scale):
        found = runs.play(case)
        counted = runs.counters(found)
        extra = max(counted["extra_writes"], 1)
        blocked = [
            counted[f"blocked_{kind}s"] / max(found["io_ns"][name]["count"], 1)
            for kind, name in (("read", "read"), ("write", "write_back"))
        ]
        rows.append(
            [
                f"`{case.kind.profile}`",
                case.benchmark,
                " / ".join(
                    short_time(counted[f"{kind}_patience_ns"]) for kind in ("read", "write")
                ),
                *map(percent, blocked),
                *(_shares(runs.calls(found, kind)) for kind in ("rread", "rwrite")),
                percent(1 - counted["read_replicas"] / extra),
                *(str(counted[name]) for name in ("replicas", "evicted", "given_up")),
            ]
        )
    return rows


def _table_4_cases(scale: runs.Scale) -> list[runs.Case]:
    return [
        runs.Case(kind, benchmark, policy, scale=scale)
        for kind in (runs.X25E, runs.OCZ)
        for policy in runs.POLICIES
        for benchmark in runs.BENCHMARKS
    ]


def _table_4(scale: runs.Scale) -> Rows:
    rows = []
    for case in _table_4_cases(scale):
        found = runs.play(case)
        counted = runs.counters(found)
        rows.append(
            [
                f"`{case.kind.profile}`",
                case.policy,
                case.benchmark,
                percent(PUBLISHED_4[case.kind.profile, case.policy, case.benchmark]),
                percent(runs.extra_writes(found)),
                percent(1 - counted["read_replicas"] / max(counted["extra_writes"], 1)),
                str(counted["evicted"]),
            ]
        )
    return rows


def _table_5_cases(scale: runs.Scale) -> dict[str, runs.Case]:
    def case(policy: str, buffer: str) -> runs.Case:
        return runs.Case(runs.OCZ, "TPC-C", policy, buffer, scale=scale)

    return {
        "neither": case("", "lru"),
        "replication": case("pblru", "lru"),
        "CFLRU/E": case("", runs.CFLRU_E),
        "CFLRU/E, replication": case("pblru", runs.CFLRU_E),
    }


def _table_5(scale: runs.Scale) -> Rows:
    cases = _table_5_cases(scale)
    alone = runs.play(cases["neither"])
    rows = []
    for name, case in cases.items():
        found = runs.play(case)
        rate, response, writes = PUBLISHED_5.get(name, ("", "", ""))
        faster = found["transactions_per_second"] / alone["transactions_per_second"] - 1
        rows.append(
            [
                name,
                _rate(found),
                rate,
                _signed(faster),
                response,
                _signed(change(found, alone, "mean")),
                writes,
                percent(runs.writes_each(found) / runs.writes_each(alone)),
                percent(found["hits"] / max(found["accesses"], 1)),
            ]
        )
    return rows


def _setting_rows(scale: runs.Scale) -> Rows:
    rows = []
    for alone, copied in _settings(scale):
        before, after = runs.play(alone), runs.play(copied)
        rows.append(
            [
                f"`{alone.kind.profile}`",
                alone.setting.name,
                *_gain_cells(after, before),
                percent(runs.extra_writes(after)),
                percent(before["die_share"]["idle"]),
            ]
        )
    return rows


def _bars(identifier: str, name: str, scale: runs.Scale, key: str, published: str) -> Figure:
    colours = Colours(list(runs.BENCHMARKS))
    data = []
    for benchmark in runs.BENCHMARKS:
        pairs = [pair for pair in _pairs(scale) if pair[0].benchmark == benchmark]
        shares = [100 * change(runs.play(copied), runs.play(alone), key) for alone, copied in pairs]
        data.append(
            {
                "type": "bar",
                "name": benchmark,
                "x": [alone.kind.profile for alone, _ in pairs],
                "y": shares,
                "marker": colours.fill(benchmark),
                "hovertemplate": "%{x}: %{y:+.1f} %<extra></extra>",
            }
        )
    layout = axes({"automargin": True}, title("change, %")) | {"barmode": "group"}
    reading = f"With replicas beside without; below zero is better. Published: {published}."
    return Figure(identifier, name, reading, data, layout)


def _figures_7(scale: runs.Scale) -> list[Figure]:
    worst = f"TPC-C {WORST_PUBLISHED['TPC-C']}"
    return [
        _bars("response", "Mean response", scale, "mean", RESPONSE_PUBLISHED),
        _bars("worst", "Mean of the worst 1 %", scale, "worst_percent_mean", worst),
    ]


_GAIN = (
    "transactions/s alone",
    "replicas",
    "response alone",
    "with replicas",
    "change",
    "worst 1 % alone",
    "its replicas",
    "its change",
)
PIECES = (
    Piece(
        "replication-7",
        "REPLICATION",
        "figure 7: response with the layer `replicas` and without",
        (
            "drive",
            "benchmark",
            *_GAIN[:5],
            "published",
            *_GAIN[5:],
            "published worst 1 %",
        ),
        _figure_7,
        lambda scale: _both(_pairs(scale)),
        "PBLRU, budget 10 % of the database. With ten clients that never think throughput and "
        "mean response say the same. `*`: the two halves of the time differ by more than 5 %.",
        _figures_7,
    ),
    Piece(
        "replication-7-causes",
        "REPLICATION",
        "what transactions wait for, and what dies do",
        (
            "drive",
            "benchmark",
            "replicas",
            "read, each",
            "write-back, each",
            "restart, each",
            "read mean",
            "read 99 %",
            "write-back mean",
            "write-back 99 %",
            "dies: host",
            "dies: cleaning",
            "dies: idle",
            "programs, each",
        ),
        _causes,
        lambda scale: _both(_pairs(scale)),
        "Of each transaction: what it waits for reads, for the write of a dirty victim and before "
        "a restart, and the flash pages that are programmed. Reads and write-backs as the pool "
        "sees them, above the layer.",
    ),
    Piece(
        "replication-7-drive",
        "REPLICATION",
        "what requests wait for in the drive",
        ("drive", "mean", "shares of it"),
        _delays,
        _drive_cases,
        "Requests at random over the TPC-C database, of 8 KiB, ten outstanding, reads in the share "
        "that the pool asks for. `queue` is the road to the flash: the drive's queue, its link and "
        "its controller; `service` the work on the request itself. What copies can go round is "
        "`cleaning`, `erase` and `die busy`.",
    ),
    Piece(
        "replication-7-layer",
        "REPLICATION",
        "what the layer does; table 3",
        (
            "drive",
            "benchmark",
            "patience D of reads / writes",
            "reads blocked",
            "writes blocked",
            "RRead of 1 / 2 / 3, %",
            "RWrite, %",
            "extra writes by writes",
            "replicas kept",
            "evicted",
            "given up",
        ),
        _layer,
        lambda scale: [copied for _, copied in _pairs(scale)],
        "Published (Mtron): RRead 80.2 / 18.5 / 1.3 %, RWrite 54.2 / 39.9 / 5.9 %; over 90 % of "
        "the extra writes are by writes. Blocked: commands below the layer that took longer than "
        "D, for each read or write-back of the pool.",
    ),
    Piece(
        "replication-table-4",
        "REPLICATION",
        "table 4: extra writes",
        (
            "drive",
            "policy",
            "benchmark",
            "published",
            "extra writes",
            "of them by writes",
            "evicted",
        ),
        _table_4,
        _table_4_cases,
        "Replicas written for each page that the host writes.",
    ),
    Piece(
        "replication-table-5",
        "REPLICATION",
        "table 5: CFLRU/E and replication, TPC-C on the OCZ",
        (
            "",
            "transactions/s",
            "published",
            "throughput",
            "published response",
            "response",
            "published writes",
            "writes",
            "found in the pool",
        ),
        _table_5,
        lambda scale: list(_table_5_cases(scale).values()),
        "Beside LRU without replication. Writes: pages written to the device for each transaction, "
        "replicas among them, beside those of LRU. CFLRU/E looks at half of the pool's frames, and "
        "takes a request for blocked after the patience D that the layer has found.",
    ),
    Piece(
        "replication-7-settings",
        "REPLICATION",
        "what the paper does not say, TPC-C",
        ("drive", "setting", *_GAIN, "extra writes", "dies idle alone"),
        _setting_rows,
        lambda scale: _both(_settings(scale)),
        "Each setting differs from the first in the one thing that its name says. None is chosen.",
    ),
)


def _document(case: runs.Case) -> dict[str, Any]:
    found = runs.play(case)
    kept = (
        "transactions_per_second",
        "response_ns",
        "restarts_per_transaction",
        "io_ns",
        "client_share",
        "die_share",
        "flash",
        "warm_up_transactions",
        "warm_up_seconds",
        "committed",
        "seconds",
        "database_bytes",
        "capacity_bytes",
        "pool_pages",
        "stack",
    )
    return {
        "case": asdict(case),
        **{name: found[name] for name in kept},
        "layer": runs.counters(found),
        "extra_writes": runs.extra_writes(found),
    }


def _drives(scale: runs.Scale) -> str:
    headings = ("profile", "for", "partitions", "capacity", "database", "share", "state", "seconds")
    rows = []
    for kind in runs.KINDS:
        found = runs.play(runs.Case(kind, "TPC-C", scale=scale))
        share = found["database_bytes"] / found["capacity_bytes"]
        state = f"loaded, {found['warm_up_transactions']:,} transactions before"
        rows.append(
            [
                f"`{kind.profile}` {' '.join(kind.cut)}".strip(),
                f"{kind.paper}, {kind.paper_gb:g} GB",
                str(kind.partitions),
                f"{found['capacity_bytes'] / 1e9:.1f} GB",
                f"{found['database_bytes'] / 1e9:.1f} GB",
                percent(share),
                state,
                f"{found['warm_up_seconds']:.0f} + {found['seconds']:.0f}",
            ]
        )
    return markdown_table(headings, rows)


TITLE = "Copies in a layer over real drives"


def _make(request: Request[Piece], scale: runs.Scale = runs.FULL) -> Made:
    texts = ["TPC-C without replicas, ten clients, no log, seed 1:", _drives(scale)]
    document: dict[str, Any] = {}
    blocks: list[Figure | Table] = []
    for part in request.parts:
        cases = part.cases(scale)
        sys.stderr.write(f"figures-replicas: {part.name}, {len(cases)} plays ...\n")
        runs.play_all(cases)
        rows = part.rows(scale)
        texts += [section(part, rows)]
        document[part.name] = [_document(case) for case in cases]
        blocks += part.figures(scale)
        columns = [(one, "left") for one in part.headings]
        plain = [[cell.replace("`", "") for cell in row] for row in rows]
        blocks.append(Table(part.title.replace("`", ""), columns, plain))
    report = Page(
        kind="figures",
        title=TITLE,
        headline="Figure 7 and tables 3 to 5 of He, Yu & Zhou (2015), on simulated drives.",
        facts=[],
        sections=[Section("REPLICATION", blocks)],
        provenance=dict(request.provenance),
    )
    write_report(request.options["out"] / "figures-replicas", report, document)
    return Made(page(TITLE, request.command, "", texts), document, drawn=report.figures())


SET: Set[Piece] = Set(
    "figures-replicas",
    "the layer `replicas` under transactions, beside REPLICATION's figure 7 and tables 3 to 5",
    "ten minutes",
    PIECES,
    _make,
    (OUT,),
)
