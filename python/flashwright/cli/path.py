"""`flashwright path`.

One benchmark, one thing changed at a time, and what every layer below it writes.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError, RunError
from flashwright.cli.lists import Named, split_names
from flashwright.cli.options import Number, option, takes
from flashwright.cli.output import Output, print_table, say
from flashwright.cli.run_plan import BenchOptions, RunOptions, document_of, lasting, plan_of
from flashwright.cli.run_recorded import RecordOptions, VolumeOptions
from flashwright.runs import command_line

if TYPE_CHECKING:
    from flashwright.path.base import Study, Variant
    from flashwright.path.session import AskedStudy, StudyOutcome, StudySession
    from flashwright.runs import Job, Run

DEFAULT_SECONDS = 15.0
_TERABYTE = 1e12


@dataclass(frozen=True)
class StudyOptions:
    """What a study varies, and what its recordings are played on."""

    file_systems: str | None = option(
        "Run on these.  [default: file_systems takes all there are; the others one in place and "
        "one out of place]",
        metavar="LIST",
    )
    levels: str | None = option(
        "What the study varies, such as 1M,16M for buffers.  [default: see docs/path.md]",
        metavar="LIST",
    )
    repeat: int = option(
        "Run everything so often, each time in the other order; figures are medians, with their "
        "range.",
        type=click.IntRange(1, 100),
        default=1,
    )
    profile: str | None = option(
        "Play each recording on a simulated drive: a profile of `flashwright list profile`, or the "
        "path of a TOML file.",
        "--device",
        type=Named("profile", or_file=True),
        metavar="PROFILE",
    )
    whole_drive: bool = option(
        "With --device: the profile at its own size. Without, it has that of the volume."
    )
    drive_state: str = option(
        "With --device: the drive before the first request.",
        type=click.Choice(["fresh", "loaded", "filled", "aged"]),
        default="filled",
    )
    endurance: float | None = option(
        "Erases that a block stands.  [default: the profile's]", type=Number(1), metavar="CYCLES"
    )
    guaranteed_terabytes: float | None = option(
        "Terabytes (10^12 bytes) that a drive's maker lets be written to it, such as the 2000 of "
        "SCHEDULER table 5.3.",
        "--endurance-tbw",
        type=Number(0, min_open=True),
        metavar="TB",
    )
    keep: bool = option("Keep each run's recording, in DIR/recordings.")


@click.command(
    short_help="File systems, buffers, mixes, schedulers: what of the path amplifies writes."
)
@click.argument("study", type=Named("study"))
@click.argument("workload", type=Named("benchmark"), default="tpcc")
@takes(StudyOptions, "options")
@takes(BenchOptions, "bench", lasting(DEFAULT_SECONDS))
@takes(VolumeOptions, "volume")
@takes(Output, "output")
def path(
    study: str,
    workload: str,
    options: StudyOptions,
    bench: BenchOptions,
    volume: VolumeOptions,
    output: Output,
) -> None:
    """Run WORKLOAD once for each level of STUDY, on a volume of its own each time, record it, and
    compare.

    STUDY is one of `flashwright list study`; WORKLOAD is as for `flashwright run`. Measured are
    transactions, response times, and what the file system queues and the device gets, by the
    kernel's tracer. Needs root. With --device, a simulated drive shows what flash would have to
    write, and how long it would live.

    \b
    Examples:
      flashwright path file_systems
      flashwright path buffers --levels 2M,8M,32M --direct-io --clients 4 --repeat 3
      flashwright path mixes tpcc --file-systems ext4 --device mtron-pro-7500
      flashwright path schedulers --db postgres --clients 4 --duration 30
      flashwright path intervals --db postgres --levels 30,60,120,300,600 --duration 1200
      flashwright path endurance --levels sqlite,postgres --device intel-x25e --endurance-tbw 2000

    Ctrl-C gives up the run that goes on, and keeps those before it.
    """  # noqa: D205
    from flashwright.path.session import StudySession
    from flashwright.progress import StoppedError, follow
    from flashwright.runs import Job
    from flashwright.workloads.supervisor import Supervisor

    if options.keep and output.is_only_json and output.out is None:
        raise InputError("--keep: recordings need a run folder; with --json - give --out DIR")
    asked_for = _Request.read(study, workload, options, bench, volume)
    about = [
        study,
        asked_for.about(),
        options.repeat,
        options.profile,
        [one.label for one in asked_for.variants],
    ]
    drive = asked_for.asked.drive
    job = Job("path", about, seed=None if drive is None else drive.seed)
    folder = output.folder(job)
    if options.keep and folder is not None and any((folder / "recordings").glob("*")):
        raise InputError(
            f"{folder / 'recordings'} holds the recordings of an earlier study; choose another "
            "--out, or remove it"
        )
    keeper = _Keeper(asked_for, job, folder)
    with ExitStack() as stack:
        if options.keep and folder is not None:
            keeper.begin()
            recordings = folder / "recordings"
            recordings.mkdir(exist_ok=True)
        else:
            # Beside the volume's image: never on the device that is recorded.
            recordings = stack.enter_context(Supervisor()).folder(
                asked_for.variants[0].plan.on, "flashwright-path-"
            )
        session = StudySession(asked_for.study, asked_for.variants, asked_for.asked, recordings)
        try:
            outcome = follow(
                lambda: _label(session), "", _Tracker(session), lambda: session.run(keeper.after)
            )
        except StoppedError as stop:
            if stop.result is None:
                raise
            outcome = stop.result
    run = keeper.document(outcome)
    if not output.is_only_json:
        _print(run)
    output.finish(run)
    _tell_end(session, outcome, folder)


def _tell_end(session: StudySession, outcome: StudyOutcome, folder: Path | None) -> None:
    """Raise what ended the study before its end, or what is wrong with what it ran."""
    from flashwright.progress import StoppedError

    if outcome.is_stopped:
        kept = f", which are kept in {folder}" if folder else ""
        raise StoppedError(len(outcome.rows), len(session.plan), f"runs{kept}", None)
    if outcome.error is not None:
        raise outcome.error
    if outcome.violations:
        raise RunError(f"a database is not consistent: {outcome.violations[0]}")


@dataclass(frozen=True)
class _Request:
    """All that was asked for, checked before the first run."""

    study: Study
    variants: list[Variant]
    asked: AskedStudy
    base: dict[str, Any]
    remarks: list[str]

    @staticmethod
    def read(
        study_name: str,
        workload: str,
        options: StudyOptions,
        bench: BenchOptions,
        volume: VolumeOptions,
    ) -> _Request:
        from flashwright.path import registry
        from flashwright.recording.tools import need_root

        study = registry.find(study_name)
        chosen, remarks = registry.file_systems_of(study, split_names(options.file_systems or ""))
        single = RunOptions(**vars(bench), keep=False, wal_on=None, log_transactions=False)
        recorded = RecordOptions(**vars(volume), file_system=chosen[0])
        plan, _, of_plan = plan_of(workload, single, recorded, DEFAULT_SECONDS)
        need_root("flashwright path")
        variants = registry.variants_of(study, plan, chosen, split_names(options.levels or ""))
        asked = _asked(study, options, volume, bench.seed)
        if asked.drive is not None:
            _check_drive(asked, variants)
        intervals = {one.plan.settings.checkpoint_seconds for one in variants} - {
            plan.settings.checkpoint_seconds
        }
        if intervals and study.name != "intervals":
            remarks.append(
                f"PostgreSQL is asked for a checkpoint each {min(filter(None, intervals)):g} s: "
                "--checkpoint chooses."
            )
        return _Request(study, variants, asked, document_of(plan), [*of_plan, *remarks])

    def about(self) -> dict[str, Any]:
        return {
            **self.base,
            "databases": list(dict.fromkeys(one.plan.database for one in self.variants)),
        }


def _asked(study: Study, options: StudyOptions, volume: VolumeOptions, seed: int) -> AskedStudy:
    from flashwright.devices import Device
    from flashwright.path.drive import DrivePlan
    from flashwright.path.session import AskedStudy

    profile, guaranteed = options.profile, options.guaranteed_terabytes
    if profile is None:
        for name in ("whole_drive", "endurance"):
            if getattr(options, name):
                raise InputError(
                    f"--{name.replace('_', '-')}: it is of a simulated drive, so give --device "
                    "PROFILE too"
                )
        if study.needs_life and guaranteed is None:
            raise InputError(
                f"the study {study.name} needs a drive: give --device PROFILE, or --endurance-tbw "
                "TB, or both"
            )
        drive = None
    else:
        drive = DrivePlan(Device.load(profile), options.whole_drive, options.drive_state, seed)
    return AskedStudy(
        repeats=options.repeat,
        command=command_line(),
        buffer_kib=volume.buffer_kib,
        drive=drive,
        endurance_cycles=options.endurance,
        guaranteed_bytes=None if guaranteed is None else guaranteed * _TERABYTE,
        keep=_keep if options.keep else None,
    )


def _check_drive(asked: AskedStudy, variants: list[Variant]) -> None:
    """Refuse a volume that is larger than the drive before hours of running."""
    from flashwright.path.registry import volume_bytes_of

    if asked.drive is not None:
        for one in variants:
            asked.drive.drive_for(volume_bytes_of(one.plan))


def _keep(recording: Run, folder: Path) -> None:
    from flashwright import _core
    from flashwright.recording.finish import QUEUED, REQUESTS, drop_raw
    from flashwright.reports import write_report
    from flashwright.trace_statistics import PICTURES, split

    # Without a progress of its own: the study's goes on.
    result, files = recording.result, recording.table_files
    result["requests"], tables = split(_core.trace_stats(str(files[REQUESTS])))
    result["queued"], _ = split(_core.trace_stats(str(files[QUEUED])))
    result["distributions"] = {
        name: table.to_pydict() for name, table in tables.items() if name not in PICTURES
    }
    recording.tables |= {f"trace_{name}": table for name, table in tables.items()}
    recording.write(folder)
    write_report(folder)
    drop_raw(folder)


class _Keeper:
    """Puts together the run folder, after each run anew: what was measured outlives us."""

    def __init__(self, request: _Request, job: Job, folder: Path | None) -> None:
        self._request, self._job, self._folder = request, job, folder
        self._begun = time.time()

    def begin(self) -> None:
        from flashwright.path.session import StudyOutcome

        if self._folder is not None:
            self.document(StudyOutcome()).write(self._folder)

    def after(self, outcome: StudyOutcome) -> None:
        row = outcome.rows[-1]
        if not sys.stderr.isatty():
            total = self._request.asked.repeats * len(self._request.variants)
            name = f"{row['file_system']} {row['level']}".strip()
            click.echo(
                f"run {row['run']} of {total}: {name}: {row['transactions_per_second']:.1f} "
                "transactions/s",
                err=True,
            )
        if self._folder is not None:
            self.document(outcome).write(self._folder)

    def document(self, outcome: StudyOutcome) -> Run:
        import pyarrow as pa

        from flashwright.path.summary import cells
        from flashwright.workloads.session import versions

        request, total = self._request, self._request.asked.repeats * len(self._request.variants)
        study, asked = request.study, request.asked
        result = {
            "study": {
                "name": study.name,
                "summary": study.summary,
                "source": study.source,
                "axis": asdict(study.axis),
                "is_of_life": study.needs_life,
            },
            **request.about(),
            "database": outcome.place,
            "repeats": asked.repeats,
            "runs": {"done": len(outcome.rows), "of": total},
            "complete": len(outcome.rows) == total,
            "stopped_by": None if outcome.error is None else str(outcome.error),
            "violations": outcome.violations,
            "cells": cells(outcome.rows),
            "drive": outcome.drive,
            "drive_caveats": sorted(
                {row["drive_caveats"] for row in outcome.rows if row.get("drive_caveats")}
            ),
            "life": {
                "endurance_cycles": asked.endurance_cycles,
                "guaranteed_bytes": asked.guaranteed_bytes,
            },
            "machine": machine(),
            "remarks": request.remarks,
            "versions": versions(),
        }
        tables = {}
        if outcome.rows:
            names = dict.fromkeys(name for row in outcome.rows for name in row)
            tables["runs"] = pa.table(
                {name: pa.array([row.get(name) for row in outcome.rows]) for name in names}
            )
            tables["windows"] = pa.concat_tables(outcome.windows, promote_options="permissive")
        return self._job.run(result, tables)


def machine() -> dict[str, Any]:
    """Tell what the figures of this machine depend on."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": model,
        "processors": os.cpu_count(),
        "memory_bytes": memory,
        "kernel": platform.release(),
    }


