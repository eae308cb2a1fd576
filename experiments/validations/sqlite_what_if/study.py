"""What `sqlite_what_if` says of other modes, beside what SQLite writes in them.

The transactions are those of one log that was never restarted. Each mode is then run for real, on a
copy of the same database with the same transactions, and strace counts its writes and syncs.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from experiments.pages import markdown_table, page
from experiments.registry import Made, Part, Request, Set, option
from experiments.validations.sqlite_what_if.counted import NAME, Counts, count
from experiments.validations.sqlite_what_if.load import fill
from flashwright import _core
from flashwright._core import InputError
from flashwright._text import count as digits

PAGE_SIZE = 4096
CACHE_SIZE = 100_000
FILES = ("log", "journal", "database")


@dataclass(frozen=True)
class Mode:
    """A mode of SQLite that is asked about and run."""

    journal_mode: str = "wal"
    synchronous: str = "full"
    wal_autocheckpoint: int = 1000
    transactions_in_one: int = 1

    def title(self) -> str:
        """Say which it is."""
        said = self.journal_mode
        said += f" {self.wal_autocheckpoint}" if self.journal_mode == "wal" else ""
        said += f", {self.synchronous}" if self.synchronous != "full" else ""
        return f"{said}, by {self.transactions_in_one}" if self.transactions_in_one > 1 else said

    def asked(self) -> dict[str, Any]:
        """Give the settings of the job."""
        return vars(self)

    def pragmas(self) -> dict[str, object]:
        """Give the pragmas that make it."""
        names = ("journal_mode", "synchronous", "wal_autocheckpoint")
        return {name: getattr(self, name) for name in names}


MODES = (
    Mode(),
    Mode(wal_autocheckpoint=100),
    Mode(wal_autocheckpoint=10_000),
    Mode("delete"),
    Mode("truncate"),
    Mode("persist"),
    Mode(synchronous="normal"),
    Mode(synchronous="off"),
    Mode("delete", "extra"),
    Mode("delete", "normal"),
    Mode("delete", "off"),
    Mode(transactions_in_one=10),
    Mode("delete", transactions_in_one=10),
    Mode(transactions_in_one=100),
    Mode("delete", transactions_in_one=100),
)


@dataclass(frozen=True)
class Beside:
    """A mode as it was predicted, and as it was counted."""

    mode: Mode
    predicted: dict[str, Any]
    counted: Counts

    def bytes(self) -> list[tuple[int, int]]:
        """Give bytes of log, journal and database: predicted, counted."""
        return [(self.predicted[f"{name}_bytes"], self.counted.bytes[name]) for name in FILES]

    def syncs(self) -> list[tuple[int, int]]:
        """Give syncs of log, journal, database and folder: predicted, counted."""
        found = self.predicted["syncs"]
        return [(found[name], self.counted.syncs[name]) for name in (*FILES, "folder")]


def record(folder: Path, kind: str, transactions: int, seed: int) -> Path:
    """Run a load in one log without checkpoints; give that log, beside its database."""
    base, keep = folder / "base.db", folder / f"keep-{kind}"
    if not base.exists():
        fill(base, PAGE_SIZE, {})
    keep.mkdir(exist_ok=True)
    pragmas = {"journal_mode": "wal", "wal_autocheckpoint": 0, "cache_size": CACHE_SIZE}
    count(folder, base, kind, pragmas, transactions, seed=seed, keep=keep)
    return keep / f"{NAME}-wal"


def predict(transactions: Path, modes: Sequence[Mode], **settings: object) -> dict[str, Any]:
    """Ask the job; give its outcome."""
    asked = {
        "transactions": str(transactions),
        "modes": [mode.asked() for mode in modes],
        "cache_size": CACHE_SIZE,
        **settings,
    }
    found, _, _ = _core.run_job("sqlite_what_if", json.dumps(asked).encode())
    return dict(json.loads(found))


def compare(
    folder: Path, kind: str, modes: Sequence[Mode], transactions: int, seed: int
) -> list[Beside]:
    """Predict each mode, and run it."""
    log = record(folder, kind, transactions, seed)
    found = predict(log, modes)["modes"]
    beside = []
    for mode, predicted in zip(modes, found, strict=True):
        counted = count(
            folder,
            folder / "base.db",
            kind,
            {**mode.pragmas(), "cache_size": CACHE_SIZE},
            transactions,
            transactions_in_one=mode.transactions_in_one,
            seed=seed,
        )
        beside.append(Beside(mode, predicted, counted))
    return beside


TITLES = {
    "tpcb": "A load as TPC-B: three updates and an insert",
    "orders": "Orders with their lines; old ones are deleted, and their pages used again",
    "mixed": "Long values that come, change and go, at random",
}
PARTS = tuple(Part(f"sqlite-{kind}", "", title) for kind, title in TITLES.items())


def _cell(predicted: int, counted: int) -> str:
    if predicted == counted:
        return digits(counted)
    return f"**{digits(predicted)}**, counted {digits(counted)}"


def _section(part: Part, beside: Sequence[Beside]) -> str:
    rows = [
        [
            one.mode.title(),
            *(_cell(*pair) for pair in one.bytes()),
            " / ".join(_cell(*pair) for pair in one.syncs()),
        ]
        for one in beside
    ]
    headings = (
        "mode",
        *(f"{name}, bytes" for name in FILES),
        "syncs of log / journal / database / folder",
    )
    return f"## {part.title}\n\n{markdown_table(headings, rows)}"


def _make(request: Request[Part]) -> Made:
    if shutil.which("strace") is None:
        raise InputError("strace is not there: it counts what SQLite writes; install it")
    transactions, seed = request.options["transactions"], request.options["seed"]
    texts, document = [], {}
    differ = 0
    for part in request.parts:
        kind = part.name.removeprefix("sqlite-")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            beside = compare(folder, kind, MODES, transactions, seed)
        differ += sum(
            predicted != counted
            for one in beside
            for predicted, counted in (*one.bytes(), *one.syncs())
        )
        texts.append(_section(part, beside))
        document[part.name] = [
            {"mode": one.mode.asked(), "bytes": one.bytes(), "syncs": one.syncs()} for one in beside
        ]
    figures = sum(7 * len(one) for one in document.values())
    note = (
        f"{digits(transactions)} transactions of each load, seed {seed}, SQLite "
        f"{sqlite3.sqlite_version}, Python {sys.version.split()[0]}, pages of {PAGE_SIZE} bytes, "
        f"cache_size {CACHE_SIZE}. The "
        "transactions are read from one log that was never restarted; each mode is then run, and "
        "strace counts. A figure alone is predicted and counted; where both differ, the predicted "
        f"one is bold. Of {digits(figures)} figures, {digits(differ)} differ."
    )
    made = page("SQLite in other modes", request.command, note, texts)
    return Made(made, {"differ": differ, **document}, differ == 0)


SET = Set(
    "validate-sqlite-what-if",
    "what SQLite writes in other modes, predicted and counted",
    "strace, minutes",
    PARTS,
    _make,
    (
        option("--transactions", 4000, click.IntRange(1), "Transactions of each load."),
        option("--seed", 1, click.INT, "Seed of the loads."),
    ),
)
