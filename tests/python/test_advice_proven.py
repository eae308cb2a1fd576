"""Trials of advice on real databases over emulated drives, and what they leave behind."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flashwright._core import Cancelled, InputError, RunError
from flashwright.advice import trial_volumes, trials
from flashwright.advice.own_commands import OwnCommand
from flashwright.advice.proving import Bench, Change, Proving
from flashwright.advice.trials import Drive, Trial
from flashwright.engine.where import Where
from flashwright.runs import Run
from flashwright.volumes import places
from flashwright.workloads import registry
from flashwright.workloads.databases.base import Backend, Row, Statement
from flashwright.workloads.databases.server import run_as, server_account
from flashwright.workloads.databases.sqlite import SqliteConfig
from processes import until
from recordings import require
from servers import find_server
from test_sweep_ray import ENVIRONMENT, Nodes

DRIVE = Drive("micron-7450-pro", 1 << 30)
SQLITE = Trial(
    DRIVE, "tpcb(scale=1)", "sqlite(buffer=1Mi)", clients=1, seconds=2, warm_up=0, seed=3
)
POSTGRES = replace(SQLITE, database="postgres(buffer=8Mi)", clients=2)
SMALL = {
    "tpcb": "tpcb(scale=1)",
    "tpcc": "tpcc(scale=1,items=200,customers=20)",
    "tatp": "tatp(scale=100)",
    "ycsb": "ycsb(scale=100)",
}


def left_in(folder: Path) -> list[str]:
    """Give what is left: files, mounts, loop devices."""
    table = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    loops = subprocess.run(["losetup", "--list"], capture_output=True, text=True, check=True)
    found = [line for line in (*table, *loops.stdout.splitlines()) if str(folder) in line]
    served = [one.device for one in places.all_served() if str(folder) in one.device]
    return [*found, *served, *(str(path) for path in folder.iterdir())]


@pytest.mark.usefixtures("can_mount")
def test_a_trial_of_sqlite_is_measured_and_leaves_nothing(folder: Path) -> None:
    found = trials.run(SQLITE, folder)
    assert found.transactions == found.commits > 0
    assert found.seconds > 0
    assert found.p50_seconds is not None
    assert found.p99_seconds is not None
    assert 0 < found.p50_seconds <= found.p99_seconds
    # Without layers the drive is written what the file system wrote; flash programs whole pages.
    assert found.host_bytes == found.asked_bytes > found.transactions * 4096
    assert found.flash_bytes > 0.5 * found.host_bytes
    # A commit is a flush.
    assert found.drive.flushes >= found.transactions
    assert found.is_whole
    assert found.checks == ("tpcb's conditions", "integrity_check", "volume info --check")
    assert left_in(folder) == []


@pytest.mark.usefixtures("can_mount")
def test_a_log_of_postgres_goes_to_its_own_drive(folder: Path) -> None:
    find_server()
    found = trials.run(replace(POSTGRES, log_drive=DRIVE), folder)
    assert found.log_drive is not None
    assert found.log_drive.flushes >= found.transactions / 4
    assert found.log_drive.host_bytes > found.drive.host_bytes
    assert found.host_bytes == found.log_drive.host_bytes + found.drive.host_bytes
    assert found.flash_bytes == found.log_drive.flash_bytes + found.drive.flash_bytes
    assert {"pg_amcheck", "pg_checksums"} <= set(found.checks)
    assert left_in(folder) == []


@pytest.mark.usefixtures("can_mount")
def test_settings_of_a_database_are_in_force(folder: Path) -> None:
    find_server()
    # Without waiting for the drive hardly a commit is a flush.
    found = trials.run(replace(POSTGRES, settings={"synchronous_commit": "off"}), folder)
    assert found.drive.flushes < found.transactions / 2
    pages: list[int] = []

    def look(what: str) -> None:
        if what == "checking the database":
            [path] = folder.glob("*/mount/db/database.sqlite")
            with contextlib.closing(sqlite3.connect(path)) as base:
                pages.append(base.execute("pragma page_size").fetchone()[0])

    given = {"page_size": "16384", "synchronous": "normal"}
    found = trials.run(replace(SQLITE, settings=given), folder, look)
    assert pages == [16384]
    assert found.drive.flushes < found.transactions / 2
    with pytest.raises(RunError, match='unrecognized configuration parameter "full_pages"'):
        trials.run(replace(POSTGRES, settings={"full_pages": "off"}), folder)
    assert left_in(folder) == []


@pytest.mark.usefixtures("can_mount")
def test_a_drive_with_more_spare_and_one_that_is_trimmed(folder: Path) -> None:
    spared = replace(DRIVE, overrides=("ftl.over_provisioning=0.7",))
    assert trials.run(replace(SQLITE, drive=spared), folder).flash_bytes > 0
    plain = trials.play(SQLITE, folder)
    trimmed = trials.play(replace(SQLITE, is_trimmed=True, mount_options="noatime,discard"), folder)
    before = [one.between.before for one in (plain, trimmed)]
    told = [one.number("volume_device_bytes_total", op="trim") for one in before if one is not None]
    assert told[0] == 0
    assert told[1] > DRIVE.size_bytes / 2


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        (replace(SQLITE, log_drive=DRIVE), "only that of postgres can be on a drive of its own"),
        (replace(SQLITE, settings={"page_sise": "4096"}), "SQLite has no such pragma"),
        (replace(SQLITE, settings={"page_size": "4095"}), "page_size: `4095` is not a power of"),
        (replace(SQLITE, workload="tpcx"), "unknown workload `tpcx`"),
        (replace(SQLITE, database="oracle"), "unknown database `oracle`"),
        (replace(SQLITE, clients=0), "clients is 0: it must be 1 or more"),
        (replace(SQLITE, drive=replace(DRIVE, state="old")), "old: a drive is one of fresh,"),
        (replace(SQLITE, drive=replace(DRIVE, profile="floppy")), "floppy"),
        (replace(SQLITE, drive=replace(DRIVE, size_bytes=1 << 20)), "erase_blocks_per_plane = 1"),
        (replace(SQLITE, drive=replace(DRIVE, overrides=("ftl.spare=1",))), "ftl.spare"),
        (
            replace(SQLITE, workload=OwnCommand(("true",), "/nowhere")),
            "/nowhere: No such file or directory; right would be data to copy",
        ),
        (replace(SQLITE, workload=OwnCommand(("no-such",), "/etc/fstab")), "no such program"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_made(
    trial: Trial, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        trials.run(trial, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("can_mount")
def test_a_database_that_fails_leaves_nothing_mounted(folder: Path) -> None:
    # It is filled over the file of bytes, and there is no room for it.
    small = Drive("intel-x25e", 64 << 20)
    with pytest.raises(RunError, match=r"full|No space left"):
        trials.run(replace(SQLITE, drive=small, workload="tpcb(scale=8)"), folder)
    assert left_in(folder) == []
    find_server()

    def kill(what: str) -> None:
        if not what.startswith("running"):
            return
        [pid] = folder.glob("*/mount/db/data/postmaster.pid")
        os.kill(int(pid.read_text().splitlines()[0]), signal.SIGKILL)

    with pytest.raises(RunError):
        trials.run(POSTGRES, folder, kill)
    assert left_in(folder) == []


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("when", ["loading", "running"])
def test_a_trial_that_is_stopped_cleans_up(when: str, folder: Path) -> None:
    stop = threading.Event()

    def say(what: str) -> None:
        if what.startswith(when):
            threading.Timer(0.3 if when == "running" else 0, stop.set).start()

    long = replace(SQLITE, seconds=600, workload="tpcb(scale=4)")
    with pytest.raises(Cancelled):
        trials.run(long, folder, say, stop)
    assert left_in(folder) == []


_KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
from test_advice_proven import SQLITE, trials
def say(what):
    print(what, flush=True)
trials.run(replace(SQLITE, seconds=600), Path(sys.argv[1]), say)
"""


