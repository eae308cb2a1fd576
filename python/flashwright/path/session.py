"""Runs the variants of a study one after the other.

Records each, and measures what was recorded.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from flashwright._core import Cancelled, FlashwrightError
from flashwright.recording import device as devices
from flashwright.recording.finish import QUEUED, REQUESTS, finish
from flashwright.recording.of_run import RunRecorder
from flashwright.recording.recorder import recorded_bytes
from flashwright.runs import Run, table
from flashwright.workloads.databases.place import Place
from flashwright.workloads.session import Finding, Session
from flashwright.workloads.supervisor import Supervisor

from .base import Study, Variant
from .cleaning import Cleaned, Cleaner
from .drive import DrivePlan, drive_figures
from .life import life_figures
from .measure import LAYERS, between, called_figures, device_times, layer_figures

_PATIENCE_S = 600.0
"""A study of hours is not given up because of somebody's recording of minutes."""

Keep = Callable[[Run, Path], None]
"""Writes a finished recording into its folder, with its report."""


@dataclass(frozen=True)
class AskedStudy:
    """What is to be done with the runs of a study beside running them.

    `keep` writes each recording, which is removed if there is none. `endurance_cycles` beats the
    profile's.
    """

    repeats: int
    command: list[str]
    buffer_kib: int
    drive: DrivePlan | None = None
    endurance_cycles: float | None = None
    guaranteed_bytes: float | None = None
    keep: Keep | None = None


