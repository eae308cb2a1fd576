"""One play of transactions on a device, and its result."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright._text import size
from flashwright.progress import StoppedError, work
from flashwright.runs import Job, Run, table
from flashwright.transactions.plan import DIRECT

if TYPE_CHECKING:
    from flashwright._core import Transactions
    from flashwright.layering.facts import Facts
    from flashwright.probing.targets import Target
    from flashwright.transactions.plan import Plan

COMMAND = "transactions"


def play(
    source: str,
    transactions: Transactions,
    target: Target,
    plan: Plan,
    facts: Facts | None = None,
) -> tuple[Run, Exception | None]:
    """Play transactions on a device; gives the run, and what ended it early.

    `facts` is what the layers of the plan's stack know of the device, for parameters that are
    `auto`; nothing if left out.

    Raises InputError if they do not fit, or the device may not be written; StoppedError if it was
    stopped before anything was measured.
    """
    if not target.may_write:
        raise InputError(
            f"{target.given}: transactions write to it; add --write if what is on the device may go"
        )
    given = plan.given(transactions)
    target = target.taking(min(2 * plan.clients + 64, 4096), 1 << 20)
    device = work(*target.opening, target.open)
    region = target.region.on(device.info)
    ended: Exception | None = None
    unit = "ms of the device" if given["transactions"] is None else "transactions"
    loads = plan.loaded
    try:
        outcome = work(
            f"Playing {source} on {target.name}",
            unit,
            lambda progress: _core.play_transactions(
                device,
                transactions,
                given,
                loaded=loads,
                region_offset=region.offset,
                region_bytes=region.length,
                stack=plan.stack,
                facts=facts.values if facts else None,
                progress=progress,
            ),
            preparing="Loading the database" if loads else None,
        )
    except StoppedError as stop:
        if stop.result is None:
            raise
        outcome, ended = stop.result, stop
    if outcome["ended"] == "failed":
        ended = RunError(f"{outcome['error']}; {outcome['committed']} transactions are kept")
    about = {"source": source, **transactions.database, "counts": transactions.counts}
    tables = {name: table(columns) for name, columns in outcome.pop("tables").items()}
    on = target.document(device.info)
    result = {
        "transactions": about,
        "device": on,
        "region": region.document(),
        "plan": {**given, "loaded": loads, "stack": plan.stack},
        "facts": facts.document() if facts else None,
        "complete": outcome["ended"] is None,
        "steady": steady(tables["windows"]),
        **outcome,
    }
    sources = [
        {"source": source, "sha256": one["sha256"], "content_hash": None}
        for one in transactions.sources
    ]
    # A real device never does the same again.
    when_ns = [time.time_ns()] if target.is_real else []
    identity = [transactions.sources or source, on, region.document(), result["plan"], *when_ns]
    if facts and facts.values:
        identity.append(facts.values)
    job = Job(COMMAND, identity, sources, plan.seed)
    return job.run(result, {name: one for name, one in tables.items() if one.num_rows}), ended


def steady(windows: Any) -> bool | None:
    """Tell whether both halves of the time had the same throughput within 5 %; None if too short.

    A level throughput is not yet a lasting one: a drive may live on a reserve for a while.
    """
    committed = windows["committed"].to_pylist()
    half = len(committed) // 2
    if half < 4 or sum(committed) < 2000:
        return None
    first, second = sum(committed[:half]), sum(committed[-half - 1 : -1])
    return bool(abs(first - second) <= 0.05 * max(first, second, 1))


def title(result: dict[str, Any]) -> str:
    """Give the title of a run."""
    about = result["transactions"]
    scale = "".join(f", {value:,} {name}" for name, value in about["scale"].items())
    stack = result["plan"]["stack"]
    through = "" if stack == DIRECT else f" through {stack}"
    return f"{about['name']} ({size(about['bytes'])}{scale}){through} on {result['device']['name']}"
