"""Runs a sweep: its jobs through the engine, their results into a dataset, and what they say."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from flashwright._core import Cancelled, InputError, RunError
from flashwright._text import count, size
from flashwright.engine.engine import Engine
from flashwright.engine.pools import Pool
from flashwright.engine.store import Store, Times
from flashwright.engine.task import Outcome
from flashwright.engine.where import LOCAL, Where
from flashwright.progress import StoppedError, follow
from flashwright.runs import Job, Run, table
from flashwright.sweeps import effects, kinds
from flashwright.sweeps.dataset import RESULTS, Dataset, column
from flashwright.sweeps.file import partitions
from flashwright.sweeps.plan import Plan, Planned

COMMAND = "sweep"
FAILURES = 100
"""Failures that are told one by one."""


@dataclass(frozen=True)
class How:
    """How the jobs of a sweep are done."""

    where: Where = field(default_factory=Where)
    """Without a store that of the file."""
    resume: bool = False
    within: float | None = None
    """Seconds after which no further job is begun."""


@dataclass
class Sweep:
    """The jobs of a plan, and what came of them."""

    plan: Plan
    how: How
    folder: Path | None
    """The run folder, in which the dataset grows; None if it is in memory alone."""
    say: Callable[[str], None] = lambda _: None
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    known: int = 0
    _wrong_goal: InputError | None = None

    @cached_property
    def store(self) -> Store:
        """The store of results."""
        return self._where.results()

    @cached_property
    def _where(self) -> Where:
        asked = self.how.where
        return replace(asked, store=asked.store or self.plan.file.document.store)

    @property
    def at_once(self) -> int:
        """Jobs at a time on this machine: one a core, as far as memory goes."""
        return self._where.at_once(self.plan.file.limits().memory_bytes)

    @cached_property
    def job(self) -> Job:
        """The work that is asked for, by which its run folder is named."""
        inputs = {one.path: one for job in self.plan.jobs for one in job.task.inputs}
        files = [
            {"source": one.path, "sha256": one.sha256, "content_hash": None}
            for one in inputs.values()
        ]
        kept = msgspec.to_builtins(self.plan.file.document)
        identity = [{**kept, "store": None}, sorted(one.sha256 for one in inputs.values())]
        return Job(COMMAND, identity, files, self.plan.jobs[0].seed)

    def estimate(self) -> dict[str, Any]:
        """Say what is to be done, and how long it takes by what such jobs took."""
        found = list(self.store.known(self.plan.unique))
        final = [one for one in found if one.is_final]
        done = [one for one in found if one.ended == "done"]
        took = None
        if done:
            most = max(one.peak_bytes for one in done)
            took = Times(statistics.median(one.seconds for one in done), most, len(done))
        else:
            [kind] = {job.task.named for job in self.plan.unique.values()}
            took = self.store.times(kind)
        each = None if took is None else took.seconds
        left = len(self.plan.unique) - len(final)
        return {
            "jobs": len(self.plan.unique),
            "known": len(final),
            "left": left,
            "at_once": self.at_once if self.how.where.engine == LOCAL else self.how.where.jobs,
            "seconds_each": each,
            "seconds_left": None
            if each is None or (self.how.where.engine != LOCAL and self.how.where.jobs is None)
            else each * left / (self.how.where.jobs or self.at_once),
            "most_bytes": None if took is None else took.most_bytes,
            "by_jobs": 0 if took is None else took.jobs,
            "of_this_sweep": bool(done),
        }

    def run(self) -> StoppedError[Any] | None:
        """Do all that is not known. Gives the stop, if Ctrl-C came between.

        Raises InputError; RunError if no job can be done at all.
        """
        document, limits = self.plan.file.document, self.plan.file.limits()
        self._data = data = Dataset(
            self.folder, self.store, partitions(self.plan.file), document.tables
        )
        tasks = [job.task for job in self.plan.unique.values()]
        engine = Engine(
            tasks, self.store, self._pool, limits, self.how.within, again=self.how.resume
        )
        engine.take = lambda outcome: self._take(outcome, data, engine)
        if self.how.resume:
            self._check_begun()
        stop: StoppedError[Any] | None = None
        if self.folder is not None and not self.job.is_complete_in(self.folder):
            # Who looks in meanwhile, or after a kill, finds whose folder it is.
            self._begun().write(self.folder)
        try:
            label = f"Sweep of {len(tasks)} jobs"
            follow(
                lambda: f"{label}, {engine.said}" if engine.said else label, "", engine, engine.run
            )
        except StoppedError as error:
            stop = error
        except Cancelled:
            if self._wrong_goal is None:
                raise
        finally:
            self.known = engine.known
            with self._writing():
                data.write()
        if self._wrong_goal is not None:
            raise self._wrong_goal
        return stop

    def _check_begun(self) -> None:
        is_there = self.folder is not None and self.job.is_complete_in(self.folder)
        if not is_there and next(iter(self.store.known(self.plan.unique)), None) is None:
            raise InputError(
                f"--resume: nothing of {self.plan.file.name} is in {self.store.url}; right would "
                "be the --store that it was begun with, or no --resume"
            )

    def _pool(self) -> Pool:
        limits = self.plan.file.limits()
        where = self._where
        if where.engine == LOCAL and self.at_once < where.wanted and limits.memory_bytes:
            self.say(
                f"{self.at_once} at a time instead of {where.wanted}: each may hold "
                f"{size(limits.memory_bytes)} of memory."
            )
        return where.pool(limits.memory_bytes)

    def _take(self, outcome: Outcome, data: Dataset, engine: Engine) -> None:
        if outcome.ended == "stopped":
            return
        self.outcomes[outcome.key] = outcome
        goal = self.plan.goal
        if goal is not None and outcome.ended == "done" and goal not in outcome.figures:
            said = f"{goal}: a job has no such figure; {kinds.right(goal, outcome.figures)}"
            self._wrong_goal = self.plan.file.wrong("goal", said)
            engine.cancel()
        with self._writing():
            data.add(self.plan.unique[outcome.key], outcome)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(f"{self.folder}: cannot write the results: {error}") from error

    @property
    def failures(self) -> list[tuple[Planned, Outcome]]:
        """The jobs that did not end with a result."""
        found = ((self.plan.unique[key], one) for key, one in self.outcomes.items())
        return [(job, one) for job, one in found if one.ended != "done"]

    @property
    def left(self) -> int:
        """Jobs that nothing came of so far."""
        return len(self.plan.unique) - len(self.outcomes)

    def _begun(self) -> Run:
        return self.job.run({"complete": False, **self._asked(), "done": 0})

    def _asked(self) -> dict[str, Any]:
        document = self.plan.file.document
        return {
            "sweep": msgspec.to_builtins(document),
            "goal": self.plan.goal,
            "better": self.plan.better,
            "axes": list(self.plan.file.axes),
            "jobs": len(self.plan.unique),
        }

    def result(self, *, with_rows: bool = False) -> Run:
        """Give the run: what was found, and its tables; `with_rows` those of all jobs too."""
        failures = self.failures
        ended = [one.ended for one in self.outcomes.values()]
        result = {
            "complete": not self.left and not failures,
            **self._asked(),
            "done": ended.count("done"),
            "failed": len(failures),
            "left": self.left,
            "store": self.store.url,
            "results": f"{RESULTS}/**/*.parquet",
            "failures": [_failure(*one) for one in failures[:FAILURES]],
            **effects.document(self.plan, self.outcomes),
        }
        tables = {"points": self._points()}
        if with_rows:
            tables["jobs"] = self._data.table()
        return self.job.run(result, tables)

    def _points(self) -> Any:
        """Give a row for each point that has a goal, the best one first."""
        found = [one for one in effects.measured(self.plan, self.outcomes) if one is not None]
        points = effects.ranked(found, self.plan.better)
        names = self.plan.file.axes
        columns: dict[str, list[Any]] = {
            column(name): _alike([one.point[name] for one in points]) for name in names
        }
        both = [effects.interval(one.values) for one in points]
        columns["mean"] = [mean for mean, _ in both]
        columns["half_interval"] = [half for _, half in both]
        columns["seeds"] = [len(one.values) for one in points]
        return table(columns)


def _alike(values: list[Any]) -> list[Any]:
    """Give values as a column takes them: numbers, or all as text."""
    kinds_of = {type(one) for one in values}
    return (
        values if len(kinds_of) <= 1 or kinds_of == {int, float} else [str(one) for one in values]
    )


def _failure(job: Planned, outcome: Outcome) -> dict[str, Any]:
    point: Mapping[str, Any] = job.point
    seeded = {} if job.seed is None or "seed" in point else {"seed": job.seed}
    return {"point": {**point, **seeded}, "ended": outcome.ended, "error": outcome.error}


def said_of(estimate: Mapping[str, Any]) -> str:
    """Say an estimate in a sentence or two."""
    from flashwright._text import span  # noqa: PLC0415

    said = f"{count(estimate['jobs'])} jobs, {count(estimate['known'])} known already"
    if not estimate["left"]:
        return f"{said}: nothing is left to do."
    if estimate["seconds_each"] is None:
        return f"{said}. How long one takes is unknown: no job of this kind is in the store yet."
    those = "those" if estimate["of_this_sweep"] else "other jobs of this kind"
    said += f". Of {those} one took {span(estimate['seconds_each'])} (median)"
    said += f", and the largest {size(estimate['most_bytes'])} of memory"
    if estimate["seconds_left"] is None:
        return f"{said}. How long all take depends on the cluster; --jobs would tell."
    left = span(estimate["seconds_left"])
    return f"{said}: about {left} left at {estimate['at_once']} at a time."
