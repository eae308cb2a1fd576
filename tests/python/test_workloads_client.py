"""A client of a workload, in a process of its own."""

from __future__ import annotations

import signal
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import pytest

from flashwright.workloads import client


def test_a_client_whose_starter_is_gone_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After kill -9 of all, server and starter: a client wrote a traceback to their terminal."""
    ours, its = Pipe()

    def run_client(*_: Any) -> float:
        ours.close()
        raise ConnectionError("the server closed the connection")

    monkeypatch.setattr(client, "run_client", run_client)
    # It would end this process with the client.
    monkeypatch.setattr(client, "_Ears", lambda _: SimpleNamespace(stopped=False))
    ours.send(("go", 0))
    start: Any = SimpleNamespace(control_group=None)
    heard = signal.getsignal(signal.SIGINT)
    try:
        client.client_main(start, its)
    finally:
        # A client hears no Ctrl-C; this process does.
        signal.signal(signal.SIGINT, heard)
