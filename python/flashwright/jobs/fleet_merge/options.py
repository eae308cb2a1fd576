"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from typing import TypedDict


class FleetMerge(TypedDict, total=False):
    """Merges the tables `sketches` of `volume_study`, of any number of volumes."""
