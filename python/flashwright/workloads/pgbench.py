"""Runs a workload through pgbench, and reads what it logs of every transaction while it runs.

The warm-up is the beginning of the same run, left out of the figures. pgbench writes its log in
pieces of 4 KiB, so that what is shown while it runs lags behind; the result has everything.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from flashwright._core import InputError, RunError
from flashwright._paths import give_folder, open_plain

from .base import DatabaseLoad, Scripts
from .busy import process_seconds
from .client import MAX_ATTEMPTS, Batch, Counted, Spent
from .databases.server import Server, run_as
from .driver import Gathering, Observer, RunConfig, Unobserved, processors
from .measure import RunResult
from .supervisor import Supervisor

_POLL_SECONDS = 0.25
_FIRST_WITH_TRIES = 15


def find(server: Server) -> Path:
    """Find pgbench beside the server.

    Raises:
        InputError: it is not there, or too old.
    """
    path = server.binaries / "pgbench"
    if not path.exists():
        raise InputError(
            f"{server.binaries}: this workload runs through pgbench, which is not there (Debian: "
            "postgresql-client)"
        )
    if server.major < _FIRST_WITH_TRIES:
        raise InputError(
            f"{server.version()}: pgbench is needed of version {_FIRST_WITH_TRIES} or newer, which "
            "tries again after conflicts"
        )
    return path


def fill(server: Server, scripts: Scripts) -> None:
    """Fill the database in pgbench's own way, if the workload has one.

    Raises:
        RunError: pgbench failed.
    """
    if scripts.initialise is not None:
        run_as(server.account, find(server), *_connection(server), *scripts.initialise)


def _connection(server: Server) -> list[str]:
    return [f"--host={server.sockets}", "--username=flashwright", "postgres"]


class PgbenchRun:
    """One run of pgbench."""

    def __init__(
        self,
        server: Server,
        supervisor: Supervisor,
        load: DatabaseLoad,
        scripts: Scripts,
        config: RunConfig,
    ) -> None:
        """Write the scripts into the server's folder.

        Raises:
            InputError: pgbench cannot do what is asked for.
        """
        if config.think_seconds > 0:
            raise InputError(
                "think_time: pgbench has none that would not count as response time; leave it out "
                "with --db postgres"
            )
        if any(weight != int(weight) for weight in load.mix.weights.values()):
            raise InputError(f"mix {load.mix.name}: pgbench takes whole weights only")
        self._program = find(server)
        self._server, self._supervisor, self._config = server, supervisor, config
        self._kinds = [kind for kind, weight in load.mix.weights.items() if weight > 0]
        self._gathering = Gathering(load, config)
        self._folder = server.run_dir / f"pgbench-{config.stream}"
        self._folder.mkdir()
        self._folder.chmod(0o711)
        self._logs = self._folder / "logs"
        self._logs.mkdir()
        if server.account is not None:
            # The scripts, and what it says, stay ours.
            give_folder(self._logs, server.account.uid, server.account.gid, 0o700)
        self._weighted = []
        for kind in self._kinds:
            path = self._folder / f"{kind}.sql"
            path.write_text(scripts.scripts[kind])
            path.chmod(0o644)
            self._weighted.append(f"--file={path}@{int(load.mix.weights[kind])}")
        self._variables = [f"--define={name}={value}" for name, value in scripts.variables.items()]

    def run(
        self, observer: Observer | None = None, stop: threading.Event | None = None
    ) -> RunResult:
        """Run it to its end; `stop` ends it early.

        Raises:
            RunError: pgbench failed; the message has its own words.
        """
        observer, stop, config = observer or Unobserved(), stop or threading.Event(), self._config
        said = self._folder / "pgbench.out"
        offset_ns = time.time_ns() - time.monotonic_ns()
        observer.warming_up(self._gathering.windows)
        program = self._supervisor.start(
            self._command(), log=said, account=self._server.account, folder=self._logs
        )
        reader = _Reader(self._logs.resolve(), self._kinds, config, offset_ns)
        told_begin = False
        code = None
        worked = _Worked()
        while code is None and not stop.is_set() and not observer.has_failed():
            if told_begin:
                worked.look(program.pid)
            code = program.wait(_POLL_SECONDS)
            for batch in reader.read():
                self._gathering.take(batch)
            if (
                not told_begin
                and reader.begins_ns is not None
                and time.monotonic_ns() >= reader.begins_ns
            ):
                observer.measurement_begins(reader.begins_ns)
                told_begin = True
        if code is None:
            program.stop()
            code = 0
        ended_ns = time.monotonic_ns()
        for batch in reader.read():
            self._gathering.take(batch)
        if code != 0:
            lines = [
                line for line in said.read_text().splitlines() if "error" in line or "fatal" in line
            ]
            raise RunError(
                f"pgbench: exit {code}: "
                f"{(lines or said.read_text().splitlines() or ['no words'])[0]}"
            )
        begins_ns = reader.begins_ns if reader.begins_ns is not None else ended_ns
        if not told_begin:
            observer.measurement_begins(min(begins_ns, ended_ns))
        observer.measurement_ends(ended_ns)
        last_ns = reader.last_ns if reader.last_ns is not None else ended_ns
        seconds = max(last_ns - begins_ns, 1) / 1e9
        self._gathering.spent.append(Spent(seconds, worked.within(seconds)))
        return self._gathering.result(is_complete=not stop.is_set())

    def _command(self) -> list[str | Path]:
        config = self._config
        # Per client, and of the whole run: what the warm-up may do has no limit by number.
        length = (
            f"--time={max(1, round(config.warm_up_seconds + config.seconds))}"
            if config.seconds is not None
            else f"--transactions={config.transactions}"
        )
        return [
            self._program,
            *("--no-vacuum", "--protocol=prepared", f"--client={config.clients}", length),
            *(
                f"--jobs={min(config.clients, processors())}",
                f"--random-seed={config.seed * 1000 + config.stream}",
            ),
            *(f"--max-tries={MAX_ATTEMPTS}", "--log", f"--log-prefix={self._logs / 'log'}"),
            *self._weighted,
            *self._variables,
            *_connection(self._server),
        ]


class _Worked:
    """Processor time of a program that is looked at while it runs."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)

    def look(self, pid: int) -> None:
        """Look again; at one that has ended in vain."""
        seconds = process_seconds(pid)
        if seconds is not None:
            self._last = (time.monotonic(), seconds)
            self._first = self._first or self._last

    def within(self, seconds: float) -> float | None:
        """Give the part of so many seconds, as between the first look and the last.

        None if it was not looked at twice.
        """
        if self._first is None or self._last[0] <= self._first[0]:
            return None
        (begin, before), (end, after) = self._first, self._last
        return seconds * (after - before) / (end - begin)


