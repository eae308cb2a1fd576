"""`flashwright record --light`: a first look at a database, without root and without tracing."""

from __future__ import annotations

import os
import shlex
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright._text import size
from flashwright.cli.following import say_next
from flashwright.cli.output import Json, Output
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from flashwright.recording.command import Command
    from flashwright.recording.light import Light
    from flashwright.recording.running import Running
    from flashwright.runs import Run

_NEXT_S = 60
_FOLDERS_OF_SUDO = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def record_light(
    running: Running, command: Sequence[str], seconds: float | None, out: Path | None, to: Json
) -> None:
    """Count until the end, and say what was counted; leave with the exit code of the command."""
    from flashwright._paths import make_folder
    from flashwright.cli.recorded import default_folder, leave_as, warn_if_never_made
    from flashwright.recording.recorder import check_folder
    from flashwright.reports.light import headline, rows

    folder = out or (None if to.is_only_json else default_folder())
    if folder is not None:
        check_folder(folder)
        make_folder(folder)
    run, code = _counted(running, command, seconds, is_quiet=to.is_only_json)
    if not to.is_only_json:
        print_table([("", "left"), ("", "left")], rows(run.result), str(running.path))
        say(headline(run.result))
        for one in run.result["not_known"]:
            say(f"Not known: {one}.")
    Output(to.json_path, folder).finish(run)
    warn_if_never_made(running)
    if running.path.exists() and _can_be_traced():
        say_next(to, next_command(running, command))
    if code:
        leave_as(command, code, folder)


def _counted(
    running: Running, command: Sequence[str], seconds: float | None, *, is_quiet: bool
) -> tuple[Run, int]:
    """Count, and give the run and the exit code of the command."""
    from flashwright.progress import StoppedError, follow
    from flashwright.recording.command import Command
    from flashwright.recording.light import Light
    from flashwright.runs import Run, command_line, provenance, table
    from flashwright.workloads.supervisor import Supervisor

    with Supervisor() as supervisor:
        started = Command(supervisor, command, is_quiet=is_quiet) if command else None
        code, light = 0, None
        try:
            light = Light(running, None if started is None else started.pid)
            light.begin()
            watch = _Watch(light, started, seconds)
            try:
                follow(watch.label, "", watch, watch.run)
            except StoppedError:
                if seconds is not None or command:
                    say("Stopped before its end; what was counted so far is kept.")
            found = light.end()
        finally:
            if light is not None:
                light.close()
            if started is not None:
                code = started.close()
    result: dict[str, Any] = {
        "recording": light.about(command_line()),
        **found,
        "provenance": provenance(command_line(), [], None),
    }
    run = Run("record", result, {"samples": table(light.columns())})
    return run, 0 if watch.was_stopped else code


class _Watch:
    """Counts until the end, in any thread."""

    def __init__(self, light: Light, command: Command | None, seconds: float | None) -> None:
        self._light, self._command, self._seconds = light, command, seconds
        self._asked_to_end = threading.Event()
        self.was_stopped = False
        """True if we ended the command, so that its exit code says nothing."""

    def label(self) -> str:
        """Say how far it is."""
        written, got = self._light.now
        return f"Counting: {size(written)} by the database, {size(got)} on its device"

    def run(self) -> None:
        if self._command is not None:
            self._command.begin()
        while not self._is_over():
            pause_s = self._light.pause_s
            if self._command is None:
                self._asked_to_end.wait(pause_s)
            elif self._command.has_ended(pause_s):
                return
            self._light.sample()
        if self._command is not None:
            self.was_stopped = True
            self._command.stop()

    def _is_over(self) -> bool:
        if self._asked_to_end.is_set():
            return True
        return self._seconds is not None and self._light.seconds >= self._seconds

    def state(self) -> tuple[int, int]:
        total = 0 if self._seconds is None else round(self._seconds * 1000)
        return round(self._light.seconds * 1000), total

    def cancel(self) -> None:
        self._asked_to_end.set()


def next_command(running: Running, command: Sequence[str]) -> str:
    """Give the command that says whose each byte is: the same, traced, as root."""
    until = ["--", *command] if command else ["--for", f"{_NEXT_S}s"]
    words = ["record", "--database", running.kind, str(running.path), *until]
    if os.geteuid() == 0:
        return shlex.join(["flashwright", *words])
    # sudo looks for programs in folders of its own.
    found = shutil.which("flashwright")
    if found is None or str(Path(found).parent) in _FOLDERS_OF_SUDO:
        found = "flashwright"
    return shlex.join(["sudo", found, *words])


def _can_be_traced() -> bool:
    """Tell whether the kernel has the tracer, as far as we can see."""
    from flashwright.recording.block import is_there
    from flashwright.recording.tracefs import ROOT

    return is_there() if os.geteuid() == 0 else ROOT.is_dir()
