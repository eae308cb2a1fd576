"""Placement policies within modern drives: the page, and what it is made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from experiments.drives import placements as runs
from experiments.figures import placement_drives
from experiments.registry import Request

SMALL = runs.Scale(
    warm_up=4_000,
    measured=2_000,
    database="tpcc(bytes=2G,page=8Ki)",
    pool_pages=4096,
    overrides=("media.erase_blocks_per_plane=64",),
)
"""A drive with fewer superblocks, as full."""


def test_the_page_has_each_policy_on_each_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []
    in_full = runs.play

    def play(name: str, policy: str) -> dict[str, Any]:
        played.append((name, policy))
        return in_full("sk-hynix-pe8110", policy, SMALL)

    monkeypatch.setattr(runs, "POLICIES", ("none", "separate"))
    monkeypatch.setattr(runs, "play", play)
    request = Request(placement_drives.PIECES, {}, "command", {})
    made = placement_drives.SET.make(request)
    assert set(played) == {(name, one) for name in runs.DRIVES for one in runs.POLICIES}
    found = made.figures["placement-drives-tpcc"]
    assert [one["placement"] for one in found] == ["none", "separate"] * len(runs.DRIVES)
    assert all(f"| {name} " in made.page for name in runs.DRIVES)


def test_what_was_begun_in_a_superblock_that_is_closed_early_is_programmed() -> None:
    """It came after the superblock was erased and written to again: out of order."""
    scale = replace(
        SMALL,
        warm_up=60_000,
        database="tpcc(bytes=6500M,page=8Ki)",
        overrides=("media.erase_blocks_per_plane=200",),
    )
    found = runs.play("sk-hynix-pe8110", "hazard", scale)
    assert found["die_share"]["cleaning"] > 0
