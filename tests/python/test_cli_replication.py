"""Copies of pages on other dies, from the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support import Cli

SMALL = ["--device", "a16", "--set", "media.channels=4", "--set", "media.packages_per_channel=1"]
SMALL += ["--set", "media.erase_blocks_per_plane=128", "--set", "media.pages_per_erase_block=32"]
SMALL += ["--set", "ftl.over_provisioning=0.5"]
COPIES = [*SMALL, "--set", "replication.policy=pblru", "--set", "replication.budget=5%"]
LOAD = ["io:random(reads=0.5)", "--requests", "30k", "--depth", "2", "--state", "aged"]


def test_the_result_has_what_copies_came_to(cli: Cli, cli_json: Callable[..., Any]) -> None:
    result = cli_json("simulate", *LOAD, *COPIES)
    found = result["replication"]
    assert sum(found["writes_by_ios"]) == pytest.approx(1)
    assert sum(found["reads_by_ios"]) == pytest.approx(1)
    assert found["copies_of_writes"] > 0
    assert found["extra_writes"] == result["replica_page_writes"] / result["host_page_writes"]
    assert found["used_pages"] <= found["budget_pages"]
    assert max(found["interference"]) < 1
    pages = result["host_page_writes"] + result["relocated_pages"] + result["replica_page_writes"]
    assert result["write_amplification"] == pytest.approx(pages / result["host_page_writes"])
    assert result["flash_operations"]["program"]["replication"] > 0
    assert result["die_share"]["replication"] > 0
    assert "replication" in result["delays"]["read"]
    assert "copies written" in cli("simulate", *LOAD, *COPIES).stdout


def test_without_copies_nothing_is_told_of_them(cli_json: Callable[..., Any]) -> None:
    result = cli_json("simulate", *LOAD, *SMALL)
    assert "replication" not in result
    assert result["replica_page_writes"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ftl.scheme=bast"], "must be none unless ftl.scheme is page_mapped"),
        (["ftl.scheme=superblock_mapped"], "must be none unless"),
        (["replication.budget=90%"], "replication.budget = 0.9"),
        (["replication.most_places=9"], "replication.most_places"),
    ],
)
def test_what_cannot_be_is_one_line(cli: Cli, arguments: list[str], said: str) -> None:
    changes = [part for text in arguments for part in ("--set", text)]
    pblru = ["--set", "replication.policy=pblru"]
    found = cli("simulate", "io:random", *SMALL, *pblru, *changes, "--requests", "500", code=2)
    assert said in found.stderr
    assert "Traceback" not in found.stderr
