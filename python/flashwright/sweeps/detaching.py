"""Hands a sweep to a Ray cluster, which goes on with it by itself."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from flashwright._core import InputError, RunError
from flashwright.sweeps.running import Sweep

_DASHBOARD = "http://127.0.0.1:8265"


def submit(sweep: Sweep, folder: Path) -> list[str]:
    """Hand a sweep over, to be done in a folder that the cluster's head sees; say how to follow it.

    Raises InputError if Ray's client of jobs is not installed, RunError if no cluster takes it.
    """
    try:
        from ray.job_submission import JobSubmissionClient  # noqa: PLC0415
    except ImportError:
        said = "--detach: Ray's client of jobs is not installed; right would be pip install"
        raise InputError(f"{said} 'flashwright[ray]'") from None
    address = sweep.how.where.address or _DASHBOARD
    if not address.startswith("http"):
        raise InputError(
            f"--address {address}: --detach takes that of the dashboard, such as {_DASHBOARD}"
        )
    command = shlex.join(_command(sweep))
    try:
        client = JobSubmissionClient(address)
        name = client.submit_job(entrypoint=f"cd {shlex.quote(str(folder))} && exec {command}")
    except (ConnectionError, RuntimeError) as error:
        lines = str(error).strip().splitlines() or ["no answer"]
        raise RunError(
            f"--address {address}: cannot hand it over: {lines[0]}; right would be `ray start "
            "--head`, with ray[default] installed"
        ) from error
    return [
        f"{name} is on its way. Follow it:",
        f"  ray job logs --address {address} --follow {name}",
        f"  ray job stop --address {address} {name}",
        f"Results: {sweep.folder}",
    ]


def _command(sweep: Sweep) -> list[str]:
    how, words = sweep.how, [sys.executable, "-m", "flashwright", "sweep", sweep.plan.file.name]
    # Whoever runs it is within the cluster, and knows its address.
    words += ["--engine", "ray", "--store", sweep.store.url, "--out", str(sweep.folder)]
    for name, value in (("--jobs", how.where.jobs), ("--within", how.within)):
        words += [] if value is None else [name, str(value)]
    return [*words, *["--resume"] * how.resume]
