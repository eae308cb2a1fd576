"""What a PostgreSQL server tells of itself for what-ifs: settings, places in its log, relations."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from flashwright._core import RunError
from flashwright._paths import user_name

from .asking import Asker, ask
from .files import postgres_relations
from .running import Running, address

if TYPE_CHECKING:
    from flashwright.workloads.databases.server import Server

_SETTINGS = (
    "checkpoint_timeout",
    "max_wal_size",
    "min_wal_size",
    "wal_keep_size",
    "checkpoint_completion_target",
    "full_page_writes",
    "wal_compression",
    "shared_buffers",
    "synchronous_commit",
    "commit_delay",
    "wal_writer_delay",
    "bgwriter_delay",
    "bgwriter_lru_maxpages",
    "bgwriter_lru_multiplier",
    "wal_log_hints",
    "wal_level",
    "fsync",
)
_STATE = f"""
SELECT json_build_object(
  'version', current_setting('server_version_num')::int,
  'block_bytes', current_setting('block_size')::int,
  'segment_bytes', pg_size_bytes(current_setting('wal_segment_size')),
  'has_checksums', current_setting('data_checksums')::bool,
  'time_s', extract(epoch from clock_timestamp()),
  'started_s', extract(epoch from pg_postmaster_start_time()),
  'lsn', pg_current_wal_flush_lsn()::text,
  'timeline', c.timeline_id,
  'redo_lsn', c.redo_lsn::text,
  'redo_time_s', extract(epoch from c.checkpoint_time),
  'settings', (SELECT json_agg(json_build_array(name, setting, unit)) FROM pg_settings
               WHERE name IN ({", ".join(f"'{name}'" for name in _SETTINGS)})))::text AS all
