"""Copies of pages on other dies, from the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support import Cli

SMALL = (
    "a16, media.channels=4, media.packages_per_channel=1, media.erase_blocks_per_plane=128, "
    "media.pages_per_erase_block=32, ftl.over_provisioning=0.5, state=aged"
)
COPIES = f"profile({SMALL}, replication.policy=pblru, replication.budget=5%)"
LOAD = ["io:random(reads=0.5)", "--requests", "30k", "--pace", "2"]


def test_the_result_has_what_copies_came_to(cli: Cli, cli_json: Callable[..., Any]) -> None:
    [run] = cli_json("play", *LOAD, "--on", COPIES)["runs"]
    result, counters = run["simulated"], run["simulated"]["counters"]
    found = result["replication"]
    assert sum(found["writes_by_ios"]) == pytest.approx(1)
    assert sum(found["reads_by_ios"]) == pytest.approx(1)
    assert found["counts"]["copies_of_writes"] > 0
    assert found["extra_writes"] == counters["replica_page_writes"] / counters["host_page_writes"]
    assert found["sizes"]["used_pages"] <= found["sizes"]["budget_pages"]
    assert max(found["interference"]) < 1
    causes = ("host_page_writes", "relocated_pages", "replica_page_writes")
    pages = sum(counters[cause] for cause in causes)
    assert result["write_amplification"] == pytest.approx(pages / counters["host_page_writes"])
    assert result["flash_operations"]["program"]["replication"] > 0
    assert result["die_share"]["replication"] > 0
    assert "replication" in result["delays"]["read"]
    said = cli("play", *LOAD, "--on", COPIES).stdout
    assert "copies written" in said
    assert "Copies on other dies" in said


def test_without_copies_nothing_is_said_of_them(cli: Cli, cli_json: Callable[..., Any]) -> None:
    on = f"profile({SMALL})"
    result = cli_json("play", *LOAD, "--on", on)["runs"][0]["simulated"]
    assert result["replication"] is None
    assert result["counters"]["replica_page_writes"] == 0
    assert "copies" not in cli("play", *LOAD, "--on", on).stdout.lower()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ftl.scheme=bast", "must be none unless ftl.scheme is page_mapped"),
        ("ftl.scheme=superblock_mapped", "must be none unless"),
        ("replication.budget=90%", "replication.budget = 0.9"),
        ("replication.most_places=9", "replication.most_places"),
    ],
)
def test_what_cannot_be_is_one_line(cli: Cli, change: str, said: str) -> None:
    on = f"profile({SMALL}, replication.policy=pblru, {change})"
    found = cli("play", "io:random", "--on", on, "--requests", "500", code=2)
    assert said in found.stderr
    assert "Traceback" not in found.stderr
