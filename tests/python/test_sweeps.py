"""Comparisons: what they are asked for reaches each run, and decides where they are kept."""

from __future__ import annotations

from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest

from flashwright import _core
from flashwright.comparing.comparison import SweepPlan
from flashwright.comparing.grid import Grid, GridJob, GridSettings
from flashwright.comparing.policies import Policy
from flashwright.lifetime import Wear
from flashwright.sources import Reading

GREEDY = Policy("none", "greedy")
SETTINGS = GridSettings(pages_per_erase_block=32, start="fresh", seed=7, audit=True)


def test_all_that_is_asked_of_a_grid_reaches_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def simulate(_workload: Any, *, progress: Any, **more: Any) -> dict[str, Any]:
        assert progress is not None
        asked.append(more)
        return {}

    monkeypatch.setattr(_core, "simulate", simulate)
    workload: Any = SimpleNamespace(page_writes=1)
    Grid([workload], [GridJob(0, GREEDY, 0.3)], SETTINGS, 1).run()
    of_job = {"placement": "none", "victim": "greedy", "over_provisioning": 0.3}
    assert asked == [{**of_job, **asdict(SETTINGS)}]


@pytest.mark.parametrize(
    "change",
    [
        {"policies": [Policy("dac", "greedy")]},
        {"over_provisionings": [0.2]},
        {"readings": [Reading(repeat=2)]},
        {"readings": [Reading(seed=2)]},
        {"settings": replace(SETTINGS, start="filled")},
        {"wear": Wear(endurance=1000)},
        {"wear": Wear(writes_per_day=2.0)},
    ],
    ids=str,
)
def test_what_decides_on_the_numbers_of_a_comparison_decides_on_its_folder(
    change: dict[str, Any],
) -> None:
    """Two that differ in it would replace each other."""
    plan = SweepPlan(["a"], [GREEDY], [0.3], [Reading()], SETTINGS, Wear(), threads=1)
    workload: Any = SimpleNamespace(content_hash="a hash")
    other: Any = SimpleNamespace(content_hash="another")
    assert plan.identity([workload]) == replace(plan, threads=2).identity([workload])
    assert plan.identity([workload]) != plan.identity([other])
    assert plan.identity([workload]) != replace(plan, **change).identity([workload])
