"""Copies the kernel's trace buffer into files while a database runs.

Looks up what its processes have open. A program of its own, started by the supervisor with the
standard library alone: what it does is in no trace, and it ends in order when we are killed. Asked
to end (SIGTERM), it takes what is left in the buffer, says what was lost, and removes the buffer.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

_TICK_S = 0.25
"""The buffer has room for what comes between two looks at it; a file that is opened is looked at at
once.
"""
_PARTIAL_S = 1.0
"""Pages that are not full are taken so often: what a copier that is killed has not taken is lost.
"""
_LOOK_S = 0.5
_FULL_LOOK_S = 5.0
_PIPE_BYTES = 1 << 20
_AT_ONCE_BYTES = 32 << 20
"""After so much there is a look at the other processors and at what was opened."""
_OPENED = re.compile(rb"-(\d+)\s+\[\d+\][^>]*-> 0x([0-9a-f]+)\s*$")
_LOST = re.compile(rb"\[LOST (\d+) EVENTS\]")
_LOSSES = ("overrun", "commit overrun", "dropped events")


class Pages:
    """One processor's pages on their way into a file."""

    def __init__(self, cpu: Path, output: Path, page_bytes: int) -> None:
        self._raw = os.open(cpu / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
        self._out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self._from, self._to = os.pipe()
        self._page_bytes = page_bytes
        self._most = _PIPE_BYTES
        # A user may have used up what pipes are allowed: the usual size does as well.
        with contextlib.suppress(OSError):
            import fcntl  # noqa: PLC0415  (beside the only use)

            fcntl.fcntl(self._to, 1031, _PIPE_BYTES)

    def take_full(self) -> int:
        """Move pages that are full, without copying them through here; give the bytes."""
        moved = 0
        while moved < _AT_ONCE_BYTES:
            try:
                count = os.splice(
                    self._raw, self._to, self._most, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE
                )
            except BlockingIOError:
                return moved
            if count == 0:
                return moved
            left = count
            while left:
                left -= os.splice(self._from, self._out, left)
            moved += count
        return moved

    def take_all(self) -> int:
        """Take all there is, pages that are not full too; give the bytes."""
        moved = self.take_full()
        while moved < _AT_ONCE_BYTES:
            try:
                page = os.read(self._raw, self._page_bytes)
            except BlockingIOError:
                return moved
            if not page:
                return moved
            os.write(self._out, page.ljust(self._page_bytes, b"\0"))
            moved += len(page)
        return moved

    def close(self) -> None:
        """Close all, so that the buffer can be removed."""
        try:
            os.fsync(self._out)
        finally:
            for handle in (self._raw, self._out, self._from, self._to):
                os.close(handle)


class Looker:
    """Looks up in /proc what numbers of open files stand for.

    Writes it down as lines of JSON.
    """

    def __init__(self, output: Path, threads: Path) -> None:
        self._out = output.open("w", encoding="utf-8", buffering=1)
        self._threads = threads
        self._processes: dict[int, int] = {}
        self._known: dict[int, set[int]] = {}
        self.lost_opens = 0

    def opened(self, thread: int, fd: int) -> None:
        """Look at a file that a thread has just opened."""
        process = self._process(thread)
        self._known.setdefault(process, set()).add(fd)
        self._look(process, fd)

    def look(self, everything: bool) -> None:
        """Look at what is new, or at everything, of all processes that are traced."""
        try:
            threads = [int(word) for word in self._threads.read_text().split()]
        except OSError:
            return
        alive = {self._process(thread) for thread in threads}
        for process in alive:
            try:
                # Numbers alone matter.
                numbers = {int(name) for name in os.listdir(f"/proc/{process}/fd")}  # noqa: PTH208
            except OSError:
                continue
            known = self._known.get(process, set())
            for fd in sorted(numbers if everything else numbers - known):
                self._look(process, fd)
            self._known[process] = numbers
        for gone in set(self._known) - alive:
            del self._known[gone]
        for gone in set(self._processes) - set(threads):
            del self._processes[gone]

    def _process(self, thread: int) -> int:
        known = self._processes.get(thread)
        if known is not None:
            return known
        process = thread
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{thread}/status").read_text().splitlines()
            process = int(next(line for line in lines if line.startswith("Tgid:")).split()[1])
        self._processes[thread] = process
        self._write(thread=thread, process=process)
        return process

    def _look(self, process: int, fd: int) -> None:
        link = f"/proc/{process}/fd/{fd}"
        before = time.monotonic_ns()
        try:
            # As quick as can be: the file may be closed again.
            status = os.stat(link)  # noqa: PTH116
            path = os.readlink(link) if stat.S_ISREG(status.st_mode) else None  # noqa: PTH115
        except OSError:
            return
        after = time.monotonic_ns()
        if path is None:
            self._write(ns=[before, after], process=process, fd=fd)
        else:
            self._write(
                ns=[before, after],
                process=process,
                fd=fd,
                device=status.st_dev,
                inode=status.st_ino,
                path=path,
            )

    def _write(self, **line: Any) -> None:
        self._out.write(json.dumps(line) + "\n")


def losses(instance: Path) -> int:
    """Count the events that the kernel had no room for."""
    lost = 0
    for stats in instance.glob("per_cpu/cpu*/stats"):
        for line in stats.read_text().splitlines():
            name, _, value = line.partition(":")
            if name in _LOSSES:
                lost += int(value)
    return lost


def remove(instance: Path) -> None:
    """Remove an instance of the tracer; others may hold it for a moment longer."""
    for _ in range(50):
        try:
            instance.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return


def copy(calls: Path, opens: Path, output: Path, page_bytes: int) -> None:
    """Copy until asked to end."""
    said = []
    # Python hands a signal to its handler between two calls: a poll that it interrupts goes on, for
    # a tick at most.
    signal.signal(signal.SIGTERM, lambda *_: said.append(True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cpus = [
        Pages(cpu, output / f"calls.{cpu.name}.pages", page_bytes)
        for cpu in sorted(calls.glob("per_cpu/cpu*"))
    ]
    looker = Looker(output / "calls.sightings.jsonl", calls / "set_event_pid")
    opened = os.open(opens / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    poller = select.poll()
    poller.register(opened, select.POLLIN)
    # The looks begin after the recording of calls: a file that was seen open before could be closed
    # without an event.
    for instance in (opens, calls):
        (instance / "tracing_on").write_text("1")
    started_ns = time.monotonic_ns()
    looker.look(everything=True)
    # Whole or not there: we are waited for.
    about = output / "calls.copier.new"
    about.write_text(json.dumps({"pid": os.getpid(), "started_monotonic_ns": started_ns}))
    about.rename(output / "calls.copier.json")
    next_look = next_full = next_partial = 0.0
    rest = b""
    while not said:
        poller.poll(_TICK_S * 1000)
        rest = see_opened(opened, looker, rest)
        now = time.monotonic()
        for cpu in cpus:
            cpu.take_full() if now < next_partial else cpu.take_all()
        if now >= next_partial:
            next_partial = now + _PARTIAL_S
        if now >= next_look:
            looker.look(everything=now >= next_full)
            next_look = now + _LOOK_S
            if now >= next_full:
                next_full = now + _FULL_LOOK_S
    see_opened(opened, looker, rest)
    looker.look(everything=True)
    stopped_ns = time.monotonic_ns()
    for instance in (calls, opens):
        (instance / "tracing_on").write_text("0")
    for cpu in cpus:
        while cpu.take_all():
            pass
        cpu.close()
    os.close(opened)
    (output / "calls.end.json").write_text(
        json.dumps(
            {
                "lost_events": losses(calls),
                "lost_opens": looker.lost_opens,
                "stopped_monotonic_ns": stopped_ns,
            }
        )
    )


def see_opened(pipe: int, looker: Looker, rest: bytes) -> bytes:
    """Look at the files that were just opened; give the line that is not complete."""
    while True:
        try:
            text = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return rest
        if not text:
            return rest
        *lines, rest = (rest + text).split(b"\n")
        for line in lines:
            found = _OPENED.search(line)
            if found is None:
                # Of a kernel that writes them otherwise, or a line that says how many were lost.
                lost = _LOST.search(line)
                looker.lost_opens += 1 if lost is None else int(lost[1])
            else:
                looker.opened(int(found[1]), int(found[2], 16))


def main() -> None:
    """Arguments: instances of the calls and of the opens, folder of the files, bytes of a page."""
    calls, opens, output = (Path(word) for word in sys.argv[1:4])
    # A file that is closed before we look at it stays unknown: we go first, and have little to do.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        copy(calls, opens, output, int(sys.argv[4]))
    finally:
        for instance in (calls, opens):
            remove(instance)


if __name__ == "__main__":
    main()
