"""Streams of page accesses on a drive in virtual time: processors, page cache and read-ahead.

A stream is a sub-query: it computes, asks for a page, waits for it if it is not in memory, and goes
on. Streams share processors, first come first served in slices, and one cache of pages, from which
the page that was not used for longest goes. The kernel's page cache has two lists in place of one;
what differs are pages that are used once, which a scan of LINEORDER brings.

Read-ahead is that of Linux (`mm/readahead.c`, ondemand_readahead) for each stream and file: a read
that follows the one before opens a window, which doubles up to `MOST_AHEAD_PAGES`, and whose first
page, when it is used, brings the next window; any other read is of its own page alone. Relations
lie on the drive one after the other without gaps.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from experiments.ssb.schema import PAGE_BYTES
from flashwright._core import RunError

MOST_AHEAD_PAGES = 16
"""Linux's default of 128 KiB, in pages of 8 KiB."""
FIRST_AHEAD_PAGES = 2
"""The first window after a read of 8 KiB: twice the read, up to a quarter of the most."""
SLICE = 64
"""Accesses after which another stream gets the processor."""


class Drive(Protocol):
    """A drive with a clock of its own, in nanoseconds, which only waiting moves."""

    def read(self, number: int, offset: int, length: int) -> None:
        """Send a read of bytes."""

    def wait(self, until_ns: int | None) -> list[tuple[int, int]]:
        """Let time go on until reads complete, or until then; gives their numbers and times."""


class CoreDrive:
    """A simulated drive of the core, to which reads are sent one by one.

    The core's device has `submit_read(number, offset, length)`, which sends a read at the device's
    time, and `wait(until_ns)`, which lets time go on until a read completes, or until then if it is
    not None, and gives numbers and times of all that completed: `BlockDevice`'s contract. Reads
    beyond its queue's depth wait outside, first come first served.
    """

    def __init__(self, device: Any) -> None:
        """Take a device of `simulated_device`.

        Raises:
            RunError: the core is of a version that plays whole sources alone.
        """
        if not hasattr(device, "submit_read"):
            raise RunError(
                "this build of the core takes no single reads: Device.submit_read and Device.wait "
                "are missing"
            )
        self._device = device
        self._free = int(device.info["queue_depth"])
        self._waiting: deque[tuple[int, int, int]] = deque()

    def read(self, number: int, offset: int, length: int) -> None:
        """See `Drive`."""
        if self._free:
            self._free -= 1
            self._device.submit_read(number, offset, length)
        else:
            self._waiting.append((number, offset, length))

    def wait(self, until_ns: int | None) -> list[tuple[int, int]]:
        """See `Drive`."""
        done: list[tuple[int, int]] = self._device.wait(until_ns)
        self._free += len(done)
        while self._free and self._waiting:
            self._free -= 1
            self._device.submit_read(*self._waiting.popleft())
        return done


@dataclass(frozen=True)
class Host:
    """What streams share."""

    memory_pages: int
    """Pages that the cache holds; at least those of all windows of all streams."""
    pages: int
    """Pages of all relations."""
    relation_starts: Sequence[int] = (0,)
    """First page of each relation, ascending: read-ahead is for each."""
    processors: int = 2


@dataclass(frozen=True)
class Played:
    """What came of a play."""

    seconds: float
    reads: int
    """Reads that the drive got."""
    read_pages: int
    busy_seconds: float
    """Processor time, of all processors together."""


@dataclass
class _Ahead:
    """Read-ahead of one file in one stream, as Linux's `struct file_ra_state`."""

    last: int = -2
    """Page that was used last."""
    end: int = 0
    """First page behind the window."""
    size: int = 0
    """Pages of the window."""
    mark: int = -1
    """Page whose use brings the next window."""


class _Stream:
    def __init__(self, pages: npt.ArrayLike, cpu_seconds: float, starts: Sequence[int]) -> None:
        array = np.asarray(pages, np.int64)
        self.pages = array.tolist()
        self.relations = (np.searchsorted(starts, array, side="right") - 1).tolist()
        self.ahead = {relation: _Ahead() for relation in set(self.relations)}
        self.cpu_ns = round(cpu_seconds * 1e9)
        """Processor time of each access."""
        self.at = 0
        """Place of the next access."""


class _Why(Enum):
    """Reason for which a stream gives its processor back."""

    ENDED = 0
    MISSES = 1
    """Its next page is not in memory."""
    READS_AHEAD = 2
    """It used a page that brings the next window."""
    SLICE = 3


def play(drive: Drive, host: Host, streams: Iterable[tuple[npt.ArrayLike, float]]) -> Played:
    """Play streams side by side until the last has ended.

    A stream is its pages, counted from the drive's start, and the processor time of each access in
    seconds.
    """
    starts = host.relation_starts
    return _Play(drive, host, [_Stream(pages, cpu, starts) for pages, cpu in streams]).run()


