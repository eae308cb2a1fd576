"""What other settings would have written, from the log of one run, beside runs with them.

Workloads at a fixed rate on PostgreSQL, each run on a database of its own that is filled alike,
with one seed. Each run's log is kept as a recording keeps it, and taken from there the next time;
from some of them the others are predicted.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from experiments.pages import OUT, markdown_table, page
from experiments.registry import Made, Part, Request, Set, option
from flashwright._core import RunError, __version__
from flashwright._paths import write_whole
from flashwright.advice.trial_loads import plan_of
from flashwright.jobs.work import Job
from flashwright.recording.server_facts import AsksServer
from flashwright.recording.server_log import WAL, ServerLog
from flashwright.runs import git_revision
from flashwright.workloads.databases.cluster import Cluster
from flashwright.workloads.databases.place import Place
from flashwright.workloads.driver import RunConfig, Unobserved
from flashwright.workloads.session import Session
from flashwright.workloads.supervisor import Supervisor

SEED = 1
SETTLE_S = 1.5
"""A backend tells its counts no more often than once a second."""
BIG = 100_000
"""MB of max_wal_size that no run fills."""
FOLDER, _RAN = "wal-what-if", "ran.json"
"""Below the folder of reports, the logs of runs, some GB; and what says that one is whole."""


@dataclass(frozen=True)
class Run:
    """A run: its settings, by the names of candidates."""

    name: str
    checkpoint_timeout: int = 45
    shared_buffers: int = 512
    """In MB."""
    max_wal_size: int = BIG
    """In MB."""
    wal_compression: str = "off"

    def candidate(self) -> dict[str, Any]:
        """Give it as a candidate."""
        return {
            "name": self.name,
            "checkpoint_timeout": self.checkpoint_timeout,
            "shared_buffers": self.shared_buffers << 20,
            "max_wal_size": self.max_wal_size << 20,
            "wal_compression": self.wal_compression,
        }

    def of_server(self) -> dict[str, str]:
        """Give it as settings of a server."""
        return {
            "checkpoint_timeout": f"{self.checkpoint_timeout}s",
            "shared_buffers": f"{self.shared_buffers}MB",
            "max_wal_size": f"{self.max_wal_size}MB",
            "wal_compression": self.wal_compression,
            "fsync": "off",
            "track_io_timing": "on",
            # What it writes early, in a ring of its own, no log tells.
            "autovacuum": "off",
        }


SOURCE = Run("45s")
SMALL = Run("buffers=24MB", shared_buffers=24)
DISTANCES = (
    Run("30s", checkpoint_timeout=30),
    Run("60s", checkpoint_timeout=60),
    Run("300s", checkpoint_timeout=300),
    Run("max_wal_size=96MB", checkpoint_timeout=300, max_wal_size=96),
)
BUFFERS = (SMALL, Run("buffers=96MB", shared_buffers=96))
COMPRESSIONS = tuple(Run(name, wal_compression=name) for name in ("pglz", "lz4", "zstd"))
PREDICTIONS = (
    (SOURCE, (SOURCE, *DISTANCES, *BUFFERS, *COMPRESSIONS)),
    (SMALL, (SMALL, *BUFFERS[1:], SOURCE)),
)
"""What is predicted of which run: five distances, three sizes, three compressions; and back."""


@dataclass(frozen=True)
class Load(Part):
    """A load that all settings run."""

    workload: str
    """As in `flashwright bench`."""


LOADS = (
    Load("wal-tpcb", "", "TPC-B", "tpcb(scale=10)"),
    Load("wal-zipf", "", "a Zipf load: YCSB's A", "ycsb(scale=200k,mix=a)"),
    Load("wal-tpcc", "", "TPC-C", "tpcc(scale=2)"),
    Load("wal-tatp", "", "TATP's updates", "tatp(scale=200k,mix=update_only)"),
)


class LogOfRun(Unobserved):
    """Keeps the log of a run, from a checkpoint before its first client to its end."""

    def __init__(self, folder: Path) -> None:
        """Do nothing yet."""
        self._folder = folder
        self._log: ServerLog | None = None
        self.version = ""

    def database_ready(self, place: Place, supervisor: Supervisor) -> None:  # noqa: ARG002
        """See `Observer`."""
        assert isinstance(place, Cluster)  # noqa: S101  (the plan says so)
        self.version = place.server.version()
        place.checkpoint()
        time.sleep(SETTLE_S)
        server = place.server
        self._log = ServerLog(AsksServer(server), server.data.resolve(), self._folder)
        self._log.begin()

    def measurement_ends(self, at_ns: int) -> None:  # noqa: ARG002
        """See `Observer`."""
        time.sleep(SETTLE_S)
        if self._log is not None:
            self._log.end()

    def run_ends(self) -> None:
        """See `Observer`."""
        if self._log is not None:
            self._log.close()

    @property
    def gap(self) -> str | None:
        """Why the log is not whole."""
        return "nothing was recorded" if self._log is None else self._log.gap


@dataclass(frozen=True)
class Pace:
    """What each run does: so many transactions of each client, which thinks in between."""

    clients: int
    rate: float
    """Transactions a second."""
    run_seconds: float
    version: int | None

    def config(self) -> RunConfig:
        """Give it as a run."""
        each = round(self.rate * self.run_seconds / self.clients)
        think = self.clients / self.rate
        return RunConfig(self.clients, transactions=each, think_seconds=think, seed=SEED)


class Runs:
    """Runs of a load, each done once."""

    def __init__(self, kept: Path, load: Load, pace: Pace) -> None:
        """Take the folder in which logs are kept."""
        self._load, self._pace = load, pace
        said = json.dumps([__version__, load.workload, vars(pace), SEED])
        self._kept = kept / f"{load.name}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"

    def recorded(self, run: Run) -> Path:
        """Do a run, unless it was done; give the folder of its log."""
        said = json.dumps(run.of_server(), sort_keys=True)
        folder = self._kept / f"{run.name}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"
        if not (folder / _RAN).is_file():
            click.echo(f"{self._load.title}: running {run.name}", err=True)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self._record(run, folder)
        return folder

    def said(self) -> list[dict[str, Any]]:
        """Give what is known of all runs that were done."""
        return [json.loads(path.read_text()) for path in sorted(self._kept.glob(f"*/{_RAN}"))]

    def _record(self, run: Run, folder: Path) -> None:
        pace = self._pace
        database = "postgres" if pace.version is None else f"postgres(version={pace.version})"
        with tempfile.TemporaryDirectory(prefix="flashwright-wal-", dir="/var/tmp") as work:
            Path(work).chmod(0o711)
            plan = plan_of(
                self._load.workload, database, run.of_server(), pace.config(), Path(work)
            )
            # pgbench does not think.
            plan = replace(plan, workload=replace(plan.workload, by_pgbench=None))
            log = LogOfRun(folder)
            result = Session(plan, log).run().result
        if log.gap is not None:
            raise RunError(f"{run.name}: {log.gap}")
        found = {
            "version": log.version,
            "per_second": result.transactions / result.seconds,
            "revision": git_revision(),
        }
        write_whole(folder / _RAN, json.dumps(found))


FIGURES = (
    ("wal_bytes", "bytes of log", 0.03),
    ("images", "images", None),
    ("image_bytes", "bytes of images", None),
    ("data_pages", "data pages", 0.08),
    ("page_reads", "pages read", None),
)
"""Figures, their names, and the error that is asked for."""


def judged(load: Load, pace: Pace, kept: Path) -> dict[str, Any]:
    """Predict runs from others, and give the figures of each beside those measured."""
    job: Job[dict[str, Any]] = Job("postgres_what_if", dict)
    rows, checks = [], {}
    runs = Runs(kept, load, pace)
    for source, targets in PREDICTIONS:
        log = str(runs.recorded(source) / WAL)
        candidates = [one.candidate() for one in targets]
        found = job.do({"log": log, "candidates": candidates}).outcome
        checks[source.name] = found["self_check"]
        for target, predicted in zip(targets, found["candidates"], strict=True):
            own = job.do({"log": str(runs.recorded(target) / WAL)}).outcome
            rows.append(
                {
                    "source": source.name,
                    "target": target.name,
                    "predicted": predicted,
                    "measured": own["recorded"],
                }
            )
    return {"ran": runs.said(), "self_checks": checks, "rows": rows}


def error_of(predicted: float | None, measured: float | None) -> float | None:
    """Give a deviation as a share."""
    return None if predicted is None or not measured else predicted / measured - 1


def _rows(found: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for one in found["rows"]:
        shown = [f"{one['source']} → {one['target']}"]
        for key, _, _ in FIGURES:
            predicted, measured = one["predicted"][key], one["measured"][key]
            error = error_of(predicted, measured)
            shown.append("-" if measured is None else f"{measured:,}")
            shown.append("-" if error is None else f"{100 * error:+.2f} %")
        rows.append(shown)
    return rows


def _bars(all_found: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Give the errors of each load, and how many of them are within what is asked for."""
    rows = []
    for name, found in all_found.items():
        for key, title, most in FIGURES:
            errors = [
                abs(error)
                for one in found["rows"]
                if (error := error_of(one["predicted"][key], one["measured"][key])) is not None
            ]
            if most is None or not errors:
                continue
            within = sum(error <= most for error in errors)
            rows.append(
                [
                    name,
                    title,
                    f"{100 * statistics.median(errors):.2f} %",
                    f"{100 * max(errors):.2f} %",
                    f"{within} of {len(errors)} within {most:.0%}",
                ]
            )
    return rows


