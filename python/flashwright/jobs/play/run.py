"""The runs of a `play`: planned, done side by side, and judged."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from flashwright import _core, sources
from flashwright._core import Cancelled, InputError
from flashwright._text import count
from flashwright.jobs.play import judged
from flashwright.jobs.play.figures import figures, flat
from flashwright.jobs.play.names import AUTO, DIRECT
from flashwright.jobs.play.outcome import Played
from flashwright.jobs.play.places import Place, places_of
from flashwright.jobs.targets import check_rights
from flashwright.jobs.work import Job as RustJob
from flashwright.kept import Kept, key_of
from flashwright.layering import checkpoints
from flashwright.layering.candidates import choice, playable, possible
from flashwright.layering.conditions import conditions
from flashwright.layering.known import facts_for
from flashwright.layering.verdict import verdict
from flashwright.pool import Ended, Pool
from flashwright.runs import PROFILE_FILE, TIMELINE_FILE, Job, Run, peak_rss_bytes
from flashwright.written import wrong

if TYPE_CHECKING:
    from flashwright._core import Progress
    from flashwright.lifetime import Lifetime
    from flashwright.progress import StoppedError

JOB = RustJob("play", Played)
COMMAND = "play"
REQUESTS = "requests"
"""The table of each request by itself."""
ENDLESS_REQUESTS = 1_000_000
"""Requests that are played of a source without end, if no limit is given."""
_MIB = 1 << 20
_OPERATIONS = ("read", "write", "trim", "flush")


@dataclass(frozen=True)
class Plan:
    """All that is played, and what is known before."""

    settings: dict[str, Any]
    """Settings as they were asked for, with all defaults."""
    places: tuple[Place, ...]
    stacks: tuple[str | None, ...]
    """Stacks of layers. None is the device itself, without the measure of what is below layers."""
    paces: tuple[str | None, ...]
    left_out: Mapping[str, str] | None = None
    """Candidates that are not possible on the device, and why. None where the stacks were named."""
    checkpoints: checkpoints.Checkpoints = field(default_factory=checkpoints.Checkpoints)
    threads: int = 1


def settings_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Give the settings of a job with all defaults, and refuse what contradicts itself.

    Raises InputError with the `option` that is wrong.
    """
    settings = JOB.settings(asked)
    if not settings["on"]:
        raise wrong("on", "no device is named; `flashwright list profile` has simulated ones")
    check_rights(settings, settings["on"])
    if settings["no_drain"] and settings["data"]:
        raise wrong("no_drain", "--data says how a run ends; leave one of them out")
    for name in ("facts", "checkpoints", "data", "no_drain"):
        if settings[name] and not settings["stack"]:
            raise wrong(name, "it is for layers, so give --stack too")
    for text in (one["spec"] for one in settings["on"] if "spec" in one):
        if text.startswith("emulated") and settings["write"] and not settings["data"]:
            raise wrong(
                "on",
                f"{text}: an emulated drive holds bytes, and they have to be told; right would be "
                "--stack direct --data drained, or profile(...), which is the same drive without",
            )
    for key in ("capacity", "fill"):
        if key in (settings["life"] or {}):
            raise wrong("life", f"{key}: it is of the drive; write it into profile(...)")
    settings["stack"] = _stacks_of(settings["stack"])
    return settings


def _stacks_of(given: Sequence[str]) -> list[str]:
    """Give the stacks that were named. Raises InputError if one is wrong or given twice."""
    named = [text.strip() or DIRECT for text in given]
    twice = next((text for text in named if named.count(text) > 1), None)
    if twice is not None:
        raise wrong("stack", f"{twice}: it is given twice; name each stack once")
    if AUTO in named and len(set(named) - {DIRECT}) > 1:
        raise wrong("stack", f"{AUTO} tries those that may be right; name it alone")
    for text in set(named) - {AUTO}:
        _core.check_stack(text)
    return named


