"""SCHEDULER's figures 5.5 to 5.12, 7.2 and 7.3 and table 5.4 as a set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from experiments.pages import OUT, markdown_table, page, writable
from experiments.registry import Made, Outcome, Part, Request, Set, option
from experiments.ssb.kept import Kept
from experiments.tpcc import cells, judged
from experiments.tpcc.cells import Cell, Conditions
from experiments.tpcc.judged import FORM, SHORT, Found
from experiments.tpcc.measuring import FILE_SYSTEM, SIZE_BYTES, STATE, Measuring
from flashwright._core import Cancelled
from flashwright._text import significant, size
from flashwright.pages import figures
from flashwright.pages.page import Figure
from flashwright.progress import follow

NAME = "figures-tpcc"
TITLE = "TPC-C over the drives of SCHEDULER, in place and in a log"
FOLDER = Path("/var/tmp")  # noqa: S108
HEADINGS = (
    "drive",
    "form",
    "buffer",
    "mix",
    "scheduler",
    "transactions/s",
    "logical reads, MB/s",
    "logical writes",
    "physical reads",
    "physical writes",
    "mean physical write, KiB",
    "segments cleaned",
    "processors busy",
)


@dataclass(frozen=True)
class Figured(Part):
    """A figure: its cells, and what it says."""

    cells: tuple[Cell, ...]
    judge: Callable[[str, Found], Iterator[Outcome]] = field(repr=False)


def _part(
    number: str, title: str, own: Iterator[Cell], judge: Callable[[str, Found], Iterator[Outcome]]
) -> Figured:
    return Figured(f"scheduler-{number}-server", "SCHEDULER", title, tuple(own), judge)


PARTS = (
    _part("5.5", "transactions by drive", cells.by_drive(), judged.by_drive),
    _part("5.6-5.7", "logical and physical I/O", cells.by_drive(), judged.by_layer),
    _part("5.8", "mean sizes of writes", cells.by_drive(), judged.by_size),
    _part("5.9", "cleaning in the log", cells.by_cleaning(), judged.by_cleaning),
    _part("5.10", "buffer of the database", cells.by_buffer(), judged.by_buffer),
    _part("5.11", "mixes of transactions", cells.by_mix(), judged.by_mix),
    _part("5.12", "schedulers of the kernel", cells.by_scheduler(), judged.by_scheduler),
    _part("table-5.4", "life of the Intel drive", cells.of_life(), judged.of_life),
    _part("7.2-7.3", "a buffer of 80 MB", cells.with_large_buffer(), judged.with_large_buffer),
)


@dataclass
class _Work:
    """Runs that are missing, one after the other, and how far that is."""

    kept: Kept
    wanted: Sequence[tuple[str, Cell]]
    """Names of results, each with its cell."""
    measuring: Measuring
    said: list[str]

    def state(self) -> tuple[int, int]:
        """See `Tracker`."""
        return sum(self.kept.get(name) is not None for name, _ in self.wanted), len(self.wanted)

    def cancel(self) -> None:
        """See `Tracker`."""
        self.measuring.stop.set()

    def label(self) -> str:
        """Say what is being done."""
        return ": ".join(self.said)

    def run(self) -> None:
        """Run all that is missing."""
        for name, cell in self.wanted:
            if self.kept.get(name) is not None:
                continue
            if self.measuring.stop.is_set():
                raise Cancelled("stopped")
            self.said[0] = cell.name
            self.kept.put(name, self.measuring.run(cell))


def _mean(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give the means of several runs of a cell; what is no number is that of the first."""
    found: dict[str, Any] = {}
    for name, first in runs[0].items():
        own = [run[name] for run in runs]
        if isinstance(first, Mapping):
            found[name] = _mean(own)
        elif isinstance(first, int | float):
            found[name] = sum(own) / len(own)
        else:
            found[name] = first
    return found


def _cells(cell: Cell, found: Mapping[str, Any]) -> list[str]:
    physical, logical = found["physical"], found["logical"]
    cleaned, busy = found["cleanings"], found["busy_share"]
    return [
        SHORT[cell.drive],
        FORM.get(cell.stack, f"`{cell.stack}`"),
        cell.buffer,
        cell.mix,
        cell.scheduler,
        significant(found["transactions_per_second"], 3),
        *(
            significant(of[name] / 1e6, 3)
            for of in (logical, physical)
            for name in ("read_bytes", "write_bytes")
        ),
        significant(physical["write_bytes"] / max(physical["writes"], 1e-9) / 1024, 3),
        "" if cleaned is None else f"{cleaned:.0f}",
        "" if busy is None else f"{busy:.0%}",
    ]


