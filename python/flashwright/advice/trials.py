"""A database on a mounted volume over an emulated drive: what it reaches, what its flash takes.

A trial without layers runs on a volume of none, so that what is compared with it differs in one
thing: the way through FUSE, loop device and file system is the same.

What need not wait for the drive does not: the database is made, filled and checked with the volume
mounted over the file that holds the drive's bytes. Between, the volume is mounted over the drive,
on the wall clock, and the load runs. The drive begins in its state (`filled`, `aged`), as if the
filling had been a part of what brought it there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec

from flashwright import _core
from flashwright._core import Cancelled, InputError, RunError, __version__
from flashwright.benches.session import keep
from flashwright.devices import DriveProfile
from flashwright.recording.block import BUFFER_KIB
from flashwright.recording.of_run import RunRecorder
from flashwright.recording.recorder import check_folder
from flashwright.recording.tables import tables_of
from flashwright.recording.tools import need, tool
from flashwright.runs import command_line, git_revision, plain
from flashwright.volumes.metrics import Between
from flashwright.volumes.places import Mounted
from flashwright.workloads import session
from flashwright.workloads.driver import RunConfig
from flashwright.workloads.measure import Histogram, RunResult
from flashwright.workloads.session import BenchPlan
from flashwright.workloads.supervisor import Supervisor

from .own_commands import CommandLoad, OwnCommand, about
from .trial_loads import BenchLoad, Ran, Say, TrialLoad, Watch, plan_of, with_log_on
from .trial_volumes import Volume, cleanings, use_up_logs

WITHOUT_LAYERS = "direct"
OPTIONS = "noatime"
"""Mount options, if no others are given."""
_STATES = ("fresh", "filled", "aged")


@dataclass(frozen=True)
class Drive:
    """An emulated drive: a profile, cut down so that it is filled and cleans sooner."""

    profile: str
    size_bytes: int
    state: str = "filled"
    overrides: tuple[str, ...] = ()
    """Keys of the profile, as `key=value`."""

    def check(self) -> None:
        """Refuse what is no drive.

        Raises:
            InputError: there is no such profile, key, state or size.
        """
        if self.state not in _STATES:
            raise InputError(f"{self.state}: a drive is one of {', '.join(_STATES)}")
        if self.overrides:
            DriveProfile.load(self.profile, self.overrides)
        _core.check_free(
            f"emulated(profile={self.profile},size={self.size_bytes},state={self.state})"
        )

    def device(self, data: Path, seed: int) -> str:
        """Give the device whose bytes are in `data`, beside which its profile may be written."""
        profile = self.profile
        if self.overrides:
            path = data.with_name(f"{data.name}.toml")
            path.write_text(DriveProfile.load(profile, self.overrides).toml, encoding="utf-8")
            profile = str(path)
        given = f"size={self.size_bytes},state={self.state},data={data},seed={seed}"
        return f"emulated(profile={profile},{given})"


@dataclass(frozen=True)
class Trial:
    """A load on a database on a drive, with all that decides on what comes of it."""

    drive: Drive
    workload: str | OwnCommand
    """As in `flashwright bench`; or a command of one's own on a copy of its data, which says itself
    what database it is, and how many clients for how long: those fields are of workloads."""
    database: str = "postgres"
    """As in `flashwright bench`."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the database over that: names of postgresql.conf, or pragmas of SQLite."""
    stack: str | None = None
    """Layers over the drive; None for none."""
    log_drive: Drive | None = None
    """A second drive for the database's log; PostgreSQL alone."""
    mount_options: str = OPTIONS
    is_trimmed: bool = False
    """True if the drive is told what the file system does not use before the load runs on it, as
    if it had always been mounted with `discard`."""
    clients: int = 1
    seconds: float = 60.0
    """Time that is measured, after the warm-up."""
    warm_up: float = 15.0
    seed: int = 1

    def check(self) -> None:
        """Refuse what cannot be, as far as that is known before anything is made.

        Raises:
            InputError: it says what, and what would be right.
        """
        self.drive.check()
        if self.log_drive is not None:
            self.log_drive.check()
        if isinstance(self.workload, OwnCommand):
            self.workload.check(self.settings, self.drive.size_bytes)
        else:
            self.plan(self.workload, Path("db"), None if self.log_drive is None else Path("log"))

    def plan(self, workload: str, on: Path, log: Path | None, *, keeps: bool = False) -> BenchPlan:
        """Give the plan that puts a workload's database into `on`, and its log into `log`.

        `keeps`: every transaction's begin and end.

        Raises:
            InputError: as `check`.
        """
        try:
            config = RunConfig(
                self.clients,
                self.seconds,
                warm_up_seconds=self.warm_up,
                seed=self.seed,
                keep_transactions=keeps,
            )
        except ValueError as error:
            raise InputError(str(error)) from error
        plan = plan_of(workload, self.database, self.settings, config, on)
        if log is None:
            return plan
        return BenchPlan(
            plan.workload, plan.load, with_log_on(plan.database, log), config, plan.ground
        )

    def document(self) -> dict[str, Any]:
        """Give it as JSON holds it."""
        workload = self.workload
        said = workload if isinstance(workload, str) else about(workload)
        found: dict[str, Any] = plain({**asdict(self), "workload": said})
        return found

    @staticmethod
    def of_document(document: Mapping[str, Any]) -> Trial:
        """Read what `document` gave; other keys are left aside."""
        names = {one.name for one in fields(Trial)}
        return msgspec.convert({key: document[key] for key in document if key in names}, Trial)

    @property
    def recording_key(self) -> str:
        """Name of a recording of it, by any build of a version."""
        said = [__version__, "recording", self.document()]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class DriveWork:
    """What a drive did while it was measured."""

    host_bytes: int
    """Written to it."""
    flash_bytes: int
    """Programmed by it, for whatever reason: data, relocation, mapping."""
    erases: int
    flushes: int
    trimmed_bytes: int

    @staticmethod
    def of(between: Between) -> DriveWork:
        """Read it from the metrics of a volume.

        What the drive holds in its own buffer at begin and end is not told apart: it is a part of
        the flash bytes when it is programmed.

        Raises:
            RunError: the drive has no flash.
        """
        page_bytes = between.now.get("flash_page_bytes")
        if page_bytes is None:
            raise RunError("the drive tells nothing of its flash; right would be a profile of one")
        return DriveWork(
            round(between.grown("volume_device_bytes_total", op="write")),
            round(between.grown("flash_page_programs_total") * page_bytes),
            round(between.grown("flash_erases_total")),
            round(between.grown("volume_devices_total", op="flush")),
            round(between.grown("volume_device_bytes_total", op="trim")),
        )


