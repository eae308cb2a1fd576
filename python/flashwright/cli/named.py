"""Lists all that can be named on the command line."""

from __future__ import annotations

from typing import Any

from flashwright._core import experiments, registry, transaction_variants


def everything() -> dict[str, list[dict[str, Any]]]:
    """Give all that can be named: kind -> entries as `registry()` has them."""
    from flashwright.benches import grounds
    from flashwright.devices import listing as of_drives
    from flashwright.workloads import presets, session
    from flashwright.workloads import registry as workloads

    of_runs = {
        "benchmark": workloads.listing(),
        "database": session.databases_listing(),
        "place": grounds.listing(),
        "preset": presets.listing(),
    }
    known = transaction_variants()
    of_transactions = {
        "load": known["benchmarks"],
        "buffer": known["buffers"],
        "lock_rule": known["lock_rules"],
    }
    drives = of_drives()
    return {**registry(), **drives, "experiment": experiments(), **of_runs, **of_transactions}
