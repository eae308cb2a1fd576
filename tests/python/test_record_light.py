"""`flashwright record --light`: counters in place of a trace, as root and as anybody."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flashwright.recording import file_systems, page_cache
from flashwright.recording.device import BlockDevice
from flashwright.recording.light import Group, Light
from flashwright.recording.own_counts import between
from flashwright.recording.process_io import Processes, Written
from flashwright.recording.running import Running
from flashwright.recording.volume import Volume
from flashwright.reports.light import headline
from flashwright.workloads.databases.server import Server, server_account
from flashwright.workloads.supervisor import Supervisor
from recordings import require
from servers import find_server
from support import Cli, find_program

MIB = 1 << 20
NOBODY = 65534
PAGES = 50
CHILDREN = """
import os, sys, time
path, count, pages, code = sys.argv[1], *map(int, sys.argv[2:])
def write(name):
    file = os.open(f"{path}/{name}", os.O_WRONLY | os.O_CREAT, 0o600)
    for number in range(pages):
        os.pwrite(file, os.urandom(4096), number * 4096)
    os.fsync(file)
for number in range(count):
    child = os.fork()
    if child == 0:
        if number % 2:
            # An orphan: its parent is gone before it writes.
            parent = os.getpid()
            if os.fork() != 0:
                os._exit(0)
            while os.getppid() == parent:
                time.sleep(0.001)
        write(f"child{number}")
        os.close(os.open(f"{path}/done{number}", os.O_CREAT))
        os._exit(0)
    os.waitpid(child, 0)
for number in range(count):
    while not os.path.exists(f"{path}/done{number}"):
        time.sleep(0.001)
write("own")
sys.exit(code)
"""
APP = """
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
c.execute("PRAGMA journal_mode=WAL")
c.execute("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v TEXT)")
for n in range(200):
    c.execute("INSERT INTO t (v) VALUES (?)", ("x" * 3000,))
    c.commit()
"""
OTHER = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)
page = mmap.mmap(-1, 1 << 20)
for number in range(int(sys.argv[2])):
    os.pwrite(file, page, number << 20)
os.fsync(file)
"""


def as_user(uid: int) -> list[str]:
    """Give what runs a program as a user, who may read the programs wherever we have them."""
    require(os.geteuid() == 0, "to be another user needs root")
    setpriv = find_program("setpriv")
    gid = pwd.getpwuid(uid).pw_gid
    plain = [setpriv, f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    again = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
    tried = subprocess.run([*plain, sys.executable, "-c", again], check=False, capture_output=True)
    if tried.returncode == 0:
        return plain
    return [*plain, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


def flashwright(
    uid: int, folder: Path, *arguments: str | Path, code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*as_user(uid), sys.executable, "-m", "flashwright", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr or done.stdout
    return done


def result_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "result.json").read_text()))


@pytest.fixture
def volume() -> Iterator[Volume]:
    require(os.geteuid() == 0, "a volume of its own needs root")
    with Supervisor() as supervisor:
        made = Volume(supervisor, file_systems.find("ext4"))
        made.on_image(Path("/var/tmp"), 256 * MIB)  # noqa: S108
        yield made


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a folder of nobody's, which other users can reach."""
    require(os.geteuid() == 0, "to be another user needs root")
    with Supervisor() as supervisor:
        folder = supervisor.folder(Path("/var/tmp"), "light-", 0o755)  # noqa: S108
        os.chown(folder, NOBODY, NOBODY)
        yield folder


def test_children_that_come_and_go_are_counted(volume: Volume, cli: Cli, tmp_path: Path) -> None:
    """Also orphans, and whatever lives for less than the time between two looks."""
    script = tmp_path / "children.py"
    script.write_text(CHILDREN)
    data = volume.mount_point / "data"
    data.mkdir()
    command = [sys.executable, "-I", "-S", script, data, "20", str(PAGES), "7"]
    done = cli("record", "--database", "files", data, "--light", "--out", "rec", "--", *command,
               code=7)  # fmt: skip
    assert "exit code 7" in done.stderr
    result = result_of(tmp_path / "rec")
    database = result["counters"]["database"]
    assert database["write_call_bytes"] == 21 * PAGES * 4096
    assert database["write_calls"] == 21 * PAGES
    assert database["is_whole"] is True
    assert result["counters"]["device"]["write_bytes"] >= 21 * PAGES * 4096
    assert result["counters"]["device"]["names"] == [volume.device.name]
    samples = pl.read_parquet(tmp_path / "rec" / "samples.parquet")
    assert samples["device_write_bytes"].is_sorted()
    assert samples["database_call_bytes"][-1] == 21 * PAGES * 4096
    report = (tmp_path / "rec" / "report.html").read_bytes()
    cli("report", "rec")
    assert (tmp_path / "rec" / "report.html").read_bytes() == report