@pytest.mark.usefixtures("can_mount")
def test_a_trial_that_is_killed_leaves_nothing(folder: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("running"):
                break
        time.sleep(0.3)
        process.kill()
    assert until(lambda: left_in(folder) == [], 120)


@pytest.mark.usefixtures("can_mount")
def test_a_volume_that_somebody_holds_is_taken_away_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_volumes, "_HELD_SECONDS", 1.0)
    with contextlib.ExitStack() as held:

        def hold(what: str) -> None:
            if what == "closing the volume":
                [path] = folder.glob("*/mount/db/database.sqlite")
                held.enter_context(path.open("rb"))

        with pytest.raises(RunError, match="it is in use: process"):
            trials.run(SQLITE, folder, hold)
        assert [one for one in left_in(folder) if " ext4 " in one] == []
    assert until(lambda: left_in(folder) == [])


@pytest.mark.usefixtures("can_mount")
def test_a_volume_that_somebody_holds_for_a_while_is_waited_for(folder: Path) -> None:
    def hold(what: str) -> None:
        if what == "closing the volume":
            [path] = folder.glob("*/mount/db/database.sqlite")
            threading.Timer(2, path.open("rb").close).start()

    assert trials.run(SQLITE, folder, hold).is_whole
    assert left_in(folder) == []


