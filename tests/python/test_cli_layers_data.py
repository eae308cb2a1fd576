"""`layers --data`: stacks that are formatted, stopped, opened again and checked.

On simulated drives, memory and files: whatever holds data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashwright import _core
from flashwright.layering.measure import measure
from flashwright.probing.targets import Target
from flashwright.replays import Pace, ReplayPlan, load
from flashwright.sources import Reading
from support import Cli
from test_cli_layers import DRIVE, LAYERS, MIB, write_trace

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
        return ["--device", "memory(bytes=64Mi)"]
    (folder / "file").write_bytes(bytes(64 * MIB))
    return ["--device", "file", "--write"]


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
    result = cli_json("layers", trace, *on, *STACKS, "--depth", "8", "--data", ending)
    assert [row["stack"] for row in result["results"]] == ["direct", *LAYERS]
    for row in result["results"]:
        assert row["error"] is None
        assert (row["kept"]["ending"], row["kept"]["sectors"]) == (ending, written(trace))
        if ending == "drained":
            assert row["kept"]["newest"] == written(trace)
    if kind == "drive":
        said = cli("layers", trace, *on, *STACKS, "--data", ending).stdout
        assert said.count("hold what they have to") == 1 + len(LAYERS)


def test_what_a_killed_process_may_lose_is_counted(
    cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    """Without a flush nothing need be durable, and the scheduler holds what it can."""
    trace = write_trace(tmp_path / "small.parquet")
    killed = cli_json(
        "layers", trace, "--device", "memory(bytes=64Mi)", "--drop-flushes", "--no-direct",
        "--stack", "scheduler(defer,buffer=4Mi)", "--data", "killed",
    )  # fmt: skip
    [row] = killed["results"]
    assert row["kept"]["newest"] < row["kept"]["sectors"] == written(trace)


def test_a_simulated_drive_takes_the_same_time_with_data(trace: Path) -> None:
    target = Target.find("mtron-sata7035", ("media.erase_blocks_per_plane=256",))
    plan = ReplayPlan(pace=Pace("one_by_one"))
    loaded = load(trace, Reading(), plan)
    times = [
        measure(one, loaded, "direct", data=data, drain=False).figures["seconds"]
        for one, data in ((target, None), (target.with_data(), "killed"))
    ]
    assert times[0] == times[1]


def test_data_goes_with_a_device_that_holds_it(trace: Path) -> None:
    loaded = load(trace, Reading(), ReplayPlan(pace=Pace("one_by_one")))
    memory = "memory(bytes=64Mi)"
    for data, opened in (("killed", False), (None, True)):
        on = _core.open_device(memory, access="write", data=opened)
        with pytest.raises(_core.InputError, match="data goes with a device that holds it"):
            _core.replay_layers(on, loaded, "direct", data=data)
    on = _core.open_device(memory, access="write", data=True)
    with pytest.raises(_core.InputError, match="it must be drained or killed"):
        _core.replay_layers(on, loaded, "direct", data="shot")


def test_how_a_run_ends_is_said_once(cli: Cli, trace: Path) -> None:
    done = cli("layers", trace, *DRIVE, "--data", "killed", "--no-drain", code=2)
    assert "--no-drain: --data says how a run ends" in done.stderr
