"""A PostgreSQL server of the benchmark's own: filled once, started cold, given parts of queries.

Cold means that the server was started anew and that its files are out of the page cache
(`posix_fadvise`): other programs keep their caches, as `drop_caches` would not let them.

How much memory the server has matters, as joins by index come back to pages. The paper's machine
had 4 GB for a database of scale factor 5, which PostgreSQL 8.3 keeps in about 6 GB, and the system
and its programs had their share of it. So server and page cache together may use `MEMORY_SHARE` of
the database here, by a control group, of which `shared_buffers` are what 8.3 took by default.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.ssb import plans, schema
from experiments.ssb.queries import FACT, Plan, Query, Row, added_up, key_parts, page_parts
from experiments.ssb.schema import Say
from flashwright._core import RunError
from flashwright.workloads.databases.cluster import LOAD_SETTINGS
from flashwright.workloads.databases.memory import MemoryGroup
from flashwright.workloads.databases.place import evict
from flashwright.workloads.databases.server import Server, find_binaries, psycopg, server_account
from flashwright.workloads.supervisor import Supervisor

MEMORY_SHARE = 0.6
"""Memory of the server with its page cache, as a share of the database."""
SHARED_BUFFERS = 32 << 20
_OWN_MEMORY = 96 << 20
"""Memory of the server's processes besides pages, in bytes: 17 of them and their sort and hash
memory."""
SETTINGS: Mapping[str, str] = {
    "shared_buffers": f"{SHARED_BUFFERS >> 10}kB",
    "autovacuum": "off",
    "max_connections": "40",
    # Nothing is to be written while it is measured.
    "checkpoint_timeout": "1d",
    "bgwriter_lru_maxpages": "0",
}

# Tables that are made and filled at once need no log then.
_LOAD_SETTINGS = {"wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "512MB"}


@dataclass(frozen=True)
class Ran:
    """A query that ran in parts at once."""

    seconds: float
    """From the start of all parts to the end of the last and the final aggregation."""
    cpu_seconds: float
    """Processor time of all sessions, the kernel's included."""
    parts: int
    """Sub-queries: fewer than asked for if there are fewer keys to split."""
    totals: Mapping[Row, int]
    """Sums by group."""