@pytest.mark.usefixtures("can_mount")
def test_a_trial_that_is_recorded_gives_a_recording_of_its_drive(folder: Path) -> None:
    recording = folder / "recording"
    found = trials.run(SQLITE, folder, record_to=recording)
    about = Run.read_result(recording).result
    assert about["recording"]["device"]["name"].startswith("loop")
    requests = pq.read_table(recording / "requests.parquet", columns=["op", "length"])
    ops = requests["op"].cast("string").to_pylist()
    lengths = requests["length"].to_pylist()
    written = sum(length for op, length in zip(ops, lengths, strict=True) if op == "write")
    # What was written just when the measurement began or ended is in one of both.
    assert written == pytest.approx(found.host_bytes, rel=0.3)
    assert ops.count("flush") == pytest.approx(found.drive.flushes, rel=0.3)
    marks = pq.read_table(recording / "marks.parquet", columns=["kind"])["kind"].to_pylist()
    assert marks.count("transaction") == found.transactions
    assert (recording / "calls.parquet").exists()
    # SQLite is within its clients.
    assert about["processors"]["server_seconds"] is None
    assert about["processors"]["clients_seconds"] > 0
    with pytest.raises(InputError, match="holds a recording"):
        trials.run(SQLITE, folder, record_to=recording)
    with pytest.raises(InputError, match="one device is recorded"):
        trials.run(replace(POSTGRES, log_drive=DRIVE), folder, record_to=folder / "other")
    shutil.rmtree(recording)
    assert left_in(folder) == []


