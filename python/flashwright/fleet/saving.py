"""What the flash under a fleet is written, by policy and spare space: each volume, and the sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from flashwright._core import InputError, RunError
from flashwright._text import several
from flashwright.comparing.policies import Policy
from flashwright.engine.task import Task, task_of
from flashwright.engine.where import Where
from flashwright.fleet import counting
from flashwright.fleet.costs import FleetDrive, costs
from flashwright.fleet.doing import Done, content_of, do
from flashwright.fleet.stores import Fleet
from flashwright.lifetime import SECONDS_IN_DAY, Recorded
from flashwright.progress import work
from flashwright.runs import Job, Run, table

if TYPE_CHECKING:
    import pyarrow as pa

FAILURES = 100
"""Failures that are told one by one."""
_CELL = ("placement", "victim", "over_provisioning")


@dataclass(frozen=True)
class Asked:
    """Settings of a fleet's simulations."""

    policies: Sequence[Policy]
    over_provisionings: Sequence[float]
    page_size: int = 4096
    sample: int = 8
    """One page in so many of a volume, where that leaves enough of them."""
    pages_per_erase_block: int = 64
    start: str = "filled"
    seed: int = 1

    def document(self) -> dict[str, Any]:
        """Give it as JSON holds it: the settings of the job of each volume, but for its source."""
        pairs = [(one.placement, one.victim) for one in self.policies]
        return {**asdict(self), "policies": pairs}


def tasks_of(fleet: Fleet, asked: Asked) -> list[Task]:
    """Give a job for each volume. Raises InputError for a policy in Python."""
    for policy in asked.policies:
        if policy.python is not None:
            raise InputError(
                f"{policy.placement}: a policy in Python is not sent to other processes; right "
                "would be a trace of one volume"
            )
    found = []
    for one in fleet.volumes:
        source = fleet.folder(one.volume)
        settings = {**asked.document(), "source": source, "writes": one.requests[1]}
        found.append(task_of(counting.KIND, settings, [source], [counting.COUNTS]))
    return found


def save(
    fleet: Fleet, asked: Asked, where: Where, command: str, drive: FleetDrive | None = None
) -> tuple[Run, Done]:
    """Simulate each volume that is not known yet, and add them up.

    With a `drive` also how many of them that wears out.

    Raises RunError if nothing of any volume is known.
    """
    tasks = work(
        f"Looking at {several(len(fleet.volumes), 'volume')}", "", lambda _: tasks_of(fleet, asked)
    )
    done = do(tasks, f"Simulating {several(len(tasks), 'volume')}", where)
    found = _Sums(fleet, asked, tasks, done)
    if not found.volumes:
        why = f": {found.failures[0]['error']}" if found.failures else ""
        raise RunError(f"{fleet.path}: nothing came of any volume{why}")
    content = content_of(tasks)
    identity = [content, asked.document(), None if drive is None else drive.document()]
    inputs = [{"source": str(fleet.path), "sha256": None, "content_hash": content}]
    result = {
        "complete": not done.left and not found.failures,
        "source": str(fleet.path),
        **asked.document(),
        **found.document(drive),
        **fleet.told,
        "left": done.left,
    }
    job = Job(command, identity, inputs, asked.seed)
    return job.run(
        result, {"volumes": found.table(), "sums": table(_columns(result["sums"]))}
    ), done


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


