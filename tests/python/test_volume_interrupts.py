"""Commands of volumes that are stopped on the way: by Ctrl-C, a kill, or an error of the system.

The short form of `make interrupts`, and what it cannot see.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import interrupt_matrix
from flashwright import _core, progress
from flashwright._core import InputError, RunError
from flashwright.cli import cli as everything
from flashwright.volumes import making
from recordings import require
from support import Cli, find_program

MEBIBYTE = 1 << 20
BUFFER = "stable_buffer(size=1Mi,page=4Ki)"
STAGED = ("--staging", "fast", "--staging-size", "8M")
RESTAGED = ("--new-staging", *STAGED[1:])


@pytest.mark.parametrize(
    ("name", "ends", "steps"),
    [
        ("give: stable_buffer", "INT,EIO", 8),
        ("create with a staging device", "INT,KILL,EIO", 1),
        ("larger with a buffer", "INT,KILL,EIO", 1),
        ("replace: log_volume", "TERM,KILL,EIO", 1),
        ("take away: log_volume", "TERM,KILL,EIO", 1),
        ("new-uuid of two", "INT,KILL,EIO", 1),
        ("destroy two", "INT,KILL,EIO", 1),
    ],
)
@pytest.mark.usefixtures("can_mount_alone")
def test_what_is_stopped_at_a_step_loses_nothing(name: str, ends: str, steps: int) -> None:
    find_program("strace")
    require(os.geteuid() == 0, "a namespace of processes needs root")
    words = ["--only", name, "--ends", ends, "--steps", str(steps)]
    done = subprocess.run(
        interrupt_matrix.alone(words), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 lost" in done.stdout.splitlines()[-1]


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A volume that was closed, in the folder that we are in."""
    monkeypatch.chdir(tmp_path)
    _core.allocate_file(Path("slow"), 32 * MEBIBYTE)
    _core.create_volume("slow", BUFFER)
    return "slow"


@pytest.fixture
def heard() -> Iterator[None]:
    """Let Ctrl-C be heard, also below a shell that started all of this with & at the end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _interrupted_when_done(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let Ctrl-C come when a function of the core has done its work, and not yet returned."""
    true: Callable[..., Any] = getattr(_core, name)

    def interrupted(*given: Any, **more: Any) -> Any:
        done = true(*given, **more)
        # To the thread that waits: a signal of the process may go to any, and would not wake it.
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)
        # It has taken it, unless the machine is very busy: then it comes a moment later.
        taken.wait(20)
        return done

    taken = threading.Event()
    before = progress._wait_or_leave

    def waits(ended: threading.Event) -> None:
        taken.set()
        before(ended)

    monkeypatch.setattr(progress, "_wait_or_leave", waits)
    monkeypatch.setattr(_core, name, interrupted)


@pytest.mark.parametrize(
    ("core", "words", "said"),
    [
        ("resize_volume", ("change", "slow", "--size", "40M"), "for its users instead of"),
        ("restage_volume", ("change", "slow", *RESTAGED), "is fast now"),
        ("renew_volume", ("change", "slow", "--new-uuid"), "its UUID is"),
        ("destroy_volume", ("change", "slow", "--destroy", "--destroy-data", "slow"), "is gone"),
        ("create_volume", ("create", "new", "--size", "8M"), "for its users, stack direct"),
    ],
)
@pytest.mark.usefixtures("volume", "heard")
def test_what_was_done_when_ctrl_c_came_says_so(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    core: str,
    words: tuple[str, ...],
    said: str,
) -> None:
    _interrupted_when_done(monkeypatch, core)
    everything.main(["volume", *words], standalone_mode=False)
    printed = capsys.readouterr()
    assert said in printed.out
    assert "stopped before the first result" not in printed.err


def test_a_file_that_headers_name_stays_and_the_error_says_so(
    volume: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = _core.restage_volume

    def fails_at_the_end(*given: Any, **more: Any) -> Any:
        true(*given, **more)
        raise RunError("slow: the last write failed")

    monkeypatch.setattr(_core, "restage_volume", fails_at_the_end)
    with pytest.raises(RunError, match=r"the last write failed; fast stays: .*whose pages lie on"):
        everything.main(["volume", "change", volume, *RESTAGED], standalone_mode=False)
    assert Path("fast").exists()
    _core.Volume(volume).close()


def test_a_file_that_nothing_names_goes(volume: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_at_once(*_: Any, **__: Any) -> Any:
        raise RunError("slow: the first write failed")

    monkeypatch.setattr(_core, "restage_volume", fails_at_once)
    with pytest.raises(RunError, match=r"the first write failed$"):
        everything.main(["volume", "change", volume, *RESTAGED], standalone_mode=False)
    assert [path.name for path in Path().iterdir()] == ["slow"]


def test_one_that_cannot_be_asked_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made"
    monkeypatch.setattr(_core, "device_needed", lambda device: f"{device}: I/O error")
    with pytest.raises(InputError, match=r"wrong; .*made stays: .*I/O error"):
        _fail_with(made)
    assert made.exists()


def _fail_with(made: Path) -> None:
    with making.made_files([(str(made), 4096)]):
        raise InputError("wrong")


def test_what_a_kill_left_is_named_by_the_next_command(cli: Cli, volume: str) -> None:
    _core.allocate_file(Path("fast"), 8 * MEBIBYTE)
    left = cli("volume", "change", volume, *RESTAGED, code=2)
    assert "there is such a file already: leave its size out to take it as it is" in left.stderr
    assert "is fast now" in cli("volume", "change", volume, *RESTAGED[:2]).stdout


def test_a_staging_device_is_named_by_its_volume(cli: Cli, volume: str) -> None:
    cli("volume", "change", volume, *RESTAGED)
    about = _core.volume_about(volume)
    other = (
        f"staging device of volume {about['uuid']}, whose pages lie on {Path(volume).absolute()}"
    )
    for words in (
        ("create", "fast"),
        ("create", "new", "--size", "16M", "--stack", BUFFER, *STAGED[:2]),
        ("info", "fast", "--check"),
        ("change", "fast", "--destroy", "--destroy-data", "fast"),
        ("change", "fast", "--new-uuid"),
        ("change", "fast", "--size", "16M"),
        ("change", "fast", "--no-staging"),
        ("info", "fast", "--scrub"),
    ):
        refused = cli("volume", *words, code=2)
        assert other in refused.stderr, words
        assert refused.stderr.count("\n") == 1
    refused = cli("volume", "create", volume, code=2)
    assert f"it has the pages of volume {about['uuid']}, whose staging device is" in refused.stderr
    assert not Path("new").exists()