FROM pg_control_checkpoint() c
"""  # noqa: S608  (names of ours)
_VIEWS = {
    "pg_stat_wal": "SELECT row_to_json(s)::text AS all FROM pg_stat_wal s",
    "pg_stat_io": "SELECT coalesce(json_agg(row_to_json(s)), '[]')::text AS all FROM pg_stat_io s",
    "pg_stat_bgwriter": "SELECT row_to_json(s)::text AS all FROM pg_stat_bgwriter s",
    "pg_stat_checkpointer": "SELECT row_to_json(s)::text AS all FROM pg_stat_checkpointer s",
}
_RELATIONS = """
SELECT pg_relation_filepath(c.oid) AS path, c.relname AS name, c.relkind::text AS kind,
       c.oid::bigint AS oid, n.nspname AS schema,
       coalesce(t.relname, ti.relname) AS toast_of,
       CASE WHEN c.reltablespace <> 0 THEN c.reltablespace ELSE d.dattablespace END::bigint
         AS space,
       CASE WHEN c.relisshared THEN 0 ELSE d.oid END::bigint AS database,
       pg_relation_filenode(c.oid)::bigint AS node,
       pg_relation_size(c.oid) / current_setting('block_size')::bigint AS pages,
       pg_stat_get_blocks_fetched(c.oid) AS accesses,
       pg_stat_get_blocks_fetched(c.oid) - pg_stat_get_blocks_hit(c.oid) AS reads
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_database d ON d.datname = current_database()
LEFT JOIN pg_class t ON t.reltoastrelid = c.oid AND c.relkind = 't'
LEFT JOIN pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_class ti ON ti.reltoastrelid = i.indrelid
WHERE pg_relation_filepath(c.oid) IS NOT NULL
"""
_BYTES = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "16kB": 16 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBERED = ("space", "database", "node", "pages")
_WHOLE = ("bgwriter_lru_maxpages",)
_NUMBERS = ("checkpoint_completion_target", "bgwriter_lru_multiplier")


class Asks(Protocol):
    """Asks a server."""

    def state(self) -> dict[str, Any]:
        """Give what it is, and its views of statistics.

        Raises RunError if it does not answer.
        """

    def relations(self) -> list[dict[str, Any]]:
        """Give the relations of all its databases. Raises RunError as above."""

    def close(self) -> None:
        """End whoever asks."""


class AsksRunning:
    """Asks a server that somebody else has started, as the user that it belongs to."""

    def __init__(self, running: Running) -> None:
        """Start who asks.

        Raises:
            InputError, RunError, OSError: where it listens is not known.
        """
        port, sockets = address(running.path)
        self._owner = running.path.stat().st_uid
        name = user_name(self._owner)
        role = os.environ.get("PGUSER") or name
        self._keywords = {"host": sockets, "port": port, "requirepeer": name, "user": role}
        how: dict[str, Any] = {"keywords": self._keywords, "sql": _STATE, "views": _VIEWS}
        self._asker = Asker(self._owner, "postgres_statistics", **how)

    def state(self) -> dict[str, Any]:
        """See `Asks`."""
        found = dict(self._asker.ask()["found"])
        return {name: json.loads(str(text)) for name, text in found.items()}

    def relations(self) -> list[dict[str, Any]]:
        """See `Asks`."""
        answer = ask(self._owner, "postgres", keywords=self._keywords, sql=_RELATIONS)
        return [dict(row) for row in answer["rows"]]

    def close(self) -> None:
        """See `Asks`."""
        self._asker.close()


class AsksServer:
    """Asks a server of ours, which has one database."""

    def __init__(self, server: Server) -> None:
        """Do nothing yet."""
        self._server = server

    def state(self) -> dict[str, Any]:
        """See `Asks`."""
        found = {"server": json.loads(self._server.query(_STATE)[0]["all"])}
        for name, sql in _VIEWS.items():
            there = self._server.query(f"SELECT to_regclass('pg_catalog.{name}')::text AS there")
            if there[0]["there"] is not None:
                found[name] = json.loads(self._server.query(sql)[0]["all"])
        return found

    def relations(self) -> list[dict[str, Any]]:
        """See `Asks`."""
        return self._server.query(_RELATIONS)

    def close(self) -> None:
        """See `Asks`."""


def settings_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Give settings in bytes, seconds and truths.

    Raises RunError if one has a unit that is not known.
    """
    found: dict[str, Any] = {}
    for name, text, unit in state["server"]["settings"]:
        if unit in _BYTES:
            found[name] = int(text) * _BYTES[unit]
        elif unit in _SECONDS:
            found[name] = float(text) * _SECONDS[unit]
        elif unit is not None:
            raise RunError(f"setting {name}: its unit is not known: {unit}")
        elif name == "commit_delay":
            # It is in microseconds, which it does not say.
            found[name] = int(text) * 1e-6
        elif name in (*_WHOLE, *_NUMBERS):
            found[name] = int(text) if name in _WHOLE else float(text)
        else:
            found[name] = text
    for name in ("full_page_writes", "wal_log_hints", "fsync"):
        found[name] = found[name] == "on"
    return found


