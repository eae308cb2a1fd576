"""Statistics of a SOURCE, with progress: for `trace` and the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright.progress import work
from flashwright.runs import table
from flashwright.sources import SYNTHETIC, Reading

if TYPE_CHECKING:
    import pyarrow as pa

PICTURES = frozenset({"picture"})
"""Tables that are drawn and not read: in the run folder, not in the JSON."""


def statistics(
    source: str, reading: Reading | None = None
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Give what a source holds, as scalars and tables."""
    unit = "page writes" if source.startswith(SYNTHETIC) else "bytes"
    read = reading or Reading()
    how = (read.format, read.page_size, read.skip_bad)
    found = work(
        f"Reading {source}",
        unit,
        lambda progress: _core.trace_stats(source, *how, progress, read.seed),
    )
    return split(found)


def split(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Part what the core found into scalars and tables."""
    tables = {name: table(columns) for name, columns in found.pop("tables").items()}
    return found, tables
