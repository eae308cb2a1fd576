"""Runs benches one after the other, records each if that is asked for, and measures it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from flashwright._core import Cancelled, FlashwrightError, RunError
from flashwright.recording import device as devices
from flashwright.recording.finish import QUEUED, REQUESTS, drop_raw, finish
from flashwright.recording.of_run import RunRecorder
from flashwright.recording.recorder import recorded_bytes
from flashwright.recording.tables import tables_of
from flashwright.reports import write_report
from flashwright.runs import Run, command_line, stack, table
from flashwright.workloads.busy import Busy
from flashwright.workloads.databases.place import Place
from flashwright.workloads.driver import Observer, Unobserved
from flashwright.workloads.measure import LOG_COLUMNS, Windows
from flashwright.workloads.session import Finding, Session
from flashwright.workloads.supervisor import Supervisor

from .cleaning import Cleaner
from .drive import drive_figures
from .grounds import DEFAULT_FOLDER, Made, OnVolume
from .life import life_figures
from .measure import LAYERS, between, called_figures, device_times, layer_figures
from .plan import Bench, Benches

_IN_PATHS = str.maketrans(" /,()", "--___")
_PATIENCE_S = 600.0
"""Hours of runs are not given up because of somebody's recording of minutes."""


@dataclass
class Outcome:
    """Outcome of benches.

    A row and the tables of each run that came to its end, and why they ended early if they did.
    `finding` is that of a single run; it counts even if the run was stopped.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    finding: Finding | None = None
    recording: Run | None = None
    """Recording of a single run, not yet written."""
    recording_error: RunError | None = None
    drive: dict[str, Any] | None = None
    place: dict[str, Any] = field(default_factory=dict)
    is_stopped: bool = False
    error: FlashwrightError | None = None
    violations: list[str] = field(default_factory=list)


class BenchesSession:
    """Runs benches, in any thread; `stop` ends it early, from any other.

    They are run in their order, then in the reverse one, in turn, so that what drifts on a machine
    favours none.
    """

    def __init__(
        self,
        asked: Benches,
        after: Callable[[Outcome], None] = lambda _: None,
        *,
        may_replace: bool = False,
    ) -> None:
        """Do nothing yet; `after` is called after each run, with all that is known by then.

        `may_replace`: recordings that are where new ones go.
        """
        self.asked = asked
        self.current: Session | None = None
        self.number = 0
        self._after = after
        self._may_replace = may_replace
        self._stop = threading.Event()
        rounds = [
            asked.each if number % 2 == 0 else asked.each[::-1]
            for number in range(asked.options.repeat)
        ]
        self.plan = [(number, bench) for number, one in enumerate(rounds) for bench in one]

    def stop(self) -> None:
        """Ask for the end: the run that goes on is given up, and those before it are the result."""
        self._stop.set()
        current = self.current
        if current is not None:
            current.stop()

    def run(self) -> Outcome:
        """Run all. A run that fails ends it, and is named in the outcome, if there is any before.

        Raises:
            InputError: something asked for cannot be.
            RunError: the first run failed.
            Cancelled: it was stopped before the first result.
        """
        kept = self.asked.options.record
        if kept is not None or not self.asked.has_layers:
            return self._run(kept)
        with Supervisor() as supervisor:
            return self._run(_folder_for(self.asked, supervisor))

    def _run(self, recordings: Path | None) -> Outcome:
        outcome = Outcome()
        total = len(self.plan)
        for number, (repeat, bench) in enumerate(self.plan, 1):
            self.number = number
            folder = recordings
            if recordings is not None and total > 1:
                folder = recordings / f"{number:03}-{bench.label.translate(_IN_PATHS)}"
            try:
                self._one(number, repeat, bench, folder, outcome)
            except Cancelled:
                outcome.is_stopped = True
            except FlashwrightError as error:
                if total == 1:
                    raise
                outcome.error = type(error)(f"run {number} of {total}, {bench.label}: {error}")
            if (outcome.is_stopped or outcome.error is not None) and not outcome.rows:
                raise outcome.error or Cancelled("stopped before the first run was over")
            if outcome.is_stopped or outcome.error is not None:
                return outcome
            self._after(outcome)
        return outcome

    def _one(
        self, number: int, repeat: int, bench: Bench, folder: Path | None, outcome: Outcome
    ) -> None:
        if self._stop.is_set():
            raise Cancelled("stopped between two runs")
        load_average = os.getloadavg()[0]
        watch = _Watch(self._recorder(folder), _cleaner(bench))
        self.current = Session(bench.plan, watch)
        # A stop between the check and here found no session to stop.
        if self._stop.is_set():
            raise Cancelled("stopped between two runs")
        finding = self.current.run()
        is_only = len(self.plan) == 1
        if not finding.result.is_complete and not is_only:
            raise Cancelled("stopped within a run")
        apart = {"run": number, "file_system": bench.file_system, "level": bench.level}
        row = {
            **apart,
            "repeat": repeat,
            "is_out_of_place": bench.is_out_of_place,
            "value": bench.value,
            "load_average": load_average,
            "cpu_busy_share": watch.busy.share,
            **watch.of_cleaner(),
            **_of_finding(finding),
        }
        if is_only:
            outcome.finding = finding
        outcome.is_stopped = not finding.result.is_complete
        if watch.recorder is not None and folder is not None:
            watch.recorder.tell(finding.result, finding.checkpoints)
            row |= self._of_recording(folder, row, outcome)
        outcome.rows.append(row)
        outcome.place = finding.place
        for name, columns in _columns(finding, is_logged=self.asked.options.log_transactions):
            made = stack([({} if is_only else apart, table(columns))])
            outcome.tables.setdefault(name, []).append(made)
        where = "" if is_only else f"run {number}, {bench.label}: "
        outcome.violations += [f"{where}{one}" for one in finding.violations or ()]

    def _recorder(self, folder: Path | None) -> RunRecorder | None:
        options = self.asked.options
        if folder is None:
            return None
        folder.parent.mkdir(parents=True, exist_ok=True)
        return RunRecorder(
            folder,
            command_line(),
            max(1, options.trace_buffer // 1024),
            with_path=not options.no_calls,
            keeps_log=options.record is not None and not options.no_log,
            may_replace=self._may_replace,
            patience_s=_PATIENCE_S,
        )

    def _of_recording(self, folder: Path, row: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
        is_kept, is_only = self.asked.options.record is not None, len(self.plan) == 1
        is_empty = recorded_bytes(folder) == 0
        about = Run.read_result(folder).result["recording"]
        recording: Run | None = None
        if is_kept and is_only:
            try:
                recording = outcome.recording = tables_of(folder)
            except RunError as error:
                # Stopped before it was measured, mostly: it stays a run that was stopped.
                outcome.recording_error = error
                return {}
        elif not is_empty:
            recording = tables_of(folder) if is_kept else finish(folder)
        if recording is not None:
            about = recording.result["recording"]
        found = self._figures(recording, about, row, outcome)
        if not is_kept:
            shutil.rmtree(folder)
        elif recording is not None and not is_only:
            keep(recording, folder, keep_raw=self.asked.options.keep_raw)
        return found

    def _figures(
        self,
        recording: Run | None,
        about: Mapping[str, Any],
        row: dict[str, Any],
        outcome: Outcome,
    ) -> dict[str, Any]:
        traces = {} if recording is None else recording.table_files
        files = {"queued": traces.get(QUEUED), "issued": traces.get(REQUESTS)}
        seconds, transactions = about["seconds"], row["transactions"]
        found: dict[str, Any] = {
            "recorded_seconds": seconds,
            "lost_events": about.get("lost_events"),
        }
        for layer in LAYERS:
            found |= layer_figures(layer, files[layer], seconds, transactions)
        found |= device_times(files["issued"])
        if recording is not None:
            found |= called_figures(recording, seconds, transactions)
        drive, life = self.asked.drive, self.asked.life
        if drive is not None:
            fitted = drive.drive_for(about["device"]["size_bytes"])
            outcome.drive = drive.document(fitted)
            found |= drive_figures(drive, fitted, files["issued"], {**row, **found})
        found |= between(found)
        own = None if drive is None else drive.own
        return found | life_figures({**row, **found}, own, life.cycles, life.guaranteed_bytes)


def keep(recording: Run, folder: Path, *, keep_raw: bool) -> None:
    """Write a recording into its folder, with its report."""
    recording.write(folder)
    write_report(folder)
    if not keep_raw:
        drop_raw(folder)


def _folder_for(asked: Benches, supervisor: Supervisor) -> Path:
    """Give a folder for recordings that do not stay, never on the device that is recorded."""
    ground = asked.each[0].ground
    beside = ground.folder if isinstance(ground, OnVolume) else DEFAULT_FOLDER
    return supervisor.folder(beside, "flashwright-bench-") / "recording"


def _cleaner(bench: Bench) -> Cleaner | None:
    ground = bench.ground
    if not isinstance(ground, Made) or ground.clean is None:
        return None
    return Cleaner(ground.file_system, ground.clean)


class _Watch(Unobserved):
    """Hears of a run for all that look at it: what records it, and what cleans its file system.

    Sees also how busy the machine's processors were in it.
    """

    def __init__(self, recorder: RunRecorder | None, cleaner: Cleaner | None) -> None:
        self.recorder = recorder
        self._to: Observer = recorder or Unobserved()
        self._cleaner = cleaner
        self.busy = Busy()

    def of_cleaner(self) -> dict[str, Any]:
        """Give what came of cleaning, as columns of a row."""
        cleaner = self._cleaner
        if cleaner is None:
            return {}
        return {
            "cleanings": cleaner.done,
            "cleanings_failed": cleaner.failed,
            "cleaning_seconds": cleaner.busy_seconds,
            "cleaning_error": cleaner.first_error or None,
        }

    def database_ready(self, place: Place, supervisor: Supervisor) -> None:
        """See `Observer`."""
        self._to.database_ready(place, supervisor)
        if self._cleaner is not None:
            self._cleaner.prepare(supervisor, devices.mount_of(place.files()[0])[0])

    def warming_up(self, windows: Windows) -> None:
        """See `Observer`."""
        self._to.warming_up(windows)

    def measurement_begins(self, at_ns: int) -> None:
        """See `Observer`."""
        self.busy.begin()
        self._to.measurement_begins(at_ns)
        if self._cleaner is not None:
            self._cleaner.start()

    def has_failed(self) -> bool:
        """See `Observer`."""
        return self._to.has_failed()

    def measurement_ends(self, at_ns: int) -> None:
        """See `Observer`."""
        self._to.measurement_ends(at_ns)
        self.busy.end()
        if self._cleaner is not None:
            self._cleaner.stop()

    def checkpoint(self, begin_ns: int, end_ns: int) -> None:
        """See `Observer`."""
        self._to.checkpoint(begin_ns, end_ns)

    def run_ends(self) -> None:
        """See `Observer`."""
        # Of a run that failed, too: nobody may hold the volume.
        if self._cleaner is not None:
            self._cleaner.stop()
        self._to.run_ends()


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


def _columns(finding: Finding, *, is_logged: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the tables of a run by name."""
    measured = finding.result
    windows = measured.windows
    yield "windows", {**windows, "kind": [str(kind) for kind in windows["kind"]]}
    rows = [
        (str(kind), *found)
        for kind, of_kind in measured.kinds.items()
        for found in of_kind.responses.classes()
    ]
    names = ("kind", "from_ns", "to_ns", "count")
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    yield "responses", dict(zip(names, map(list, columns), strict=True))
    if measured.response_map:
        yield "latency_over_time", measured.response_map
    if is_logged and measured.transactions_log:
        yield "transactions", {name: measured.transactions_log[name] for name in LOG_COLUMNS}
