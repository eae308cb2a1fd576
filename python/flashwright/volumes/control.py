"""Asking a volume that is served: its server answers on a socket in the volume's folder."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from flashwright._core import RunError

_PATIENCE_SECONDS = 60.0
"""A server that opens a large volume, or is short of processors, may take its time."""


def ask(path: Path, what: str) -> str:
    """Ask `scrub`, `scrub?` or `metrics`, and give the answer.

    Raises RunError if no server answers there, or it says what is wrong.
    """
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_PATIENCE_SECONDS)
            client.connect(str(path))
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
