"""Advice: what a database's writes do to its drive, and what to change."""

from __future__ import annotations

import os
from pathlib import Path

from flashwright._core import InputError, parse_bytes
from flashwright.advice.answer import WITHIN
from flashwright.advice.asking import KEPT, Asked, ask
from flashwright.advice.building import Question
from flashwright.api.calls import public
from flashwright.api.results import Result


@public
def advise(
    source: str | os.PathLike[str],
    *,
    device: str | None = None,
    size: int | str | None = None,
    fill: float | None = None,
    writes_per_day: float | str | None = None,
    goal: str = "life",
    risk: str = "seconds",
    within: float = WITHIN,
    jobs: int | None = None,
    format: str | None = None,  # noqa: A002  (as the command has it)
    seed: int = 1,
    kept: str | os.PathLike[str] | None = KEPT,
    progress: bool = True,
) -> Result:
    """Say what the writes of a database do to its drive, and what to change.

    `source` is the folder of a recording, or a trace file. `device` is a profile, a TOML file, the
    folder of a probe, or a disk; without it the recorded disk's model, or what is nearest. `size`
    of the disk in bytes and its `fill`, above 0 and at most 1, are those recorded unless they are
    given. `writes_per_day` in bytes. `goal` is `life`, `latency` or `throughput`; `risk` is what
    may be lost after a crash: `none`, commits of the last `seconds`, or `any`. After `within`
    seconds no further simulation is begun; `jobs` are done at a time, by default one a core.
    Figures are kept in the folder `kept`, and not simulated again; None keeps none.

    `result` has `as_things_stand`, `changes` in order of gain, `combination`, `other_drives`,
    `would_not_help`, `not_known`, `told`, `rests_on`; its rows are all that was simulated.

    Raises InputError; KeyboardInterrupt after Ctrl-C.
    """
    question = Question(
        str(source),
        device,
        _bytes("size", size),
        fill,
        _bytes("writes_per_day", writes_per_day),
        goal,
        risk,
        format,
        seed=seed,
    )
    run, _ = ask(Asked(question, within, jobs, None if kept is None else Path(kept)))
    return Result(run)


def _bytes(name: str, value: float | str | None) -> int | None:
    """Read a number of bytes, such as `40G`."""
    if value is None:
        return None
    found = parse_bytes(value) if isinstance(value, str) else round(value)
    if not found or found < 0:
        raise InputError(f"{name}={value!r}: it is a number of bytes above 0, such as 40G")
    return found
