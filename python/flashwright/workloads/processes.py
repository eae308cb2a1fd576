"""Processes of ours that end when we do, however we end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from multiprocessing.pool import Pool


def context() -> ForkServerContext:
    """Give the context that all our processes are made in.

    Forked from one that has imported what they need.
    """
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["flashwright.workloads.preload"])
    return found


def pool(processes: int) -> Pool:
    """Make a pool whose processes leave Ctrl-C to us, and end when we do."""
    return context().Pool(processes, initializer=_begin)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(
            target=_leave_with, args=(parent.sentinel,), name="listening", daemon=True
        ).start()


def _leave_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
