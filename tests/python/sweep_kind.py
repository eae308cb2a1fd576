"""A kind of job that does what a test asks for: counts, sleeps, takes memory, fails, is killed."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from flashwright import _core
from flashwright._core import InputError, Progress, RunError
from flashwright.engine import worker
from flashwright.engine.task import Found
from flashwright.written import wrong

GOAL = ("y", "less")
KNOWN: dict[str, Any] = {
    "x1": 0.0, "x2": 0.0, "x3": 0.0, "how": "sum", "sleep": 0.0, "hold": 0, "seed": 1,
    "kill_once": "", "fail": False, "log": "", "file": "", "deaf": False, "wider": False,
    "panic": False, "refuse": False,
}  # fmt: skip


@cache
def load() -> _core.Workload:
    return _core.load_workload("synth:uniform(pages=4Ki)")


def settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    for name in asked:
        if name not in KNOWN:
            raise wrong(name, "there is no such option")
    return {**KNOWN, **asked}


def inputs(settings: Mapping[str, Any]) -> list[str]:
    return [settings["file"]] if settings["file"] else []


def end_if_told(settings: Mapping[str, Any]) -> None:
    if settings["fail"]:
        raise RunError(f"x1 = {settings['x1']} was told to fail")
    if settings["refuse"]:
        raise InputError(f"x1 = {settings['x1']} is wrong")
    if settings["panic"]:
        # As a panic of the core is: no Exception.
        raise KeyboardInterrupt("it was told to panic")


def do(settings: Mapping[str, Any], progress: Progress) -> Found:
    if settings["log"]:
        with Path(settings["log"]).open("a") as log:
            log.write(f"{settings['x1']}:{settings['seed']}\n")
    if settings["kill_once"] and not Path(settings["kill_once"]).exists():
        if settings["kill_once"] != "always":
            Path(settings["kill_once"]).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if settings["deaf"]:
        worker.GRACE_SECONDS = 0.2
    end_if_told(settings)
    held = bytearray(settings["hold"])
    # Touched, so that it is really there.
    held[::4096] = b"x" * len(held[::4096])
    end = time.monotonic() + settings["sleep"]
    while time.monotonic() < end:
        time.sleep(0.01)
        if not settings["deaf"]:
            # Raises Cancelled.
            _core.simulate(load(), progress=progress)
    a, b, c = (float(settings[name]) for name in ("x1", "x2", "x3"))
    y = math.sin(a) + 7 * math.sin(b) ** 2 + 0.1 * c**4 * math.sin(a)
    if settings["how"] == "sum":
        y = a + 10 * b + 0.1 * settings["seed"]
    figures: dict[str, Any] = {"y": y, "x1": a, "third": 1 / 3, "nothing": None}
    if settings["file"]:
        figures["bytes"] = len(Path(settings["file"]).read_bytes())
    if settings["wider"] and a > 2:
        figures |= {"late": a, "third": 1}
    return Found(figures, {"parts": pa.table({"part": [1, 2], "of": [y, y]})})
