"""Who uses a directory, so that it cannot be unmounted."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_MOST_NAMED = 5
_LINKS = (("cwd", "its current folder"), ("root", "its root folder"), ("exe", "its program"))


def of_directory(directory: str) -> str:
    """Say which processes, and mounts, use a directory or what is below it; empty if none is found.

    Only root sees the files of all processes.
    """
    where = os.path.realpath(directory)
    found = [*_mounts_below(where), *_processes(where)]
    more = [f"{len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return ", ".join(found[:_MOST_NAMED] + more)


def _processes(where: str) -> Iterator[str]:
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        # A process that ends meanwhile uses nothing.
        with contextlib.suppress(OSError):
            uses = _uses_of(folder, where)
            if uses:
                name = (folder / "comm").read_text().strip()
                yield f"process {folder.name} ({name}: {', '.join(uses)})"


def _uses_of(folder: Path, where: str) -> list[str]:
    uses = [what for link, what in _LINKS if _is_within(_target(folder / link), where)]
    files = [_target(link) for link in (folder / "fd").iterdir()]
    if any(_is_within(file, where) for file in files):
        uses.append("open files")
    elif any(_is_within(line, where) for line in _mapped(folder)):
        uses.append("files mapped into memory")
    return uses


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _mapped(folder: Path) -> list[str]:
    """Give the paths of mapped files."""
    lines = (folder / "maps").read_text(errors="replace").splitlines()
    return [line.split(maxsplit=5)[5] for line in lines if line.count("/")]


def _is_within(path: str, where: str) -> bool:
    return path == where or path.startswith(f"{where}/")


def _mounts_below(where: str) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split()[1].replace("\\040", " ") for line in lines]
    return [f"the mount {point}" for point in points if point.startswith(f"{where}/")]
