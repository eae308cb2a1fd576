"""The demo's own recording: TPC-C on SQLite, on a volume of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from flashwright._core import InputError, RunError
from flashwright.cli.run_plan import DEFAULT_FOLDER

FOLDER = Path("runs") / "demo-recording"
_CLIENTS = 2
_WAREHOUSES = 3
_THINK_SECONDS = 0.002
"""Between a client's transactions: without it, SQLite would write more than ten gigabytes in a
minute.
"""
_VOLUME_BYTES = 1 << 30
_BUFFER_KIB = 65_536
DATA_PAGES = "data_pages.parquet"


def why_not() -> str:
    """Say why nothing can be recorded here; nothing if it can."""
    from flashwright.recording import block, tools

    try:
        tools.need_root("recording what the kernel does")
        for program in ("losetup", "mkfs.ext4", "mount", "umount"):
            tools.need(program)
    except InputError as error:
        return str(error)
    if not block.is_there():
        return (
            "this kernel has no blk tracer (CONFIG_BLK_DEV_IO_TRACE), or tracefs cannot be mounted"
        )
    if shutil.disk_usage(DEFAULT_FOLDER).free < 2 * _VOLUME_BYTES:
        return f"{DEFAULT_FOLDER} has less than {2 * _VOLUME_BYTES >> 30} GiB free"
    return ""


def record(seconds: float, command: list[str]) -> tuple[Path, str]:
    """Record a run; give the folder of the recording, and a sentence on what was recorded.

    Raises:
        InputError: it cannot be recorded here after all.
        RunError: the run failed.
        StoppedError: Ctrl-C.
    """
    from flashwright._text import count
    from flashwright.cli.run_progress import follow_session
    from flashwright.recording.finish import drop_raw
    from flashwright.recording.of_run import RunRecorder
    from flashwright.recording.tables import tables_of
    from flashwright.recording.volume import VolumePlan
    from flashwright.reports import write_report
    from flashwright.workloads import registry
    from flashwright.workloads.databases.place import Settings
    from flashwright.workloads.driver import RunConfig
    from flashwright.workloads.session import BenchPlan, Session

    workload, given = registry.find(f"tpcc(warehouses={_WAREHOUSES})")
    load = workload.load(given, None)
    config = RunConfig(_CLIENTS, seconds, think_seconds=_THINK_SECONDS)
    ground = VolumePlan("ext4", _VOLUME_BYTES)
    recorder = RunRecorder(FOLDER, command, _BUFFER_KIB, may_replace=True)
    session = Session(
        BenchPlan(workload, load, "sqlite", Settings(), config, DEFAULT_FOLDER, ground=ground),
        recorder,
    )
    finding = follow_session(session)
    if finding.violations:
        raise RunError(f"the database is not consistent: {finding.violations[0]}")
    recorder.tell(finding.result.transactions_log, finding.checkpoints)
    run = tables_of(FOLDER)
    run.write(FOLDER)
    write_report(FOLDER)
    drop_raw(FOLDER)
    lost = run.result["recording"]["lost_events"]
    holes = f" {count(lost)} events were lost." if lost else ""
    return FOLDER, (
        f"TPC-C on {finding.place['version']}, {_WAREHOUSES} warehouses and {_CLIENTS} clients: "
        f"{count(finding.result.transactions)} transactions in {round(finding.result.seconds)} s, "
        f"recorded just now below the file system.{holes}"
    )


def write_data_pages(folder: Path) -> Path:
    """Write the recording without the logs, and give the path of that trace.

    The logs are those of database and file system. Models of independent updates hold for data
    pages; those of a log die in order.
    """
    from flashwright.recording.parts import LOGS, write_without

    write_without(folder, LOGS, folder / DATA_PAGES)
    return folder / DATA_PAGES
