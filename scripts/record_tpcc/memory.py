"""A memory limit for the database server, by a control group of version 2 or 1.

Without one, the page cache of a machine with much memory holds the whole database, and the device never sees a read.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A control group with a limit on memory, its page cache included."""

    def __init__(self, limit_bytes: int) -> None:
        """Make the group.

        Raises:
            RuntimeError: there is no memory controller.
        """
        name = f"flashwright-record-{os.getpid()}"
        if "memory" in _words(_ROOT / "cgroup.controllers"):
            if "memory" not in _words(_ROOT / "cgroup.subtree_control"):
                (_ROOT / "cgroup.subtree_control").write_text("+memory")
            self._path, limit = _ROOT / name, "memory.max"
        elif (_ROOT / "memory/memory.limit_in_bytes").exists():
            self._path, limit = _ROOT / "memory" / name, "memory.limit_in_bytes"
        else:
            raise RuntimeError(f"{_ROOT} has no memory controller: use --memory-mib 0 for a run without a limit")
        self._path.mkdir()
        (self._path / limit).write_text(str(limit_bytes))

    @property
    def processes_file(self) -> Path:
        """A process that writes its id here belongs to the group."""
        return self._path / "cgroup.procs"

    def close(self) -> None:
        """Remove the group; its processes must have ended."""
        for _ in range(50):
            try:
                self._path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                # The kernel lets go of an ended process a moment after its parent has seen it end.
                time.sleep(0.1)
        if self._path.exists():
            self._path.rmdir()


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
