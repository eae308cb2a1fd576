"""REPLICATION 5.2: what fragmentation costs, on the recorded TPC-C load."""

from __future__ import annotations

from functools import cache
from typing import Any

from experiments import engine
from experiments.drives.experiment import SEED, Point, drive
from flashwright import data

CLIENTS = 10
"""Without thinking time (5.1): as many requests are outstanding."""
REQUESTS = 200_000
RESTORED = "loaded"
"""Erased but for the database: as long as the load does not use up what is erased."""
SUSTAINED = "aged(3)"


@cache
def run(state: str) -> dict[str, Any]:
    """Play the load on the drive of table 2 in a state."""
    return engine.play(
        drive("replication-table-2").profile,
        str(data.TPCC_REQUESTS),
        pace=f"closed({CLIENTS})",
        state=state,
        seed=SEED,
        requests=REQUESTS,
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
