"""Files that commands write: what may be replaced, and how.

A path that is given for a file is replaced only if an earlier run of ours wrote what is there, by
its content, or if it is empty. Devices, folders, pipes, sockets, read-only files, volumes, and what
belongs to a recording or a run folder are refused, and so are symbolic links: whoever may write to
the folder could lead us anywhere by one. The new file is made beside it, under a name that nobody
can guess and that is new, made durable, and then put in its place: who is stopped meanwhile leaves
the earlier one whole.

The rule for `--metrics` is in `crates/servers/src/metrics_file.rs`, too, which writes that file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashwright import _core, _paths
from flashwright._core import InputError

_HEADER_BYTES = 4096
_MAGIC = slice(8, 16)
_VOLUME = b"FWVOLUME"
RESULT_FILE = "result.json"
SIMULATIONS = "simulations"
"""Folder in a run folder for what is finished of a comparison."""
RECORDING = "record"
"""Command of a recording, whose measurements cannot be made again from its inputs."""
_PART = re.compile(r"\..+\.[0-9a-f]{16}\.part")
FLEET_FILE = "fleet.json"
"""File of a store of volumes that says what it is of, as `crates/traces/src/fleet` writes it."""
_OF_A_STORE = re.compile(r"fleet\.json|fleet\.lock|\.fleet\.json\..*")
_OF_A_RUN = re.compile(r"result\.json|report\.html|profile\.toml|timeline\.json|.*\.parquet")


@dataclass(frozen=True)
class Kind:
    """Kind of output, and how a file of ours is known."""

    name: str
    is_ours: Callable[[Path], bool]


def _is_json(path: Path) -> bool:
    document = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(document, list):
        return all(isinstance(one, dict) and _names_us(one) for one in document)
    return isinstance(document, dict) and _names_us(document)


def _names_us(document: dict[str, Any]) -> bool:
    came_from = document.get("provenance")
    return "flashwright" in document or (isinstance(came_from, dict) and "flashwright" in came_from)


def _is_profile(path: Path) -> bool:
    _core.check_profile(path.read_text(encoding="utf-8"), str(path))
    return True


def _is_table(path: Path) -> bool:
    """Tell whether it is a Parquet table that we wrote; no other format names its writer."""
    with path.open("rb") as file:
        if file.read(4) != b"PAR1":
            return False
        file.seek(-8, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        if file.read(4) != b"PAR1":
            return False
        file.seek(-8 - length, os.SEEK_END)
        return b"flashwright" in file.read(length)


def _begins(path: Path, with_bytes: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(with_bytes)) == with_bytes


REPORT_MARK = '<meta name="generator" content="flashwright">'
"""Mark by which a report is known."""

JSON = Kind("a JSON document", _is_json)
PROFILE = Kind("a drive's profile", _is_profile)
TRACE = Kind("a trace in Parquet", _is_table)
TABLE = Kind("a table of requests", _is_table)
METRICS = Kind("a file of metrics", lambda path: _begins(path, b"# HELP flashwright_"))
REPORT = Kind("a report", lambda path: REPORT_MARK.encode() in path.read_bytes()[:4096])


def check(path: Path, kind: Kind) -> None:
    """Raise InputError if a file of this kind cannot be written there, or would replace another's.

    Says what is there, and what would be right.
    """
    folder = path.parent
    if not folder.exists():
        raise InputError(f"{path}: there is no folder '{folder}' to write it into; make it first")
    if not folder.is_dir():
        raise InputError(f"{path}: '{folder}' is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path}: no permission to write into '{folder}'")
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    what = _in_the_way(path, found, kind)
    if what is not None:
        raise InputError(f"{path}: {what}; nothing was written")


def _in_the_way(path: Path, found: os.stat_result, kind: Kind) -> str | None:
    if not stat.S_ISREG(found.st_mode):
        what = _TYPES.get(stat.S_IFMT(found.st_mode), "a pipe or a socket")
        return f"it is {what}: name a file for {kind.name}"
    if not found.st_mode & 0o222:
        return "it is read-only: name another file, or remove it first"
    return _somebodys(path, found.st_size, kind) if found.st_size else None


def _somebodys(path: Path, size: int, kind: Kind) -> str | None:
    """Tell whose the content of a file is, if it is not ours to replace."""
    try:
        is_volume = _is_volume(path, size)
    except OSError as error:
        return f"what is there cannot be looked at ({error.strerror}): name another file"
    owner = "a volume" if is_volume else _run_of(path)
    if owner is not None:
        return f"it is {owner}, and would be lost: name another file for {kind.name}"
    if _is_ours(path, kind):
        return None
    return (
        f"what is there is not {kind.name} that flashwright wrote, and would be lost: name another "
        "file, or remove it first"
    )


_TYPES = {
    stat.S_IFLNK: "a symbolic link, and links are not followed",
    stat.S_IFDIR: "a folder",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def _is_ours(path: Path, kind: Kind) -> bool:
    try:
        return kind.is_ours(path)
    except (OSError, ValueError, InputError):
        return False


def _is_volume(path: Path, size: int) -> bool:
    last = (size // _HEADER_BYTES - 1) * _HEADER_BYTES
    with path.open("rb") as file:
        for place in (0, max(last, 0)):
            file.seek(place)
            if file.read(_HEADER_BYTES)[_MAGIC] == _VOLUME:
                return True
    return False


def _run_of(path: Path) -> str | None:
    """Name the run that a file belongs to, by the folder that it is in."""
    for folder in path.absolute().parents[:2]:
        command = command_of(folder)
        if command == RECORDING:
            return f"of the recording in {folder}"
        if command is not None and folder == path.absolute().parent:
            return f"of the run in {folder}" if _OF_A_RUN.fullmatch(path.name) else None
    return None


def command_of(folder: Path) -> str | None:
    """Name the command that wrote the run in a folder, also one that is under way or was killed.

    None if no run of ours is there.
    """
    try:
        document = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("command"), str):
        return None
    is_ours = _names_us(document) or "recording" in document
    return document["command"] if is_ours else None


def check_folder(folder: Path, *, is_recording: bool = False) -> None:
    """Raise InputError if a run cannot be written into a folder, or would replace another's files.

    It is made if it is missing, is empty, or holds a run of ours that is no recording: what was
    measured once cannot be had again. A recording is held against that by whoever records.
    """
    existing = _writable(folder)
    # A run that was killed leaves only files that nobody needs, or that the same run goes on from.
    if existing != folder or all(
        _PART.fullmatch(path.name) or path.name == SIMULATIONS for path in folder.iterdir()
    ):
        return
    command = command_of(folder)
    if command is None:
        raise InputError(
            f"{folder}: the folder is not empty and no run folder; choose another --out"
        )
    if command == RECORDING and not is_recording:
        raise InputError(f"{folder}: a recording is there, and would be lost; choose another --out")


def check_store(folder: Path) -> None:
    """Raise InputError if a store of volumes cannot be made in a folder, or gone on with.

    It is made if it is missing, is empty, or is a store. Whether of the same trace, Rust looks.
    """
    if _writable(folder) != folder:
        return
    names = {path.name for path in folder.iterdir()}
    # A split that was killed early leaves less than a manifest.
    if FLEET_FILE not in names and not all(map(_OF_A_STORE.fullmatch, names)):
        raise InputError(f"{folder}: the folder is not empty and no store; choose another --out")


def _writable(folder: Path) -> Path:
    """Give a folder, or the one above it in which it is made."""
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise InputError(f"{folder}: '{existing}' is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: no permission to write into '{existing}'")
    return existing


def check_place(path: Path, what: str, may_be: tuple[int, ...]) -> None:
    """Raise InputError if something is where a socket, a link or a file is to be made.

    `may_be` are the types of files, as `stat.S_IFMT` gives them, that whoever makes it looks at.
    """
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent} to make {what} in")
    with contextlib.suppress(FileNotFoundError):
        if stat.S_IFMT(path.lstat().st_mode) not in may_be:
            raise InputError(
                f"{path}: something else is there; name a path for {what} where nothing is"
            )


@contextlib.contextmanager
def replacing(path: Path, kind: Kind | None = None) -> Iterator[Path]:
    """Give a new file beside the path, to be written; it takes the path's place at the end.

    The kind is None of a file in a run folder, which is ours as a whole: what is there is replaced,
    and links are not followed.

    Raises InputError as `check` does; what the system refuses is raised as it is.
    """

    def look() -> None:
        if kind is not None:
            check(path, kind)

    with _paths.replacing(path, look) as part:
        yield part


def write_text(path: Path, text: str, kind: Kind | None = None, name: str = "it") -> None:
    """Write a file as a whole; without a kind it is called so in an error.

    Raises InputError as `check` does, or if the system refuses it.
    """
    try:
        with replacing(path, kind) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        what = name if kind is None else kind.name
        raise InputError(f"{path}: cannot write {what}: {error.strerror}") from error