@pytest.mark.usefixtures("can_mount")
def test_changes_are_proven_beside_the_baseline(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench("tpcb(scale=1)", "sqlite", seconds=2, warm_up=0)
    normal = {"synchronous": "normal"}
    changes = [
        Change("normal", lambda trial: replace(trial, settings=normal)),
        Change("full", lambda trial: replace(trial, stack="stable_buffer(size=8Gi)")),
    ]
    where = Where(store=str(folder / "kept"))
    base = bench.trial("intel-x25e", "filled")
    proof = Proving(base, changes, 1, folder, where).run()
    ratios = proof.ratios(proof.changes[0])
    assert set(ratios) == {"flash_bytes", "throughput", "p99"}
    assert ratios["throughput"].low is None
    [base_run], [changed_run] = proof.baseline.runs, proof.changes[0].runs
    # Commits do not wait for the drive.
    assert base_run.drive.flushes >= base_run.transactions
    assert changed_run.drive.flushes < changed_run.transactions / 2
    assert proof.changes[1].refused is not None

    def never(*_: object) -> Any:
        raise AssertionError("it is kept")

    monkeypatch.setattr(trials, "run", never)
    again = Proving(base, changes[:1], 1, folder, where).run()
    assert again.ratios(again.changes[0]) == ratios
    shutil.rmtree(folder / "kept")
    assert left_in(folder) == []


DRIVER = """
import json, sys, time
from dataclasses import replace
from pathlib import Path

from flashwright._core import RunError
from flashwright.advice.proving import Bench, Change, Proving
from flashwright.engine.where import Where

address, folder = sys.argv[1:]
where = Where("ray", address, store=f"{folder}/kept")
said, deadline = "", time.monotonic() + 60
while not said.startswith("5 ") and time.monotonic() < deadline:
    try:
        pool = where.measuring()
    except RunError:
        # A head takes some seconds to come up, and a node some more.
        time.sleep(1)
        continue
    room, said = pool.room(), pool.said()
    pool.close()
normal = Change("normal", lambda trial: replace(trial, settings={"synchronous": "normal"}))
base = Bench("tpcb(scale=1)", "sqlite", seconds=2, warm_up=0).trial("intel-x25e", "filled")
proof = Proving(base, [normal], 1, Path(folder), where).run()
print(json.dumps({"room": room, "said": said, "proof": proof.document()}))
"""


@pytest.mark.usefixtures("can_mount")
def test_trials_run_on_a_cluster_one_a_node(folder: Path) -> None:
    require(importlib.util.find_spec("ray") is not None, "Ray is an extra: pip install ray")
    # Sockets have short paths.
    place = Path(f"/tmp/fw-ray-t-{os.getpid()}")  # noqa: S108
    place.mkdir()
    nodes = Nodes(place, port=28379)
    try:
        nodes.add(cpus=4)
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, nodes.address, str(folder)],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
    finally:
        nodes.close()
        shutil.rmtree(place, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    # All four processors of the larger node are one place, and one more waits.
    assert (found["room"], found["said"]) == (2, "5 processors on 2 Ray nodes")
    [change] = found["proof"]["changes"].values()
    assert set(change["ratios"]) == {"flash_bytes", "throughput", "p99"}
    shutil.rmtree(folder / "kept")
    assert left_in(folder) == []


UPDATES = """
import os, sqlite3
base = sqlite3.connect(os.environ["FLASHWRIGHT_DATA"], isolation_level=None)
for number in range(50):
    base.execute("update t set b = ? where a = ?", ("y" * 100, number))
"""


@pytest.mark.usefixtures("can_mount")
def test_an_own_command_works_on_a_copy_of_a_file_of_sqlite(folder: Path) -> None:
    data = folder / "own.sqlite"
    with contextlib.closing(sqlite3.connect(data)) as base, base:
        base.execute("create table t (a integer primary key, b text)")
        base.executemany("insert into t values (?, ?)", [(n, "x" * 100) for n in range(1000)])
    before = data.read_bytes()
    own = replace(SQLITE, workload=OwnCommand((sys.executable, "-c", UPDATES), str(data)))
    found = trials.run(own, folder)
    assert (found.transactions, found.commits, found.p99_seconds) == (1, 0, None)
    assert found.drive.flushes >= 50
    assert found.checks == ("integrity_check", "volume info --check")
    # With a log a commit is one flush, where a journal takes three and more.
    logged = trials.run(replace(own, settings={"journal_mode": "wal"}), folder)
    assert logged.drive.flushes < 0.7 * found.drive.flushes
    assert data.read_bytes() == before
    with pytest.raises(InputError, match="a file of SQLite does not keep it"):
        trials.run(replace(own, settings={"synchronous": "off"}), folder)
    with pytest.raises(RunError, match="false: exit 1"):
        trials.run(replace(own, workload=OwnCommand(("false",), str(data))), folder)
    data.unlink()
    assert left_in(folder) == []


@pytest.mark.usefixtures("can_mount")
def test_an_own_command_works_on_a_copy_of_a_cluster(folder: Path) -> None:
    binaries, account = find_server(), server_account()
    data = folder / "cluster"
    data.mkdir(mode=0o700)
    if account is not None:
        os.chown(data, account.uid, account.gid)
    run_as(account, binaries / "initdb", "-D", data, "-U", "joe", "--auth=reject")
    words = (
        f"{binaries}/psql -qc 'create table t (a int)' && for n in 1 2 3 4 5 6 7 8 9 10; do "
        f'{binaries}/psql -qc "insert into t values ($n)" || exit 1; done'
    )
    own = replace(POSTGRES, workload=OwnCommand(("sh", "-c", words), str(data)), log_drive=DRIVE)
    found = trials.run(own, folder)
    assert found.transactions >= 11
    assert found.log_drive is not None
    assert found.log_drive.flushes >= 10
    assert "pg_amcheck" in found.checks
    (data / "postmaster.pid").touch()
    with pytest.raises(InputError, match="a server runs on it"):
        trials.run(own, folder)
    shutil.rmtree(data)
    assert left_in(folder) == []


class _Counting:
    """A backend that tells whether it was written to."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    @property
    def written(self) -> int:
        return int(self.backend._connection.total_changes)

    def batch(
        self, statements: Sequence[Statement], *, commit: bool = False, read_only: bool = False
    ) -> list[list[Row]]:
        rows: list[list[Row]] = self.backend.batch(statements, commit=commit, read_only=read_only)
        return rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)


@pytest.mark.parametrize("name", registry.WORKLOADS)
def test_readers_of_a_workload_are_those_that_never_write(name: str, tmp_path: Path) -> None:
    writers: set[str] = set()
    seen: set[str] = set()
    workload = registry.WORKLOADS[name]
    text = SMALL[name]
    for mix in workload.mixes:
        mixed = f"{text[:-1]},mix={mix})"
        _, _, load = registry.find(mixed)
        config = SqliteConfig(str(tmp_path / f"{mix}.sqlite"), "memory", "off")
        load.fill(config, 1, 1, lambda _done, _total: None)
        counting: Any = _Counting(config.connect())
        backend: Backend = counting
        client = load.client(seed=1, stream=0, client=0, clients=1)
        for _ in range(300):
            kind, request = client.draw()
            before = counting.written
            client.execute(backend, request)
            seen.add(str(kind))
            if counting.written > before:
                writers.add(str(kind))
        backend.close()
    assert workload.readers <= seen
    assert seen - workload.readers == writers
