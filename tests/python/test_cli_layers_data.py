"""`play --data`: stacks that are formatted, stopped, opened again and checked.

On simulated drives, memory and files: whatever holds data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashwright import _core
from support import Cli, write_trace

MIB = 1 << 20
PROFILE = "profile(mtron-sata7035, media.erase_blocks_per_plane=256)"
DRIVE = ["--on", PROFILE]
LAYERS = [entry["name"] for entry in _core.registry()["layer"]]
STACKS = [f"--stack={layer}" for layer in LAYERS]
SECTORS = 8
"""Of each page that the trace writes."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "small.parquet")


def written(trace: Path) -> int:
    """Sectors that the trace writes."""
    return SECTORS * len(set(pages(trace)))


def pages(trace: Path) -> list[int]:
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows = pq.read_table(trace).to_pylist()
    return [row["offset"] for row in rows if row["op"] == "write"]


def device(kind: str, folder: Path) -> list[str]:
    if kind == "drive":
        return [*DRIVE, "--facts", "none"]
    if kind == "memory":
        return ["--on", "memory(bytes=64Mi)"]
    (folder / "file").write_bytes(bytes(64 * MIB))
    return ["--on", "file", "--write"]


@pytest.mark.parametrize("ending", ["drained", "killed"])
@pytest.mark.parametrize("kind", ["drive", "memory", "file"])
def test_every_layer_keeps_what_it_acknowledged(
    cli: Cli,
    cli_json: Callable[..., Any],
    trace: Path,
    tmp_path: Path,
    kind: str,
    ending: str,
) -> None:
    on = device(kind, tmp_path)
    result = cli_json("play", trace, *on, *STACKS, "--pace", "8", "--data", ending)
    assert [row["stack"] for row in result["runs"]] == ["direct", *LAYERS]
    for row in result["runs"]:
        assert row["error"] is None
        kept = row["layers"]["kept"]
        assert (kept["ending"], kept["sectors"]) == (ending, written(trace))
        if ending == "drained":
            assert kept["newest"] == written(trace)
    if kind == "drive":
        said = cli("play", trace, *on, *STACKS, "--data", ending).stdout
        assert said.count("hold what they have to") == 1 + len(LAYERS)


def test_what_a_killed_process_may_lose_is_counted(
    cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    """Without a flush nothing need be durable, and the scheduler holds what it can."""
    trace = write_trace(tmp_path / "small.parquet")
    killed = cli_json(
        "play", f"part({trace}, ops=read+write)", "--on", "memory(bytes=64Mi)",
        "--stack", "scheduler(defer,buffer=4Mi)", "--data", "killed",
    )  # fmt: skip
    direct, row = killed["runs"]
    assert direct["layers"]["kept"]["newest"] == written(trace)
    kept = row["layers"]["kept"]
    assert kept["newest"] < kept["sectors"] == written(trace)


def test_a_simulated_drive_takes_the_same_time_with_data(
    cli_json: Callable[..., Any], trace: Path
) -> None:
    times = [
        cli_json("play", trace, *DRIVE, "--stack", "direct", "--no-drain")["runs"][0]["seconds"],
        cli_json("play", trace, *DRIVE, "--stack", "direct", "--data", "killed")["runs"][0][
            "seconds"
        ],
    ]
    assert times[0] == times[1]


def test_only_two_ends_are_known(cli: Cli, trace: Path) -> None:
    done = cli("play", trace, *DRIVE, "--stack", "direct", "--data", "shot", code=2)
    assert "`drained` or `killed`" in done.stderr


def test_how_a_run_ends_is_said_once(cli: Cli, trace: Path) -> None:
    stack = ("--stack", "direct", "--data", "killed", "--no-drain")
    done = cli("play", trace, *DRIVE, *stack, code=2)
    assert "--no-drain: --data says how a run ends" in done.stderr
