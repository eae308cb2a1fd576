"""Profiles of a current card and an eMMC: the published figures that they were fitted to."""

import pytest

from flashwright import _core, drive_runs
from flashwright.devices import DriveProfile

MEASURED = [
    ("sd-card-a2", "io:random(reads=1,range=256Mi)", 1, "iops", 1_890),
    ("sd-card-a2", "io:random(reads=0,range=256Mi)", 1, "iops", 945),
    ("sd-card-a2", "io:random(reads=1,range=256Mi)", 32, "iops", 5_000),
    ("sd-card-a2", "io:random(reads=0,range=256Mi)", 32, "iops", 2_000),
    ("emmc-51", "io:random(reads=1,range=256Mi)", 32, "iops", 11_000),
    ("emmc-51", "io:random(reads=0,range=256Mi)", 32, "iops", 13_000),
    ("emmc-51", "io:sequential(reads=1,size=1Mi)", 4, "bytes_per_second", 250e6),
    ("emmc-51", "io:sequential(reads=0,size=1Mi)", 4, "bytes_per_second", 125e6),
]
"""As docs/profiles.md has them, with their sources."""


@pytest.mark.parametrize(("profile", "source", "depth", "key", "published"), MEASURED)
def test_a_profile_has_the_figures_that_it_was_fitted_to(
    profile: str, source: str, depth: int, key: str, published: float
) -> None:
    outcome = drive_runs.run(
        DriveProfile.load(profile).toml,
        source,
        pace=f"closed({depth})",
        requests=3_000 if "size=1Mi" in source else 20_000,
    )
    assert outcome[key] == pytest.approx(published, rel=0.03)


def test_the_first_line_of_the_old_card_says_what_it_is() -> None:
    listed = {entry["name"]: entry["summary"] for entry in _core.variants("profile")}
    assert "class 4, of 2010" in listed["sd-card"]
    assert "A2" in listed["sd-card-a2"]
    assert "eMMC 5.1" in listed["emmc-51"]
