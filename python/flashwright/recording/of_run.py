"""Records a benchmark while its session runs: hangs in as its observer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flashwright.workloads.databases.place import Place
from flashwright.workloads.driver import Unobserved
from flashwright.workloads.supervisor import Supervisor

from . import device as devices
from .recorder import RAW, TRANSACTIONS, Mark, Recorder

_PATIENCE_S = 60.0
_TIMES = {"time_ns": "start_ns", "end_ns": "end_ns"}


class RunRecorder(Unobserved):
    """Records the device that a database is on, for as long as the measurement lasts."""

    def __init__(self, folder: Path, command: list[str], buffer_kib: int) -> None:
        """Do nothing yet; `folder` is that of the recording."""
        self.folder = folder
        self.recorder: Recorder | None = None
        self._command = command
        self._buffer_kib = buffer_kib
        self._begun_ns = 0

    def database_ready(self, place: Place, supervisor: Supervisor) -> None:
        """Set the tracer up.

        Raises:
            InputError: it cannot be recorded here.
        """
        device = devices.find(place.files()[0].parent)
        self.recorder = Recorder(
            supervisor,
            device,
            self.folder,
            command=self._command,
            buffer_kib=self._buffer_kib,
            patience_s=_PATIENCE_S,
        )
        self.recorder.prepare()
        point, _, kind, options = devices.mount_of(place.files()[0])
        self.recorder.add(file_system={"type": kind, "options": options, "mount_point": str(point)})

    def measurement_begins(self, at_ns: int) -> None:
        """See `Observer`."""
        self._begun_ns = at_ns
        self._there.start()

    def measurement_ends(self, at_ns: int) -> None:
        """See `Observer`."""
        self._there.mark(Mark("measurement", self._begun_ns, at_ns))
        self._there.stop()

    def checkpoint(self, begin_ns: int, end_ns: int) -> None:
        """See `Observer`."""
        self._there.mark(Mark("checkpoint", begin_ns, end_ns, "asked for"))

    def transactions(self, log: dict[str, Any]) -> None:
        """Note every transaction of a run's log, whose times count from the measurement's begin."""
        times = {name: np.asarray(log[column]) + self._begun_ns for name, column in _TIMES.items()}
        names = pa.array(log["kind"], pa.string())
        kinds = pa.array(["transaction"] * len(names), pa.string())
        table = pa.table(
            {**{name: pa.array(column, pa.int64()) for name, column in times.items()}, "kind": kinds, "name": names}
        )
        pq.write_table(table, self.folder / RAW / TRANSACTIONS)

    def run_ends(self) -> None:
        """See `Observer`."""
        if self.recorder is not None:
            self.recorder.close()

    @property
    def _there(self) -> Recorder:
        if self.recorder is None:
            raise AssertionError("the database was never ready")
        return self.recorder
