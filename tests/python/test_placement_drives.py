"""Placement policies within modern drives: the page, and what it is made of."""

from __future__ import annotations

from typing import Any

import pytest

from flashwright.reproduce.drives import placements as runs
from flashwright.reproduce.figures import placement_drives
from flashwright.reproduce.registry import Request

SMALL = runs.Scale(4_000, 2_000, "tpcc(bytes=800M,page=8Ki)", ("media.erase_blocks_per_plane=24",))
"""A drive with fewer superblocks, as full."""


def test_the_page_has_each_policy_on_each_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []

    def play(name: str, policy: str) -> dict[str, Any]:
        played.append((name, policy))
        return runs.play.__wrapped__("sk-hynix-pe8110", policy, SMALL)

    monkeypatch.setattr(runs, "POLICIES", ("none", "separate"))
    monkeypatch.setattr(placement_drives.runs, "play", play)
    request = Request(placement_drives.PIECES, {}, "command", {})
    made = placement_drives.SET.make(request)
    assert set(played) == {(name, one) for name in runs.DRIVES for one in runs.POLICIES}
    found = made.figures["placement-drives-tpcc"]
    assert [one["placement"] for one in found] == ["none", "separate"] * len(runs.DRIVES)
    assert all(f"| {name} " in made.page for name in runs.DRIVES)
