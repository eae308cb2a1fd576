"""What the volumes of a fleet do: a study of each, and their sketches merged."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright._core import RunError
from flashwright._text import several
from flashwright.engine.doing import Done, do
from flashwright.engine.task import Task, task_of
from flashwright.engine.where import Where
from flashwright.fleet.naming import content_of, named
from flashwright.fleet.stores import OPERATIONS, Fleet, Volume
from flashwright.jobs.work import Job as RustJob
from flashwright.progress import work
from flashwright.runs import Job, Run, table
from flashwright.sweeps.kinds import rust

if TYPE_CHECKING:
    from flashwright.engine.store import Store

COMMAND = "trace"
SKETCHES = "sketches"
STUDY, MERGE = "volume_study", "fleet_merge"
_KIND = "flashwright.sweeps.kinds.rust"
_ROWS = 64
"""Rows of a file of sketches that are read at once: each has some hundred KiB."""
_OF_A_VOLUME = (
    *OPERATIONS, "read_bytes", "written_bytes", "trimmed_bytes", "first_ns", "last_ns",
    "page_reads", "page_writes", "written_pages", "read_pages", "touched_pages", "is_counted",
    "one_in",
)  # fmt: skip


def _task_of(fleet: Fleet, volume: Volume, asked: Mapping[str, Any]) -> Task:
    settings = rust.settings({"job": STUDY, "volume": fleet.folder(volume.volume), **asked})
    return task_of(_KIND, settings, rust.inputs(settings), [SKETCHES])


def study(
    fleet: Fleet, page_size: int, where: Where, *, sample: int = 1, exact: bool = False
) -> tuple[Run, Done]:
    """Study each volume that is not known yet, and merge what was found of them.

    With a `sample` one page in so many is followed. With `exact` all values are kept beside the
    sketches: for small fleets.

    Raises RunError if no volume can be studied; StoppedError before the first one was.
    """
    asked = {"page_size": page_size, "sample": sample, "exact": exact}
    tasks = named(fleet, lambda one: _task_of(fleet, one, asked))
    done = do(tasks, f"Studying {several(len(tasks), 'volume')}", "volumes", where)
    studied, failures = [], []
    for volume, task in zip(fleet.volumes, tasks, strict=True):
        outcome = done.outcomes.get(task.key)
        if outcome is not None and outcome.ended == "done":
            studied.append(task)
        elif outcome is not None:
            error = str(outcome.error).removeprefix("volume: ")
            failures.append({"volume": volume.volume, "error": error})
    if not studied:
        if done.stop is not None:
            raise done.stopped()
        raise RunError(f"{fleet.path}: no volume was studied: {failures[0]['error']}")
    merged, content = _merged(done.store, studied), content_of(tasks)
    result = {
        "complete": not done.left and not failures,
        "source": str(fleet.path),
        "format": fleet.format,
        "traced_seconds": fleet.seconds,
        "volumes_of_store": len(fleet.volumes),
        **merged,
        **fleet.told,
        "left": done.left,
        "failures": failures,
    }
    inputs = [{"source": str(fleet.path), "sha256": None, "content_hash": content}]
    job = Job(COMMAND, [content, asked], inputs)
    return job.run(result, {"volumes": _volumes(studied, done)}), done


def _volumes(studied: Sequence[Task], done: Done) -> Any:
    rows = [done.outcomes[task.key].figures for task in studied]
    # What was kept comes back in another order.
    first = ("volume", *_OF_A_VOLUME)
    names = [*first, *sorted(name for name in rows[0] if name not in (*first, "page_size"))]
    return table({name: [row.get(name) for row in rows] for name in names})


def _merged(store: Store, studied: Sequence[Task]) -> dict[str, Any]:
    """Merge the sketches of volumes, which go through one file of bounded groups of rows."""
    with tempfile.TemporaryDirectory(prefix="flashwright-") as folder:
        path = Path(folder) / "sketches.parquet"
        _written(path, store, studied)
        job: RustJob[dict[str, Any]] = RustJob(MERGE, dict)
        asked = job.settings({"sketches": [str(path)]})
        return work("Merging sketches", "", lambda progress: job.do(asked, progress).outcome)


def _written(path: Path, store: Store, studied: Sequence[Task]) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    writer = None
    try:
        for first in range(0, len(studied), _ROWS):
            some = studied[first : first + _ROWS]
            tables = [store.table(task.key, SKETCHES) for task in some]
            if None in tables:
                gone = some[tables.index(None)].settings["volume"]
                raise RunError(f"{store.url}: the sketches of {gone} are gone; run it again")
            rows = pa.concat_tables(tables)
            writer = writer or pq.ParquetWriter(path, rows.schema, compression="zstd")
            writer.write_table(rows)
    finally:
        if writer is not None:
            writer.close()
