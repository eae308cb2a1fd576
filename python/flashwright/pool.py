"""Many pieces of work in a pool of threads: each releases the GIL, so they run side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from flashwright._core import Cancelled, FlashwrightError, Progress

Result = TypeVar("Result")


@dataclass(frozen=True)
class Ended(Generic[Result]):
    """Outcome of a piece of work: its result, or the reason why it failed."""

    number: int
    result: Result | None
    error: str | None = None
    raised: FlashwrightError | None = None
    """The reason itself."""


class Pool(Generic[Result]):
    """Does all pieces; reports how far it is.

    Stops at once when it is cancelled, and gives what is finished. `totals` says how much each
    piece has to do, in the unit of its progress; None where that is not known.
    """

    def __init__(
        self,
        tasks: Sequence[Callable[[Progress], Result]],
        totals: Sequence[int | None],
        threads: int,
    ) -> None:
        self._tasks = list(tasks)
        self._totals = list(totals)
        self._threads = threads
        self._progress = [Progress() for _ in self._tasks]
        self._cancelled = threading.Event()

    def state(self) -> tuple[int, int]:
        """Give what is done, and all that there is; 0 if that is not known."""
        done = sum(progress.state()[0] for progress in self._progress)
        known = [total for total in self._totals if total is not None]
        return done, sum(known) if len(known) == len(self._totals) else 0

    def preparation(self) -> tuple[int, int]:
        """Give what is prepared of the pieces begun, and the total."""
        parts = [progress.preparation() for progress in self._progress]
        return sum(done for done, _ in parts), sum(total for _, total in parts)

    def cancel(self) -> None:
        """Stop every piece at its next clean point, and start no more."""
        self._cancelled.set()
        for progress in self._progress:
            progress.cancel()

    def run(self) -> list[Ended[Result]]:
        """Do all and give what came of it, in the order of the tasks.

        What a cancel cut off is left out.
        """
        with ThreadPoolExecutor(self._threads, thread_name_prefix="simulate") as pool:
            ended = list(pool.map(self._one, range(len(self._tasks))))
        return [one for one in ended if one is not None]

    def _one(self, number: int) -> Ended[Result] | None:
        if self._cancelled.is_set():
            return None
        try:
            result = self._tasks[number](self._progress[number])
        except Cancelled:
            return None
        except FlashwrightError as error:
            # One that cannot work shall not cost the others their results.
            return Ended(number, None, str(error), error)
        return Ended(number, result)
