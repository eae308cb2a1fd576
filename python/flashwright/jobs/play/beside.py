"""Files that a `play` writes beside its runs: each request, and a recording of the device."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright._core import InputError
from flashwright.runs import RUNS, Run, command_line
from flashwright.sources import REQUESTS_FILE
from flashwright.written import wrong

if TYPE_CHECKING:
    from flashwright.jobs.play.run import Playing
    from flashwright.probing.targets import Target
    from flashwright.recording.device import BlockDevice
    from flashwright.workloads.supervisor import Supervisor

_PATIENCE_S = 60.0
_BUFFER_KIB = 64 << 10
_NO_MERGES = "2"


@contextlib.contextmanager
def request_file(runs: Playing, folder: Path | None) -> Iterator[None]:
    """Let the one run write each request to a file, if that is asked for.

    The file lies in the folder that the run folder will lie in.
    It is then only renamed, however long it is. What is left of it at the end is removed, with the
    folders that were made for it.

    Raises InputError if there are several runs, or the folder cannot be made.
    """
    if not runs.plan.settings["per_request"]:
        yield
        return
    is_recorded = runs.plan.settings["record"] is not None
    if not runs.is_one or not runs.plan.places[0].target.is_simulated or is_recorded:
        said = "it is of one run on a simulated drive, without layers and record; leave it out"
        raise wrong("per_request", said)
    beside = RUNS if folder is None else folder.absolute().parent
    made = [one for one in (beside, *beside.parents) if not one.exists()]
    try:
        beside.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{beside}: cannot write the run folder: {error.strerror}") from error
    path = beside / f".requests.{os.getpid()}.parquet"
    runs.requests_to = path
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        for one in made:
            if any(one.iterdir()):
                break
            one.rmdir()


def is_of_kernel(runs: Playing) -> bool:
    """Tell whether the kernel records what the device gets, and no layer of ours."""
    return Path(runs.plan.places[0].target.given).is_block_device()


@contextlib.contextmanager
def recording(runs: Playing, run_folder: Path | None) -> Iterator[None]:
    """Record what the one device gets, if that is asked for.

    Of a block device the kernel records; of any other a layer of ours above it.

    Raises InputError if that cannot be done here, or there are several runs.
    """
    from flashwright.recording.recorder import check_folder

    asked = runs.plan.settings["record"]
    if asked is None:
        yield
        return
    place, folder = runs.plan.places[0], Path(asked)
    if not runs.is_one:
        raise wrong("record", "it is of one run, without layers; leave it out")
    check_folder(folder, trace=Path(place.given).parent, run=run_folder)
    if is_of_kernel(runs):
        from flashwright.recording.tools import need_root

        need_root("--record")
        with _recorded(place.target, folder):
            yield
    else:
        runs.record_to = _file_in(folder)
        yield
    runs.recorded_in = folder


def _file_in(folder: Path) -> Path:
    """Give the file for such a recording in a folder, which is made.

    Raises InputError if there is something in it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(path.name != REQUESTS_FILE for path in folder.iterdir()):
            raise wrong("record", f"{folder}: the folder is not empty; choose another")
    except OSError as error:
        raise wrong("record", f"{folder}: {error.strerror}") from error
    return folder / REQUESTS_FILE


@contextlib.contextmanager
def _recorded(target: Target, folder: Path) -> Iterator[None]:
    """Record what the device gets meanwhile, with merging of requests in the block layer off."""
    from flashwright.recording import device
    from flashwright.recording.recorder import Recorder
    from flashwright.workloads.supervisor import Supervisor

    found = device.find(Path(target.given))
    with Supervisor() as supervisor:
        recorder = Recorder(
            supervisor,
            found,
            folder,
            command=command_line(),
            buffer_kib=_BUFFER_KIB,
            patience_s=_PATIENCE_S,
        )
        try:
            # First: while another recording goes on, its device's setting is not ours to change,
            # nor to remember.
            recorder.prepare()
            with _unmerged(supervisor, found):
                recorder.start()
                yield
                recorder.stop()
        finally:
            recorder.close()


@contextlib.contextmanager
def _unmerged(supervisor: Supervisor, device: BlockDevice) -> Iterator[None]:
    """Keep the block layer from merging requests that lie side by side.

    A trace holds what was merged already.
    """
    setting = device.queue / "nomerges"
    before = setting.read_text().strip()
    number = supervisor.undo("sh", "-c", '[ ! -e "$1" ] || echo "$2" > "$1"', "sh", setting, before)
    try:
        setting.write_text(_NO_MERGES)
        yield
    finally:
        if setting.exists():
            setting.write_text(before)
        supervisor.forget(number)


def lay(runs: Playing, run: Run) -> None:
    """Hold a recording against the trace, and lay an earlier run beside this one, if asked for."""
    from flashwright.jobs.play import against

    if runs.recorded_in is not None:
        found = compared(runs, runs.recorded_in, run.result["runs"][0])
        run.result["recorded"] = {"folder": str(runs.recorded_in), **found}
    other = runs.plan.settings["against"]
    if other is not None:
        against.beside(run, Path(other))


def compared(runs: Playing, folder: Path, row: dict[str, Any]) -> dict[str, Any]:
    """Hold what the device got against what was played of the trace.

    Operation, offset and length of every request, in their order.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    place, settings = runs.plan.places[0], runs.plan.settings
    if place.source.totals is None:
        return {"compared": False, "why_not": "it is of no trace"}
    if place.beside:
        return {"compared": False, "why_not": "others were played beside it"}
    if any(row["sent"]["fitted"].values()):
        return {"compared": False, "why_not": "requests of it were changed for the device"}
    theirs = _sequence(pa.table(place.source.requests_table()), place.target.region.offset)
    if settings["requests"] is not None or settings["duration"] is not None:
        theirs = theirs.slice(0, row["sent"]["sent"])
    recorded = folder / REQUESTS_FILE
    got = _sequence(pq.read_table(recorded, columns=["op", "offset", "length"]), 0)
    both = min(theirs.num_rows, got.num_rows)
    differs = np.zeros(both, bool)
    for name in theirs.column_names:
        equal = pc.equal(theirs[name].slice(0, both), got[name].slice(0, both))
        differs |= ~equal.combine_chunks().to_numpy(zero_copy_only=False)
    is_longer = theirs.num_rows != got.num_rows
    first = int(differs.argmax()) if differs.any() else both if is_longer else None
    return {
        "compared": True,
        "same": first is None,
        "trace_requests": theirs.num_rows,
        "recorded_requests": got.num_rows,
        "first_difference": None
        if first is None
        else {"request": first, "trace": _at(theirs, first), "recorded": _at(got, first)},
    }


def _sequence(requests: Any, shift_bytes: int) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    op, length = requests["op"].cast(pa.string()), requests["length"]
    moved = pc.add(requests["offset"], pa.scalar(shift_bytes, pa.uint64()))
    offset = pc.if_else(pc.equal(op, "flush"), pa.scalar(0, pa.uint64()), moved)
    columns = pa.table({"op": op, "offset": offset, "length": length})
    # A request of no bytes that is no flush is not played.
    return columns.filter(pc.or_(pc.equal(op, "flush"), pc.greater(length, 0)))


def _at(requests: Any, number: int) -> dict[str, Any] | None:
    return requests.slice(number, 1).to_pylist()[0] if number < requests.num_rows else None
