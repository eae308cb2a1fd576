"""Pages of the kernel's trace buffer with the events of the `blk` tracer.

And the blktrace stream that they become.
"""

from __future__ import annotations

import fcntl
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from flashwright._core import InputError, Progress, write_blk_stream
from flashwright.outputs import replacing

from .tracefs import ROOT

HEADER = "block.header.json"
"""Held with a lock as long as the pages beside it are written."""
_PAGES = "block.cpu*.pages"
_NEIGHBOURS = ("user_stack", "bputs")
"""The kinds of events before and after the tracer's (Linux kernel/trace/trace.h, enum trace_type):
it has no format of its own.
"""


def name_of(cpu: Path) -> str:
    """Name the file of a processor, whose folder in tracefs is `cpu`."""
    return f"block.{cpu.name}.pages"


def pages_in(raw: Path) -> list[Path]:
    """Give the pages in a folder, by processor."""
    return sorted(raw.glob(_PAGES), key=lambda path: int(re.sub(r"\D", "", path.name)))


@dataclass
class Header:
    """Facts about the kernel that are needed to read the pages."""

    header_page: str
    event: int
    handle: IO[str] | None = None

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, with its own head."""
        found = re.search(r"\bdata;\s*offset:(\d+);\s*size:(\d+);", self.header_page)
        if found is None:
            raise InputError(f"{ROOT}/events/header_page has no field `data`")
        return int(found[1]) + int(found[2])

    @staticmethod
    def of_kernel() -> Header:
        """Ask the kernel.

        Raises:
            InputError: its events cannot be distinguished.
        """
        if sys.byteorder != "little":
            raise InputError(
                "pages of a big-endian machine's trace buffer are not read; try --tracer blktrace"
            )
        try:
            before, after = (
                _number(ROOT / "events/ftrace" / name / "format") for name in _NEIGHBOURS
            )
            header_page = (ROOT / "events/header_page").read_text()
        except OSError as error:
            raise InputError(
                f"{error.filename}: {error.strerror}; try --tracer blktrace"
            ) from error
        if after - before != 2:
            raise InputError(
                f"{ROOT}/events/ftrace: {_NEIGHBOURS[0]} is number {before} and {_NEIGHBOURS[1]} "
                f"{after}, with the blk tracer's events not between them as in other kernels; try "
                "--tracer blktrace"
            )
        return Header(header_page, before + 1)

    def write(self, raw: Path) -> Header:
        """Write it into a folder, and hold it there until `close`."""
        # Of this process alone, and gone with it: whoever would finish the recording sees that it
        # goes on.
        self.handle = (raw / HEADER).open("w", encoding="utf-8")
        fcntl.lockf(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        json.dump({"header_page": self.header_page, "event": self.event}, self.handle)
        self.handle.flush()
        return self

    def close(self) -> None:
        """Hold it no more."""
        if self.handle is not None:
            self.handle.close()
            self.handle = None

    @staticmethod
    def read(raw: Path) -> Header:
        """Read it back.

        Raises:
            InputError: there is none, or it is damaged.
        """
        path = raw / HEADER
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            return Header(about["header_page"], about["event"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: what is needed to read the pages beside it is not there: {error}"
            ) from error


def make_stream(raw: Path, stream: Path, progress: Progress | None = None) -> dict[str, int]:
    """Make the blktrace stream of the pages in a folder, which are removed; give counts.

    Raises:
        InputError: they are damaged; the message has the file and its byte.
        Cancelled: it was asked to stop.
    """
    header, pages = Header.read(raw), pages_in(raw)
    with replacing(stream) as part:
        counts = write_blk_stream(pages, header.header_page, header.event, part, progress)
    for path in (*pages, raw / HEADER):
        path.unlink()
    return counts


def _number(path: Path) -> int:
    found = re.search(r"^ID: (\d+)$", path.read_text(), re.MULTILINE)
    if found is None:
        raise InputError(f"{path} has no ID; try --tracer blktrace")
    return int(found[1])
