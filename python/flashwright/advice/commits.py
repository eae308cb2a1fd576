"""Times that commits wait for a drive: the log is written, then it is flushed.

A commit is a flush with the log writes since the flush before it. Those go on together, the flush
follows them: so a commit takes as long as the longest of them, and the flush. Where a load has no
flush (the drive is known to keep what it has acknowledged), a commit is a log write.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flashwright.advice.setup import Commits

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def commits_of(
    begin_ns: npt.NDArray[Any],
    latency_ns: npt.NDArray[Any],
    is_log: Bools,
    is_flush: Bools,
    clients: float = 0,
    flushes_of_commit: int = 1,
) -> Commits | None:
    """Give the commits among requests, by when each was sent and how long it took.

    `is_log`: writes of the log. All writes count as such if none is known to be. Of a number of
    `clients` it is told how long a turn takes, in which each commits once: a transaction of one of
    them, if they wait for each other. Those that share a flush count as one. A commit may have
    several flushes, one after the other. None if there is neither a flush nor a log write.
    """
    order = np.argsort(begin_ns, kind="stable")
    took = latency_ns[order].astype(np.float64) / 1e9
    logs, flushes = is_log[order], is_flush[order]
    where = np.flatnonzero(flushes)
    if not len(where):
        found = took[logs]
        return _summary(found, np.zeros(len(found))) if len(found) else None
    longest = _longest_before(took, logs, where)
    each = flushes_of_commit
    whole = len(where) // each * each
    if not whole:
        return None
    in_one = (-1, each)
    summary = _summary(
        (longest + took[where])[:whole].reshape(in_one).sum(axis=1),
        took[where][:whole].reshape(in_one).sum(axis=1),
    )
    turn = round(clients * each)
    if not 0 < turn < len(where):
        return summary
    ends = np.sort(begin_ns[order].astype(np.float64)[where] / 1e9 + took[where])
    turns = ends[turn:] - ends[:-turn]
    return replace(summary, turn_p99=float(np.quantile(turns, 0.99)))


def thought_elsewhere(
    begin_ns: npt.NDArray[Any], is_behind: Bools, thinks_ns: float
) -> npt.NDArray[Any]:
    """Give when requests begin, sent one by one, if nobody thinks after some of them.

    Now there is a time to think after each. All of it stays: the others have so much more. All
    requests are left as they are if there are no others.
    """
    order = np.argsort(begin_ns, kind="stable")
    behind = is_behind[order]
    others = int((~behind).sum())
    if not others:
        return begin_ns
    each = np.where(behind, -thinks_ns, thinks_ns * (len(behind) - others) / others)
    moved = np.empty(len(begin_ns))
    moved[order] = begin_ns[order] + np.cumsum(each) - each
    return moved


def _longest_before(took: Floats, logs: Bools, where: npt.NDArray[np.int64]) -> Floats:
    """Give for each flush the longest log write since the flush before it.

    Of a slice a flush may be there without its writes: the last log write before it stands for
    them.
    """
    at_log = np.flatnonzero(logs)
    if not len(at_log):
        return np.zeros(len(where))
    group = np.searchsorted(where, at_log)
    within = group < len(where)
    longest = np.zeros(len(where))
    np.maximum.at(longest, group[within], took[at_log[within]])
    last = np.searchsorted(at_log, where) - 1
    stands_in = np.where(last >= 0, took[at_log[np.maximum(last, 0)]], 0.0)
    return np.where(longest > 0, longest, stands_in)


def _summary(took: Floats, flushes: Floats) -> Commits:
    p25, p50, p99, p999 = np.quantile(took, (0.25, 0.5, 0.99, 0.999))
    return Commits(
        len(took),
        float(took.mean()),
        float(p50),
        float(p99),
        float(p999),
        float(flushes.mean()),
        p25=float(p25),
    )
