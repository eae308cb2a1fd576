"""Options of a command reach the server that it starts or becomes."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.volumes import mounting, places, serving
from flashwright.volumes.mounting import MountPlan
from flashwright.volumes.places import Mounted, Place
from flashwright.volumes.stopping import Stopping
from processes import until
from recordings import require


class StartedError(Exception):
    """A program would run now."""


def test_all_that_is_asked_reaches_nbdkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[str] = []

    def become(_program: str, words: list[str]) -> None:
        became.extend(words)
        raise StartedError

    monkeypatch.setattr(os, "execvp", become)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(serving, "PLUGIN", Path(__file__))
    monkeypatch.setattr(serving, "_look_first", lambda _serving: None)
    monkeypatch.setattr(serving, "_listen", lambda _where: None)
    monkeypatch.setattr(serving, "_hand_over", lambda _socket: None)
    asked = serving.Serving(
        "/dev/some",
        queue_depth=7,
        metrics=tmp_path / "metrics",
        metrics_every=2.5,
        bare=True,
        staging="/dev/other",
        memory_bytes=1 << 26,
        scrub_days=2.0,
    )
    with pytest.raises(StartedError):
        serving.serve_nbd(asked, tmp_path / "socket", ["--tls=require"])
    [ready] = [word for word in became if word.startswith("ready=")]
    assert f"nbd-client -unix {tmp_path / 'socket'} /dev/nbd0" in ready
    assert {word for word in became if "=" in word} - {ready} == {
        *("volume=/dev/some", "depth=7", "bare=yes", "staging=/dev/other", "--tls=require"),
        *(f"memory={1 << 26}", f"scrub_every={2 * 86_400}"),
        *(f"metrics={tmp_path / 'metrics'}", "metrics_every=2.5"),
    }


@pytest.mark.parametrize("is_ublk", [False, True])
def test_all_that_is_asked_of_a_mount_reaches_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_ublk: bool
) -> None:
    started: list[str] = []

    def start(words: list[str], **_more: Any) -> None:
        started.extend(words)
        raise StartedError

    monkeypatch.setattr(places, "_root", lambda: tmp_path / "run")
    monkeypatch.setattr(subprocess, "Popen", start)
    place = Place("one")
    place.make()
    plan = MountPlan(
        "/dev/some",
        tmp_path,
        queue_depth=7,
        metrics=tmp_path / "metrics",
        metrics_every=2.5,
        staging="/dev/other",
        is_ublk=is_ublk,
        memory_bytes=1 << 26,
        scrub_days=2.0,
    )
    with pytest.raises(StartedError):
        mounting._serve(plan, Mounted("one", "/dev/some", str(tmp_path), "", 0, 0))
    words = started[started.index("serve") + 1 :]
    assert words[:2] == ["/dev/some", "--volume"]
    if is_ublk:
        words.remove("--ublk")
    assert dict(zip(words[2::2], words[3::2], strict=True)) == {
        **({"--link": str(place.block)} if is_ublk else {"--fuse": str(place.fuse)}),
        "--depth": "7",
        "--scrub-every": "2",
        "--memory": str(1 << 26),
        "--staging": "/dev/other",
        "--metrics": str(tmp_path / "metrics"),
        "--metrics-every": "2.5",
    }


class Opened:
    """A volume that keeps how it was opened, and what was asked of it."""

    made: dict[str, Any]
    kept: tuple[Path, float]

    def __init__(self, device: str, **more: Any) -> None:
        Opened.made = {"device": device, **more}

    def about(self) -> dict[str, Any]:
        """Do as the true one."""
        names = ("uuid", "stack", "openings", "capacity_bytes", "notes")
        return dict.fromkeys(names)

    def keep_metrics(self, path: Path, every_s: float) -> None:
        """Do as the true one."""
        Opened.kept = (path, every_s)

    def close(self) -> None:
        """Do as the true one."""


def test_all_that_is_asked_of_a_server_reaches_its_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_core, "Volume", Opened)
    monkeypatch.setattr(signal, "signal", lambda *_how: None)
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace(prctl=lambda *_words: 0))

    def show(_volume: Any) -> None:
        raise StartedError

    asked = serving.Serving(
        "/dev/some",
        queue_depth=7,
        metrics=tmp_path / "metrics",
        metrics_every=2.5,
        bare=True,
        staging="/dev/other",
        memory_bytes=1 << 26,
        scrub_days=2.0,
    )
    with pytest.raises(StartedError):
        serving._serve(asked, "fuse", None, show, list)
    assert Opened.made == {
        **{"device": "/dev/some", "queue_depth": 7, "bare": True, "staging": "/dev/other"},
        **{"memory": 1 << 26, "scrub_every_s": 2 * 86_400},
    }
    assert Opened.kept == (tmp_path / "metrics", 2.5)


def test_a_process_whose_first_thread_has_ended_lives_as_long_as_another_does() -> None:
    """As a server that was told to end, with a thread that still writes: it holds the device."""
    code = (
        "import ctypes, sys, threading; threading.Thread(target=sys.stdin.read).start(); "
        "print('there', flush=True); ctypes.CDLL(None).syscall(60, 0)"
    )
    require(os.uname().machine == "x86_64", "the number of exit(2) is that of x86-64")
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        state = Path(f"/proc/{process.pid}/stat")
        assert until(lambda: state.read_text().rpartition(")")[2].split()[0] == "Z")
        assert places.process_began(process.pid) > 0
        process.kill()
        assert until(lambda: places.process_began(process.pid) == 0)


@pytest.mark.parametrize(("code", "wrong"), [(2, InputError), (1, RunError)])
def test_why_a_server_has_ended_is_said_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, wrong: type[Exception]
) -> None:
    """Wrong input stays wrong input: the exit code says so."""
    start = subprocess.Popen
    ends = f"read noted; echo more; echo 'flashwright: error: here: it is so'; exit {code}"
    monkeypatch.setattr(
        subprocess, "Popen", lambda _words, **more: start(["sh", "-c", ends], **more)
    )
    monkeypatch.setattr(places, "_root", lambda: tmp_path / "run")
    Place("one").make()
    with pytest.raises(wrong, match=r"^here: it is so$"):
        mounting._serve(
            MountPlan("/dev/some", tmp_path), Mounted("one", "/dev/some", str(tmp_path), "", 0, 0)
        )


class TestStopping:
    """A server was asked to stop while it took a lock to wait, and never closed its volume."""

    @pytest.fixture
    def stopping(self) -> Iterator[Stopping]:
        before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
        yield Stopping()
        for number, handler in before.items():
            signal.signal(number, handler)

    @pytest.mark.parametrize("nth", range(4))
    def test_a_signal_is_heard_at_each_line_of_waiting(self, stopping: Stopping, nth: int) -> None:
        assert self.ends(stopping.wait, stopping.ask, nth)
        assert stopping.is_asked == (nth < 3), "it has three lines"

    def test_the_check_finds_a_handler_that_waits_for_a_lock(self) -> None:
        event = threading.Event()
        ends = [self.ends(event.wait, event.set, nth, 0.5) for nth in range(4)]
        assert not all(ends)

    def test_waiting_ends_as_soon_as_somebody_asks(self, stopping: Stopping) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert stopping.wait(1e6)

    @staticmethod
    def ends(
        wait: Callable[[float], bool], ask: Callable[[], None], nth: int, most: float = 10.0
    ) -> bool:
        """Tell whether waiting ends if the nth line of it is interrupted by a signal."""
        lines = 0

        def trace(_frame: FrameType, event: str, _: Any) -> Any:
            nonlocal lines
            if event == "line":
                lines += 1
                if lines == nth + 1:
                    sys.settrace(None)
                    ask()
            return trace

        def traced() -> None:
            sys.settrace(trace)
            wait(0.01)
            sys.settrace(None)

        thread = threading.Thread(target=traced, daemon=True)
        thread.start()
        thread.join(most)
        return not thread.is_alive()
