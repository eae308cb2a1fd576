"""A first look without tracing, and without root: counters of the kernel, the server and the drive.

The kernel counts what processes write (/proc/PID/io) and what devices get (/proc/diskstats), but
not whose each byte is. So what is of the database is given as a range with both ends.
"""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashwright._core import __version__

from . import device as devices
from . import disks
from .disks import Traffic
from .drive_counters import Ask, Reader, ask_program
from .own_counts import OwnCounts
from .page_cache import dirty_bytes, dirty_bytes_of
from .process_io import Processes, Written, tree_of
from .running import Running

LOOK_S = 0.25
"""Between two looks at processes and devices."""
_WORK_SHARE = 0.05
"""Looking takes no more of a processor than this."""
MOST_SAMPLES = 4096
"""Most samples: when there are more, every other one is dropped, and they are taken half as often.
"""
_GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Sample:
    """Counters at one moment."""

    time_ns: int
    written: Written
    device: Traffic
    disks: Traffic
    dirty_bytes: int


class Light:
    """Counts from `begin` to `end`, with `sample` in between."""

    def __init__(
        self,
        running: Running,
        keeper: int | None = None,
        *,
        ask: Ask = ask_program,
        groups: Path = _GROUPS,
    ) -> None:
        """Find the devices.

        `keeper`: the process of ours below which a program of the database runs. `ask` runs the
        programs that read a drive's counters; `groups` is where control groups are.

        Raises:
            InputError: the database is on no block device.
        """
        self._running = running
        places = {place for root in running.roots for place in [_there(root)] if place is not None}
        found = {one.number: one for place in sorted(places) for one in disks.below(place)}
        self.below = list(found.values())
        """Devices that the file systems are on."""
        whole = {one.number: one for device in self.below for one in disks.whole(device)}
        self.disks = list(whole.values())
        self._counted = [disks.disk_of(device) for device in self.below]
        self._processes = Processes(running, keeper)
        self._own = OwnCounts(running) if running.kind == "postgres" else None
        self._drives = Reader(self.below, ask)
        self._group = Group.of(running, groups) if running.kind == "postgres" else None
        self._group_before = 0
        self._samples: list[Sample] = []
        self._every, self._skipped = 1, 0
        self.pause_s = LOOK_S
        self._first_dirty = 0

    @property
    def seconds(self) -> float:
        """Seconds that it has counted."""
        return (time.monotonic_ns() - self._samples[0].time_ns) / 1e9 if self._samples else 0.0

    @property
    def now(self) -> tuple[int, int]:
        """Bytes that the database has written by calls, and that the device got, so far."""
        if not self._samples:
            return 0, 0
        first, last = self._samples[0], self._samples[-1]
        return last.written.call_bytes, (last.device - first.device).written_bytes

    def begin(self) -> None:
        """Count from now on. `close` at the end, whatever happened."""
        self._drives.begin()
        if self._own is not None:
            self._own.prepare()
        self._processes.begin()
        self._samples = [self._sample()]
        self._first_dirty = min(
            known
            for known in (
                self._samples[0].dirty_bytes,
                None if self._group is None else self._group.dirty_bytes(),
                dirty_bytes_of(self._running.roots),
            )
            if known is not None
        )
        self._group_before = 0 if self._group is None else self._group.written(self._counted)
        if self._own is not None:
            self._own.begin()

    def sample(self) -> None:
        """Look at everything now; after `pause_s` again."""
        begun = time.thread_time()
        self._processes.look()
        self.pause_s = max(LOOK_S, (time.thread_time() - begun) / _WORK_SHARE)
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self._samples.append(self._sample())
        if len(self._samples) > MOST_SAMPLES:
            self._samples[1::2] = []
            self._every *= 2

    def end(self) -> dict[str, Any]:
        """Count no more, and give `counters`, `drive_counters` and `not_known` of the result."""
        own = None if self._own is None else self._own.end()
        self._processes.look()
        self._samples.append(self._sample())
        of_group = None if self._group is None else self._group.written(self._counted)
        first, last = self._samples[0], self._samples[-1]
        got, of_disks = last.device - first.device, last.disks - first.disks
        gaps = self._processes.gaps()
        counters = {
            "seconds": (last.time_ns - first.time_ns) / 1e9,
            "database": self._of_database(last.written, is_whole=not gaps),
            "own_counts": own,
            "device": {"names": [one.name for one in self.below], **_said(got)},
            "disks": {"names": [one.name for one in self.disks], **_said(of_disks)},
            "dirty_bytes": {
                "before": first.dirty_bytes,
                "after": last.dirty_bytes,
                "of_database_before": self._first_dirty,
            },
            "control_group": None
            if self._group is None or of_group is None
            else {"path": str(self._group.path), "write_bytes": of_group - self._group_before},
        }
        counters["database_data_at_device"] = self._range(counters)
        not_known = [*gaps, *self._running.not_told]
        if self._own is not None and self._own.why is not None:
            not_known.append(f"what the server itself counts: {self._own.why}")
        drives = self._drives.end()
        not_known += [why for one in drives["drives"] for why in one["not_known"]]
        return {"counters": counters, "drive_counters": drives, "not_known": not_known}

    def close(self) -> None:
        """End what asks the server."""
        if self._own is not None:
            self._own.close()

    def about(self, command: Sequence[str]) -> dict[str, Any]:
        """Give `recording` of the result."""
        point, _, kind, options = devices.mount_of(self._running.place)
        device = self.below[0]
        return {
            "form": "light",
            "state": "stopped",
            "flashwright": __version__,
            "command_line": list(command),
            "kernel": platform.release(),
            "device": device.about(),
            "disks": [disk.name for disk in self.disks],
            "database": {"kind": self._running.kind, "path": str(self._running.path)},
            "file_system": {"type": kind, "options": options, "mount_point": str(point)},
        }

    def columns(self) -> dict[str, list[int]]:
        """Give the samples, each counted from the first: the table `samples`."""
        first = self._samples[0]
        of_devices = [(one, one.device - first.device) for one in self._samples]
        return {
            "time_ns": [one.time_ns - first.time_ns for one in self._samples],
            "database_call_bytes": [one.written.call_bytes for one in self._samples],
            "device_write_bytes": [got.written_bytes for _, got in of_devices],
            "device_writes": [got.writes for _, got in of_devices],
            "device_flushes": [got.flushes for _, got in of_devices],
            "disk_write_bytes": [(one.disks - first.disks).written_bytes for one in self._samples],
            "dirty_bytes": [one.dirty_bytes for one in self._samples],
        }

    def _sample(self) -> Sample:
        of_all = disks.traffic()
        return Sample(
            time.monotonic_ns(),
            self._processes.written(),
            disks.total(self.below, of_all),
            disks.total(self.disks, of_all),
            dirty_bytes(),
        )

    def _of_database(self, written: Written, *, is_whole: bool) -> dict[str, Any] | None:
        if self._processes.refused and not written.calls:
            return None
        is_by_calls = self._processes.writes_otherwise is None
        return {
            "processes": self._processes.number,
            "is_whole": is_whole,
            "write_calls": written.calls,
            "write_call_bytes": written.call_bytes,
            "dirtied_bytes": written.dirtied_bytes,
            "cancelled_bytes": written.cancelled_bytes,
            "at_most_bytes": written.data_bytes(
                is_aligned=self._running.kind == "postgres", is_by_calls=is_by_calls
            ),
            "writes_otherwise": self._processes.writes_otherwise,
        }

    def _range(self, counters: dict[str, Any]) -> dict[str, int]:
        """Give how much of what the device got is of the database's data: from and to.

        At most what its processes can have dirtied meanwhile, and what lay dirty in memory before.
        At least what its control group sent, or what the server says that it flushed of its log.
        """
        got = counters["device"]["write_bytes"]
        database, own = counters["database"], counters["own_counts"]
        high = got
        if database is not None and database["is_whole"]:
            high = min(got, database["at_most_bytes"] + self._first_dirty)
        low = 0
        # Its log may be where we do not look.
        if own is not None and own["wal_flushed_bytes"] and not self._running.not_told:
            low = own["wal_flushed_bytes"]
        if counters["control_group"] is not None:
            low = max(low, counters["control_group"]["write_bytes"])
        return {"from_bytes": min(low, high), "to_bytes": high}


