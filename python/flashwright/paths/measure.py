"""What a recording says of one run: what the file system queued, and what the device got, in all and for each transaction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashwright import _core

LAYERS = ("queued", "issued")
"""`queued`: what the file system sends to the block layer, before it is merged and split. `issued`: what the device gets."""
OPS = ("read", "write", "trim")
_PAGE_BYTES = 4096


def layer_figures(layer: str, trace: Path | None, seconds: float, transactions: int) -> dict[str, Any]:
    """Give the figures of one layer of a run that lasted so long: columns of a row, all beginning with the layer's name.

    `trace` is None if nothing was sent there. Shares are 0 ... 1; those of nothing are None.
    """
    counted: Mapping[str, Any] = {} if trace is None else _core.trace_stats(str(trace), page_size=_PAGE_BYTES)
    found: dict[str, Any] = {}
    for op in OPS:
        number, volume = int(counted.get(f"{op}s", 0)), int(counted.get(f"{op}_bytes", 0))
        found |= {
            f"{layer}_{op}s": number,
            f"{layer}_{op}_bytes": volume,
            f"{layer}_{op}s_per_second": number / seconds,
            f"{layer}_{op}_bytes_per_second": volume / seconds,
            f"{layer}_mean_{op}_bytes": volume / number if number else None,
        }
    flushes = int(counted.get("flushes", 0))
    found |= {
        f"{layer}_flushes": flushes,
        f"{layer}_flushes_per_second": flushes / seconds,
        f"{layer}_sequential_share_of_writes": counted.get("sequential_share_of_writes")
        if found[f"{layer}_writes"]
        else None,
        f"{layer}_write_bytes_per_transaction": found[f"{layer}_write_bytes"] / transactions if transactions else None,
        f"{layer}_flushes_per_transaction": flushes / transactions if transactions else None,
    }
    return found


def between(row: Mapping[str, Any]) -> dict[str, Any]:
    """Give what the block layer did: writes queued for each that the device got, above 1 if it merged and below if it split."""
    issued = row["issued_writes"]
    return {"writes_queued_per_issued": row["queued_writes"] / issued if issued else None}
