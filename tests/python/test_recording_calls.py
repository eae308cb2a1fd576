"""Recording of system calls: what a process does to files, whatever it does with their numbers.

Losses; kill -9.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from flashwright import InputError
from flashwright.recording import call_copier
from flashwright.recording.calls import CallRecorder, CallsFound, read_calls
from flashwright.recording.files import (
    FileTable,
    Named,
    postgres_namer,
    postgres_relations,
    sqlite_namer,
)
from flashwright.recording.tracefs import ROOT, Tracefs
from flashwright.workloads.supervisor import Supervisor
from processes import until
from recordings import require

needs_tracing = pytest.mark.usefixtures("_traceable")


@pytest.fixture(scope="module")
def _traceable() -> None:
    there = os.geteuid() == 0 and (ROOT / "events/syscalls/sys_enter_pwrite64").exists()
    require(
        there,
        "recording calls needs root, and a kernel with events of system calls "
        "(CONFIG_FTRACE_SYSCALLS)",
    )


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as made:
        yield made


def instances(raw: Path) -> list[Path]:
    """List the tracer's instances of a recording; others may record at the same time."""
    name = json.loads((raw / "calls.header.json").read_text())["instance"]
    return list((ROOT / "instances").glob(f"{name}*"))


class Child:
    """A Python process that runs what it is told, line by line, and says when each line is done."""

    def __init__(self) -> None:
        code = (
            "import os, socket, sys\nfor line in sys.stdin:\n    exec(line)\n    print('.', "
            "flush=True)"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        # Its own start opens hundreds of files.
        self.run("pass")

    def run(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        assert self.process.stdout.readline() == ".\n", line

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def child() -> Iterator[Child]:
    made = Child()
    yield made
    made.end()


class Raw:
    """The folder of a recording."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def wait_for_looks(self, number: int, name: str) -> None:
        """Wait until the copier has seen so many numbers of a file."""
        path = self.folder / "calls.sightings.jsonl"
        assert until(lambda: path.read_text().count(f'{name}"') >= number, 30), (
            f"{name} was not looked at"
        )

    def read(self, *roots: Path) -> tuple[list[dict[str, Any]], FileTable, dict[str, int | None]]:
        files = FileTable(roots)
        found: CallsFound = read_calls(self.folder, files, 0)
        rows = found.table.to_pylist()
        for row in rows:
            row["name"] = (
                None if row["file"] is None else PurePosixPath(files.paths()[row["file"]]).name
            )
        return rows, files, found.counts


def record(
    supervisor: Supervisor, folder: Path, *processes: int, buffer_kib: int = 1024
) -> tuple[CallRecorder, Raw]:
    folder.mkdir()
    recorder = CallRecorder(supervisor, folder, buffer_kib)
    recorder.prepare()
    recorder.start(processes)
    return recorder, Raw(folder)


@needs_tracing
def test_calls_are_of_their_files_with_offset_length_and_result(
    supervisor: Supervisor, child: Child, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    child.run(f"inherited = os.open('{data}/inherited', os.O_RDWR | os.O_CREAT)")
    begun = time.monotonic_ns()
    recorder, raw = record(supervisor, tmp_path / "raw", child.process.pid)
    assert len(instances(raw.folder)) == 2
    child.run("os.pwrite(inherited, b'x' * 5000, 12288)")
    child.run(f"a = os.open('{data}/a', os.O_RDWR | os.O_CREAT)")
    raw.wait_for_looks(1, "/a")
    child.run(
        "os.write(a, b'x' * 100); os.write(a, b'x' * 30); os.lseek(a, 10, 0); os.read(a, 50); "
        "os.fsync(a)"
    )
    child.run(
        "os.posix_fallocate(a, 0, 8192); os.ftruncate(a, 4096); os.pwritev(a, [b'x' * 10, b'y' * "
        "5], 3)"
    )
    child.run(
        f"os.rename('{data}/a', '{data}/renamed'); d = os.open('{data}/renamed', os.O_RDONLY); "
        "os.fdatasync(a)"
    )
    raw.wait_for_looks(1, "/renamed")
    # Another file gets the same number.
    child.run(
        f"os.close(a); b = os.open('{data}/b', os.O_RDWR | os.O_CREAT | os.O_APPEND); assert a == b"
    )
    raw.wait_for_looks(1, "/b")
    child.run("os.write(b, b'x' * 7)")
    # This file is none of the database.
    child.run(f"c = os.open('{tmp_path}/elsewhere', os.O_RDWR | os.O_CREAT)")
    raw.wait_for_looks(1, "/elsewhere")
    child.run("os.pwrite(c, b'x', 0); s, t = socket.socketpair(); os.write(s.fileno(), b'x' * 99)")
    time.sleep(0.7)
    child.run("s.send(b'x')")
    recorder.stop()
    ended = time.monotonic_ns()
    recorder.close()
    assert instances(raw.folder) == []

    rows, files, counts = raw.read(data)
    # Which of the two calls on vectors the C library takes is up to it.
    said = [
        (
            row["name"],
            row["call"].removesuffix("v2").removesuffix("v"),
            row["op"],
            row["offset"],
            row["length"],
            row["result"],
        )
        for row in rows
    ]
    assert [row for row in said if row[0] is not None] == [
        ("inherited", "pwrite", "write", 12288, 5000, 5000),
        ("renamed", "write", "write", 0, 100, 100),
        ("renamed", "write", "write", 100, 30, 30),
        ("renamed", "read", "read", 10, 50, 50),
        ("renamed", "fsync", "sync", None, 0, 0),
        ("renamed", "fallocate", "allocate", 0, 8192, 0),
        ("renamed", "ftruncate", "truncate", 4096, 0, 0),
        ("renamed", "pwrite", "write", 3, 15, 15),
        ("renamed", "fdatasync", "sync", None, 0, 0),
        ("b", "write", "write", None, 7, 7),
    ]
    assert {row["pid"] for row in rows} == {child.process.pid}
    assert all(
        begun < row["time_ns"] <= row["time_ns"] + row["duration_ns"] < ended for row in rows
    )
    assert sorted(PurePosixPath(path).name for path in files.paths()) == [
        "b",
        "inherited",
        "renamed",
    ]
    # Standard input and output, the socket, the file elsewhere.
    other = counts["other_calls"]
    assert other is not None
    assert other > 10
    clean = (
        "lost_events",
        "lost_opens",
        "gaps",
        "cut_bytes",
        "contradicted_files",
        "torn_sightings",
    )
    assert [counts[name] for name in clean] == [0] * len(clean)
    assert counts["unplaced_calls"] == 1


@needs_tracing
def test_what_is_open_but_for_a_moment_is_seen_whatever_the_tracer_is_set_to(
    supervisor: Supervisor, child: Child, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    tracefs = Tracefs(supervisor, 400.0)
    try:
        # As a recording of the block layer has them.
        tracefs.set(ROOT / "options/bin", "1")
        tracefs.set(ROOT / "options/context-info", "0")
        recorder, raw = record(supervisor, tmp_path / "raw", child.process.pid)
    finally:
        tracefs.close()
    for number in range(20):
        # The same number each time: only a look at each opening can tell them apart.
        child.run(f"a = os.open('{data}/a{number}', os.O_RDWR | os.O_CREAT)")
        raw.wait_for_looks(1, f"/a{number}")
        child.run("os.pwrite(a, b'x', 0); os.close(a)")
    recorder.stop()
    recorder.close()
    rows, _, counts = raw.read(data)
    assert [row["name"] for row in rows if row["call"] == "pwrite"] == [
        f"a{number}" for number in range(20)
    ]
    assert counts["lost_opens"] == 0


@needs_tracing
def test_children_and_theirs_are_recorded_and_others_are_not(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    recorder, raw = record(supervisor, tmp_path / "raw", os.getpid())
    grandchild = (
        f"fd = os.open('{data}/file', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'x' * 512, 0); "
        "import time; time.sleep(2)"
    )
    parent = Child()
    parent.run(
        f"import subprocess; subprocess.run([sys.executable, '-c', \"import os; {grandchild}\"])"
    )
    parent.end()
    # The supervisor's programs are beside ours, as the copier is.
    program = supervisor.start(
        ["dd", "if=/dev/zero", f"of={data}/beside", "bs=512", "count=1"], log=tmp_path / "log"
    )
    assert program.wait(30) == 0
    recorder.stop()
    recorder.close()
    rows, _, counts = raw.read(data)
    assert [
        (row["name"], row["result"])
        for row in rows
        if row["op"] == "write" and row["file"] is not None
    ] == [("file", 512)]
    assert "calls." not in "".join(str(row["name"]) for row in rows)
    assert counts["lost_events"] == 0


@needs_tracing
def test_what_the_kernel_had_no_room_for_is_counted(
    supervisor: Supervisor, child: Child, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    child.run(f"a = os.open('{data}/a', os.O_RDWR | os.O_CREAT)")
    recorder, raw = record(supervisor, tmp_path / "raw", child.process.pid, buffer_kib=16)
    copier = int(json.loads((raw.folder / "calls.copier.json").read_text())["pid"])
    os.kill(copier, signal.SIGSTOP)
    child.run("for at in range(5000): os.pwrite(a, b'x', at)")
    os.kill(copier, signal.SIGCONT)
    recorder.stop()
    recorder.close()
    rows, _, counts = raw.read(data)
    lost = counts["lost_events"]
    assert lost is not None
    assert lost == recorder.lost_events > 5000
    events = counts["events"]
    assert events is not None
    assert events + lost >= 10_000
    assert counts["gaps"]
    # The rows that are left are right: each call's own offset and length, none made of two.
    writes = [row for row in rows if row["call"] == "pwrite"]
    assert writes
    assert all((row["length"], row["result"]) == (1, 1) for row in writes)
    assert max(Counter(row["offset"] for row in writes).values()) == 1


@needs_tracing
@pytest.mark.parametrize("victim", ["us", "copier"])
def test_after_kill_9_nothing_is_left_and_what_was_seen_can_be_read(
    victim: str, tmp_path: Path
) -> None:
    data, raw = tmp_path / "data", tmp_path / "raw"
    data.mkdir()
    raw.mkdir()
    program = f"""
import os, sys
from pathlib import Path
from flashwright.recording.calls import CallRecorder
from flashwright.workloads.supervisor import Supervisor

with Supervisor() as supervisor:
    recorder = CallRecorder(supervisor, Path({str(raw)!r}))
    recorder.prepare()
    recorder.start([os.getpid()])
    file = os.open({str(data / "a")!r}, os.O_RDWR | os.O_CREAT)
    while True:
        os.pwrite(file, b"x" * 512, 0)
        if sys.stdin in __import__("select").select([sys.stdin], [], [], 0.001)[0]:
            break
    recorder.stop()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started = raw / "calls.copier.json"
    pages = raw.glob
    assert until(
        lambda: started.exists() and sum(p.stat().st_size for p in pages("calls.cpu*")) > 8192, 60
    )
    assert until(lambda: '/a"' in (raw / "calls.sightings.jsonl").read_text(), 30)
    if victim == "us":
        process.kill()
        process.communicate()
    else:
        os.kill(json.loads(started.read_text())["pid"], signal.SIGKILL)
        assert "copier of system calls ended with -9" in process.communicate("end\n", timeout=60)[1]
    assert until(lambda: not instances(raw), 30), f"left: {instances(raw)}"
    rows, _, counts = Raw(raw).read(data)
    assert len(rows) > 50
    assert {row["name"] for row in rows if row["call"] == "pwrite"} == {"a"}
    # Whoever was killed himself can tell nothing of losses; his brother goes on to the end.
    assert counts["lost_events"] == (0 if victim == "us" else None)


def test_no_recording_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no recording of system calls"):
        read_calls(tmp_path, FileTable([tmp_path]), 0)


def test_files_keep_their_numbers_over_renames_and_get_new_ones_when_inodes_are_used_again(
    tmp_path: Path,
) -> None:
    files = FileTable([tmp_path], sqlite_namer(tmp_path / "d"))
    assert files.number(1, 10, f"{tmp_path}/d") == 0
    assert files.number(1, 11, f"{tmp_path}/d-journal") == 1
    assert files.number(1, 10, "/elsewhere/d") is None
    assert files.number(1, 10, f"{tmp_path}x/d") is None
    # The journal was deleted, and a temporary file has its inode; then the journal is back.
    assert files.number(1, 11, f"{tmp_path}/etilqs_1") == 2
    assert files.number(1, 11, f"{tmp_path}/d-journal (deleted)") == 1
    assert files.table().to_pylist() == [
        {"file": 0, "path": f"{tmp_path}/d", "purpose": "heap", "name": None},
        {"file": 1, "path": f"{tmp_path}/d-journal", "purpose": "wal", "name": "rollback journal"},
        {"file": 2, "path": f"{tmp_path}/etilqs_1", "purpose": "temp", "name": None},
    ]


def test_files_of_postgres_are_named_by_its_catalog(tmp_path: Path) -> None:
    def row(path: str, name: str, kind: str, oid: int, **more: str) -> dict[str, object]:
        return {
            "path": path,
            "name": name,
            "kind": kind,
            "oid": oid,
            "schema": "public",
            "toast_of": None,
            **more,
        }

    relations = postgres_relations(
        [
            row("base/5/16400", "stock", "r", 16384),
            row("base/5/16401", "stock_pkey", "i", 16390),
            row("base/5/16402", "pg_toast_16384", "t", 16391, schema="pg_toast", toast_of="stock"),
            row("base/5/1259", "pg_class", "r", 1259, schema="pg_catalog"),
            row("base/5/2838", "pg_toast_1255", "t", 2836, schema="pg_toast", toast_of="pg_proc"),
        ]
    )
    name = postgres_namer(tmp_path, relations)
    said = {
        "base/5/16400": Named("heap", "stock"),
        "base/5/16400.3": Named("heap", "stock"),
        "base/5/16400_fsm": Named("other", "stock (free space map)"),
        "base/5/16400_vm.1": Named("other", "stock (visibility map)"),
        "base/5/16401": Named("index", "stock_pkey"),
        "base/5/16402": Named("heap", "stock (long values)"),
        "base/5/1259": Named("catalog", "pg_class"),
        "base/5/2838": Named("catalog", "pg_proc (long values)"),
        "base/5/2000": Named("catalog"),
        "base/5/17000": Named("other"),
        "base/5/t3_17000": Named("temp"),
        "base/5/pg_filenode.map": Named("catalog"),
        "base/pgsql_tmp/pgsql_tmp12.0": Named("temp"),
        "global/1262": Named("catalog"),
        "pg_wal/000000010000000000000001": Named("wal"),
        "pg_xact/0000": Named("other"),
    }
    assert {path: name(PurePosixPath(tmp_path, path)) for path in said} == said
    assert name(PurePosixPath("/wal/000000010000000000000001")) == Named("wal")


def test_lost_opens_are_counted_by_their_number(tmp_path: Path) -> None:
    looker = call_copier.Looker(tmp_path / "sightings", tmp_path / "threads")
    begin, end = os.pipe()
    os.set_blocking(begin, False)
    os.write(end, b"CPU:1 [LOST 12 EVENTS]\nanother form\nCPU:0 [LOST EVENTS]\nhalf")
    assert call_copier.see_opened(begin, looker, b"") == b"half"
    assert looker.lost_opens == 14
    os.close(end)
    os.close(begin)
