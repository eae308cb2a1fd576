"""Records the way above the device, beside its requests.

The calls of the database, and where its files lie.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright._core import InputError, Progress, RunError
from flashwright.workloads.databases.embedded import Embedded
from flashwright.workloads.databases.place import Place
from flashwright.workloads.supervisor import Supervisor

from .attribution import attribution
from .calls import BUFFER_KIB, CallRecorder, read_calls
from .device import BlockDevice
from .extents import ExtentWatcher, read_extents
from .files import (
    POSTGRES_RELATIONS,
    PURPOSES,
    FileTable,
    Named,
    dictionary,
    postgres_namer,
    postgres_relations,
    sqlite_namer,
)
from .owners import SHARES, SqlitePages, owners_of, sqlite_pages
from .placing import PlaceTracer, read_placing
from .sqlite_log import LogRecorder
from .sqlite_transactions import FACTS, TABLE, sqlite_transactions

NAMES = "names.json"
"""Is there if a `PathRecorder` wrote into a folder."""
_PAGES = "names.pages.parquet"
_LOOK_S = 1.0


@dataclass
class Names:
    """Purposes of a database's files, as far as only it can tell.

    `database`: `sqlite`, `postgres`, or `` for anything else.
    """

    roots: list[Path]
    """Whole paths without links."""
    database: str = ""
    path: Path = Path()
    """SQLite's file, or PostgreSQL's data directory."""
    relations: dict[str, Named] = field(default_factory=dict)
    not_told: list[str] = field(default_factory=list)
    """Gaps in what is known of them, in words."""

    @staticmethod
    def of(place: Place) -> Names:
        """Give them of a benchmark's database, which must be running."""
        if isinstance(place, Embedded):
            path = place.path.resolve()
            return Names([path.parent], "sqlite", path)
        # The other one is a Cluster, an optional part.
        server = place.server  # type: ignore[attr-defined]
        data = server.data.resolve()
        names = Names([data, (data / "pg_wal").resolve()], "postgres", data)
        names.relations = postgres_relations(server.query(POSTGRES_RELATIONS))
        return names

    def table(self) -> FileTable:
        """Give an empty table of files that names them so."""
        namers = {
            "sqlite": lambda: sqlite_namer(self.path),
            "postgres": lambda: postgres_namer(self.path, self.relations),
        }
        return (
            FileTable(self.roots, namers[self.database]())
            if self.database
            else FileTable(self.roots)
        )

    def write(self, folder: Path) -> None:
        """Write them into a folder."""
        about = {
            "roots": [str(root) for root in self.roots],
            "database": self.database,
            "path": str(self.path),
            "relations": {
                path: [named.purpose, named.name] for path, named in self.relations.items()
            },
            "not_told": self.not_told,
        }
        (folder / NAMES).write_text(json.dumps(about))

    @staticmethod
    def read(folder: Path) -> Names:
        """Read them back.

        Raises:
            InputError: there are none, or they are damaged.
        """
        try:
            about = json.loads((folder / NAMES).read_text())
            relations = {path: Named(*named) for path, named in about["relations"].items()}
            return Names(
                [Path(root) for root in about["roots"]],
                about["database"],
                Path(about["path"]),
                relations,
                about.get("not_told", []),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{folder / NAMES}: no names of a database's files: {error}"
            ) from error


class PathRecorder:
    """Records calls and places of files into a folder: `prepare`, `start`, `stop`, `tell`.

    `close` at the end, whatever happened.
    """

    def __init__(
        self, supervisor: Supervisor, folder: Path, names: Names, buffer_kib: int = BUFFER_KIB
    ) -> None:
        """Do nothing yet. `buffer_kib`: of the kernel's buffer of calls, for each processor."""
        self._folder, self._names = folder, names
        self._calls = CallRecorder(supervisor, folder, buffer_kib)
        self._extents = ExtentWatcher(supervisor, folder, names.roots)
        self._places = PlaceTracer(supervisor, folder)
        self._log = (
            LogRecorder(supervisor, folder, names.path) if names.database == "sqlite" else None
        )
        self._next_look, self._is_dead = 0.0, False

    def prepare(self, kind: str, device: BlockDevice, mount_point: Path) -> None:
        """Set everything up before the device is recorded, since this reads from it.

        `kind` is the file system's on `device`.

        Raises:
            InputError: this kernel, or this user, cannot.
            RunError: a helper did not start.
        """
        self._names.write(self._folder)
        self._extents.prepare(kind, device.path, mount_point)
        # Before the first look at files: what changes after it is seen.
        self._places.start(kind, device)
        self._extents.start()
        self._calls.prepare()

    def start(self, processes: list[int]) -> None:
        """Record calls from now on, of these processes with their threads and children.

        Some 0.2 s go by until it does.

        Raises:
            RunError: the copier did not start.
        """
        # Before the calls: what these write is then found.
        if self._log is not None:
            self._log.start()
        self._calls.start(processes)

    def add(self, processes: list[int]) -> None:
        """Record calls of these processes, too, with their threads and children."""
        self._calls.add(processes)

    def has_failed(self) -> bool:
        """Tell whether a helper has ended by itself; `stop` says why.

        It looks once a second, however often it is asked.
        """
        now = time.monotonic()
        if not self._is_dead and now >= self._next_look:
            self._next_look = now + _LOOK_S
            parts = (self._calls, self._extents, self._places)
            self._is_dead = any(part.has_failed for part in parts)
        return self._is_dead

    def stop(self) -> None:
        """Record no more. Call it when the device is recorded no more: it looks at all files.

        Raises:
            RunError: something failed.
        """
        self._calls.stop()
        if self._log is not None:
            self._log.stop()
        self._extents.stop()
        self._places.stop()

    def tell(self, names: Names) -> None:
        """Take what the database says again of its files, when all recording is over.

        Asks SQLite what its pages hold, which reads the whole of it.
        """
        # A table that was rewritten has another file; what was written before is of the one that it
        # had.
        names.relations = self._names.relations | names.relations
        pages = None
        if names.database == "sqlite":
            try:
                pages = sqlite_pages(names.path)
            except (RunError, OSError) as error:
                names.not_told.append(f"what its pages hold: {error}")
        names.write(self._folder)
        if pages is not None:
            columns = {
                "purpose": pa.array(pages.purpose),
                "name": pa.array(pages.names, pa.string()),
            }
            table = pa.table(columns).replace_schema_metadata({"page_bytes": str(pages.page_bytes)})
            pq.write_table(table, self._folder / _PAGES, compression="zstd")

    def close(self) -> None:
        """End, whatever state it is in."""
        if self._log is not None:
            self._log.close()
        self._calls.close()
        self._extents.close()
        self._places.close()


