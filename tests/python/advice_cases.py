"""Cases of advice, made up: a load, a drive, and what is known of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from flashwright._core import Progress
from flashwright.advice import load as loads
from flashwright.advice import traces
from flashwright.advice.action import NO_LOSS, Action, Candidate, Finding, Loss
from flashwright.advice.case import Case
from flashwright.advice.load import FLUSH, LOG, TRIM, WRITE, Load
from flashwright.advice.setup import Commits, Drive, Figures, Interval, Setup
from flashwright.recording.files import PURPOSES

MS = 1_000_000
PAGE = 4096
HEAP, INDEX, UNKNOWN = (PURPOSES.index(name) for name in ("heap", "index", "unknown"))
JOURNAL, OTHERS = PURPOSES.index("journal"), PURPOSES.index("others")
GIB = 1 << 30


def requests(rows: list[tuple[int, int, int, int, int]]) -> traces.Requests:
    """Make requests of (time in ms, operation, page, pages, stream)."""
    columns = np.array(rows, np.int64).T
    return traces.Requests(
        columns[0] * MS, columns[1], columns[2] * PAGE, columns[3] * PAGE, columns[4]
    )


def rows_of(found: traces.Requests) -> list[tuple[int, int, int, int, int]]:
    """Give requests as `requests` takes them; times are cut to whole ms."""
    return list(
        zip(
            (found.time_ns // MS).tolist(),
            found.op.tolist(),
            (found.offset // PAGE).tolist(),
            (found.length // PAGE).tolist(),
            found.stream.tolist(),
            strict=True,
        )
    )


def database_like(path: Path, transactions: int = 4000, seed: int = 7) -> Path:
    """Write a trace of a database: log pages in a ring, a flush for each, scattered data pages."""
    rng = np.random.default_rng(seed)
    made: list[tuple[int, int, int, int, int]] = []
    for number in range(transactions):
        at = number * 2
        page = 100_000 + number // 3 % 2048
        made.append((at, WRITE, page, 1, LOG))
        made.append((at, FLUSH, 0, 0, LOG))
        if number % 2:
            made.append((at + 1, WRITE, int(rng.integers(0, 20_000)), 2, HEAP))
        if number % 50 == 0:
            made.append((at + 1, TRIM, int(rng.integers(30_000, 40_000)), 8, HEAP))
    traces.write(requests(made), path)
    return path


def trace(path: Path, *, purposes: bool, flushes: bool, trims: bool, long_s: float = 60.0) -> Load:
    """Write a load of 600 commits, with pages of tables, indexes and the file system."""
    rng = np.random.default_rng(5)
    made: list[tuple[int, int, int, int, int]] = []
    for number in range(600):
        at = round(number * long_s * 1e9 / 600)
        made.append((at, WRITE, 100_000 + number // 3, 1, LOG))
        if flushes:
            made.append((at, FLUSH, 0, 0, LOG))
        made.append((at + MS, WRITE, int(rng.integers(0, 20_000)), 2, HEAP))
        made.append((at + MS, WRITE, int(rng.integers(20_000, 40_000)), 2, INDEX))
        if number % 5 == 0:
            made.append((at + MS, WRITE, 200_000 + number, 1, JOURNAL))
        if trims and number % 50 == 0:
            made.append((at + MS, TRIM, int(rng.integers(40_000, 50_000)), 8, HEAP))
    columns = np.array(made, np.int64).T
    stream = columns[4] if purposes else np.full(columns.shape[1], UNKNOWN)
    requests = traces.Requests(columns[0], columns[1], columns[2] * PAGE, columns[3] * PAGE, stream)
    traces.write(requests, path)
    return loads.of_file(path, path.stem, None)


@dataclass
class Known:
    """What-ifs that give the load as it is, and remember what was asked."""

    as_recorded: Load
    refused: str | None = None
    asked: list[Mapping[str, str]] = field(default_factory=list)
    prepared: list[Mapping[str, str]] = field(default_factory=list)

    HAS_CLOCK: ClassVar[bool] = False

    def load(
        self,
        settings: Mapping[str, str],
        pace: float = 1,
        disk_time: float = 1,
        busy_page_us: float = 0,
    ) -> Load:
        self.asked.append(settings)
        return self.as_recorded

    def prepare(
        self,
        many: Sequence[Mapping[str, str]],
        progress: Progress | None = None,
    ) -> None:
        self.prepared += many


COMMITS = Commits(600, 0.002, 0.0018, 0.006, 0.01, 0.0015)


def case_of(load: Load, drive: Drive, amplification: float = 2.5, **known: Any) -> Case:
    figures = Figures(
        float(load.written_bytes),
        Interval(load.written_bytes * amplification),
        {"the drive": {"flash_bytes": load.written_bytes * amplification, "endurance_bytes": 1e15}},
        known.pop("commits", COMMITS),
        steady=True,
    )
    return Case(load, Setup(load, drive), figures, **known)


def of(action: Any, case: Case) -> list[Finding]:
    return list(action.findings(case))


def candidates(found: list[Finding]) -> list[Candidate]:
    return [one for one in found if isinstance(one, Candidate)]


class _Of:
    """An action that finds what it is given."""

    NAME = "given"
    QUESTIONS = ()

    def __init__(self, *found: object) -> None:
        self._found = found

    def findings(self, case: Case) -> Iterator[object]:
        del case
        yield from self._found


def candidate(name: str, loss: Loss = NO_LOSS, **changes: object) -> Candidate:
    return Candidate(
        name,
        name,
        f"Do {name}",
        lambda setup: setup.changed(**changes),
        "nothing",
        loss,
        (f"do {name}",),
        (f"undo {name}",),
        "It is so.",
    )


def actions_of(*found: object) -> list[Action]:
    return [_Of(*found)]  # type: ignore[list-item]
