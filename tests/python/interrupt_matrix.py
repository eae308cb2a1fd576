"""Every `volume` command that is stopped at every step: by a signal, or by an error of the system.

A step is a call of the system by which something changes, or is found: the N-th of its kind from
the beginning of the command on. `strace` stops the command there, so that nothing depends on time:
by SIGINT or SIGTERM, by SIGKILL, or by letting the call fail with EIO. After each, the volume that
was there before opens with all its data (or is gone, if that was asked for), a file beside it is as
it was, and the same command ends well or says in one line what to do; then all is read again.

    python tests/python/interrupt_matrix.py [--steps N] [--only WORDS] [--seed N]

Prints a line for each command and how it was stopped, and ends with 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import zygote
from flashwright import _core
from flashwright._core import FlashwrightError

MIB = 1 << 20
STEPS = (
    *("io_uring_enter", "openat", "pread64", "pwrite64", "fsync", "fdatasync", "fallocate"),
    *("ftruncate", "flock", "rename", "renameat", "renameat2", "unlink", "unlinkat"),
)
"""System calls at which a command is stopped."""
ENDS = ("INT", "TERM", "KILL", "EIO")
"""Ways in which it is stopped: by a signal, or by an error."""
_MOST_SECONDS = 120
STAGED = ("--staging", "fast", "--staging-size", "8M")
RESTAGED = ("--new-staging", *STAGED[1:])
DESTROYED = ("--destroy", "--destroy-data", "slow")
BUFFER = "stable_buffer(size=1Mi,page=4Ki)"
LOG = "log_volume(segment=256Ki)"
_PLACES = (4096, MIB + 512 * 8, 5 * MIB)
"""Offsets at which a volume holds data."""


@dataclass(frozen=True)
class Case:
    """A command, and what is there before it."""

    name: str
    words: tuple[str, ...]
    stack: str | None = "direct"
    """Stack of the volume `slow` that is there before; None if none is."""
    staging: str | None = None
    """The file of its staging device."""
    zeros: tuple[str, ...] = ()
    """Files of 8 MiB that hold nothing."""
    is_open: bool = False
    """True if the volume was not closed."""
    destroys: bool = False
    """True if data may be lost: afterwards it is whole, or gone."""


CASES = (
    Case("create", ("create", "slow", "--size", "16M"), stack=None),
    Case("create a log", ("create", "slow", "--size", "32M", "--stack", LOG), stack=None),
    Case(
        "create with a staging device",
        ("create", "slow", "--size", "16M", "--stack", BUFFER, *STAGED),
        stack=None,
    ),
    Case("create on a file", ("create", "zeros"), stack=None, zeros=("zeros",)),
    Case("create over another", ("create", "slow", "--destroy-data", "slow"), destroys=True),
    Case("info", ("info", "slow")),
    Case("info of two", ("info", "slow"), BUFFER, "fast"),
    Case("check", ("info", "slow", "--check"), LOG),
    Case("check one that is open", ("info", "slow", "--check"), BUFFER, "fast", is_open=True),
    Case("scrub", ("info", "slow", "--scrub"), LOG),
    Case("scrub one that is open", ("info", "slow", "--scrub"), BUFFER, is_open=True),
    Case("larger", ("change", "slow", "--size", "40M")),
    Case("larger with a buffer", ("change", "slow", "--size", "40M"), BUFFER, is_open=True),
    Case("smaller", ("change", "slow", "--size", "16M")),
    Case("smaller with a buffer", ("change", "slow", "--size", "16M"), BUFFER),
    *(
        case
        for stack in (BUFFER, LOG)
        for case in (
            Case(
                f"give: {stack}",
                ("change", "slow", *RESTAGED),
                stack,
            ),
            Case(
                f"give one that is there: {stack}",
                ("change", "slow", "--new-staging", "zeros"),
                stack,
                zeros=("zeros",),
                is_open=True,
            ),
            Case(
                f"replace: {stack}",
                ("change", "slow", "--new-staging", "new", "--staging-size", "8M"),
                stack,
                "fast",
            ),
            Case(f"take away: {stack}", ("change", "slow", "--no-staging"), stack, "fast"),
        )
    ),
    Case("new-uuid", ("change", "slow", "--new-uuid")),
    Case("new-uuid of two", ("change", "slow", "--new-uuid"), LOG, "fast"),
    Case("destroy", ("change", "slow", *DESTROYED), destroys=True),
    Case("destroy two", ("change", "slow", *DESTROYED), BUFFER, "fast", destroys=True),
)


@dataclass
class Outcome:
    """Outcome of the stops of one command in one way."""

    stops: int = 0
    lost: list[str] = field(default_factory=list)
    """Places where data was lost, or the next command had no way on."""


def _copy(folder: Path, to: Path) -> None:
    """Copy a folder; what is zeros takes no room, however it was made."""
    subprocess.run(["cp", "--recursive", "--sparse=always", folder, to], check=True)


@contextlib.contextmanager
def temporary(within: Path | None = None) -> Iterator[Path]:
    """Make a folder that goes at the end; unlike Python's own, not at the end of a child, too."""
    made = Path(tempfile.mkdtemp(prefix="flashwright-stops-", dir=within))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def pattern(place: int) -> bytes:
    """Give the data that a volume holds at a place."""
    return random.Random(place).randbytes(3 * 4096)


