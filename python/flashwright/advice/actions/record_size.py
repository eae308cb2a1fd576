"""Records of a file system that copies on write, such as ZFS's recordsize."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flashwright._text import significant, span
from flashwright.advice import questions, traces
from flashwright.advice.action import Finding, Told
from flashwright.advice.case import Case
from flashwright.advice.load import WRITE

SIZES = (8 << 10, 16 << 10, 32 << 10, 128 << 10)
GROUP_S = 5.0
"""Seconds of a transaction group: zfs_txg_timeout."""


class RecordSize:
    """Counts the records that the recorded writes of data would touch."""

    NAME = "record_size"
    QUESTIONS: tuple[str, ...] = (questions.RECORD_SIZE,)

    def findings(self, case: Case) -> Iterator[Finding]:
        """See `Action`."""
        requests = traces.load(case.load.path)
        data = requests.taken((requests.op == WRITE) & ~requests.is_log)
        written = int(data.length.sum())
        if not written:
            yield Told(self.NAME, "0 bytes are written but for the log: no record size matters.")
            return
        times = ", ".join(
            f"{size >> 10} KiB: {significant(records(data, size) * size / written, 2)}"
            for size in SIZES
        )
        yield Told(
            self.NAME,
            "A file system that writes whole records would write so many bytes for each of these "
            f"{significant(written / 2**20)} MiB of data, by size of its record: {times}. Writes "
            f"of {span(GROUP_S)} to one record count once (a transaction group of ZFS), places on "
            "the disk are taken for those in the files, and compression, metadata and the log are "
            "left out.",
        )


def records(data: traces.Requests, size: int) -> int:
    """Count the records of `size` bytes that writes touch, each once in a transaction group."""
    group = data.time_ns // round(GROUP_S * 1e9)
    first = data.offset // size
    number = (data.offset + np.maximum(data.length, 1) - 1) // size - first + 1
    of = np.repeat(np.arange(len(first)), number)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(number) - number, number)
    touched = np.stack([group[of], first[of] + nth])
    return int(np.unique(touched, axis=1).shape[1])
