"""REPLICATION's figures 4 to 6: what fragmentation does to transactions, without replication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from flashwright._text import percent, significant
from flashwright.reproduce.drives import fragmentation as runs
from flashwright.reproduce.pages import made_with, markdown_table
from flashwright.reproduce.registry import Made, Part, Request, Set

Found = tuple[list[list[str]], list[dict[str, Any]]]


@dataclass(frozen=True)
class Figures(Part):
    """A table of ours."""

    headings: tuple[str, ...]
    make: Callable[[], Found]
    remark: str


def _states() -> tuple[runs.State, ...]:
    return (runs.RESTORED, *runs.SUSTAINED)


def _benchmarks() -> Found:
    rows, documents = [], []
    for benchmark in runs.BENCHMARKS:
        restored = runs.play(benchmark, runs.RESTORED, runs.BASE)
        for state in _states():
            found = runs.play(benchmark, state, runs.BASE)
            rows.append([benchmark, state.name, *_cells(found, restored)])
            documents.append(_document(benchmark, state.name, runs.BASE, found, restored))
        if runs.REPLICATION:
            found = runs.play(benchmark, runs.SUSTAINED[0], runs.BASE, runs.REPLICATION)
            rows.append([benchmark, "sustained with replication", *_cells(found, restored)])
    return rows, documents


def _sweep() -> Found:
    rows, documents = [], []
    for setting in runs.SWEEP:
        restored = runs.play("TPC-C", runs.RESTORED, setting)
        for state in _states():
            found = runs.play("TPC-C", state, setting)
            rows.append([setting.name, state.name, *_cells(found, restored)])
            documents.append(_document("TPC-C", state.name, setting, found, restored))
    return rows, documents


def _cells(found: dict[str, Any], restored: dict[str, Any]) -> list[str]:
    ratios = runs.beside_restored(found, restored)
    return [
        significant(found["transactions_per_second"], 3),
        _change(ratios.throughput),
        _change(ratios.response),
        f"{found['restarts_per_transaction']:.4f}",
        "-" if ratios.restarts is None else _change(ratios.restarts),
        percent(ratios.busy),
        percent(ratios.internal),
        percent(ratios.idle),
    ]


def _change(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %"


def _document(
    benchmark: str,
    state: str,
    setting: runs.Setting,
    found: dict[str, Any],
    restored: dict[str, Any],
) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        "state": state,
        "setting": asdict(setting),
        **asdict(runs.beside_restored(found, restored)),
        "transactions_per_second": found["transactions_per_second"],
        "response_ns": found["response_ns"],
        "last_attempt_ns": found["last_attempt_ns"],
        "restarts_per_transaction": found["restarts_per_transaction"],
        "client_share": found["client_share"],
        "die_share": found["die_share"],
    }


_FIGURES = (
    "transactions/s",
    "throughput",
    "response",
    "restarts each",
    "restarts",
    "dies: host",
    "dies: internal",
    "dies: idle",
)
PUBLISHED = (
    "Published for TPC-C, sustained beside restored: throughput -71 %, response +100 %, restarts "
    "+200 %; chips busy with requests 14 % of the time. With ten clients that never think the "
    "first two contradict each other (Little: throughput times response is the number of clients) "
    "unless what is called response leaves something out, such as attempts that were restarted. "
    "Nor do the paper's own changes multiply up: -71 % and +176 % make -20 %, and -26 % is "
    "printed; +100 % and -59 % make -18 %, and +25 % is printed."
)
FIGURES = (
    Figures(
        "replication-4-6",
        "REPLICATION",
        "REPLICATION figures 4 to 6, without replication (`replication-table-2`)",
        ("benchmark", "state", *_FIGURES),
        _benchmarks,
        PUBLISHED,
    ),
    Figures(
        "replication-sweep",
        "REPLICATION",
        "What the paper does not say, TPC-C",
        ("setting", "state", *_FIGURES),
        _sweep,
        "Each setting differs from the base in the one thing that its name says. None is chosen.",
    ),
)


def _make(request: Request[Figures]) -> Made:
    lines = ["# Transactions on a fragmented drive", "", f"Made by `{request.command}`.", ""]
    document: dict[str, Any] = {}
    for part in request.parts:
        rows, documents = part.make()
        table = markdown_table(part.headings, rows)
        lines += [f"## {part.name}: {part.title}", "", part.remark, "", table, ""]
        document[part.name] = documents
    lines += [made_with(), ""]
    return Made("\n".join(lines), document)


SET: Set[Figures] = Set(
    "figures-transactions",
    "transactions on a fragmented drive, beside REPLICATION's figures",
    "ten minutes",
    FIGURES,
    _make,
)
