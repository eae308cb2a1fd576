"""`flashwright record`: what a device gets while something runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError
from flashwright.cli.lists import Listed
from flashwright.cli.options import SIZE, all_of, argument, duration, option, options
from flashwright.cli.output import Json
from flashwright.cli.outputs import OutFolder
from flashwright.cli.recorded import conclude, default_folder, leave_as, warn_if_never_made
from flashwright.runs import command_line
from flashwright.terminal import say

if TYPE_CHECKING:
    from flashwright.recording.of_running import RunningRecorder
    from flashwright.recording.recorder import Recorder
    from flashwright.recording.running import Running
    from flashwright.workloads.supervisor import Supervisor

_POLL_S = 0.05
_PATIENCE_S = 10.0


MEMORY = Path("/dev/shm")  # noqa: S108


def folder_for(target: Path, to: Json) -> Path:
    """Give the default folder, or one in memory where that would lie on the recorded device."""
    from flashwright.recording import device
    from flashwright.recording.recorder import is_on
    from flashwright.recording.tools import need_root

    need_root("recording what the kernel does")
    folder = default_folder()
    if not MEMORY.is_dir() or not is_on(Path.cwd(), device.find(target)):
        return folder
    in_memory = MEMORY / "flashwright" / folder.name
    to.say(
        f"{folder} would lie on the device that is recorded. The recording goes to {in_memory}, "
        "which is in memory: move it before the next restart."
    )
    return in_memory


@click.command(short_help="Record what a device gets while something runs.")
@options
def record(
    *,
    target: Path | None = argument(type=click.Path(path_type=Path, readable=False), required=False),
    command: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED),
    seconds: float | None = option(
        "Stop after this time, such as 90s or 2m.  [default: Ctrl-C stops]",
        "--seconds",
        "--for",
        type=duration(is_open=True),
    ),
    out: Path | None = option(
        "The folder of the recording, on another device than TARGET.  [default: runs/record-TIME]",
        type=OutFolder(is_recording=True),
        metavar="DIR",
    ),
    buffer_bytes: int = option(
        "The kernel's buffer for each processor: larger if events are lost.",
        "--trace-buffer",
        type=SIZE,
        default="16M",
    ),
    tracer: str = option(
        "ftrace: the kernel's blk tracer; blktrace: blktrace(8); auto: the first if the kernel "
        "has it.",
        type=click.Choice(["auto", "ftrace", "blktrace"]),
        default="auto",
    ),
    keep_raw: bool = option(
        "Keep the kernel's own stream, which blkparse reads, beside the tables."
    ),
    check: bool = option("Compare every request with what blkparse reads in the same stream."),
    database: tuple[str, Path] | None = option(
        "Record also the calls of a database that runs already, and where its files lie: "
        "`postgres` and its data directory, `sqlite` and its file, or `files` and a folder or file "
        "of any program. The device below them is recorded.",
        type=(
            click.Choice(["postgres", "sqlite", "files"]),
            click.Path(path_type=Path, readable=False),
        ),
        metavar="KIND PATH",
    ),
    pids: tuple[int, ...] = option(
        "With --database: record this process, too, with its children. a,b or again for each.",
        "--pid",
        type=click.IntRange(1),
        cls=Listed,
        metavar="PID",
    ),
    no_log: bool = option(
        "With --database postgres: do not keep the server's log of that time, from which "
        "`flashwright.postgres_what_if` says what other settings would have written."
    ),
    light: bool = option(
        "With --database: a first look, without root and without tracing. Counters of the kernel, "
        "of the server and of the drive: what the database wrote, what its device got, and which "
        "share of that may be others'."
    ),
    to_finish: Path | None = option(
        "Make the tables of a recording that was killed.",
        "--finish",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        metavar="DIR",
    ),
    to: Json = all_of(Json),
) -> None:
    """Record the requests of TARGET: a block device, or a folder, of which the device below its
    file system is taken.

    Recorded is what the file system queues, and what the device gets after merging and splitting,
    with its latencies; by the kernel's ftrace `blk` tracer, which needs root and nothing else. It
    ends with COMMAND if one is given, after --seconds, or with Ctrl-C. Events that the kernel had
    to drop are counted and reported.

    With --database there is no TARGET: the device below the database is recorded, and beside it the
    system calls of its processes, also of those that come to its files later. `waterfall` then says
    who amplifies what, as for `bench --record`.

    With --light nothing is traced, and no root is needed: /proc says what processes write and what
    the disk got, the server what it counts itself (pg_stat_wal, pg_stat_io), and the drive's SMART,
    where it may be read (root, and smartctl or nvme), what it has written to flash, its endurance,
    and the mean volume of a day. Whose each byte is, only tracing says: there is a range instead.

    With COMMAND its exit code is this command's, too; the database's file may be one that it makes.

    \b
    Examples:
      flashwright record --database postgres /var/lib/postgresql/15/main --light --for 2m
      flashwright record --database sqlite new.db --light -- ./app
      flashwright record /dev/sdb --seconds 60
      flashwright record --database postgres /var/lib/postgresql/15/main --seconds 60
      flashwright record --database sqlite app.db --out /dev/shm/app -- ./app --once
      flashwright record --database files /srv/store --pid 4711
      flashwright record /var/lib/postgresql -- pgbench -c 8 -T 60 bench
      flashwright bench tpcc --db postgres --record runs/tpcc
          (a benchmark with its database, on a volume of its own)
      flashwright play runs/tpcc --on samsung-mcbqe32g
    """  # noqa: D205
    if to_finish is not None:
        if target is not None:
            raise InputError("--finish takes a recording that is there: give no TARGET")
        conclude(to_finish, keep_raw=keep_raw, check=check, to=to)
        return
    if database is not None and target is not None:
        # Without a TARGET what follows is the command.
        command = (str(target), *command)
    if light:
        _check_light(database, is_traced=keep_raw or check)
    if no_log and (light or database is None or database[0] != "postgres"):
        raise click.UsageError("--no-log: only of --database postgres, traced, a log is kept")
    running = running_database(database, pids, command, needs_root=not light)
    if light and running is not None:
        from flashwright.cli.record_light import record_light

        record_light(running, command, seconds, out, to)
        return
    if running is not None:
        target = running.place
    if target is None:
        raise InputError(
            "what is to be recorded? Give a block device or a folder; see `flashwright record "
            "--help`"
        )
    folder = out or folder_for(target, to)
    code = record_to_end(
        target,
        command,
        seconds,
        folder,
        {"tracer": tracer, "buffer_kib": max(1, buffer_bytes // 1024)},
        running,
        keeps_log=not no_log,
        is_quiet=to.is_only_json,
    )
    conclude(folder, keep_raw=keep_raw, check=check, to=to)
    warn_if_never_made(running)
    if code:
        leave_as(command, code, folder)


def _check_light(database: tuple[str, Path] | None, *, is_traced: bool) -> None:
    if database is None:
        raise click.UsageError(
            "--light: it counts what a database writes: name it by --database KIND PATH"
        )
    if is_traced:
        raise click.UsageError("--light: nothing is traced, so there is no --keep-raw and --check")


def running_database(
    database: tuple[str, Path] | None,
    pids: tuple[int, ...],
    command: Sequence[str],
    *,
    needs_root: bool,
) -> Running | None:
    """Give the database that is to be recorded, if one is."""
    if database is None:
        if pids:
            raise click.UsageError("--pid: it is of --database, which says what the files are")
        return None
    from flashwright.recording.running import Running
    from flashwright.recording.tools import need_root

    if needs_root:
        need_root("recording what the kernel does (a first look without root: --light)")
    return Running.find(*database, pids, is_made_by_command=bool(command))


def record_to_end(
    target: Path,
    command: Sequence[str],
    seconds: float | None,
    folder: Path,
    how: dict[str, Any],
    running: Running | None,
    *,
    keeps_log: bool,
    is_quiet: bool,
) -> int:
    """Record until the end; give the exit code of the command."""
    from flashwright.progress import StoppedError, follow
    from flashwright.recording import device, tracefs
    from flashwright.recording.of_running import recorded
    from flashwright.recording.recorder import Recorder
    from flashwright.recording.tools import need_root
    from flashwright.workloads.supervisor import Supervisor

    need_root("recording what the kernel does")
    found = device.find(target)
    with Supervisor() as supervisor:
        recorder = Recorder(
            supervisor, found, folder, command=command_line(), patience_s=_PATIENCE_S, **how
        )
        if tracefs.is_busy():
            click.echo(
                f"Another recording goes on: waiting up to {_PATIENCE_S:.0f} s for its end.",
                err=True,
            )
        with recorded(supervisor, recorder, running, keeps_log=keeps_log) as way:
            watch = _Watch(supervisor, recorder, way, command, seconds, is_quiet=is_quiet)
            try:
                follow(
                    lambda: f"Recording {found.path}: {watch.events():,} events",
                    "",
                    watch,
                    watch.run,
                )
            except StoppedError:
                # Ctrl-C is how a recording without an end ends; with one, what was recorded so far
                # is kept all the same.
                if seconds is not None or command:
                    say("Stopped before its end; what was recorded so far is kept.")
    return watch.code


class _Watch:
    """Waits for the end of a recording, in any thread."""

    def __init__(
        self,
        supervisor: Supervisor,
        recorder: Recorder,
        way: RunningRecorder | None,
        command: Sequence[str],
        seconds: float | None,
        *,
        is_quiet: bool,
    ) -> None:
        self._supervisor, self._way = supervisor, way
        self._recorder, self._command, self._seconds = recorder, command, seconds
        self._is_quiet = is_quiet
        self._stopped = False
        self.code = 0

    def events(self) -> int:
        """Give the number of events."""
        return self._recorder.events

    def run(self) -> None:
        if self._command:
            self._run_command()
            return
        while not self._is_over():
            time.sleep(_POLL_S)

    def _is_over(self) -> bool:
        if self._stopped or self._recorder.has_failed:
            return True
        if self._way is not None and self._way.has_failed:
            return True
        return self._seconds is not None and self._recorder.seconds >= self._seconds

    def _run_command(self) -> None:
        from flashwright.recording.command import Command

        command = Command(self._supervisor, self._command, is_quiet=self._is_quiet)
        try:
            if self._way is not None:
                self._way.add(command.pid)
            command.begin()
            while not self._is_over() and not command.has_ended(_POLL_S):
                pass
        finally:
            is_over = self._is_over()
            code = command.close()
        self.code = 0 if is_over else code

    def state(self) -> tuple[int, int]:
        total = 0 if self._seconds is None else round(self._seconds * 1000)
        return round(self._recorder.seconds * 1000), total

    def cancel(self) -> None:
        self._stopped = True
