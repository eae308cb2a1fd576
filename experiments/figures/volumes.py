"""TPC-C on mounted volumes over emulated drives: what each stack gives, and what it costs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from experiments.pages import markdown_table, page
from experiments.registry import Made, Part, Request, Set, option
from flashwright import _core
from flashwright._core import Cancelled, FlashwrightError, InputError
from flashwright._text import count, percent, short_time, significant, size
from flashwright.advice import trials
from flashwright.advice.trials import Drive, Outcome, Trial
from flashwright.progress import follow
from flashwright.workloads.session import DATABASES

GIB = 1 << 30
BUFFER = "32Mi"
SPARE = (0.1, 0.28)
"""Over-provisioning of logs."""
ALONE = "direct"
WITHOUT_LOG = (ALONE, "scheduler(coalesce)", "stable_buffer", "replicas")
WITH_LOG = ("log_volume({})", "scheduler(coalesce)|log_volume({})")
FOLDER = Path("/var/tmp")  # noqa: S108
PLACEMENTS = ("none", "multi_log", "sepbit", "hazard")
HEADINGS = (
    "stack",
    "spare space of the log",
    "transactions/s",
    "times the drive alone",
    "median",
    "99 %",
    "flushes asked/s",
    "flushes to the drive/s",
    "bytes written for each asked",
    "bytes programmed for each written",
    "segments cleaned",
)


@dataclass(frozen=True)
class Cell:
    """A stack on a drive; `spare` of the log in it, if there is one."""

    drive: Drive
    name: str
    stack: str
    spare: float | None = None


def _with_log(drive: Drive, stack: str, spare: float, more: str = "") -> Cell:
    # As if the whole volume had been written: only then is spare space what it is said to be.
    given = f"over_provisioning={spare},filled=yes"
    name = stack.replace("({})", f"({more})" if more else "")
    return Cell(drive, name, stack.format(f"{given},{more}" if more else given), spare)


@dataclass(frozen=True)
class OnDrive(Part):
    """Stacks on one drive, the drive alone first."""

    drive: Drive
    cells: tuple[Cell, ...]
    database: str = "postgres"
    """Database that is run if no other is asked for."""


def _all_stacks(drive: Drive, database: str = "postgres") -> OnDrive:
    plain = [Cell(drive, stack, stack) for stack in WITHOUT_LOG]
    logs = [_with_log(drive, stack, spare) for stack in WITH_LOG for spare in SPARE]
    title = f"TPC-C on volumes over `{drive.profile}`"
    return OnDrive(f"volumes-{drive.profile}", "", title, drive, (*plain, *logs), database)


def _on_card(drive: Drive) -> OnDrive:
    # A transaction of PostgreSQL takes 20 s and more there, and each stack ten minutes.
    stacks = _all_stacks(drive, "sqlite")
    # It writes to one place at a time.
    in_one = [_with_log(drive, WITH_LOG[0], spare, "summaries=segments") for spare in SPARE]
    return replace(stacks, cells=(*stacks.cells, *in_one))


def _placements(drive: Drive) -> OnDrive:
    logs = [_with_log(drive, WITH_LOG[0], SPARE[0], f"placement={one}") for one in PLACEMENTS]
    title = f"placement policies of a log that was opened just now, over `{drive.profile}`"
    alone = Cell(drive, ALONE, ALONE)
    return OnDrive("volumes-placements", "", title, drive, (alone, *logs))


PARTS = (
    _all_stacks(Drive("mtron-pro-7500", GIB, "aged")),
    _on_card(Drive("sd-card", GIB, "aged")),
    _all_stacks(Drive("nvme-tlc", 24 * GIB, "aged")),
    _all_stacks(Drive("micron-7450-pro", 4 * GIB, "aged")),
    _placements(Drive("intel-x25e", GIB, "aged")),
)


@dataclass
class _Work:
    """The cells that are played, one after the other, and how far that is."""

    load: Trial
    """What is run on each of them."""
    folder: Path
    cells: Sequence[Cell]
    outcomes: list[Outcome | FlashwrightError] = field(default_factory=list)
    said: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

    def state(self) -> tuple[int, int]:
        """See `Tracker`."""
        return len(self.outcomes), len(self.cells)

    def cancel(self) -> None:
        """See `Tracker`."""
        self.stop.set()

    def label(self) -> str:
        """Say what is being done."""
        if len(self.outcomes) == len(self.cells):
            return "done"
        cell = self.cells[len(self.outcomes)]
        return f"{cell.drive.profile}, {cell.name}: {self.said}"

    def _say(self, what: str) -> None:
        self.said = what

    def play(self) -> None:
        """Play all; a cell that fails is told as such."""
        for cell in self.cells:
            try:
                trial = replace(self.load, drive=cell.drive, stack=cell.stack)
                played = trials.play(trial, self.folder, self._say, self.stop)
            except Cancelled:
                raise
            except FlashwrightError as error:
                self.outcomes.append(error)
            else:
                self.outcomes.append(played)
            if self.stop.is_set():
                raise Cancelled("stopped")


def _row(cell: Cell, outcome: Outcome | FlashwrightError, alone: float | None) -> list[str]:
    spare = "" if cell.spare is None else percent(cell.spare)
    if not isinstance(outcome, Outcome):
        return [f"`{cell.name}`", spare, f"failed: {outcome}", *[""] * (len(HEADINGS) - 3)]
    between, result = outcome.between, outcome.result
    responses = result.all_responses
    programmed = between.flash_amplification()
    return [
        f"`{cell.name}`",
        spare,
        significant(result.transactions_per_second),
        "" if alone is None else significant(result.transactions_per_second / alone),
        short_time(responses.quantile_ns(0.5)),
        short_time(responses.quantile_ns(0.99)),
        significant(between.rate("volume_requests_total", op="flush")),
        significant(between.rate("volume_devices_total", op="flush")),
        significant(between.layers_amplification()),
        "" if programmed is None else significant(programmed),
        "" if outcome.cleanings is None else count(outcome.cleanings),
    ]


def _document(cell: Cell, outcome: Outcome | FlashwrightError) -> dict[str, Any]:
    about = {"stack": cell.stack, "over_provisioning": cell.spare}
    if not isinstance(outcome, Outcome):
        return {**about, "error": str(outcome)}
    between = outcome.between
    return {
        **about,
        **outcome.result.as_dict(),
        "flushes_asked": between.grown("volume_requests_total", op="flush"),
        "flushes_to_drive": between.grown("volume_devices_total", op="flush"),
        "layers_amplification": between.layers_amplification(),
        "flash_amplification": between.flash_amplification(),
        "segments_cleaned": outcome.cleanings,
        "checks": outcome.checks,
    }


def _part(part: OnDrive, work: _Work) -> list[str]:
    drive, load = part.drive, work.load
    rates = [
        one.result.transactions_per_second
        for cell, one in zip(work.cells, work.outcomes, strict=True)
        if cell.stack == ALONE and isinstance(one, Outcome)
    ]
    alone = rates[0] if rates else None
    rows = [_row(cell, one, alone) for cell, one in zip(work.cells, work.outcomes, strict=True)]
    whole = [one for one in work.outcomes if isinstance(one, Outcome)]
    checks = ", ".join(whole[0].checks) if whole else "nothing"
    return [
        f"## {part.name}: {part.title}",
        f"`{load.workload}` on `{load.database}`, clients that never think: {load.clients}; "
        f"{load.seconds:g} s after a warm-up of {load.warm_up:g} s. A drive of "
        f"{size(drive.size_bytes)}, {drive.state}. Found whole afterwards by {checks}: "
        f"{len(whole)} of {len(work.cells)}.",
        markdown_table(HEADINGS, rows),
    ]


def _load(part: OnDrive, values: Mapping[str, Any]) -> Trial:
    """Give the load of a part, on its drive.

    Raises:
        InputError: it cannot be, which is so for all of its stacks.
    """
    database = values["database"] or part.database
    load = Trial(
        part.drive,
        values["workload"],
        f"{database}(buffer={BUFFER},checkpoint={values['checkpoint']:g})",
        # Those of SQLite write in turn.
        clients=1 if database == "sqlite" else values["clients"],
        seconds=values["seconds"],
        warm_up=values["warm_up"],
    )
    load.check()
    return load


def _asked(part: OnDrive, values: Mapping[str, Any]) -> OnDrive:
    """Give a part with the stack and the size of drive that were asked for, if any were.

    Raises:
        InputError: the size is none.
    """
    drive = part.drive
    if values["size"] is not None:
        size_bytes = _core.parse_bytes(values["size"])
        if not size_bytes:
            raise InputError(f"--size {values['size']}: right would be one such as 4Gi")
        drive = replace(drive, size_bytes=size_bytes)
    stack = values["stack"]
    cells = part.cells if stack is None else (Cell(drive, stack, stack),)
    return replace(part, drive=drive, cells=tuple(replace(one, drive=drive) for one in cells))


def _make(request: Request[OnDrive]) -> Made:
    values = request.options
    parts = [_asked(part, values) for part in request.parts]
    loads = [_load(part, values) for part in parts]
    note = (
        "Every flush of the database goes to its volume. A log is as if all of it had been written "
        "once, and cleans before the run begins."
    )
    texts: list[str] = []
    document: dict[str, Any] = {}
    is_complete = True
    for part, load in zip(parts, loads, strict=True):
        work = _Work(load, values["folder"], part.cells)
        follow(work.label, "", work, work.play)
        texts += _part(part, work)
        document[part.name] = [
            _document(cell, one) for cell, one in zip(work.cells, work.outcomes, strict=True)
        ]
        is_complete = is_complete and all(isinstance(one, Outcome) for one in work.outcomes)
    title = "Databases on volumes"
    return Made(page(title, request.command, note, texts), document, is_complete)


OPTIONS = (
    option("--workload", "tpcc(scale=1)", click.STRING, "As in `flashwright bench`."),
    option(
        "--database",
        None,
        click.Choice(DATABASES),
        "Which one.  [default: postgres, on sd-card sqlite]",
    ),
    option("--clients", 10, click.IntRange(1), "Clients at once; SQLite has one."),
    option("--seconds", 60.0, click.FloatRange(1), "What is measured of each stack."),
    option("--warm-up", 15.0, click.FloatRange(0), "Seconds before that."),
    option("--checkpoint", 30.0, click.FloatRange(1), "Seconds from checkpoint to checkpoint."),
    option(
        "--stack",
        None,
        click.STRING,
        "This stack alone on each drive, as in `flashwright volume create`.  [default: those of "
        "the tables]",
    ),
    option("--size", None, click.STRING, "Of each drive.  [default: that of the tables]"),
    option("--folder", FOLDER, click.Path(path_type=Path), "Where drives' bytes lie."),
)
SET: Set[OnDrive] = Set(
    "figures-volumes",
    "databases on mounted volumes over emulated drives",
    "root; an hour and a quarter on an idle machine",
    PARTS,
    _make,
    OPTIONS,
)
