"""Recordings: what a device gets while something runs, and who amplified what."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flashwright import runs
from flashwright._core import InputError
from flashwright.api.calls import public
from flashwright.api.results import Result
from flashwright.recording import device as devices
from flashwright.recording.block import BUFFER_KIB
from flashwright.recording.of_running import recorded
from flashwright.recording.recorder import Recorder
from flashwright.recording.running import Running
from flashwright.recording.side_by_side import FlashPlan, side_by_side
from flashwright.recording.tools import need_root
from flashwright.workloads.supervisor import Supervisor

_PATIENCE_S = 60.0


@contextmanager
def record(
    target: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    database: str | None = None,
    pids: Sequence[int] = (),
    no_log: bool = False,
    buffer_bytes: int = BUFFER_KIB << 10,
) -> Iterator[None]:
    """Record the requests of a device while the block of `with` runs.

    `target` is a block device, or a folder, of which the device below its file system is taken.
    With `database` it is the data directory of a PostgreSQL server (`postgres`), a database file of
    SQLite (`sqlite`) or any program's folder (`files`), and the calls of its processes are recorded
    too, for `waterfall`; `pids` are further processes. Of a PostgreSQL server its log is kept, for
    `postgres_what_if`, unless `no_log`.

    The recording is a run folder, for `open_run`, `play` and `compare`.
    Needs root. `buffer_bytes` is the kernel's buffer for each processor: what it has to drop is
    counted.

    Raises InputError if this cannot be recorded, or the folder will not do; RunError if a stream
    could not be written.
    """
    from flashwright.recording.finish import drop_raw
    from flashwright.recording.tables import tables_of
    from flashwright.reports import write_report

    need_root("recording what the kernel does")
    if pids and database is None:
        raise InputError("pids: they are of a database, which says what the files are")
    running = None if database is None else Running.find(database, Path(target), tuple(pids))
    found = devices.find(Path(target))
    place = Path(folder)
    with runs.called(f"flashwright.record({str(target)!r}, {str(folder)!r})"):
        with Supervisor() as supervisor:
            recorder = Recorder(
                supervisor,
                found,
                place,
                command=runs.command_line(),
                buffer_kib=max(1, buffer_bytes // 1024),
                patience_s=_PATIENCE_S,
            )
            with recorded(supervisor, recorder, running, keeps_log=not no_log):
                yield
        tables_of(place).write(place)
        write_report(place)
        drop_raw(place)


@public
def waterfall(
    folder: str | os.PathLike[str],
    on: str | None = None,
    *,
    seed: int = 1,
    progress: bool = True,
) -> Result:
    """Lay the layers of a recording side by side: calls, file system, device, flash.

    `folder` is that of a recording with the calls of a database. `on` a drive, also what its flash
    programs for it: `nvme-tlc`, or `profile(nvme-tlc, state=aged, fill=40%, slices=4)`. The drive
    has the size of the disk that was recorded, and is simulated as one of as few slices as two
    minutes and 2 GiB allow; the result says which, and why.

    The rows of the result are bytes and requests by layer, operation and purpose.

    Raises InputError; KeyboardInterrupt after Ctrl-C.
    """
    plan = None if on is None else FlashPlan.of(on, seed)
    return Result(side_by_side(Path(folder), plan))
