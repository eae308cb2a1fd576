"""Statistics of a SOURCE, with progress: for `trace stats` and the demo."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright.cli.progress import work
from flashwright.runs import table
from flashwright.sources import SYNTHETIC

if TYPE_CHECKING:
    import pyarrow as pa

    from flashwright._core import Progress

PICTURES = frozenset({"picture"})
"""Tables that are drawn and not read: in the run folder, not in the JSON."""


def statistics(
    source: str, page_size: int, format_name: str | None, skip_bad: int, seed: int
) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Give what a source holds, as scalars and tables. A synthetic one is written to a temporary trace for it."""

    def measure(path: str, progress: Progress) -> dict[str, Any]:
        return _core.trace_stats(path, format=format_name, page_size=page_size, skip_bad=skip_bad, progress=progress)

    if not source.startswith(SYNTHETIC):
        found = work(f"Reading {Path(source).name}", "bytes", lambda progress: measure(source, progress))
        return _parted(found)
    with tempfile.TemporaryDirectory(prefix="flashwright-") as folder:
        path = Path(folder) / "synthetic.parquet"
        spec = source.removeprefix(SYNTHETIC)
        work(f"Making {spec}", "page writes", lambda progress: _core.write_synthetic(spec, path, "parquet", page_size, seed, progress))
        return _parted(work(f"Reading {spec}", "bytes", lambda progress: measure(str(path), progress)))


def _parted(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    tables = {name: table(columns) for name, columns in found.pop("tables").items()}
    return found, tables