def _said(got: Traffic) -> dict[str, int]:
    return {
        "write_bytes": got.written_bytes,
        "writes": got.writes,
        "flushes": got.flushes,
        "trim_bytes": got.trimmed_bytes,
        "read_bytes": got.read_bytes,
    }


def _there(root: Path) -> Path | None:
    """Give a place on the file system of a file: its folder, where that is not there yet."""
    for place in (root, root.parent):
        try:
            if place.exists():
                return place
        except OSError:
            continue
    return None


@dataclass(frozen=True)
class Group:
    """A control group (version 2) that holds a server and nothing else: its writes are counted."""

    path: Path

    @staticmethod
    def of(running: Running, root: Path) -> Group | None:
        """Find the group of a server; None if it shares one, or the kernel does not count there."""
        try:
            lines = Path(f"/proc/{running.pids[0]}/cgroup").read_text().splitlines()
            name = next(line[3:] for line in lines if line.startswith("0::/"))
        except (OSError, StopIteration):
            return None
        path = root / name.lstrip("/")
        if name == "/" or not (path / "io.stat").is_file():
            return None
        members = {int(word) for word in (path / "cgroup.procs").read_text().split()}
        return Group(path) if members and members == tree_of([running.pids[0]]) else None

    def written(self, on: Sequence[devices.BlockDevice]) -> int:
        """Give the bytes that it sent to these disks so far."""
        numbers = {disk.number for disk in on}
        total = 0
        for line in (self.path / "io.stat").read_text().splitlines():
            number, *words = line.split()
            if number in numbers:
                total += sum(int(word[7:]) for word in words if word.startswith("wbytes="))
        return total

    def dirty_bytes(self) -> int | None:
        """Give how much of it waits in memory to be written; None if that is not counted."""
        try:
            text = (self.path / "memory.stat").read_text()
        except OSError:
            return None
        found = re.findall(r"^(?:file_dirty|file_writeback) (\d+)$", text, re.MULTILINE)
        return sum(map(int, found)) if found else None