@dataclass(frozen=True)
class Measured:
    """What was measured in a trial."""

    transactions: int
    seconds: float
    commits: int
    """Transactions that write, as far as their times were seen: not those of one's own command."""
    p50_seconds: float | None
    """Of the time that those took, conflicts included; None if there were none."""
    p99_seconds: float | None
    p999_seconds: float | None
    asked_bytes: int
    """Written by file systems to their volumes."""
    drive: DriveWork
    log_drive: DriveWork | None = None
    busy_share: float | None = None
    """Share of the machine's processors that were at work, 0 to 1: near 1 they are the limit."""
    checks: tuple[str, ...] = ()
    """What looked at database and volumes afterwards, and found them whole."""
    revision: str | None = None
    """Of the program that measured it."""

    @property
    def is_whole(self) -> bool:
        """True if it was looked at afterwards: what is not whole is an error."""
        return bool(self.checks)

    @property
    def per_second(self) -> float:
        """Transactions a second."""
        return self.transactions / self.seconds

    @property
    def host_bytes(self) -> int:
        """Bytes written to both drives."""
        return self.drive.host_bytes + (self.log_drive.host_bytes if self.log_drive else 0)

    @property
    def flash_bytes(self) -> int:
        """Bytes programmed by both drives."""
        return self.drive.flash_bytes + (self.log_drive.flash_bytes if self.log_drive else 0)

    @property
    def erases(self) -> int:
        """Erase blocks that both drives erased."""
        return self.drive.erases + (self.log_drive.erases if self.log_drive else 0)

    @property
    def flash_bytes_per_transaction(self) -> float | None:
        """None if there was no transaction."""
        return self.flash_bytes / self.transactions if self.transactions else None

    def document(self) -> dict[str, Any]:
        """Give it as JSON holds it, in one row: `drive_flushes` is `flushes` of `drive`."""
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, DriveWork):
                found |= {f"{name}_{key}": one for key, one in vars(value).items()}
            else:
                found[name] = "; ".join(value) if isinstance(value, tuple) else value
        return found

    @staticmethod
    def of_document(document: Mapping[str, Any]) -> Measured:
        """Read what `document` gave."""

        def work(name: str) -> DriveWork:
            return DriveWork(
                **{one.name: document[f"{name}_{one.name}"] for one in fields(DriveWork)}
            )

        own = {one.name: document[one.name] for one in fields(Measured) if one.name in document}
        own |= {"drive": work("drive"), "checks": tuple(document["checks"].split("; "))}
        if "log_drive" not in document:
            own["log_drive"] = work("log_drive")
        return Measured(**own)


