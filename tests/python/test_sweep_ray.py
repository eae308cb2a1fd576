"""Sweeps on Ray: nodes of their own on this machine, which come, go and are killed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recordings import require
from support import ROOT, write_trace
from test_sweep import KIND, rows, write

PORT = 26379
STORE_BYTES = 100 << 20
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((str(ROOT / "tests" / "python"), str(ROOT / "python"))),
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
}


class Nodes:
    """Ray nodes, each of `ray start`, with resources of its own."""

    def __init__(self, folder: Path, port: int = PORT, dashboard: int | None = None) -> None:
        self.folder, self.address = folder, f"127.0.0.1:{port}"
        self._started: list[subprocess.Popen[bytes]] = []
        board = [f"--include-dashboard={'false' if dashboard is None else 'true'}"]
        if dashboard is not None:
            # Who takes jobs listens, too: not where a head beside this one does.
            board += [f"--dashboard-port={dashboard}"]
            board += [f"--dashboard-agent-listen-port={dashboard + 1}"]
        self._start("--head", f"--port={port}", *board, cpus=1)

    def _start(self, *words: str, cpus: int) -> subprocess.Popen[bytes]:
        ray = Path(sys.executable).with_name("ray")
        log = (self.folder / f"node-{len(self._started)}.log").open("wb")
        started = subprocess.Popen(
            [
                str(ray), "start", "--block", f"--num-cpus={cpus}", f"--memory={2 << 30}",
                f"--object-store-memory={STORE_BYTES}", "--disable-usage-stats",
                f"--temp-dir={self.folder}/ray", *words,
            ],
            env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        self._started.append(started)
        return started

    def add(self, cpus: int = 1) -> subprocess.Popen[bytes]:
        """Start another node."""
        return self._start(f"--address={self.address}", cpus=cpus)

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """End a node and all of its processes, as a machine that loses power."""
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()

    def close(self) -> None:
        """End all nodes."""
        for node in reversed(self._started):
            if node.poll() is None:
                os.killpg(node.pid, signal.SIGKILL)
                node.wait()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    require(importlib.util.find_spec("ray") is not None, "Ray is an extra: pip install ray")
    # Sockets have short paths.
    folder = Path(f"/tmp/fw-ray-{os.getpid()}")  # noqa: S108
    folder.mkdir()
    made = Nodes(folder)
    try:
        made.add()
        yield made
    finally:
        made.close()
        subprocess.run(["rm", "-rf", folder], check=False)


def words(nodes: Nodes, *more: str) -> list[str]:
    ray = ["--engine", "ray", "--address", nodes.address]
    return [sys.executable, "-m", "flashwright", "sweep", *more, *ray]


def sweep(nodes: Nodes, folder: Path, *more: str, code: int = 0) -> str:
    deadline = time.monotonic() + 60
    while True:
        done = subprocess.run(
            words(nodes, *more), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True,
            timeout=200, check=False,
        )  # fmt: skip
        # A head takes some seconds to come up.
        if "no Ray cluster answers" not in done.stderr or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert done.returncode == code, done.stderr or done.stdout
    return done.stdout + done.stderr


def local(folder: Path, *more: str) -> None:
    command = [sys.executable, "-m", "flashwright", "sweep", *more]
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, timeout=200)


def figures(folder: Path) -> list[dict[str, Any]]:
    """Give the rows of a dataset without what is of the machine, in order."""
    of_the_machine = ["seconds_taken", "peak_bytes"]
    found = pd.read_parquet(folder / "results").drop(columns=of_the_machine)
    return [
        json.loads(one) for one in sorted(map(json.dumps, found.astype(str).to_dict("records")))
    ]


def test_figures_are_the_same_to_the_bit_on_ray_and_on_one_machine(
    nodes: Nodes, tmp_path: Path
) -> None:
    write(
        tmp_path,
        job="count",
        fixed={"source": "synth:zipf(pages=4Ki)"},
        axes={"placement": ["none", "dac"], "over_provisioning": [0.2, 1 / 3]},
        replications=2,
        tables=["wear"],
    )
    sweep(nodes, tmp_path, "S.toml", "--out", "ray", "--store", "of-ray")
    local(tmp_path, "S.toml", "--out", "local", "--store", "of-local")
    assert len(figures(tmp_path / "ray")) == 8
    assert figures(tmp_path / "ray") == figures(tmp_path / "local")


def test_a_trace_is_played_on_a_node_as_it_is_here(nodes: Nodes, tmp_path: Path) -> None:
    write_trace(tmp_path / "my.parquet")
    fixed = {"source": "my.parquet", "requests": 500, "on": "intel-x25e"}
    axes = {"stack": ["direct", "scheduler"], "on.op": [0.2]}
    document: dict[str, Any] = {"job": "play", "goal": "iops", "better": "more", "fixed": fixed}
    (write(tmp_path, **document)).open("a").write(
        "\n[axes]\n" + "\n".join(f'"{name}" = {json.dumps(one)}' for name, one in axes.items())
    )
    sweep(nodes, tmp_path, "S.toml", "--out", "ray", "--store", str(tmp_path / "of-ray"))
    local(tmp_path, "S.toml", "--out", "local", "--store", "of-local")
    assert len(figures(tmp_path / "ray")) == 2
    assert figures(tmp_path / "ray") == figures(tmp_path / "local")


def test_a_job_that_fits_no_node_waits_and_says_so(nodes: Nodes, tmp_path: Path) -> None:
    write(tmp_path, job=KIND, memory="512Gi", axes={"x1": [1]})
    said = tmp_path / "said"
    with said.open("w") as error:
        driver = subprocess.Popen(
            words(nodes, "S.toml"), cwd=tmp_path, env=ENVIRONMENT, stderr=error
        )  # fmt: skip
    deadline = time.monotonic() + 60
    while "warning" not in said.read_text() and time.monotonic() < deadline:
        time.sleep(0.2)
    driver.kill()
    driver.wait()
    line = said.read_text()
    assert "no node of the cluster has a processor and 512 GiB of memory" in line


def test_inputs_come_to_nodes_by_their_content(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("x" * 1234)
    write(tmp_path, job=KIND, fixed={"file": "input.txt"}, axes={"x1": [1, 2, 3]})
    # Nodes have another working folder: by its name they would not find it.
    sweep(nodes, tmp_path, "S.toml", "--out", "out", "--store", str(tmp_path / "store"))
    assert [one["bytes"] for one in rows(tmp_path / "out")] == [1234] * 3


def test_a_store_that_nodes_do_not_see_is_written_by_the_driver(
    nodes: Nodes, tmp_path: Path
) -> None:
    write(tmp_path, job=KIND, tables=["parts"], axes={"x1": [1, 2, 3]})
    sweep(nodes, tmp_path, "S.toml", "--out", "out", "--store", "relative")
    assert len(rows(tmp_path / "out")) == 3
    assert len(pd.read_parquet(tmp_path / "out" / "tables" / "parts")) == 6


def test_a_worker_that_is_killed_costs_one_more_try(nodes: Nodes, tmp_path: Path) -> None:
    log, mark = tmp_path / "log", tmp_path / "mark"
    fixed = {"log": str(log)}
    write(tmp_path, job=KIND, fixed=fixed, axes={"x1": [1, 2], "kill_once": ["", str(mark)]})
    # Both jobs with the mark may meet it: it is made before the worker is killed.
    sweep(nodes, tmp_path, "S.toml", "--out", "out", "--store", str(tmp_path / "store"))
    assert {one["ended"] for one in rows(tmp_path / "out")} == {"done"}
    assert 5 <= len(log.read_text().splitlines()) <= 6


def test_limits_hold_on_ray(nodes: Nodes, tmp_path: Path) -> None:
    write(
        tmp_path, job=KIND, time=1, fixed={"x2": 0}, axes={"x1": [1, 2], "sleep": [0, 30]}
    )  # fmt: skip
    sweep(nodes, tmp_path, "S.toml", "--out", "out", "--store", str(tmp_path / "s"), code=1)
    ended = [(one["sleep"], one["ended"]) for one in rows(tmp_path / "out")]
    assert sorted(ended) == [(0, "done"), (0, "done"), (30, "time"), (30, "time")]


def test_nodes_may_go_and_come_and_the_driver_be_killed(nodes: Nodes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    write(tmp_path, job=KIND, fixed={"sleep": 0.15, "log": str(log)}, axes={"x1": list(range(90))})
    goner = nodes.add(cpus=2)
    store = tmp_path / "store"
    asked = words(nodes, "S.toml", "--out", "out", "--store", str(store))

    def wait(number: int) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and len(list(store.glob("??/*.json"))) < number:
            time.sleep(0.05)

    with subprocess.Popen(asked, cwd=tmp_path, env=ENVIRONMENT) as driver:
        wait(30)
        nodes.kill(goner)
        wait(45)
        nodes.add()
        wait(60)
        driver.kill()
        driver.wait()
    sweep(nodes, tmp_path, "S.toml", "--out", "out", "--store", str(store), "--resume")
    found = rows(tmp_path / "out")
    assert len(found) == len({one["task"] for one in found}) == 90
    assert {one["ended"] for one in found} == {"done"}
    done = log.read_text().splitlines()
    # What was on the lost node or under way with the driver is done twice, nothing else.
    assert 90 <= len(done) <= 90 + 20
    local(tmp_path, "S.toml", "--out", "local", "--store", "of-local")
    assert figures(tmp_path / "out") == figures(tmp_path / "local")


def test_a_sweep_that_is_handed_over_goes_on_by_itself(tmp_path: Path) -> None:
    require(importlib.util.find_spec("ray") is not None, "Ray is an extra: pip install ray")
    write(tmp_path, job="count", fixed={"source": "synth:zipf(pages=4Ki)"}, axes={"seed": [1, 2]})
    folder = Path(f"/tmp/fw-ray-{os.getpid()}-d")  # noqa: S108
    folder.mkdir()
    made = Nodes(folder, PORT + 200, dashboard=PORT + 201)
    address = f"http://127.0.0.1:{PORT + 201}"
    asked = [sys.executable, "-m", "flashwright", "sweep", "S.toml", "--engine", "ray", "--detach"]
    asked += ["--address", address, "--store", str(tmp_path / "s"), "--out", str(tmp_path / "out")]
    try:
        deadline = time.monotonic() + 60
        while True:
            done = subprocess.run(
                asked, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60,
                check=False,
            )  # fmt: skip
            if done.returncode == 0 or time.monotonic() > deadline:
                break
            assert "cannot hand it over" in done.stderr, done.stderr
            time.sleep(2)
        assert f"ray job logs --address {address} --follow raysubmit_" in done.stdout
        report = tmp_path / "out" / "report.html"
        while not report.exists() and time.monotonic() < deadline + 60:
            time.sleep(0.2)
        assert len(rows(tmp_path / "out")) == 2
    finally:
        made.close()
        subprocess.run(["rm", "-rf", folder], check=False)


def test_where_no_cluster_is_that_is_said(tmp_path: Path) -> None:
    require(importlib.util.find_spec("ray") is not None, "Ray is an extra: pip install ray")
    write(tmp_path, job=KIND, axes={"x1": [1]})
    asked = [sys.executable, "-m", "flashwright", "sweep", "S.toml", "--engine", "ray"]
    asked += ["--address", "127.0.0.1:1"]
    done = subprocess.run(
        asked, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no Ray cluster answers there" in done.stderr


def test_ray_is_not_imported_otherwise() -> None:
    code = (
        "import sys, pkgutil, importlib, flashwright\n"
        "for one in pkgutil.walk_packages(flashwright.__path__, 'flashwright.'):\n"
        "    if not one.name.endswith('__main__'): importlib.import_module(one.name)\n"
        "assert not {'ray', 'scipy', 'SALib', 'fsspec'} & set(sys.modules) - {'fsspec'}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
