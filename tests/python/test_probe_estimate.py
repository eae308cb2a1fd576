"""Estimate of the duration of a probe, said before it begins."""

from __future__ import annotations

import json

import pytest

from flashwright import _core
from flashwright.probing import plan
from flashwright.probing.estimate import FACTOR, LEAST, Pace, estimate
from support import Cli

FAST = Pace(1e-4, 1e-3, 1e-5, 1e-3)
SLOW = Pace(1e-3, 0.05, 0.5, 0.15)


# The last two were not looked at when the least work was counted.
@pytest.mark.parametrize("drive", ["usb-stick", "intel-x25e", "samsung-mcbqe32g", "mtron-sata7035"])
def test_the_estimate_is_right_within_its_factor(cli: Cli, drive: str) -> None:
    done = cli("probe", drive, "--fit", "0", "--json", "-")
    result = json.loads(done.stdout)
    expected, took = result["estimate"], result["device_seconds"]
    assert expected["low_seconds"] < took < expected["high_seconds"]
    # It comes before everything else.
    assert done.stderr.startswith(f"{drive}: about ")
    assert "simulated time" in done.stderr
    assert "--fit 0" not in done.stderr


def test_it_is_said_again_where_it_was_wrong(cli: Cli) -> None:
    # A drive whose programs take much longer once it was written twice over is not foreseen; here
    # the budgets are so long that the estimate counts on them, and experiments need less.
    arguments = [
        "probe",
        "nvme-tlc",
        "--only",
        "response_time_read",
        "--fit",
        "0",
        "--minutes",
        "9",
    ]
    done = cli(*arguments)
    assert "of the device's time, where" in done.stdout


def test_what_was_done_before_is_not_expected_again(cli: Cli) -> None:
    arguments = ["probe", "nvme-tlc", "--only", "depth_read", "--fit", "0", "--out", "p"]
    assert "about" in cli(*arguments).stderr
    assert "about" not in cli(*arguments).stderr


def test_every_experiment_is_known() -> None:
    """All but one, which is left out where nothing is known of the inside."""
    names = {entry["name"] for entry in _core.variants("experiment")}
    assert names - LEAST.keys() <= {"ill_mapped"}
    assert LEAST.keys() <= names


def test_a_slow_device_is_decided_by_its_requests_and_a_fast_one_by_budgets() -> None:
    steps = plan.make(plan.QUICK, (), None, may_write=True).steps
    fast, slow = estimate(steps, FAST), estimate(steps, SLOW)
    budget = sum(step.budget_seconds for step in steps)
    assert fast.seconds == pytest.approx(budget, rel=0.05)
    assert slow.seconds > 10 * budget
    assert slow.slowest == "matrix"
    reads = estimate(plan.make(plan.QUICK, (), None, may_write=False).steps, Pace(1e-3, 0.05))
    assert reads.seconds < slow.seconds / FACTOR
