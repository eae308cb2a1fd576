"""The databases that workloads are loaded into and run on.

A backend is a connection (`sqlite.py`, `postgres.py`); a place is a database of ours in a folder,
from its making to its end (`embedded.py`, `cluster.py` with its `server.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from .base import Backend, BackendConfig, Row, Statement, TransactionConflictError, Value
from .sqlite import SqliteConfig


def _postgres(target: str) -> BackendConfig:
    # psycopg is optional: it is asked for only by those who use it.
    from .postgres import PostgresConfig  # noqa: PLC0415

    return PostgresConfig(target)


BACKENDS: dict[str, Callable[[str], BackendConfig]] = {
    "sqlite": SqliteConfig,
    "postgres": _postgres,
}
"""Name -> maker of a configuration from a target: a file for sqlite, a libpq connection string for
postgres.
"""


def backend_config(name: str, target: str) -> BackendConfig:
    """Give the configuration of a backend.

    Raises:
        ValueError: there is no backend of this name; the message lists the known ones.
    """
    if name not in BACKENDS:
        raise ValueError(f"backend {name!r} is not known: choose one of {', '.join(BACKENDS)}")
    return BACKENDS[name](target)


__all__ = [
    "BACKENDS",
    "Backend",
    "BackendConfig",
    "Row",
    "Statement",
    "TransactionConflictError",
    "Value",
    "backend_config",
]
