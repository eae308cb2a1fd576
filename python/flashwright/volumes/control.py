"""Asking a volume that is served: its server answers on a socket in the volume's folder."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

from flashwright._core import RunError

_PATIENCE_SECONDS = 60.0
"""A server that opens a large volume, or is short of processors, may take its time."""
_LOOK_SECONDS = 0.05


def _connected(path: Path, lives: Callable[[], bool]) -> socket.socket:
    """Connect to a server that may still be opening its volume."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(_PATIENCE_SECONDS)
        try:
            client.connect(str(path))
        except OSError:
            client.close()
            if not lives() or time.monotonic() > end:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return client


def ask(path: Path, what: str, lives: Callable[[], bool] = lambda: False) -> str:
    """Ask `scrub`, `scrub?` or `metrics`, and give the answer.

    As long as the server lives it is waited for, up to a minute.

    Raises RunError if no server answers there, or it says what is wrong.
    """
    try:
        with _connected(path, lives) as client:
            client.sendall(f"{what}\n".encode())
            parts = []
            while part := client.recv(1 << 16):
                parts.append(part)
    except OSError as error:
        raise RunError(f"{path}: the volume's server does not answer: {error}") from error
    text = b"".join(parts).decode()
    if text.startswith('{"error"'):
        raise RunError(f"{path}: the volume's server says: {json.loads(text)['error']}")
    return text
