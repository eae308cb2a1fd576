"""Counters of a PostgreSQL server for its own writes: its views of statistics."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from flashwright._core import InputError, RunError
from flashwright._paths import user_name
from flashwright._text import one_line

from .asking import Asker
from .running import Running, address

SERVER = """
SELECT json_build_object(
  'version', current_setting('server_version_num')::int,
  'block_bytes', current_setting('block_size')::int,
  'fsync', current_setting('fsync')::bool,
  'flushed', CASE WHEN pg_is_in_recovery() THEN NULL
             ELSE (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint END,
  'temp_bytes', (SELECT sum(temp_bytes)::bigint FROM pg_stat_database))::text AS all
"""
VIEWS = {
    "pg_stat_wal": "SELECT row_to_json(s)::text AS all FROM pg_stat_wal s",
    "pg_stat_io": "SELECT coalesce(json_agg(row_to_json(s)), '[]')::text AS all FROM pg_stat_io s",
    "pg_stat_bgwriter": "SELECT row_to_json(s)::text AS all FROM pg_stat_bgwriter s",
}
"""Versions differ in their columns: all of a view are taken, and those that are there are read."""


class OwnCounts:
    """Asks a server before and after: `prepare`, `begin`, then `end`; `close`, whatever happened.

    Nothing is connected in between.
    """

    def __init__(self, running: Running) -> None:
        """Do nothing yet."""
        self._running = running
        self._asker: Asker | None = None
        self._before: dict[str, Any] | None = None
        self._begun_s = 0.0
        self.why: str | None = None
        """Reason why it has not answered, in a line."""

    def prepare(self) -> None:
        """Have everything ready, so that `begin` takes no time."""
        try:
            self._asker = _asker(self._running)
        except (RunError, InputError, OSError) as error:
            self.why = str(error)
            return
        # The first answer waits for a program to start.
        self._ask()

    def begin(self) -> None:
        """Ask it when counting begins."""
        self._before, self._begun_s = self._ask(), time.monotonic()

    def end(self) -> dict[str, Any] | None:
        """Ask it again, and give what it counted in between; None if it has not answered."""
        after, seconds = self._ask(), time.monotonic() - self._begun_s
        if self._before is None or after is None:
            return None
        try:
            return {"seconds": seconds, **between(self._before, after)}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self.why = str(error)
            return None

    def close(self) -> None:
        """End who asks."""
        if self._asker is not None:
            self._asker.close()

    def _ask(self) -> dict[str, Any] | None:
        if self._asker is None or self.why is not None:
            return None
        try:
            answer = self._asker.ask()
            found = {name: json.loads(str(text)) for name, text in dict(answer["found"]).items()}
        except (RunError, ValueError, TypeError, KeyError) as error:
            self.why = one_line(str(error))
            return None
        if answer.get("server") != self._running.pids[0]:
            self.why = (
                f"the server that answered is not the one of {self._running.path}: PGHOST and "
                "PGPORT say where that listens"
            )
            return None
        return found


def _asker(running: Running) -> Asker:
    """Prepare to ask a server, as its owner if we are root and else as ourselves.

    Raises:
        InputError, RunError, OSError: where it listens is not known, or who asks does not start.
    """
    uid = running.path.stat().st_uid
    try:
        port, sockets = address(running.path)
        keywords = {"host": sockets, "port": port, "requirepeer": user_name(uid)}
    except InputError:
        if os.geteuid() == 0:
            raise
        # Its folder is closed to us: libpq's own variables say where it listens.
        keywords = {
            name: os.environ[variable]
            for name, variable in (("host", "PGHOST"), ("port", "PGPORT"))
            if variable in os.environ
        }
    as_user = uid if os.geteuid() == 0 else os.geteuid()
    role = os.environ.get("PGUSER") or user_name(as_user)
    return Asker(
        as_user,
        "postgres_statistics",
        keywords={**keywords, "user": role},
        sql=SERVER,
        views=VIEWS,
    )


def between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a server counted between two answers, in bytes and numbers of times.

    Raises ValueError if its statistics were reset meanwhile.
    """
    a, b = before["server"], after["server"]
    block = int(b["block_bytes"])
    pages, pages_from = _pages(before, after, block)
    wal = _grown(before, after, "pg_stat_wal", "wal_bytes")
    written_wal = _io_grown(before, after, "wal", ("write_bytes", "extend_bytes"))
    flushed = None
    if a.get("flushed") is not None and b.get("flushed") is not None:
        flushed = int(b["flushed"]) - int(a["flushed"])
    found = {
        "version": int(b["version"]),
        "page_bytes": pages,
        "pages_from": pages_from,
        # Since version 18 it counts what it writes of its log; before, what it put into it.
        "wal_bytes": written_wal or (flushed if wal is None else wal),
        "wal_from": "written" if written_wal else "put into the log",
        "wal_flushed_bytes": flushed if b["fsync"] else None,
        "wal_syncs": _grown(before, after, "pg_stat_wal", "wal_sync")
        or _io_grown(before, after, "wal", ("fsyncs",)),
        "full_page_images": _grown(before, after, "pg_stat_wal", "wal_fpi"),
        "temporary_bytes": (b.get("temp_bytes") or 0) - (a.get("temp_bytes") or 0),
        "is_fsync_on": bool(b["fsync"]),
    }
    if any(isinstance(value, int) and value < 0 for value in found.values()):
        raise ValueError("its statistics were reset during the recording")
    return found


def _pages(
    before: Mapping[str, Any], after: Mapping[str, Any], block: int
) -> tuple[int | None, str]:
    by_io = _io_grown(before, after, "relation", ("write_bytes", "extend_bytes"))
    if by_io is not None:
        temporary = _io_grown(before, after, "temp relation", ("write_bytes", "extend_bytes"))
        return by_io + (temporary or 0), "pg_stat_io"
    names = ("buffers_checkpoint", "buffers_clean", "buffers_backend")
    counts = [_grown(before, after, "pg_stat_bgwriter", name) for name in names]
    if None in counts:
        return None, "not known"
    return sum(count or 0 for count in counts) * block, "pg_stat_bgwriter"


def _grown(before: Mapping[str, Any], after: Mapping[str, Any], view: str, name: str) -> int | None:
    first, last = ((one.get(view) or {}).get(name) for one in (before, after))
    return None if first is None or last is None else int(last) - int(first)


def _io_grown(
    before: Mapping[str, Any], after: Mapping[str, Any], of: str, names: tuple[str, ...]
) -> int | None:
    """Give by how much pg_stat_io grew for what it calls an object; None without that view."""
    totals = [_io_total(one.get("pg_stat_io"), of, names) for one in (before, after)]
    return None if totals[0] is None or totals[1] is None else totals[1] - totals[0]


def _io_total(rows: Any, of: str, names: tuple[str, ...]) -> int | None:
    mine = [row for row in rows or () if row.get("object") == of]
    if not mine:
        return None
    total = 0
    for row in mine:
        for name in names:
            if name in row or not name.endswith("_bytes"):
                total += int(row.get(name) or 0)
            else:
                # Versions 16 and 17 count operations, of as many bytes each.
                times = row.get(f"{name.removesuffix('_bytes')}s") or 0
                total += int(times) * int(row.get("op_bytes") or 0)
    return total
