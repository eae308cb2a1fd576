"""A matrix of databases, workloads, drives and changes: each measured, and predicted.

A part is one database with one workload on one drive. It is run as things stand and with each
change that applies, in turn, several times; and once more as things stand while it is recorded,
which is what predictions are made of. All is kept: a part that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from experiments import engine
from experiments.advice import page as pages
from experiments.advice.judged import Pair
from experiments.pages import ON, OUT
from experiments.registry import Made, Part, Request, Set, option
from flashwright._core import InputError
from flashwright.advice.proving import FIGURES, Change, Proof, Proving
from flashwright.advice.trial_recording import Predicting, TrialRecording
from flashwright.advice.trials import OPTIONS as MOUNT_OPTIONS
from flashwright.advice.trials import Drive, Trial
from flashwright.devices import PAGE_MAPPED, DriveProfile
from flashwright.progress import follow

GIB = 1 << 30
DRIVES: Mapping[str, tuple[int, str]] = {
    "sd-card": (1 * GIB, "emmc-51"),
    "emmc-51": (1 * GIB, "micron-7450-pro"),
    "mtron-pro-7500": (1 * GIB, "micron-7450-pro"),
    "nvme-tlc": (24 * GIB, "micron-7450-pro"),
    "micron-7450-pro": (1 * GIB, "kioxia-cm7-r-4"),
    "kioxia-cm7-r-4": (2 * GIB, "micron-7450-pro"),
}
"""Drives, each with the size that it is cut down to, and the drive that would take its place. Those
of many dies cannot be smaller."""
WORKLOADS = {
    "tpcb": "tpcb(scale=8)",
    "tpcc": "tpcc(scale=1)",
    "tatp": "tatp(scale=100k,mix=update_only)",
    "ycsb": "ycsb(scale=100k,mix=a)",
}
"""Some 100 MB each: many times the buffer."""
DATABASES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    # Checkpoints come several times in a run of a minute, as they do in an hour of a server whose
    # settings are those of production. The buffer is full at the end of the warm-up: one that is
    # not lets nothing go, so that a faster run would write more for each transaction.
    "postgres": ("postgres(buffer=8Mi)", {"max_wal_size": "64MB", "checkpoint_timeout": "30s"}),
    "sqlite": ("sqlite(buffer=8Mi)", {}),
}
STATE = "aged"
"""Of all drives: they clean from the beginning."""
SPARE = 0.25
"""Over-provisioning that is added."""
_BASELINES = 3
"""Runs as things stand, where each change is run once: it is compared with all of them."""
_LONGEST_CHECKPOINT = 120
_CHECKPOINTS = 2
"""A run has so many of the longest intervals between checkpoints, or the change is left out."""
FOLDER = "advice"
"""Below the folder of reports, what is kept."""
TRIALS = "trials"
"""Below that the store of trials."""


@dataclass(frozen=True)
class Cell(Part):
    """A database with a workload on a drive."""

    database: str
    workload: str
    profile: str

    def trial(self, seconds: float, warm_up: float, clients: int) -> Trial:
        """Give it as things stand."""
        text, settings = DATABASES[self.database]
        return Trial(
            Drive(self.profile, DRIVES[self.profile][0], STATE),
            WORKLOADS[self.workload],
            text,
            settings,
            # Those of SQLite write in turn.
            clients=1 if self.database == "sqlite" else clients,
            seconds=seconds,
            warm_up=warm_up,
        )


PARTS = tuple(
    Cell(
        f"advice-{database}-{workload}-{profile}",
        "",
        f"{workload} on {database} over `{profile}`",
        database,
        workload,
        profile,
    )
    for database in DATABASES
    for workload in WORKLOADS
    for profile in DRIVES
)


@dataclass(frozen=True)
class Case:
    """What a prediction is made of."""

    cell: Cell
    trial: Trial
    """As things stand."""
    recording: Path
    """Folder of a recording of that, as `flashwright bench --record` makes it."""


Of = Callable[[Trial], Trial]


def _settings(**given: str) -> Of:
    return lambda trial: replace(trial, settings={**trial.settings, **given})


def _stack(stack: str) -> Of:
    return lambda trial: replace(trial, stack=stack)


def _on_other(profile: str) -> Of:
    return lambda trial: replace(
        trial, drive=replace(trial.drive, profile=profile, size_bytes=DRIVES[profile][0])
    )


def _spare(trial: Trial) -> Trial:
    more = DriveProfile.load(trial.drive.profile).over_provisioning + SPARE
    return replace(
        trial, drive=replace(trial.drive, overrides=(f"ftl.over_provisioning={more:g}",))
    )


def _trimmed(trial: Trial) -> Trial:
    return replace(trial, is_trimmed=True, mount_options=f"{MOUNT_OPTIONS},discard")


def _log_apart(trial: Trial) -> Trial:
    return replace(trial, log_drive=trial.drive)


_OF_POSTGRES = (
    Change("full_page_writes=off", _settings(full_page_writes="off")),
    Change("wal_compression=lz4", _settings(wal_compression="lz4")),
    Change("max_wal_size=256MB", _settings(max_wal_size="256MB")),
    Change("synchronous_commit=off", _settings(synchronous_commit="off")),
    Change("commit_delay=2ms", _settings(commit_delay="2000", commit_siblings="1")),
    Change("shared_buffers=128MB", _settings(shared_buffers="128MB")),
    Change("log-apart", _log_apart),
)
_OF_SQLITE = (
    Change("synchronous=normal", _settings(synchronous="normal")),
    Change("journal_mode=delete", _settings(journal_mode="delete")),
    Change("page_size=16384", _settings(page_size="16384")),
    Change("wal_autocheckpoint=4000", _settings(wal_autocheckpoint="4000")),
)
_OF_ALL = (
    Change("trim", _trimmed),
    Change("scheduler", _stack("scheduler(coalesce)")),
    Change("stable_buffer", _stack("stable_buffer")),
    Change("log_volume", _stack("log_volume(over_provisioning=0.28,filled=yes)")),
)


def changes_of(cell: Cell, seconds: float) -> list[Change]:
    """Give the changes that apply to a cell in runs of so many seconds.

    Spare space is for drives that clean by pages: the others reserve a fixed number of logs.
    """
    found = [*(_OF_POSTGRES if cell.database == "postgres" else _OF_SQLITE), *_OF_ALL]
    if cell.database == "postgres" and seconds >= _CHECKPOINTS * _LONGEST_CHECKPOINT:
        longer = {"checkpoint_timeout": f"{_LONGEST_CHECKPOINT}s", "max_wal_size": "1GB"}
        found.append(Change(f"checkpoint_timeout={_LONGEST_CHECKPOINT}s", _settings(**longer)))
    scheme = DriveProfile.load(cell.profile).profile["ftl"]["scheme"].partition("(")[0]
    if scheme in PAGE_MAPPED:
        found.append(Change(f"spare+{SPARE:.0%}", _spare))
    other = DRIVES[cell.profile][1]
    return [*found, Change(f"drive={other}", _on_other(other))]


def _chosen(changes: Sequence[Change], patterns: str) -> list[Change]:
    wanted = [one.strip() for one in patterns.split(",")]
    return [one for one in changes if any(fnmatchcase(one.name, want) for want in wanted)]


def pairs_of(
    case: Case, changes: Sequence[Change], proof: Proof, predicting: Predicting
) -> list[Pair]:
    """Give what was predicted beside what was measured, where there are both."""
    found = []
    for change, proven in zip(changes, proof.changes, strict=True):
        said = predicting.predicted(case.recording, case.trial, change)
        ratios = proof.ratios(proven)
        found += [
            Pair(case.cell.name, change.name, figure, said[figure.name], ratios[figure.name])
            for figure in FIGURES
            if figure.name in said and figure.name in ratios
        ]
    return found


def _row(cell: Cell, values: Mapping[str, Any], predicting: Predicting) -> pages.Row | None:
    """Measure a cell, as far as it is not kept; None if only what is kept is wanted, of none."""
    trial = cell.trial(values["trial_seconds"], values["trial_warm_up"], values["trial_clients"])
    changes = _chosen(changes_of(cell, trial.seconds), values["changes"])
    folder = values["out"] / FOLDER
    where = replace(engine.where(), store=str(folder / TRIALS))
    proving = Proving(
        trial,
        changes,
        values["repeats"],
        values["on"],
        where,
        cell.name,
        baselines=_BASELINES,
    )
    of_this = trial.recording_key[:12]
    recording = TrialRecording(
        trial, folder / "recordings" / f"{cell.name}-{of_this}", values["on"]
    )
    if values["only_kept"]:
        proof = proving.found()
    else:
        if not recording.is_there:
            name = f"{cell.name}, recorded: "
            follow(lambda: name + recording.said, "", recording, recording.make)
        proof = proving.run()
    if proof is None:
        return None
    case = Case(cell, trial, recording.folder)
    pairs = pairs_of(case, changes, proof, predicting) if recording.is_there else []
    unknown = {name: why for (at, name), why in predicting.unknown.items() if at == case.recording}
    return pages.Row(cell.name, cell.title, cell.database, trial, proof, tuple(pairs), unknown)


def _make(request: Request[Cell]) -> Made:
    values = request.options
    predicting = Predicting(values["out"] / FOLDER)
    rows = [_row(cell, values, predicting) for cell in request.parts]
    there = [row for row in rows if row is not None]
    if not there:
        raise InputError("nothing is kept of these parts; leave --only-kept out to run them")
    return Made(
        pages.page_of(there, request.command),
        pages.document(there),
        all(row is not None and row.is_whole for row in rows),
    )


OPTIONS = (
    option("--trial-seconds", 60.0, click.FloatRange(1), "What is measured in each trial."),
    option("--trial-warm-up", 15.0, click.FloatRange(0), "Seconds before that."),
    option("--trial-clients", 4, click.IntRange(1), "Clients at once; SQLite has one."),
    option("--repeats", 3, click.IntRange(1), "Trials of each, in turn."),
    option("--changes", "*", click.STRING, "Names or patterns of changes, with commas."),
    click.Option(
        ["--only-kept"], is_flag=True, default=False, help="Run nothing: show what is kept."
    ),
    ON,
    OUT,
)
SET: Set[Cell] = Set(
    "advice",
    "advice held against databases on emulated drives",
    "root; an hour a part on an idle machine; one part at a time: `advice-sqlite-tpcb-emmc-51`",
    PARTS,
    _make,
    OPTIONS,
)