class _Reader:
    """Reads pgbench's logs as they grow.

    A line is: client, number, response in microseconds, script, seconds since 1970, microseconds of
    it, tries after the first.
    """

    def __init__(self, folder: Path, kinds: list[str], config: RunConfig, offset_ns: int) -> None:
        self.begins_ns: int | None = None
        self.last_ns: int | None = None
        self._folder, self._kinds, self._config, self._offset_ns = folder, kinds, config, offset_ns
        self._at: dict[Path, int] = {}

    def read(self) -> list[Batch]:
        """Give what has come since, by client and window."""
        lines = [line.split() for line in self._new_lines()]
        if self.begins_ns is None and lines:
            first_ns = min(
                self._end_ns(words) - int(words[2]) * 1000 for words in lines if words[2].isdigit()
            )
            self.begins_ns = first_ns + int(self._config.warm_up_seconds * 1e9)
        batches: dict[tuple[int, int], Batch] = {}
        for words in lines:
            if not words[2].isdigit():
                raise RunError(f"pgbench: a transaction {words[2]} after {MAX_ATTEMPTS} tries")
            self._add(words, batches)
        return list(batches.values())

    def _end_ns(self, words: list[str]) -> int:
        return int(words[4]) * 10**9 + int(words[5]) * 1000 - self._offset_ns

    def _add(self, words: list[str], batches: dict[tuple[int, int], Batch]) -> None:
        end_ns, begins_ns = self._end_ns(words), self.begins_ns
        if begins_ns is None:
            raise AssertionError("the beginning is known from the first line on")
        self.last_ns = max(end_ns, self.last_ns or end_ns)
        # A thread whose first lines come late may have begun a moment before the others: without a
        # warm-up they count.
        window = max((end_ns - begins_ns) // int(self._config.window_seconds * 1e9), -1)
        if window < 0 and self._config.warm_up_seconds > 0:
            return
        client, retries = int(words[0]), int(words[6]) if len(words) > 6 else 0
        batch = batches.setdefault((client, window), Batch(client, max(window, 0)))
        at = batch.kinds.setdefault(self._kinds[int(words[3])], Counted())
        at.committed += 1
        at.conflicts += retries
        at.times.append(int(words[2]) * 1000)
        if self._config.keep_transactions:
            at.ends.append(end_ns - begins_ns)
            at.commits.append(1)
            at.tries.append(retries + 1)

    def _new_lines(self) -> Iterator[str]:
        for path in sorted(self._folder.glob("log.*")):
            try:
                # Its user's other programs may put links there.
                with os.fdopen(open_plain(path), "rb") as log:
                    log.seek(self._at.get(path, 0))
                    data = log.read()
            except OSError as error:
                raise RunError(f"{path}: pgbench's log: {error.strerror}") from error
            whole = data.rfind(b"\n") + 1
            self._at[path] = self._at.get(path, 0) + whole
            yield from data[:whole].decode().splitlines()
