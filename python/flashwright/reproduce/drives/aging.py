"""REPLICATION 5.2: what fragmentation costs, on the recorded TPC-C load."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from flashwright import _core, data
from flashwright.reproduce.drives.experiment import SEED, Point, drive

CLIENTS = 10
"""Without thinking time (5.1): as many requests are outstanding."""


@dataclass(frozen=True)
class State:
    """A state of the drive, and how long it is measured there."""

    name: str
    requests: int
    overwrites: float = 0.0


RESTORED = State("loaded", 200_000)
"""Erased but for the database: as long as the load does not use up what is erased."""
SUSTAINED = State("aged", 200_000, 3.0)


@cache
def run(state: State) -> dict[str, Any]:
    """Play the load on the drive of table 2 in a state."""
    table_2 = drive("replication-table-2")
    requests = _core.load_requests(str(data.TPCC_REQUESTS), seed=SEED)
    return _core.simulate_drive(
        table_2.profile,
        [{"requests": requests, "depth": CLIENTS}],
        state=state.name,
        overwrites=state.overwrites,
        seed=SEED,
        most_requests=state.requests,
    )


def throughput() -> float:
    """Give the throughput of the sustained state over that of the restored one."""
    return float(run(SUSTAINED)["iops"] / run(RESTORED)["iops"])


def response() -> float:
    """Give the mean response time of the sustained state over that of the restored one."""
    return float(
        run(SUSTAINED)["latency_ns"]["all"]["mean"] / run(RESTORED)["latency_ns"]["all"]["mean"]
    )


def points() -> list[Point]:
    """Give the two figures.

    The paper's are of transactions, which wait for locks and restart; ours of requests.
    """
    remark = (
        "of requests, not of transactions: with ten clients and no thinking time, throughput times "
        "response is constant (Little), which the paper's two figures are not"
    )
    return [
        Point(
            "throughput, fragmented over restored",
            "REPLICATION 5.2 (-71 %)",
            0.29,
            "x",
            throughput,
            None,
            remark=remark,
        ),
        Point(
            "mean response, fragmented over restored",
            "REPLICATION 5.2 (+100 %)",
            2.0,
            "x",
            response,
            None,
            remark=remark,
        ),
    ]
