"""What actions say and look at in common: the disk's name, shares of a load, its commits."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flashwright._text import percent, significant, size, span
from flashwright.advice.action import NotKnown
from flashwright.advice.case import Case
from flashwright.advice.setup import Commits
from flashwright.lifetime import volume

SMALL = 0.05
"""Share of what is written, or of a wait, below which a change of it is not worth while."""
_PARTITION = re.compile(r"^(?P<disk>.*\d)p\d+$|^(?P<plain>(?:[shv]|xv)d[a-z]+)\d+$")


def share(value: float) -> str:
    """Give a share of 1 as per cent in two digits."""
    return percent(value, 2)


def disk(case: Case) -> str:
    """Give the node of the whole disk, or a word that stands for it."""
    name = str(case.device.get("name") or "")
    found = _PARTITION.match(name)
    whole = (found["disk"] or found["plain"]) if found else name
    return f"/dev/{whole}" if whole else "/dev/DISK"


def partition(case: Case) -> str:
    """Give the node that was recorded, or a word that stands for it."""
    name = str(case.device.get("name") or "")
    return f"/dev/{name}" if name else "/dev/PARTITION"


def queue_file(case: Case, name: str) -> str:
    """Give the file of a setting of the disk's queue."""
    return f"/sys/block/{disk(case).removeprefix('/dev/')}/queue/{name}"


def mount_point(case: Case) -> str:
    """Give where the file system is mounted, or a word that stands for it."""
    return str(case.file_system.get("mount_point") or "MOUNT_POINT")


def file_system(case: Case) -> str:
    """Give the type of the file system; empty if it is not known."""
    return str(case.file_system.get("type") or "")


def mount_options(case: Case) -> tuple[str, ...]:
    """Give the options that the file system is mounted with."""
    return tuple(str(case.file_system.get("options") or "").split(","))


def place(case: Case) -> str:
    """Give the path of the database, or a word that stands for it."""
    words = {"postgres": "DATA_DIRECTORY", "sqlite": "DATABASE", "mysql": "DATA_DIRECTORY"}
    return case.database_path or words.get(case.database or "", "PATH")


def record(case: Case, long: str = "10m") -> str:
    """Give the command that records the database with its log."""
    if case.database in ("postgres", "sqlite"):
        return f"flashwright record --database {case.database} {place(case)} --for {long}"
    return f"flashwright record --database KIND PATH --for {long}, with postgres, sqlite or files"


def advise(case: Case, more: str) -> str:
    """Give the command that asks again, with more."""
    source = (
        f"--database {case.database} {place(case)}"
        if case.database in ("postgres", "sqlite")
        else case.load.name
    )
    return f"flashwright advise {source} {more}"


def amplification(case: Case) -> str:
    """Say what the flash programs for each byte that is written."""
    found = significant(case.figures.write_amplification)
    return f"the flash programs {found} bytes for each that is written"


def moved(case: Case) -> float:
    """Give the bytes that cleaning and the like program for each byte that is written."""
    return max(0.0, case.figures.write_amplification - 1)


def commits(case: Case) -> Commits | None:
    """Give the commits as recorded, or else as simulated; None if neither is known."""
    return case.load.commits or case.figures.commits


def commits_said(case: Case) -> str:
    """Say how long a commit waits; empty if that is not known."""
    found = commits(case)
    if found is None:
        return ""
    how = "recorded" if case.load.commits is not None else "simulated"
    return f"{span(found.mean)} in the mean, 99 % within {span(found.p99)} ({how})"


def flush_share(found: Commits) -> float:
    """Give the share of a commit that is its flush."""
    return found.flush_mean / found.mean if found.mean else 0.0


def waiting(case: Case) -> str:
    """Say what share of their time clients wait for commits; empty if that is not known."""
    if case.loop is None:
        return ""
    return f"clients wait {share(case.loop.waiting_share)} of their time for commits"


def per_day(case: Case) -> str:
    """Give what the disk is written a day; empty if that is not known."""
    return "" if case.writes_per_day is None else f"{volume(case.writes_per_day)} a day"


def written(case: Case) -> str:
    """Give what the disk got, and in which time."""
    load = case.load
    said = size(load.written_bytes)
    return f"{said} in {span(load.seconds)}" if load.seconds else said


def purposes_not_known(case: Case, action: str, what: str) -> NotKnown:
    """Say that a trace does not tell what its requests are for."""
    why = f"{case.load.name} does not say which requests are of which file"
    return NotKnown(action, what, why, record(case))


def has_log(case: Case) -> bool:
    """Tell whether the database's log says what other settings would write."""
    return case.what_ifs is not None and case.what_ifs.refused is None


def log_missing(case: Case, action: str, what: str, more: str = "") -> NotKnown:
    """Say that nothing tells what other settings would write; `more` is what is known."""
    refused = None if case.what_ifs is None else case.what_ifs.refused
    why = (
        "the recording has not kept what the database put into its log"
        if refused is None
        else f"what the recording kept of its log is refused: {refused}"
    )
    return NotKnown(action, what, f"{why}{f'; {more}' if more else ''}", record(case))


def is_on(settings: Mapping[str, str], name: str) -> bool | None:
    """Tell whether a setting is on; None if it is not known."""
    text = settings.get(name)
    return None if text is None else text.lower() in ("on", "true", "1", "yes")
