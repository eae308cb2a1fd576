"""Dirty bytes in the page cache: of all programs, and of some files alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from flashwright._paths import open_plain

_MEMORY = Path("/proc/meminfo")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CACHESTAT = 451
"""The same on all architectures but Alpha; since Linux 6.5."""
_MOST_FILES = 20_000
_libc = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Found(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "written_back", "evicted", "recently_evicted")
    )


def dirty_bytes() -> int:
    """Give how much waits to be written, of all programs."""
    found = re.findall(r"^(?:Dirty|Writeback):\s+(\d+) kB", _MEMORY.read_text(), re.MULTILINE)
    return sum(int(kibibytes) for kibibytes in found) * 1024


def dirty_bytes_of(roots: Sequence[Path]) -> int | None:
    """Give how much waits to be written of these files, and of all below these folders.

    None if the kernel does not say so (before Linux 6.5), we may not ask it, or there are too many.
    A file in large folios counts by whole folios.
    """
    total = 0
    try:
        for number, path in enumerate(_files(roots)):
            if number == _MOST_FILES:
                return None
            with contextlib.suppress(FileNotFoundError):
                total += _dirty_of(path)
    except OSError:
        return None
    return total


def _files(roots: Sequence[Path]) -> Iterator[Path]:
    waiting = list(roots)
    while waiting:
        path = waiting.pop()
        with contextlib.suppress(FileNotFoundError):
            if path.is_symlink():
                continue
            if not path.is_dir():
                if path.is_file():
                    yield path
                continue
            waiting += (Path(entry.path) for entry in os.scandir(path))


def _dirty_of(path: Path) -> int:
    """Ask the kernel; OSError if it does not say."""
    handle = open_plain(path.absolute())
    try:
        whole, found = _Range(0, 0), _Found()
        if _libc.syscall(_CACHESTAT, handle, ctypes.byref(whole), ctypes.byref(found), 0) != 0:
            raise OSError(ctypes.get_errno(), "cachestat", str(path))
    finally:
        os.close(handle)
    return int(found.dirty + found.written_back) * _PAGE_BYTES