def test_what_others_write_is_never_put_on_the_database(
    volume: Volume, cli: Cli, tmp_path: Path
) -> None:
    """A neighbour of many times its volume on the same file system."""
    point = volume.mount_point
    # The neighbour is no process of the database's: it is started beside.
    neighbour = [sys.executable, "-c", OTHER, str(point / "other"), "96"]
    app = tmp_path / "app.sh"
    ready = tmp_path / "ready"
    app.write_text(
        f"touch {ready}\n{sys.executable} -I -S -c '{APP}' {point}/new.db\n"
        f"while [ ! -e {tmp_path}/over ]; do sleep 0.05; done\n"
    )
    beside = f'while [ ! -e {ready} ]; do sleep 0.05; done; "$@"; touch {tmp_path}/over'
    with subprocess.Popen(["sh", "-c", beside, "sh", *neighbour]) as other:
        cli("record", "--database", "sqlite", point / "new.db", "--light", "--out", "rec", "--",
            "sh", app)  # fmt: skip
        assert other.wait(60) == 0
    counters = result_of(tmp_path / "rec")["counters"]
    got, data = counters["device"]["write_bytes"], counters["database_data_at_device"]
    assert got >= 96 * MIB
    assert counters["database"]["write_call_bytes"] < 4 * MIB
    assert 0 <= data["from_bytes"] <= data["to_bytes"]
    assert got - data["to_bytes"] >= 96 * MIB
    assert data["to_bytes"] >= 200 * 4096


def test_nobody_counts_his_own_database(place: Path) -> None:
    # A shell, as whoever reads our programs by a capability does not find them by access(2).
    app = ["sh", "-c", f"exec {sys.executable} -I -S -c '{APP}' new.db"]
    done = flashwright(NOBODY, place, "record", "--database", "sqlite", "new.db", "--light",
                       "--out", "rec", "--", *app)  # fmt: skip
    counters = result_of(place / "rec")["counters"]
    assert counters["database"]["write_call_bytes"] > 200 * 4096
    assert counters["database"]["is_whole"] is True
    assert counters["device"]["write_bytes"] > 0
    assert "The database wrote" in done.stdout
    following = re.search(r"Next:   (.*)", done.stdout)
    assert following is None or following[1].startswith("sudo ")
    assert (place / "rec").stat().st_uid == NOBODY


def test_a_database_that_is_open_already(place: Path) -> None:
    holder = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1]); c.execute('CREATE TABLE t (v)'); c.commit()\n"
        "print('open', flush=True)\n"
        "while True:\n"
        "    c.execute('INSERT INTO t VALUES (1)'); c.commit()\n"
    )
    with subprocess.Popen([*as_user(NOBODY), sys.executable, "-c", holder, place / "app.db"],
                          stdout=subprocess.PIPE) as other:  # fmt: skip
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"open\n"
            flashwright(NOBODY, place, "record", "--database", "sqlite", "app.db", "--light",
                        "--out", "rec", "--for", "1s")  # fmt: skip
        finally:
            other.kill()
    counters = result_of(place / "rec")["counters"]
    assert counters["database"]["processes"] == 1
    assert counters["database"]["is_whole"] is True
    assert counters["database"]["write_calls"] > 0


def test_nobody_has_it_open(place: Path) -> None:
    (place / "app.db").touch()
    done = flashwright(0, place.parent, "record", "--database", "sqlite", place / "app.db",
                       "--light", "--for", "0.3s", "--json", "-")  # fmt: skip
    result = json.loads(done.stdout)
    assert result["counters"]["database"]["processes"] == 0
    assert result["counters"]["database"]["is_whole"] is False
    assert headline(result).startswith("No process was seen with the database open")
    data = result["counters"]["database_data_at_device"]
    assert data == {"from_bytes": 0, "to_bytes": result["counters"]["device"]["write_bytes"]}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Give a server of another user's, with a role for everybody."""
    require(os.geteuid() == 0, "a server of another user's needs root")
    binaries = find_server()
    with Supervisor() as supervisor:
        folder = supervisor.folder(Path("/var/tmp"), "lit-", 0o755)  # noqa: S108
        made = Server(binaries, folder / "data", folder / "run", supervisor, server_account())
        made.initialise()
        made.start({"shared_buffers": "1MB"})
        made.query("CREATE TABLE t (k int, v text)")
        yield made
        made.stop()


