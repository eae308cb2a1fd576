"""Fixtures: the command in a process of its own, and a browser."""

from __future__ import annotations

import fcntl
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright
from xdist.scheduler import LoadScopeScheduling

from browsing import FLAGS
from flashwright.recording.tracefs import LOCK
from recordings import require
from support import Cli, find_program
from zygote import Zygote

# Most tests look for sentences; those of what fits a terminal say how wide one is.
os.environ["COLUMNS"] = "400"
WRONG_USE = 2
"""The exit code of wrong use or wrong input."""
TRACEFS = Path("/sys/kernel/tracing")
TRACER = "tracer"
"""The group of tests that use the kernel's tracer, of which there is one: they run in turn."""
TRACED = frozenset(
    (
        "test_advice_proven::test_a_trial_that_is_recorded_gives_a_recording_of_its_drive",
        "test_cli_path",
        "test_cli_record",
        "test_next",
        "test_cli_replay::test_a_layer_of_ours_records_where_the_kernel_cannot",
        "test_cli_replay::test_a_recorded_replay_that_is_killed_leaves_nothing",
        "test_cli_replay::test_the_device_gets_exactly_what_was_recorded",
        "test_readme::test_the_commands_that_record_work",
        "test_recording_blocks",
        "test_recording_calls",
        "test_recording_library",
        "test_recording_owners",
        "test_recording_path",
        "test_recording_refused",
        "test_recording_running",
        "test_sqlite_transactions",
        "test_recording_whose::test_a_neighbour_is_not_the_database",
    )
)
"""Files of such tests, and single ones of other files.

By name, not by a mark `xdist_group`: what xdist 3.8 does with it changes nothing in pytest 9.2, and
two processes then wait for each other's recordings.
"""
THOROUGH = Path(__file__).with_name("thorough.txt")
"""Tests that take seconds and add to others of their kind: `make test-all` runs them, too."""
UNWATCHED = "test_volumes::test_the_file_has_no_writes_behind_its_end_and_holes_read_as_zeros"
"""It takes a file system away whose file a recording may open for a moment: not beside one."""
LONG = (
    TRACER,
    "test_volumes",
    "test_wheel",
    "test_report_probe",
    "test_report",
    "test_report_drive",
    "test_validate_drive",
    "test_measured",
    "test_docs",
)
"""Groups of a minute and more: they begin first, so that no process ends with one of them alone."""


def _is_first_process(config: pytest.Config) -> bool:
    """Tell whether it is the only process of a run, or starts the others."""
    return not hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    """Mount tracefs where it usually is.

    Some machines start without, and tests look there for what recordings leave behind.
    """
    is_missing = (
        os.geteuid() == 0 and TRACEFS.is_dir() and not (TRACEFS / "current_tracer").exists()
    )
    if is_missing and _is_first_process(config):
        subprocess.run(["mount", "-t", "tracefs", "nodev", TRACEFS], check=True)

        def unmount() -> None:
            subprocess.run(["umount", TRACEFS], check=False)

        config.add_cleanup(unmount)


def _group(nodeid: str) -> str:
    """Give the group of a test: its file, but for those of the tracer."""
    file, _, name = nodeid.partition("::")
    stem = Path(file).stem
    is_traced = stem in TRACED or f"{stem}::{name.partition('[')[0]}" in TRACED
    return TRACER if is_traced else stem