class Folder:
    """A folder with what a case begins with, made once and copied for each stop."""

    def __init__(self, case: Case, root: Path) -> None:
        self.case, self.path, self._kept = case, root / "now", root / "kept"
        self.path.mkdir(parents=True)
        with contextlib.chdir(self.path):
            self._make()
        _copy(self.path, self._kept)

    def _make(self) -> None:
        case = self.case
        Path("beside").write_bytes(pattern(1))
        for name in case.zeros:
            _core.allocate_file(Path(name), 8 * MIB)
        if case.stack is None:
            return
        _core.allocate_file(Path("slow"), 32 * MIB)
        if case.staging is not None:
            _core.allocate_file(Path(case.staging), 8 * MIB)
        _core.create_volume("slow", case.stack, staging=case.staging)
        volume = _core.Volume("slow")
        for place in _PLACES[:-1]:
            volume.write(place, pattern(place))
        volume.close()
        if case.is_open:
            child = os.fork()
            if not child:
                volume = _core.Volume("slow")
                volume.write(_PLACES[-1], pattern(_PLACES[-1]))
                volume.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            os.waitpid(child, 0)
        else:
            volume = _core.Volume("slow")
            volume.write(_PLACES[-1], pattern(_PLACES[-1]))
            volume.close()

    def begin(self) -> None:
        """Put everything back."""
        shutil.rmtree(self.path)
        _copy(self._kept, self.path)

    def wrong(self) -> str | None:
        """Look at copies of the devices for what is not as it has to be; None if all is."""
        if (self.path / "beside").read_bytes() != pattern(1):
            return "the file beside it was changed"
        if self.case.stack is None:
            return None
        with temporary(self.path.parent) as copies:
            _copy(self.path, copies / "now")
            return self._wrong_data(copies / "now")

    def _wrong_data(self, copies: Path) -> str | None:
        device = str(copies / "slow")
        try:
            staging = _core.volume_about(device)["staging"]
            second = None if staging is None else str(copies / Path(staging["device"]).name)
            volume = _core.Volume(device, staging=second)
        except FlashwrightError as error:
            if self.case.destroys and "no volume is there" in str(error):
                return None
            return f"it does not open: {error}"
        try:
            for place in _PLACES:
                held = volume.read(place, len(pattern(place)))
                is_new = self.case.destroys and not any(held)
                if held != pattern(place) and not is_new:
                    return f"byte {place}: its data is lost"
        except FlashwrightError as error:
            return f"it cannot be read: {error}"
        finally:
            volume.close()
        return None


@dataclass(frozen=True)
class Run:
    """A command that has ended."""

    code: int
    """Exit code, as `Popen.returncode` has it: the signal, negative, if one ended it."""
    said: str
    calls: dict[str, int]
    """Most calls of each kind that one of its threads did."""


