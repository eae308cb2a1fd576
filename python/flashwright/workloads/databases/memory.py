"""A memory limit for a database, by a control group of version 2 or 1.

Without one, the page cache of a machine with much memory holds the whole database, and the device
never sees a read.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from flashwright._core import InputError

from ..supervisor import Supervisor

_ROOT = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A control group with a limit on memory, its page cache included.

    Version 2 has `memory.high`, beyond which it reclaims, and nothing is killed; version 1 has only
    a hard limit, which reclaims first, too.
    """

    def __init__(self, limit_bytes: int, supervisor: Supervisor) -> None:
        """Make the group; the supervisor removes it if we cannot.

        Raises:
            InputError: there is no memory controller, or we may not use it.
        """
        name = f"flashwright-{secrets.token_hex(4)}"
        try:
            if "memory" in _words(_ROOT / "cgroup.controllers"):
                if "memory" not in _words(_ROOT / "cgroup.subtree_control"):
                    (_ROOT / "cgroup.subtree_control").write_text("+memory")
                self.path, limit = _ROOT / name, "memory.high"
            elif (_ROOT / "memory/memory.limit_in_bytes").exists():
                self.path, limit = _ROOT / "memory" / name, "memory.limit_in_bytes"
            else:
                raise InputError(
                    f"{_ROOT} has no memory controller: the page cache cannot be limited here"
                )
            # Its processes may need a moment to end.
            supervisor.undo(
                "sh",
                "-c",
                'for _ in $(seq 50); do [ -d "$0" ] || exit 0; rmdir "$0" || sleep 0.1; done',
                self.path,
            )
            self.path.mkdir()
            (self.path / limit).write_text(str(limit_bytes))
        except OSError as error:
            raise InputError(
                f"{_ROOT}: no control group can be made ({error.strerror}): it needs root"
            ) from error
        self.limit_file = limit

    @property
    def processes_file(self) -> Path:
        """A process that writes its id here belongs to the group."""
        return self.path / "cgroup.procs"

    def close(self) -> None:
        """Remove the group; its processes must have ended."""
        for _ in range(50):
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                # The kernel lets go of an ended process a moment after its parent has seen it end.
                time.sleep(0.1)
        if self.path.exists():
            self.path.rmdir()


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
