"""Asks a database for a full checkpoint at intervals, as SCHEDULER 7.2.2's script does."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from flashwright._core import RunError

from .databases.place import Place
from .driver import Observer


class Checkpointer:
    """A thread that asks, from its beginning as a context to its end.

    `marks` are (begin, end), monotonic nanoseconds.
    """

    def __init__(self, place: Place, seconds: float, observer: Observer) -> None:
        self.marks: list[tuple[int, int]] = []
        self._place, self._seconds, self._observer = place, seconds, observer
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="checkpoints", daemon=True)

    def __enter__(self) -> Checkpointer:
        """Begin; the first comes after one interval."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """End, after the one that is under way.

        Raises:
            RunError: one failed, and nothing else did.
        """
        self._stop.set()
        self._thread.join()
        if self._error is not None and kind is None:
            raise RunError(f"a checkpoint failed: {self._error}") from self._error

    def _work(self) -> None:
        due = time.monotonic() + self._seconds
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            begin_ns = time.monotonic_ns()
            try:
                self._place.checkpoint()
            except Exception as error:
                self._error = error
                return
            mark = (begin_ns, time.monotonic_ns())
            self.marks.append(mark)
            self._observer.checkpoint(*mark)
            # One that takes longer than the interval is followed by the next at its next multiple.
            while due <= time.monotonic():
                due += self._seconds
