#!/usr/bin/env python3
"""Records the block requests of TPC-C on PostgreSQL, below ext4, on a loop device.

Needs: Linux with the ftrace `blk` tracer, root, losetup, mkfs.ext4, PostgreSQL's server programs,
blkparse (package blktrace) for the check, and room for the image. Python: flashwright with its
extra `postgres`.

Does: writes an image file, makes ext4 on a loop device over it, loads TPC-C, starts the server anew
with its buffers at a share of the database, runs TPC-C, and writes into OUTPUT
    NAME.blktrace.zst   every request issued and completed, blktrace version 1
    NAME.parquet        the same as one row a request
    NAME.json           how it was recorded, and numbers to compare with
Whatever happens (Ctrl-C and SIGTERM included) it ends with the server stopped, the tracer off, and
the loop device and image gone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pyarrow as pa

from convert import convert, excerpt, verify
from flashwright.recording import file_systems
from flashwright.recording.block import BlockTracer
from flashwright.recording.tools import tool
from flashwright.recording.tracefs import Tracefs
from flashwright.recording.volume import Volume
from flashwright.workloads.databases import backend_config
from flashwright.workloads.databases.memory import MemoryGroup
from flashwright.workloads.databases.server import Server, find_binaries, server_account
from flashwright.workloads.driver import RunConfig, run
from flashwright.workloads.measure import RunResult
from flashwright.workloads.parts import union
from flashwright.workloads.supervisor import Supervisor
from flashwright.workloads.tpcc import MIXES, Scale, TpccLoad, load, mix, violations
from layout import layout

LOAD_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "shared_buffers": "512MB",
    "maintenance_work_mem": "256MB",
    "autovacuum": "off",
}
MIB = 1 << 20


def arguments(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("output", type=Path, help="folder for the recording")
    p.add_argument(
        "--name", default="tpcc_postgres", help="beginning of the file names (%(default)s)"
    )
    p.add_argument("--warehouses", type=int, default=8, help="about 100 MB each (%(default)s)")
    p.add_argument("--clients", type=int, default=2, help="client processes (%(default)s)")
    p.add_argument("--mix", choices=MIXES, default="standard", help="transaction mix (%(default)s)")
    p.add_argument(
        "--seconds", type=float, default=1200, help="length of the recording (%(default)s)"
    )
    p.add_argument(
        "--warm-up-seconds",
        type=float,
        default=60,
        help="run before it, not recorded (%(default)s)",
    )
    p.add_argument(
        "--think-ms",
        type=float,
        default=0,
        help="mean think time after each transaction (%(default)s)",
    )
    p.add_argument(
        "--seed", type=int, default=1, help="of the data and the transactions (%(default)s)"
    )
    p.add_argument("--image-mib", type=int, default=3072, help="size of the device (%(default)s)")
    p.add_argument(
        "--buffers",
        type=float,
        default=0.10,
        help="shared_buffers as a share of the database (%(default)s)",
    )
    p.add_argument(
        "--memory-mib",
        type=int,
        default=None,
        help="limit of the server with its page cache (3 x shared_buffers + 64; 0: none)",
    )
    p.add_argument(
        "--checkpoint-seconds",
        type=int,
        default=60,
        help="checkpoint_timeout, 30 or more (%(default)s)",
    )
    p.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a further PostgreSQL setting",
    )
    p.add_argument("--user", default="postgres", help="the server's user (%(default)s)")
    p.add_argument(
        "--postgres-bin",
        type=Path,
        default=None,
        help="folder of PostgreSQL's programs (looked for)",
    )
    # In it, the script makes a folder of its own, with a name of its own.
    work_dir = Path("/var/tmp")  # noqa: S108
    p.add_argument(
        "--work-dir", type=Path, default=work_dir, help="where the image goes (%(default)s)"
    )
    p.add_argument(
        "--trace-buffer-kib",
        type=int,
        default=65536,
        help="kernel buffer for each CPU (%(default)s)",
    )
    p.add_argument(
        "--resolution-ns",
        type=int,
        default=1,
        help="cut the table's times to a multiple of this (%(default)s)",
    )
    p.add_argument(
        "--keep-seconds",
        type=float,
        default=None,
        help="keep only so much of the beginning in the table",
    )
    p.add_argument(
        "--excerpt-events",
        type=int,
        default=0,
        help="also write the first events as NAME_excerpt.blktrace.zst",
    )
    parsed = p.parse_args(argv)
    for setting in parsed.set:
        if "=" not in setting:
            p.error(f"--set {setting}: it must be NAME=VALUE")
    if os.geteuid() != 0:
        p.error("must run as root: loop devices, mount and the kernel's tracer need it")
    for program in ("losetup", "mkfs.ext4", "filefrag", "mount", "umount", "blkparse"):
        if shutil.which(program) is None:
            p.error(
                f"{program} not found (Debian: apt-get install util-linux e2fsprogs mount blktrace)"
            )
    return parsed


def say(text: str) -> None:
    """Print progress, for a person."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run_settings(args: argparse.Namespace, database_bytes: int) -> dict[str, str]:
    """Give PostgreSQL's settings for the run.

    Its defaults, but for what makes the device see each page write.
    """
    shared_buffers_mib = max(16, round(args.buffers * database_bytes / MIB))
    settings = {
        "shared_buffers": f"{shared_buffers_mib}MB",
        "checkpoint_timeout": f"{args.checkpoint_seconds}s",
        "full_page_writes": "on",
        # A page that leaves PostgreSQL's buffers goes to the device at once, as with direct I/O
        # (not in version 15). Otherwise the kernel would hold it until the next checkpoint and
        # write only its last version.
        "backend_flush_after": "8kB",
        "bgwriter_flush_after": "8kB",
    }
    for setting in args.set:
        name, _, value = setting.partition("=")
        settings[name] = value
    return settings


