"""A trial of a database on an emulated drive: a kind of job, see `engine.task`.

It measures time, so a machine does one alone.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright import __version__
from flashwright._core import Cancelled
from flashwright.advice import trials
from flashwright.advice.trials import Trial
from flashwright.engine.task import Found, Task, task_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashwright._core import Progress

VERSION = __version__
"""A measurement stays one, whatever is built afterwards."""
ASIDE = ("on", "name")
"""Where the drives' bytes lie meanwhile, and how the trial is called."""
_LOOK_SECONDS = 0.05


def task(trial: Trial, name: str, on: Path) -> Task:
    """Give the task of a trial; `on` is the folder where the drives' bytes lie meanwhile."""
    # There and back: 1 and 1.0 are the same time.
    settings = Trial.of_document(trial.document()).document()
    return task_of(__name__, {**settings, "name": name, "on": str(on)}, ())


def do(settings: Mapping[str, Any], progress: Progress) -> Found:
    """See `Kind`."""

    def say(what: str) -> None:
        progress.say(f"{settings['name']}: {what}")

    with _stopping(progress) as stop:
        found = trials.run(Trial.of_document(settings), Path(settings["on"]), say, stop)
    return Found(found.document())


@contextmanager
def _stopping(progress: Progress) -> Iterator[threading.Event]:
    """Give an event that is set when the work is asked to stop."""
    stop, ended = threading.Event(), threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_SECONDS):
            try:
                progress.check()
            except Cancelled:
                stop.set()
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        ended.set()
        thread.join()
