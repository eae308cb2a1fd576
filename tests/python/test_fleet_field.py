"""Stores of many volumes in the field: killed, asked twice at once, stopped in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flashwright.jobs import generic
from support import Cli

VOLUMES = 12
COMPARE = ("compare", "store", "--placements", "none,sepbit", "--op", "0.3,0.6")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a store that takes some seconds to be counted."""
    asked = {"volumes": VOLUMES, "requests": 200_000, "days": 2, "largest": "256Mi"}
    generic.run("fleet_synth", {"out": str(tmp_path / "fleet.csv"), **asked})
    trace, out = str(tmp_path / "fleet.csv"), str(tmp_path / "store")
    generic.run("trace_split", {"sources": [trace], "out": out})
    return tmp_path / "store"


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "flashwright", *COMPARE, "--store", "kept", "--jobs", "1", *more]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def wait_for_kept(folder: Path, process: subprocess.Popen[str], least: int) -> None:
    """Wait until so many volumes are kept."""
    deadline = time.monotonic() + 120
    while len(list((folder / "kept").glob("*/*.json"))) < least:
        assert process.poll() is None, "it ended before it was stopped"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def told(folder: Path) -> dict[str, Any]:
    """Give the figures of a run folder."""
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    del result["provenance"]
    return result


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_was_stopped_goes_on_to_the_same_figures(
    how: signal.Signals, cli: Cli, store: Path
) -> None:
    folder = store.parent
    process = started(folder, "--out", "a")
    wait_for_kept(folder, process, 2)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert f"of {VOLUMES} " in said
        assert not told(folder / "a")["complete"]
    again = cli(*COMPARE, "--store", "kept", "--out", "a").stdout
    assert f"of {VOLUMES} volumes were finished by an earlier run" in again
    cli(*COMPARE, "--store", "other", "--out", "b")
    assert told(folder / "a") == told(folder / "b")
    tables = [pl.read_parquet(folder / name / "volumes.parquet") for name in "ab"]
    assert tables[0].equals(tables[1].select(tables[0].columns))


def test_two_at_once_may_use_one_store(store: Path) -> None:
    folder = store.parent
    both = [started(folder, "--out", name) for name in "ab"]
    for process in both:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert told(folder / "a") == told(folder / "b")


def test_a_store_of_results_is_not_put_among_other_things(cli: Cli, store: Path) -> None:
    assert "no store; choose another" in cli(*COMPARE, "--store", "store", code=2).stderr
    assert not (store / "flashwright-store.json").exists()


def test_a_store_of_volumes_is_only_read(cli: Cli, store: Path) -> None:
    before = sorted((one, one.stat().st_mtime_ns) for one in store.rglob("*"))
    cli(*COMPARE)
    assert sorted((one, one.stat().st_mtime_ns) for one in store.rglob("*")) == before