@dataclass
class StudyOutcome:
    """What a study found.

    A row and the windows of each run that came to its end, and why it ended early if it did.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    windows: list[pa.Table] = field(default_factory=list)
    drive: dict[str, Any] | None = None
    place: dict[str, Any] = field(default_factory=dict)
    is_stopped: bool = False
    error: FlashwrightError | None = None
    violations: list[str] = field(default_factory=list)


class StudySession:
    """Runs a study, in any thread; `stop` ends it early, from any other.

    `folder` is where recordings lie. Variants are run in their order, then in the reverse one, in
    turn, so that what drifts on a machine favours none.
    """

    def __init__(
        self, study: Study, variants: Sequence[Variant], asked: AskedStudy, folder: Path
    ) -> None:
        self.study = study
        self.asked = asked
        self.current: Session | None = None
        self.number = 0
        self._folder = folder
        self._stop = threading.Event()
        rounds = [
            list(variants) if number % 2 == 0 else list(variants)[::-1]
            for number in range(asked.repeats)
        ]
        self.plan = [(number, variant) for number, one in enumerate(rounds) for variant in one]

    def stop(self) -> None:
        """Ask for the end: the run that goes on is given up, and those before it are the result."""
        self._stop.set()
        current = self.current
        if current is not None:
            current.stop()

    def run(self, after: Callable[[StudyOutcome], None]) -> StudyOutcome:
        """Run all; `after` is called after each run, with all that is known by then.

        A run that fails ends the study, and is named in the outcome, if there is any before it.

        Raises:
            InputError: something asked for cannot be.
            RunError: the first run failed.
            Cancelled: it was stopped before the first result.
        """
        outcome = StudyOutcome()
        for number, (repeat, variant) in enumerate(self.plan, 1):
            self.number = number
            try:
                self._one(number, repeat, variant, outcome)
            except Cancelled:
                outcome.is_stopped = True
            except FlashwrightError as error:
                outcome.error = type(error)(
                    f"run {number} of {len(self.plan)}, {variant.label}: {error}"
                )
            if (outcome.is_stopped or outcome.error is not None) and not outcome.rows:
                raise outcome.error or Cancelled("stopped before the first run was over")
            if outcome.is_stopped or outcome.error is not None:
                return outcome
            after(outcome)
        return outcome

    def _one(self, number: int, repeat: int, variant: Variant, outcome: StudyOutcome) -> None:
        if self._stop.is_set():
            raise Cancelled("stopped between two runs")
        folder = self._folder / f"{number:03}-{variant.label.replace(' ', '-').replace('/', '-')}"
        load_average = os.getloadavg()[0]
        ground = variant.plan.ground
        cleaner = (
            Cleaner(variant.file_system, ground.seconds) if isinstance(ground, Cleaned) else None
        )
        recorder = _Watched(folder, self.asked, cleaner)
        self.current = Session(variant.plan, recorder)
        # A stop between the check and here found no session to stop.
        if self._stop.is_set():
            raise Cancelled("stopped between two runs")
        finding = self.current.run()
        if not finding.result.is_complete:
            raise Cancelled("stopped within a run")
        row = {
            "run": number,
            "repeat": repeat,
            "file_system": variant.file_system,
            "is_out_of_place": variant.is_out_of_place,
            "level": variant.level.name,
            "value": variant.level.value,
            "load_average": load_average,
            "cpu_busy_share": recorder.cpu_busy_share,
            **_of_cleaner(cleaner),
            **_of_finding(finding),
        }
        recorder.tell(finding.result.transactions_log, finding.checkpoints)
        row |= self._of_recording(folder, row, outcome)
        outcome.rows.append(row)
        outcome.place = finding.place
        outcome.windows.append(_windows(number, variant, finding))
        outcome.violations += [
            f"run {number}, {variant.label}: {one}" for one in finding.violations or ()
        ]

    def _of_recording(
        self, folder: Path, row: dict[str, Any], outcome: StudyOutcome
    ) -> dict[str, Any]:
        is_empty = recorded_bytes(folder) == 0
        recording = None if is_empty else finish(folder)
        about = (Run.read_result(folder) if recording is None else recording).result["recording"]
        traces = {} if recording is None else recording.table_files
        files = {"queued": traces.get(QUEUED), "issued": traces.get(REQUESTS)}
        found: dict[str, Any] = {
            "recorded_seconds": about["seconds"],
            "lost_events": about.get("lost_events"),
        }
        for layer in LAYERS:
            found |= layer_figures(layer, files[layer], about["seconds"], row["transactions"])
        found |= device_times(files["issued"])
        if recording is not None:
            found |= called_figures(recording, about["seconds"], row["transactions"])
        drive = self.asked.drive
        if drive is not None:
            fitted = drive.drive_for(about["device"]["size_bytes"])
            outcome.drive = drive.document(fitted)
            found |= drive_figures(drive, fitted, files["issued"], {**row, **found})
        found |= between(found)
        life = (
            None if drive is None else drive.own,
            self.asked.endurance_cycles,
            self.asked.guaranteed_bytes,
        )
        found |= life_figures({**row, **found}, *life)
        if self.asked.keep is not None and recording is not None:
            self.asked.keep(recording, folder)
        else:
            shutil.rmtree(folder)
        return found


class _Watched(RunRecorder):
    """Records a run, and has its file system cleaned, if that is asked for.

    Sees also how busy the machine's processors were in it.
    """

    def __init__(self, folder: Path, asked: AskedStudy, cleaner: Cleaner | None) -> None:
        super().__init__(folder, asked.command, asked.buffer_kib, patience_s=_PATIENCE_S)
        self._cleaner = cleaner
        self._before = self._after = (0, 0)

    @property
    def cpu_busy_share(self) -> float | None:
        """Share of all processors' time, 0 ... 1, in which any process was at work.

        While it was measured.
        """
        total = self._after[1] - self._before[1]
        return (self._after[0] - self._before[0]) / total if total > 0 else None

    def database_ready(self, place: Place, supervisor: Supervisor) -> None:
        """See `Observer`."""
        super().database_ready(place, supervisor)
        if self._cleaner is not None:
            self._cleaner.prepare(supervisor, devices.mount_of(place.files()[0])[0])

    def measurement_begins(self, at_ns: int) -> None:
        """See `Observer`."""
        self._before = _processor_times()
        super().measurement_begins(at_ns)
        if self._cleaner is not None:
            self._cleaner.start()

    def measurement_ends(self, at_ns: int) -> None:
        """See `Observer`."""
        super().measurement_ends(at_ns)
        self._after = _processor_times()
        if self._cleaner is not None:
            self._cleaner.stop()

    def run_ends(self) -> None:
        """See `Observer`."""
        # Of a run that failed, too: nobody may hold the volume.
        if self._cleaner is not None:
            self._cleaner.stop()
        super().run_ends()


def _of_cleaner(cleaner: Cleaner | None) -> dict[str, Any]:
    if cleaner is None:
        return {}
    return {
        "cleanings": cleaner.done,
        "cleanings_failed": cleaner.failed,
        "cleaning_seconds": cleaner.busy_seconds,
        "cleaning_error": cleaner.first_error or None,
    }


def _processor_times() -> tuple[int, int]:
    """Give busy and total time of all processors, in ticks (proc(5), /proc/stat)."""
    words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    ticks = [int(word) for word in words]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def _of_finding(finding: Finding) -> dict[str, Any]:
    measured = finding.result
    checkpoints = [
        one for one in finding.checkpoints if one.get("start_s", 0.0) <= measured.seconds
    ]
    return {
        "transactions": measured.transactions,
        "seconds": measured.seconds,
        "transactions_per_second": measured.transactions_per_second,
        **{f"response_{name}": value for name, value in measured.all_responses.summary().items()},
        "conflicts": sum(kind.conflicts for kind in measured.kinds.values()),
        "checkpoints": len(checkpoints),
        "database_bytes": finding.database_bytes,
        "buffer_bytes": finding.buffer_bytes,
        "load_seconds": finding.load_seconds,
        "is_consistent": None if finding.violations is None else not finding.violations,
    }


def _windows(number: int, variant: Variant, finding: Finding) -> pa.Table:
    columns = {
        **finding.result.windows,
        "kind": [str(kind) for kind in finding.result.windows["kind"]],
    }
    of_run = {"run": number, "file_system": variant.file_system, "level": variant.level.name}
    made = table(columns)
    for place, (name, value) in enumerate(of_run.items()):
        made = made.add_column(
            place, name, pa.array([value] * made.num_rows, pa.scalar(value).type)
        )
    return made
