"""The bars of the placement study.

That they are judged rightly, and that the command measures them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashwright import _core, sources
from flashwright._core import InputError
from flashwright.reproduce import placement_bars as bars
from flashwright.sweeps.grid import Job, Outcome
from flashwright.sweeps.policies import Policy
from support import ROOT

LOAD = bars.Load("small", "synth:kmodal?sets=0.2:0.8,0.8:0.2&pages=4Ki&updates=4x")


def outcome(policy: Policy, cost: float, *, steady: bool = True) -> Outcome:
    return Outcome(Job(0, policy, 0.2), {"cleaning_cost": cost, "steady": steady})


def judged(cost: float, other: float, tolerance: tuple[float, float]) -> bars.Row:
    check = bars.Check(LOAD, 0.2, bars.MULTI_LOG, "cleaning_cost", bars.ENVY, *tolerance)
    measured = {
        (LOAD, bars.MULTI_LOG, 0.2): outcome(bars.MULTI_LOG, cost),
        (LOAD, bars.ENVY, 0.2): outcome(bars.ENVY, other),
    }
    return bars.row(check, sources.load(LOAD.source, sources.Reading()), measured)


@pytest.mark.parametrize(
    ("cost", "tolerance", "met"),
    [
        (1.049, bars.WITHIN[5], True),
        (1.051, bars.WITHIN[5], False),
        (0.949, bars.WITHIN[5], False),
        (1.0, bars.NEVER_ABOVE, True),
        (1.001, bars.NEVER_ABOVE, False),
        (1.0, bars.BELOW, False),
        (0.999, bars.BELOW, True),
        (0.81, bars.FIFTH_BELOW, False),
        (0.79, bars.FIFTH_BELOW, True),
    ],
)
def test_a_bar_is_met_within_its_tolerance_only(
    cost: float, tolerance: tuple[float, float], met: bool
) -> None:
    found = judged(cost, 1.0, tolerance)
    assert found.met is met
    assert found.deviation == pytest.approx(cost - 1)


def test_tolerances_are_told_in_words() -> None:
    told = [
        bars.tolerance(*given)
        for given in (bars.WITHIN[0.5], bars.NEVER_ABOVE, bars.BELOW, bars.FIFTH_BELOW)
    ]
    assert told == ["within 0.5 %", "never above", "below", "at least 20 % below"]
    assert bars.tolerance(0.0, np.inf) == "at least as much"
    assert bars.tolerance(*bars.SHOWN) == ""
    assert judged(2.0, 1.0, bars.SHOWN).met is None


def test_a_run_that_failed_or_drifts_is_told_and_not_judged_as_met() -> None:
    check = bars.Check(LOAD, 0.2, bars.MULTI_LOG, "cleaning_cost", bars.ENVY, *bars.BELOW)
    workload = sources.load(LOAD.source, sources.Reading())
    measured = {(LOAD, bars.MULTI_LOG, 0.2): outcome(bars.MULTI_LOG, 1.0, steady=False)}
    failed = measured | {
        (LOAD, bars.ENVY, 0.2): Outcome(Job(0, bars.ENVY, 0.2), None, "the device is too small")
    }
    found = bars.row(check, workload, failed)
    assert found.met is None
    drifting = bars.row(
        check, workload, measured | {(LOAD, bars.ENVY, 0.2): outcome(bars.ENVY, 2.0)}
    )
    page = bars.document([(bars.GROUPS[0], [found, drifting])], "the command")
    assert "no result: the device is too small" in page
    assert "met, drifts" in page
    assert "| 1 of 1" in page, "what failed is counted neither as met nor as missed"


def test_every_reference_is_computed_for_the_load_at_hand() -> None:
    workload = sources.load(LOAD.source, sources.Reading())
    sizes, shares = (0.2, 0.8), (0.8, 0.2)
    assert bars.BOUND.value(workload, 0.2) == pytest.approx(
        _core.kmodal_separated(sizes, shares, 0.2).write_amplification, rel=1e-3
    )
    for check in (
        *bars.uniform_checks(bars.QUICK),
        *bars.random_checks(bars.QUICK),
        *bars.bound_checks(bars.QUICK),
    ):
        if isinstance(check.reference, bars.Model):
            small = sources.load(check.load.source.replace("128Ki", "4Ki"), sources.Reading())
            value = check.reference.value(small, check.over_provisioning)
            assert value != check.reference.value(small, check.over_provisioning / 2)


def test_all_bars_of_the_study_are_asked_in_full() -> None:
    full = bars.Scale()
    alphas = {check.over_provisioning for check in bars.uniform_checks(full)}
    assert alphas == {0.07, 0.1, 0.2, 0.3, 0.5, 1.0}
    others = {check.reference for check in bars.skewed_checks(full)}
    assert len(others) == 6
    assert {check.load.name.split(" ")[0] for check in bars.bound_checks(full)} == {
        "2-modal", "3-modal", "4-modal", "5-modal", "Zipf", "80/20",
    }  # fmt: skip


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "flashwright.reproduce.placement_bars", *arguments]
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def test_quick_bars_are_measured(tmp_path: Path) -> None:
    done = command("--quick", "--json", "bars.json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads((tmp_path / "bars.json").read_text())["rows"]
    assert {row["group"] for row in rows} == {group.name for group in bars.GROUPS}
    assert all(row["measured"] is not None and row["error"] is None for row in rows)
    # What a device of this size must show: speed and the recorded trace are judged by the full run
    # alone.
    theory = [
        row
        for row in rows
        if row["group"] == "random" or (row["group"] == "uniform" and row["what"] == "lru: p_gc")
    ]
    assert len(theory) >= 4
    assert all(row["met"] for row in theory)
    for group in bars.GROUPS:
        assert f"## {group.name}: " in done.stdout
        assert not done.stdout.startswith("{")


def test_the_same_command_gives_the_same_figures(tmp_path: Path) -> None:
    runs = [
        command("--quick", "--only", "multi_log_uniform", "--json", "-", folder=tmp_path)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert {row["group"] for row in json.loads(runs[0].stdout)["rows"]} == {"multi_log_uniform"}


def test_wrong_use_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command("--only", "speed", folder=tmp_path)
    assert done.returncode == 2
    assert "'uniform'" in done.stderr
    monkeypatch.setattr(bars, "RECORDED", tmp_path / "missing.parquet")
    with pytest.raises(InputError, match=r"missing\.parquet: no such file"):
        bars.tpcc_loads(bars.QUICK, tmp_path)


def test_the_measured_page_is_of_this_command() -> None:
    page = (ROOT / "docs" / "bars-placement.md").read_text(encoding="utf-8")
    assert page.startswith(
        "# Bars of the placement study, measured\n\n    python -m "
        "flashwright.reproduce.placement_bars\n"
    )
    for group in bars.GROUPS:
        assert f"## {group.name}: " in page


def test_the_example_of_adding_a_policy_is_the_policy_that_was_added() -> None:
    page = (ROOT / "docs" / "adding-a-policy.md").read_text(encoding="utf-8")
    source = (ROOT / "crates/placement/src/victims/lfs_cost_benefit.rs").read_text(encoding="utf-8")
    assert "".join(f"+{line}\n" for line in source.splitlines()) in page