def processes_of(place: Place) -> list[int]:
    """Give the processes whose calls are the database's.

    Its server, or ourselves with our clients, in which SQLite is.
    """
    server = getattr(place, "server", None)
    return [os.getpid()] if server is None else [server.pid]


@dataclass
class PathFound:
    """The way above the device.

    Tables for the run folder, and what is known about them for its result. `tables`: calls, files,
    extents, owners (row for row with the requests), queued_owners (with what was queued), and
    pages: what the pages of a SQLite database hold (file, file_offset, length, purpose, name), if
    it told; and transactions of SQLite, with facts in the text `sqlite.json`.
    """

    tables: dict[str, pa.Table]
    about: dict[str, Any]
    texts: dict[str, str] = field(default_factory=dict)


def finish_path(
    folder: Path,
    requests: pa.Table,
    queued: pa.Table,
    *,
    start_monotonic_ns: int,
    queued_start_monotonic_ns: int,
    progress: Progress | None = None,
) -> PathFound:
    """Make the tables of what a `PathRecorder` wrote into a folder, also if it was killed.

    `requests`, `queued`: time_ns, op, offset, length at least. The two times are those of their
    first rows, on CLOCK_MONOTONIC; the first is the zero of all tables.

    Raises:
        InputError: there is nothing, or it is damaged.
        Cancelled: it was asked to stop.
    """
    names = Names.read(folder)
    files = names.table()
    calls = read_calls(folder, files, start_monotonic_ns, progress)
    history = read_extents(folder, files, start_monotonic_ns)
    placing = read_placing(folder, progress)
    pages = _pages(folder / _PAGES, files, names)
    known = {} if pages is None else {pages[0]: pages[1]}
    whose = attribution(folder, history, placing, files, start_monotonic_ns)
    owners = owners_of(requests, whose, history.own, files, pages=known)
    shift = queued_start_monotonic_ns - start_monotonic_ns
    time_ns = pa.array(queued["time_ns"].to_numpy().astype(np.int64) + shift)
    queued = queued.set_column(queued.schema.get_field_index("time_ns"), "time_ns", time_ns)
    queued_owners = owners_of(queued, whose, history.own, files, pages=known)
    tables = {
        "calls": calls.table,
        "files": files.table(),
        "extents": history.table,
        "owners": owners.table,
        "queued_owners": queued_owners.table,
    }
    not_told = [*history.not_told, *whose.not_told, *names.not_told]
    if pages is not None:
        tables["pages"] = _pages_table(*pages)
    elif names.database == "sqlite":
        not_told.append(
            "which pages of the database are of tables and which of indexes: it was not asked, or "
            "its SQLite has no dbstat"
        )
    about = {
        "database": names.database,
        "file_system": history.file_system,
        "queued_shift_ns": shift,
        "calls": {**calls.counts, "from_ns": calls.from_ns, "to_ns": calls.to_ns},
        "owners": owners.counts,
        "queued_owners": queued_owners.counts,
        "whose": _whose(requests, owners.table),
        "not_told": not_told,
    }
    texts = {}
    found = (
        sqlite_transactions(folder, calls, files, names.path, start_monotonic_ns)
        if names.database == "sqlite"
        else None
    )
    if found is not None:
        tables[TABLE] = found.table
        texts[FACTS] = json.dumps(found.facts, indent=1)
        not_told.extend(f"transactions: {gap}" for gap in found.facts["gaps"])
    return PathFound(tables, about, texts)


def _whose(requests: pa.Table, owners: pa.Table) -> dict[str, int]:
    """Give bytes by whose they are, of all that was written while the device was recorded."""
    writes = owners.filter(pc.equal(requests["op"].cast(pa.string()), "write"))
    return {name: int(pc.sum(writes[f"{name}_bytes"]).as_py() or 0) for name in SHARES}


def _pages(path: Path, files: FileTable, names: Names) -> tuple[int, SqlitePages] | None:
    """Read what the pages of the database hold, with its number among the files."""
    if not path.exists() or str(names.path) not in files.paths():
        return None
    table = pq.read_table(path)
    page_bytes = int(table.schema.metadata[b"page_bytes"])
    pages = SqlitePages(page_bytes, table["purpose"].to_numpy(), table["name"].to_pylist())
    return files.paths().index(str(names.path)), pages


def _pages_table(number: int, pages: SqlitePages) -> pa.Table:

    count = len(pages.purpose)
    return pa.table(
        {
            "file": np.full(count, number, np.uint32),
            "file_offset": np.arange(count, dtype=np.uint64) * np.uint64(pages.page_bytes),
            "length": np.full(count, pages.page_bytes, np.uint32),
            "purpose": dictionary([PURPOSES[number] for number in pages.purpose]),
            "name": pa.array(pages.names, pa.string()).dictionary_encode(),
        }
    )
