"""One play of transactions: settled before, judged after."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from flashwright import _core
from flashwright._core import Cancelled, InputError, RunError
from flashwright.jobs.play.names import DIRECT
from flashwright.jobs.targets import check_rights, target_of
from flashwright.jobs.transactions.outcome import TransactionsPlayed
from flashwright.jobs.work import Done
from flashwright.jobs.work import Job as RustJob
from flashwright.layering.known import NOTHING, facts_for
from flashwright.progress import StoppedError, work
from flashwright.runs import Job, Run

if TYPE_CHECKING:
    import pyarrow as pa

    from flashwright._core import Progress
    from flashwright.layering.facts import Facts
    from flashwright.probing.targets import Target

JOB = RustJob("transactions", TransactionsPlayed)
COMMAND = "transactions"


@dataclass(frozen=True)
class Plan:
    """All that is played, and what is known before."""

    settings: Mapping[str, Any]
    """Settings as they were asked for, with all defaults."""
    target: Target
    facts: Facts

    @property
    def settled(self) -> dict[str, Any]:
        """Settings in which what was to be found out is settled."""
        found = dict(self.settings)
        if self.settings["stack"] != DIRECT:
            found["facts"] = self.facts.values
        return found

    def do(self, progress: Progress) -> Done[TransactionsPlayed]:
        """Play. Raises InputError with the `option` that is wrong; RunError; Cancelled."""
        try:
            return JOB.do(self.settled, progress)
        except InputError as error:
            raise self.target.in_words(error) from None

    def whole(self, progress: Progress) -> Done[TransactionsPlayed]:
        """Play to the end; as `do`, but what ended early is an error."""
        done = self.do(progress)
        if done.outcome.ended == "stopped":
            raise Cancelled("stopped")
        if done.outcome.ended is not None:
            raise RunError(str(done.outcome.error))
        return done


def plan(asked: Mapping[str, Any]) -> Plan:
    """Find the device, and what layers have to know of it.

    Raises InputError with the `option` that is wrong; RunError if measuring what layers know fails;
    StoppedError.
    """
    settings = JOB.settings(asked)
    check_rights(settings, [settings["on"]])
    has_layers = settings["stack"] != DIRECT
    if has_layers:
        # Before anything is measured.
        _core.check_stack(settings["stack"])
    target = target_of(settings["on"], settings)
    known = facts_for(target, settings["facts"] or NOTHING, needed=has_layers)
    return Plan(settings, target, known)


def play(plan: Plan) -> tuple[Run, Exception | None]:
    """Play, and give the run, and what ended it early.

    Raises as `Plan.do`; StoppedError if it was stopped before anything was measured.
    """
    settings = plan.settings
    limited = settings["transactions"] is not None or settings["seconds"] is None
    unit = "transactions" if limited else "ms of the device"
    label = f"Playing {settings['source']} on {plan.target.name}"
    preparing = "Making the device" if settings["no_load"] else "Loading the database"
    ended: Exception | None = None
    try:
        done = work(label, unit, plan.do, preparing=preparing)
    except StoppedError as stop:
        if stop.result is None:
            raise
        done, ended = stop.result, stop
    if done.outcome.ended == "failed":
        committed = done.outcome.committed
        ended = RunError(f"{done.outcome.error}; {committed} transactions are kept")
    return run_of(plan, done), ended


def run_of(plan: Plan, done: Done[TransactionsPlayed]) -> Run:
    """Give what came of a play as a run."""
    figures: dict[str, Any] = msgspec.to_builtins(done.outcome)
    source, sha256 = plan.settings["source"], figures.pop("source_sha256")
    device = plan.target.document(figures.pop("about"))
    result = {
        "transactions": {
            "source": source,
            **figures.pop("database"),
            "counts": figures.pop("counts"),
        },
        "device": device,
        "region": {key: figures.pop(key) for key in ("offset_bytes", "length_bytes")},
        "settings": dict(plan.settings),
        "facts": plan.facts.document(),
        "complete": done.outcome.ended is None,
        "steady": steady(done.tables),
        **figures,
    }
    inputs = [{"source": source, "sha256": sha256, "content_hash": None}] if sha256 else []
    identity: list[Any] = [{**plan.settled, "source": sha256 or source}, device]
    if plan.target.is_real:
        # A real device never does the same again.
        identity.append(time.time_ns())
    return Job(COMMAND, identity, inputs, plan.settings["seed"]).run(result, done.tables)


def steady(tables: Mapping[str, pa.Table]) -> bool | None:
    """Tell whether both halves of the time had the same throughput within 5 %; None if too short.

    A level throughput is not yet a lasting one: a drive may live on a reserve for a while.
    """
    committed = tables["windows"]["committed"].to_pylist() if "windows" in tables else []
    half = len(committed) // 2
    if half < 4 or sum(committed) < 2000:
        return None
    first, second = sum(committed[:half]), sum(committed[-half - 1 : -1])
    return bool(abs(first - second) <= 0.05 * max(first, second, 1))
