"""Stores of many volumes on Ray: read where they lie, or sent to nodes that do not see them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
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


def run(folder: Path, *more: str, of: str = "store") -> Any:
    """Compare a store or a load, and give the result."""
    command = [sys.executable, "-m", "flashwright", "compare", of, "--json", "-", *more]
    how = ("--placements", "none", "--op", "0.5", "--victims", "greedy,lru")
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


def test_policies_are_compared_on_ray_as_they_are_here(nodes: Nodes, tmp_path: Path) -> None:
    source = "synth:zipf(pages=4Ki)"
    here = run(tmp_path, "--store", "of-local", of=source)
    ray = ("--engine", "ray", "--address", nodes.address, "--store", "of-ray")
    there = run(tmp_path, *ray, of=source)
    assert there["results"] == here["results"] != []


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


def test_an_input_that_no_job_asks_for_is_dropped_from_a_node_after_a_week(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "local_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(cluster, "imported", lambda: SimpleNamespace(get=lambda packed: packed))

    def fetch(name: str) -> Path:
        (tmp_path / name).write_text(name)
        known = input_of(str(tmp_path / name))
        return Path(cluster.fetched(known, cluster.pack(known)))

    old, used = fetch("old"), fetch("used")
    week_ago = time.time() - 8 * 86_400
    for one in (old, used):
        os.utime(one.parent, (week_ago, week_ago))
    fetch("used")
    assert fetch("new").read_text() == "new"
    assert (used.is_file(), old.exists()) == (True, False)
