"""Runs of what the book wants and nobody kept: each set in a process of its own, part by part.

A part that ended is kept at once, so a stop loses no more than the parts under way. Sets that keep
one processor busy run two at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from experiments.book.kept import FOLDER, ROOT, Kept, identity, latest, path_of, read, values_of
from experiments.registry import Part, Set
from flashwright._core import RunError
from flashwright._text import span

PROCESSORS = 2
WORKER = "experiments.book.worker"
LOG = "last.log"
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Cost:
    """Cost of a set on two processors that do nothing else."""

    seconds: float
    """Of all parts together, as it was measured once: an estimate is of it until parts were run."""
    threads: int = 1
    """Processors that it keeps busy."""


COSTS: Mapping[str, Cost] = {
    "figures-models": Cost(60),
    "validate-drive": Cost(66),
    "validate-placement": Cost(420, 2),
    "figures-prober": Cost(360),
    "figures-layers": Cost(600, 2),
    "figures-replicas": Cost(600, 2),
    "figures-arrays": Cost(300),
    "figures-transactions": Cost(2200),
}
"""The sets that the book runs by itself. The others need root, a database or another program."""
QUICK = ("figures-models", "sustained", "patterns", "aging")
"""Sets and parts that take seconds: what `--quick` runs."""


@dataclass(frozen=True)
class Wanted:
    """A part that the book has a claim on."""

    set: Set[Any]
    part: Part

    @property
    def name(self) -> str:
        """Name of the part."""
        return self.part.name

    @property
    def is_quick(self) -> bool:
        """True if it takes seconds."""
        return self.part.name in QUICK or self.set.name in QUICK

    @property
    def is_run(self) -> bool:
        """True if the book runs it by itself."""
        return self.set.name in COSTS


class Shelf:
    """What is kept, by part: that of today's source, or the newest of an older one."""

    def __init__(self, folder: Path = FOLDER, committed: Path | None = None) -> None:
        self.folder = folder
        self._committed = committed

    def current(self, wanted: Wanted) -> Kept | None:
        """Give the result of today's source; None if there is none."""
        name = identity(wanted.set, wanted.part, values_of(wanted.set))
        found = read(path_of(self.folder, wanted.set.name, name))
        return found if found is not None and found.part == wanted.name else None

    def find(self, wanted: Wanted) -> Kept | None:
        """Give the result of today's source, or the newest there is, marked as not current."""
        found = self.current(wanted)
        if found is not None:
            return found
        for folder in (self.folder, self._committed):
            older = latest(folder, wanted.set, wanted.part) if folder is not None else None
            if older is not None:
                return Kept(**{**older.__dict__, "is_current": False})
        return None

    def seconds(self, wanted: Wanted) -> float:
        """Give the time that a part takes by what it took last, or by the cost of its set."""
        older = latest(self.folder, wanted.set, wanted.part)
        if older is not None:
            return max(older.seconds, 0.1)
        cost = COSTS.get(wanted.set.name)
        return cost.seconds / len(wanted.set.parts) if cost else 0.0


@dataclass
class _Lane:
    """A set under way, in a process of its own."""

    set: Set[Any]
    left: list[Wanted]
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    log: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def threads(self) -> int:
        return COSTS[self.set.name].threads


