"""The demo's own recording: TPC-C on SQLite, on a volume of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from flashwright._core import InputError, RunError
from flashwright.benches.grounds import DEFAULT_FOLDER

FOLDER = Path("runs") / "demo-recording"
_CLIENTS = 2
_WAREHOUSES = 3
_THINK_TIME = "2ms"
"""Between a client's transactions: without it, SQLite would write more than ten gigabytes in a
minute.
"""
_VOLUME_BYTES = 1 << 30
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


def record(seconds: float) -> tuple[Path, str]:
    """Record a run; give the folder of the recording, and a sentence on what was recorded.

    Raises:
        InputError: it cannot be recorded here after all.
        RunError: the run failed.
        StoppedError: Ctrl-C.
    """
    from flashwright._text import count
    from flashwright.benches.options import BenchOptions
    from flashwright.benches.plan import Benches
    from flashwright.benches.progress import follow_benches
    from flashwright.benches.session import BenchesSession, keep

    options = BenchOptions(
        (f"tpcc(scale={_WAREHOUSES}, think_time={_THINK_TIME})",),
        on=(f"volume(ext4, size={_VOLUME_BYTES})",),
        clients=(_CLIENTS,),
        duration=seconds,
        record=FOLDER,
    )
    outcome = follow_benches(BenchesSession(Benches.of(options), may_replace=True))
    run, finding = outcome.recording, outcome.finding
    if outcome.violations:
        raise RunError(f"the database is not consistent: {outcome.violations[0]}")
    if run is None or finding is None:
        raise outcome.recording_error or RunError("nothing was recorded")
    keep(run, FOLDER, keep_raw=False)
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
