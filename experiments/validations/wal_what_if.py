"""What other settings would have written, from the log of one run, beside runs with them.

pgbench's TPC-B at a fixed rate on PostgreSQL, each run on a copy of the same database, with one
seed. Each run's log is kept as a recording keeps it; from some of them the others are predicted.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from experiments.pages import markdown_table, page
from experiments.registry import Made, Part, Request, Set, option
from flashwright._core import InputError
from flashwright.jobs.work import Job
from flashwright.recording.server_facts import AsksServer
from flashwright.recording.server_log import WAL, ServerLog
from flashwright.workloads.databases.server import Server, find_binaries, run_as, server_account
from flashwright.workloads.supervisor import Supervisor

SEED = 1
SETTLE_S = 1.5
"""A backend tells its counts no more often than once a second."""
BIG = 100_000
"""MB of max_wal_size that no run fills."""


@dataclass(frozen=True)
class Run:
    """A run: its settings, by the names of candidates."""

    name: str
    checkpoint_timeout: int
    shared_buffers: int
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
        }


@dataclass(frozen=True)
class Pair(Part):
    """Runs that are predicted from one."""

    source: Run
    targets: tuple[Run, ...]


HALF_MINUTE = Run("30s", 30, 512)
MINUTE = Run("60s", 60, 512)
SHORT = Run("max_wal_size", 300, 512, max_wal_size=192)
SMALL = Run("small-buffers", 30, 48)
PGLZ = Run("pglz", 30, 512, wal_compression="pglz")

PAIRS = (
    Pair(
        "wal-checkpoints",
        "",
        "checkpoints further apart, and by size",
        HALF_MINUTE,
        (HALF_MINUTE, MINUTE, SHORT),
    ),
    Pair("wal-checkpoints-back", "", "checkpoints closer together", MINUTE, (HALF_MINUTE,)),
    Pair("wal-buffers", "", "more buffers, and the same", SMALL, (SMALL, HALF_MINUTE)),
    Pair("wal-compression", "", "images compressed", HALF_MINUTE, (PGLZ,)),
)


@dataclass(frozen=True)
class Load:
    """What each run does."""

    scale: int
    pgbench_seconds: int
    rate: int


class Runs:
    """Runs on copies of one database, each done once."""

    def __init__(self, supervisor: Supervisor, work: Path, load: Load) -> None:
        """Fill the database."""
        self._supervisor, self._work, self.load = supervisor, work, load
        self._account = server_account()
        self._binaries = find_binaries(account=self._account)
        self._pgbench = find_pgbench(self._binaries)
        self._folders: dict[str, Path] = {}
        server = self._server("base")
        server.initialise()
        server.start({"fsync": "off", "max_wal_size": "4GB"})
        try:
            self._bench(server, "--initialize", "--quiet", f"--scale={load.scale}")
            server.query("CHECKPOINT")
            self.version = server.version()
        finally:
            server.stop()

    def _server(self, name: str) -> Server:
        run_dir = self._work / name
        return Server(self._binaries, run_dir / "data", run_dir, self._supervisor, self._account)

    def _bench(self, server: Server, *options: str) -> None:
        where = (f"--host={server.sockets}", "--username=flashwright", "postgres")
        run_as(self._account, self._pgbench, *options, *where)

    def recorded(self, run: Run) -> Path:
        """Do a run, unless it was done; give the folder of its log."""
        if run.name not in self._folders:
            self._folders[run.name] = self._record(run)
        return self._folders[run.name]

    def _record(self, run: Run) -> Path:
        click.echo(f"running {run.name} for {self.load.pgbench_seconds} s", err=True)
        server = self._server(run.name)
        shutil.copytree(self._work / "base", server.run_dir, symlinks=True)
        for path in (server.data, *server.data.rglob("*"), server.sockets):
            if self._account is not None:
                shutil.chown(path, self._account.uid, self._account.gid)
        kept = self._work / f"{run.name}-kept"
        kept.mkdir()
        server.start(run.of_server())
        log = ServerLog(AsksServer(server), server.data.resolve(), kept)
        try:
            server.query("CHECKPOINT")
            time.sleep(SETTLE_S)
            log.begin()
            seconds, rate = f"--time={self.load.pgbench_seconds}", f"--rate={self.load.rate}"
            self._bench(server, seconds, rate, "--client=4", f"--random-seed={SEED}", "--no-vacuum")
            time.sleep(SETTLE_S)
            log.end()
        finally:
            log.close()
            server.stop()
        if log.gap is not None:
            raise InputError(f"{run.name}: {log.gap}")
        shutil.rmtree(server.run_dir)
        return kept


def find_pgbench(binaries: Path) -> Path:
    """Find pgbench: beside the server, or of another version.

    Raises InputError if there is none.
    """
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), reverse=True)
    for path in (binaries / "pgbench", *installed):
        if path.exists():
            return path
    raise InputError("pgbench is not there (Debian: postgresql-client)")


FIGURES = (
    ("wal_bytes", "bytes of log"),
    ("images", "images"),
    ("image_bytes", "bytes of images"),
    ("data_pages", "data pages"),
    ("page_reads", "pages read"),
)


def judged(pair: Pair, runs: Runs) -> dict[str, Any]:
    """Predict the runs of a pair, and give the figures of each beside those measured."""
    job: Job[dict[str, Any]] = Job("postgres_what_if", dict)
    source = runs.recorded(pair.source)
    log = str(source / WAL)
    candidates = [one.candidate() for one in pair.targets]
    began = time.monotonic()
    found = job.do({"log": log, "candidates": candidates}).outcome
    seconds = time.monotonic() - began
    rows = []
    for target, predicted in zip(pair.targets, found["candidates"], strict=True):
        own = job.do({"log": str(runs.recorded(target) / WAL)}).outcome
        measured = own["recorded"]
        rows.append(
            {
                "target": target.name,
                "predicted": predicted,
                "measured": measured,
                "modelled": own["recorded"]["modelled"],
            }
        )
    return {
        "source": pair.source.name,
        "self_check": found["self_check"],
        "remarks": found["remarks"],
        "seconds": seconds,
        "rows": rows,
    }


def error_of(predicted: float | None, measured: float | None) -> str:
    """Give a deviation in percent."""
    if predicted is None or not measured:
        return "-"
    return f"{100 * (predicted / measured - 1):+.2f} %"


def _rows(found: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for one in found["rows"]:
        for key, name in FIGURES:
            predicted, measured = one["predicted"][key], one["measured"][key]
            if predicted is None and measured is None:
                continue
            shown = ["-" if value is None else f"{value:,}" for value in (predicted, measured)]
            error = error_of(predicted, measured)
            rows.append([f"{found['source']} → {one['target']}", name, *shown, error])
    return rows


def _checks(found: Mapping[str, Any]) -> list[list[str]]:
    checks = []
    for name, one in found.items():
        check = one["self_check"]
        checks.append(
            [
                name,
                f"{check['right']:,} of {check['images']:,}",
                f"{check['extra']:,}",
                f"{100 * check['bytes_error']:+.4f} %",
            ]
        )
    return checks


def _make(request: Request[Pair]) -> Made:
    load = Load(**request.options)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="flashwright-wal-", dir="/var/tmp") as work:
        Path(work).chmod(0o711)
        with Supervisor() as supervisor:
            runs = Runs(supervisor, Path(work), load)
            for pair in request.parts:
                found[pair.name] = judged(pair, runs)
    rows = [row for one in found.values() for row in _rows(one)]
    left: Sequence[str] = [pair.title for pair in PAIRS if pair.name not in found]
    note = (
        f"{runs.version}, fsync off, pgbench's TPC-B of scale {load.scale} at {load.rate} "
        f"transactions/s with 4 clients for {load.pgbench_seconds} s, seed {SEED}, one run each, "
        "on copies of one database. Begin of each recording: after a CHECKPOINT. Measured: log and "
        "images from the log of the run itself, data pages from the server's statistics."
        + (f" Not run: {', '.join(left)}." if left else "")
    )
    parts = [
        markdown_table(("predicted", "figure", "predicted", "measured", "error"), rows),
        markdown_table(
            ("self-check of", "images right", "not there", "bytes of log"), _checks(found)
        ),
    ]
    title = "Validation of what-ifs of PostgreSQL's log"
    return Made(page(title, request.command, note, parts), {"runs": found})


SET = Set(
    "wal-what-if",
    "what other settings of PostgreSQL would have written, beside runs with them",
    "PostgreSQL, pgbench; eight minutes",
    PAIRS,
    _make,
    [
        option("--scale", 10, click.IntRange(1), "Of pgbench."),
        option("--pgbench-seconds", 75, click.IntRange(10), "Length of each run."),
        option("--rate", 250, click.IntRange(1), "Transactions a second."),
    ],
)
