"""Limits of a probe on a drive, its words on them, and the findings that it goes by."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashwright import _core
from flashwright._core import ImpossibleError, InputError, __version__
from flashwright.probing import plan as plans
from flashwright.probing import profile, safety
from flashwright.probing.plan import ProbePlan
from flashwright.probing.session import Session
from flashwright.probing.store import Finding, Store, is_enough
from flashwright.probing.targets import Region, Target

READS, WRITES = "depth_read", "response_time_write"
REGION = Region(0, 1 << 20)
DEVICE: Any = SimpleNamespace()


@pytest.fixture
def plan() -> ProbePlan:
    """Give one experiment that reads, and one that writes."""
    return plans.make(plans.QUICK, (READS, WRITES), 1, may_write=True)


def found_of(spec: str) -> str:
    """Give a finding as the core does."""
    return json.dumps({"experiment": spec, "values": [], "charts": [], "notes": []})


def ran(
    monkeypatch: pytest.MonkeyPatch,
    plan: ProbePlan,
    store: Store | None,
    probe: Callable[..., str],
) -> Session:
    """Run a plan whose experiments are all done by `probe`, whatever was found before."""
    monkeypatch.setattr(_core, "probe", probe)
    session = Session(DEVICE, REGION, plan, seed=1, may_write=True, store=store, again=True)
    session.run()
    return session


def test_only_experiments_that_write_get_the_right_to(
    monkeypatch: pytest.MonkeyPatch, plan: ProbePlan
) -> None:
    rights: dict[str, bool] = {}

    def probe(_device: Any, spec: str, *, may_write: bool, **_more: Any) -> str:
        rights[spec.partition("(")[0]] = may_write
        return found_of(spec)

    ran(monkeypatch, plan, None, probe)
    assert rights == {READS: False, WRITES: True}


def test_an_experiment_is_guided_by_others_and_not_by_what_it_found_itself(
    monkeypatch: pytest.MonkeyPatch, plan: ProbePlan, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    for step in plan.steps:
        store.keep(step, found_of(step.spec))
    guided: dict[str, list[str]] = {}

    def probe(_device: Any, spec: str, *, findings: str, **_more: Any) -> str:
        guided[spec] = [one["experiment"] for one in json.loads(findings)]
        return found_of(spec)

    ran(monkeypatch, plan, store, probe)
    first, second = (step.spec for step in plan.steps)
    assert guided == {first: [second], second: [first]}


def test_what_is_not_possible_any_more_has_no_finding(
    monkeypatch: pytest.MonkeyPatch, plan: ProbePlan, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    for step in plan.steps:
        store.keep(step, found_of(step.spec))

    def probe(_device: Any, spec: str, **_more: Any) -> str:
        if spec.startswith(READS):
            raise ImpossibleError(f"experiment `{READS}`: it has one place")
        return found_of(spec)

    outcome = ran(monkeypatch, plan, store, probe).outcome
    assert outcome.left_out == [(READS, "it has one place")]
    assert [spec.partition("(")[0] for spec in outcome.findings] == [WRITES]


def test_a_finding_of_another_version_or_of_less_time_is_not_enough(plan: ProbePlan) -> None:
    step = plan.steps[0]
    finding: Finding = {"flashwright": __version__, "budget_seconds": step.budget_seconds}
    assert is_enough(finding, step)
    assert not is_enough({**finding, "flashwright": f"{__version__}.1"}, step)
    assert not is_enough({**finding, "budget_seconds": step.budget_seconds / 2}, step)


def test_a_life_is_in_terabytes_of_ten_to_the_twelfth() -> None:
    file = {"kind": "file", "capacity_bytes": 1 << 30}
    drive = {"kind": "block_device", "capacity_bytes": 1_000_000_000}
    assert safety.life_bytes(file, 100) == 100 * 10**12
    assert safety.life_bytes(file, None) is None
    assert safety.life_bytes(drive, None) == 150 * 10**9
    assert safety.share_of_life(10**12, drive, 100).startswith("1.0 % of the drive's life")


def test_what_is_written_at_most_is_all_the_time_of_those_that_write(
    monkeypatch: pytest.MonkeyPatch, plan: ProbePlan
) -> None:
    monkeypatch.setattr(_core, "read_bytes_per_second", lambda _device, **_more: 1e6)
    (seconds,) = [step.budget_seconds for step in plan.steps if step.writes]
    session = Session(DEVICE, REGION, plan, seed=1, may_write=True, store=None)
    assert safety.planned_bytes(DEVICE, REGION, session) == int(1e6 * seconds)
    assert 1 < seconds < plan.budget_seconds


@pytest.mark.parametrize("offset", [1 << 20, 4 << 20, 5 << 20])
def test_a_region_ends_where_its_device_does(offset: int) -> None:
    info = {"name": "x", "sector_bytes": 512, "capacity_bytes": 4 << 20}
    assert Region(offset - (1 << 20), 1 << 20).on({**info, "capacity_bytes": offset})
    for length in (4 << 20, None if offset >= 4 << 20 else 4 << 20):
        with pytest.raises(InputError, match=f"the region goes from byte {offset} to"):
            Region(offset, length).on(info)


def test_a_profile_is_of_its_findings_and_seed() -> None:
    findings: dict[str, Finding] = {READS: {"experiment": READS, "values": []}}
    others: dict[str, Finding] = {READS: {"experiment": READS, "values": [1]}}
    said = {"flashwright": __version__, "of": profile.digest(findings, 1), "effort": 10}
    assert profile.is_enough(said, findings, 1, 10)
    assert not profile.is_enough(said, findings, 2, 10)
    assert not profile.is_enough(said, others, 1, 10)
    assert not profile.is_enough(said, findings, 1, 11)


def test_a_result_says_what_was_changed_of_a_drive() -> None:
    change = "media.erase_blocks_per_plane=64"
    keys = ("name", "model", "kind", "capacity_bytes", "sector_bytes", "queue_depth")
    said = Target.find(f"profile(intel-x25e, {change}, state=aged)").document(dict.fromkeys(keys))
    assert said["overrides"] == [change]
    assert said["state"] == {"kind": "aged", "overwrites": 2.0}