def plan(settings: dict[str, Any], threads: int | None = None) -> Plan:
    """Find the devices and read the source; choose stacks where that was left open.

    Raises InputError; RunError if measuring what layers know fails; StoppedError.
    """
    at_once = threads or os.cpu_count() or 1
    named = [text for text in settings["stack"] if text != DIRECT]
    places = places_of({**settings, "stack": named}, at_once)
    left_out: Mapping[str, str] | None = None
    stacks: tuple[str | None, ...] = (None,)
    if settings["stack"]:
        places = [_with_facts(place, settings, needed=bool(named)) for place in places]
        if named == [AUTO]:
            kept, left_out = _candidates(places[0], settings)
            named = list(kept)
        stacks = (DIRECT, *named)
    due = _checkpoints(settings, places[0])
    due.check(named)
    paces = tuple(_core.pace_text(msgspec.json.encode(pace)) for pace in settings["pace"])
    twice = next((pace for pace in paces if paces.count(pace) > 1), None)
    if twice is not None:
        raise wrong("pace", f"{twice}: it is given twice; name each pace once")
    places = [_with_checkpoints(place, due) for place in places]
    if any(place.target.is_real for place in places):
        at_once = 1
    return Plan(settings, tuple(places), stacks, paces or (None,), left_out, due, at_once)


def _with_facts(place: Place, settings: Mapping[str, Any], *, needed: bool) -> Place:
    known = facts_for(place.target, settings["facts"], needed=needed)
    return replace(place, facts=known, settings={**place.settings, "facts": known.values})