class RoleWatcher:
    """Notes each second which process of the server is what.

    So that the trace's process ids say something.
    """

    def __init__(self, server: Server) -> None:
        """Start watching."""
        self.roles: dict[int, str] = {}
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="role watcher")
        self._thread.start()

    def close(self) -> None:
        """End watching."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        try:
            with psycopg.connect(self._server.conninfo, autocommit=True) as connection:
                while not self._stop.wait(1.0):
                    self.roles.update(
                        connection.execute(
                            "SELECT pid, backend_type FROM pg_stat_activity"
                        ).fetchall()
                    )
        except psycopg.Error as error:
            # The recording itself does not need the roles, and the server may be on its way out.
            say(f"process roles not read: {error}")


def load_database(args: argparse.Namespace, server: Server, scale: Scale) -> int:
    """Initialise the server, load TPC-C, and return the size of the database in bytes."""
    server.initialise()
    server.start(LOAD_SETTINGS)
    load(
        backend_config("postgres", server.conninfo),
        scale,
        args.seed,
        processes=args.clients,
        report=lambda done, total: say(f"loaded {done} of {total} warehouses"),
    )
    size = int(server.query("SELECT pg_database_size(current_database()) AS bytes")[0]["bytes"])
    server.query("CHECKPOINT")
    server.stop()
    return size


def run_recorded(
    args: argparse.Namespace,
    stack: ExitStack,
    server: Server,
    supervisor: Supervisor,
    *,
    volume: Volume,
    scale: Scale,
    raw: Path,
) -> tuple[RunResult, dict[str, Any]]:
    """Warm up, run TPC-C under the tracer, and return the result.

    With what is known about the recording.
    """
    backend = backend_config("postgres", server.conninfo)

    def config(stream: int, seconds: float) -> RunConfig:
        think = args.think_ms / 1000
        return RunConfig(args.clients, seconds, think_seconds=think, seed=args.seed, stream=stream)

    tpcc = TpccLoad(scale, mix(args.mix))
    if args.warm_up_seconds > 0:
        warm = run(backend, tpcc, config(0, args.warm_up_seconds))
        say(f"warm-up: {warm.transactions_per_second:.0f} transactions/s")
    stream = raw.with_suffix("")
    tracefs = Tracefs(supervisor)
    stack.callback(tracefs.close)
    tracer = BlockTracer(tracefs, volume.device.trace, stream, args.trace_buffer_kib)
    stack.callback(tracer.close)
    tracer.prepare()
    watcher = RoleWatcher(server)
    stack.callback(watcher.close)
    before = {
        **server.query("SELECT * FROM pg_stat_bgwriter")[0],
        **server.query("SELECT * FROM pg_stat_wal")[0],
    }
    parts = layout(server.data)
    tracer.start()
    started, started_monotonic_ns = time.time(), time.monotonic_ns()
    say(f"recording {args.seconds:.0f} s")
    result = run(backend, tpcc, config(1, args.seconds))
    tracer.stop()
    watcher.close()
    parts_at_end = layout(server.data)
    if tracer.lost:
        raise RuntimeError(
            f"the kernel lost {tracer.lost} events: use a larger --trace-buffer-kib than "
            f"{args.trace_buffer_kib}"
        )
    roles = {**tracer.commands, **watcher.roles}
    with (
        pa.CompressedOutputStream(pa.OSFile(str(raw), "wb"), "zstd") as out,
        stream.open("rb") as recorded,
    ):
        shutil.copyfileobj(recorded, out)
    stream.unlink()
    after = {
        **server.query("SELECT * FROM pg_stat_bgwriter")[0],
        **server.query("SELECT * FROM pg_stat_wal")[0],
    }
    return result, {
        "postgres_counters": {
            name: float(after[name] - before[name]) for name in before if "reset" not in name
        },
        "checkpoints": server.checkpoints(since=started),
        "started_monotonic_ns": started_monotonic_ns,
        "roles": roles,
        # Files that come and go are in their part wherever they were at the beginning or at the
        # end.
        "layout_is": "where the files were at the beginning and at the end of the recording",
        "layout": {part: union(parts[part] + parts_at_end[part]) for part in parts},
    }


def record(args: argparse.Namespace, stack: ExitStack) -> dict[str, Any]:
    """Make the whole recording and return its description."""
    scale = Scale(args.warehouses)
    raw: Path = args.output / f"{args.name}.blktrace.zst"
    work = Path(tempfile.mkdtemp(prefix="flashwright-record-", dir="/tmp"))
    stack.callback(shutil.rmtree, work)
    work.chmod(0o711)
    supervisor = stack.enter_context(Supervisor())
    volume = Volume(supervisor, file_systems.find("ext4"))
    say(f"making a device of {args.image_mib} MiB")
    volume.on_image(args.work_dir, args.image_mib * MIB)
    account = server_account(args.user)
    binaries = find_binaries(args.postgres_bin, account)
    server = Server(binaries, volume.mount_point / "data", work / "run", supervisor, account)
    stack.callback(server.stop)
    begun = time.monotonic()
    database_bytes = load_database(args, server, scale)
    say(f"loaded {database_bytes / 1e6:.0f} MB in {time.monotonic() - begun:.0f} s")
    settings = run_settings(args, database_bytes)
    # What the load left in the page cache must not serve the run's reads.
    volume.unmount()
    volume.mount()
    memory_mib = args.memory_mib
    if memory_mib is None:
        memory_mib = 3 * max(16, round(args.buffers * database_bytes / MIB)) + 64
    group = MemoryGroup(memory_mib * MIB, supervisor) if memory_mib else None
    if group is not None:
        # Called after the server's stop, which is pushed anew below: the group can go only when it
        # is empty.
        stack.callback(group.close)
        stack.callback(server.stop)
    server.start(settings, group.processes_file if group else None)
    result, about = run_recorded(
        args, stack, server, supervisor, volume=volume, scale=scale, raw=raw
    )
    say(
        f"recorded {result.transactions} transactions, {result.transactions_per_second:.0f}/s; "
        "checking the database"
    )
    backend = backend_config("postgres", server.conninfo).connect()
    broken = violations(backend)
    backend.close()
    if broken:
        raise RuntimeError("the database is not consistent: " + "; ".join(map(str, broken)))
    all_settings = server.query(
        "SELECT name, setting, unit FROM pg_settings WHERE source <> 'default'"
    )
    end_bytes = int(
        server.query("SELECT pg_database_size(current_database()) AS bytes")[0]["bytes"]
    )
    return {
        "command": shlex.join(["scripts/record_tpcc/record.py", *sys.argv[1:]]),
        "versions": {
            "postgres": server.version(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "mkfs": tool("sh", "-c", "mkfs.ext4 -V 2>&1 | head -1"),
        },
        "scale": asdict(scale),
        "mix": asdict(mix(args.mix)),
        "clients": args.clients,
        "think_ms": args.think_ms,
        "seed": args.seed,
        "warm_up_seconds": args.warm_up_seconds,
        "kept_seconds": args.keep_seconds or args.seconds,
        "device_bytes": args.image_mib * MIB,
        "mount_options": "discard,noatime",
        "memory_limit_mib": memory_mib,
        "database_bytes_after_load": database_bytes,
        "database_bytes_after_run": end_bytes,
        "settings": {
            row["name"]: row["setting"] + (f" x {row['unit']}" if row["unit"] else "")
            for row in all_settings
            if "directory" not in row["name"]
            and "directories" not in row["name"]
            and not row["name"].endswith("_file")
        },
        "result": result.as_dict(),
        "consistency": "clause 3.3.2.1-10 and 12 hold after the run",
        **about,
    }


def on_signal(number: int, _frame: FrameType | None) -> None:
    """Turn SIGTERM into what Ctrl-C does, so that everything is cleaned up.

    A further signal does not disturb that.
    """
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> int:
    """Record.

    The exit status is 0 done, 1 the recording failed, 2 wrong use, 130 stopped by a signal.
    """
    args = arguments(sys.argv[1:])
    args.output.mkdir(parents=True, exist_ok=True)
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, on_signal)
    try:
        with ExitStack() as stack:
            about = record(args, stack)
    except KeyboardInterrupt:
        say("stopped; everything is cleaned up")
        return 130
    except Exception as error:
        say(f"failed: {error}")
        return 1
    raw, parquet = args.output / f"{args.name}.blktrace.zst", args.output / f"{args.name}.parquet"
    roles: dict[int, str] = about.pop("roles")
    about["requests"] = convert(raw, parquet, args.resolution_ns, args.keep_seconds)
    # Checkpoints on the clock of the trace, whose 0 is its first request.
    wait_s = (
        about["requests"].pop("first_request_monotonic_ns") - about.pop("started_monotonic_ns")
    ) / 1e9
    for checkpoint in about["checkpoints"]:
        checkpoint.update(
            {
                key: round(checkpoint[key] - wait_s, 3)
                for key in ("start_s", "end_s")
                if key in checkpoint
            }
        )
    streams: dict[str, int] = about["requests"]["by_stream"]
    about["requests"]["by_stream"] = {
        f"{pid} {roles.get(int(pid), '')}".strip(): n for pid, n in streams.items()
    }
    about["checked_against_blkparse"] = verify(raw, parquet, args.resolution_ns, args.keep_seconds)
    (args.output / f"{args.name}.json").write_text(json.dumps(about, indent=1, default=str) + "\n")
    if args.excerpt_events:
        excerpt(raw, args.output / f"{args.name}_excerpt.blktrace.zst", args.excerpt_events)
    say(f"wrote {parquet} ({parquet.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
