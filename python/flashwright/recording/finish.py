"""Makes the run folder of a recording from its raw streams: also of one that was killed."""

from __future__ import annotations

import fcntl
import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright._core import InputError, InputWarning, RunError, convert_trace
from flashwright._paths import check_trusted
from flashwright.runs import Run, provenance

from .block_pages import HEADER, make_stream, pages_in
from .path import NAMES, finish_path
from .recorder import (
    BLOCK_STREAM,
    DRIVE_COUNTERS,
    MARKS,
    MARKS_OF_RUN,
    OWN_COUNTS,
    OWN_LOG,
    PROCESSORS,
    RAW,
)

REQUESTS, QUEUED = "requests", "queued"
_MARK_COLUMNS = {
    "time_ns": pa.int64(),
    "end_ns": pa.int64(),
    "kind": pa.string(),
    "name": pa.string(),
}
_MOST_ROWS_IN_MEMORY = 1000
_ACTIONS = {REQUESTS: "D", QUEUED: "Q"}
_TORN = "record cut off at the end of the file"
_ZEROS = {REQUESTS: "start_monotonic_ns", QUEUED: "queued_start_monotonic_ns"}


def finish(folder: Path) -> Run:
    """Make the tables of a recording. They are files in its folder `raw` until the run is written.

    Raises:
        InputError: this is no recording, one that is finished, or another user may put links there.
        RunError: the device got no request.
    """
    try:
        check_trusted(folder)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error
    run = Run.read_result(folder)
    raw = folder / RAW
    pages, stream = pages_in(raw), block_stream(folder)
    if run.command != "record" or not (pages or stream.is_file()):
        raise InputError(f"{folder}: no recording to finish: it has no {RAW}/{BLOCK_STREAM}")
    about: dict[str, Any] = run.result["recording"]
    if "provenance" in run.result:
        raise InputError(f"{folder}: this recording is finished: its tables are there")
    _check_nobody_writes(raw / HEADER if pages else stream)
    if about.get("state") == "running":
        about["state"] = "killed"
    if pages:
        about |= _stream_of_pages(raw, stream)
    if stream.stat().st_size == 0:
        raise RunError(f"{about['device']['name']} got no request while it was recorded")
    result: dict[str, Any] = {"recording": about}
    # The kernel names places on the disk; those of a partition are wanted on itself.
    start_bytes = about["device"].get("start_bytes", 0)
    about["subtracted_bytes"] = start_bytes
    files = {}
    for name, action in _ACTIONS.items():
        files[name] = raw / f"{name}.parquet"
        with warnings.catch_warnings():
            # The recording itself says what it lacks.
            warnings.simplefilter("ignore", InputWarning)
            said = convert_trace(
                stream,
                files[name],
                from_format=f"blktrace(action={action},start={start_bytes})",
            )
        about[_ZEROS[name]] = said["start_ns"]
        # A stream whose writer was killed may end with a part of a record.
        torn = said["left_out"].get(_TORN, 0)
        about["torn_records"] = max(about.get("torn_records", 0), torn)
    _set_zeros(about)
    run = Run("record", result, table_files=files)
    _add_path(run, raw)
    run.tables["marks"] = _marks(raw, about["start_monotonic_ns"])
    result["processes"] = _processes(files[REQUESTS], about.pop("commands", {}))
    # Of a recording that was killed there are none.
    for name in (DRIVE_COUNTERS, OWN_COUNTS, OWN_LOG, PROCESSORS):
        if about.get(name) is not None:
            result[name] = about.pop(name)
    result["provenance"] = provenance(about["command_line"], [], None)
    return run


def _stream_of_pages(raw: Path, stream: Path) -> dict[str, int]:
    try:
        counts = make_stream(raw, stream)
    except OSError as error:
        raise RunError(f"{stream}: {error.strerror}") from error
    # A page that is cut off holds an unknown number of them.
    return {"torn_records": int(counts["cut_bytes"] > 0), "other_events": counts["other_events"]}


def _set_zeros(about: dict[str, Any]) -> None:
    """Give a layer that had no request the other's zero.

    A device may pass requests on without issuing any.
    """
    zeros = [about[name] for name in _ZEROS.values()]
    if zeros == [None, None]:
        raise RunError(f"{about['device']['name']} got no request while it was recorded")
    for name, other in zip(_ZEROS.values(), reversed(zeros), strict=True):
        about[name] = other if about[name] is None else about[name]


def _check_nobody_writes(stream: Path) -> None:
    with stream.open("rb") as handle:
        try:
            fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{stream}: it is still being recorded; end that first") from None


def _add_path(run: Run, raw: Path) -> None:
    """Add the calls of the database, and whose each request is, where that was recorded."""
    if not (raw / NAMES).exists():
        return
    about = run.result["recording"]
    columns = ["time_ns", "op", "offset", "length"]
    requests, queued = (
        pq.read_table(run.table_files[name], columns=columns) for name in (REQUESTS, QUEUED)
    )
    found = finish_path(
        raw,
        requests,
        queued,
        start_monotonic_ns=about["start_monotonic_ns"],
        queued_start_monotonic_ns=about["queued_start_monotonic_ns"],
    )
    run.result["path"] = found.about
    run.texts |= found.texts
    for name, table in found.tables.items():
        if table.num_rows <= _MOST_ROWS_IN_MEMORY:
            run.tables[name] = table
            continue
        run.table_files[name] = raw / f"{name}.parquet"
        pq.write_table(table, run.table_files[name], compression="zstd")


def _marks(raw: Path, zero_ns: int) -> pa.Table:
    """Read the marks, on the clock of the requests.

    Nanoseconds from the first of them, negative before it.
    """
    path = raw / MARKS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    marks = [json.loads(line) for line in lines]
    parts = []
    of_run = raw / MARKS_OF_RUN
    if of_run.exists():
        parts.append(pq.read_table(of_run))
        if "checkpoint" in parts[0]["kind"].unique().to_pylist():
            # The database's own word on its checkpoints has those that we asked for, too.
            marks = [mark for mark in marks if mark["kind"] != "checkpoint"]
    parts.append(
        pa.table(
            {
                name: pa.array([mark[name] for mark in marks], kind)
                for name, kind in _MARK_COLUMNS.items()
            }
        )
    )
    table = pa.concat_tables(parts)
    for name in ("time_ns", "end_ns"):
        shifted = pc.subtract(table[name], pa.scalar(zero_ns, pa.int64()))
        table = table.set_column(table.schema.get_field_index(name), name, shifted)
    return table.sort_by("time_ns")


def block_stream(folder: Path) -> Path:
    """Give the stream of the block layer.

    With blktrace the first of its files, beside which readers find the others.
    """
    one = folder / RAW / BLOCK_STREAM
    first = one.with_name(f"{one.name}.0")
    return first if first.exists() else one


def drop_raw(folder: Path) -> None:
    """Remove the raw streams of a recording that is finished."""
    raw = folder / RAW
    for path in raw.iterdir():
        path.unlink()
    raw.rmdir()


def _processes(requests: Path, commands: dict[str, str]) -> list[dict[str, Any]]:
    """Count requests by the command of the thread that sent them, most first."""
    counted = pq.read_table(requests, columns=["stream"])["stream"].value_counts()
    by_command: dict[str, int] = {}
    for one in counted.to_pylist():
        command = commands.get(str(one["values"]), "not known")
        by_command[command] = by_command.get(command, 0) + one["counts"]
    total = max(sum(by_command.values()), 1)
    most_first = sorted(by_command.items(), key=lambda item: -item[1])
    return [
        {"command": name, "requests": number, "share": number / total}
        for name, number in most_first
    ]
