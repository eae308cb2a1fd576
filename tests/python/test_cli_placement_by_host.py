"""Placement by the host on simulated drives: handles of FDP, and zones, from the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flashwright
from flashwright.flows import Flow
from support import Cli

SMALL = ["--device", "a16", "--set", "media.channels=2", "--set", "media.packages_per_channel=1"]
SMALL += ["--set", "media.erase_blocks_per_plane=256", "--set", "media.pages_per_erase_block=32"]
FDP = [*SMALL, "--set", "ftl.scheme=superblock_mapped", "--set", "fdp.handles=2"]
ZONES = [*SMALL, "--set", "ftl.scheme=zoned", "--set", "write_buffer.bytes=1Mi"]
ZONES += ["--set", "write_buffer.power_loss_protected=true", "--state", "filled"]
ZONES += ["--set", "write_buffer.in_flight_pages=256"]


def test_flows_have_handles_and_the_result_has_the_logs(
    cli: Cli, cli_json: Callable[..., Any]
) -> None:
    asked = [
        "simulate", "io:random(range=4Mi)", *FDP, "--requests", "20k",
        "--beside", "io:random;handle=1;depth=8",
    ]  # fmt: skip
    result = cli_json(*asked, "--set", "fdp.isolation=persistently")
    found = result["fdp"]
    written = [handle["host_page_writes"] for handle in found["handles"]]
    assert written == [flow["written_bytes"] // 4096 for flow in result["flows"]]
    assert result["flows"][1]["handle"] == 1
    assert found["relocated"] is None
    assert found["host_bytes_with_metadata_written"] == result["written_bytes"]
    moved = result["host_page_writes"] + result["relocated_pages"]
    assert found["media_bytes_with_metadata_written"] == moved * 4096
    assert found["events"]["media_reallocated"] > 0
    # Some of it was still on its way to the flash when the measured part began, and when it ended.
    programmed = result["endurance_group"]["media_written_bytes"]
    assert programmed == pytest.approx(moved * 4096, rel=0.01)
    text = cli(*asked).stdout
    assert "Reclaim unit handles" in text
    assert "host bytes written (HBMW)" in text


def test_the_handle_of_a_source_is_its_patterns_its_traces_or_given(
    cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    def written(source: str | Path, *more: str) -> list[int]:
        found = cli_json("simulate", source, *FDP, "--requests", "500", *more)["fdp"]["handles"]
        return [handle["host_page_writes"] for handle in found]

    assert written("io:random") == [500, 0]
    assert written("io:random(handle=1)") == [0, 500]
    assert written("io:random(handle=1)", "--handle", "0") == [500, 0]
    trace = tmp_path / "handles.parquet"
    columns = {
        "time_ns": range(500), "op": ["write"] * 500, "length": [4096] * 500,
        "offset": [4096 * page for page in range(500)], "handle": [1] * 200 + [None] * 300,
    }  # fmt: skip
    pq.write_table(pa.table({name: list(column) for name, column in columns.items()}), trace)
    assert written(trace) == [300, 200]


def test_the_library_plays_flows_with_handles() -> None:
    changes = {
        "media.channels": 2, "media.packages_per_channel": 1, "media.erase_blocks_per_plane": 256,
        "media.pages_per_erase_block": 32, "ftl.scheme": "superblock_mapped", "fdp.handles": 3,
    }  # fmt: skip
    drive = flashwright.Drive("a16", changes=changes)
    beside = [Flow("io:random", handle=2)]
    result = drive.run("io:random", requests=400, handle=1, beside=beside, progress=False)
    none, first, second = result["fdp"]["handles"]
    assert none["host_page_writes"] == 0
    assert first["host_page_writes"] + second["host_page_writes"] == 400


def test_zones_that_are_written_and_reset_whole_amplify_nothing(
    cli_json: Callable[..., Any],
) -> None:
    result = cli_json("simulate", "io:zones(zone=512Ki,active=3)", *ZONES, "--requests", "20k")
    assert result["write_amplification"] == 1.0
    assert result["relocated_pages"] == 0
    assert result["zones"]["resets"] > 100
    assert result["erases"] == 4 * result["zones"]["resets"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["io:random", *ZONES], "the drive refuses a write to zone"),
        (["io:random", *ZONES, "--state", "fresh"], "whose write pointer is at page 0"),
        (["io:zones(zone=64Ki)", *ZONES], "they have 128 pages, 524288 bytes"),
        (["io:random", *ZONES, "--state", "aged"], "cannot be made aged"),
        (["io:random", *SMALL, "--set", "fdp.handles=2"], "reclaim units are superblocks"),
        (["io:random", *FDP, "--placement", "separate"], "the host says where pages go"),
        (["io:random", *FDP, "--handle", "128"], "128 is not in the range"),
        (["io:random", *SMALL, "--set", "ftl.scheme=zoned"], "write_buffer.power_loss_protected"),
    ],
)
def test_what_cannot_be_is_one_line(cli: Cli, arguments: list[str], said: str) -> None:
    found = cli("simulate", *arguments, "--requests", "500", code=2)
    assert said in found.stderr
    assert "Traceback" not in found.stderr


def test_a_replay_has_no_handles(cli: Cli, tmp_path: Path) -> None:
    trace = tmp_path / "one.parquet"
    columns = {"time_ns": [0], "op": ["read"], "offset": [0], "length": [4096]}
    pq.write_table(pa.table(columns), trace)
    beside = ["--beside", "io:random(reads=1);handle=1"]
    found = cli("replay", trace, "--device", "memory(bytes=64Mi)", *beside, code=2)
    assert "placement handles" in found.stderr