class Runs:
    """The parts that are run, how far that is, and how it is stopped: see `Tracker`."""

    def __init__(
        self, wanted: Sequence[Wanted], shelf: Shelf, say: Callable[[str], None] | None = None
    ) -> None:
        self._shelf = shelf
        self._say = say or (lambda _: None)
        self._costs = {one.name: shelf.seconds(one) for one in wanted}
        self._done: dict[str, None] = {}
        self._lanes: list[_Lane] = []
        self._queue = _by_set(wanted)
        self._is_stopped = False
        self.failed: dict[str, str] = {}
        """Why parts, or whole sets, gave no result, by name."""

    def state(self) -> tuple[int, int]:
        """Give seconds of work that are done, and all of them."""
        done = sum(self._costs[name] for name in self._done)
        for lane in list(self._lanes):
            if lane.left:
                running = self._costs[lane.left[0].name]
                done += min(time.monotonic() - lane.began, 0.95 * running)
        return round(done), max(1, round(sum(self._costs.values())))

    def cancel(self) -> None:
        """Stop the processes."""
        self._is_stopped = True

    def label(self) -> str:
        """Say which parts are under way."""
        now = [lane.left[0].name for lane in list(self._lanes) if lane.left]
        return f"{len(self._done)} of {len(self._costs)} parts; {', '.join(now) or 'starting'}"

    def estimate(self) -> str:
        """Say how long all of it takes, if nothing else runs beside."""
        wide = sum(self._costs[one.name] for one in self._all() if COSTS[one.set.name].threads > 1)
        narrow = {
            one.set.name: sum(
                self._costs[other.name] for other in self._all() if other.set is one.set
            )
            for one in self._all()
            if COSTS[one.set.name].threads == 1
        }
        longest = max([*narrow.values(), sum(narrow.values()) / PROCESSORS, 0.0])
        return span(round(wide + longest))

    def _all(self) -> list[Wanted]:
        return [one for _, parts in self._queue for one in parts]

    def run(self) -> None:
        """Run all; a set that fails is told, and the others go on."""
        with selectors.DefaultSelector() as selector:
            try:
                while (self._queue or self._lanes) and not self._is_stopped:
                    self._start_what_fits(selector)
                    for key, _ in selector.select(POLL_SECONDS):
                        self._hear(key.data, selector)
            finally:
                for lane in self._lanes:
                    _end(lane.process)

    def _start_what_fits(self, selector: selectors.BaseSelector) -> None:
        for one, parts in list(self._queue):
            busy = sum(lane.threads for lane in self._lanes)
            if busy + COSTS[one.name].threads > PROCESSORS:
                continue
            self._queue.remove((one, parts))
            lane = self._start(one, parts)
            self._lanes.append(lane)
            selector.register(lane.output, selectors.EVENT_READ, lane)

    def _start(self, one: Set[Any], parts: Sequence[Wanted]) -> _Lane:
        folder = self._shelf.folder.absolute()
        log = folder / one.name / LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-m", WORKER, str(folder), one.name, *(p.name for p in parts)]
        path = os.pathsep.join(filter(None, (str(ROOT), *sys.path)))
        with log.open("wb") as errors:
            process = subprocess.Popen(
                words,
                # It ends when this closes, however its parent ended.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": path},
                # Ctrl-C is for the parent, which ends it.
                start_new_session=True,
            )
        if process.stdout is None:
            raise RunError(f"{one.name}: no output")
        return _Lane(one, list(parts), process, process.stdout, log)

    def _hear(self, lane: _Lane, selector: selectors.BaseSelector) -> None:
        line = lane.output.readline().decode().strip()
        if line:
            told = json.loads(line)
            name, error = str(told["part"]), str(told["error"])
            lane.left = [one for one in lane.left if one.name != name]
            self._done[name] = None
            taken = span(round(time.monotonic() - lane.began))
            lane.began = time.monotonic()
            if error:
                self.failed[name] = error
            ended = f"failed: {error}" if error else taken
            self._say(f"{name}: {ended}; {len(self._done)} of {len(self._costs)}")
        else:
            selector.unregister(lane.output)
            self._lanes.remove(lane)
            code = lane.process.wait()
            lane.output.close()
            if code != 0 or lane.left:
                self.failed[lane.set.name] = _last_line(lane.log)
                self._say(f"{lane.set.name}: failed: {self.failed[lane.set.name]}")
                for one in lane.left:
                    self._costs.pop(one.name, None)


def _by_set(wanted: Iterable[Wanted]) -> list[tuple[Set[Any], list[Wanted]]]:
    """Give the parts by set, the sets that take longest first: they decide when all is done."""
    found: dict[str, tuple[Set[Any], list[Wanted]]] = {}
    for one in wanted:
        found.setdefault(one.set.name, (one.set, []))[1].append(one)
    return sorted(found.values(), key=lambda entry: -COSTS[entry[0].name].seconds)


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        if said:
            return said[-1][-300:]
    return "it ended without a word"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue
        return
    raise RunError(f"process {process.pid} does not end")
