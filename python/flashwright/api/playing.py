"""Any device, real or simulated: requests and transactions played on it, and probed."""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.api.calls import public
from flashwright.api.results import Result
from flashwright.jobs.play import beside
from flashwright.jobs.play import run as playing
from flashwright.jobs.schema import about, given_of, settings_of
from flashwright.jobs.transactions import run as transacting
from flashwright.probing import plan as plans
from flashwright.probing import profile as profiles_of
from flashwright.probing import result as probes
from flashwright.probing.session import Session
from flashwright.probing.targets import Target
from flashwright.progress import follow, work
from flashwright.runs import PROFILE_FILE, Job

if TYPE_CHECKING:
    from typing import Unpack

    from flashwright.jobs.play.options import Play
    from flashwright.jobs.transactions.options import Transactions


@public
def play(
    source: str | os.PathLike[str],
    *,
    jobs: int | None = None,
    progress: bool = True,
    **options: Unpack[Play],
) -> Result:
    """Play a source on devices; see `help(flashwright.play)` for what each option is."""
    if options.get("dry_run"):
        raise InputError("dry_run: a function has nothing to print; leave it out")
    asked = {"source": str(source), **given_of(_listed("play", options))}
    plan = playing.plan(playing.settings_of(asked), jobs)
    runs = playing.Playing(plan)
    label = f"Playing {runs.planned} run{'' if runs.planned == 1 else 's'}"
    with tempfile.TemporaryDirectory() as folder, beside.request_file(runs, Path(folder) / "run"):
        with beside.recording(runs, None):
            ended = follow(label, "requests", runs.pool, runs.pool.run, preparing="Making drives")
            runs.take(ended)
        if runs.failures:
            first = runs.failures[0]
            raise RunError(f"{first['device']}: {first['error']}")
        run = runs.run()
        beside.lay(runs, run)
        run.tables |= {name: pq.read_table(path) for name, path in run.table_files.items()}
        run.table_files.clear()
    return Result(run)


@public
def transactions(
    source: str | os.PathLike[str],
    *,
    progress: bool = True,
    **options: Unpack[Transactions],
) -> Result:
    """Play transactions; see `help(flashwright.transactions)` for what each option is."""
    plan = transacting.plan({"source": str(source), **given_of(_listed("transactions", options))})
    run, ended = transacting.play(plan)
    if ended is not None:
        raise ended
    return Result(run)


def _listed(job: str, options: Mapping[str, object]) -> dict[str, object]:
    """Give options of which there may be several as lists: a text alone is one of them."""
    several = {one.name for one in settings_of(job) if "array" in one.kinds}
    return {
        name: [value] if name in several and isinstance(value, str | int | os.PathLike) else value
        for name, value in options.items()
    }


def _described(function: Callable[..., Result], job: str, more: str) -> None:
    """Give the function of a job the signature and the help of its settings, and what it gives."""
    known = [one for one in settings_of(job) if not one.is_hidden]
    own = inspect.signature(function)
    kinds = inspect.Parameter
    named = [
        kinds(one.name, kinds.KEYWORD_ONLY, default=one.default)
        for one in known
        if not one.is_argument
    ]
    kept = [one for one in own.parameters.values() if one.kind is not kinds.VAR_KEYWORD]
    function.__signature__ = own.replace(parameters=[*kept, *named])  # type: ignore[attr-defined]
    said = "\n".join(f"{one.name}: {one.help}" for one in known)
    function.__doc__ = (
        f"{about(job)}\n\n{said}\n{more} InputError names the option that is wrong; RunError if a "
        "device fails; KeyboardInterrupt after Ctrl-C."
    )


_described(
    play,
    "play",
    "jobs: Runs at a time, on simulated drives.\n\nThe rows of the result are the runs.",
)
_described(
    transactions, "transactions", "\nThe tables are windows, of time, and response, its classes."
)


@public
def probe(
    device: str | os.PathLike[str],
    *,
    only: Sequence[str] = (),
    full: bool = False,
    minutes: float | None = None,
    fit: int = 240,
    write: bool = False,
    destroy_data: bool = False,
    seed: int = 1,
    progress: bool = True,
) -> Result:
    """Measure a device from outside, and find out how it is made.

    The quick set of experiments, the `full` one, or `only` those named with their parameters, in
    `minutes` of the device's time. `device` is written as on the command line: `nvme-tlc`,
    `profile(nvme-tlc, state=aged)`, `disk(/dev/sdb, region=8Gi)`. A block device or file is only
    read unless `write` is given; `destroy_data` confirms that what such a device holds may go.
    By `fit` simulations a profile is searched that behaves as the device does; 0 for none.

    The rows of the result are what was found, each with its verdict; the table curves has what was
    measured. Findings are kept in memory alone: `flashwright probe` goes on where it was stopped.

    Raises InputError; RunError if the device fails; KeyboardInterrupt after Ctrl-C.
    """
    if destroy_data and not write:
        raise InputError("destroy_data: it confirms write; give both")
    access = "destroy_data" if destroy_data else "write" if write else "read_only"
    target = Target.find(str(device), seed=seed, access=access)
    chosen = plans.FULL if full else plans.QUICK
    plan = plans.make(chosen, only, minutes, may_write=target.may_write)
    opened = work(*target.opening, target.open)
    about = target.document(opened.info)
    part = target.region.on(opened.info)
    content = None if target.drive is None else target.drive.profile_hash
    inputs = [{"source": target.given, "sha256": None, "content_hash": content}]
    job = Job(probes.COMMAND, probes.identity(about, part, seed), inputs, seed)
    session = Session(opened, part, plan, seed=seed, may_write=target.may_write, store=None)
    outcome = follow(session.label, "", session, session.run)
    if outcome.error is not None:
        raise InputError(outcome.error) if outcome.is_wrong_use else RunError(outcome.error)
    run = probes.make_run(about, part, plan, outcome, job=job, may_write=target.may_write)
    reason = profiles_of.why_not(outcome.findings) or (None if fit else "fit is 0")
    if reason is not None:
        run.result["profile"] = {"why_not": reason}
        return Result(run)
    said, toml = work(
        f"Fitting a profile to {about['name']}",
        "cells",
        lambda following: profiles_of.make(
            outcome.findings, about, seed=seed, effort=fit, progress=following
        ),
    )
    run.result["profile"] = said
    run.texts.update({} if toml is None else {PROFILE_FILE: toml})
    return Result(run)


def profiles() -> list[str]:
    """Give the names of the built-in profiles of simulated drives."""
    return [entry["name"] for entry in _core.variants("profile")]
