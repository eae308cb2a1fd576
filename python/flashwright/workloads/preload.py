"""Imported once by the process that all clients are forked from: the drivers that are installed."""

from contextlib import suppress

with suppress(ImportError):
    import flashwright.workloads.databases.postgres
import flashwright.workloads.databases.sqlite
import flashwright.workloads.registry  # noqa: F401