def _is_traced(item: pytest.Item) -> bool:
    return _group(item.nodeid) == TRACER


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark what `make test` leaves out, and put the long groups first.

    Raises pytest.UsageError if the list of those names a test that there is not.
    """
    named = set(THOROUGH.read_text(encoding="utf-8").splitlines())
    met = set()
    for item in items:
        name = item.nodeid.removeprefix("tests/python/")
        if found := named & {name, name.partition("[")[0]}:
            met |= found
            item.add_marker(pytest.mark.thorough)
    is_whole = not config.args or config.args == config.getini("testpaths")
    # A file that cannot be imported says so by itself, and names no test.
    if is_whole and session.testsfailed == 0:
        gone = sorted(named - met)
        if gone:
            raise pytest.UsageError(f"{THOROUGH}: there is no test {gone[0]}; leave it out")

    def place(item: pytest.Item) -> int:
        group = _group(item.nodeid)
        return LONG.index(group) if group in LONG else len(LONG)

    items.sort(key=place)


class Grouped(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of a file together, for what they share, and all that use the tracer."""

    def _split_scope(self, nodeid: str) -> str:
        return TRACER if nodeid.endswith(UNWATCHED.replace("::", ".py::")) else _group(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Grouped:
    """Hand out tests to processes in the order that they have here."""
    config.option.loadscopereorder = False
    return Grouped(config, log)


@pytest.fixture(autouse=True)
def _tracer_is_free(request: pytest.FixtureRequest) -> None:
    """Wait for what a test before left behind: on a busy machine a recording ends late."""
    if not _is_traced(request.node) or not LOCK.exists():
        return
    deadline = time.monotonic() + 60
    with LOCK.open("rb") as lock:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.05)
            else:
                return


def _in_process(
    command: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: for wrong use, which is found before anything is done."""
    from flashwright.cli import main  # noqa: PLC0415

    out, error, code = io.StringIO(), io.StringIO(), 0
    with monkeypatch.context() as patch, redirect_stdout(out), redirect_stderr(error):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["flashwright", *command])
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
    return subprocess.CompletedProcess(command, code, out.getvalue(), error.getvalue())


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Makes a process for each command."""
    started = Zygote(tmp_path_factory.mktemp("zygote"))
    yield started
    started.close()


@pytest.fixture
def cli(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    zygote: Zygote,
) -> Cli:
    """Runs `flashwright` in a folder of the test's own.

    In a process of its own, unless wrong use is expected. Who wants the kernel's tracer holds it
    until its process ends.
    """

    def run(*arguments: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        command = [str(argument) for argument in arguments]
        if code == WRONG_USE and not _is_traced(request.node):
            done = _in_process(command, tmp_path, monkeypatch)
        else:
            done = zygote.run(command, tmp_path)
        if code is not None:
            assert done.returncode == code, done.stderr or done.stdout
        return done

    return run


@pytest.fixture
def cli_json(cli: Cli) -> Callable[..., Any]:
    """Runs `flashwright ... --json -` and reads what it prints."""
    return lambda *arguments: json.loads(cli(*arguments, "--json", "-").stdout)


def _needs_mounts() -> None:
    """Mounting needs root, FUSE and loop devices: CI has all of them."""
    find_program("losetup")
    find_program("mkfs.ext4")
    is_there = os.geteuid() == 0 and Path("/dev/fuse").exists()
    require(is_there, "mounting needs root and /dev/fuse")


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """Hold a lock of all processes of a run; who waits for it alone is not overtaken."""
    with (folder / "mounts.turn").open("w") as turn, (folder / "mounts.lock").open("w") as lock:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(lock, how)
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield


def _of_run(factory: pytest.TempPathFactory) -> Path:
    """Give the folder that all processes of a run share."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture
def can_mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Mount volumes, beside other tests that do so."""
    _needs_mounts()
    with _locked(_of_run(tmp_path_factory), fcntl.LOCK_SH):
        yield


@pytest.fixture
def can_mount_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Mount volumes while no other test does: a mount namespace of its own copies all mounts.

    A volume is not taken away as long as a namespace has it.
    """
    _needs_mounts()
    with _locked(_of_run(tmp_path_factory), fcntl.LOCK_EX):
        yield


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give an empty folder that an unprivileged server can enter, unlike pytest's tmp_path."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        Path(made).chmod(0o711)
        yield Path(made)


@pytest.fixture(scope="session")
def shipped_demo(tmp_path_factory: pytest.TempPathFactory, zygote: Zygote) -> Path:
    """A folder with the demo of the shipped trace: `run/`, `demo.json`, and what it printed.

    Made once for all processes of a run.
    """
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shipped-demo"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "printed.txt").exists():
            demo = ["demo", "--shipped", "--op", "0.2", "--placements", "none,dac,hazard"]
            done = zygote.run([*demo, "--json", "demo.json", "--out", "run"], folder)
            assert done.returncode == 0, done.stderr or done.stdout
            (folder / "printed.txt").write_text(done.stdout, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_program("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()
