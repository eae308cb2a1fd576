"""Statistics of a SOURCE, with progress: for `trace` and the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright.progress import work
from flashwright.runs import table
from flashwright.sources import SYNTHETIC

if TYPE_CHECKING:
    import pyarrow as pa

PICTURES = frozenset({"picture"})
"""Tables that are drawn and not read: in the run folder, not in the JSON."""


def statistics(
    source: str, page_size: int, format_name: str | None, skip_bad: int, seed: int
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Give what a source holds, as scalars and tables."""
    unit = "page writes" if source.startswith(SYNTHETIC) else "bytes"
    found = work(
        f"Reading {source}",
        unit,
        lambda progress: _core.trace_stats(
            source,
            format=format_name,
            page_size=page_size,
            skip_bad=skip_bad,
            progress=progress,
            seed=seed,
        ),
    )
    return split(found)


def split(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Part what the core found into scalars and tables."""
    tables = {name: table(columns) for name, columns in found.pop("tables").items()}
    return found, tables
