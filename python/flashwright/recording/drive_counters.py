"""A drive's own counters before and after a recording: SMART, NVMe's and OCP's logs, eMMC's life.

`smartctl` and `nvme` are run where they are installed and we may open the drive. Nothing of this
stops a recording: what cannot be read is said in one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashwright._text import one_line
from flashwright.lifetime import SECONDS_IN_DAY

from . import disks, smart
from .device import BlockDevice
from .disks import Traffic

FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin")
"""Folders of the system's programs: PATH does not count, as root may run this."""
_ENVIRONMENT = {"PATH": ":".join(FOLDERS), "LC_ALL": "C"}
_PATIENCE_S = 20.0
_VIRTUAL = ("vd", "xvd", "loop", "zram", "ram", "nbd", "ublk", "rbd")
_HOURS_IN_DAY = 24
_MOST_FILE_BYTES = 4096


@dataclass(frozen=True)
class Answer:
    """Output of a program, and its exit code."""

    code: int
    out: str
    error: str = ""


Ask = Callable[[Sequence[str]], Answer | None]
"""Runs a program of the system, by its plain name; None if it is not installed."""


def ask_program(command: Sequence[str]) -> Answer | None:
    """Run a program from a fixed place in an environment of its own."""
    name, *words = command
    program = next(
        (path for folder in FOLDERS if os.access(path := f"{folder}/{name}", os.X_OK)), None
    )
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
            cwd="/",
            env=_ENVIRONMENT,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return Answer(-1, "", f"no answer within {_PATIENCE_S:g} s")
    except OSError as error:
        return Answer(-1, "", str(error.strerror))
    out, said = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return Answer(done.returncode, out, said)


class Reader:
    """Reads the counters of the disks below some devices: `begin`, then `end`."""

    def __init__(self, below: Sequence[BlockDevice], ask: Ask = ask_program) -> None:
        """Do nothing yet. `ask` runs the programs."""
        self._below, self._ask = below, ask
        self._disks: list[BlockDevice] = []
        self._before: list[_Read] = []

    def begin(self) -> None:
        """Read them before anything is recorded."""
        found = {disk.number: disk for device in self._below for disk in disks.whole(device)}
        self._disks = list(found.values())
        self._before = [read(disk, self._ask) for disk in self._disks]

    def end(self) -> dict[str, Any]:
        """Read them again, and give `drive_counters` of the result.

        `before`, `after`, `source` and `not_known` are of the drive, if it is one alone; `drives`
        has the same of each.
        """
        found = []
        for disk, before in zip(self._disks, self._before, strict=True):
            after = read(disk, self._ask) if before.counters else before
            found.append(_both(disk, before, after))
        if len(found) == 1:
            return {**found[0], "drives": found}
        return {"drives": found}


@dataclass(frozen=True)
class _Read:
    counters: smart.Counters | None
    source: str | None = None
    why: str | None = None
    """Reason why there are none, in a line."""


def read(disk: BlockDevice, ask: Ask = ask_program, *, is_openable: bool | None = None) -> _Read:
    """Read the counters of a disk.

    `is_openable`: whether we may open its node; looked at if None.
    """
    of_mmc = _read_mmc(disk)
    if of_mmc is not None:
        return of_mmc
    if disk.name.startswith(_VIRTUAL):
        return _Read(None, why=f"{disk.name} is a virtual disk, which has none")
    if disk.name.startswith("mmcblk"):
        return _Read(None, why=f"{disk.name} is a card, which has none that Linux shows")
    can_open = os.access(disk.path, os.R_OK) if is_openable is None else is_openable
    if not can_open:
        return _Read(None, why=f"to read those of {disk.path} needs root (sudo)")
    is_nvme = disk.name.startswith("nvme")
    ways = (_by_nvme_cli, _by_smartctl) if is_nvme else (_by_smartctl,)
    whys = []
    for way in ways:
        found = way(disk, ask)
        if found.counters is not None:
            return _checked(disk, found)
        whys.append(found.why or "")
    return _Read(None, why="; ".join(whys))


def _by_nvme_cli(disk: BlockDevice, ask: Ask) -> _Read:
    answer = ask(["nvme", "smart-log", str(disk.path), "-o", "json"])
    if answer is None:
        return _Read(None, why="nvme is not installed (Debian: apt-get install nvme-cli)")
    document = _document(answer)
    if document is None:
        return _Read(None, why=f"nvme smart-log {disk.path}: {_first_line(answer)}")
    ocp = ask(["nvme", "ocp", "smart-add-log", str(disk.path), "-o", "json"])
    log = None if ocp is None else _document(ocp)
    try:
        counters = smart.of_nvme_cli(document, log)
    except ValueError as error:
        return _Read(None, why=f"nvme smart-log {disk.path}: {one_line(str(error))}")
    has_media = counters.media_written_bytes is not None
    return _Read(counters, "nvme smart-log" + (", nvme ocp smart-add-log" if has_media else ""))


