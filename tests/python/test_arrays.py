"""Arrays with parity: the bindings, the models, and the plays of `figures-arrays`."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.drives import arrays as runs
from experiments.drives import fragmentation
from experiments.figures import arrays as figures
from experiments.figures import transactions
from flashwright import _core, drive_runs, models
from flashwright._core import InputError

SMALL = [
    "media.channels=2",
    "media.packages_per_channel=1",
    "media.erase_blocks_per_plane=64",
    "ftl.over_provisioning=50%",
]


@pytest.fixture(scope="module")
def profile() -> str:
    return _core.check_profile(_core.profile_toml("a16"), "a16", SMALL)


def play(profile: str, **options: Any) -> dict[str, Any]:
    """Play random pages on four drives, audited: a read of other data ends it."""
    requests = drive_runs.load(profile, "io:random(size=4Ki,reads=0.3)", seed=1)
    given = {"drives": 4, "depth": 8, "most_requests": 20_000, "audit": True, **options}
    return _core.simulate_array(profile, requests, **given)


def shares(found: dict[str, Any]) -> list[float]:
    parity = found["written"]["parity_bytes"]
    return [one / sum(parity) for one in parity]


def test_parity_lies_where_it_was_asked_for(profile: str) -> None:
    uneven = play(profile, array="diff_raid(shares=70,10,10,10,unit=4Ki)")
    assert shares(uneven) == pytest.approx([0.7, 0.1, 0.1, 0.1], abs=0.01)
    even = play(profile, array="raid5(unit=4Ki)")
    assert shares(even) == pytest.approx([0.25] * 4, abs=0.01)
    again = play(profile, array="diff_raid(shares=25,25,25,25,unit=4Ki)")
    assert again["event_hash"] == even["event_hash"] != uneven["event_hash"]
    striped = play(profile, array="striped(unit=4Ki)")
    assert sum(striped["written"]["parity_bytes"]) == 0
    assert striped["iops"] > even["iops"]


@pytest.mark.parametrize("missing", range(4))
def test_what_a_drive_held_is_made_of_the_others(profile: str, missing: int) -> None:
    found = play(profile, array="diff_raid(shares=70,unit=4Ki)", missing=missing)
    assert found["stripes"]["degraded_reads"] > 0
    assert found["written"]["data_bytes"][missing] == 0


def test_an_array_is_a_device(profile: str) -> None:
    one = _core.profile_summary(profile)["capacity_bytes"]
    device = _core.simulated_device(profile, array="raid5(unit=4Ki)", drives=4)
    assert device.info["capacity_bytes"] == pytest.approx(3 * one, rel=1e-3)
    mirrored = _core.simulated_device(profile, array="mirrored", drives=2)
    assert mirrored.info["capacity_bytes"] == one


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"array": "raid7"}, "known are: mirrored, striped, raid5, diff_raid"),
        ({"array": "raid5", "drives": 17}, "2 to 16 drives, not 17"),
        ({"array": "diff_raid(shares=80,30)"}, "more than 100"),
        ({"array": "raid5(unit=6000)"}, "a multiple of the drive's pages"),
        ({"array": "striped", "missing": 1}, "no parity"),
        ({"array": "raid5", "depth": 0}, "depth is 0"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(profile: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        play(profile, **options)
    assert "\n" not in str(caught.value)


def test_drives_without_an_array_are_refused(profile: str) -> None:
    with pytest.raises(InputError, match="several need an array"):
        _core.simulated_device(profile, drives=3)
    with pytest.raises(InputError, match="no parity"):
        _core.simulate_array_lives(profile, "striped", drives=4, erase_limit=100, replacements=1)


def test_ages_found_are_those_of_the_closed_form() -> None:
    found, rates = runs.lives(70.0), runs.rates(70.0)
    assert found["parity"] == pytest.approx([0.7, 0.1, 0.1, 0.1])
    assert found["rates"] == pytest.approx(rates, rel=0.03)
    assert found["replacements"][-1]["ages"] == pytest.approx(
        models.converged_ages(rates), abs=0.05
    )
    together = runs.lives(25.0)["replacements"][0]["ages"]
    assert min(together) > 0.95, "drives with even parity go together"


def test_younger_drives_lose_less() -> None:
    apart = runs.loss(models.converged_ages(runs.rates(70.0)))[0]
    more_apart = runs.loss(models.converged_ages(runs.rates(100.0)))[0]
    alike = runs.loss([1.0] * runs.DRIVES)[0]
    assert 0 < more_apart < apart < alike / 1000


def test_a_play_has_what_the_tables_need() -> None:
    scale = runs.Scale(warm_up=300, measured=300)
    by_name = {one.name: runs.play(one, runs.SETTINGS[0], scale) for one in runs.ARRAYS[:3]}
    striped, raid5 = by_name["striped"], by_name["RAID 5"]
    assert raid5["committed"] >= 300
    assert raid5["flash"]["page_programs"] > 1.8 * striped["flash"]["page_programs"]
    cells = figures._cells(raid5, striped)
    assert len(cells) == len(figures.PIECES[0].headings) - 2


def test_table_5_on_the_drive_has_all_four_rows_in_each_state() -> None:
    assert {(policy, buffer) for _, policy, buffer in transactions.BUFFERED} == {
        ("", "lru"),
        ("pblru", "lru"),
        ("", "cflru_e"),
        ("pblru", "cflru_e"),
    }
    assert {name for name, _, _ in transactions.BUFFERED[1:]} == set(transactions.PUBLISHED_5)
    counted = {
        "io_ns": {"write_back": {"count": 10}, "background_write": {"count": 5}},
        "flash": {"page_bytes": 2048},
        "database": {"page_bytes": 8192},
        "replication": None,
        "committed": 3,
    }
    assert fragmentation.writes_each(counted) == 15 * 4 / 3
    copied = {**counted, "replication": {"counts": {"replica_page_writes": 6}}}
    assert fragmentation.writes_each(copied) == (15 * 4 + 6) / 3
