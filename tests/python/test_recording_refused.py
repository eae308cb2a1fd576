"""Refusals of a recording: it never replaces another one, or what it is made from.

And the errors when it cannot begin.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from flashwright import InputError, RunError
from flashwright.recording import file_systems
from flashwright.recording.command import _KEEPER
from flashwright.recording.device import BlockDevice
from flashwright.recording.finish import finish
from flashwright.recording.recorder import BLOCK_STREAM, MARKS, RAW, Mark, Recorder, check_folder
from flashwright.recording.tables import tables_of
from flashwright.recording.tracefs import Tracefs
from flashwright.recording.volume import Volume
from flashwright.reports.recording import losses, rows
from flashwright.runs import Run
from flashwright.workloads import registry
from flashwright.workloads.base import DatabaseLoad
from flashwright.workloads.databases.sqlite import SqliteConfig
from flashwright.workloads.driver import RunConfig, Unobserved, run
from flashwright.workloads.measure import Windows
from flashwright.workloads.supervisor import Supervisor
from support import Cli

HELD = """
import fcntl, sys
stream = open(sys.argv[1], "ab")
fcntl.lockf(stream, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording that is finished, with one table."""
    folder = tmp_path / "rec"
    Run(
        "record", {"provenance": {"flashwright": "0"}}, {"requests": pa.table({"time_ns": [0]})}
    ).write(folder)
    return folder


def assert_whole(recording: Path) -> None:
    assert (recording / "requests.parquet").exists()
    assert Run.read_result(recording).command == "record"


def test_no_other_run_replaces_a_recording(recording: Path) -> None:
    with pytest.raises(InputError, match="a recording is there"):
        Run("waterfall", {}).write(recording)
    assert_whole(recording)
    Run("record", {}, {"queued": pa.table({"time_ns": [0]})}).write(recording)
    assert not (recording / "requests.parquet").exists()


def test_out_names_no_recording(recording: Path, cli: Cli) -> None:
    said = cli("play", "synth:uniform(pages=1k)", "--on", "nvme-tlc", "--out", "rec", code=2).stderr
    assert "a recording is there" in said
    assert_whole(recording)


def test_a_recording_that_is_refused_leaves_the_folder_as_it_was(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise InputError("another recording goes on")

    monkeypatch.setattr(Tracefs, "__init__", refuse)
    with Supervisor() as supervisor:
        recorder = Recorder(
            supervisor, BlockDevice("none", "0:0"), recording, command=[], may_replace=True
        )
        with pytest.raises(InputError, match="goes on"):
            recorder.prepare()
        recorder.close()
    assert_whole(recording)


def test_a_replay_is_not_recorded_over_its_trace(recording: Path, cli: Cli) -> None:
    said = cli("play", "rec", "--on", "memory(bytes=1Mi)", "--record", "rec", code=2).stderr
    assert "it is what 'SOURCE' names, too, and would be lost" in said
    said = cli(
        "play",
        "rec",
        "--on",
        "memory(bytes=1Mi)",
        "--record",
        "new",
        "--out",
        "./new",
        code=2,
    ).stderr
    assert "it is what '--out' names, too" in said
    assert_whole(recording)


def test_a_recording_is_finished_once_and_not_while_it_goes_on(tmp_path: Path) -> None:
    stream = tmp_path / "raw" / "block.blktrace"
    stream.parent.mkdir()
    stream.write_bytes(b"")
    about = {"command": "record", "recording": {"state": "running", "device": {"name": "loop9"}}}
    (tmp_path / "result.json").write_text(json.dumps(about))
    with subprocess.Popen(
        [sys.executable, "-c", HELD, str(stream)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as recorder:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="still being recorded"):
            finish(tmp_path)
        recorder.communicate()
    with pytest.raises(RunError, match="got no request"):
        finish(tmp_path)
    (tmp_path / "result.json").write_text(json.dumps({**about, "provenance": {}}))
    with pytest.raises(InputError, match="is finished"):
        finish(tmp_path)


def test_the_stream_is_held_while_it_is_written(tmp_path: Path) -> None:
    # The test above relies on POSIX locks, which no child inherits and closing gives back.
    stream = tmp_path / "stream"
    with stream.open("wb") as out:
        fcntl.lockf(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        child = (
            "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'rb'), fcntl.LOCK_SH | fcntl.LOCK_NB)"
        )
        command = [sys.executable, "-c", child, str(stream)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


class _CannotBegin(Unobserved):
    def measurement_begins(self, at_ns: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        raise InputError("the tracer is gone")


def test_a_recording_that_cannot_begin_after_the_warm_up_ends_the_run(tmp_path: Path) -> None:
    _, _, load = registry.find("ycsb(scale=100)")
    config = SqliteConfig(str(tmp_path / "db"))
    load.fill(config, 1, 1, lambda _done, _total: None)
    with pytest.raises(InputError, match="the tracer is gone"):
        run(
            config,
            load,
            RunConfig(1, seconds=600.0, warm_up_seconds=0.05),
            _CannotBegin(),
            threading.Event(),
        )


class _Marks(Unobserved):
    """Asks for the end in the warm-up, or fails in the measurement."""

    def __init__(self, stop: threading.Event | None) -> None:
        self.times: list[int] = []
        self._stop = stop

    def warming_up(self, windows: Windows) -> None:
        if self._stop is not None:
            self._stop.set()

    def measurement_begins(self, at_ns: int) -> None:
        self.times.append(at_ns)

    def has_failed(self) -> bool:
        return self._stop is None and bool(self.times)

    def measurement_ends(self, at_ns: int) -> None:
        self.times.append(at_ns)


@pytest.fixture
def sqlite(tmp_path: Path) -> tuple[SqliteConfig, DatabaseLoad]:
    _, _, load = registry.find("ycsb(scale=100)")
    config = SqliteConfig(str(tmp_path / "db"))
    load.fill(config, 1, 1, lambda _done, _total: None)
    return config, load


@pytest.mark.parametrize("clients", [1, 2])
def test_a_measurement_that_is_stopped_in_its_warm_up_does_not_begin_after_its_end(
    clients: int, sqlite: tuple[SqliteConfig, DatabaseLoad]
) -> None:
    stop = threading.Event()
    marks = _Marks(stop)
    run(*sqlite, RunConfig(clients, seconds=600.0, warm_up_seconds=600.0), marks, stop)
    begin, end = marks.times
    assert begin <= end <= time.monotonic_ns()


@pytest.mark.parametrize("clients", [1, 2])
def test_a_recording_that_fails_ends_the_run(
    clients: int, sqlite: tuple[SqliteConfig, DatabaseLoad]
) -> None:
    marks = _Marks(None)
    run(*sqlite, RunConfig(clients, seconds=600.0), marks, threading.Event())
    assert len(marks.times) == 2


def test_a_command_begins_when_it_is_let_and_never_otherwise(tmp_path: Path) -> None:
    for said, code in ((b"1", 0), (b"", 1)):
        ready, tell = os.pipe()
        watched, ended = os.pipe()
        made = tmp_path / f"made{code}"
        command = [
            sys.executable,
            "-I",
            "-c",
            _KEEPER,
            str(ready),
            str(ended),
            "/bin/sh",
            "-c",
            'echo "$1" > "$0"',
            str(made),
            "a b",
        ]
        with subprocess.Popen(command, pass_fds=[ready, ended]) as process:
            os.close(ready)
            os.close(ended)
            os.write(tell, said)
            os.close(tell)
            assert os.read(watched, 1) == b""
            os.close(watched)
            assert process.wait(20) == code
        assert (made.read_text() if made.exists() else None) == (None if code else "a b\n")


def test_a_device_that_issues_nothing_is_told(tmp_path: Path) -> None:
    # Queued writes alone, as of zram and the device mapper: linux/blktrace_api.h, struct
    # blk_io_trace.
    queued_write = 1 | (1 << 1 | 1 << 4) << 16
    event = struct.Struct("=LLQQLLLLLHH")
    rows = [
        (0x65617407, n, 1000 + n, 8 * n, 4096, queued_write, 7, 0, 0, 0, 0) for n in range(1, 4)
    ]
    stream = tmp_path / "raw" / "block.blktrace"
    stream.parent.mkdir()
    stream.write_bytes(b"".join(event.pack(*row) for row in rows))
    about = {
        "state": "stopped",
        "device": {"name": "zram9"},
        "tracer": "ftrace",
        "command_line": [],
        "seconds": 1.0,
    }
    (tmp_path / "result.json").write_text(json.dumps({"command": "record", "recording": about}))
    found = tables_of(tmp_path).result
    assert (
        found["recording"]["start_monotonic_ns"]
        == found["recording"]["queued_start_monotonic_ns"]
        == 1001
    )
    assert "zram9 got 3 requests, but the kernel issued NONE" in losses(found)


def test_what_is_lost_of_a_killed_recording_is_not_called_nothing() -> None:
    counted = dict.fromkeys(
        ("reads", "writes", "trims", "flushes", "read_bytes", "write_bytes", "trim_bytes"), 0
    )
    about = {
        "recording": {"state": "killed", "device": {"name": "loop9"}},
        "requests": counted,
        "queued": counted,
    }
    assert rows(about)[-1] == ["events lost", "not known"]


def test_a_recording_that_was_killed_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / RAW).mkdir()
    (tmp_path / "result.json").write_text('{"command": "record", "recording": {}}')
    check_folder(tmp_path)
    for name in ("block.cpu7.pages", BLOCK_STREAM):
        path = tmp_path / RAW / name
        path.write_text("recorded once")
        with pytest.raises(InputError, match=r"a recording that was killed: .*--finish"):
            check_folder(tmp_path)
        check_folder(tmp_path, may_replace=True)
        path.unlink()


def test_nothing_of_the_recording_that_is_replaced_gets_into_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tmp_path / RAW
    raw.mkdir()
    old = [raw / "block.cpu7.pages", raw / BLOCK_STREAM, raw / MARKS, tmp_path / "requests.parquet"]
    for path in (*old, tmp_path / "result.json"):
        path.write_text("old")
    monkeypatch.setattr("flashwright.recording.recorder.is_on", lambda *_where: False)
    nothing: Any = SimpleNamespace()
    Recorder(nothing, nothing, tmp_path, command=[], may_replace=True)._make_folder()
    assert sorted(tmp_path.iterdir()) == [raw, tmp_path / "result.json"]
    assert list(raw.iterdir()) == []


@pytest.mark.parametrize("is_direct", [False, True])
def test_a_device_over_a_file_with_a_cache_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_direct: bool
) -> None:
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "dio").write_text(f"{int(is_direct)}\n")
    ran: list[str] = []

    def tool(*words: Any) -> str:
        ran.append(words[0])
        return "/dev/none"

    monkeypatch.setattr("flashwright.recording.volume.tool", tool)
    monkeypatch.setattr("flashwright.recording.volume._write", lambda *_image: None)
    monkeypatch.setattr(
        "flashwright.recording.volume.devices.find", lambda _node: SimpleNamespace(sys=tmp_path)
    )
    supervisor: Any = SimpleNamespace(folder=lambda *_where: tmp_path, undo=lambda *_words: 0)
    made = Volume(supervisor, file_systems.find("ext4"))
    if is_direct:
        made.on_image(tmp_path, 1 << 30)
        assert ran == ["losetup", "mkfs.ext4", "mount"]
        return
    with pytest.raises(InputError, match="no direct I/O there"):
        made.on_image(tmp_path, 1 << 30)
    assert ran == ["losetup"]


def test_a_full_disk_is_told_in_one_line(tmp_path: Path) -> None:
    with Supervisor() as supervisor:
        recorder = Recorder(supervisor, BlockDevice("none", "0:0"), tmp_path / "gone", command=[])
        with pytest.raises(RunError, match="No such file"):
            recorder.mark(Mark("measurement", 0, 1))
        with pytest.raises(RunError, match="No such file"):
            recorder.add(file_system={})