class _Tracker:
    """Reports the progress of a study: whole runs, and the measured part of the one at work."""

    def __init__(self, session: StudySession) -> None:
        self._session = session

    def state(self) -> tuple[int, int]:
        session, total = self._session, 1000 * len(self._session.plan)
        current = session.current
        passed = 0.0
        if (
            current is not None
            and current.stage.measured_from is not None
            and current.stage.unit == "s"
        ):
            stage = current.stage
            passed = min(
                max(time.monotonic() - (stage.measured_from or 0.0), 0.0) / max(stage.total, 1e-9),
                1.0,
            )
        return round(1000 * (max(session.number - 1, 0) + passed)), total

    def preparation(self) -> tuple[int, int]:
        return 0, 0

    def cancel(self) -> None:
        self._session.stop()


def _label(session: StudySession) -> str:
    if not session.number:
        return "Preparing"
    _, variant = session.plan[session.number - 1]
    stage = "" if session.current is None else f": {session.current.stage.name}"
    return f"Run {session.number} of {len(session.plan)}, {variant.label}{stage}"


def _print(run: Run) -> None:
    from flashwright.reports.path import columns, headline, remarks, rows, title_of

    print_table(columns(run.result), rows(run.result), title_of(run.result))
    for line in (headline(run.result), *remarks(run.result)):
        say(line)
