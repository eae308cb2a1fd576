"""Lists all that can be named on the command line."""

from __future__ import annotations

from typing import Any

from flashwright._core import registry, variants


def everything() -> dict[str, list[dict[str, Any]]]:
    """Give all that can be named: kind -> entries as `registry()` has them."""
    from flashwright.benches import grounds
    from flashwright.workloads import presets, session
    from flashwright.workloads import registry as workloads

    def of(*kinds: str) -> dict[str, list[dict[str, Any]]]:
        return {kind: variants(kind) for kind in kinds}

    return {
        **registry(),
        **of("profile", "array", "scheme", "pattern", "experiment"),
        "benchmark": workloads.listing(),
        "database": session.databases_listing(),
        "place": grounds.listing(),
        "preset": presets.listing(),
        **of("load", "buffer", "lock_rule"),
    }
