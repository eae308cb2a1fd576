"""Records the way to a device from a database that runs already, beside the device's requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flashwright._core import InputError, RunError

from . import device as devices
from . import processor_time
from .own_counts import OwnCounts
from .path import PathRecorder
from .processor_time import ProcessorTime
from .recorder import OWN_COUNTS, OWN_LOG, PROCESSORS, RAW, Recorder
from .server_facts import AsksRunning
from .server_log import ServerLog

if TYPE_CHECKING:
    from flashwright.workloads.supervisor import Program, Supervisor

    from .running import Running

LOOK_S = 0.25
"""Processes that come to the files are looked for so often."""
_LOG = "what other settings would have written, from the server's log"
_WORK_SHARE = 0.05
"""Looking takes no more of a processor than this."""


@contextmanager
def recorded(
    supervisor: Supervisor, recorder: Recorder, running: Running | None, *, keeps_log: bool
) -> Iterator[RunningRecorder | None]:
    """Record a device while the block runs, and the calls of a database that runs, if there is one.

    What was recorded is whole if the block came to its end.
    """
    way: RunningRecorder | None = None
    try:
        recorder.prepare()
        if running is not None:
            way = RunningRecorder(supervisor, recorder, running, keeps_log=keeps_log)
            way.prepare()
            way.start()
        recorder.start()
        yield way
        recorder.stop()
        if way is not None:
            way.stop()
    finally:
        recorder.close()
        if way is not None:
            way.close()


class RunningRecorder:
    """Records calls and places of files: `prepare`, `start`, `stop`.

    `close` at the end, whatever happened.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        recorder: Recorder,
        running: Running,
        *,
        keeps_log: bool = True,
    ) -> None:
        """Do nothing yet. `keeps_log`: also what a PostgreSQL server writes into its log."""
        self._supervisor, self._recorder, self._running = supervisor, recorder, running
        self._names = running.names()
        self._path = PathRecorder(supervisor, recorder.folder / RAW, self._names)
        is_server = running.kind == "postgres"
        self._own = OwnCounts(running) if is_server else None
        self._processors = ProcessorTime(running.pids) if is_server else None
        self._keeps_log = keeps_log and is_server
        self._log: ServerLog | None = None
        self._known: set[int] = set()
        self._has_ended = threading.Event()
        self._looking: threading.Thread | None = None
        self._idle: Program | None = None

    def prepare(self) -> None:
        """Set everything up, when the recorder is prepared.

        Raises:
            InputError: this kernel, or this user, cannot.
            RunError: a helper did not start.
        """
        place = self._running.place
        point, _, kind, options = devices.mount_of(place)
        self._recorder.add(
            file_system={"type": kind, "options": options, "mount_point": str(point)},
            database={"kind": self._running.kind, "path": str(self._running.path)},
        )
        elsewhere = [
            root
            for root in self._running.roots
            if root.exists() and devices.find(root).number != self._recorder.device.number
        ]
        self._running.not_told.extend(
            f"what {root} gets: it is on another device, {devices.find(root).path}"
            for root in elsewhere
        )
        self._names.not_told = list(self._running.not_told)
        if self._own is not None:
            self._own.prepare()
        if self._keeps_log:
            self._prepare_log()
        self._path.prepare(kind, self._recorder.device, point)

    def _prepare_log(self) -> None:
        try:
            asks = AsksRunning(self._running)
        except (InputError, RunError, OSError) as error:
            self._running.not_told.append(f"{_LOG}: {error}")
            return
        self._log = ServerLog(asks, self._running.path, self._recorder.folder)

    def start(self) -> None:
        """Record from now on, also processes that come to the files later.

        Raises:
            RunError: a helper did not start.
        """
        self._known = set(self._running.processes())
        # Without any process the kernel would take the calls of all; this one makes none.
        self._idle = self._supervisor.start(
            ["sleep", "infinity"],
            log=self._recorder.folder / RAW / "idle.log",
            stop=((15, 2.0), (9, 2.0)),
        )
        self._path.start([self._idle.pid, *sorted(self._known)])
        if self._log is not None:
            self._log.begin()
        if self._own is not None:
            self._own.begin()
        if self._processors is not None:
            self._processors.begin()
        if self._running.kind != "postgres":
            self._looking = threading.Thread(target=self._look, name="processes", daemon=True)
            self._looking.start()

    def add(self, process: int) -> None:
        """Record the calls of this process, too, and of its children."""
        self._known.add(process)
        self._path.add([process])

    @property
    def has_failed(self) -> bool:
        """True if a helper has ended by itself."""
        return self._path.has_failed()

    def _look(self) -> None:
        pause = LOOK_S
        while not self._has_ended.wait(pause):
            begun = time.thread_time()
            new = set(self._running.processes()) - self._known
            if new:
                self._path.add(sorted(new))
                self._known |= new
            pause = max(LOOK_S, (time.thread_time() - begun) / _WORK_SHARE)

    def stop(self) -> None:
        """Record no more, and ask the database again what its files hold.

        Raises:
            RunError: something failed.
        """
        self._has_ended.set()
        if self._looking is not None:
            self._looking.join()
            self._running.not_told.append(
                f"calls of processes before they had a file open for {LOOK_S} s, unless they were "
                "started by the recording or named by --pid"
            )
        if self._processors is not None:
            seconds = processor_time.about(self._processors.end(), None)
            self._recorder.add(**{PROCESSORS: seconds})
        if self._own is not None:
            self._recorder.add(**{OWN_COUNTS: self._own.end()})
            if self._own.why is not None:
                self._running.not_told.append(f"what the server itself counts: {self._own.why}")
        if self._log is not None:
            self._recorder.add(**{OWN_LOG: self._log.end()})
            if self._log.gap is not None:
                self._running.not_told.append(f"{_LOG}: {self._log.gap}")
        if not self._running.path.exists():
            self._running.not_told.append(f"anything of {self._running.path}: it was never made")
        self._path.stop()
        self._path.tell(self._running.names())

    def close(self) -> None:
        """End, whatever state it is in."""
        self._has_ended.set()
        if self._own is not None:
            self._own.close()
        if self._log is not None:
            self._log.close()
        self._path.close()
        if self._idle is not None:
            self._idle.stop()
            self._idle = None
