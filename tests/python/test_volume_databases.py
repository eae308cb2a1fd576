"""A database on a mounted volume over an emulated drive: measured, and looked at afterwards."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from experiments.figures import volumes as figures
from flashwright._core import InputError, RunError
from flashwright.advice import trials
from flashwright.advice.trials import Drive, Trial
from flashwright.workloads import session
from flashwright.workloads.databases.cluster import Cluster, Postgres
from flashwright.workloads.supervisor import Supervisor
from servers import find_server

DRIVE = Drive("intel-x25e", 1 << 30, "fresh")
SMALL = "tpcc(scale=1,items=200,customers=20)"
LOG = "log_volume(segment=256Ki,over_provisioning=0.3,filled=yes)"


def load(database: str, clients: int, stack: str | None = None) -> Trial:
    written = f"{database}(buffer=32Mi,checkpoint=1)"
    return Trial(DRIVE, SMALL, written, stack=stack, clients=clients, seconds=2, warm_up=0)


@pytest.mark.usefixtures("can_mount")
def test_a_log_cleans_before_it_is_measured_and_all_is_whole(tmp_path: Path) -> None:
    said: list[str] = []
    found = trials.play(load("sqlite", 1, LOG), tmp_path, said.append)
    assert any("until its log cleans" in one for one in said)
    assert found.result.transactions > 0
    assert found.cleanings is not None
    between = found.between
    # A commit that writes is a flush of the database, and each goes through to the drive. Other
    # kinds of transactions only read, or may find nothing to deliver.
    commits = sum(found.result.kinds[name].committed for name in ("new_order", "payment"))
    assert between.grown("volume_requests_total", op="flush") >= commits > 0
    assert between.grown("volume_devices_total", op="flush") > 0
    assert between.flash_amplification() is not None
    assert found.checks == ("tpcc's conditions", "integrity_check", "volume info --check")
    assert list(tmp_path.iterdir()) == [], "nothing is left"


@pytest.mark.usefixtures("can_mount")
def test_postgres_is_looked_at_by_its_own_tools() -> None:
    # Not pytest's tmp_path: an unprivileged server cannot enter it.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o711)
        found = trials.play(load("postgres", 2), Path(folder))
    assert found.cleanings is None
    assert found.checks == (
        "tpcc's conditions",
        "pg_amcheck",
        "pg_checksums",
        "volume info --check",
    )


@pytest.mark.usefixtures("can_mount")
def test_a_page_that_is_spoilt_is_found(tmp_path: Path) -> None:
    def spoil(what: str) -> None:
        if what != "checking the database":
            return
        [path] = tmp_path.glob("*/mount/db/database.sqlite")
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 8192 * 4096)
            file.write(b"\xff" * 4096)

    with pytest.raises(RunError, match=r"integrity_check|not consistent|malformed"):
        trials.play(load("sqlite", 1), tmp_path, spoil)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("can_mount")
def test_a_stack_that_fails_is_a_row_that_says_so(tmp_path: Path) -> None:
    good, bad = "direct", "stable_buffer(size=8Gi)"
    cells = tuple(figures.Cell(DRIVE, stack, stack) for stack in (good, bad))
    part = figures.OnDrive("part", "", "title", DRIVE, cells)
    work = figures._Work(load("sqlite", 1), tmp_path, cells)
    work.play()
    page = "\n".join(figures._part(part, work))
    assert "1 of 2" in page
    assert "failed: " in page


def test_a_load_that_cannot_be_is_told_before_anything_is_made() -> None:
    many = replace(load("sqlite", 11), workload="tpcc(scale=1)")
    with pytest.raises(InputError, match="it must be 1 to 10"):
        many.check()
    with pytest.raises(InputError, match="no parameter `shops`"):
        replace(many, workload="tpcc(shops=1)").check()


def test_what_ended_the_server_is_in_the_line(tmp_path: Path) -> None:
    find_server()
    with Supervisor() as supervisor:
        # Not pytest's tmp_path: an unprivileged server cannot enter it.
        folder = supervisor.folder(Path("/tmp"), "ended-")  # noqa: S108
        place = Cluster(folder, folder / "run", Postgres(), supervisor)
        place.make()
        place.open_for_load()
        client = psycopg.connect(place.server.conninfo)
        os.kill(client.info.backend_pid, signal.SIGKILL)
        # The server writes to its log when it hears of it. A client may have come too early before.
        end = time.monotonic() + 30
        while "signal 9" not in (place.complaint() or "") and time.monotonic() < end:
            time.sleep(0.01)
        with (
            pytest.raises(RunError, match=r"^the database: .*; its log says: .*signal 9: Killed$"),
            session.database_errors(place),
        ):
            client.execute("select 1")
        # One that is told to stop while it recovers does so after a minute.
        while place.server.log.read_text().count("ready to accept connections") < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
        place.close()
