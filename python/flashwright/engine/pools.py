"""What does orders: the contract, and processes of this machine or threads of this process."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, Protocol, cast

from flashwright._core import Progress
from flashwright.engine import worker
from flashwright.engine.worker import Order, Reply

# Not by -m: what it sends would then be of a module `__main__`, which is another one here.
_WORKER = (sys.executable, "-c", "from flashwright.engine.worker import main; main()")


@dataclass(frozen=True)
class Ended:
    """An order that has ended: a reply, or the reason why its worker is gone."""

    order: Order
    reply: Reply | None
    died: str = ""


class Pool(Protocol):
    """Whoever does orders, several at a time."""

    def room(self) -> int:
        """Give how many more orders are worth handing over now."""

    def submit(self, order: Order) -> None:
        """Take an order."""

    def wait(self, seconds: float) -> list[Ended]:
        """Give what has ended, after so many seconds at most."""

    def under_way(self) -> float:
        """Give how much of the orders that are being done is done: a number of orders."""

    def said(self) -> str:
        """Say who works, for the label of the progress."""

    def close(self) -> None:
        """End at once; what is not done is dropped."""


class Processes:
    """Processes of this machine, one order each at a time."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._outstanding = 0
        self._shares = [0.0] * number
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._is_closed = False
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._serve, args=(at,), daemon=True) for at in range(number)
        ]
        for thread in self._threads:
            thread.start()

    def room(self) -> int:
        """See `Pool`. One more waits than works, so that no worker waits for the next."""
        return 2 * self._number - self._outstanding

    def submit(self, order: Order) -> None:
        """See `Pool`."""
        self._outstanding += 1
        self._orders.put(order)

    def wait(self, seconds: float) -> list[Ended]:
        """See `Pool`."""
        found = _waited(self._ended, seconds)
        self._outstanding -= len(found)
        return found

    def under_way(self) -> float:
        """See `Pool`."""
        return sum(self._shares)

    def said(self) -> str:
        """See `Pool`."""
        return f"{self._number} at a time"

    def close(self) -> None:
        """See `Pool`."""
        with self._lock:
            self._is_closed = True
            for process in self._processes.values():
                process.kill()
        for _ in self._threads:
            self._orders.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self, at: int) -> None:
        while True:
            order = self._orders.get()
            if order is None or self._is_closed:
                break
            self._ended.put(self._done(at, order))
            self._shares[at] = 0.0
        process = self._processes.pop(at, None)
        if process is not None:
            process.kill()
            process.communicate()

    def _process(self, at: int) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._is_closed:
                return None
            if at not in self._processes:
                self._processes[at] = subprocess.Popen(
                    _WORKER,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    # Ctrl-C is for whoever ordered: it tells its workers.
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
            return self._processes[at]

    def _done(self, at: int, order: Order) -> Ended:
        process = self._process(at)
        if process is None or process.stdin is None or process.stdout is None:
            return Ended(order, None, "it was stopped")
        try:
            worker.send(cast("BinaryIO", process.stdin), order)
            while isinstance(found := worker.receive(cast("BinaryIO", process.stdout)), tuple):
                done, total = found
                self._shares[at] = min(done / total, 1.0) if total else 0.0
            if isinstance(found, Reply):
                if found.outcome.ended == "memory":
                    # It may hold the memory still, and the next task is not to blame.
                    self._end(at, process)
                return Ended(order, found)
        except (OSError, ValueError, EOFError, pickle.UnpicklingError):
            pass
        self._end(at, process)
        return Ended(order, None, _end_of(process.returncode))

    def _end(self, at: int, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.kill()
        process.communicate()
        with self._lock:
            self._processes.pop(at, None)


class Threads:
    """Threads of this process: for work that leaves the interpreter to others, on shared inputs.

    They begin at once, and one that runs out of memory ends them all.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._progress: dict[str, Progress] = {}
        self._outstanding = 0
        self._threads = ThreadPoolExecutor(number, thread_name_prefix="task")

    def room(self) -> int:
        """See `Pool`."""
        return 2 * self._number - self._outstanding

    def submit(self, order: Order) -> None:
        """See `Pool`."""
        self._outstanding += 1
        self._threads.submit(self._do, order)

    def wait(self, seconds: float) -> list[Ended]:
        """See `Pool`."""
        found = _waited(self._ended, seconds)
        self._outstanding -= len(found)
        return found

    def under_way(self) -> float:
        """See `Pool`."""
        states = [progress.state() for progress in list(self._progress.values())]
        return sum(min(done / total, 1.0) for done, total in states if total)

    def said(self) -> str:
        """See `Pool`. What tasks say of themselves comes first."""
        said = [progress.said() for progress in list(self._progress.values())]
        return "; ".join(filter(None, said)) or f"{self._number} at a time"

    def close(self) -> None:
        """See `Pool`. Each comes to its next clean point."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for progress in list(self._progress.values()):
            progress.cancel()
        self._threads.shutdown()

    def _do(self, order: Order) -> None:
        def follow(progress: Progress) -> None:
            self._progress[order.attempt] = progress

        try:
            ended = Ended(order, worker.do(order, following=follow))
        except OSError as error:
            ended = Ended(order, None, str(error))
        self._progress.pop(order.attempt, None)
        self._ended.put(ended)


def _waited(ended: queue.SimpleQueue[Ended], seconds: float) -> list[Ended]:
    """Give all that has ended, after so many seconds at most."""
    found: list[Ended] = []
    try:
        found.append(ended.get(timeout=seconds) if seconds else ended.get_nowait())
        while True:
            found.append(ended.get_nowait())
    except queue.Empty:
        return found


def _end_of(code: int) -> str:
    if code >= 0:
        return f"its worker left with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    more = ", as the kernel does where memory runs out" if -code == signal.SIGKILL else ""
    return f"its worker was ended by {name}{more}"
