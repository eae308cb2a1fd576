"""What the flash under a fleet is written, by policy and spare space: each volume, and the sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from flashwright._core import InputError, RunError
from flashwright._text import several
from flashwright.comparing.policies import Policy
from flashwright.engine.doing import Done, do
from flashwright.engine.task import Task, task_of
from flashwright.engine.where import Where
from flashwright.fleet import counting
from flashwright.fleet.costs import FleetDrive, costs
from flashwright.fleet.naming import content_of, named
from flashwright.fleet.stores import Fleet, Volume
from flashwright.lifetime import LEAST_SECONDS, SECONDS_IN_DAY
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


def _task_of(fleet: Fleet, volume: Volume, asked: Asked) -> Task:
    source = fleet.folder(volume.volume)
    settings = {**asked.document(), "source": source, "writes": volume.requests[1]}
    return task_of(counting.KIND, settings, [source], [counting.COUNTS])


def save(
    fleet: Fleet, asked: Asked, where: Where, command: str, drive: FleetDrive | None = None
) -> tuple[Run, Done]:
    """Simulate each volume that is not known yet, and add them up.

    With a `drive` also how many of them that wears out.

    Raises InputError for a policy in Python; RunError if no volume can be counted; StoppedError
    before the first one was.
    """
    for policy in asked.policies:
        if policy.python is not None:
            raise InputError(
                f"{policy.placement}: a policy in Python is not sent to other processes; right "
                "would be a trace of one volume"
            )
    tasks = named(fleet, lambda one: _task_of(fleet, one, asked))
    done = do(tasks, f"Simulating {several(len(tasks), 'volume')}", "volumes", where)
    found = _Sums(fleet, asked, tasks, done)
    if not found.volumes:
        if done.stop is not None:
            raise done.stopped()
        raise RunError(f"{fleet.path}: {found.why_nothing()}")
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
    tables = {"volumes": table(_columns(found.volumes)), "sums": table(_columns(result["sums"]))}
    return Job(command, identity, inputs, asked.seed).run(result, tables), done


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
        self._idle = 0
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
            self._take(volume, outcome.figures, counts)

    def _take(self, volume: Volume, kept: dict[str, Any], counts: pa.Table) -> None:
        if not kept["page_writes"]:
            self._idle += 1
            return
        rows = counts.to_pylist()
        # What was kept comes back in another order.
        figures = {name: kept[name] for name in counting.FIGURES}
        written = figures["page_writes"] * self._asked.page_size
        host = volume.bytes[1]
        wrong = next((row["error"] for row in rows if row["error"] is not None), None)
        if wrong is not None:
            self._left_out.append(
                {"volume": volume.volume, "written_bytes": written, "error": wrong}
            )
            return
        shared = {
            "volume": volume.volume, **figures, "host_bytes": host, "written_bytes": written,
        }  # fmt: skip
        self._figures.append(shared)
        for row in rows:
            flash = row["write_amplification"] * written
            self.volumes.append({**shared, **row, "flash_bytes": flash})

    def why_nothing(self) -> str:
        """Say why there is no row."""
        for some in (self.failures, self._left_out):
            if some:
                return f"nothing came of any volume; volume {some[0]['volume']}: {some[0]['error']}"
        return "no volume writes; right would be the store of a trace with writes"

    def document(self, drive: FleetDrive | None) -> dict[str, Any]:
        """Give the sums, and what they rest on."""
        seconds = self._fleet.seconds

        def sum_of(name: str) -> int:
            return sum(one[name] for one in self._figures)

        written, host = sum_of("written_bytes"), sum_of("host_bytes")
        pages = sum_of("pages") * self._asked.page_size
        days = None if seconds < LEAST_SECONDS else seconds / SECONDS_IN_DAY
        a_day = None if days is None else written / days
        left_out = sum(one["written_bytes"] for one in self._left_out)
        sums = [self._sum(rows, written, a_day) for rows in self._cells().values()]
        return {
            "volumes": len(self._figures),
            "volumes_of_store": len(self._fleet.volumes),
            "idle_volumes": self._idle,
            "sampled_volumes": sum(one["one_in"] > 1 for one in self._figures),
            "repeated_volumes": sum(one["repeat"] > 1 for one in self._figures),
            "traced_seconds": seconds,
            "host_bytes": host,
            "host_bytes_per_day": None if days is None else host / days,
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
        amplification = flash / written
        steady = sum(row["written_bytes"] for row in rows if row["steady"])
        return {
            "policy": Policy(placement, victim).label,
            "placement": placement,
            "victim": victim,
            "over_provisioning": over_provisioning,
            "write_amplification": amplification,
            "write_amplification_half": _half(rows, written),
            "steady_share": steady / written,
            "flash_bytes": flash,
            "flash_bytes_per_day": None if a_day is None else a_day * amplification,
        }


def _half(rows: Sequence[dict[str, Any]], written: int) -> float | None:
    """Give the half 95 % interval of the write amplification over volumes.

    None where one of them has none, or is a sample: how far that is off no interval says. Volumes
    are independent of each other, so that squares add up.
    """
    if any(row["write_amplification_high"] is None or row["one_in"] > 1 for row in rows):
        return None
    halves = (
        (row["write_amplification_high"] - row["write_amplification"]) * row["written_bytes"]
        for row in rows
    )
    return math.sqrt(sum(half * half for half in halves)) / written