WRITING = "INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(1, 2000) n"
DRIVER = """
import json, sys
from pathlib import Path
from flashwright.recording.light import Light
from flashwright.recording.running import Running
light = Light(Running.find("postgres", Path(sys.argv[1])))
light.begin()
print("begun", flush=True)
sys.stdin.readline()
print(json.dumps(light.end()))
light.close()
"""


def counted(server: Server, uid: int, **environment: str) -> dict[str, Any]:
    """Count a server, as a user, while clients come for one statement and go."""
    command = [*as_user(uid), sys.executable, "-c", DRIVER, str(server.data)]
    variables = {**os.environ, "PGUSER": "flashwright", **environment}
    with subprocess.Popen(
        command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        for _ in range(20):
            server.query(WRITING)
        server.query("CHECKPOINT")
        out, _ = process.communicate("\n", timeout=60)
    return dict(json.loads(out))


@pytest.mark.parametrize("user", ["root", "postgres"])
def test_a_server_whose_backends_come_and_go(server: Server, user: str) -> None:
    uid = 0 if user == "root" else server.data.stat().st_uid
    found = counted(server, uid)
    database, own = found["counters"]["database"], found["counters"]["own_counts"]
    assert database["is_whole"] is True
    assert database["writes_otherwise"] is None
    # 20 times a MiB of rows: in the log by the backends, in pages by them or the checkpointer.
    assert own["wal_bytes"] > 20 * MIB
    assert own["wal_flushed_bytes"] > 20 * MIB
    assert own["page_bytes"] > 20 * MIB
    assert database["write_call_bytes"] > own["wal_bytes"] + own["page_bytes"] - MIB
    data = found["counters"]["database_data_at_device"]
    assert own["wal_flushed_bytes"] <= data["from_bytes"] <= data["to_bytes"]
    assert data["to_bytes"] <= found["counters"]["device"]["write_bytes"]


def test_a_server_of_another_users_is_asked_and_no_more(server: Server) -> None:
    port = (server.data / "postmaster.pid").read_text().splitlines()[3]
    found = counted(server, NOBODY, PGHOST=str(server.data.parent / "run"), PGPORT=port)
    assert found["counters"]["database"] is None
    assert found["counters"]["own_counts"]["wal_bytes"] > 20 * MIB
    assert any("/proc/PID/io is open to their own user" in one for one in found["not_known"])
    data = found["counters"]["database_data_at_device"]
    assert data["to_bytes"] == found["counters"]["device"]["write_bytes"]
    said = headline(found)
    assert said.startswith("The database wrote")
    assert "or more by its own count" in said


def test_another_server_is_not_taken_for_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who answers at PGHOST may be any server."""
    monkeypatch.setenv("PGUSER", "flashwright")
    running = Running("postgres", server.data, (os.getpid(),))
    light = Light(running)
    try:
        light.begin()
        found = light.end()
    finally:
        light.close()
    assert found["counters"]["own_counts"] is None
    assert any("is not the one of" in one for one in found["not_known"])


VERSION_15 = {
    "server": {"version": 150018, "block_bytes": 8192, "fsync": True, "flushed": 100,
               "temp_bytes": None},
    "pg_stat_wal": {"wal_bytes": 50, "wal_sync": 1, "wal_fpi": 0, "wal_write": 3},
    "pg_stat_bgwriter": {"buffers_checkpoint": 1, "buffers_clean": 1, "buffers_backend": 1},
}  # fmt: skip


def later(before: dict[str, Any], **changes: dict[str, Any]) -> dict[str, Any]:
    return {**before, **{view: {**before[view], **new} for view, new in changes.items()}}


def test_counts_of_a_server_before_pg_stat_io() -> None:
    after = later(VERSION_15, pg_stat_wal={"wal_bytes": 1050, "wal_sync": 4},
                  pg_stat_bgwriter={"buffers_checkpoint": 11, "buffers_backend": 3},
                  server={"flushed": 900, "temp_bytes": 70})  # fmt: skip
    found = between(VERSION_15, after)
    assert (found["wal_bytes"], found["wal_flushed_bytes"], found["wal_syncs"]) == (1000, 800, 3)
    assert found["page_bytes"] == 12 * 8192
    assert found["temporary_bytes"] == 70
    off = later(after, server={"fsync": False})
    assert between(VERSION_15, off)["wal_flushed_bytes"] is None
    with pytest.raises(ValueError, match="were reset"):
        between(after, VERSION_15)


def io(of: str, **counts: int | None) -> dict[str, Any]:
    return {"object": of, "backend_type": "any", "context": "normal", **counts}


@pytest.mark.parametrize(
    ("rows", "pages", "log"),
    [
        ([io("relation", writes=5, extends=2, op_bytes=8192),
          io("temp relation", writes=1, extends=None, op_bytes=8192)], 8 * 8192, 1000),
        ([io("relation", write_bytes=9000, extend_bytes=100),
          io("wal", write_bytes=16384, extend_bytes=None, fsyncs=6)], 9100, 16384),
    ],
    ids=["16", "18"],
)  # fmt: skip
def test_counts_of_a_server_with_pg_stat_io(
    rows: list[dict[str, Any]], pages: int, log: int
) -> None:
    empty = [{name: 0 if isinstance(value, int) and name != "op_bytes" else value
              for name, value in row.items()} for row in rows]  # fmt: skip
    before = {**VERSION_15, "pg_stat_io": empty, "pg_stat_bgwriter": {"buffers_clean": 0}}
    after = later({**before, "pg_stat_io": rows}, pg_stat_wal={"wal_bytes": 1050})
    found = between(before, after)
    assert (found["page_bytes"], found["wal_bytes"]) == (pages, log)
    assert found["pages_from"] == "pg_stat_io"


def test_a_process_that_writes_through_a_memory_map(tmp_path: Path) -> None:
    """It has no write calls: then only pages that were made dirty bound what it wrote."""
    program = (
        "import mmap, sys\n"
        "file = open(sys.argv[1], 'r+b'); page = mmap.mmap(file.fileno(), 1 << 20)\n"
        "print('mapped', flush=True); sys.stdin.readline(); page[:] = b'x' * (1 << 20)\n"
        "print('written', flush=True); sys.stdin.readline()\n"
    )
    path = tmp_path / "store"
    path.write_bytes(bytes(MIB))
    with path.open("rb") as file:
        os.fsync(file)
    with subprocess.Popen([sys.executable, "-c", program, path], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as other:  # fmt: skip
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"mapped\n"
        found = Processes(Running("files", path, (other.pid,)))
        found.begin()
        other.stdin.write(b"\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"written\n"
        found.look()
        other.stdin.close()
    written = found.written()
    assert "through a memory map" in (found.writes_otherwise or "")
    assert written.data_bytes(is_aligned=False, is_by_calls=False) >= MIB
    assert written.data_bytes(is_aligned=False, is_by_calls=True) < MIB


def test_a_folio_that_one_byte_makes_dirty_does_not_count_whole() -> None:
    """Linux counts up to 2 MiB for one written byte: 1.8 GB for 8 MB of random pages."""
    written = Written(call_bytes=8_192_000, calls=1000, dirtied_bytes=1_826_619_392)
    assert written.data_bytes(is_aligned=True, is_by_calls=True) == 8_192_000
    assert written.data_bytes(is_aligned=False, is_by_calls=True) == 8_192_000 + 1000 * 8190


def test_what_is_dirty_of_some_files_alone(volume: Volume) -> None:
    store = volume.mount_point / "store"
    store.mkdir()
    (store / "a").write_bytes(os.urandom(8 * MIB))
    if page_cache.dirty_bytes_of([store]) is None:
        pytest.skip("this kernel has no cachestat (Linux 6.5)")
    file = os.open(store / "a", os.O_RDWR)
    os.fsync(file)
    assert page_cache.dirty_bytes_of([store]) == 0
    os.pwrite(file, b"x", 0)
    os.close(file)
    assert 4096 <= (page_cache.dirty_bytes_of([store]) or 0) <= 8 * MIB
    assert page_cache.dirty_bytes_of([store / "none"]) == 0


def test_a_control_group_of_its_own_counts_for_a_server(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        name = next(line[3:] for line in Path(f"/proc/{other.pid}/cgroup").read_text().splitlines()
                    if line.startswith("0::"))  # fmt: skip
        group = tmp_path / name.lstrip("/")
        group.mkdir(parents=True, exist_ok=True)
        (group / "io.stat").write_text(
            "254:0 rbytes=5 wbytes=4096 rios=1 wios=1 dbytes=0 dios=0\n7:1 wbytes=99\n"
        )
        (group / "memory.stat").write_text("anon 5\nfile_dirty 8192\nfile_writeback 4096\n")
        running = Running("postgres", tmp_path, (other.pid,))
        for members, is_own in (
            (f"{other.pid}\n", True),
            (f"{other.pid}\n1\n", False),
            ("", False),
        ):
            (group / "cgroup.procs").write_text(members)
            found = Group.of(running, tmp_path)
            if name == "/":
                # The root holds everything else, too.
                assert found is None
                found = Group(group) if is_own else None
            assert (found is not None) == is_own
            if found is not None:
                assert found.written([BlockDevice("vda", "254:0")]) == 4096
                assert found.dirty_bytes() == 12288
        other.communicate(b"\n")


def test_ctrl_c_keeps_what_was_counted(place: Path) -> None:
    app = f"{sys.executable} -I -S -c '{APP}' {place}/new.db; touch {place}/over; exec sleep 60"
    with subprocess.Popen(
        [sys.executable, "-m", "flashwright", "record", "--database", "sqlite", place / "new.db",
         "--light", "--json", "-", "--", "sh", "-c", app],
        cwd=place.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while not (place / "over").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert json.loads(out[out.index("{") :])["counters"]["database"]["write_calls"] > 200


def test_a_light_recording_is_none_of_requests(volume: Volume, cli: Cli, tmp_path: Path) -> None:
    command = [sys.executable, "-c", APP, volume.mount_point / "new.db"]
    what = ["--database", "sqlite", volume.mount_point / "new.db", "--light"]
    cli("record", *what, "--out", "rec", "--", *command)
    assert (
        "holds a recording" in cli("record", *what, "--out", "rec", "--", *command, code=2).stderr
    )
    said = cli("play", "rec", "--on", "nvme-tlc", code=2).stderr
    assert "a light recording, which has counters and no requests" in said
    assert "no recording with the calls" in cli("waterfall", "rec", code=2).stderr
    result = result_of(tmp_path / "rec")
    assert result["drive_counters"]["drives"]
    assert headline(result).count(". ") <= 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["."], "name it by --database KIND PATH"),
        (["--database", "files", ".", "--check"], "so there is no --keep-raw and --check"),
        (["--database", "sqlite", "none.db"], "give the command that makes it"),
        (["--database", "files", "/proc"], "on no block device"),
        (["--database", "files", ".", "--for", "0m"], "is too short"),
    ],
)
def test_what_cannot_be_counted_is_one_line(cli: Cli, arguments: Sequence[str], said: str) -> None:
    done = cli("record", "--light", *arguments, "--out", "rec", code=2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("got", "data", "said"),
    [
        (0, (0, 0), "the device sda got nothing."),
        (1000, (0, 1000), "cannot be seen without tracing."),
        (1000, (0, 3), "At least 99.7 % of that is not its data"),
        (1000, (600, 1000), "At most 40 % of that is not its data"),
        (1000, (500, 600), "40 % to 50 % of that is not its data"),
        # Rounded away from the middle: the range holds what is true.
        (30_000, (10_000, 20_000), "33.3 % to 66.7 % of that"),
    ],
)
def test_the_headline_says_the_share_that_may_be_others(
    got: int, data: tuple[int, int], said: str
) -> None:
    counters = {
        "seconds": 60.0,
        "database": {"is_whole": True, "write_calls": 1, "write_call_bytes": 1000},
        "own_counts": None,
        "device": {"names": ["sda"], "write_bytes": got},
        "database_data_at_device": dict(zip(("from_bytes", "to_bytes"), data, strict=True)),
    }
    words = headline({"counters": counters})
    assert said in words
    assert all(len(sentence.split()) <= 30 for sentence in words.split(". "))