class Warehouse:
    """A database of the benchmark at a scale factor, in `folder`."""

    def __init__(
        self,
        folder: Path,
        run_dir: Path,
        supervisor: Supervisor,
        programs: Path | None = None,
        version: int | None = None,
    ) -> None:
        """Look for PostgreSQL's programs.

        Raises:
            InputError: there are none.
        """
        account = server_account()
        binaries = find_binaries(programs, account, version)
        self.server = Server(binaries, folder / "data", run_dir, supervisor, account)
        self._supervisor = supervisor
        self._group: MemoryGroup | None = None

    def make(self, scale: float, seed: int, say: Say) -> None:
        """Make the database and fill it; the server runs afterwards."""
        say("making the database")
        self.server.initialise()
        self.server.start({**LOAD_SETTINGS, **_LOAD_SETTINGS})
        with self.connect() as connection:
            schema.load(connection, scale, seed, say)
        self.server.query("CHECKPOINT")

    def connect(self) -> Any:
        """Open a session."""
        return psycopg().connect(self.server.conninfo, autocommit=True)

    def number(self, sql: str) -> int:
        """Give the one number that a statement gives."""
        with self.connect() as connection:
            return int(connection.execute(sql).fetchone()[0])

    @property
    def bytes(self) -> int:
        """Bytes of the database's files."""
        return self.number("SELECT pg_database_size(current_database())")

    def limit_memory(self, limit_bytes: int | None = None) -> int:
        """Limit server and page cache from the next start on; gives the bytes.

        Without a limit it is `MEMORY_SHARE` of the database, and what processes need besides.
        """
        if limit_bytes is None:
            limit_bytes = round(MEMORY_SHARE * self.bytes) + _OWN_MEMORY
        self._group = MemoryGroup(limit_bytes, self._supervisor)
        return limit_bytes

    def start_warm(self) -> None:
        """Start the server with room for what it reads, without a limit on memory."""
        self.server.stop()
        self.server.start(dict(SETTINGS))

    def start_cold(self) -> None:
        """Start the server anew, nothing of the database in memory."""
        self.server.stop()
        evict(path.resolve() for path in self.server.data.rglob("*") if path.is_file())
        group = None if self._group is None else self._group.processes_file
        self.server.start(dict(SETTINGS), group)

    def close(self) -> None:
        """Stop the server, and remove its control group."""
        self.server.stop()
        if self._group is not None:
            self._group.close()
            self._group = None

    def parts(self, query: Query, plan: Plan, count: int) -> Sequence[tuple[int, int] | None]:
        """Split a query: ranges for `Query.sql`; one of None if it is not split."""
        if count == 1:
            return [None]
        if plan is Plan.HASH:
            return page_parts(self.fact_pages, count)
        return key_parts(self.keys(query), count)

    def keys(self, query: Query) -> list[int]:
        """Give the keys of the first dimension's rows that the filters let by, ascending."""
        first = query.joins[0]
        where = " AND ".join(one.sql() for one in first.filters) or "true"
        sql = f"SELECT {first.key} FROM {first.table} WHERE {where} ORDER BY 1"  # noqa: S608
        with self.connect() as connection:
            return [key for (key,) in connection.execute(sql).fetchall()]

    @property
    def fact_pages(self) -> int:
        """Pages of LINEORDER."""
        return self.number(f"SELECT pg_relation_size('{FACT}')") // schema.PAGE_BYTES

    def run(self, query: Query, plan: Plan, statements: Sequence[str]) -> Ran:
        """Run the parts of a query at once, each in a session of its own.

        Sessions are open, and have planned their part, before the clock starts: so they know the
        catalogue.

        Raises:
            RunError: PostgreSQL takes another plan, or a part failed.
        """
        sessions = [_Session(self, query, plan, sql) for sql in statements]
        try:
            cpu = sum(session.cpu_seconds() for session in sessions)
            begun = time.perf_counter()
            for session in sessions:
                session.start()
            for session in sessions:
                session.join()
            totals = added_up([session.rows for session in sessions])
            seconds = time.perf_counter() - begun
            for session in sessions:
                if session.error is not None:
                    raise RunError(f"{query.name}: {session.error}")
            cpu = sum(session.cpu_seconds() for session in sessions) - cpu
        finally:
            for session in sessions:
                session.connection.close()
        return Ran(seconds, cpu, len(sessions), totals)

    def run_in_parts(self, query: Query, plan: Plan, count: int) -> Ran:
        """Split a query and run the parts."""
        parts = self.parts(query, plan, count)
        return self.run(query, plan, [query.sql(plan, part) for part in parts])

    def tree_pages(self, tree: str) -> dict[str, np.ndarray[Any, Any]]:
        """Give the pages of a B+-tree as pageinspect has them, but the metapage.

        Columns block, level, items, next, by block.
        """
        pages = self.number(f"SELECT pg_relation_size('{tree}')") // schema.PAGE_BYTES
        sql = (
            "SELECT blkno, btpo_level, live_items, btpo_next FROM generate_series(1, %s) AS block, "
            "bt_page_stats(%s, block) WHERE type IN ('l', 'i', 'r') ORDER BY blkno"
        )
        with self.connect() as connection:
            rows = connection.execute(sql, (pages - 1, tree)).fetchall()
        columns = np.array(rows, np.int64).reshape(-1, 4).T
        return dict(zip(("block", "level", "items", "next"), columns, strict=True))


class _Session(threading.Thread):
    """A session that runs one statement."""

    def __init__(self, warehouse: Warehouse, query: Query, plan: Plan, sql: str) -> None:
        super().__init__(daemon=True)
        self.connection = warehouse.connect()
        self.rows: list[Row] = []
        self.error: Exception | None = None
        self._sql = sql
        try:
            plans.use(self.connection, plan)
            plans.check(plans.explain(self.connection, sql), query, plan)
        except BaseException:
            self.connection.close()
            raise

    def run(self) -> None:
        try:
            self.rows = self.connection.execute(self._sql).fetchall()
        except psycopg().Error as error:
            self.error = error

    def cpu_seconds(self) -> float:
        """Give the processor time of the server's process for this session so far."""
        # Nanoseconds on a processor, which `stat` would have in hundredths of a second.
        own = Path(f"/proc/{self.connection.info.backend_pid}/schedstat").read_text().split()[0]
        return int(own) / 1e9


def buffers(connection: Any, sql: str) -> dict[str, int]:
    """Run a statement, and give the accesses to pages that PostgreSQL counted: hit, read."""
    [[found]] = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}").fetchall()
    plan = (found if isinstance(found, list) else json.loads(found))[0]["Plan"]
    return {"hit": plan["Shared Hit Blocks"], "read": plan["Shared Read Blocks"]}