class _Sums:
    """The rows of all volumes, and their sums over those of which every row is known."""

    def __init__(self, fleet: Fleet, asked: Asked, tasks: Sequence[Task], done: Done) -> None:
        self._fleet, self._asked = fleet, asked
        self.volumes: list[dict[str, Any]] = []
        """One for each volume, policy and over-provisioning."""
        self.failures: list[dict[str, Any]] = []
        self._left_out: list[dict[str, Any]] = []
        self._figures: list[dict[str, Any]] = []
        for volume, task in zip(fleet.volumes, tasks, strict=True):
            outcome = done.outcomes.get(task.key)
            if outcome is None:
                continue
            if outcome.ended != "done":
                self.failures.append({"volume": volume.volume, "error": outcome.error})
                continue
            counts = done.store.table(task.key, counting.COUNTS)
            if counts is None:
                raise RunError(f"{done.store.url}: the table of {task.settings['source']} is gone")
            self._take(volume.volume, outcome.figures, counts)

    def _take(self, volume: int, figures: dict[str, Any], counts: pa.Table) -> None:
        rows = counts.to_pylist()
        written = figures["page_writes"] * self._asked.page_size
        wrong = next((row["error"] for row in rows if row["error"] is not None), None)
        if wrong is not None:
            self._left_out.append({"volume": volume, "written_bytes": written, "error": wrong})
            return
        self._figures.append({"volume": volume, "written_bytes": written, **figures})
        shared = {"volume": volume, **figures, "written_bytes": written}
        for row in rows:
            flash = row["write_amplification"] * written
            self.volumes.append({**shared, **row, "flash_bytes": flash})

    def table(self) -> pa.Table:
        """Give the rows of all volumes."""
        return table(_columns(self.volumes))

    def document(self, drive: FleetDrive | None) -> dict[str, Any]:
        """Give the sums, and what they rest on."""
        seconds = self._fleet.seconds
        written = sum(one["written_bytes"] for one in self._figures)
        pages = sum(one["pages"] for one in self._figures) * self._asked.page_size
        recorded = Recorded(seconds, written * SECONDS_IN_DAY / seconds) if seconds else None
        a_day = None if recorded is None or recorded.is_short else recorded.bytes_per_day
        left_out = sum(one["written_bytes"] for one in self._left_out)
        sums = [self._sum(rows, written, a_day) for rows in self._cells().values()]
        return {
            "volumes": len(self._figures),
            "idle_volumes": sum(not one["page_writes"] for one in self._figures),
            "sampled_volumes": sum(one["one_in"] > 1 for one in self._figures),
            "repeated_volumes": sum(one["repeat"] > 1 for one in self._figures),
            "traced_seconds": seconds,
            "written_bytes": written,
            "bytes_per_day": a_day,
            "data_bytes": pages,
            "sums": costs(sums, drive, pages, a_day),
            "drive": None if drive is None else drive.document(),
            "left_out_volumes": len(self._left_out),
            "left_out_share": left_out / (left_out + written) if left_out else 0.0,
            "left_out_for": self._left_out[:FAILURES],
            "failures": self.failures[:FAILURES],
            "failed": len(self.failures),
        }

    def _cells(self) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
        cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in self.volumes:
            cells.setdefault(tuple(row[name] for name in _CELL), []).append(row)
        return cells

    @staticmethod
    def _sum(rows: list[dict[str, Any]], written: int, a_day: float | None) -> dict[str, Any]:
        flash = sum(row["flash_bytes"] for row in rows)
        placement, victim, over_provisioning = (rows[0][name] for name in _CELL)
        # Volumes are independent of each other: squares of their half intervals add up.
        # How far a sample is off they do not say.
        is_sample = any(row["one_in"] > 1 for row in rows)
        known = [row for row in rows if row["write_amplification_high"] is not None]
        half = math.sqrt(
            sum(
                (
                    (row["write_amplification_high"] - row["write_amplification"])
                    * row["written_bytes"]
                )
                ** 2
                for row in known
            )
        )
        amplification = flash / written
        steady = sum(row["written_bytes"] for row in rows if row["steady"])
        return {
            "policy": Policy(placement, victim).label,
            "placement": placement,
            "victim": victim,
            "over_provisioning": over_provisioning,
            "write_amplification": amplification,
            "write_amplification_half": half / written if known and not is_sample else None,
            "steady_share": steady / written,
            "flash_bytes": flash,
            "flash_bytes_per_day": None if a_day is None else a_day * amplification,
        }
