"""Comparisons: what they are asked for reaches each run, and decides where they are kept."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashwright import _core
from flashwright.comparing.comparison import SweepPlan
from flashwright.comparing.grid import Grid, GridJob, GridSettings
from flashwright.comparing.policies import Policy
from flashwright.engine.where import Where
from flashwright.lifetime import Wear
from flashwright.sources import Reading

GREEDY = Policy("none", "greedy")
SETTINGS = GridSettings(pages_per_erase_block=32, start="fresh", seed=7)


def test_all_that_is_asked_of_a_grid_reaches_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def simulate(_workload: Any, *, progress: Any, **more: Any) -> dict[str, Any]:
        assert progress is not None
        asked.append(more)
        raise _core.RunError("as planned")

    monkeypatch.setattr(_core, "simulate", simulate)
    where = Where(store=str(tmp_path / "store"))
    reading = Reading(page_size=8192, seed=7)
    grid = Grid(["synth:uniform(pages=64)"], [reading], [GridJob(0, GREEDY, 0.3)], SETTINGS, where)
    [outcome] = grid.done("Simulating")
    of_job = {"placement": "none", "victim": "greedy", "over_provisioning": 0.3}
    assert asked == [{**of_job, **asdict(SETTINGS)}]
    assert (outcome.result, outcome.error) == (None, "as planned")


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
    plan = SweepPlan(["a"], [GREEDY], [0.3], [Reading()], SETTINGS, Wear(), Where())
    workload: Any = SimpleNamespace(content_hash="a hash")
    other: Any = SimpleNamespace(content_hash="another")
    assert plan.identity([workload]) == replace(
        plan, where=Where("ray", jobs=2, store="elsewhere")
    ).identity([workload])
    assert plan.identity([workload]) != plan.identity([other])
    assert plan.identity([workload]) != replace(plan, **change).identity([workload])
