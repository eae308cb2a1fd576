"""Placement by the host on simulated drives: handles of FDP, and zones, from the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flashwright
from support import Cli

SMALL = (
    "a16, media.channels=2, media.packages_per_channel=1, media.erase_blocks_per_plane=256, "
    "media.pages_per_erase_block=32"
)
FDP = f"{SMALL}, ftl.scheme=superblock_mapped, fdp.handles=2"
ZONES = (
    f"{SMALL}, ftl.scheme=zoned, write_buffer.bytes=1Mi, "
    "write_buffer.power_loss_protected=true, write_buffer.in_flight_pages=256"
)


def on(settings: str) -> list[str]:
    return ["--on", f"profile({settings})"]


def test_flows_have_handles_and_the_result_has_the_logs(
    cli: Cli, cli_json: Callable[..., Any]
) -> None:
    asked = [
        "play", "io:random(range=4Mi)", "--requests", "20k",
        "--flow", "flow(io:random, handle=1, pace=8)",
    ]  # fmt: skip
    [run] = cli_json(*asked, *on(f"{FDP}, fdp.isolation=persistently"))["runs"]
    result = run["simulated"]
    counters, found = result["counters"], result["fdp"]
    written = [handle["host_page_writes"] for handle in found["handles"]]
    assert written == [flow["written_bytes"] // 4096 for flow in run["flows"]]
    assert run["flows"][1]["handle"] == 1
    assert found["relocated"] is None
    assert found["host_bytes_with_metadata_written"] == run["written_bytes"]
    moved = counters["host_page_writes"] + counters["relocated_pages"]
    assert found["media_bytes_with_metadata_written"] == moved * 4096
    assert found["events"]["media_reallocated"] > 0
    # Some of it was still on its way to the flash when the measured part began, and when it ended.
    programmed = result["endurance_group"]["media_written_bytes"]
    assert programmed == pytest.approx(moved * 4096, rel=0.01)
    text = cli(*asked, *on(FDP)).stdout
    assert "Reclaim unit handles" in text
    assert "host bytes written (HBMW)" in text


def test_the_handle_of_a_source_is_its_patterns_its_traces_or_given(
    cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    def written(source: str | Path) -> list[int]:
        [run] = cli_json("play", source, *on(FDP), "--requests", "500")["runs"]
        return [handle["host_page_writes"] for handle in run["simulated"]["fdp"]["handles"]]

    assert written("io:random") == [500, 0]
    assert written("io:random(handle=1)") == [0, 500]
    assert written("part(io:random(handle=1), handle=0)") == [500, 0]
    trace = tmp_path / "handles.parquet"
    columns = {
        "time_ns": range(500), "op": ["write"] * 500, "length": [4096] * 500,
        "offset": [4096 * page for page in range(500)], "handle": [1] * 200 + [None] * 300,
    }  # fmt: skip
    pq.write_table(pa.table({name: list(column) for name, column in columns.items()}), trace)
    assert written(trace) == [300, 200]


def test_the_library_plays_flows_with_handles() -> None:
    drive = f"profile({SMALL}, ftl.scheme=superblock_mapped, fdp.handles=3)"
    result = flashwright.play(
        "part(io:random, handle=1)",
        on=drive,
        flow="flow(io:random, handle=2)",
        requests=400,
        progress=False,
    )
    none, first, second = result["runs"][0]["simulated"]["fdp"]["handles"]
    assert none["host_page_writes"] == 0
    assert first["host_page_writes"] + second["host_page_writes"] == 400


def test_zones_that_are_written_and_reset_whole_amplify_nothing(
    cli_json: Callable[..., Any],
) -> None:
    asked = ("play", "io:zones(zone=512Ki,active=3)", *on(ZONES), "--requests", "20k")
    result = cli_json(*asked)["runs"][0]["simulated"]
    assert result["write_amplification"] == 1.0
    assert result["counters"]["relocated_pages"] == 0
    assert result["zones"]["resets"] > 100
    assert result["counters"]["erases"] == 4 * result["zones"]["resets"]


@pytest.mark.parametrize(
    ("source", "drive", "said"),
    [
        ("io:random", ZONES, "the drive refuses a write to zone"),
        ("io:random", f"{ZONES}, state=fresh", "whose write pointer is at page 0"),
        ("io:zones(zone=64Ki)", ZONES, "they have 128 pages, 524288 bytes"),
        ("io:random", f"{ZONES}, state=aged", "cannot be made aged"),
        ("io:random", f"{SMALL}, fdp.handles=2", "reclaim units are superblocks"),
        ("io:random", f"{FDP}, placement=separate", "the host says where pages go"),
        ("part(io:random, handle=128)", FDP, "128"),
        ("io:random", f"{SMALL}, ftl.scheme=zoned", "write_buffer.power_loss_protected"),
    ],
)
def test_what_cannot_be_is_one_line(cli: Cli, source: str, drive: str, said: str) -> None:
    found = cli("play", source, *on(drive), "--requests", "500", code=2)
    assert said in found.stderr
    assert "Traceback" not in found.stderr


def test_memory_has_no_handles(cli: Cli, tmp_path: Path) -> None:
    trace = tmp_path / "one.parquet"
    columns = {"time_ns": [0], "op": ["read"], "offset": [0], "length": [4096]}
    pq.write_table(pa.table(columns), trace)
    beside = ["--flow", "flow(io:random(reads=1), handle=1)"]
    found = cli("play", trace, "--on", "memory(bytes=64Mi)", *beside, code=2)
    assert "placement handles" in found.stderr
