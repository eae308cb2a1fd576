"""Measures what issue 44 asks of sweeps: `python tests/python/sweep_bars.py [FOLDER]`, minutes.

Bar 1: 2,000 jobs on three Ray nodes, of which one is killed at a third and one added at half, the
driver killed and resumed once: all results, none twice, those of the local engine to the bit. Bar
2: overhead a job against the bare loop, and the time of a second run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from flashwright._core import Progress
from flashwright.comparing import counting as count
from flashwright.sweeps import file
from flashwright.sweeps.plan import plan
from test_sweep import rows, write
from test_sweep_ray import ENVIRONMENT, Nodes, figures, words

JOBS = 2000
SWEEP: dict[str, Any] = {
    "job": "count",
    "fixed": {"source": "synth:zipf(s=0.99,pages=4Ki,updates=4x)"},
    "axes": {
        "placement": ["none", "dac"],
        "over_provisioning": {"low": 0.2, "high": 0.5, "levels": 50},
        "pages_per_erase_block": [16, 32],
    },
    "replications": 10,
}


def in_toml(folder: Path) -> None:
    """Write the sweep's file."""
    axes = {**SWEEP["axes"]}
    spare = axes.pop("over_provisioning")
    name = write(folder, **{**SWEEP, "axes": axes})
    inner = ", ".join(f"{key} = {value}" for key, value in spare.items())
    name.write_text(f"{name.read_text()}\n[axes.over_provisioning]\n{inner.replace(', ', chr(10))}")


def local(folder: Path, *more: str) -> float:
    """Run it on this machine, one job at a time; give the seconds."""
    command = [sys.executable, "-m", "flashwright", "sweep", "S.toml", "--jobs", "1", *more]
    return timed(command, folder)


def timed(command: list[str], folder: Path) -> float:
    """Run a command; give the seconds that it took."""
    began = time.monotonic()
    quiet = subprocess.DEVNULL
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, stdout=quiet)
    return time.monotonic() - began


def bare() -> float:
    """Do all jobs in a loop; give the seconds."""
    settings = [job.task.settings for job in plan(file.of(SWEEP)).jobs]
    assert len(settings) == JOBS
    count.do(settings[0], Progress())
    began = time.monotonic()
    for one in settings:
        count.do(one, Progress())
    return time.monotonic() - began


def faults(folder: Path, nodes: Nodes) -> dict[str, Any]:
    """Run it on nodes that are killed and added, with a driver that is killed."""
    store = folder / "store"
    goner = nodes.add()
    asked = words(nodes, "S.toml", "--out", "nodes", "--store", str(store))

    def wait(number: int) -> None:
        while len(list(store.glob("??/*.json"))) < number:
            time.sleep(0.1)

    with subprocess.Popen(asked, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as driver:
        wait(JOBS // 3)
        nodes.kill(goner)
        wait(JOBS // 2)
        nodes.add()
        wait(JOBS * 2 // 3)
        driver.kill()
        driver.wait()
    timed([*asked, "--resume"], folder)
    found = rows(folder / "nodes")
    return {
        "rows": len(found),
        "distinct": len({one["task"] for one in found}),
        "done": sum(one["ended"] == "done" for one in found),
        "same_to_the_bit": figures(folder / "nodes") == figures(folder / "alone"),
    }


def main(folder: Path) -> None:
    """Measure, and print each figure as it is known."""

    def say(**found: Any) -> None:
        sys.stdout.write(f"{json.dumps(found)}\n")
        sys.stdout.flush()

    in_toml(folder)
    loop = bare()
    say(bare_seconds=loop)
    took = local(folder, "--out", "alone", "--store", "of-local")
    say(local_seconds=took, local_ms_a_job=1000 * (took - loop) / JOBS)
    say(second_run_seconds=local(folder, "--out", "alone", "--store", "of-local"))
    with tempfile.TemporaryDirectory(prefix="fw-ray-", dir="/tmp") as own:
        nodes = Nodes(Path(own), 26479)
        try:
            time.sleep(15)
            asked = words(nodes, "S.toml", "--out", "one", "--store", str(folder / "of-one"))
            took = timed(asked, folder)
            say(ray_seconds=took, ray_ms_a_job=1000 * (took - loop) / JOBS)
            nodes.add()
            time.sleep(8)
            say(**faults(folder, nodes))
        finally:
            nodes.close()
    say(loop_again_seconds=bare())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
