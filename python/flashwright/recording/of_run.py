"""Records a benchmark while its session runs: hangs in as its observer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright.workloads.databases.embedded import Embedded
from flashwright.workloads.databases.place import Place
from flashwright.workloads.driver import Unobserved
from flashwright.workloads.measure import RunResult, Windows
from flashwright.workloads.supervisor import Supervisor

from . import device as devices
from . import processor_time
from .path import Names, PathRecorder, processes_of
from .processor_time import ProcessorTime
from .recorder import MARKS_OF_RUN, OWN_LOG, PROCESSORS, RAW, Mark, Recorder
from .server_facts import AsksServer
from .server_log import ServerLog

_PATIENCE_S = 60.0


class RunRecorder(Unobserved):
    """Records the device that a database is on, for as long as the measurement lasts.

    And the way to it, from the warm-up on.
    """

    def __init__(
        self,
        folder: Path,
        command: list[str],
        buffer_kib: int,
        *,
        with_path: bool = True,
        keeps_log: bool = True,
        may_replace: bool = False,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """Do nothing yet; `folder` is that of the recording.

        `with_path`: also the database's calls, and where its files lie. `keeps_log`: also what a
        PostgreSQL server writes into its log. `may_replace`: a recording that is in the folder.
        `patience_s`: how long to wait for another recording on this machine.
        """
        self.folder = folder
        self.recorder: Recorder | None = None
        self._path: PathRecorder | None = None
        self._place: Place | None = None
        self._with_path = with_path
        self._keeps_log = keeps_log
        self._log: ServerLog | None = None
        self._processors: ProcessorTime | None = None
        self._server_seconds: float | None = None
        self._may_replace = may_replace
        self._patience_s = patience_s
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
            patience_s=self._patience_s,
            may_replace=self._may_replace,
        )
        self.recorder.prepare()
        point, _, kind, options = devices.mount_of(place.files()[0])
        self.recorder.add(file_system={"type": kind, "options": options, "mount_point": str(point)})
        self._place = place
        if self._with_path:
            self._path = PathRecorder(supervisor, self.folder / RAW, Names.of(place))
            self._path.prepare(kind, device, point)
        if isinstance(place, Embedded):
            return
        # The other one is a Cluster, an optional part.
        server = place.server  # type: ignore[attr-defined]
        self._processors = ProcessorTime([server.pid])
        if self._keeps_log:
            self._log = ServerLog(AsksServer(server), server.data.resolve(), self.folder)

    def warming_up(self, windows: Windows) -> None:  # noqa: ARG002  (an observer's)
        """See `Observer`."""
        if self._path is not None and self._place is not None:
            self._path.start(processes_of(self._place))

    def measurement_begins(self, at_ns: int) -> None:
        """See `Observer`."""
        self._begun_ns = at_ns
        self._there.start()
        if self._processors is not None:
            self._processors.begin()
        if self._log is not None:
            self._log.begin()

    def has_failed(self) -> bool:
        """See `Observer`."""
        return (self.recorder is not None and self.recorder.has_failed) or (
            self._path is not None and self._path.has_failed()
        )

    def measurement_ends(self, at_ns: int) -> None:
        """See `Observer`."""
        self._there.mark(Mark("measurement", self._begun_ns, at_ns))
        if self._processors is not None:
            self._server_seconds = self._processors.end()
        self._there.stop()
        if self._log is not None:
            self._there.add(**{OWN_LOG: self._log.end()})
        if self._path is not None and self._place is not None:
            self._path.stop()
            self._path.tell(Names.of(self._place))

    def checkpoint(self, begin_ns: int, end_ns: int) -> None:
        """See `Observer`."""
        self._there.mark(Mark("checkpoint", begin_ns, end_ns, "asked for"))

    def tell(self, result: RunResult, checkpoints: list[dict[str, Any]]) -> None:
        """Note what a run told when it was over.

        Its log of transactions, what its clients took of the processors, and the database's
        checkpoints where it says them. Times count from the measurement's begin: of transactions
        in nanoseconds, of checkpoints in seconds.
        """
        seconds = processor_time.about(self._server_seconds, result.processor_seconds)
        self._there.add(**{PROCESSORS: seconds})
        transactions = result.transactions_log
        parts = [_marks("checkpoint", *_columns_of(checkpoints))]
        if transactions:
            parts.append(
                _marks(
                    "transaction",
                    transactions["start_ns"],
                    transactions["end_ns"],
                    transactions["kind"],
                )
            )
        table = pa.concat_tables(parts)
        for name in ("time_ns", "end_ns"):
            shifted = pc.add(table[name], pa.scalar(self._begun_ns, pa.int64()))
            table = table.set_column(table.schema.get_field_index(name), name, shifted)
        pq.write_table(table, self.folder / RAW / MARKS_OF_RUN)

    def run_ends(self) -> None:
        """See `Observer`."""
        if self.recorder is not None:
            self.recorder.close()
        if self._path is not None:
            self._path.close()
        if self._log is not None:
            self._log.close()

    @property
    def _there(self) -> Recorder:
        if self.recorder is None:
            raise AssertionError("the database was never ready")
        return self.recorder


def _columns_of(checkpoints: list[dict[str, Any]]) -> tuple[list[int], list[int], list[str]]:
    whole = [one for one in checkpoints if "start_s" in one and "end_s" in one]
    times = [[round(one[name] * 1e9) for one in whole] for name in ("start_s", "end_s")]
    return times[0], times[1], [str(one.get("cause", "")) for one in whole]


def _marks(kind: str, begins_ns: Any, ends_ns: Any, names: Any) -> pa.Table:
    return pa.table(
        {
            "time_ns": pa.array(begins_ns, pa.int64()),
            "end_ns": pa.array(ends_ns, pa.int64()),
            "kind": pa.array([kind] * len(names), pa.string()),
            "name": pa.array(names, pa.string()),
        }
    )
