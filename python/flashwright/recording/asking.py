"""Asks a database what its files hold, as the user that it belongs to and no other."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashwright._core import RunError
from flashwright._text import one_line
from flashwright.workloads.supervisor import clean_environment

_PROGRAM = Path(__file__).parent / "owner_asks.py"
_PATIENCE_S = 60.0
_BLOCK_BYTES = 1 << 20


class Asker:
    """Has one question of `owner_asks` answered, now and again later: used as a context.

    What comes back is the owner's word: it may be anything that JSON holds.
    """

    def __init__(self, uid: int, of: str, patience_s: float = _PATIENCE_S, **question: Any) -> None:
        """Start who asks, as the user `uid`.

        Raises:
            RunError: the user has no name here, or it cannot be started.
        """
        try:
            gid = pwd.getpwuid(uid).pw_gid
        except KeyError:
            raise RunError(f"it belongs to user {uid}, who has no name here") from None
        self._question = json.dumps({"of": of, "uid": uid, "gid": gid, **question}).encode()
        self._patience_s = patience_s
        try:
            self._process = subprocess.Popen(
                # Isolated: neither the folder nor the user's own packages count.
                [sys.executable, "-I", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env=clean_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise RunError(f"{sys.executable}: {error.strerror}") from error

    def __enter__(self) -> Asker:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End who asks."""
        self.close()

    def ask(self, *, is_last: bool = False) -> Mapping[str, Any]:
        """Give the answer, as it is now. `is_last`: it is not asked again.

        Raises:
            RunError: there is none, or what the database says is wrong.
        """
        line = self._answer(is_last=is_last)
        try:
            answer = json.loads(line)
        except ValueError:
            self._process.kill()
            stderr = self._process.stderr
            said = (stderr.read() if stderr else b"").decode(errors="replace").strip().splitlines()
            self._process.wait()
            why = said[-1] if said else f"exit {self._process.returncode}"
            raise RunError(f"no answer: {one_line(why)}") from None
        if "error" in answer:
            raise RunError(one_line(str(answer["error"])))
        return dict(answer)

    def _answer(self, *, is_last: bool) -> bytes:
        """Ask, and read a line; what there is if it ends before."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None or stdin.closed:
            return b""
        # Who does not read it may have answered all the same.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(self._question + b"\n")
            stdin.flush()
            if is_last:
                stdin.close()
        end, read = time.monotonic() + self._patience_s, bytearray()
        while not read.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise RunError(f"no answer within {self._patience_s:g} s")
            block = os.read(stdout.fileno(), _BLOCK_BYTES)
            if not block:
                break
            read += block
        return bytes(read)

    def close(self) -> None:
        """End who asks, whatever it is doing."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()


def ask(uid: int, of: str, patience_s: float = _PATIENCE_S, **question: Any) -> Mapping[str, Any]:
    """Have a question of `owner_asks` answered once, as the user `uid`.

    Raises:
        RunError: there is no answer, or what the database says is wrong.
    """
    with Asker(uid, of, patience_s, **question) as asker:
        return asker.ask(is_last=True)