@dataclass(frozen=True)
class Outcome:
    """All that came of a trial."""

    ran: Ran
    betweens: tuple[Between, ...]
    """The volumes during the measurement: the database's, and that of its log."""
    checks: tuple[str, ...]
    """Programs that checked the database and the volume afterwards, and found no damage."""
    busy_share: float | None = None

    @property
    def result(self) -> RunResult:
        """What the clients saw."""
        return self.ran.result

    @property
    def between(self) -> Between:
        """The database's volume during the measurement."""
        return self.betweens[0]

    @property
    def cleanings(self) -> int | None:
        """Segments that logs freed meanwhile; None if there is no log."""
        return cleanings(self.between)

    def measured(self) -> Measured:
        """Give the figures.

        Raises:
            RunError: the drive has no flash.
        """
        writers = Histogram()
        for kind, found in self.result.kinds.items():
            if kind not in self.ran.readers:
                writers.merge(found.responses)
        times = [writers.quantile_ns(share) for share in (0.5, 0.99, 0.999)]
        p50, p99, p999 = (None if ns is None else ns / 1e9 for ns in times)
        works = [DriveWork.of(one) for one in self.betweens]
        asked = "volume_request_bytes_total"
        return Measured(
            self.result.transactions,
            self.result.seconds,
            writers.count,
            *(p50, p99, p999),
            round(sum(one.grown(asked, op="write") for one in self.betweens)),
            works[0],
            works[1] if len(works) > 1 else None,
            self.busy_share,
            self.checks,
            git_revision(),
        )