def _candidates(
    place: Place, settings: Mapping[str, Any]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Give the stacks of the registry that are possible on a device."""
    if place.facts is None:
        raise AssertionError("facts were found before")
    moves = settings["fold"] or place.settings["source"].get("fit") in ("fold", "scale")
    return possible(
        playable(place.facts, with_data=settings["data"] is not None),
        partial(_offered_bytes, place),
        0 if moves else place.source.footprint_bytes or 0,
    )


def _offered_bytes(place: Place, stack: str) -> int:
    info, region = place.info, place.target.region
    length = region.length or info["capacity_bytes"] - region.offset
    said = msgspec.json.encode(place.settings)
    return _core.offered_bytes(said, stack, length, info["sector_bytes"])


def _checkpoints(settings: Mapping[str, Any], place: Place) -> checkpoints.Checkpoints:
    asked = settings["checkpoints"]
    if asked is None:
        return checkpoints.Checkpoints()
    [(kind, how)] = asked.items()
    if kind == "every":
        return checkpoints.every(how["seconds"], place.source, how["as"], place.slices)
    if kind == "marks":
        part = place.settings["source"]
        taken = checkpoints.Taken(
            part.get("skip") or 0.0, part.get("for"), part.get("limit"), operations(settings)
        )
        return checkpoints.marked(Path(place.given), taken, how["as"])
    return checkpoints.Checkpoints(
        tuple(how["ends_ns"]), how["as"], "as asked", tuple(how.get("begins_ns", ()))
    )


def operations(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Give the operations of the source that are played."""
    ops = settings["source"].get("ops")
    return tuple(ops.split("+")) if ops else _OPERATIONS


def _with_checkpoints(place: Place, due: checkpoints.Checkpoints) -> Place:
    said = due.on_slice(place.slices).setting()
    return replace(place, settings={**place.settings, "checkpoints": said})


@dataclass(frozen=True)
class Task:
    """One run of a plan."""

    place: Place
    stack: str | None
    pace: str | None
    above_bytes: int | None


class Playing:
    """The runs of a plan, and what came of them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._lifetimes: dict[str, Lifetime] = {
            place.label: judged.lifetime(place)
            for place in plan.places
            if place.drive is not None and plan.stacks == (None,)
        }
        above = {place.label: self._above_bytes(place) for place in plan.places}
        self.tasks = [
            Task(place, stack, pace, above[place.label])
            for place in plan.places
            for stack in plan.stacks
            for pace in plan.paces
        ]
        self.requests_to: Path | None = None
        """The Parquet file that each request of the one run is written to; None for no such table.
        It is a table of the run, and goes where the run is written.
        """
        self.record_to: Path | None = None
        """The Parquet file that a layer of ours above the device records into."""
        self.recorded_in: Path | None = None
        """The folder of the recording, once it is there."""
        self.stopped: StoppedError[Any] | None = None
        """The stop, if Ctrl-C came between."""
        self._written: set[str] = set()
        """Labels of real devices that a run has written to."""
        self._kept = Kept(None)
        self._ended: list[Ended[dict[str, Any]]] = []
        self.rows: list[dict[str, Any]] = []

    @property
    def is_one(self) -> bool:
        """True if it is one run on one device, without layers."""
        return len(self.tasks) == 1 and self.plan.stacks == (None,)

    def _above_bytes(self, place: Place) -> int | None:
        """Give the bytes that all stacks have in common, if addresses depend on them.

        Raises InputError if a stack cannot be made, or the source does not fit it.
        """
        if self.plan.stacks == (None,):
            return None
        offered = {
            text: _offered_bytes(place, text) for text in self.plan.stacks if text is not None
        }
        least = min(offered, key=lambda text: offered[text])
        settings = self.plan.settings
        if settings["fold"] or settings["source"].get("fit") in ("fold", "scale"):
            return offered[least] // _MIB * _MIB or offered[least]
        needed = place.source.footprint_bytes
        if needed is None:
            # A pattern goes by the device.
            return offered[least]
        if needed > offered[least]:
            raise InputError(
                f"{place.source.name} needs {needed} bytes, and {least} on {place.label} offers "
                f"{offered[least]}; right would be a larger device, capacity= of a simulated "
                "drive, --fold, or fit=dense or fit=scale in part(...)"
            )
        return None

    def keep_in(self, run_folder: Path | None) -> None:
        """Keep each run in the run folder as it ends, and take those that are finished there.

        On a real device none is: its answers are not the same again.
        """
        if all(place.target.is_simulated for place in self.plan.places) and not self.is_one:
            self._kept = Kept(run_folder)

    def _settings(self, task: Task) -> dict[str, Any]:
        return task.place.run(
            task.stack,
            task.pace,
            above_bytes=task.above_bytes,
            against=None,
            life=None,
        )

    def _key(self, task: Task) -> str | None:
        if not self._kept.is_on:
            return None
        return key_of(self._identity_of(task))

    def _identity_of(self, task: Task) -> list[Any]:
        """Give what decides on a run: contents of the source, and not its name."""
        settings = {key: value for key, value in self._settings(task).items() if key != "source"}
        sources = (task.place.source, *task.place.beside)
        return [settings, *(source.content_hash for source in sources)]

    @cached_property
    def pool(self) -> Pool[dict[str, Any]]:
        """The runs; those on a real device come one after another."""
        keys = [self._key(task) for task in self.tasks]
        work = [partial(self._do, task, key) for task, key in zip(self.tasks, keys, strict=True)]
        totals = [
            0 if self._kept.has(key) else self._total(task.place)
            for key, task in zip(keys, self.tasks, strict=True)
        ]
        return Pool(work, totals, self.plan.threads)

    def _total(self, place: Place) -> int | None:
        settings, known = self.plan.settings, place.source.requests
        if settings["duration"] is not None:
            return None
        left = None if known is None else known - judged.untimed_requests(place)
        limits = [limit for limit in (settings["requests"], left) if limit is not None]
        return min(limits) if limits else ENDLESS_REQUESTS

    @property
    def known(self) -> int:
        """Runs that an earlier one has finished."""
        return sum(self._kept.has(self._key(task)) for task in self.tasks)

    @property
    def planned(self) -> int:
        """Runs that there are to be."""
        return len(self.tasks)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Give the rows whose run failed."""
        return [row for row in self.rows if row["error"] is not None and not row.get("requests")]

    def _do(self, task: Task, key: str | None, progress: Progress) -> dict[str, Any]:
        def done() -> dict[str, Any]:
            place = task.place
            more: dict[str, Any] = {}
            if self.record_to is not None:
                more["record"] = str(self.record_to)
            if place.label in self._written:
                # What is there is of a run before this one.
                more["destroy_data"] = [place.target.given]
            if self.requests_to is not None:
                more["requests_to"] = str(self.requests_to)
            try:
                found = JOB.do({**self._settings(task), "record": None, **more}, progress)
            except InputError as error:
                if not place.target.is_real:
                    raise
                raise place.target.in_words(error) from None
            [run] = found.outcome.runs
            if place.target.is_real and place.target.may_write:
                self._written.add(place.label)
            if run.ended == "stopped" and (not self.is_one or place.target.is_simulated):
                # A part beside the whole would be compared as if they were the same.
                raise Cancelled("stopped")
            return {
                "run": msgspec.to_builtins(run),
                "texts": found.texts,
                "tables": {
                    name: {column: table[column] for column in table.column_names}
                    for name, table in found.tables.items()
                },
            }

        return self._kept.remember(key, done)

    def done_alone(self, progress: Progress) -> tuple[dict[str, Any], dict[str, Any]]:
        """Do the only run, and give its row and its tables.

        Raises InputError, RunError, Cancelled.
        """
        [task] = self.tasks
        found = self._do(task, None, progress)
        self.take([Ended(0, found)])
        return self.rows[0], {name: _table(columns) for name, columns in found["tables"].items()}

    def take(self, ended: Sequence[Ended[dict[str, Any]]]) -> None:
        """Take what came of the runs, and judge each.

        Raises the reason if none of them could be done.
        """
        self._ended = list(ended)
        if ended and all(one.raised is not None for one in ended):
            raise ended[0].raised or RuntimeError("it was looked at before")
        if len(ended) == self.planned:
            self._kept.drop_all_but([self._key(task) for task in self.tasks])
        self.rows = [self._row(one) for one in ended]
        direct = {
            (row["device"], row["pace"]): row
            for row in self.rows
            if row["stack"] == DIRECT and row["error"] is None
        }
        for row, one in zip(self.rows, ended, strict=True):
            alone = direct.get((row["device"], row.get("pace")))
            if row["error"] is None and alone is not None and row is not alone:
                place = self.tasks[one.number].place
                facts = place.facts.document() if place.facts else {}
                holds = conditions(row, alone, operations(self.plan.settings), row.get("state"))
                row["verdict"] = verdict(row, alone, facts, holds)

    def _row(self, ended: Ended[dict[str, Any]]) -> dict[str, Any]:
        task = self.tasks[ended.number]
        row: dict[str, Any] = {
            "device": task.place.label,
            "stack": task.stack,
            "pace": task.pace,
            "state": self._state(task.place),
            "verdict": None,
        }
        if ended.result is None:
            return {**row, "error": ended.error}
        run = ended.result["run"]
        row |= {**run, "device": task.place.label, "stack": task.stack}
        if task.stack is not None and run["layers"] is not None:
            return {**row, **figures(run)}
        if task.place.drive is not None and run["simulated"] is not None:
            tables = {"over_time": _table(ended.result["tables"]["over_time"])}
            lifetime = self._lifetimes[task.place.label]
            row |= judged.judged(task.place, row, tables, lifetime)
        return row

    def _state(self, place: Place) -> dict[str, Any] | None:
        if not place.target.is_simulated:
            return None
        aged = {} if place.target.overwrites is None else {"overwrites": place.target.overwrites}
        return {"kind": place.target.state, **aged}

    def job(self) -> Job:
        """Give the work that is asked for, by which its run folder is named."""
        identity: list[Any] = [
            [self._identity_of(task) for task in self.tasks],
            self.plan.settings["life"],
            self.plan.settings["against"],
        ]
        if any(place.target.is_real for place in self.plan.places):
            # A real device never does the same again: no two runs share a folder.
            identity.append(time.time_ns())
        place = self.plan.places[0]
        inputs = [sources.describe(place.given, place.source)]
        inputs += [sources.describe(source.name, source) for source in place.beside]
        return Job(COMMAND, identity, inputs, self.plan.settings["seed"])

    @cached_property
    def known_as(self) -> Job:
        """The same, named once."""
        return self.job()

    def run(self) -> Run:
        """Give the run: its document, and tables for Parquet."""
        plan, settings = self.plan, self.plan.settings
        result = {
            "complete": len(self.rows) == self.planned
            and not any(row["error"] or row.get("ended") == "stopped" for row in self.rows),
            "settings": settings,
            "source": self._source(),
            "devices": [place.document() for place in plan.places],
            "stacks": list(plan.stacks) if plan.stacks != (None,) else [],
            "paces": [row["pace"] for row in self.rows if row["device"] == self.rows[0]["device"]]
            if self.rows
            else [],
            "checkpoints": plan.checkpoints.document(),
            "runs": self.rows,
            "choices": self._choices(),
            "remarks": self._remarks(),
            "seed": settings["seed"],
            "peak_rss_bytes": peak_rss_bytes(),
        }
        run = self.known_as.run(result, self._tables(), self._texts())
        if self.requests_to is not None:
            run.table_files[REQUESTS] = self.requests_to
        return run

    def _source(self) -> dict[str, Any]:
        place = self.plan.places[0]
        source = place.source
        return {
            "name": sources.name_of(place.given),
            "part": self.plan.settings["source"],
            "requests": source.requests,
            "totals": source.totals,
            "footprint_bytes": source.footprint_bytes,
            "duration_ns": source.duration_ns,
            "has_times": source.has_times,
            "format": source.format,
            "sources": source.sources,
            "content_hash": source.content_hash,
            **source.reading,
        }

    def _choices(self) -> dict[str, Any] | None:
        """Say which stack is right for each device, where candidates were tried."""
        if self.plan.left_out is None:
            return None
        return {
            place.label: choice(
                [row for row in self.rows if row["device"] == place.label and not row["error"]],
                place.facts.document() if place.facts else {},
            )
            for place in self.plan.places
        }

    def _remarks(self) -> list[str]:
        said = [
            f"{text} was left out: {reason}." for text, reason in (self.plan.left_out or {}).items()
        ]
        if len(self.rows) < self.planned:
            said.append(
                f"Stopped: {count(self.planned - len(self.rows))} of {count(self.planned)} runs "
                "are missing."
            )
        if len(self.plan.stacks) > 1:
            said += [
                f"{place.label}: the stacks ran one after another, in this order, on the same "
                "device: what the earlier ones wrote was on it."
                for place in self.plan.places
                if place.target.is_real
            ]
        return said

    def _tables(self) -> dict[str, Any]:
        import pyarrow as pa

        rows = [flat(row) for row in self.rows]
        keys = dict.fromkeys(key for row in rows for key in row)
        tables = {"runs": pa.table({key: [row.get(key) for row in rows] for key in keys})}
        parts: dict[str, list[Any]] = {}
        for row, ended in zip(self.rows, self._ended, strict=True):
            for name, columns in (ended.result or {}).get("tables", {}).items():
                parts.setdefault(name, []).append(_labelled(_table(columns), row["device"]))
        return tables | {
            name: pa.concat_tables(found, promote_options="permissive")
            for name, found in parts.items()
        }

    def _texts(self) -> dict[str, str]:
        if self.is_one and self._ended and self._ended[0].result is not None:
            texts = self._ended[0].result["texts"]
            kept = {PROFILE_FILE, TIMELINE_FILE}
            return {name: text for name, text in texts.items() if name in kept}
        return {}


def _table(columns: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    return pa.table(dict(columns))


def _labelled(table: Any, label: str) -> Any:
    import pyarrow as pa

    column = table.column_names.index("device")
    return table.set_column(column, "device", pa.array([label] * table.num_rows, pa.string()))