def _figure(part: Figured, found: Found) -> Figure:
    labels = [
        " ".join((SHORT[one.drive], FORM.get(one.stack, one.stack), *_others(one)))
        for one in part.cells
    ]
    rates = [found.rate(one) for one in part.cells]
    texts = [significant(rate, 3) for rate in rates]
    data, layout = figures.bars(labels, rates, texts, ["@c0"] * len(rates), "transactions/s")
    reading = "Measured on a real server over emulated drives."
    return Figure(part.name.replace(".", "-"), part.title, reading, data, layout)


def _others(cell: Cell) -> Iterator[str]:
    """Give what is not as in most cells."""
    plain = Cell(cell.drive, cell.stack)
    for name in ("buffer", "mix", "scheduler"):
        if getattr(cell, name) != getattr(plain, name):
            yield getattr(cell, name)


def _rows(outcomes: Sequence[Outcome]) -> str:
    return markdown_table(
        ("what", "published", "ours", "agrees"),
        [
            [
                one.what,
                _amount(one.published, one.unit),
                _amount(one.ours, one.unit),
                {True: "yes", False: "**no**", None: ""}[one.agrees],
            ]
            for one in outcomes
        ],
    )


def _amount(value: float | str | None, unit: str) -> str:
    return value if isinstance(value, str) else f"{significant(value or 0.0, 3)} {unit}"


def _note(conditions: Conditions, repeats: int) -> str:
    sizes = ", ".join(f"{size(own)} ({SHORT[drive]})" for drive, own in SIZE_BYTES.items())
    settings = ", ".join(f"{name}={value}" for name, value in conditions.settings.items())
    return (
        f"PostgreSQL in place of a commercial database and MySQL, {conditions.scale} warehouses in "
        f"place of 30, clients that never think: {conditions.clients}; memory of server and page "
        f"cache {conditions.memory}; {settings}. {conditions.seconds:g} s after a warm-up of "
        f"{conditions.warm_up:g} s; runs of each: {repeats}. Drives are emulated, {STATE}, and cut "
        f"to {sizes}; {FILE_SYSTEM} on all. This kernel has no nilfs2: `log` is {FILE_SYSTEM} over "
        f"`{cells.LOG}`. Logical is what the server's processes ask of the "
        "kernel, physical what the drive gets."
    )


def _make(request: Request[Figured]) -> Made:
    values = request.options
    out = writable(values["out"] / NAME)
    conditions = replace(
        Conditions(), seconds=values["tpcc_seconds"], warm_up=values["tpcc_warm_up"]
    )
    repeats: int = values["tpcc_repeats"]
    given = ", ".join(f"{name}={value}" for name, value in asdict(conditions).items())

    def name(cell: Cell, repeat: int) -> str:
        on = f"{SIZE_BYTES[cell.drive]} bytes, {STATE}, {FILE_SYSTEM}"
        return f"{cell.name}; {on}; {given}; {repeat}"

    kept = Kept(out / "cells.json")
    said = ["", "starting"]

    def say(what: str) -> None:
        said[1] = what

    own = dict.fromkeys(cell for part in request.parts for cell in part.cells)
    wanted = [(name(cell, repeat), cell) for repeat in range(repeats) for cell in own]
    measuring = Measuring(values["folder"], conditions, say, threading.Event())
    work = _Work(kept, wanted, measuring, said)
    follow(work.label, "", work, work.run)
    means = {
        cell: _mean([kept.get(name(cell, repeat)) for repeat in range(repeats)]) for cell in own
    }
    found = Found(means.__getitem__)
    outcomes = {part: list(part.judge(part.name, found)) for part in request.parts}
    texts = [f"## {part.name}: {part.title}\n\n{_rows(rows)}" for part, rows in outcomes.items()]
    table = markdown_table(HEADINGS, [_cells(cell, one) for cell, one in means.items()])
    return Made(
        page(
            TITLE, request.command, _note(conditions, repeats), [*texts, f"## All runs\n\n{table}"]
        ),
        {cell.name: one for cell, one in means.items()},
        outcomes=[row for rows in outcomes.values() for row in rows],
        drawn=[_figure(part, found) for part in request.parts],
    )


OPTIONS = (
    option("--tpcc-seconds", 30.0, click.FloatRange(1), "What is measured in each run."),
    option("--tpcc-warm-up", 10.0, click.FloatRange(0), "Seconds before that."),
    option("--tpcc-repeats", 1, click.IntRange(1), "Runs of each, in turn."),
    option("--folder", FOLDER, click.Path(path_type=Path), "Where drives' bytes lie."),
    OUT,
)
SET: Set[Figured] = Set(
    NAME,
    "SCHEDULER's TPC-C on a server over emulated drives, in place and in a log",
    "root, PostgreSQL; half an hour on an idle machine",
    PARTS,
    _make,
    OPTIONS,
)