def _by_smartctl(disk: BlockDevice, ask: Ask) -> _Read:
    answer = ask(["smartctl", "-j", "-a", "-l", "devstat", str(disk.path)])
    if answer is None:
        return _Read(None, why="smartctl is not installed (Debian: apt-get install smartmontools)")
    document = _document(answer)
    if document is None:
        return _Read(None, why=f"smartctl {disk.path}: {_first_line(answer)}")
    try:
        return _Read(smart.of_smartctl(document), "smartctl")
    except ValueError as error:
        return _Read(None, why=f"smartctl {disk.path}: {one_line(str(error))}")


def _document(answer: Answer) -> Mapping[str, Any] | None:
    # smartctl's exit code says also what it thinks of the drive's health: the JSON counts.
    try:
        found = json.loads(answer.out)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


def _first_line(answer: Answer) -> str:
    lines = (answer.error or answer.out).strip().splitlines()
    return one_line(lines[0]) if lines else f"exit {answer.code}, and no word"


def _read_mmc(disk: BlockDevice) -> _Read | None:
    if not disk.name.startswith("mmcblk"):
        return None
    words = {}
    for name in ("life_time", "pre_eol_info", "name"):
        with contextlib.suppress(OSError), (disk.sys / "device" / name).open("rb") as file:
            words[name] = file.read(_MOST_FILE_BYTES).decode(errors="replace").strip()
    try:
        counters = smart.of_mmc(
            words.get("life_time", ""), words.get("pre_eol_info", ""), words.get("name", "")
        )
    except ValueError:
        return None
    return None if counters is None else _Read(counters, f"{disk.sys}/device")


def _checked(disk: BlockDevice, found: _Read) -> _Read:
    """Leave out a counter that cannot be true: less than this kernel alone has sent."""
    counters = found.counters
    if counters is None or counters.host_written_bytes is None:
        return found
    sent = disks.traffic().get(disk.number, Traffic()).written_bytes
    if counters.host_written_bytes + (counters.host_written_step_bytes or 0) < sent:
        counters.not_known.append(
            f"bytes that the host has written: the drive counts {counters.host_written_bytes:,}, "
            f"and this machine has sent {sent:,} since it runs, so that the unit is another"
        )
        counters.host_written_bytes = counters.host_written_step_bytes = None
        counters.media_written_bytes = counters.media_written_step_bytes = None
    return found


def _both(disk: BlockDevice, before: _Read, after: _Read) -> dict[str, Any]:
    reads = (before, after)
    not_known = [f"the drive's own counters: {one.why}" for one in reads if one.why]
    for one in reads:
        if one.counters is not None:
            not_known += one.counters.not_known
            one.counters.not_known = []
    return {
        "drive": disk.name,
        "before": None if before.counters is None else before.counters.document(),
        "after": None if after.counters is None else after.counters.document(),
        "source": after.source or before.source,
        "not_known": list(dict.fromkeys(not_known)),
    }


def daily_bytes(counters: Mapping[str, Any]) -> float | None:
    """Give the bytes a day that hosts have written to a drive over its life, while it had power.

    `counters`: `drive_counters` of a result. None if that is not known: of several drives, of one
    that does not count bytes or hours, or has been on for less than a day, or whose hours cannot be
    true, as it was busy for longer than it says that it was on.
    """
    found = counters.get("after") or counters.get("before")
    if not isinstance(found, Mapping):
        return None
    written, hours = found.get("host_written_bytes"), found.get("power_on_hours")
    if not isinstance(written, int) or not isinstance(hours, int) or hours < _HOURS_IN_DAY:
        return None
    busy = found.get("busy_minutes")
    if isinstance(busy, int) and busy > (hours + 1) * 60:
        return None
    return written / (hours * 3600) * SECONDS_IN_DAY


def delta(counters: Mapping[str, Any], name: str) -> int | None:
    """Give by how much a counter grew during a recording; None if it is not known."""
    before, after = ((counters.get(when) or {}).get(name) for when in ("before", "after"))
    return after - before if isinstance(before, int) and isinstance(after, int) else None