@dataclass
class _Run:
    """A trial, step by step."""

    trial: Trial
    volumes: list[Volume]
    load: TrialLoad
    recorder: RunRecorder | None
    say: Say
    stop: threading.Event

    @staticmethod
    def of(
        trial: Trial,
        own: Path,
        supervisor: Supervisor,
        record_to: Path | None,
        say: Say,
        stop: threading.Event,
    ) -> _Run:
        """Put it together in a folder of its own."""

        def volume(drive: Drive, data: Path, directory: Path, stack: str) -> Volume:
            device = drive.device(data, trial.seed)
            options = trial.mount_options
            return Volume(device, data, directory, stack, options, trial.seed, supervisor)

        stack = trial.stack or WITHOUT_LAYERS
        volumes = [volume(trial.drive, own / "drive", own / "mount", stack)]
        log = None
        if trial.log_drive is not None:
            log = own / "log"
            volumes.append(volume(trial.log_drive, own / "log_drive", log, WITHOUT_LAYERS))
        base = own / "mount" / "db"
        load: TrialLoad
        if isinstance(trial.workload, OwnCommand):
            load = CommandLoad.of(trial.workload, trial.settings, base, log, supervisor, say, stop)
        else:
            plan = trial.plan(trial.workload, base, log, keeps=record_to is not None)
            load = BenchLoad.of(plan, base, supervisor, say, stop)
        recorder = None
        if record_to is not None:
            recorder = RunRecorder(record_to, command_line(), BUFFER_KIB)
        return _Run(trial, volumes, load, recorder, say, stop)

    @contextlib.contextmanager
    def _mounted(self, *, on_drive: bool) -> Iterator[list[Mounted]]:
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(volume.mounted(on_drive=on_drive)) for volume in self.volumes
            ]

    def play(self) -> Outcome:
        """See `play`."""
        for one in self.volumes:
            one.make()
        with self._mounted(on_drive=False) as mounted:
            self.load.fill()
            use_up_logs(mounted[0], self.say)
        self.say("opening the volume over the drive")
        with self._mounted(on_drive=True) as mounted:
            if self.trial.is_trimmed:
                for volume in self.volumes:
                    tool("fstrim", volume.directory)
            watch = Watch(
                [one.place.control for one in mounted],
                self.recorder,
                has_warm_up=self.trial.warm_up > 0 and isinstance(self.trial.workload, str),
            )
            try:
                ran = self.load.measure(watch)
            finally:
                watch.run_ends()
            self.say("closing the volume")
        with self._mounted(on_drive=False):
            self.say("checking the database")
            checks = self.load.check()
        self.say("reading all of the volume")
        for one in self.volumes:
            one.check()
        return Outcome(
            ran,
            tuple(watch.between()),
            (*checks, "volume info --check"),
            watch.busy.share,
        )


def play(
    trial: Trial,
    folder: Path,
    say: Say = lambda _: None,
    stop: threading.Event | None = None,
    record_to: Path | None = None,
) -> Outcome:
    """Make the volume, run the load on it, check all, and leave nothing.

    `folder` is where the drives' bytes are kept meanwhile. Once `stop` is set, what was measured
    until then is the outcome, which is checked as any. `record_to` is where the run is recorded, as
    `flashwright bench --record` does: what the kernel sends to the loop device of the database's
    volume, which is what its drive gets if there are no layers. Recording costs some speed.

    Raises:
        InputError: no root, a program is missing, or the stack does not fit on the drive.
        RunError: something is not whole, or failed.
        Cancelled: it was stopped before anything was measured.
    """
    trial.check()
    if record_to is not None:
        if trial.log_drive is not None:
            raise InputError("one device is recorded: leave the drive of the log out")
        if isinstance(trial.workload, OwnCommand):
            raise InputError(f"{trial.workload}: `flashwright record` records a command")
        check_folder(record_to)
    if trial.is_trimmed:
        need("fstrim")
    stop = stop or threading.Event()
    with Supervisor() as supervisor:
        try:
            own = supervisor.folder(folder, "flashwright-")
        except OSError as error:
            raise InputError(f"{folder}: no folder can be made there: {error.strerror}") from error
        run = _Run.of(trial, own, supervisor, record_to, say, stop)
        with session.database_errors():
            outcome = run.play()
    if run.recorder is not None and record_to is not None:
        say("reading the recording")
        _keep(run.recorder, record_to, outcome.ran)
    return outcome


def run(
    trial: Trial,
    folder: Path,
    say: Say = lambda _: None,
    stop: threading.Event | None = None,
    record_to: Path | None = None,
) -> Measured:
    """Do as `play`, and give the figures.

    Raises:
        InputError, RunError: as `play`.
        Cancelled: it was stopped before its end.
    """
    outcome = play(trial, folder, say, stop, record_to)
    if not outcome.result.is_complete:
        raise Cancelled("stopped within a trial")
    return outcome.measured()


def _keep(recorder: RunRecorder, folder: Path, ran: Ran) -> None:
    recorder.tell(ran.result, ran.checkpoints)
    keep(tables_of(folder), folder, keep_raw=False)
