"""Counts what SQLite writes and syncs, by file: strace sees each call."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.validations.sqlite_what_if import load
from flashwright._core import RunError

NAME = "t.db"
_CALL = re.compile(r"^\d+\s+(\w+)\((?:\d+<([^>]*)>)?.*\)\s+= (-?\d+)")
_CALLS = "pwrite64,write,fsync,fdatasync,ftruncate,unlink"
_FILES = {"": "database", "-wal": "log", "-journal": "journal"}


@dataclass
class Counts:
    """Bytes written and syncs by file: database, log, journal, folder."""

    bytes: Counter[str] = field(default_factory=Counter)
    syncs: Counter[str] = field(default_factory=Counter)


def count(
    folder: Path,
    base: Path,
    kind: str,
    pragmas: Mapping[str, object],
    transactions: int,
    *,
    transactions_in_one: int = 1,
    seed: int = 1,
    keep: Path | None = None,
) -> Counts:
    """Run a load on a copy of `base` in `folder`, and count. `keep`: a folder for copies.

    Raises RunError if it fails.
    """
    for old in folder.glob(f"{NAME}*"):
        old.unlink()
    database = folder / NAME
    shutil.copy(base, database)
    asked: dict[str, Any] = {
        "database": str(database),
        "pragmas": dict(pragmas),
        "load": kind,
        "transactions": transactions,
        "transactions_in_one": transactions_in_one,
        "seed": seed,
        "keep": None if keep is None else str(keep),
    }
    lines = folder / "strace.txt"
    command = ["strace", "-f", "-y", "-s", "16", "-e", f"trace={_CALLS}", "-o", str(lines)]
    command += [sys.executable, load.__file__, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise RunError(f"the load failed: {done.stderr.decode(errors='replace')[-300:]}")
    return counted(lines, database)


def counted(lines: Path, database: Path) -> Counts:
    """Count the calls between the marks of a load."""
    found, is_on = Counts(), False
    names = {f"{database}{end}": name for end, name in _FILES.items()}
    names[str(database.parent)] = "folder"
    with lines.open(errors="replace") as text:
        for line in text:
            if "LOAD BEGINS" in line:
                is_on = True
            elif "LOAD ENDS" in line:
                return found
            elif is_on and (match := _CALL.match(line)) and match[2] in names:
                name = names[match[2]]
                if match[1] in ("write", "pwrite64"):
                    found.bytes[name] += int(match[3])
                elif match[1] in ("fsync", "fdatasync"):
                    found.syncs[name] += 1
    raise RunError(f"{lines}: the load did not end")