def run(words: Iterable[str], folder: Path, stop: tuple[str, int, str] | None) -> Run:
    """Run a command, and stop it at the N-th call of a kind, in one of `ENDS`."""
    trace, said = folder.parent / "trace", folder.parent / "said"
    said.write_text("")
    child = os.fork()
    if not child:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        zygote.become(
            {
                "waits": True,
                "command": ["volume", *words],
                "folder": folder,
                "out": os.devnull,
                "error": said,
                "environment": dict(os.environ),
            }
        )
    os.waitpid(child, os.WUNTRACED)
    watched = ["strace", "--follow-forks", "--quiet=all", f"--output={trace}", f"--attach={child}"]
    watched.append(f"--trace={','.join(STEPS)}")
    if stop is not None:
        call, number, end = stop
        how = "error=EIO" if end == "EIO" else f"signal={end}"
        watched.append(f"--inject={call}:{how}:when={number}")
    watcher = subprocess.Popen(watched, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while not _is_watched(child):
            assert watcher.poll() is None, "strace ended"
        os.kill(child, signal.SIGCONT)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        watcher.wait(_MOST_SECONDS)
    return Run(code, said.read_text(), _calls(trace.read_text()))


def _is_watched(process: int) -> bool:
    return "TracerPid:\t0\n" not in Path(f"/proc/{process}/status").read_text()


def _calls(trace: str) -> dict[str, int]:
    found = re.findall(r"^(\d+) +(\w+)\(", trace, re.MULTILINE)
    most: dict[str, int] = {}
    for (_, call), count in collections.Counter(found).items():
        most[call] = max(most.get(call, 0), count)
    return most


def stops(calls: dict[str, int], most: int, draw: random.Random) -> Iterator[tuple[str, int]]:
    """Give the steps at which a command is to be stopped: at most so many of each kind of call."""
    for call, count in sorted(calls.items()):
        every = range(1, count + 1)
        chosen = every if count <= most else sorted(draw.sample(every, most))
        yield from ((call, number) for number in chosen)


def try_one(folder: Folder, stop: tuple[str, int, str]) -> str | None:
    """Stop a case there; what is wrong then, or after the same command once more."""
    folder.begin()
    words = folder.case.words
    run(words, folder.path, stop)
    wrong = folder.wrong()
    if wrong is not None:
        return f"stopped: {wrong}"
    again = run(words, folder.path, None)
    if again.code != 0 and not is_one_line(again):
        return f"again, it ended with {again.code}: {again.said}"
    wrong = folder.wrong()
    return None if wrong is None else f"again: {wrong}"


def is_one_line(done: Run) -> bool:
    """Tell whether a command has failed as it should: with a line that says what to do."""
    return (
        done.code in {1, 2}
        and done.said.startswith("flashwright: error: ")
        and done.said.count("\n") == 1
    )


def campaign(
    cases: Iterable[Case],
    ends: Iterable[str],
    most: int,
    seed: int,
) -> Outcome:
    """Stop each command in each way at each step, or at so many of each kind of call."""
    draw, whole, ends = random.Random(seed), Outcome(), tuple(ends)
    for case in cases:
        with temporary() as root:
            folder = Folder(case, root)
            folder.begin()
            calls = run(case.words, folder.path, None).calls
            assert calls, f"{case.name}: no step was seen"
            for end in ends:
                here = Outcome()
                for call, number in stops(calls, most, draw):
                    wrong = try_one(folder, (call, number, end))
                    here.stops += 1
                    if wrong is not None:
                        here.lost.append(f"{case.name}, {end} at {call} {number}: {wrong}")
                _tell(f"{case.name}: {end}, {here.stops} stops, {len(here.lost)} lost")
                for line in here.lost:
                    _tell(f"  {line}")
                whole.stops += here.stops
                whole.lost += here.lost
    return whole


_ALONE = r"""
awk '$1 ~ "^/dev/(loop|ublk)" || $3 ~ "^fuse" { print $2 }' /proc/self/mounts | tac |
    while read -r place; do umount --lazy "$place"; done
exec "$@"
"""
"""Lets go of others' file systems, which this namespace would hold while they are unmounted."""


def alone(words: Iterable[str]) -> list[str]:
    """Give this script as a command in a namespace of processes of its own; for that, be root.

    Each look at who has a file open then looks at few processes.
    """
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", _ALONE, "sh"]
    return [*apart, sys.executable, __file__, "--alone", *words]


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Do the whole campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40, help="of each kind of call, at most")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--ends", default=",".join(ENDS), help="ways of stopping")
    parser.add_argument("--seed", type=int, default=1, help="which steps, where there are more")
    parser.add_argument("--alone", action="store_true", help="in a namespace already")
    asked = parser.parse_args()
    if not asked.alone:
        given = alone(sys.argv[1:])
        os.execvp(given[0], given)  # noqa: S606
    zygote.load()
    chosen = [case for case in CASES if case.name.startswith(asked.only)]
    found = campaign(chosen, asked.ends.split(","), asked.steps, asked.seed)
    _tell(f"{found.stops} stops of {len(chosen)} commands: {len(found.lost)} lost")
    return 1 if found.lost else 0


if __name__ == "__main__":
    sys.exit(main())
