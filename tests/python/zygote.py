"""A process that has loaded `flashwright`, and makes a child of itself for each command.

To load it takes longer than most commands of tests. Each still has a process of its own, with its
own folder, environment and descriptors. What real processes differ in (signals, a terminal, what
is loaded when) is tested by tests that start one.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

_NOT_LOADED = "flashwright.__main__"
_MOST_SECONDS = 300
"""After so long a command is killed by an alarm."""


def load() -> None:
    """Import what commands do when they first need it, which takes longer than most of them."""
    import flashwright  # noqa: PLC0415

    for found in pkgutil.walk_packages(flashwright.__path__, "flashwright."):
        if not found.name.startswith(_NOT_LOADED):
            importlib.import_module(found.name)
    # pyarrow imports pandas where it is there.
    for name in ("pandas", "pyarrow.parquet", "pyarrow.compute", "pyarrow.dataset", "jinja2"):
        importlib.import_module(name)
    # Compressed once for all reports.
    from flashwright.pages.page import plotly_script  # noqa: PLC0415

    plotly_script()


def become(asked: dict[str, object]) -> NoReturn:
    """Be the command: in a child, which never comes back.

    With `waits` it stops itself before it begins, for whoever wants to look on.
    """
    import flashwright  # noqa: PLC0415
    from flashwright.cli import main  # noqa: PLC0415

    for number, name in ((0, os.devnull), (1, asked["out"]), (2, asked["error"])):
        opened = os.open(str(name), os.O_RDONLY if number == 0 else os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(str(asked["folder"]))
    os.environ.clear()
    os.environ.update(asked["environment"])  # type: ignore[call-overload]
    # As `python -m flashwright` has it.
    own = Path(flashwright.__file__).parent / "__main__.py"
    sys.argv = [str(own), *asked["command"]]  # type: ignore[misc]
    signal.alarm(_MOST_SECONDS)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    code = 1
    if asked.get("waits"):
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    """Read commands, one a line, and answer each with its exit code, until there are no more."""
    load()
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            become(json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


@dataclass
class Zygote:
    """The process, and the folder for what its children print."""

    folder: Path

    def __post_init__(self) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        out, error = self.folder / "out", self.folder / "error"
        for one in (out, error):
            one.write_bytes(b"")
        asked = {
            "command": command,
            "folder": str(folder),
            # Whole lines, unless a test wants them as a pipe of a given width has them.
            "environment": {"COLUMNS": "1000", **os.environ},
            "out": str(out),
            "error": str(error),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        texts = (one.read_text(encoding="utf-8") for one in (out, error))
        return subprocess.CompletedProcess(command, code, *texts)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


if __name__ == "__main__":
    serve()
