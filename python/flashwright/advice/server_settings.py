"""Settings of a database as actions read and change them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from flashwright.advice.case import Case
from flashwright.advice.setup import Setup
from flashwright.advice.telling import has_log

DEFAULTS = {
    "checkpoint_timeout": "300",
    "max_wal_size": str(1 << 30),
    "checkpoint_completion_target": "0.9",
    "shared_buffers": str(128 << 20),
    "wal_writer_delay": "0.2",
}
"""PostgreSQL's own, for what is not known: seconds and bytes."""
SQLITE_DEFAULTS = {"wal_autocheckpoint": "1000", "page_size": "4096"}
_SYNCHRONOUS = {"0": "off", "1": "normal", "2": "full", "3": "extra"}
_SECONDS = ("checkpoint_timeout", "wal_writer_delay", "bgwriter_delay")
_BYTES = ("max_wal_size", "min_wal_size", "shared_buffers", "wal_keep_size")
_SERVER_FILE = "server.json"


def number(case: Case, name: str) -> float:
    """Give a setting of PostgreSQL in seconds or bytes: as recorded, or else its default."""
    try:
        return float(case.settings.get(name, DEFAULTS[name]))
    except ValueError:
        return float(DEFAULTS[name])


def said(case: Case, name: str) -> str:
    """Say whether a setting is known, for what an action assumes; empty if it is."""
    if name in case.settings:
        return ""
    return f"{name} is PostgreSQL's default, as it was not recorded"


def version(case: Case) -> int | None:
    """Give the major version of the server; None if the recording does not say it."""
    found = case.settings.get("server_version_num") or _noted(case).get("version")
    if found is None:
        found = (case.recording.get("own_counts") or {}).get("version")
    return int(found) // 10_000 if found and str(found).isdigit() and int(found) > 999 else None


def counted(case: Case) -> Mapping[str, Any]:
    """Give what the server counted itself over the recording; empty if it is not known."""
    found = _noted(case).get("counted")
    return found if isinstance(found, Mapping) else {}


def _noted(case: Case) -> Mapping[str, Any]:
    path = None if case.folder is None else case.folder / _SERVER_FILE
    if path is None or not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, Mapping) else {}


def altered(settings: Mapping[str, str], *, needs_restart: bool = False) -> tuple[str, ...]:
    """Give the commands that set something in PostgreSQL."""
    return (
        *(f"psql -c \"ALTER SYSTEM SET {name} = '{value}'\"" for name, value in settings.items()),
        _taken(needs_restart=needs_restart),
    )


def put_back(
    case: Case, settings: Mapping[str, str], *, needs_restart: bool = False
) -> tuple[str, ...]:
    """Give the commands that put back what was there."""
    lines = []
    for name in settings:
        value = _as_set(name, case.settings.get(name))
        lines.append(
            f'psql -c "ALTER SYSTEM RESET {name}"'
            if value is None
            else f"psql -c \"ALTER SYSTEM SET {name} = '{value}'\""
        )
    return (*lines, _taken(needs_restart=needs_restart))


def _taken(*, needs_restart: bool) -> str:
    return "pg_ctl restart" if needs_restart else 'psql -c "SELECT pg_reload_conf()"'


def _as_set(name: str, recorded: str | None) -> str | None:
    """Give a recorded value, in seconds or bytes, as PostgreSQL takes it."""
    if recorded is None:
        return None
    if name in _SECONDS:
        return f"{round(float(recorded) * 1000)}ms"
    if name in _BYTES:
        return f"{round(float(recorded)) >> 10}kB"
    return {"True": "on", "False": "off"}.get(recorded, recorded)


def as_size(bytes_: float) -> str:
    """Give bytes as PostgreSQL takes them: whole GB of 2^30 bytes, or MB of 2^20."""
    mib = max(1, round(bytes_ / (1 << 20)))
    return f"{mib // 1024}GB" if mib % 1024 == 0 else f"{mib}MB"


def as_time(seconds: float) -> str:
    """Give seconds as PostgreSQL takes them."""
    whole = max(1, round(seconds))
    if whole % 3600 == 0:
        return f"{whole // 3600}h"
    return f"{whole // 60}min" if whole % 60 == 0 else f"{whole}s"


def with_settings(case: Case, settings: Mapping[str, str]) -> Callable[[Setup], Setup]:
    """Give the change of a setup to these settings of the database, by its log."""
    return lambda setup: case.with_settings(setup, settings)


def with_merging(
    case: Case, settings: Mapping[str, str], merge_seconds: float, waits: float | None
) -> Callable[[Setup], Setup]:
    """Give the change to settings by which commits share flushes.

    By the log, or else by letting those of the same time share one. `waits`: as in a setup.
    """
    if has_log(case):
        return lambda setup: case.with_settings(setup, settings).changed(waits=waits)
    return lambda setup: setup.changed(
        merge_seconds=max(setup.merge_seconds, merge_seconds),
        waits=None if setup.waits is None else waits,
    )


def sqlite(case: Case, name: str) -> str | None:
    """Give a setting of SQLite in its own words, in small letters; None if it is not known."""
    found = case.settings.get(name)
    if found is None:
        return SQLITE_DEFAULTS.get(name)
    text = found.lower()
    return _SYNCHRONOUS.get(text, text) if name == "synchronous" else text


def with_mode(
    case: Case, settings: Mapping[str, str], waits: float | None = 0.0
) -> Callable[[Setup], Setup]:
    """Give the change of a setup to a mode of SQLite; what it does not name is as recorded.

    `waits`: as in a setup; one whose commits do not wait for the drive stays so.
    """

    def changed(setup: Setup) -> Setup:
        kept = setup.waits if waits == 0.0 else waits
        return case.with_settings(setup, settings).changed(waits=kept)

    return changed
