"""Asks a database what its files hold, as the user that it belongs to and no other."""

from __future__ import annotations

import json
import pwd
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashwright._core import RunError
from flashwright._text import one_line
from flashwright.workloads.supervisor import clean_environment

_PROGRAM = Path(__file__).parent / "owner_asks.py"
_PATIENCE_S = 60.0


def ask(uid: int, of: str, patience_s: float = _PATIENCE_S, **question: Any) -> Mapping[str, Any]:
    """Have a question of `owner_asks` answered, as the user `uid`.

    What comes back is the owner's word: it may be anything that JSON holds.

    Raises:
        RunError: there is no answer, or what the database says is wrong.
    """
    try:
        gid = pwd.getpwuid(uid).pw_gid
    except KeyError:
        raise RunError(f"it belongs to user {uid}, who has no name here") from None
    asked = json.dumps({"of": of, "uid": uid, "gid": gid, **question})
    try:
        done = subprocess.run(
            # Isolated: neither the folder nor the user's own packages count.
            [sys.executable, "-I", _PROGRAM],
            input=asked.encode(),
            capture_output=True,
            timeout=patience_s,
            check=False,
            cwd="/",
            env=clean_environment(),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"no answer within {patience_s:g} s") from None
    except OSError as error:
        raise RunError(f"{sys.executable}: {error.strerror}") from error
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = said[-1] if said else f"exit {done.returncode}"
        raise RunError(f"no answer: {one_line(why)}") from None
    if "error" in answer:
        raise RunError(one_line(str(answer["error"])))
    return dict(answer)
