"""Long work in a thread, its progress on standard error or in a notebook, and a clean stop."""

from __future__ import annotations

import html
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from rich.console import Console
from rich.progress import (
    BarColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

from flashwright._core import Cancelled, Progress
from flashwright._text import short_count, span

Result = TypeVar("Result")
Label = str | Callable[[], str]
POLL_SECONDS = 0.1
NOTEBOOK_SECONDS = 0.5
"""Between two drawings in a notebook, which keeps each of them."""
_is_shown = ContextVar("is_shown", default=True)


@contextmanager
def hidden() -> Iterator[None]:
    """Draw no progress within."""
    token = _is_shown.set(False)
    try:
        yield
    finally:
        _is_shown.reset(token)


class Tracker(Protocol):
    """Whatever can tell how far it is and be stopped: a core Progress, or many of them."""

    def state(self) -> tuple[int, int]:
        """Give what is done and the total; 0 if that is not known."""

    def cancel(self) -> None:
        """Ask the work to stop."""


@runtime_checkable
class Preparing(Tracker, Protocol):
    """One whose work may begin with something else, such as making a drive."""

    def preparation(self) -> tuple[int, int]:
        """Give what is prepared before the first unit can be done, and the total; 0 for nothing."""


class StoppedError(Exception, Generic[Result]):
    """The user stopped the work.

    Holds what it gave back all the same, if anything, and how far it was.
    """

    def __init__(self, done: int, total: int, unit: str, result: Result | None) -> None:
        self.done, self.total, self.unit, self.result = done, total, unit, result
        super().__init__(done, total)

    def __str__(self) -> str:
        """Tell how far the work was."""
        if self.done == 0:
            return "stopped before the first result"
        of_total = (
            f" of {short_count(self.total)} ({self.done / self.total:.0%})" if self.total else ""
        )
        return f"stopped after {short_count(self.done)}{of_total} {self.unit}"


class _Rate(ProgressColumn):
    """Units done a second, over the whole run: steadier than an instant's rate."""

    def render(self, task: Task) -> Text:
        elapsed, done = task.fields["worked"], task.fields["done"]
        return Text(
            f"{short_count(done / elapsed)} {task.fields['unit']}/s"
            if elapsed > 0.3 and done and task.fields["unit"]
            else ""
        )


class _Remaining(ProgressColumn):
    """Time to the end, if it goes on as so far."""

    def render(self, task: Task) -> Text:
        if not task.total or not task.completed or task.fields["worked"] <= 0.3:
            return Text("")
        return Text(
            f"{span(round(task.fields['worked'] * (task.total - task.completed) / task.completed))}"
            " left"
        )


def follow(
    label: Label,
    unit: str,
    tracker: Tracker,
    work: Callable[[], Result],
    *,
    preparing: str | None = None,
) -> Result:
    """Run the work in a thread, and give its result.

    Draws its progress if standard error is a terminal. A label that is called says what is being
    done now. Without a unit no rate is shown. `preparing` is the label until the first unit is
    done, for work that takes a while to begin.

    Raises what the work raises; StoppedError after Ctrl-C, as soon as the work came to its next
    clean point.
    """
    outcome: list[Result] = []
    failure: list[BaseException] = []
    # An event, since Thread.join takes a thread for ended when Ctrl-C interrupts it (up to Python
    # 3.12).
    ended = threading.Event()

    def target() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=target, name="work", daemon=True)
    interrupted = False
    try:
        thread.start()
        _draw_until_done(label, unit, tracker, ended, preparing)
    except KeyboardInterrupt:
        interrupted = True
        tracker.cancel()
        _wait_or_leave(ended)
    if interrupted and (not failure or isinstance(failure[0], Cancelled)):
        done, total = tracker.state()
        raise StoppedError(done, total, unit, outcome[0] if outcome else None) from None
    if failure:
        raise failure[0]
    return outcome[0]


def work(
    label: str, unit: str, task: Callable[[Progress], Result], *, preparing: str | None = None
) -> Result:
    """Follow a task that takes one core Progress; as follow()."""
    progress = Progress()
    return follow(label, unit, progress, lambda: task(progress), preparing=preparing)


def whole(label: str, unit: str, task: Callable[[Progress], Result]) -> Result:
    """Do work(), and give its result if it came to its end in spite of Ctrl-C: it was done.

    For what changes something that stays. SIGTERM is taken as Ctrl-C meanwhile: work that knows no
    way back comes to its end first, and nobody takes away what it has just made.
    """
    with _terminating_as_interrupt():
        try:
            return work(label, unit, task)
        except StoppedError as stop:
            if stop.result is None:
                raise
            done: Result = stop.result
            return done


@contextmanager
def _terminating_as_interrupt() -> Iterator[None]:
    def interrupted(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _draw_until_done(
    label: Label, unit: str, tracker: Tracker, ended: threading.Event, preparing: str | None = None
) -> None:
    console = Console(stderr=True)
    said = label if callable(label) else lambda: label
    began = time.monotonic()
    # Work of an instant shall not flash a bar.
    if ended.wait(2 * POLL_SECONDS):
        return
    if _is_shown.get() and console.is_jupyter:
        _draw_in_notebook(said, tracker, ended, preparing)
        return
    if not _is_shown.get() or not console.is_terminal:
        while not ended.wait(POLL_SECONDS):
            pass
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        _Rate(),
        _Remaining(),
    )
    with Bars(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(preparing or said(), total=None, done=0, unit=unit, worked=0.0)
        while not ended.wait(POLL_SECONDS):
            done, total = tracker.state()
            if preparing is not None and not done and isinstance(tracker, Preparing):
                # A rate over the preparation, too, would tell a time left of hours where it is
                # seconds.
                began = time.monotonic()
                prepared, to_prepare = tracker.preparation()
                bars.update(bar, completed=prepared, total=to_prepare or None)
                continue
            worked = time.monotonic() - began
            bars.update(
                bar,
                description=said(),
                completed=done,
                total=total or None,
                done=done,
                worked=worked,
            )


def _draw_in_notebook(
    said: Callable[[], str], tracker: Tracker, ended: threading.Event, preparing: str | None
) -> None:
    """Draw a bar below the cell, which goes when the work is done."""
    # There is one where there is a notebook.
    from IPython.display import HTML, display  # noqa: PLC0415

    began = time.monotonic()
    bar: Any = None
    try:
        while not ended.wait(NOTEBOOK_SECONDS):
            done, total = tracker.state()
            label = said()
            if preparing is not None and not done and isinstance(tracker, Preparing):
                began, label = time.monotonic(), preparing
                done, total = tracker.preparation()
            left = ""
            if done and total:
                worked = time.monotonic() - began
                left = f"{done / total:.0%}, {span(round(worked * (total - done) / done))} left"
            known = f' value="{done}" max="{total}"' if total else ""
            drawn = HTML(f"<progress{known}></progress> {html.escape(label)} {left}")
            if bar is None:
                bar = display(drawn, display_id=True)
            else:
                bar.update(drawn)
    finally:
        if bar is not None:
            bar.update(HTML(""))


def _wait_or_leave(ended: threading.Event) -> None:
    """Wait for the clean point; a second Ctrl-C leaves at once."""
    try:
        said = time.monotonic() + 1
        while not ended.wait(POLL_SECONDS):
            if said and time.monotonic() > said:
                sys.stderr.write("flashwright: stopping; press Ctrl-C again to leave at once\n")
                said = 0
    except KeyboardInterrupt:
        os._exit(130)