class _Play:
    """A play under way. Events of one time come in the order in which they were begun."""

    def __init__(self, drive: Drive, host: Host, streams: list[_Stream]) -> None:
        self.drive, self.host = drive, host
        self.cache: OrderedDict[int, None] = OrderedDict()
        self.ready: deque[_Stream] = deque(streams)
        self.free = host.processors
        self.bursts: list[tuple[int, int, _Stream, _Why]] = []
        """What processors do: its end, a number against ties, whose it is, and why it ends."""
        self.sent: dict[int, tuple[int, int]] = {}
        """Reads under way by number: first page, pages."""
        self.coming: set[int] = set()
        """Pages that are being read."""
        self.waiting: dict[int, list[_Stream]] = {}
        """Streams that wait for a page."""
        self.now = self.began = self.reads = self.read_pages = self.busy_ns = 0

    def run(self) -> Played:
        """See `play`."""
        while True:
            self._start()
            if not self.bursts and not self.sent:
                break
            until = self.bursts[0][0] if self.bursts else None
            done = self.drive.wait(until)
            for number, at in done:
                self.now = max(self.now, at)
                self._completed(number)
            if not done and until is not None:
                self.now = until
                _, _, stream, why = heapq.heappop(self.bursts)
                self.free += 1
                self._go_on(stream, why)
        return Played(self.now / 1e9, self.reads, self.read_pages, self.busy_ns / 1e9)

    def _start(self) -> None:
        while self.free and self.ready:
            stream = self.ready.popleft()
            count, why = self._burst(stream)
            spent = count * stream.cpu_ns
            self.free -= 1
            self.busy_ns += spent
            self.began += 1
            heapq.heappush(self.bursts, (self.now + spent, self.began, stream, why))

    def _burst(self, stream: _Stream) -> tuple[int, _Why]:
        """Use pages until something ends it; gives how many were used."""
        pages, relations, cache = stream.pages, stream.relations, self.cache
        begin = at = stream.at
        end = min(len(pages), begin + SLICE)
        why = _Why.SLICE if end < len(pages) else _Why.ENDED
        while at < end:
            page = pages[at]
            if page not in cache:
                why = _Why.MISSES
                break
            cache.move_to_end(page)
            ahead = stream.ahead[relations[at]]
            ahead.last = page
            at += 1
            if page == ahead.mark:
                why = _Why.READS_AHEAD
                break
        stream.at = at
        return at - begin, why

    def _go_on(self, stream: _Stream, why: _Why) -> None:
        if why is _Why.MISSES:
            self._miss(stream)
        elif why is not _Why.ENDED:
            if why is _Why.READS_AHEAD:
                relation = stream.relations[stream.at - 1]
                self._next_window(stream.ahead[relation], relation)
            self.ready.append(stream)

    def _miss(self, stream: _Stream) -> None:
        page, relation = stream.pages[stream.at], stream.relations[stream.at]
        ahead = stream.ahead[relation]
        if page in self.cache:
            # Another stream has read it meanwhile.
            self.ready.append(stream)
            return
        if page in self.coming:
            if page == ahead.mark:
                self._next_window(ahead, relation)
        elif page == ahead.last + 1 or page == self.host.relation_starts[relation]:
            ahead.size = FIRST_AHEAD_PAGES
            ahead.end = min(page + ahead.size, self._end_of(relation))
            ahead.mark = page + 1
            self._read(page, ahead.end)
        else:
            self._read(page, page + 1)
        self.waiting.setdefault(page, []).append(stream)

    def _end_of(self, relation: int) -> int:
        starts = self.host.relation_starts
        return starts[relation + 1] if relation + 1 < len(starts) else self.host.pages

    def _next_window(self, ahead: _Ahead, relation: int) -> None:
        first = ahead.end
        ahead.size = min(2 * ahead.size, MOST_AHEAD_PAGES)
        ahead.end = min(first + ahead.size, self._end_of(relation))
        ahead.mark = first
        self._read(first, ahead.end)

    def _read(self, first: int, end: int) -> None:
        """Send reads for the pages that are neither in memory nor under way."""
        page = first
        while page < end:
            begin = page
            while page < end and page not in self.cache and page not in self.coming:
                self.coming.add(page)
                page += 1
            if page > begin:
                self.reads += 1
                self.read_pages += page - begin
                self.sent[self.reads] = (begin, page - begin)
                self.drive.read(self.reads, begin * PAGE_BYTES, (page - begin) * PAGE_BYTES)
            else:
                page += 1

    def _completed(self, number: int) -> None:
        first, count = self.sent.pop(number)
        for page in range(first, first + count):
            self.coming.discard(page)
            self.cache[page] = None
            self.ready.extend(self.waiting.pop(page, ()))
        while len(self.cache) > self.host.memory_pages:
            self.cache.popitem(last=False)