def _checks(all_found: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    return [
        [
            f"{name}, {source}",
            f"{check['right']:,} of {check['images']:,}",
            f"{check['extra']:,}",
            f"{100 * check['bytes_error']:+.4f} %",
        ]
        for name, found in all_found.items()
        for source, check in found["self_checks"].items()
    ]


def _make(request: Request[Load]) -> Made:
    options = request.options
    kept = Path(options["out"]) / FOLDER
    pace = Pace(*(options[f"wal_{name}"] for name in ("clients", "rate", "seconds", "version")))
    found = {load.title: judged(load, pace, kept) for load in request.parts}
    ran = [run for one in found.values() for run in one["ran"]]
    rates = [run["per_second"] for run in ran]
    revisions = ", ".join(sorted({str(run["revision"])[:12] for run in ran}))
    note = (
        f"{ran[0]['version']}, fsync and autovacuum off. {pace.clients} clients that think made "
        f"{round(pace.rate * pace.run_seconds):,} transactions of each load, {min(rates):.0f} to "
        f"{max(rates):.0f} a second. Seed {SEED}, one run of each setting, on databases that are "
        "filled alike. "
        "Settings of the source: checkpoint_timeout 45 s, 512 MB of buffers, no compression. Each "
        "recording begins after a CHECKPOINT. Measured: log and images from the log of the run "
        "itself, data pages from the server's statistics; beside each the error of the prediction. "
        f"The runs are of {revisions}."
    )
    titles = [word for _, title, _ in FIGURES for word in (title, "error")]
    parts = [
        markdown_table(("load", "figure", "median error", "most", "bar"), _bars(found)),
        *(
            f"## {name}\n\n" + markdown_table(("predicted", *titles), _rows(one))
            for name, one in found.items()
        ),
        markdown_table(
            ("self-check of", "images right", "not there", "bytes of log"), _checks(found)
        ),
    ]
    title = "Validation of what-ifs of PostgreSQL's log"
    return Made(page(title, request.command, note, parts), {"runs": found})


SET = Set(
    "wal-what-if",
    "what other settings of PostgreSQL would have written, beside runs with them",
    "PostgreSQL; a quarter of an hour a load",
    LOADS,
    _make,
    [
        option("--wal-clients", 4, click.IntRange(1), "Clients at once."),
        option("--wal-rate", 100.0, click.FloatRange(1), "Transactions a second, at most."),
        option("--wal-seconds", 75.0, click.FloatRange(10), "Length of each run, at least."),
        option("--wal-version", None, click.INT, "PostgreSQL's major version; any without."),
        OUT,
    ],
)
