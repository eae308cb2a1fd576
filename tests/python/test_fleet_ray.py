"""Stores of many volumes on Ray: read where they lie, or sent to nodes that do not see them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashwright.engine import cluster
from flashwright.engine.task import input_of
from flashwright.jobs import generic
from recordings import require
from test_sweep_ray import ENVIRONMENT, Nodes, sweep

PORT = 27379


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    """Start a node of its own: tests of sweeps may run beside this one."""
    require(importlib.util.find_spec("ray") is not None, "Ray is an extra: pip install ray")
    # Sockets have short paths.
    folder = Path(f"/tmp/fw-ray-f-{os.getpid()}")  # noqa: S108
    folder.mkdir()
    made = Nodes(folder, PORT)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, *more: str) -> Any:
    """Compare a store, and give the result."""
    command = [sys.executable, "-m", "flashwright", "compare", "store", "--json", "-", *more]
    how = ("--placements", "none", "--op", "0.5", "--victims", "greedy")
    done = subprocess.run(
        [*command, *how], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=200,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_fleet_has_the_same_sums_on_ray(nodes: Nodes, tmp_path: Path) -> None:
    asked = {"volumes": 6, "requests": 20_000, "largest": "16Mi"}
    generic.run("fleet_synth", {"out": str(tmp_path / "fleet.csv"), **asked})
    split = {"sources": [str(tmp_path / "fleet.csv")], "out": str(tmp_path / "store")}
    generic.run("trace_split", split)
    here = run(tmp_path, "--store", "of-local")
    # A head takes some seconds to come up.
    (tmp_path / "W.toml").write_text(
        'job = "count"\n[fixed]\nsource = "synth:zipf(pages=4Ki)"\n[axes]\nplacement = ["none"]\n'
    )
    sweep(nodes, tmp_path, "W.toml", "--out", "warm")
    ray = ("--engine", "ray", "--address", nodes.address, "--store", "of-ray")
    there = run(tmp_path, *ray)
    assert there["sums"] == here["sums"]
    assert there["volumes"] == here["volumes"] > 0


def test_a_folder_is_here_by_its_content(tmp_path: Path) -> None:
    folder = tmp_path / "volume=1"
    folder.mkdir()
    (folder / "a").write_bytes(b"one")
    known = input_of(str(folder))
    assert cluster._is_here(known)
    (folder / "a").write_bytes(b"two")
    assert not cluster._is_here(known)
    shutil.rmtree(folder)
    assert not cluster._is_here(known)
