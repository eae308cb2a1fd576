"""Clients in a closed network, by mean value analysis.

Reiser and Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", JACM 27, 1980.
"""

from __future__ import annotations

from collections.abc import Sequence


def rate_of(clients: int, demands: Sequence[float], away: float) -> float:
    """Give the turns a second of clients, 1 or more, who queue at stations one after the other.

    `demands`: seconds that each station serves one client in a turn. `away`: seconds of a turn in
    which a client queues for none.
    """
    waiting, rate = [0.0] * len(demands), 0.0
    for number in range(1, clients + 1):
        each = [served * (1 + before) for served, before in zip(demands, waiting, strict=True)]
        rate = number / max(away + sum(each), 1e-12)
        waiting = [rate * one for one in each]
    return rate