def relations_of(
    before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Give relations with what was asked of each in between."""
    rows = [dict(row) for row in after]
    named = postgres_relations(rows)
    first = {str(row["path"]): row for row in before}
    found = []
    for row in rows:
        path = str(row["path"])
        then: Mapping[str, Any] = first.get(path, {})
        grown = {
            name: max(0, int(row[name] or 0) - int(then.get(name) or 0))
            for name in ("accesses", "reads", "pages")
        }
        grown["grown_pages"] = grown.pop("pages") if path in first else int(row["pages"] or 0)
        found.append(
            {
                "path": path,
                **{name: int(row[name] or 0) for name in _NUMBERED},
                "name": named[path].name or str(row["name"]),
                "purpose": named[path].purpose,
                "is_index": row["kind"] in ("i", "I"),
                **grown,
            }
        )
    # Shared ones are in the answers of all databases.
    return list({one["path"]: one for one in found}.values())


def counted_of(
    before: Mapping[str, Any], after: Mapping[str, Any], relations: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Give what a server counted in between; None where it does not tell.

    `relations`: those of `relations_of`.
    """
    found = _pages_of(before, after, sum(one["grown_pages"] for one in relations))
    if found["page_reads"] is None:
        found["page_reads"] = sum(one["reads"] for one in relations)
    wal = _grown(before, after, "pg_stat_wal")
    found["wal_bytes"] = wal("wal_bytes")
    found["images"] = wal("wal_fpi")
    syncs, time_ms = wal("wal_sync"), wal("wal_sync_time")
    io = [
        (_total(one, "wal", ("fsyncs",)), _total(one, "wal", ("fsync_time",)), one)
        for one in (before, after)
    ]
    if syncs is None and io[0][0] is not None and io[1][0] is not None:
        syncs = io[1][0] - io[0][0]
        time_ms = (io[1][1] or 0) - (io[0][1] or 0)
        names = ("write_bytes",)
        written = [_total(one, "wal", names, context="normal") for one in (before, after)]
        if written[0] is not None and written[1] is not None:
            found["log_file_bytes"] = int(written[1] - written[0])
    found["log_flushes"] = None if syncs is None else int(syncs)
    found["flush_s"] = time_ms / syncs / 1000 if syncs and time_ms else None
    found["checkpoint_sync_s"] = _checkpoint_sync_s(before, after)
    return found


def _checkpoint_sync_s(before: Mapping[str, Any], after: Mapping[str, Any]) -> float | None:
    """Give the mean seconds that a checkpoint waits for its files; None if none came to that."""
    if before.get("pg_stat_checkpointer"):
        grown = _grown(before, after, "pg_stat_checkpointer")
        counts, time_ms = [grown("num_timed"), grown("num_requested")], grown("sync_time")
    else:
        grown = _grown(before, after, "pg_stat_bgwriter")
        counts = [grown("checkpoints_timed"), grown("checkpoints_req")]
        time_ms = grown("checkpoint_sync_time")
    number = sum(count or 0 for count in counts)
    return time_ms / number / 1000 if time_ms and number else None


def _pages_of(
    before: Mapping[str, Any], after: Mapping[str, Any], grown_pages: int
) -> dict[str, Any]:
    def of(names: tuple[str, ...], **which: str) -> int | None:
        first, last = (_total(one, "relation", names, **which) for one in (before, after))
        return None if first is None or last is None else int(last - first)

    grown = _grown(before, after, "pg_stat_bgwriter")
    full = {"background_full": grown("maxwritten_clean")}
    if before.get("pg_stat_io"):
        return {
            **full,
            "data_pages": of(("writes",)),
            "checkpoint_pages": of(("writes",), backend_type="checkpointer"),
            "background_pages": of(("writes",), backend_type="background writer"),
            "page_reads": of(("reads",)),
        }
    # Before version 16 what relations grow by is counted with what others than the two write.
    counts = [grown(f"buffers_{name}") for name in ("checkpoint", "clean", "backend")]
    known = [count for count in counts if count is not None]
    return {
        **full,
        "data_pages": max(0, sum(known) - grown_pages) if len(known) == len(counts) else None,
        "checkpoint_pages": counts[0],
        "background_pages": counts[1],
        "page_reads": None,
    }


def _grown(before: Mapping[str, Any], after: Mapping[str, Any], view: str) -> Any:
    def grown(name: str) -> Any:
        first, last = ((one.get(view) or {}).get(name) for one in (before, after))
        return None if first is None or last is None else last - first

    return grown


def _total(state: Mapping[str, Any], of: str, names: tuple[str, ...], **which: str) -> float | None:
    """Give a total of pg_stat_io over rows of an object; None without such rows."""
    rows = [
        row
        for row in state.get("pg_stat_io") or ()
        if row.get("object") == of and all(row.get(key) == value for key, value in which.items())
    ]
    if not rows:
        return None
    return sum(float(row.get(name) or 0) for row in rows for name in names)
