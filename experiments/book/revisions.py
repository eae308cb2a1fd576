"""Revisions that results name: in the history of this repository, or not."""

from __future__ import annotations

import re
import subprocess
from functools import cache

from experiments.book.kept import ROOT

DIRTY = "-dirty"
_REVISION = re.compile(r"revisions?\s+`?([0-9a-f]{7,40}(?:-dirty)?)\b")


def named(text: str) -> list[str]:
    """Give the revisions that a text names as such, `-dirty` with them, each once."""
    return list(dict.fromkeys(_REVISION.findall(text)))


def is_shallow() -> bool:
    """Tell whether this is a clone without its history, or no clone at all."""
    done = _git("rev-parse", "--is-shallow-repository")
    return done.returncode != 0 or done.stdout.strip() != "false"


@cache
def fault(revision: str) -> str:
    """Say what is wrong with a revision; empty if it is in the history and names all it had."""
    if not revision:
        return "not known"
    if revision.endswith(DIRTY):
        return "with changes that are in no revision"
    if is_shallow():
        return ""
    if _git("cat-file", "-e", f"{revision}^{{commit}}").returncode != 0:
        return "not in the history"
    if _git("merge-base", "--is-ancestor", revision, "HEAD").returncode != 0:
        return "not in the history of this branch"
    return ""


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=30, check=False
    )
