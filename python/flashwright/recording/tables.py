"""All tables and figures of a recording, with the layers side by side where they are known."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from flashwright._core import InputError
from flashwright.recording.finish import QUEUED, REQUESTS
from flashwright.recording.finish import finish as make_tables
from flashwright.recording.waterfall import NEEDED, waterfall
from flashwright.runs import Run
from flashwright.trace_statistics import PICTURES, statistics


def tables_of(folder: Path) -> Run:
    """Make the tables and figures of a recording."""
    run = make_tables(folder)
    figures, tables = statistics(str(run.table_files[REQUESTS]))
    run.result["requests"] = figures
    run.result["queued"], _ = statistics(str(run.table_files[QUEUED]))
    run.tables |= {f"trace_{name}": table for name, table in tables.items()}
    if "path" in run.result:
        add_waterfall(run)
    run.result["distributions"] = {
        name: table.to_pydict() for name, table in tables.items() if name not in PICTURES
    }
    return run


def add_waterfall(run: Run) -> None:
    """Add who wrote how much, layer by layer."""
    tables = dict(run.tables)
    for name, path in run.table_files.items():
        if name in NEEDED:
            tables[name] = pq.read_table(path, columns=NEEDED[name])
    try:
        found = waterfall(tables, run.result["path"])
    except InputError as error:
        # Whoever was killed before the measurement began has left what the device got: that is
        # still worth its report.
        run.result["path"]["not_told"].append(f"the layers side by side: {error}")
        return
    run.result["waterfall"] = found.result
    run.tables |= found.tables
